"""Numbers, cells and Markdown."""
import re


def number(value):
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 0.1:
        return f"{value:.{0 if size >= 100 else 1 if size >= 10 else 2}f}"
    return f"{value:.2g}"


def brief(text, width=90):
    text = re.sub(r"/(?:[\w.@+-]+/){2,}", "…/", " ".join(str(text).split()))  # no paths of the machine
    return text if len(text) <= width else text[:width - 1] + "…"


def ended(kind, detail, width=70):
    return kind if kind in ("ok", "timeout") or not detail else f"{kind} ({brief(detail, width)})"


def table(title, head, rows, text=""):
    lines = [f"## {title}", ""] + ([text, ""] if text else [])
    lines += [line(head), "|---" + "|---:" * (len(head) - 1) + "|"] + [line(row) for row in rows]
    return "\n".join(lines) + "\n"


def line(cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
