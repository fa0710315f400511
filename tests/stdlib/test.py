#!/usr/bin/env python3
"""Checks every row of modules.toml in the sandbox, each in a fresh Python: test.py [BRUMATE] [MODULE...]"""
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import page

REPO = Path(__file__).resolve().parents[2]
ABSENT = """
try:
    import {name}
except ImportError as e:
    assert {error!r} in str(e), str(e)
else:
    raise AssertionError("{name} is there")
"""


def program(name, row):
    if row["state"] == "absent":
        return ABSENT.format(name=name, error=row["error"])
    return f"import {name}\n{row.get('check', '')}"


def check(command, name, row):
    """None, or the last line of what went wrong."""
    done = subprocess.run([command, "--timeout", "60s", "-c", program(name, row)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return None if done.returncode == 0 else (done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else REPO / "build" / "brumate"
    table = {name: row for name, row in page.rows().items() if len(sys.argv) < 3 or name in sys.argv[2:]}
    with ThreadPoolExecutor(2) as pool:
        wrong = list(pool.map(lambda item: check(command, *item), table.items()))
    for name, why in zip(table, wrong):
        if why:
            print(f"{name}: {why}", file=sys.stderr)
    stale = page.PAGE.read_text() != page.text()
    if stale:
        print("docs/stdlib.md is not what tests/stdlib/page.py writes", file=sys.stderr)
    failed = sum(w is not None for w in wrong) + stale
    print(f"{len(wrong) + 1 - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
