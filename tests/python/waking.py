"""Wakes snapshots in a process of its own: reads (snapshot, code) pairs, pickled, and answers what each printed."""

from __future__ import annotations

import pickle
import sys

import brumate

LIMITS = brumate.ResourceLimits(max_memory_bytes=512 << 20)


def wake(snapshot: bytes, code: str) -> str:
    with brumate.resume(snapshot, resource_limits=LIMITS) as session:
        try:
            return session.execute(code).stdout
        except brumate.BrumateError as e:
            return f"{e.stdout}{type(e).__name__}: {e}"


if __name__ == "__main__":
    pairs = pickle.load(sys.stdin.buffer)
    pickle.dump([wake(*pair) for pair in pairs], sys.stdout.buffer)
