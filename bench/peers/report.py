"""Numbers, cells and Markdown."""
import re


def number(value):
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


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
