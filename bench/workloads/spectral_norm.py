"""Floats, comprehensions and small calls: the largest singular value of an endless matrix, cut at N."""

N = 75


def entry(i, j):
    return 1.0 / ((i + j) * (i + j + 1) / 2 + i + 1)


def apply(v):
    return [sum([entry(i, j) * x for j, x in enumerate(v)]) for i in range(N)]


def apply_transposed(v):
    return [sum([entry(j, i) * x for j, x in enumerate(v)]) for i in range(N)]


def work():
    u = v = [1.0] * N
    for _ in range(5):
        v = apply_transposed(apply(u))
        u = apply_transposed(apply(v))
    return round((sum(a * b for a, b in zip(u, v)) / sum(b * b for b in v)) ** 0.5, 7)
