"""Tasks that wait at the same time. `await` may stand at the top level, as at the prompt."""

import asyncio
import time


async def worker(name, queue, done):
    while True:
        job = await queue.get()
        await asyncio.sleep(0.02)
        done.append((name, job))
        queue.task_done()


queue, done = asyncio.Queue(), []
for job in range(12):
    queue.put_nowait(job)

begin = time.monotonic()
async with asyncio.TaskGroup() as group:
    workers = [group.create_task(worker(f"worker {n}", queue, done)) for n in range(4)]
    await queue.join()
    for task in workers:
        task.cancel()

for name in sorted({name for name, _ in done}):
    print(name, "did", [job for who, job in done if who == name])
print(f"12 jobs of 20 ms took four workers {(time.monotonic() - begin) * 1000:.0f} ms")
