"""Twins, checkpoints and trials: the same state, and each its own from there on."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from kinds import KINDS

import brumate
from brumate import BrumateError, ExecutionError, ResourceLimits, Session, TimeoutError


@pytest.mark.parametrize("kind", KINDS)
def test_twin_has_state_of_every_kind(kind: str, session: Session):
    make, use, printed = KINDS[kind]
    session.execute(make)
    with session.fork() as twin:
        assert twin.execute(use).stdout.rstrip("\n") == printed
    assert session.execute(use).stdout.rstrip("\n") == printed


def test_twins_do_not_touch_each_other(session: Session):
    session.execute("x = [0]; open('/data/f', 'w').write('0')")
    twins = session.fork(20)
    for number, twin in enumerate(twins):
        twin.execute(f"x.append({number}); open('/data/f', 'a').write('{number}')")
    session.execute("x.append('own'); open('/data/f', 'a').write('own')")
    code = "print(x, open('/data/f').read())"
    for number, twin in enumerate(twins):
        assert twin.execute(code).stdout == f"[0, {number}] 0{number}\n"
        twin.close()
    assert session.execute(code).stdout == "[0, 'own'] 0own\n"


def test_twin_outlives_the_original():
    session = Session()
    session.execute("x = 1")
    twin = session.fork()
    session.close()
    del session
    gc.collect()
    with twin:
        assert twin.execute("print(x)").stdout == "1\n"


def test_twins_of_twins(session: Session):
    session.execute("n = 0")
    line = [session]
    for _ in range(10):
        line.append(line[-1].fork())
        line[-1].execute("n += 1")
    assert [s.execute("print(n)").stdout for s in line] == [f"{n}\n" for n in range(11)]


def test_twin_has_callbacks_limits_and_count(tmp_path: Path):
    (tmp_path / "f").write_text("mounted")
    limits = ResourceLimits(max_output_bytes=10)
    with Session(
        callbacks={"add": lambda a, b: a + b},
        resource_limits=limits,
        env={"K": "v"},
        mounts={"/m": str(tmp_path)},
        vfs=brumate.VfsStorage(),
        execution_timeout_ms=5000,
    ) as session:
        session.execute("open('/data/shared', 'w').write('x')")
        twin = session.fork()
        assert twin.execute("print(await add(1, 2))").stdout == "3\n"
        assert twin.execute("print('a' * 100)").output_cut_bytes == 91
        assert twin.execute("import os; print(os.environ['K'])").stdout == "v\n"
        assert twin.execute("print(open('/m/f').read())").stdout == "mounted\n"
        assert (twin.execution_timeout_ms, twin.vfs, twin.execution_count) == (5000, session.vfs, 5)
        twin.execute("open('/data/shared', 'w').write('twin')")
        assert session.execute("print(open('/data/shared').read())").stdout == "twin\n"


def test_twins_draw_entropy_of_their_own(session: Session):
    session.execute("import random, os, uuid, secrets; random.random()")
    code = "print(random.random(), os.urandom(8).hex(), uuid.uuid4(), secrets.token_hex(8), random.SystemRandom().random())"
    told = [set(twin.execute(code).stdout.split()) for twin in (*session.fork(5), session)]
    assert len(set.union(*told)) == 5 * len(told)


def test_fork_of_none_and_nonsense(session: Session):
    assert session.fork(0) == []
    for n in (-1, 1.5, "2", True, 2**32):
        with pytest.raises((ValueError, TypeError), match="n must be"):
            session.fork(n)  # type: ignore[call-overload]


def test_fork_where_a_run_waits():
    with Session(callbacks={"ask": None}) as session:
        session.execute("who = 'both'")
        call = session.start("print('begun')\nanswer = await ask(who)\nprint(answer)").pending[0]
        twin = session.fork()
        assert session.reply({call.id: "one"}).result.stdout == "begun\none\n"
        assert twin.progress().pending == [call]
        assert twin.reply({call.id: "two"}).result.stdout == "begun\ntwo\n"
        assert (session.execution_count, twin.execution_count) == (2, 2)


def test_fork_while_execute_async_waits():
    async def main() -> None:
        gate = asyncio.Event()

        async def slow() -> str:
            await gate.wait()
            return "answer"

        with Session(callbacks={"slow": slow}) as session:
            task = asyncio.create_task(session.execute_async("print(await slow())"))
            await asyncio.sleep(0.1)
            with session.fork() as twin:
                gate.set()
                assert (await twin.finish_async()).stdout == "answer\n"
                assert (await task).stdout == "answer\n"

    asyncio.run(main())


def test_fork_of_an_ended_session_is_refused(session: Session):
    with pytest.raises(TimeoutError):
        session.execute("while True: pass", timeout_ms=50)
    for refused in (session.fork, session.checkpoint, session.suspend):
        with pytest.raises(BrumateError, match="has ended"):
            refused()


# --- checkpoints ---


def test_rollback_as_often_as_one_likes(session: Session):
    session.execute("x = [1]; open('/data/f', 'w').write('1')")
    before = session.checkpoint()
    for _ in range(3):
        session.execute("x.append(2); open('/data/f', 'a').write('2'); import json")
        session.rollback(before)
        assert session.execute("print(x, open('/data/f').read())").stdout == "[1] 1\n"
        session.rollback(before)
    assert session.execution_count == 1


def test_rollback_to_any_of_many(session: Session):
    points = []
    for n in range(20):
        session.execute(f"n = {n}")
        points.append(session.checkpoint())
    for n in (3, 19, 0, 7):
        session.rollback(points[n])
        assert session.execute("print(n)").stdout == f"{n}\n"


@pytest.mark.parametrize("end", ["import os; os._exit(3)", "while True: pass"])
def test_rollback_brings_an_ended_session_back(end: str, session: Session):
    session.execute("x = 1")
    before = session.checkpoint()
    with pytest.raises(BrumateError):
        session.execute(end, timeout_ms=100)
    session.rollback(before)
    assert session.execute("print(x)").stdout == "1\n"


def test_rollback_gives_up_a_run_that_waits():
    with Session(callbacks={"ask": None}) as session:
        before = session.checkpoint()
        session.start("x = await ask()")
        session.rollback(before)
        assert session.execute("print('x' in globals())").stdout == "False\n"


def test_rollback_to_where_a_run_waits():
    with Session(callbacks={"ask": None}) as session:
        call = session.start("print(await ask())").pending[0]
        waiting = session.checkpoint()
        for answer in ("yes", "no"):
            assert session.reply({call.id: answer}).result.stdout == f"{answer}\n"
            session.rollback(waiting)


def test_files_from_outside_follow_a_rollback(session: Session):
    files = session.files
    files.put("/data/f", "old")
    before = session.checkpoint()
    files.put("/data/f", "new")
    session.rollback(before)
    assert files.get("/data/f") == b"old"


def test_checkpoints_that_cannot_be_gone_back_to(session: Session):
    closed = session.checkpoint()
    closed.close()
    with Session() as other, pytest.raises(ValueError, match="another session's"):
        session.rollback(other.checkpoint())
    with pytest.raises(ValueError, match="closed"):
        session.rollback(closed)


# --- trials ---


@pytest.mark.parametrize("checkpoint", [None, 5, "x"])
def test_what_is_no_checkpoint(checkpoint: Any, session: Session):
    with pytest.raises(TypeError, match="checkpoint must be"):
        session.rollback(checkpoint)


def test_trial_is_taken_back_on_an_exception(session: Session):
    session.execute("x = 1; open('/data/f', 'w').write('1')")
    with pytest.raises(ExecutionError, match="ZeroDivisionError"):
        with session.trial() as same:
            assert same is session
            session.execute("x = 2; open('/data/f', 'w').write('2')\n1 / 0")
    assert session.execute("print(x, open('/data/f').read())").stdout == "1 1\n"


def test_trial_that_succeeds_stays(session: Session):
    with session.trial():
        session.execute("x = 2")
    assert session.execute("print(x)").stdout == "2\n"


def test_nested_trials(session: Session):
    session.execute("x = []")
    with pytest.raises(KeyError):
        with session.trial():
            session.execute("x.append('outer')")
            with pytest.raises(ValueError), session.trial():
                session.execute("x.append('inner')")
                raise ValueError
            assert session.execute("print(x)").stdout == "['outer']\n"
            with session.trial():
                session.execute("x.append('kept')")
            assert session.execute("print(x)").stdout == "['outer', 'kept']\n"
            raise KeyError
    assert session.execute("print(x)").stdout == "[]\n"


def test_trial_of_a_run_that_ends_the_session(session: Session):
    session.execute("x = 1")
    with pytest.raises(TimeoutError), session.trial():
        session.execute("while True: pass", timeout_ms=50)
    assert session.execute("print(x)").stdout == "1\n"


def test_trial_whose_session_was_closed():
    session = Session()
    with pytest.raises(ZeroDivisionError), session.trial():
        session.close()
        _ = 1 / 0
