"""Sorting: by value, by key, stably, of mixed lengths; bisection, heaps and merging."""
import bisect
import heapq
import operator


def work():
    seed, numbers = 12345, []
    for _ in range(12000):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        numbers.append(seed)
    up = sorted(numbers)
    rows = [(n % 100, str(n), n / 7) for n in numbers]
    rows.sort(key=operator.itemgetter(1))
    rows.sort(key=lambda r: (r[0], -r[2]))
    places = [bisect.bisect(up, n) for n in numbers[:4000]]
    heap = []
    for n in numbers[:5000]:
        heapq.heappush(heap, -n)
        if len(heap) > 500:
            heapq.heappop(heap)
    merged = list(heapq.merge(up[:3000], sorted(numbers[:3000])))
    return up[100], rows[0], rows[-1], sum(places), sum(heap), merged[500]
