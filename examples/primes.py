"""Plain computing: the primes up to a limit, by the sieve of Eratosthenes.

    brumate examples/primes.py 100000
"""

import sys
import time


def primes(limit):
    sieve = bytearray([1]) * (limit + 1)
    sieve[:2] = b"\0\0"[:limit + 1]
    for n in range(2, int(limit**0.5) + 1):
        if sieve[n]:
            sieve[n * n::n] = bytes(len(range(n * n, limit + 1, n)))
    return [n for n, prime in enumerate(sieve) if prime]


limit = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
begin = time.perf_counter()
found = primes(limit)
print(f"{len(found)} primes up to {limit}, the last are {found[-3:]}, "
      f"in {(time.perf_counter() - begin) * 1000:.0f} ms")
