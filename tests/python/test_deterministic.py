"""Deterministic sandboxes and sessions: the same time and chance again, wherever the code runs."""

from __future__ import annotations

import pickle
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import Run

import brumate
from brumate import Deterministic, Sandbox, Session, Store, resume

# What tells one run from another elsewhere.
VARIED = {
    "random": "import random; print(random.random(), random.randbytes(9))",
    "urandom": "import os; print(os.urandom(9))",
    "secrets": "import secrets; print(secrets.token_hex(), secrets.randbelow(10**9))",
    "uuid4": "import uuid; print(uuid.uuid4())",
    "time": "import time; print(time.time(), time.time_ns(), time.monotonic_ns(), time.process_time_ns())",
    "datetime": "import datetime; print(datetime.datetime.now(), datetime.date.today())",
    "perf_counter": "import time; print(time.perf_counter(), time.perf_counter_ns())",
    "tempfile": "import tempfile; print(tempfile.mkdtemp())",
    "stamps": "import os; open('f', 'w').close(); print(os.stat('f').st_mtime_ns)",
    "sets": "print({f'{i}' for i in range(50)}, id(object()))",
    "sleep": """
import asyncio, random
async def one(n):
    await asyncio.sleep(random.random())
    print(n, asyncio.get_running_loop().time())
await asyncio.gather(*map(one, range(20)))""",
}
CHANCE = ("random", "urandom", "secrets", "uuid4", "tempfile", "sleep")
DRAW = "import random, secrets, time; print(random.random(), secrets.token_hex(), time.time_ns())"


def said(code: str, **options: Any) -> str:
    with Sandbox(**options) as sandbox:
        return sandbox.execute(code).stdout


@pytest.mark.parametrize("kind", VARIED)
def test_two_sandboxes_say_the_same(kind: str):
    assert said(VARIED[kind], deterministic=1) == said(VARIED[kind], deterministic=1) != ""


@pytest.mark.parametrize("kind", CHANCE)
def test_another_seed_says_something_else(kind: str):
    assert said(VARIED[kind], deterministic=1) != said(VARIED[kind], deterministic=2)


def test_a_sandbox_repeats_with_each_run(run: Run):
    with Sandbox(deterministic=b"seed") as sandbox:
        first = run(sandbox, DRAW).stdout
        with pytest.raises(brumate.ExecutionError):
            run(sandbox, "import random; random.random(); 1/0")
        assert {run(sandbox, DRAW).stdout for _ in range(10)} == {first}


def test_a_session_goes_on_and_begins_anew_when_reset():
    with Session(deterministic=1) as session:
        first, second = (session.execute(DRAW).stdout for _ in range(2))
        session.reset()
        assert first != second
        assert session.execute(DRAW).stdout == first


@pytest.mark.parametrize("nap", ["time.sleep(3600)", "await asyncio.sleep(3600)", "asyncio.run(asyncio.sleep(3600))"])
def test_an_hour_passes_at_once(nap: str, run: Run):
    code = f"import asyncio, time\nbegin = time.time()\n{nap}\nresult = time.time() - begin"
    begin = time.monotonic()
    with Sandbox(deterministic=1) as sandbox:
        assert 3600 <= run(sandbox, code).result < 3601
    assert time.monotonic() - begin < 60


def test_deadlines_are_real():
    limits = brumate.ResourceLimits(execution_timeout_ms=300)
    with Sandbox(deterministic=1, resource_limits=limits) as sandbox, pytest.raises(brumate.TimeoutError):
        sandbox.execute("while True: pass")


@pytest.mark.parametrize(
    "start",
    [
        datetime(2031, 5, 6, 7, 8, 9, 123456),
        datetime(2031, 5, 6, 7, 8, 9, 123456, timezone.utc),
        datetime(2031, 5, 6, 9, 8, 9, 123456, timezone(timedelta(hours=2))),
        1935817689.123456,
    ],
)
def test_clocks_begin_at_start(start: datetime | float):
    code = "import datetime; print(datetime.datetime.now())"
    assert said(code, deterministic=Deterministic(1, start)) == "2031-05-06 07:08:09.123457\n"


def test_clocks_begin_in_2025_otherwise():
    code = "import datetime; print(datetime.datetime.now())"
    assert said(code, deterministic=1) == said(code, deterministic=Deterministic(1)) == "2025-01-01 00:00:00.000001\n"


@pytest.mark.parametrize("same", [258, b"\2\1", b"\2\1\0", Deterministic(258)])
def test_ways_to_tell_a_seed(same: Any):
    assert said(DRAW, deterministic=same) == said(DRAW, deterministic=Deterministic(b"\2\1".ljust(32, b"\0")))


