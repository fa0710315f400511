# A guest that destroys its own interpreter hurts itself only: the host gets a well-formed end, a reset
# and a fresh session are whole.
#: reason completed exception exited crashed stack_limit timeout memory_limit
#: stdout-any
#: stderr-any
#: timeout 3s
#: wrecked

#== builtins, modules and streams gone
import builtins, json, sys, asyncio
for n in ("print", "len", "isinstance", "repr", "open", "__import__"): setattr(builtins, n, None)
json.dumps = None; sys.stdout = None; sys.modules.clear(); asyncio.run = None
#-- a run after it ends well-formed, too
x = 1
#-- and so does one that raises
raise ValueError("after")
#-- and a fresh start has everything
#: reset
#: reason completed
#: stdout 3 [1] True
import json, sys
print(len("abc"), json.loads("[1]"), "json" in sys.modules)

#== every builtin deleted
import builtins
for n in list(vars(builtins)): delattr(builtins, n)
#-- then a failure
1 / 0

#== every loaded module emptied
import sys
for m in list(sys.modules.values()):
    if m and m is not sys: vars(m).clear()
#-- then a program
import asyncio
await asyncio.sleep(0)

#== sys emptied
import sys
vars(sys).clear()
#-- then an exception
raise KeyError

#== the loop, its policy and its methods broken
import asyncio, sys
loop = asyncio.get_running_loop()
for n in dir(loop):
    try: setattr(loop, n, None)
    except (AttributeError, TypeError): pass
for n in dir(type(loop)):
    try: setattr(type(loop), n, None)
    except (AttributeError, TypeError): pass
asyncio.set_event_loop_policy(None)
#-- then a wait
import asyncio
await asyncio.sleep(0.01)

#== the running loop stopped and closed
import asyncio
asyncio.get_running_loop().stop()
#-- and closed
import asyncio
asyncio.get_running_loop().close()
#-- then a wait
import asyncio
await asyncio.sleep(0.01)

#== hooks that raise
import sys, threading
def bad(*args): raise RuntimeError("hook")
sys.excepthook = sys.displayhook = sys.unraisablehook = threading.excepthook = bad
1 / 0
#-- and breakpoints, tracing, profiling
import sys
sys.settrace(bad); sys.setprofile(bad); sys.breakpointhook = bad
breakpoint()

#== streams replaced by liars
import sys
class Liar:
    encoding = 5
    def __getattr__(self, n): raise RuntimeError(n)
    def write(self, s): raise RuntimeError
    def flush(self): raise SystemExit(9)
sys.stdout = sys.stderr = sys.stdin = sys.__stdout__ = sys.__stderr__ = Liar()
print("x")
#-- then an exception
1 / 0

#== streams closed
import sys
sys.stdout.close(); sys.stderr.close(); sys.stdin.close()
#-- then output
print("x")

#== linecache, traceback and warnings broken
import linecache, traceback, warnings, tokenize
linecache.getlines = linecache.getline = linecache.checkcache = None
for n in dir(traceback): setattr(traceback, n, None)
1 / 0

#== __main__ replaced, its dictionary odd
import sys
sys.modules["__main__"] = 5
globals().clear()
#-- then a program
x = 1
raise ValueError(x)

#== exceptions that lie about themselves
class E(Exception):
    __module__ = property(lambda s: 1 / 0)
    __qualname__ = "E"
    __traceback__ = property(lambda s: 1 / 0)
    def __str__(self): raise SystemExit(3)
    def __repr__(self): raise KeyboardInterrupt
    def __class__(self): pass
raise E

#== a type whose name is not one
T = type("a\nb\u20ac" * 1000, (Exception,), {"__module__": "\ud800"})
raise T("x" * 10_000_000)

#== garbage collection hooks and weak references
import gc
def bad(*a): raise RuntimeError
gc.callbacks.append(bad); gc.set_threshold(1)
x = [[] for _ in range(1000)]
gc.collect()

#== the memory of immortal objects, through gc and frames
import gc, sys
for o in gc.get_objects():
    try: o.clear()
    except BaseException: pass

#== lists of every module's caches cleared
import gc
for o in gc.get_objects():
    if type(o) in (dict, list, set):
        try: o.clear()
        except BaseException: pass
#-- then a program
print("x")

#== recursion limit of nearly nothing
import sys
try: sys.setrecursionlimit(1)
except RecursionError: sys.setrecursionlimit(30)
#-- then a program
import decimal
print(decimal.Decimal(1))

#== audit hook that refuses everything
import sys
def no(event, args): raise RuntimeError(event)
sys.addaudithook(no)
#-- then a program
print("x")

#== int, str and type patched where C does not look
import builtins
builtins.int = builtins.str = builtins.type = builtins.dict = builtins.list = builtins.BaseException = 5
#-- then a failure
1 / 0

#== atexit emptied and filled
#: program
import atexit, os
atexit._clear()
for _ in range(1000): atexit.register(lambda: 1 / 0)

#== the file system emptied
import os, shutil
for top in os.listdir("/"): shutil.rmtree("/" + top, ignore_errors=True)
os.chdir("/")
#-- imports still work, the library cannot be removed
#: reason completed
#: stdout ok
import colorsys, wave
print("ok")

#== descriptors closed, all of them
import os
os.closerange(0, 1000)
#-- then a program
print("x")
import colorsys
