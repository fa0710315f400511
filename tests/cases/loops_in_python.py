# Python that never returns is stopped at its deadline; what it left is still there.
#: timeout 200ms
#: reason timeout

#== while True
#: alive yes
n = 1
while True: pass
#-- the state is that of the moment
#: reason completed
#: stdout 1
print(n)

#== a loop that swallows every exception
while True:
    try:
        while True: pass
    except BaseException: pass

#== a loop in a finally block
try:
    while True: pass
finally:
    while True: pass

#== a list comprehension over an endless iterator, with time to throw the list away
#: grace 2s
#: alive yes
[0 for _ in iter(int, 1)]

#== mutual recursion with work in between
def a(n): return b(n) if n % 90 else [b(n) for _ in range(3)]
def b(n): return n if n > 300 else a(n + 1)
while True: a(1)

#== an endless generator
#: memory 64M
sum(1 for _ in iter(lambda: 1, 2))

#== a __del__ that never returns
#: reason timeout completed
#: stderr-any
class Bad:
    def __del__(self):
        while True: pass
Bad()

#== a signal handler, a trace function and a profile function that never return
import sys
def trace(*args):
    while True: pass
sys.settrace(trace)
def f(): pass
f()

#== __eq__ inside a dictionary lookup
class Bad:
    def __hash__(self): return 1
    def __eq__(self, other):
        while True: pass
{Bad(): 1}[Bad()]

#== an endless await of what is always ready
import asyncio
async def spin():
    while True: await asyncio.sleep(0)
await spin()

#== a stop that strikes in a finalizer is no fault to be told
#: stdout on
class Slow:
    def __del__(self):
        while True: pass
Slow()
print("on")
while True: pass

#== tasks that make tasks
import asyncio
async def spawn():
    asyncio.create_task(spawn())
asyncio.create_task(spawn())
await asyncio.sleep(100)

#== an import that never ends
#: memory 64M
import sys
open("/tmp/endless.py", "w").write("while True: pass\n")
sys.path.insert(0, "/tmp")
import endless

#== a finalizer at the end of a program
#: program
#: reason timeout completed
#: stderr-any
import atexit
@atexit.register
def f():
    while True: pass

#== a metaclass and a decorator
class Meta(type):
    def __new__(cls, *args):
        while True: pass
class C(metaclass=Meta): pass

#== the CPU limit stops a loop before the deadline does
#: timeout 60s
#: cpu 100ms
#: reason cpu_limit
while True: pass

#== and is not charged for waiting
#: timeout 60s
#: cpu 100ms
#: reason completed
#: stdout woke
import time
time.sleep(0.3)
print("woke")