WRONG = [
    (True, TypeError, "deterministic must be .* not bool"),
    (1.5, TypeError, "deterministic must be .* not float"),
    ("seed", TypeError, "deterministic must be .* not str"),
    (-1, ValueError, "deterministic: seed must be 0 or more"),
    (1 << 256, ValueError, "deterministic: seed must be"),
    (bytes(33), ValueError, "deterministic: seed must have at most 32 bytes, not 33"),
]


@pytest.mark.parametrize("make", [Sandbox, Session, brumate.Pool])
@pytest.mark.parametrize(("given", "error", "words"), WRONG)
def test_what_is_no_seed(make: Any, given: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        make(deterministic=given)


@pytest.mark.parametrize("start", [-1, -0.5, 2**60, float("nan"), float("inf"), datetime(1969, 1, 1), datetime(2200, 1, 1)])
def test_a_start_out_of_range(start: Any):
    with pytest.raises(ValueError, match="start must be between 1970 and 2116"):
        Deterministic(1, start)


@pytest.mark.parametrize("start", [True, "2030", None])
def test_a_start_that_is_no_time(start: Any):
    with pytest.raises(TypeError, match="start must be a datetime or seconds"):
        Deterministic(1, start)


def test_it_is_a_value():
    one = Deterministic(7, start=datetime(2030, 1, 1))
    assert (one.seed, one.start) == (7, 1893456000.0)
    assert one == Deterministic(b"\7", 1893456000) != Deterministic(7)
    assert {one: 1}[pickle.loads(pickle.dumps(one))] == 1
    assert eval(repr(one)) == one
    for change in (lambda: setattr(one, "seed", 8), lambda: delattr(one, "start")):
        with pytest.raises(AttributeError, match="cannot be changed"):
            change()


# ---- Asleep


def test_equal_sessions_have_equal_snapshots():
    snapshots = []
    for _ in range(2):
        with Session(deterministic=1) as session:
            for code in VARIED.values():
                session.execute(code)
            snapshots.append(session.suspend().to_bytes())
    assert snapshots[0] == snapshots[1]


@pytest.mark.parametrize("options", [{}, {"deterministic": 9}])
def test_it_goes_on_when_it_wakes(options: Any):
    with Session(deterministic=1) as session:
        session.execute(DRAW)
        snapshot = session.suspend().to_bytes()
        expected = session.execute(DRAW).stdout
    for _ in range(2):
        with resume(snapshot, **options) as woken:
            assert woken.execute(DRAW).stdout == expected


def test_an_ordinary_snapshot_becomes_deterministic():
    with Session() as session:
        session.execute("x = 1")
        snapshot = session.suspend()
    answers = set()
    for _ in range(2):
        with resume(snapshot, deterministic=4) as woken:
            answers.add(woken.execute("import os; print(x, os.urandom(8))").stdout)
    assert len(answers) == 1


def test_twins_are_equal():
    with Session(deterministic=1) as session:
        session.execute(DRAW)
        twins = [session, *session.fork(3)]
        assert len({twin.execute(DRAW).stdout for twin in twins}) == 1
        assert len({twin.suspend().to_bytes() for twin in twins}) == 1
        assert session.execute(DRAW).stdout == twins[1].execute(DRAW).stdout


def test_rollback_meets_the_same_again():
    with Session(deterministic=1) as session:
        before = session.checkpoint()
        first = session.execute(DRAW).stdout
        session.rollback(before)
        assert session.execute(DRAW).stdout == first


def test_time_stands_still_while_a_call_is_open():
    code = """
import asyncio, time
begin = time.time()
await asyncio.gather(ask(), asyncio.sleep(3600))
print(round(time.time() - begin))"""
    with Session(deterministic=1, callbacks={"ask": None}) as session:
        progress = session.start(code)
        [call] = progress.pending
        snapshot = session.suspend()
        assert session.reply({call.id: 1}).result.stdout == "3600\n"
    with resume(snapshot, callbacks={"ask": None}, replies={call.id: 1}) as woken:
        assert woken.finish().stdout == "3600\n"


def test_where_it_is_passed_on(tmp_path: Path):
    expected = said(DRAW, deterministic=3)
    with brumate.Pool(size=2, deterministic=3) as pool:
        assert [result.stdout for result in pool.map([DRAW] * 4)] == [expected] * 4
    factory = brumate.SandboxFactory(imports=["this"])
    with factory.create_session(deterministic=3) as one, factory.create_sandbox(deterministic=3) as other:
        assert one.execute(DRAW).stdout == other.execute(DRAW).stdout
    with Store(tmp_path, max_live=0, deterministic=3) as store:
        with store.session("a") as session:
            assert session.execute(DRAW).stdout == expected
        with store.session("a") as woken, Session(deterministic=3) as session:
            session.execute(DRAW)
            assert woken.execute(DRAW).stdout == session.execute(DRAW).stdout != expected
