"""What the guest runs while `make pgo` counts: everyday Python, a little of each kind.

No benchmark of this repository stands here, so what bench/ reports is not what was trained for. Each
part takes a fraction of a second; more of the same adds nothing to a profile.
"""
import asyncio
import base64
import bisect
import bz2
import collections
import contextlib
import csv
import dataclasses
import datetime
import decimal
import difflib
import enum
import fractions
import functools
import hashlib
import heapq
import hmac
import inspect
import io
import itertools
import json
import lzma
import math
import operator
import pickle
import random
import re
import sqlite3
import statistics
import string
import struct
import textwrap
import typing
import unicodedata
import zlib
from xml.etree import ElementTree

WORDS = ("lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore "
         "et dolore magna aliqua enim ad minim veniam quis nostrud").split()
BUILTIN_DIGESTS = {"_md5": "md5", "_sha1": "sha1", "_sha2": "sha224 sha256 sha384 sha512", "_blake2": "blake2b blake2s",
                   "_sha3": "sha3_224 sha3_256 sha3_384 sha3_512 shake_128 shake_256"}


def numbers():
    def collatz(n):
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps
    best = max(range(1, 3000), key=collatz)
    sieve = [True] * 60000
    for i in range(2, 245):
        if sieve[i]:
            sieve[i * i::i] = [False] * len(range(i * i, 60000, i))
    primes = [i for i in range(2, 60000) if sieve[i]]
    total = 0.0
    for i in range(60000):
        x = i * 0.001
        total += math.sin(x) * x ** 0.5 - math.exp(-x) + abs(x - 30.0) / (x + 1.5)
    grid = [[(r * 31 + c * 17) % 101 / 7.0 for c in range(60)] for r in range(60)]
    product = [[sum(a * b for a, b in zip(row, column)) for column in zip(*grid)] for row in grid[:20]]
    big = math.factorial(900) // 3 ** 200 + pow(7, 65537, 10 ** 50 + 151) * (1 << 300)
    bits = 0
    for i in range(40000):
        bits ^= (i << 3) & 0xFFFF | i >> 2
    return best, len(primes), total, product[3][4], len(str(big)), bits


def calls():
    def ackermann(m, n):
        if m == 0:
            return n + 1
        return ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))

    def hanoi(n, a, b, c):
        return 0 if n == 0 else hanoi(n - 1, a, c, b) + 1 + hanoi(n - 1, c, b, a)

    @functools.lru_cache(maxsize=None)
    def ways(n, k=5):
        return 1 if n == 0 else 0 if n < 0 or k == 0 else ways(n, k - 1) + ways(n - k, k)

    def vary(a, b=2, *rest, scale=1, **more):
        return (a + b + len(rest) + len(more)) * scale
    total = sum(vary(i, 3, 4, scale=2, x=i) + vary(i) + vary(*(1, 2, 3)) for i in range(12000))
    compose = functools.reduce(lambda f, g: lambda x: f(g(x)), [operator.neg, abs, float, int])
    total += sum(map(compose, range(8000)))
    return ackermann(2, 120), hanoi(13, 1, 2, 3), ways(400), total


class Shape:
    count = 0

    def __init__(self, name, size):
        self.name, self.size = name, size
        Shape.count += 1

    def area(self):
        raise NotImplementedError

    def __lt__(self, other):
        return self.area() < other.area()

    @property
    def label(self):
        return f"{self.name}:{self.area():.2f}"


class Circle(Shape):
    def __init__(self, size):
        super().__init__("circle", size)

    def area(self):
        return math.pi * self.size ** 2


class Box(Shape):
    __slots__ = ("depth",)

    def __init__(self, size, depth=2):
        super().__init__("box", size)
        self.depth = depth

    def area(self):
        return self.size * self.depth

    def __eq__(self, other):
        return isinstance(other, Box) and (self.size, self.depth) == (other.size, other.depth)

    def __hash__(self):
        return hash((self.size, self.depth))


