# Depth ends in the guest, as an exception or a stack limit of this run: never in the host.
#: reason exception stack_limit memory_limit
#: type RecursionError MemoryError SyntaxError
#: timeout 60s
#: memory 512M

#== Python recursion
#: reason completed
#: stdout rec True
import sys
depth = 0
def f(n):
    global depth
    depth = n
    return f(n + 1)
try: f(0)
except RecursionError: print("rec", depth >= 500)

#== the recursion limit raised
#: memory 64M
import sys
sys.setrecursionlimit(10**9)
def f(): f()
f()

#== with a frame of C between every two of Python
import sys
sys.setrecursionlimit(10**9)
def f(x): return list(map(f, [x]))
f(1)

#== JSON read
import json
json.loads("[" * 200_000)

#== JSON written
import json
x = []
for _ in range(10**6): x = [x]
json.dumps(x)

#== JSON objects, and a decoder with hooks
import json
json.loads('{"a":' * 100_000 + "1" + "}" * 100_000, object_hook=dict)

#== eval of deep parentheses
eval("(" * 100_000 + ")" * 100_000)

#== eval of a long chain of operators
#: reason exception stack_limit memory_limit completed
compile("+".join(["a"] * 100_000), "s", "eval")

#== a long sum evaluated
#: reason exception stack_limit memory_limit completed
eval("+".join(["1"] * 200_000))

#== other deep sources
#: reason completed
#: stdout 8 refused
n = 0
for s in ("-" * 100_000 + "1", "not " * 100_000 + "1", "[" * 100_000, "lambda: " * 100_000 + "1", "a" + ".b" * 100_000 + "(" * 1000,
          "f(" * 100_000, "x if y else " * 50_000 + "1", "{1:" * 50_000):
    try: compile(s, "s", "eval")
    except (RecursionError, MemoryError, SyntaxError): n += 1
print(n, "refused")

#== ast of a deep source, walked
import ast
ast.literal_eval("[" * 90 + "]" * 90)
ast.unparse(ast.parse("-" * 50_000 + "1"))

#== a tree made by hand, compiled
import ast
at = dict(lineno=1, col_offset=0)
e = ast.Constant(1, **at)
for _ in range(200_000): e = ast.UnaryOp(ast.USub(), e, **at)
compile(ast.Expression(e), "s", "eval")

#== repr of a deep list
x = []
for _ in range(10**6): x = [x]
repr(x)

#== repr of deep tuples, dictionaries and chains of objects
class A:
    def __init__(self, a): self.a = a
    def __repr__(self): return repr(self.a)
x = 1
for _ in range(10**5): x = A((x,))
repr(x)

#== a deep list dropped
#: reason completed stack_limit
#: stdout ok
x = []
for _ in range(10**6): x = [x]
del x
print("ok")

#== deep mixed structures dropped
#: reason completed stack_limit
#: stdout ok
class A: pass
x = None
for i in range(3 * 10**5):
    a = A(); a.x = x
    x = [(a,), {1: a}, iter([a])][i % 3]
del x, a
print("ok")

#== generators nested deeply
def nest(n): return (yield from nest(n - 1)) if n else (yield 1)
import sys
sys.setrecursionlimit(10**9)
next(nest(10**6))

#== a chain of generators, iterators and maps
import itertools
x = iter([1])
for _ in range(10**6): x = map(int, x)
next(x)

#== itertools chains
#: reason completed exception stack_limit memory_limit
import itertools
x = iter([1])
for _ in range(3 * 10**5): x = itertools.chain(x)
next(x)

#== comparison of deep lists
def deep():
    x = []
    for _ in range(10**6): x = [x]
    return x
deep() == deep()

#== hash of deep tuples
x = ()
for _ in range(10**6): x = (x,)
hash(x)

#== __getattr__ that asks for more
class A:
    def __getattr__(s, n): return getattr(s, n + "x")
A().a

#== other special methods that call themselves
#: reason completed
#: stdout 10 ended
class A:
    def __eq__(s, o): return s == o
    def __hash__(s): return hash(s)
    def __repr__(s): return repr(s)
    def __str__(s): return str(s)
    def __bool__(s): return bool(s)
    def __len__(s): return len(s)
    def __iter__(s): return iter(s)
    def __call__(s): return s()
    def __add__(s, o): return s + o
    def __contains__(s, o): return o in s
