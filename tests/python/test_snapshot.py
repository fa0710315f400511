"""Sessions asleep: put away in one process, woken in another, also where a run waits."""

from __future__ import annotations

import asyncio
import pickle
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import python_env
from kinds import KINDS

import brumate
from brumate import BrumateError, ExecutionError, ResourceLimits, Session, Snapshot, resume

ASK = {"ask": None}
KEY = b"sixteen bytes of"


def wake_elsewhere(pairs: list[tuple[bytes, str]]) -> list[str]:
    """What each code prints in the session that wakes from its snapshot, in another process."""
    program = Path(__file__).parent / "waking.py"
    done = subprocess.run(
        [sys.executable, "-B", str(program)],
        input=pickle.dumps(pairs),
        capture_output=True,
        timeout=300,
        env=python_env(),
    )
    assert done.returncode == 0, done.stderr.decode()
    return pickle.loads(done.stdout)


@pytest.fixture(scope="module")
def woken() -> dict[str, str]:
    """What every kind of state does in another process, all woken in one."""
    pairs = []
    for make, use, _ in KINDS.values():
        with Session() as session:
            session.execute(make)
            pairs.append((session.suspend().to_bytes(), use))
    return dict(zip(KINDS, wake_elsewhere(pairs), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_state_of_every_kind_wakes_in_another_process(kind: str, woken: dict[str, str]):
    assert woken[kind].rstrip("\n") == KINDS[kind][2]


def test_suspend_leaves_the_session_as_it_was(session: Session):
    session.execute("it = iter(range(9)); next(it)")
    session.suspend()
    assert session.execute("print(next(it))").stdout == "1\n"


def test_suspend_may_close(session: Session):
    snapshot = session.suspend(close=True)
    assert session.closed
    assert resume(snapshot).execute("print(1)").stdout == "1\n"


def test_ways_of_a_snapshot(tmp_path: Path, session: Session):
    session.execute("x = 41")
    snapshot = session.suspend()
    file = tmp_path / "s.bru"
    snapshot.save(file)
    for same in (
        snapshot,
        snapshot.to_bytes(),
        bytearray(snapshot.to_bytes()),
        Snapshot.from_bytes(memoryview(snapshot.to_bytes())),
        Snapshot.load(file),
        Snapshot.load(str(file)),
        pickle.loads(pickle.dumps(snapshot)),
    ):
        with resume(same) as woken:
            assert woken.execute("print(x + 1)").stdout == "42\n"
    assert list(tmp_path.iterdir()) == [file]


def test_what_a_snapshot_tells_of_itself(session: Session):
    before = time.time()
    session.execute("f = open('/data/f', 'w'); x = b'x' * 1000_000")
    snapshot = session.suspend()
    info = snapshot.info
    assert before - 1 <= info.taken <= time.time() + 1
    assert (info.waiting, info.pending, info.time_left_ms, info.open_files) == (False, 0, None, 1)
    assert info.size == len(snapshot.to_bytes())
    assert 1_000_000 < info.changed < info.memory
    assert len(info.image_id) == 32 and len(info.guest_id) == 64 and not info.signed
    assert not snapshot.waiting and snapshot.pending == []
    with Session(callbacks=ASK) as other:
        other.start("await ask()", timeout_ms=60_000)
        info = other.suspend().info
        assert info.waiting and info.pending == 1
        assert info.time_left_ms is not None and 1_000 < info.time_left_ms <= 60_000


def test_snapshots_cannot_be_changed_or_made_up():
    with pytest.raises(TypeError, match="suspend"):
        Snapshot()
    snapshot = Session().suspend()
    with pytest.raises(AttributeError):
        snapshot.pending = []  # type: ignore[misc]


def test_any_threads_may_use_a_snapshot_at_once(session: Session):
    session.execute("x = list(range(1000))")
    snapshot = session.suspend()
    told: list[str] = []

    def wake() -> None:
        for _ in range(10):
            with resume(snapshot) as woken:
                told.append(woken.execute("x.append(1); print(len(x))").stdout)

    threads = [threading.Thread(target=wake) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == ["1001\n"] * 40


@pytest.mark.parametrize("data", [b"", b"x", b"\0" * 5000, b"\x80\x04K\x01."])
def test_bytes_that_are_no_snapshot(data: bytes, tmp_path: Path):
    (tmp_path / "f").write_bytes(data)
    for wake in (
        lambda: Snapshot.from_bytes(data),
        lambda: Snapshot.load(tmp_path / "f"),
        lambda: resume(data),
    ):
        with pytest.raises(ValueError):
            wake()


def test_files_that_cannot_be_read_or_written(tmp_path: Path, session: Session):
    with pytest.raises(FileNotFoundError):
        Snapshot.load(tmp_path / "none")
    with pytest.raises(OSError):
        session.suspend().save(tmp_path / "no" / "folder")


def test_limits_of_the_waking_session_hold(session: Session):
    session.execute("x = bytearray(60 << 20)")
    snapshot = session.suspend()
    with pytest.raises(BrumateError, match="limit"):
        resume(snapshot, resource_limits=ResourceLimits(max_memory_bytes=64 << 20))


def test_a_snapshot_belongs_to_its_image():
    factory = brumate.SandboxFactory(imports=["fractions"])
    with factory.create_session() as session:
        session.execute("import sys; x = 'fractions' in sys.modules")
        snapshot = session.suspend()
        with session.fork() as twin:
            assert twin.execute("print(x)").stdout == "True\n"
    assert resume(snapshot, image=factory).execute("print(x)").stdout == "True\n"
    with pytest.raises(BrumateError, match="another image"):
        resume(snapshot)


def test_a_key_is_asked_for(session: Session):
    signed, plain = session.suspend(key=KEY), session.suspend()
    assert signed.info.signed
    assert resume(signed.to_bytes(), key=KEY).execute("print(1)").stdout == "1\n"
    for data, key in ((signed, None), (signed, KEY[::-1]), (plain, KEY)):
        with pytest.raises(BrumateError, match="signed"):
            Snapshot.from_bytes(data.to_bytes(), key=key)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(signed)
    with pytest.raises(ValueError, match="16 bytes"):
        session.suspend(key=b"short")
    with pytest.raises(TypeError, match="bytes"):
        session.suspend(key="text of some length")  # type: ignore[arg-type]


# --- runs step by step ---


def test_a_run_without_calls_is_done_at_once(session: Session):
    progress = session.start("print('hi'); result = 6 * 7")
    assert progress.done and progress.result and progress.result.result == 42
    assert (progress.pending, progress.wake_in_ms) == ([], None)


def test_start_performs_what_has_an_implementation():
    async def later(n: int) -> int:
        await asyncio.sleep(0.001)
        return n * 2

    with Session(callbacks=[
        {"name": "ask", "fn": None, "description": "Asks a human"},
        {"name": "now", "fn": lambda n: n + 1},
        {"name": "later", "fn": later},
    ]) as session:
        progress = session.start(
            "import asyncio\na, b, c = await asyncio.gather(ask('?', why=1), now(1), later(1))\nprint(a, b, c)"
        )
        (call,) = progress.pending
        assert (call.name, call.args, call.kwargs) == ("ask", ("?",), {"why": 1})
        assert progress.wake_in_ms is None and not progress.done
        done = session.reply({call.id: {"any": [1, 2.5, b"value"]}})
        assert done.result.stdout == "{'any': [1, 2.5, b'value']} 2 2\n"
        assert session.execution_count == 1
        assert "Asks a human" in session.execute("import _callbacks; print(_callbacks.list())").stdout


def test_declared_functions_in_a_registry():
    registry = brumate.CallbackRegistry()
    registry.add(None, name="human.ask", description="Asks")
    assert [entry["fn"] for entry in registry] == [None]
    with pytest.raises(ValueError, match="name"):
        registry.add(None)
    with Session(callbacks=registry) as session:
        assert session.start("await human.ask()").pending[0].name == "human.ask"


def test_execute_says_that_a_function_has_no_implementation(run: Callable[..., Any]):
    with Session(callbacks=ASK) as session:
        with pytest.raises(ExecutionError, match="NotImplementedError.*ask.*start"):
            run(session, "await ask()")


def test_an_exception_as_a_reply_is_raised_in_the_guest():
    with Session(callbacks=ASK) as session:
        call = session.start(
            "try: await ask()\nexcept KeyError as e: print('caught', e)"
        ).pending[0]
        assert session.reply({call.id: KeyError("no")}).result.stdout == "caught 'no'\n"


def test_replies_one_by_one_in_any_order():
    with Session(callbacks=ASK) as session:
        progress = session.start(
            "import asyncio\nprint(await asyncio.gather(*(ask(n) for n in range(20))))"
        )
        assert [call.args for call in progress.pending] == [(n,) for n in range(20)]
        for call in random.sample(progress.pending, 20):
            assert not progress.done
            progress = session.reply({call.id: call.args[0] * 10})
        assert progress.result.stdout == f"{[n * 10 for n in range(20)]}\n"


def test_one_call_after_another():
    with Session(callbacks=ASK) as session:
        progress = session.start("total = 0\nfor n in range(50): total += await ask(n)\nprint(total)")
        while not progress.done:
            (call,) = progress.pending
            progress = session.reply({call.id: call.args[0]})
        assert progress.result.stdout == "1225\n"


def test_calls_that_the_guest_gives_up_are_not_pending():
    with Session(callbacks=ASK) as session:
        progress = session.start(
            "import asyncio\ntry: await asyncio.wait_for(ask(), 0.02)\nexcept TimeoutError: print('late')"
        )
        assert len(progress.pending) == 1 and 0 < progress.wake_in_ms <= 20
        assert session.finish().stdout == "late\n"


def test_timers_are_told_and_finish_waits_for_them(session: Session):
    progress = session.start("import asyncio\nawait asyncio.sleep(0.05)\nprint('slept')")
    assert not progress.done and 0 < progress.wake_in_ms <= 50
    assert not session.progress().done
    assert session.finish().stdout == "slept\n"


def test_replies_to_calls_that_are_not_pending():
    with Session(callbacks=ASK) as session:
        call = session.start("print(await ask())").pending[0]
        with pytest.raises(ValueError, match="pending"):
            session.reply({call.id: 1, call.id + 1: 2})
        assert session.reply({call.id: 1}).done  # nothing was answered before
        for refused in (session.progress, session.finish, lambda: session.reply({call.id: 1})):
            with pytest.raises(BrumateError, match="no run waits"):
                refused()


@pytest.mark.parametrize("replies", [None, 5, [(1, 2)], "x"])
def test_replies_are_a_dict(replies: Any):
    with Session(callbacks={"ask": None}) as session:
        session.start("await ask()")
        with pytest.raises(TypeError, match="replies must be"):
            session.reply(replies)


def test_a_number_is_no_path(tmp_path: Path):
    """Of a descriptor that is open for something else nothing is read, and it stays open."""
    with open(tmp_path / "file", "wb+") as file:
        with pytest.raises(TypeError):
            Snapshot.load(file.fileno())  # type: ignore[arg-type]
        file.write(b"x")
        file.flush()


def test_finish_says_what_the_run_waits_for():
    with Session(callbacks=ASK) as session:
        call = session.start("print(await ask())").pending[0]
        for finish in (session.finish, lambda: asyncio.run(session.finish_async())):
            with pytest.raises(BrumateError, match=r"ask\(\) \(call 1\)"):
                finish()
        assert session.reply({call.id: 1}).result.stdout == "1\n"


def test_failures_of_a_run_are_raised_where_it_goes_on():
    with Session(callbacks=ASK) as session:
        call = session.start("print('begun')\nx = await ask()\n1 / x").pending[0]
        with pytest.raises(ExecutionError, match="ZeroDivisionError") as failed:
            session.reply({call.id: 0})
        assert failed.value.stdout == "begun\n"
        assert session.execute("print(x)").stdout == "0\n"


def test_reset_and_close_give_up_a_run_that_waits():
    session = Session(callbacks=ASK)
    session.start("await ask()")
    with pytest.raises(BrumateError, match="busy"):
        session.execute("pass")
    session.reset()
    assert session.execute("print(1)").stdout == "1\n"
    session.start("await ask()")
    session.close()


def test_held_calls_count_against_the_limit_of_pending_ones():
    limits = ResourceLimits(max_pending_callbacks=3)
    with Session(callbacks=ASK, resource_limits=limits) as session:
        progress = session.start(
            "import asyncio\nr = await asyncio.gather(*(ask(n) for n in range(5)), return_exceptions=True)\nprint(*map(type, r[3:]))"
        )
        assert [call.args for call in progress.pending] == [(0,), (1,), (2,)]
        done = session.reply({call.id: None for call in progress.pending})
        assert done.result.stdout.count("CallError") == 2


def test_functions_that_are_stuck_lose_the_run_step_by_step():
    limits = ResourceLimits(callback_timeout_ms=100)
    release = threading.Event()

    async def stuck_async() -> None:
        await asyncio.sleep(30)

    functions: dict[str, Any] = {"ask": None, "stuck": lambda: release.wait(30), "stuck_async": stuck_async}
    with Session(callbacks=functions, resource_limits=limits) as session:
        for name in ("stuck", "stuck_async"):
            progress = session.start(
                f"import asyncio\nr = await asyncio.gather({name}(), ask(), return_exceptions=True)\nprint(type(r[0]).__name__, r[1])"
            )
            (call,) = progress.pending
            assert session.reply({call.id: "fine"}).result.stdout == "TimeoutError fine\n"
        release.set()


def test_interrupt_reaches_a_run_that_waits():
    with Session(callbacks=ASK) as session:
        session.start("x = 1\nawait ask()")
        session.interrupt()
        with pytest.raises(ExecutionError, match="KeyboardInterrupt"):
            session.progress()
        assert session.execute("print(x)").stdout == "1\n"


def test_one_thread_at_a_time_goes_on_with_a_run():
    begun, release = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        release.wait(30)

    with Session(callbacks={"ask": None, "slow": slow}) as session:
        call = session.start("await ask()\nawait slow()\nprint('over')").pending[0]
        told: list[str] = []
        thread = threading.Thread(
            target=lambda: told.append(session.reply({call.id: None}).result.stdout)
        )
        thread.start()
        assert begun.wait(10)
        for refused in (
            session.progress, session.finish, session.reset, session.suspend, session.fork, session.close,
            lambda: session.reply({}), lambda: session.execute("pass"),
            lambda: asyncio.run(session.finish_async()),
        ):
            with pytest.raises(BrumateError, match="busy"):
                refused()
        release.set()
        thread.join()
        assert told == ["over\n"]


def test_a_task_that_goes_on_with_a_run_keeps_others_from_it():
    async def main() -> None:
        gate = asyncio.Event()

        async def slow() -> str:
            await gate.wait()
            return "slow"

        with Session(callbacks={"ask": None, "slow": slow}) as session:
            progress = session.start("import asyncio\nprint(await ask(), await slow())")
            with pytest.raises(BrumateError, match="waits for replies"):
                await session.finish_async()
            session._answer({progress.pending[0].id: 1})
            task = asyncio.create_task(session.finish_async())
            await asyncio.sleep(0.1)
            for refused in (session.progress, session.reset, session.close, lambda: session.reply({})):
                with pytest.raises(BrumateError, match="busy"):
                    refused()
            twin = session.fork()
            gate.set()
            assert (await task).stdout == "1 slow\n"
            assert (await twin.finish_async()).stdout == "1 slow\n"

    asyncio.run(main())


def test_cancelling_finish_async_leaves_a_session_to_reset():
    async def main() -> None:
        async def slow() -> None:
            await asyncio.sleep(30)

        with Session(callbacks=ASK) as session:
            session.start("await ask()")
            snapshot = session.suspend()
        with resume(snapshot, callbacks={"ask": slow}) as woken:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(woken.finish_async(), 0.1)
            with pytest.raises(BrumateError, match="cancelled"):
                woken.execute("pass")
            woken.reset()
            assert woken.execute("print(1)").stdout == "1\n"

    asyncio.run(main())


def test_ctrl_c_ends_a_run_that_goes_on(python: Callable[..., Any]):
    done = python("""
import brumate, os, signal, threading
session = brumate.Session(callbacks={"ask": None})
call = session.start("x = 1\\nawait ask()\\nwhile True: pass").pending[0]
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    session.reply({call.id: None})
except KeyboardInterrupt:
    print("stopped", session.execute("print(x)").stdout)
""")
    assert (done.stdout, done.stderr) == ("stopped 1\n\n", "")


def test_the_time_limit_holds_step_by_step():
    with Session(callbacks=ASK) as session:
        call = session.start("await ask()\nwhile True: pass", timeout_ms=300).pending[0]
        with pytest.raises(brumate.TimeoutError):
            session.reply({call.id: 1})


# --- asleep where a run waits ---


def test_wake_with_the_answer_in_another_process(python: Callable[..., Any], tmp_path: Path):
    with Session(callbacks=ASK) as session:
        session.start("name = 'world'\nprint('asking')\ngreeting = await ask('How?')\nprint(greeting, name)")
        session.suspend(close=True).save(tmp_path / "s")
    done = python(f"""
import brumate
snapshot = brumate.Snapshot.load({str(tmp_path / "s")!r})
(call,) = snapshot.pending
print(call.name, call.args, call.kwargs)
print(brumate.resume(snapshot, replies={{call.id: "hello"}}).finish().stdout, end="")
""")
    assert (done.stdout, done.stderr) == ("ask ('How?',) {}\nasking\nhello world\n", "")


def test_gather_of_100_calls_answered_elsewhere_in_random_order(
    python: Callable[..., Any], tmp_path: Path
):
    with Session(callbacks=ASK) as session:
        session.start("import asyncio\nprint(await asyncio.gather(*(ask(n, text='t' * n) for n in range(100))))")
        session.suspend().save(tmp_path / "s")
    done = python(f"""
import brumate, random
snapshot = brumate.Snapshot.load({str(tmp_path / "s")!r})
session = brumate.resume(snapshot)
calls = snapshot.pending
assert len(calls) == 100 and all(c.kwargs == {{"text": "t" * c.args[0]}} for c in calls)
random.shuffle(calls)
for call in calls:
    progress = session.reply({{call.id: call.args[0] ** 2}})
print(progress.result.stdout, end="")
""")
    assert done.stdout == f"{[n**2 for n in range(100)]}\n", done.stderr


def test_implementations_of_the_waking_session_get_open_calls_again():
    async def ask_async(n: int) -> int:
        await asyncio.sleep(0.001)
        return n + 1

    with Session(callbacks=ASK) as session:
        session.start("import asyncio\nprint(await asyncio.gather(ask(1), ask(2)))")
        snapshot = session.suspend()
    for fn in (lambda n: n + 1, ask_async):
        assert resume(snapshot, callbacks={"ask": fn}).finish().stdout == "[2, 3]\n"
        woken = resume(snapshot, callbacks={"ask": fn})
        assert asyncio.run(woken.finish_async()).stdout == "[2, 3]\n"
        first = snapshot.pending[0].id
        assert resume(snapshot, callbacks={"ask": fn}, replies={first: 0}).finish().stdout == "[0, 3]\n"


def test_replies_for_calls_that_the_snapshot_has_not():
    with Session(callbacks=ASK) as session:
        session.start("await ask()")
        snapshot = session.suspend()
    with pytest.raises(ValueError, match="pending"):
        resume(snapshot, replies={99: 1})
    with pytest.raises(BrumateError, match="no run waits"):
        resume(Session().suspend(), replies={1: 1})


def test_suspend_while_execute_async_waits():
    async def main() -> None:
        gate = asyncio.Event()
        asked: list[int] = []

        async def slow(n: int) -> int:
            asked.append(n)
            await gate.wait()
            return n

        with Session(callbacks={"slow": slow}) as session:
            task = asyncio.create_task(session.execute_async("print('on', await slow(5))"))
            await asyncio.sleep(0.1)
            snapshot = session.suspend()
            assert [call.args for call in snapshot.pending] == [(5,)]
            gate.set()
            assert (await task).stdout == "on 5\n"
            with resume(snapshot, replies={snapshot.pending[0].id: 6}) as woken:
                assert (await woken.finish_async()).stdout == "on 6\n"
            assert asked == [5]
            gate.clear()
            task = asyncio.create_task(session.execute_async("print(await slow(7))"))
            await asyncio.sleep(0.1)
            snapshot = session.suspend(close=True)
            with pytest.raises(BrumateError, match="suspended"):
                await task
            assert session.closed
            gate.set()
            with resume(snapshot, callbacks={"slow": slow}) as woken:
                assert (await woken.finish_async()).stdout == "7\n"

    asyncio.run(main())


@pytest.mark.parametrize(
    "code",
    ["import time; time.sleep(1)", "input()", "n = 0\nwhile n < 10**7: n += 1", "import asyncio; asyncio.run(asyncio.sleep(1))"],
)
def test_code_that_is_not_at_rest_cannot_sleep(code: str):
    begun = threading.Event()

    def slow_input() -> str:
        time.sleep(0.5)
        return ""

    with Session(stdin=slow_input) as session:
        thread = threading.Thread(
            target=lambda: session.execute(
                f"print('on', flush=True)\ntry:\n {code.replace(chr(10), chr(10) + ' ')}\nexcept EOFError: pass",
                on_stdout=lambda _: begun.set(),
            )
        )
        thread.start()
        begun.wait(10)
        for refused in (session.suspend, session.fork, session.checkpoint):
            with pytest.raises(BrumateError, match="not at rest"):
                refused()
        thread.join()
        session.suspend()


def test_output_of_a_run_that_was_told_as_it_went():
    with Session(callbacks=ASK) as session:
        heard: list[str] = []
        session.start("print('one')\nawait ask()\nprint('two')", on_stdout=heard.append)
        snapshot = session.suspend()
        woken = resume(snapshot, replies={snapshot.pending[0].id: None}, on_stdout=heard.append)
        woken.finish()
        assert "".join(heard) == "one\ntwo\n"


def test_listeners_hear_of_a_run_that_nobody_listened_to():
    with Session(callbacks=ASK) as session:
        session.start("print('one')\nawait ask()\nprint('two')")
        snapshot = session.suspend()
    heard: list[str] = []
    woken = resume(snapshot, replies={snapshot.pending[0].id: None}, on_stdout=heard.append)
    assert woken.finish().stdout == "one\ntwo\n" == "".join(heard)


def test_input_that_was_not_read_goes_along():
    with Session(callbacks=ASK) as session:
        session.start("a = input()\nawait ask()\nprint(a, input())", stdin="one\ntwo\n")
        snapshot = session.suspend()
    assert resume(snapshot, replies={snapshot.pending[0].id: None}).finish().stdout == "one two\n"


def test_restore_state_takes_a_snapshot_with_a_run():
    with Session(callbacks=ASK) as session, Session(callbacks=ASK) as other:
        call = session.start("print(await ask())").pending[0]
        other.restore_state(session.suspend())
        assert other.reply({call.id: "there"}).result.stdout == "there\n"
        assert session.reply({call.id: "here"}).result.stdout == "here\n"
        session.restore_state(other.suspend())
        assert session.execute("print(1)").stdout == "1\n"


# --- right after waking ---


def test_entropy_is_fresh(session: Session):
    session.execute("import random, os, uuid, secrets; random.seed(1); random.random()")
    snapshot = session.suspend().to_bytes()
    code = "print(random.random(), os.urandom(8).hex(), uuid.uuid4(), secrets.token_hex(8), random.SystemRandom().random())"
    told = [set(resume(snapshot).execute(code).stdout.split()) for _ in range(5)]
    told += [set(text.split()) for text in wake_elsewhere([(snapshot, code)] * 2)]
    assert len(set.union(*told)) == 5 * len(told)


def test_clocks_go_on(session: Session):
    session.execute("import time; wall, mono = time.time(), time.monotonic()")
    snapshot = session.suspend().to_bytes()
    time.sleep(0.3)
    code = "print(time.time(), time.monotonic() - mono, time.time() - wall)"
    for told in (resume(snapshot).execute(code).stdout, *wake_elsewhere([(snapshot, code)])):
        wall, passed, passed_by_wall = map(float, told.split())
        assert abs(wall - time.time()) < 5
        assert passed >= 0.3 and abs(passed - passed_by_wall) < 0.2


def test_timers_that_came_due_asleep_fire(session: Session):
    session.start("import asyncio\nawait asyncio.sleep(0.2)\nprint('fired')")
    snapshot = session.suspend(close=True)
    time.sleep(0.25)
    with resume(snapshot) as woken:
        assert woken.progress().result.stdout == "fired\n"


def test_time_left_waiting_in_memory_does_not_count():
    with Session(callbacks=ASK) as session:
        call = session.start("print(await ask())", timeout_ms=200).pending[0]
        for _ in range(2):
            time.sleep(0.2)
            left = session.suspend().info.time_left_ms
            assert left is not None and 50 < left <= 200
            assert session.progress().pending == [call]
        twin = session.fork()
        time.sleep(0.2)
        for s in (session, twin):
            result = s.reply({call.id: "in time"}).result
            assert result.stdout == "in time\n" and result.duration_ms < 200


def test_a_wait_for_nothing_is_an_error_not_a_wait(session: Session):
    with pytest.raises(ExecutionError, match="deadlock"):
        session.start("import asyncio\nawait asyncio.Event().wait()")


def test_a_woken_run_has_at_most_the_time_that_its_session_gives():
    with Session(callbacks=ASK, execution_timeout_ms=600_000) as session:
        session.start("await ask()")
        snapshot = session.suspend()
    for limit in (500_000, 700_000):
        with resume(snapshot, execution_timeout_ms=limit) as woken:
            left = woken.suspend().info.time_left_ms
            assert left is not None and 400_000 < left <= min(limit, 600_000)


def test_time_asleep_does_not_count():
    with Session(callbacks=ASK) as session:
        session.start("print(await ask())", timeout_ms=2_000)
        snapshot = session.suspend(close=True)
    time.sleep(0.3)
    left = snapshot.info.time_left_ms
    with resume(snapshot, replies={snapshot.pending[0].id: "in time"}) as woken:
        assert left is not None and woken.finish().stdout == "in time\n"
    with Session(callbacks=ASK) as session:
        session.start("print(await ask())", timeout_ms=200)
        snapshot = session.suspend(close=True)
    time.sleep(0.3)
    with resume(snapshot, replies={snapshot.pending[0].id: "in time"}) as woken:
        assert woken.finish().stdout == "in time\n"