@dataclasses.dataclass(order=True)
class Vector:
    x: float = 0.0
    y: float = 0.0
    tags: list = dataclasses.field(default_factory=list, compare=False)

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __getitem__(self, i):
        return (self.x, self.y)[i]


class Level(enum.IntEnum):
    LOW, MIDDLE, HIGH = range(3)


Point = collections.namedtuple("Point", "x y")


class Pair(typing.NamedTuple):
    key: str
    value: int = 0


def objects():
    shapes = [Circle(i % 17 + 1) if i % 3 else Box(i % 23 + 1) for i in range(6000)]
    shapes.sort()
    labels = {s.label for s in shapes}
    boxes = set(s for s in shapes if isinstance(s, Box))
    total = Vector()
    for i in range(12000):
        total = total + Vector(i, -i / 2)
    points = [Point(i, i * i % 13) for i in range(8000)]
    points.sort(key=lambda p: (p.y, -p.x))
    levels = collections.Counter(Level(i % 3) for i in range(6000))
    pairs = [Pair(w, len(w))._replace(value=3) for w in WORDS * 30]
    return len(labels), len(boxes), total[0], points[7], levels[Level.HIGH], pairs[-1].value


def containers():
    table = {}
    for i in range(40000):
        table[i * 7 % 5003] = table.get(i * 7 % 5003, 0) + i
    groups = collections.defaultdict(list)
    for i, word in enumerate(WORDS * 400):
        groups[word[0], len(word)].append(i)
    queue = collections.deque(range(1000), maxlen=1500)
    for i in range(20000):
        queue.append(queue.popleft() + i % 3)
    heap = []
    for i in range(6000):
        heapq.heappush(heap, (i * 7919 % 6007, str(i)))
    low = [heapq.heappop(heap) for _ in range(3000)]
    ordered = []
    for i in range(4000):
        bisect.insort(ordered, i * 7919 % 4001)
    data = [random.Random(5).random() for _ in range(3000)]
    data.sort()
    names = sorted(WORDS * 200, key=str.upper, reverse=True)
    a, b = set(range(0, 9000, 3)), set(range(0, 9000, 5))
    nested = [[*row, sum(row)] for row in ([i, i + 1, i + 2] for i in range(9000))]
    merged = {**table, **{k: len(v) for k, v in groups.items()}}
    first, *middle, last = nested[5]
    return len(a & b | a ^ b), low[9], names[3], len(merged), first + last, ordered[7], data[1] < data[2], middle


def generators():
    def tree(n):
        return None if n == 0 else (tree(n - 1), n, tree(n - 1))

    def walk(t):
        if t is not None:
            yield from walk(t[0])
            yield t[1]
            yield from walk(t[2])

    def average():
        total = count = 0
        while True:
            total += yield total / (count or 1)
            count += 1
    mean = average()
    next(mean)
    for i in range(12000):
        mean.send(i)
    pairs = sum(a * b for a, b in itertools.combinations(range(150), 2))
    windows = sum(map(max, itertools.batched(itertools.chain(range(9000), range(9000)), 5)))
    grouped = [(k, len(list(g))) for k, g in itertools.groupby(sorted(WORDS * 60), key=len)]
    product = sum(1 for p in itertools.product("abcd", repeat=5) if p[0] < p[-1])
    return sum(walk(tree(11))), pairs, windows, grouped, product


def text():
    lines = [" ".join(WORDS[(i + k) % len(WORDS)] for k in range(9)) for i in range(700)]
    whole = "\n".join(lines)
    count = collections.Counter(whole.split())
    out = io.StringIO()
    for i, line in enumerate(lines):
        parts = line.title().split(" ")
        out.write(f"{i:>5} {parts[0]:<12}|{len(line):04x}|{i / 7:.3f}|{parts[1]!r}\n")
        out.write("%-8s %5.1f %d\n" % (parts[2], i * 1.5, i))
        out.write("{0}-{1:,}".format(line[3:9].strip(), i * 1000))
    total = 0
    for ch in whole:
        if ch in "aeiou":
            total += 1
        elif ch.isspace() or not ch.isalpha():
            total -= 1
    swapped = whole.replace("or", "OR").translate(str.maketrans("abc", "xyz")).encode("utf-8").decode("utf-8")
    accents = "".join(chr(0xE0 + i % 30) + chr(0x4E00 + i) for i in range(1500)).encode().decode()
    wrapped = textwrap.fill(whole[:3000], 60) + string.Template("$a $b").substitute(a=1, b=2)
    close = difflib.get_close_matches("lorm", WORDS)
    rev = sum(line == line[::-1] or line.startswith("lorem") or line.find("magna") > 9 for line in lines)
    return count["ut"], len(out.getvalue()), total, len(swapped), len(accents), len(wrapped), close, rev


