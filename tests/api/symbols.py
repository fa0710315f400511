"""What the shared library shows is bru_ and nothing else, and all that its headers declare."""

import pathlib
import re
import subprocess
import sys

library, include = sys.argv[1:]
nm = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
shown = {line.split()[2].split("@")[0] for line in nm.stdout.splitlines()}
declared = set()
for header in pathlib.Path(include, "brumate").glob("*.h"):
    declared |= set(re.findall(r"BRU_API\b[^;{]*?\b(bru_\w+)\(", header.read_text()))

failed = 0
for what, names in [("shown but not public", shown - declared), ("declared but not there", declared - shown)]:
    for name in sorted(names):
        failed += 1
        print(f"{what}: {name}", file=sys.stderr)
print(f"{len(shown & declared)} passed, {failed} failed")
sys.exit(failed > 0)
