"""What meeting a limit looks like from inside. Some limits are exceptions that a program may catch
and outlive; run it with tighter or wider ones to see the difference:

    brumate --memory 64M --files 1M examples/limits.py
    brumate --memory 64M --timeout 300ms examples/limits.py
"""

import sys
import time

# Memory that is not granted is a MemoryError, and the program goes on.
try:
    hoard = []
    while True:
        hoard.append(bytearray(8 << 20))
except MemoryError:
    got = len(hoard) * 8
    del hoard
    print(f"memory: MemoryError after {got} MB; the program goes on")

# So is a full file system.
try:
    with open("big", "wb") as f:
        for megabytes in range(10_000):
            f.write(bytes(1 << 20))
            f.flush()
except OSError as e:
    print(f"files: {type(e).__name__} after {megabytes} MB: {e.strerror}")

# Recursion ends as it does elsewhere.
def deeper(n):
    return deeper(n + 1)

try:
    deeper(0)
except RecursionError as e:
    print("recursion:", e)

# A deadline is an exception first: there is a moment to clean up. Swallowing it does not help, the
# stop that follows cannot be caught.
begin = time.monotonic()
try:
    while time.monotonic() - begin < 0.5:
        pass
    print("time: half a second of work, no deadline came")
finally:
    print(f"time: leaving after {(time.monotonic() - begin) * 1000:.0f} ms", file=sys.stderr)