n, a = 0, A()
for f in (lambda: a == a, lambda: hash(a), lambda: repr(a), lambda: str(a), lambda: bool(a), lambda: len(a), lambda: iter(a), lambda: a(), lambda: a + a, lambda: 1 in a):
    try: f()
    except RecursionError: n += 1
print(n, "ended")

#== a key function that sorts
import sys
sys.setrecursionlimit(10**9)
def key(n): return sorted([n + 1], key=key)[0] if n < 10**4 * 100 else n
sorted([1], key=key)

#== pickling and copying a deep list
#: reason completed
#: stdout 4 ended
import pickle, copy, marshal
x = []
for _ in range(10**5): x = [x]
n = 0
for f in (lambda: pickle.dumps(x), lambda: copy.deepcopy(x), lambda: marshal.dumps(x), lambda: pickle.loads(b"]" * 10 + b"(" * 10**6 + b".")):
    try: f()
    except (RecursionError, MemoryError, ValueError, pickle.UnpicklingError): n += 1
print(n, "ended")

#== reading a deep pickle
#: reason completed exception stack_limit
#: type RecursionError MemoryError _pickle.UnpicklingError UnpicklingError
import pickle
pickle.loads(b"(" + b"l(" * 10**5 + b"." )

#== deep XML
#: reason exception stack_limit memory_limit completed
#: type RecursionError MemoryError xml.etree.ElementTree.ParseError ParseError
import xml.etree.ElementTree as ET
t = ET.fromstring("<a>" * 10**5 + "</a>" * 10**5)
ET.tostring(t)

#== deep regular expressions
#: reason exception stack_limit memory_limit completed
#: type RecursionError MemoryError OverflowError re.error re.PatternError PatternError
import re
re.compile("(" * 50_000 + ")" * 50_000)

#== a deep chain of exceptions
#: type ValueError RecursionError
#: traceback Error
e = None
for i in range(10**5):
    n = ValueError(i); n.__cause__ = e; e = n
raise e

#== deep groups of exceptions
#: type ExceptionGroup RecursionError
e = ValueError()
for i in range(10**5): e = ExceptionGroup("g", [e])
raise e

#== an exception that holds a deep value
#: type ValueError RecursionError
x = []
for _ in range(100_000): x = [x]
y = {}; y["me"] = y
raise ValueError(x, y)

#== a deep value shown by the prompt
#: display
x = []
for _ in range(10**6): x = [x]
x

#== cyclic values are harmless
#: reason completed
#: display
#: stdout {'me': {...}}
y = {}; y["me"] = y
y

#== deep inheritance, isinstance and abstract classes
#: timeout 2s
#: reason completed exception stack_limit memory_limit timeout
#: stdout-any
c = object
for i in range(20_000): c = type("C", (c,), {})
isinstance(c(), c)

#== isinstance with deeply nested tuples
t = int
for _ in range(10**5): t = (t,)
isinstance("", t)

#== async recursion
#: memory 64M
import sys
sys.setrecursionlimit(10**9)
async def f(): await f()
await f()

#== descriptors, properties and super() that go on for ever
class A:
    @property
    def p(self): return self.p
A().p

#== functools wrappers nested deeply
import functools
f = lambda: 1
for _ in range(10**5): f = functools.partial(lambda g: g(), f)
f()

#== typing, formatting and string templates nested deeply
class F:
    def __format__(self, spec): return f"{self:{spec}x}"
f"{F()}"

#== imports that import themselves
import sys
class Finder:
    def find_spec(self, name, path, target=None): return __import__(name + "x") and None
sys.meta_path.insert(0, Finder())
import something

#== audit hooks that recurse
#: wrecked
import sys
def hook(event, args):
    open("/tmp/nothing")
sys.addaudithook(hook)
open("/tmp/x")

#== a deep path on the disk
#: reason completed exception
#: type OSError RecursionError
#: stdout-any
import os, shutil
os.makedirs("/tmp/" + "d/" * 2000)
shutil.rmtree("/tmp/d")
