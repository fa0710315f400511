"""State of every kind, each in a process of its own: asleep there, awake here, asleep again and back."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from kinds import KINDS, LARGE

import brumate

HERE = Path(__file__).parent.parent / "python"
LIMITS = brumate.ResourceLimits(max_memory_bytes=512 << 20)

# Makes the state, runs nothing of it here: wakes, sleeps again, and lets another process wake that.
TWICE = """
import pickle, sys, brumate
snapshot, code = pickle.load(sys.stdin.buffer)
limits = brumate.ResourceLimits(max_memory_bytes=512 << 20)
with brumate.resume(snapshot, resource_limits=limits) as session:
    session.execute("woken = globals().get('woken', 0) + 1")
    again = session.suspend().to_bytes()
    pickle.dump((again, session.execute(code).stdout), sys.stdout.buffer)
"""


def elsewhere(snapshot: bytes, code: str) -> tuple[bytes, str]:
    done = subprocess.run(
        [sys.executable, "-B", "-c", TWICE],
        input=pickle.dumps((snapshot, code)),
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()
    return pickle.loads(done.stdout)


ALL = KINDS | LARGE


@pytest.mark.parametrize("kind", ALL)
def test_state_sleeps_and_wakes_from_process_to_process(kind: str):
    make, use, printed = ALL[kind]
    with brumate.Session(resource_limits=LIMITS) as session:
        session.execute(make)
        snapshot = session.suspend().to_bytes()
    for woken in (1, 2, 3):
        snapshot, told = elsewhere(snapshot, use)
        assert told.rstrip("\n") == printed
        with brumate.resume(snapshot, resource_limits=LIMITS) as session:
            assert session.execute("import sys; print(woken, file=sys.__stdout__)").stdout == f"{woken}\n"


@pytest.mark.parametrize("kind", LARGE)
def test_large_state_forks(kind: str):
    make, use, printed = LARGE[kind]
    with brumate.Session(resource_limits=LIMITS) as session:
        session.execute(make)
        twins = session.fork(3)
        for s in (*twins, session):
            assert s.execute(use).stdout.rstrip("\n") == printed
            s.close()


WAITING = {
    "async for": (
        "async def g():\n    for n in range(3):\n        yield await ask(n)\nprint([n async for n in g()])",
        "[0, 10, 20]",
    ),
    "task group": (
        "import asyncio\nasync def one(n): return await ask(n) + await ask(n)\n"
        "async with asyncio.TaskGroup() as group:\n    tasks = [group.create_task(one(n)) for n in range(5)]\n"
        "print([t.result() for t in tasks])",
        "[0, 20, 40, 60, 80]",
    ),
    "lock held by a task that waits": (
        "import asyncio\nlock = asyncio.Lock()\nlog = []\nasync def one(n):\n    async with lock:\n        log.append(n); await ask(n); log.append(-n)\n"
        "await asyncio.gather(*(one(n) for n in (1, 2, 3)))\nprint(log)",
        "[1, -1, 2, -2, 3, -3]",
    ),
    "queue and condition": (
        "import asyncio\nq = asyncio.Queue(1)\nasync def put():\n    for n in range(3): await q.put(await ask(n))\n"
        "async def get(): return [await q.get() for _ in range(3)]\nprint((await asyncio.gather(put(), get()))[1])",
        "[0, 10, 20]",
    ),
    "exception being handled": (
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    n = await ask(4)\n    import sys\n    print(n, sys.exc_info()[1] is e, e)",
        "40 True division by zero",
    ),
    "context variable of a task": (
        "import asyncio, contextvars\nv = contextvars.ContextVar('v')\nasync def one(n):\n    v.set(n); await ask(n); return v.get()\n"
        "print(await asyncio.gather(one(1), one(2)))",
        "[1, 2]",
    ),
    "open with statements": (
        "import sqlite3, zipfile\nwith zipfile.ZipFile('/data/z', 'w') as z, sqlite3.connect('/data/d') as db:\n"
        "    db.execute('create table t(x)'); z.writestr('a', 'b')\n    db.execute('insert into t values(?)', (await ask(1),))\n    z.writestr('c', 'd')\n"
        "print(zipfile.ZipFile('/data/z').namelist(), sqlite3.connect('/data/d').execute('select * from t').fetchall())",
        "['a', 'c'] [(10,)]",
    ),
    "timeout that is not over": (
        "import asyncio\nasync with asyncio.timeout(60):\n    print(await ask(2))", "20",
    ),
}

STEP = """
import pickle, sys, brumate
snapshot = brumate.Snapshot.from_bytes(sys.stdin.buffer.read())
call = snapshot.pending[0]
session = brumate.resume(snapshot)
progress = session.reply({call.id: call.args[0] * 10})
pickle.dump(progress.result.stdout if progress.done else session.suspend(), sys.stdout.buffer)
"""


@pytest.mark.parametrize("kind", WAITING)
def test_code_that_waits_is_answered_call_by_call_in_processes_of_their_own(kind: str):
    code, printed = WAITING[kind]
    with brumate.Session(callbacks={"ask": None}) as session:
        assert not session.start(code).done
        state = session.suspend()
    while isinstance(state, brumate.Snapshot):
        done = subprocess.run(
            [sys.executable, "-B", "-c", STEP],
            input=state.to_bytes(),
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr.decode()
        state = pickle.loads(done.stdout)
    assert state.rstrip("\n") == printed
