"""A hundred programs in a hundred fresh sandboxes, over a pool of warm ones."""

import time

import brumate

programs = [f"result = sum(i * i for i in range({n}))" for n in range(100)]

with brumate.Pool(size=2) as pool:
    begin = time.perf_counter()
    answers = [done.result for done in pool.map(programs)]
    took = time.perf_counter() - begin

assert answers == [sum(i * i for i in range(n)) for n in range(100)]
print(f"{len(answers)} sandboxes, {took * 1e3:.1f} ms: {answers[:5]} ... {answers[-1]}")