def patterns():
    log = "\n".join(f"2024-0{i % 9 + 1}-1{i % 9} 12:{i % 60:02}:00 [{'WARN' if i % 5 else 'ERROR'}] "
                    f"user{i}@example.org took {i * 3 % 977}ms path=/a/{i}/b?x={i}" for i in range(700))
    found = re.findall(r"(\d{4})-(\d\d)-\d\d (\d+):(\d+)", log)
    mails = [m.group("user") for m in re.finditer(r"(?P<user>[a-z]+\d+)@[\w.]+", log)]
    times = re.sub(r"\b(\d+)ms\b", lambda m: str(int(m[1]) * 2) + "us", log)
    parts = re.split(r"[\s,;=?/]+", log)
    lazy = re.search(r"\[ERROR\].*?path=(\S+)(?=\?x)", log, re.S)
    case = re.compile(r"(?i)warn|(?:user(?!1)\d)", re.M).subn("", log)
    return len(found), len(mails), len(times), len(parts), lazy[1], case[1]


def data_formats():
    rows = [{"id": i, "name": WORDS[i % 20], "values": [i * 0.5, None, True, str(i)], "more": {"k": [i] * 3, "é": "ü\n"}}
            for i in range(500)]
    encoded = json.dumps(rows)
    again = json.loads(encoded)
    pretty = json.dumps(again[:60], indent=2, sort_keys=True, ensure_ascii=False)
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerows([r["id"], r["name"], r["values"][0]] for r in rows)
    file.seek(0)
    cells = sum(len(r) for r in csv.DictReader(file))
    pickled = pickle.loads(pickle.dumps(rows))
    packed = b"".join(struct.pack("<IdhB", i, i / 3, i % 99, i % 7) for i in range(3000))
    fields = sum(t[0] for t in struct.iter_unpack("<IdhB", packed))
    squeezed = zlib.decompress(zlib.compress(encoded.encode()))
    coded = base64.b64decode(base64.b64encode(packed)) == packed
    db = sqlite3.connect(":memory:")
    db.execute("create table t(id integer primary key, name text, v real)")
    db.executemany("insert into t values(?,?,?)", [(r["id"], r["name"], r["values"][0]) for r in rows])
    db.execute("create index i on t(name)")
    totals = db.execute("select name, count(*), sum(v) from t where id > 20 group by name order by 3 desc").fetchall()
    return len(pretty), cells, len(pickled), fields, coded, totals[0]


def bulk():
    """What C does with many bytes: a function that no part here runs is compiled as one that never runs."""
    data = "".join(f"{w} {i * i}\n" for i, w in enumerate(WORDS * 300)).encode()
    sums = [hashlib.new(name, data).block_size for name in sorted(hashlib.algorithms_available)]
    sums += [len(f(data[i:i + 40]).digest()) for i in range(300) for f in (hashlib.md5, hashlib.sha1, hashlib.sha256)]
    for module, names in BUILTIN_DIGESTS.items():
        sums += [getattr(__import__(module), name)(data).block_size for name in names.split()]
    macs = [hmac.new(b"key", data[i:i + 64], "sha256").digest() for i in range(100)]
    keys = hashlib.pbkdf2_hmac("sha256", b"word", b"salt", 500), hashlib.scrypt(b"word", salt=b"salt", n=256, r=8, p=1)
    sizes = [len(module.compress(data)) for module in (bz2, lzma, zlib)]
    same = all(module.decompress(module.compress(data)) == data for module in (bz2, lzma))
    tree = ElementTree.fromstring("<r>" + "".join(f"<w n='{i}'>{w} &amp; é</w>" for i, w in enumerate(WORDS * 30)) + "</r>")
    found = sum(int(e.get("n")) for e in tree.iter("w")), len(ElementTree.tostring(tree))
    names = unicodedata.normalize("NFD", "Ångström žluťoučký " * 50), [unicodedata.name(chr(c), "") for c in range(900)]
    return sum(sums), len(macs), len(keys), sizes, same, found, len(names[0])


