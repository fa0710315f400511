"""Dictionaries, sets, tuples and lists: counting, grouping, joining, deleting."""
from collections import Counter, defaultdict, deque


def work():
    keys = [f"k{n * 7919 % 1013}" for n in range(15000)]
    count = {}
    for k in keys:
        count[k] = count.get(k, 0) + 1
    groups = defaultdict(list)
    for n, k in enumerate(keys):
        groups[len(k), k[-1]].append(n)
    edges = {(n, n * n % 509) for n in range(12000)} | {(n * n % 509, n) for n in range(6000)}
    reach, todo = {0}, deque([0])
    near = defaultdict(set)
    for a, b in edges:
        near[a].add(b)
    while todo:
        for b in near[todo.popleft()] - reach:
            reach.add(b)
            todo.append(b)
    for k in [k for k, n in count.items() if n % 2]:
        del count[k]
    most = Counter(keys).most_common(3)
    return len(count), len(groups), len(edges), len(reach), most
