"""What the guests run."""
from pathlib import Path

HELLO = "print('hi')"
WORKLOADS = Path(__file__).resolve().parent.parent / "workloads"

# What the image of the measures has imported, besides the wheel.
IMPORTS = ["json", "re", "dataclasses", "decimal", "statistics", "argparse", "logging", "email.message"]

CPU_TAIL = """
import time as _time
work()
_best = 1e9
for _ in range({repeat}):
    _begin = _time.perf_counter(); _result = work(); _took = _time.perf_counter() - _begin
    _best = _took if _took < _best else _best
print(repr(_result)); print(_best)
"""


def workload(name, repeat):
    return (WORKLOADS / f"{name}.py").read_text() + CPU_TAIL.format(repeat=repeat)


def workloads():
    return sorted(path.stem for path in WORKLOADS.glob("*.py"))


def importing(modules):
    return f"import {', '.join(modules)}\nprint(1)"


def calls(count, word, gather=False, size=0):
    """Prints the seconds of `count` calls of echo."""
    value = f"'x' * {size}" if size else "i"
    if gather:
        loop = f"r = (await asyncio.gather(*[echo(x={value}) for i in range({count})]))[-1]"
    else:
        loop = f"for i in range({count}): r = {word}echo(x={value})"
    return (f"import time\n{'import asyncio' if gather else ''}\nt = time.perf_counter()\n{loop}\nt = time.perf_counter() - t\n"
            f"i = {count - 1}\nassert r == {value}\nprint(t)\n")


def writing(megabytes):
    """Lines of 1 kB by sys.stdout.write."""
    return f"import sys\ns = 'x' * 999 + '\\n'\nfor i in range({megabytes * 1000}): sys.stdout.write(s)\n"


# name: (code, bound by the processor). 500 ms, 256 MiB.
DEADLINES = {
    "while True: pass": ("while True: pass", True),
    "3**(10**8)": ("x = 3**(10**8)", True),
    "catastrophic regex": ("import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')", True),
    "sum(range(10**12))": ("sum(range(10**12))", True),
    "deque(count(), maxlen=0)": ("import itertools, collections\ncollections.deque(itertools.count(), maxlen=0)", True),
    "b'x' in repeated bytes": ("b = b'a' * 10**6\nwhile True: b.count(b'ab')", True),
    "sorted() of a list, over and over": ("l = [i * 7919 % 100003 for i in range(10**5)]\nwhile True: sorted(l)", True),
    "excepts BaseException, loops on": ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", True),
    "finally that loops": ("try:\n    while True: pass\nfinally:\n    while True: pass", True),
    "time.sleep(30)": ("import time\ntime.sleep(30)", False),
    "await asyncio.sleep(30)": ("import asyncio\nawait asyncio.sleep(30)", False),
}

# 64 MiB, 10 s.
MEMORY_BOMBS = {
    "bytearray(2**31 - 1)": "x = bytearray(2**31 - 1)",
    "bytearray(2**31)": "x = bytearray(2**31)",
    "1 << 2**33": "x = 1 << 2**33",
    "a list that grows": "l = []\nwhile True: l.append('x' * 1000 + str(len(l)))",
    "the same, MemoryError caught": "l = []\ntry:\n    while True: l.append('x' * 1000 + str(len(l)))\nexcept MemoryError: l = None\nprint('caught')",
    "sorted(range(10**8))": "sorted(range(10**8))",
}

# 128 MiB, 10 s.
STACK_BOMBS = {
    "recursion": "def f(n): return f(n + 1)\nf(0)",
    "recursion, limit raised": "import sys\nsys.setrecursionlimit(10**8)\ndef f(n): return f(n + 1)\nf(0)",
    "repr of a deep list": "l = []\nfor i in range(10**6): l = [l]\nrepr(l)",
    "drop of a deep list": "l = []\nfor i in range(10**6): l = [l]\ndel l\nprint('ok')",
    "eval of deep parentheses": "eval('(' * 100000 + ')' * 100000)",
    "compile of a deep sum": "eval('+'.join(['1'] * 200000))",
    "json.loads of a deep list": "import json\njson.loads('[' * 100000)",
    "deep __getattr__ in C": "class A:\n    def __getattr__(self, n): return getattr(self, n + 'x')\nA().a",
}

STORM = "while True: print('x' * 1000)"

# expression: the module that it needs
VALUES = {"None": None, "b'ab'": None, "float('nan')": None, "2**100": None, "(1, 2)": None, "{1: 2}": None,
          "{1, 2}": None, "1.5 + 2j": None, "'\\ud800'": None, "datetime.date(2024, 1, 2)": "datetime",
          "decimal.Decimal('1.10')": "decimal", "uuid.UUID(int=1)": "uuid"}

DIFFERS = {
    "random.random()": "import random\nprint(random.random())",
    "hash('a')": "print(hash('a'))",
    "os.urandom": "import os\nprint(os.urandom(16))",
    "uuid.uuid4()": "import uuid\nprint(uuid.uuid4())",
    "secrets": "import secrets\nprint(secrets.token_hex(8))",
    "id(object())": "print(id(object()))",
}

PROBES = {
    "wall clock": "import time\nprint('real' if time.time() > 1.7e9 else 'not real')",
    "step of perf_counter, ns": "import time\nd = []\nfor i in range(2000):\n    a = time.perf_counter_ns()\n    b = a\n    while b == a: b = time.perf_counter_ns()\n    d.append(b - a)\nprint(min(d))",
    "threads": "import threading\nt = threading.Thread(target=print, args=('ran',))\nt.start(); t.join()",
    "subprocess": "import subprocess\nprint(subprocess.run(['true']))",
    "write to /tmp": "open('/tmp/x', 'w').write('x')\nprint('ok')",
    "list of /": "import os\nprint(len(os.listdir('/')), 'entries')",
    "environment": "import os\nprint(len(os.environ), 'variables')",
    "a socket": "import socket\ns = socket.socket(); s.settimeout(1); s.connect(('127.0.0.1', 9))\nprint('connected')",
    "sqlite3": "import sqlite3\nprint(sqlite3.connect(':memory:').execute('select 1+1').fetchone())",
    "zlib": "import zlib\nprint(len(zlib.compress(b'a' * 1000)))",
    "bz2, lzma": "import bz2, lzma\nprint('ok')",
    "ssl": "import ssl\nprint(ssl.OPENSSL_VERSION)",
    "ctypes": "import ctypes\nprint('ok')",
    "decimal in C": "import _decimal\nprint('ok')",
    "data of time zones": "import zoneinfo\nprint(zoneinfo.ZoneInfo('Europe/London').key)",
    "asyncio.run": "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 5\nprint(asyncio.run(f()))",
    "sleeps of asyncio.gather overlap": "import asyncio, time\nt = time.perf_counter()\nawait asyncio.gather(*[asyncio.sleep(0.1) for i in range(5)])\nt = time.perf_counter() - t\nprint('yes' if t < 0.3 else 'no')",
}