def errors():
    class Refused(ValueError):
        pass

    @contextlib.contextmanager
    def guard(log):
        try:
            yield log
        except KeyError as e:
            log.append(str(e))
        finally:
            log.append("end")

    def check(i):
        if i % 3 == 0:
            raise Refused(f"no {i}")
        return {"a": i}["a" if i % 5 else "b"]
    log, refused = [], 0
    for i in range(9000):
        try:
            check(i)
        except Refused:
            refused += 1
        except LookupError as e:
            try:
                raise RuntimeError("again") from e
            except RuntimeError:
                pass
        else:
            continue
    for i in range(3000):
        with guard(log) as it:
            it.append({1: 2}[i % 2])
    for value in ([1, 2, 3], {"k": 1, "z": 2}, "text", (1, "a"), 7, None, Point(1, 2)) * 700:
        match value:
            case [1, *rest]:
                refused += len(rest)
            case {"k": int(k), **more}:
                refused += k + len(more)
            case Point(x=x) if x > 0:
                refused += x
            case str() | None:
                refused += 1
            case (a, b):
                refused += a
            case _:
                refused -= 1
    return refused, len(log)


def exact():
    a = sum((fractions.Fraction(1, i) for i in range(1, 120)), fractions.Fraction(0))
    with decimal.localcontext(decimal.Context(prec=40)):
        d = decimal.Decimal(2).sqrt() * sum(decimal.Decimal(i) / 7 for i in range(1500))
    day = datetime.datetime(2024, 2, 27, 5)
    days = [(day + datetime.timedelta(hours=5 * i)).isoformat() for i in range(1500)]
    parsed = sum(datetime.datetime.fromisoformat(t).weekday() for t in days)
    spread = statistics.pstdev(range(500)), statistics.median([3, 1, 2])
    rng = random.Random(3)
    drawn = sum(rng.randint(1, 6) for _ in range(9000)) + len(rng.sample(range(1000), 99)) + rng.gauss(0, 1)
    return a.denominator % 1009, str(d)[:9], parsed, spread, drawn > 0


async def waiting():
    async def worker(queue, done):
        while True:
            item = await queue.get()
            if item is None:
                return
            await asyncio.sleep(0)
            done.append(item * 2)
    queue, done = asyncio.Queue(9), []
    tasks = [asyncio.create_task(worker(queue, done)) for _ in range(5)]
    for i in range(1500):
        await queue.put(i)
    for _ in tasks:
        await queue.put(None)
    await asyncio.gather(*tasks)

    async def numbers(n):
        for i in range(n):
            yield i
    total = 0
    async for i in numbers(3000):
        total += i
    return len(done), total


def source():
    """Compiles and runs sources, as the sandbox does with every snippet."""
    total = 0
    for i in range(60):
        code = compile(f"def f(x):\n    y = [x * k for k in range({i})]\n    return sum(y) if y else {i}\nr = f(3)\n"
                       f"class C:\n    '''text'''\n    v: int = {i}\n    def m(self): return self.v + r\n"
                       f"print(C().m(), end='')\n", "<snippet>", "exec")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, {})
        total += int(out.getvalue())
    text = inspect.getsource(dataclasses)
    return total, len(compile(text, "dataclasses", "exec").co_consts)


def main():
    for part in (numbers, calls, objects, containers, generators, text, patterns, data_formats, bulk, errors, exact, source):
        for _ in range(2):
            result = part()
        print(part.__name__, result)
    return waiting()


print("waiting", asyncio.run(main()))
