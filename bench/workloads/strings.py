"""Text: formatting, splitting, joining, searching, case, encoding, translation."""


def work():
    vowels = str.maketrans("aeiou", "43102")
    words = ("the quick brown fox jumps over the lazy dog " * 40).split()
    lines, total = [], 0
    for n in range(1800):
        w = words[n % len(words)]
        line = f"{n:>6}|{w:<10}|{n / 7:8.3f}|{n:#x}" + " %s-%05d" % (w.title(), n)
        lines.append(line.translate(vowels).replace("|", " | ").strip())
        total += line.find("x") + line.count("0") + line.startswith("  ") + len(line.encode("utf-16"))
    text = "\n".join(lines)
    for _ in range(8):
        parts = [p.partition(" ") for p in text.splitlines()]
        text = "\n".join(b.upper() + "é" + a if len(a) % 2 else a + "ü" + b.swapcase() for a, _, b in parts)
        total += len(text.encode()) + sum(map(ord, text[::97]))
    return total, "".join(sorted(set(text)))[:40]
