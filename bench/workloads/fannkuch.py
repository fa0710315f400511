"""Lists as arrays: how often a prefix must be turned over until 1 lies on top, over all permutations."""


def permutations(n):
    p, turns = list(range(n)), [0] * n
    yield p
    i = 1
    while i < n:
        if turns[i] < i:
            j = turns[i] if i & 1 else 0
            p[i], p[j] = p[j], p[i]
            yield p
            turns[i] += 1
            i = 1
        else:
            turns[i] = 0
            i += 1


def work():
    most = total = 0
    for p in permutations(8):
        deck, flips = p[:], 0
        while top := deck[0]:
            deck[:top + 1] = deck[top::-1]
            flips += 1
        total += flips
        if flips > most:
            most = flips
    return most, total
