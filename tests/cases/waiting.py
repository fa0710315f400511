# Waiting costs no CPU time and ends at the deadline.
#: timeout 300ms
#: reason timeout
#: idle

#== a blocking sleep
import time
time.sleep(3600)
#-- the session goes on
#: reason completed timeout
#: stdout-any
print("on")

#== an event that never comes
#: reason timeout exception
#: type RuntimeError asyncio.TimeoutError
import asyncio
await asyncio.Event().wait()

#== a long sleep in asyncio
import asyncio
await asyncio.sleep(3600)

#== asyncio.run with a long sleep
import asyncio
asyncio.run(asyncio.sleep(3600))

#== asyncio.run waiting for what never comes
#: reason timeout exception
#: type RuntimeError
import asyncio
asyncio.run(asyncio.Event().wait())

#== many tasks that wait
import asyncio
await asyncio.gather(*(asyncio.sleep(3600 + i) for i in range(1000)))

#== a lock taken twice
#: reason timeout exception
#: type RuntimeError
import threading
lock = threading.Lock(); lock.acquire(); lock.acquire()

#== an empty queue, with a timeout of its own
import queue
queue.Queue().get(timeout=3600)

#== a queue that is C
import queue
queue.SimpleQueue().get(timeout=3600)

#== a queue that is C, without a timeout
import queue
queue.SimpleQueue().get()

#== locks and queues with a short timeout
#: reason completed
#: stdout True False Empty Empty True
import queue, threading, time
free, held = threading.Lock(), threading.Lock()
held.acquire()
t = time.monotonic()
print(free.acquire(timeout=9), held.acquire(timeout=0.02), end=" ")
for q in queue.Queue(), queue.SimpleQueue():
    try: q.get(timeout=0.02)
    except queue.Empty: print("Empty", end=" ")
print(time.monotonic() - t >= 0.06)

#== a condition, an event and a barrier
#: reason timeout exception
#: type RuntimeError threading.BrokenBarrierError BrokenBarrierError
import threading
threading.Event().wait(3600)

#== select without descriptors
#: reason timeout exception
#: type OSError
import select
select.select([], [], [], 3600)

#== poll of the input
#: reason timeout completed exception
#: type OSError AttributeError
import select
p = select.poll(); p.register(1, select.POLLIN); p.poll(3600_000)

#== short sleeps without end
import time
while True: time.sleep(0.02)

#== a sleep that shields itself
import asyncio
while True:
    try: await asyncio.sleep(3600)
    except BaseException: pass

#== sleeps of odd lengths are errors, not hangs
#: reason completed
#: stdout ValueError
#: stdout ValueError
#: stdout OverflowError
import time
for t in (-1, float("nan"), 1e300):
    try: time.sleep(t)
    except Exception as e: print(type(e).__name__)

#== a process to wait for
#: reason exception
#: type OSError ChildProcessError AttributeError
import os
os.waitpid(-1, 0)

#== signal.pause
#: reason exception timeout
#: type AttributeError OSError
import signal
signal.pause()

#== a pipe that nobody writes to
#: reason exception timeout
#: type AttributeError OSError BlockingIOError
import os
r, w = os.pipe()
os.read(r, 1)
