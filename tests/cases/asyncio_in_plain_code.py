# asyncio works as it is written in tutorials, although the runner itself allows top-level await.

#== asyncio.run and await in one program
#: stdout [3, 1, 2]
#: stdout [3, 1, 2]
import asyncio
async def main():
    return await asyncio.gather(*(asyncio.sleep(0.01 * i, i) for i in (3, 1, 2)))
print(asyncio.run(main()))
print(await main())

#== waits overlap
#: stdout True
import asyncio, time
begin = time.monotonic()
await asyncio.gather(*(asyncio.sleep(0.1) for _ in range(20)))
print(time.monotonic() - begin < 1.9)       # 2 s if they came one after the other

#== asyncio.run while other tasks run
#: stdout inner 1
#: stdout outer 2
import asyncio
async def outer():
    await asyncio.sleep(0.01)
    return 2
async def inner():
    await asyncio.sleep(0.001)
    return 1
task = asyncio.create_task(outer())
print("inner", asyncio.run(inner()))
print("outer", await task)

#== asyncio.run twice, and a runner
#: stdout 1 2 3
import asyncio
async def give(n):
    await asyncio.sleep(0)
    return n
a, b = asyncio.run(give(1)), asyncio.run(give(2))
with asyncio.Runner() as runner:
    print(a, b, runner.run(give(3)))

#== queues, locks, events and groups
#: stdout [0, 1, 4, 9, 16]
import asyncio
queue, lock, ready, seen = asyncio.Queue(2), asyncio.Lock(), asyncio.Event(), []
async def produce():
    await ready.wait()
    for i in range(5):
        await queue.put(i)
    await queue.put(None)
async def consume():
    while (i := await queue.get()) is not None:
        async with lock:
            seen.append(i * i)
async with asyncio.TaskGroup() as group:
    group.create_task(produce())
    group.create_task(consume())
    ready.set()
print(seen)

#== timeouts and cancellation
#: stdout timed out
#: stdout cancelled, cleaned up
import asyncio
try:
    async with asyncio.timeout(0.02):
        await asyncio.sleep(10)
except TimeoutError:
    print("timed out")
async def endless():
    try:
        await asyncio.sleep(1000)
    finally:
        print("cancelled,", end=" ")
task = asyncio.create_task(endless())
await asyncio.sleep(0)
task.cancel()
try:
    await task
except asyncio.CancelledError:
    print("cleaned up")

#== work handed to threads runs inline
#: stdout 3 [1, 4, 9] 5
import asyncio
from concurrent.futures import ThreadPoolExecutor
loop = asyncio.get_running_loop()
with ThreadPoolExecutor() as pool:
    squares = [await loop.run_in_executor(pool, pow, i, 2) for i in (1, 2, 3)]
print(await asyncio.to_thread(len, "abc"), squares, await loop.run_in_executor(None, lambda: 5))

#== async comprehensions, generators and context managers at the top level
#: stdout [0, 2, 4]
#: stdout in
#: stdout out
import contextlib
async def numbers():
    for i in range(3):
        yield i
print([i * 2 async for i in numbers()])
@contextlib.asynccontextmanager
async def around():
    yield "in"
    print("out")
async with around() as word:
    print(word)

#== an exception in a task reaches the one who awaits it
#: reason exception
#: type ExceptionGroup
#: traceback ValueError: lost
import asyncio
async def fail():
    raise ValueError("lost")
async with asyncio.TaskGroup() as group:
    group.create_task(fail())
