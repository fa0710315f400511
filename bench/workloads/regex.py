"""Regular expressions over a log: groups, alternatives, lazy repeats, substitution by a function."""
import re

LINE = re.compile(r'(?P<host>\S+) \[(?P<day>\d\d)/(?P<month>\w{3})/(\d{4}):(\d\d):(\d\d)\] "(GET|POST) (\S+)" (\d{3}) (\d+|-)')


def work():
    text = "".join(f'10.0.{n % 7}.{n % 251} [{n % 28 + 1:02}/Mar/2026:{n % 24:02}:{n % 60:02}] '
                   f'"{"POST" if n % 3 else "GET"} /a/{n * 37 % 1000}?q={n:x}" {200 + n % 5} {n if n % 4 else "-"}\n'
                   for n in range(1600))
    found = [m.group("host", "day", 7, 8) for m in LINE.finditer(text)]
    swapped = re.sub(r"(\w+)/(\w+)/(\d+)", lambda m: m[3] + m[2] + m[1], text)
    quoted = re.findall(r'"(.*?)"', text)
    words = re.split(r"[\s/?=:]+", swapped)
    odd = re.findall(r"(?i)\b(?:get|put|patch)\b\s+(/[^?\s]*)(?=\?q=[0-9a-f]*[05af]\b)", text)
    return len(found), found[-1], len(swapped), len(quoted), len(words), len(odd)
