"""What this process uses, as Linux tells it."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable


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
    """How many bytes and descriptors more there are after `rounds` of `body` than after the first few."""
    for _ in range(warm_up):
        body()
    memory, files = rss_bytes(), descriptors()
    for _ in range(rounds):
        body()
    return rss_bytes() - memory, descriptors() - files
