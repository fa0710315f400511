"""State of every awkward kind: code that makes it, code that uses it afterwards, and what that prints."""

from __future__ import annotations

KINDS: dict[str, tuple[str, str, str]] = {
    "variables": ("a, b = [1], {'k': (2, None)}; c = a", "c.append(3); print(a, b)", "[1, 3] {'k': (2, None)}"),
    "running generator": (
        "def g():\n    total = 0\n    while True:\n        total += yield total\nit = g(); next(it); it.send(5)",
        "print(it.send(7))",
        "12",
    ),
    "generator inside try": (
        "def g():\n    try:\n        yield 1\n    finally:\n        print('closed')\nit = g(); next(it)",
        "it.close()",
        "closed",
    ),
    "generator expression": ("it = (n * n for n in range(9)); next(it); next(it)", "print(next(it))", "4"),
    "running coroutine": (
        "class Wait:\n    def __await__(self):\n        return (yield 'asked')\n"
        "async def f():\n    return 'got ' + await Wait()\nc = f(); c.send(None)",
        "try: c.send('it')\nexcept StopIteration as e: print(e.value)",
        "got it",
    ),
    "async generator": (
        "async def g():\n    n = 0\n    while True:\n        n += 1\n        yield n\n"
        "def step(it):\n    try: it.__anext__().send(None)\n    except StopIteration as e: return e.value\n"
        "it = g(); step(it)",
        "print(step(it), step(it))",
        "2 3",
    ),
    "task of the event loop": (
        "import asyncio\ndone = []\nasync def f():\n    await asyncio.sleep(0.01)\n    done.append(1)\n    return 'over'\n"
        "async def main():\n    return await asyncio.gather(f(), f())\nr = await main()",
        "print(r, done)",
        "['over', 'over'] [1, 1]",
    ),
    "lambda": ("f = lambda n, k=[3]: n + k[0]", "print(f(4))", "7"),
    "class": (
        "class A:\n    __slots__ = ('x',)\n    def __init__(self, x): self.x = x\n"
        "class B(A):\n    @property\n    def double(self): return self.x * 2\nb = B(4)",
        "print(b.double, type(b) is B, B.__mro__[1] is A)",
        "8 True True",
    ),
    "metaclass and enum": (
        "import enum\nclass M(type):\n    def __call__(c, *a): return (c.__name__, a)\nclass K(metaclass=M): pass\n"
        "class E(enum.Enum): ONE = 1",
        "print(K(2), E(1) is E.ONE, E.ONE)",
        "('K', (2,)) True E.ONE",
    ),
    "closure": (
        "def counter():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n        return n\n    return up, lambda: n\n"
        "up, now = counter(); up()",
        "up(); print(now())",
        "2",
    ),
    "file being read": (
        "open('/data/f', 'w').write('one\\ntwo\\nthree\\n'); f = open('/data/f'); f.readline()",
        "print(f.readline().strip(), f.read().strip(), f.closed)",
        "two three False",
    ),
    "file being written": (
        "f = open('/data/f', 'w'); f.write('begun, ')",
        "f.write('done'); f.close(); print(open('/data/f').read())",
        "begun, done",
    ),
    "file without a name": (
        "import os\nf = open('/data/f', 'w+b'); f.write(b'hidden'); f.flush(); f.seek(2); os.unlink('/data/f')",
        "print(f.read())",
        "b'dden'",
    ),
    "temporary file": (
        "import tempfile\nt = tempfile.TemporaryFile(); t.write(b'abc'); t.seek(1)", "print(t.read())", "b'bc'",
    ),
    "sqlite in mid-transaction": (
        "import sqlite3\ndb = sqlite3.connect('/data/db'); db.execute('create table t(x)'); db.execute('insert into t values(1)')\n"
        "db.commit(); db.execute('insert into t values(2)')",
        "print(db.in_transaction, db.execute('select sum(x) from t').fetchone()); db.rollback()\n"
        "print(db.execute('select sum(x) from t').fetchone())\n"
        "db.execute('insert into t values(5)'); db.commit(); print(sqlite3.connect('/data/db').execute('select sum(x) from t').fetchone())",
        "True (3,)\n(1,)\n(6,)",
    ),
    "sqlite cursor half read": (
        "import sqlite3\ndb = sqlite3.connect(':memory:'); db.execute('create table t(x)')\n"
        "db.executemany('insert into t values(?)', [(n,) for n in range(5)]); c = db.execute('select x from t'); c.fetchone()",
        "print(c.fetchall())",
        "[(1,), (2,), (3,), (4,)]",
    ),
    "iterators": (
        "a = iter([1, 2, 3]); b = iter({'x': 1, 'y': 2}.items()); c = iter('abc'); d = reversed(range(5)); z = zip(a, c)\n"
        "next(a); next(b); next(c); next(d)",
        "print(next(b), next(d), list(z))",
        "('y', 2) 3 [(2, 'b'), (3, 'c')]",
    ),
    "itertools": (
        "import itertools as it\na = it.count(5); b = it.cycle('xy'); c, d = it.tee(range(9)); e = it.groupby('aabb'); f = it.permutations('abc')\n"
        "next(a); next(b); next(c); k, g = next(e); next(g); next(f)",
        "print(next(a), next(b), next(c), next(d), list(g), next(f))",
        "6 y 1 0 ['a'] ('a', 'c', 'b')",
    ),
    "locks": (
        "import threading, asyncio\na = threading.Lock(); a.acquire(); r = threading.RLock(); r.acquire(); r.acquire()\n"
        "s = threading.Semaphore(2); s.acquire(); al = asyncio.Lock(); await al.acquire()",
        "print(a.locked(), a.acquire(False), al.locked()); a.release(); r.release(); r.release(); al.release()\n"
        "print(a.locked(), s.acquire(False), s.acquire(False), al.locked())",
        "True False True\nFalse True False False",
    ),
    "weakrefs": (
        "import weakref\nclass O: pass\no = O(); w = weakref.ref(o, lambda _: print('gone')); d = weakref.WeakValueDictionary(k=o)",
        "print(w() is o, d['k'] is o); del o; print(w(), len(d))",
        "True True\ngone\nNone 0",
    ),
    "finalizer": (
        "import weakref\nclass O: pass\no = O(); weakref.finalize(o, print, 'finalized')", "del o", "finalized",
    ),
    "context variables": (
        "import contextvars\nv = contextvars.ContextVar('v', default=0); t = v.set(1); c = contextvars.copy_context(); v.set(2)",
        "print(c[v], v.get(), c.run(v.get))",
        "1 2 1",
    ),
    "exception with traceback": (
        "def f(): raise ValueError('deep') from KeyError('cause')\ntry: f()\nexcept ValueError as e: kept = e",
        "import traceback\nprint(repr(kept), repr(kept.__cause__), traceback.extract_tb(kept.__traceback__)[-1].name)\n"
        "print(kept.__traceback__.tb_next.tb_frame.f_code.co_name)",
        "ValueError('deep') KeyError('cause') f\nf",
    ),
    "zip file half read": (
        "import zipfile\nwith zipfile.ZipFile('/data/z', 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('a', b'0123456789' * 1000)\n"
        "z = zipfile.ZipFile('/data/z'); f = z.open('a'); f.read(5005)",
        "print(f.read(5), len(f.read()), z.testzip())",
        "b'56789' 4990 None",
    ),
    "compressor under way": (
        "import zlib\nz = zlib.compressobj(); p = z.compress(b'first ' * 100)",
        "print(zlib.decompress(p + z.compress(b'last') + z.flush())[-10:])",
        "b'first last'",
    ),
    "hash under way": (
        "import hashlib\nh = hashlib.sha256(b'ab')",
        "h.update(b'c'); print(h.hexdigest()[:16])",
        "ba7816bf8f01cfea",
    ),
    "seeded generator of one's own": (
        "import random\nr = random.Random(5); r.random(); twin = random.Random(5); twin.random()",
        "print(r.random() == twin.random())",
        "True",
    ),
    "imported modules and their changes": (
        "import json, sys; json.MARK = 1; sys.path.append('/zz')",
        "import json as j; print(j is json, json.MARK, '/zz' in sys.path)",
        "True 1 True",
    ),
    "module made at run time": (
        "import types, sys\nm = types.ModuleType('made'); exec('def f(): return 8', m.__dict__); sys.modules['made'] = m",
        "import made; print(made.f())",
        "8",
    ),
    "compiled expressions": (
        "import re, ast\np = re.compile(r'(?P<n>\\d+)'); i = p.finditer('1 2 3'); next(i); code = compile('3 * n', '<e>', 'eval'); n = 5",
        "print(next(i)['n'], eval(code))",
        "2 15",
    ),
    "cycles and garbage": (
        "import gc\nclass N: pass\nn = N(); n.self = n; m = [n]; n.m = m",
        "print(n.self is n, n.m is m); del n, m; print(gc.collect() > 0)",
        "True True\nTrue",
    ),
    "deep structure": (
        "d = []\nfor _ in range(5000): d = [d]", "n = 0\nwhile d: d = d[0]; n += 1\nprint(n)", "5000",
    ),
    "buffers and views": (
        "import array\na = array.array('i', range(5)); v = memoryview(a)[1:3]; b = bytearray(b'abc')",
        "v[0] = 9; print(a.tolist(), v.tolist(), b)",
        "[0, 9, 2, 3, 4] [9, 2] bytearray(b'abc')",
    ),
    "decimal context": (
        "import decimal; decimal.getcontext().prec = 5", "print(decimal.Decimal(1) / 3)", "0.33333",
    ),
    "standard streams replaced": (
        "import io, sys\nb = io.StringIO(); old = sys.stdout; sys.stdout = b; print('into b')",
        "sys.stdout = old; print(repr(b.getvalue()))",
        "'into b\\n'",
    ),
    "functions with a cache": (
        "import functools\n@functools.lru_cache\ndef f(n): return n + 1\nf(1); f(1)",
        "print(f.cache_info().hits); g = functools.partial(f, 2); print(g())",
        "1\n3",
    ),
    "context manager entered": (
        "import contextlib\n@contextlib.contextmanager\ndef cm():\n    print('in')\n    yield 5\n    print('out')\nc = cm(); v = c.__enter__()",
        "c.__exit__(None, None, None); print(v)",
        "out\n5",
    ),
}

LARGE: dict[str, tuple[str, str, str]] = {
    "array of 50 MB": (
        "import array, hashlib, os\na = array.array('B', os.urandom(1 << 20) * 50); h = hashlib.sha256(a).hexdigest()",
        "print(len(a), hashlib.sha256(a).hexdigest() == h)",
        "52428800 True",
    ),
    "a million objects": (
        "d = {i: (str(i), [i]) for i in range(300_000)}",
        "print(len(d), all(v == (str(k), [k]) for k, v in d.items()))",
        "300000 True",
    ),
    "40 MB of files": (
        "import os, hashlib\nb = os.urandom(1 << 20) * 40; open('/data/f', 'wb').write(b); h = hashlib.sha256(b).digest(); del b",
        "print(hashlib.sha256(open('/data/f', 'rb').read()).digest() == h)",
        "True",
    ),
}
