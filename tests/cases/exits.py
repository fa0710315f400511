# Programs end in many ways; each is told apart, and the session survives or says that it ended.

#== sys.exit with a number
#: reason exited
#: exit 5
import sys
sys.exit(5)
#-- the session survives
#: stdout on
print("on")

#== os._exit
#: reason exited
#: exit 3
import os
os._exit(3)

#== SystemExit with a text
#: reason exited
#: exit 1
#: stderr bye
raise SystemExit("bye")

#== SystemExit without anything, and with None
#: reason exited
#: exit 0
raise SystemExit

#== exit() as typed
#: reason exited
#: exit 0
#: alive yes
exit()

#== numbers beyond a byte, negative ones, and other objects
#: reason exited
#: stderr (1, 2)
#: exit 1
raise SystemExit((1, 2))
#-- a negative number
#: reason exited
raise SystemExit(-1)
#-- a huge number
#: reason exited
#: stderr-any
raise SystemExit(2**100)

#== KeyboardInterrupt
#: reason exception
#: exit 1
#: type KeyboardInterrupt
#: traceback KeyboardInterrupt
raise KeyboardInterrupt

#== GeneratorExit
#: reason exception
#: type GeneratorExit
raise GeneratorExit

#== a BaseException of one's own
#: reason exception
#: type Stop __main__.Stop
class Stop(BaseException): pass
raise Stop("now")

#== CancelledError
#: reason exception
#: type CancelledError asyncio.exceptions.CancelledError
import asyncio
raise asyncio.CancelledError

#== StopIteration and StopAsyncIteration
#: reason exception
#: type StopIteration
raise StopIteration(1)
#-- async
#: reason exception
#: type StopAsyncIteration RuntimeError
async def f(): raise StopAsyncIteration
await f()

#== os.abort
#: reason crashed exception exited
import os
os.abort()

#== a signal to oneself
#: reason crashed exception exited completed
#: type AttributeError OSError
import os, signal
os.kill(os.getpid(), signal.SIGKILL)

#== raise_signal
#: stderr-any
#: reason crashed exception exited completed
#: type AttributeError OSError KeyboardInterrupt
import signal
signal.raise_signal(signal.SIGABRT)

#== faulthandler's ways to crash
#: reason crashed exception exited stack_limit completed
#: stderr-any
import faulthandler
faulthandler._sigabrt()

#== a crash in C
#: reason crashed exception stack_limit
#: type ImportError ModuleNotFoundError
#: stderr-any
import ctypes
ctypes.string_at(0)

#== bad bytecode
#: reason crashed exception timeout completed stack_limit memory_limit exited
#: timeout 2s
#: stderr-any
def f(): pass
f.__code__ = f.__code__.replace(co_code=bytes(range(1, 241)) * 4, co_stacksize=1)
f()

#== code with wild constants
#: reason crashed exception timeout completed stack_limit memory_limit exited
#: timeout 2s
#: stderr-any
def f(): return a
f.__code__ = f.__code__.replace(co_names=(), co_consts=())
f()

#== exit inside a task
#: reason exited
#: exit 7
import asyncio, sys
async def leave(): sys.exit(7)
await asyncio.gather(leave(), asyncio.sleep(100))

#== exit inside asyncio.run
#: reason exited
#: exit 8
import asyncio, sys
async def leave(): sys.exit(8)
asyncio.run(leave())

#== exit inside a callback of the loop
#: reason exited
#: exit 9
import asyncio, sys
asyncio.get_running_loop().call_soon(sys.exit, 9)
await asyncio.sleep(5)

#== exit in a finally, over an exception
#: reason exited
#: exit 2
import sys
try: 1 / 0
finally: sys.exit(2)

#== exit at the end of a program
#: program
#: reason exited completed
#: stderr-any
#: stdout last words
import atexit, sys
atexit.register(print, "last words")
sys.exit(0)

#== an exception at the end of a program
#: program
#: stderr-has ValueError: late
import atexit
@atexit.register
def late(): raise ValueError("late")

#== exit swallowed
#: stdout SystemExit
import sys
try: sys.exit(3)
except SystemExit as e: print(type(e).__name__)

#== a thread that exits, where threads cannot start
#: reason completed exception
#: type RuntimeError
#: stderr-any
import threading, sys
t = threading.Thread(target=sys.exit, args=(4,)); t.start(); t.join()

#== tasks left behind end with the run
#: stderr-any
import asyncio
async def late():
    await asyncio.sleep(0.05)
    print("never")
asyncio.create_task(late())
#-- and print nothing into the next one
#: stdout next
print("next")
