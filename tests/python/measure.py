"""What this process uses, as Linux tells it."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable

MIB = 1 << 20


def rss_bytes() -> int:
    """Memory that is this process's own (pages of mapped files that others share do not count)."""
    gc.collect()
    with open("/proc/self/smaps_rollup") as f:
        return sum(int(line.split()[1]) * 1024 for line in f if line.startswith("Private_"))


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def grows_by(body: Callable[[], object], rounds: int, warm_up: int = 3) -> tuple[int, int]:
    """How many bytes and descriptors more there are after `rounds` of `body` than before, once it has
    run some times. What allocators keep comes once; what leaks comes every time: the least of three
    is told."""
    for _ in range(warm_up):
        body()
    grown: list[tuple[int, int]] = []
    while not grown or (len(grown) < 3 and grown[-1][0] > MIB):
        memory, files = rss_bytes(), descriptors()
        for _ in range(rounds):
            body()
        grown.append((rss_bytes() - memory, descriptors() - files))
    return min(memory for memory, _ in grown), min(files for _, files in grown)
