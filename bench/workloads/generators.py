"""Generators: pipelines, delegation, send, and itertools between them."""
import itertools


def walk(n):
    if n:
        yield from walk(n - 1)
        yield n
        yield from walk(n - 1)


def average():
    total, count = 0, 0
    while True:
        total += yield total // count if count else 0
        count += 1


def windows(it, size):
    a = list(itertools.islice(it, size))
    for x in it:
        yield a
        a = a[1:] + [x]


def work():
    total = sum(sum(walk(12)) for _ in range(4))
    mean = average()
    next(mean)
    for x in (y * y % 1000 for y in range(60000) if y % 3):
        last = mean.send(x)
    total += sum(max(w) for w in windows(iter(range(6000)), 4))
    groups = [(k, sum(g)) for k, g in itertools.groupby(range(20000), lambda n: n // 700)]
    return total, last, groups[-1]
