"""Sessions: state between runs, its loss and its return, stops, and their order."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Run

import brumate
from brumate import BrumateError, ExecutionError, ResourceLimits, Session, TimeoutError


def test_state_of_every_kind_persists(session: Session, run: Run):
    run(
        session,
        "import math as m\nclass C:\n n = 5\ndef f(): return C.n\nx = [C()]\ng = (i for i in range(9))\nnext(g)",
    )
    assert (
        run(session, "print(m.pi > 3, f(), x[0].n, next(g), type(x[0]).__module__)").stdout
        == "True 5 5 1 __main__\n"
    )


def test_imports_and_changes_of_modules_persist(session: Session, run: Run):
    run(session, "import json, sys; json.MARK = 1; sys.path.append('/zz')")
    assert (
        run(session, "import json, sys; print(json.MARK, '/zz' in sys.path)").stdout == "1 True\n"
    )


def test_state_survives_an_exception(session: Session, run: Run):
    with pytest.raises(ExecutionError):
        run(session, "x = 1\n1/0\nx = 2")
    assert run(session, "print(x)").stdout == "1\n"


def test_mistakes_name_their_run(session: Session):
    session.execute("def f():\n    return 1 / 0")
    with pytest.raises(ExecutionError) as failed:
        session.execute("f()")
    assert "return 1 / 0" in str(failed.value) and "line 2, in f" in str(failed.value)


def test_files_persist_without_storage(session: Session, run: Run):
    run(session, "open('/data/f', 'w').write('kept')")
    assert run(session, "print(open('/data/f').read())").stdout == "kept\n"


def test_sessions_are_apart():
    with Session() as one, Session() as two:
        one.execute("x = 1; open('/data/f', 'w').write('one')")
        assert (
            two.execute("import os; print('x' in globals(), os.path.exists('/data/f'))").stdout
            == "False False\n"
        )


# --- reset, clear_state, snapshots ---


def test_reset_is_a_fresh_python(session: Session, run: Run):
    run(session, "import json, sys; json.MARK = x = 1; sys.path.append('/zz')")
    session.reset()
    code = "import json, sys; print('x' in globals(), hasattr(json, 'MARK'), '/zz' in sys.path)"
    assert run(session, code).stdout == "False False False\n"


def test_clear_state_keeps_the_interpreter(session: Session, run: Run):
    run(session, "import json; json.MARK = x = 1")
    session.clear_state()
    out = run(session, "print('x' in globals(), __name__); import json; print(json.MARK)").stdout
    assert out == "False __main__\n1\n"


def test_clear_state_keeps_callbacks(run: Run):
    with Session(callbacks={"echo": lambda v: v}) as session:
        run(session, "x = echo; echo = None")
        session.clear_state()
        assert run(session, "print(await echo(1))").stdout == "1\n"


def test_snapshot_holds_what_the_code_made(session: Session, run: Run):
    run(
        session,
        """
import collections, datetime, re
class Point:
    def __init__(self, x): self.x = x
    def double(self): return self.x * 2
def f(n, k=[1]): return n + k[0]
make = lambda n: n * 3
p = Point(21); both = [p, p]
d = collections.OrderedDict(a=1); r = re.compile("a+"); t = datetime.date(2026, 1, 2)
n = None
""",
    )
    snapshot = session.snapshot_state()
    assert isinstance(snapshot, bytes)
    with Session() as other:
        other.restore_state(snapshot)
        code = "print(p.double(), both[0] is both[1] is p, f(1), make(2), d, r.match('aa')[0], t, n, isinstance(p, Point))"
        assert run(other, code).stdout == (
            "42 True 2 6 OrderedDict({'a': 1}) aa 2026-01-02 None True\n"
        )


def test_restore_replaces_what_is_there(session: Session, run: Run):
    run(session, "x = 1")
    snapshot = session.snapshot_state()
    run(session, "x = 2; y = 3")
    session.restore_state(snapshot)
    assert run(session, "print(x, 'y' in globals())").stdout == "1 False\n"


def test_snapshot_may_be_restored_again_and_again(session: Session, run: Run):
    run(session, "x = [1]")
    snapshot = session.snapshot_state()
    for _ in range(5):
        session.restore_state(snapshot)
        assert run(session, "x.append(2); print(x)").stdout == "[1, 2]\n"


@pytest.mark.parametrize("data", [b"", b"x", b"\0" * 100, b"BRU" + bytes(5000), b"\x80\x04K\x01."])
def test_snapshots_that_are_none(data: bytes, session: Session, run: Run):
    run(session, "x = 1")
    with pytest.raises((BrumateError, ValueError)):
        session.restore_state(data)
    try:
        run(session, "print(1)")
    except BrumateError:
        session.reset()
        run(session, "print(1)")


def test_snapshot_cut_or_changed_anywhere_is_refused_or_harmless(session: Session):
    session.execute("x = 42")
    snapshot = session.snapshot_state()
    step = max(1, len(snapshot) // 40)
    for at in range(0, len(snapshot), step):
        changed = bytearray(snapshot)
        changed[at] ^= 0xFF
        for data in (bytes(changed), snapshot[:at]):
            try:
                session.restore_state(data)
            except (BrumateError, ValueError):
                session.reset()
    session.restore_state(snapshot)
    assert session.execute("print(x)").stdout == "42\n"


def test_wrong_type_of_snapshot(session: Session):
    with pytest.raises(TypeError):
        session.restore_state("text")  # type: ignore[arg-type]


def test_callbacks_work_after_a_restore(run: Run):
    with Session(callbacks={"echo": lambda v: v}) as session:
        run(session, "async def f(v): return await echo(v)\nx = 1")
        snapshot = session.snapshot_state()
        session.reset()
        session.restore_state(snapshot)
        assert run(session, "print(x, await f(2))").stdout == "1 2\n"


# --- counting and properties ---


def test_execution_count_counts_runs(session: Session, run: Run):
    assert session.execution_count == 0
    run(session, "pass")
    with pytest.raises(ExecutionError):
        run(session, "1/0")
    assert session.execution_count == 2
    session.clear_state()
    session.snapshot_state()
    assert session.execution_count == 2
    session.reset()
    assert session.execution_count == 0


def test_execution_timeout_can_be_set(run: Run):
    with Session(execution_timeout_ms=1000) as session:
        assert session.execution_timeout_ms == 1000
        session.execution_timeout_ms = 100
        with pytest.raises(TimeoutError):
            run(session, "while True: pass")
        session.reset()
        assert session.execution_timeout_ms == 100
        session.execution_timeout_ms = None
        assert session.execution_timeout_ms is None
        run(session, "pass")


@pytest.mark.parametrize(
    ("value", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("1", TypeError)]
)
def test_execution_timeout_is_checked(value: Any, error: type[Exception], session: Session):
    with pytest.raises(error, match="execution_timeout_ms"):
        session.execution_timeout_ms = value
    with pytest.raises(error, match="execution_timeout_ms"):
        Session(execution_timeout_ms=value)


def test_timeout_of_limits_holds_unless_another_is_given():
    limits = ResourceLimits(execution_timeout_ms=1234)
    with (
        Session(resource_limits=limits) as one,
        Session(resource_limits=limits, execution_timeout_ms=99) as two,
    ):
        assert (one.execution_timeout_ms, two.execution_timeout_ms) == (1234, 99)


@pytest.mark.parametrize("timeout_ms", [0, -5, float("nan"), "1"])
def test_timeout_of_a_run_is_checked(timeout_ms: Any, session: Session, run: Run):
    with pytest.raises((ValueError, TypeError), match="timeout_ms"):
        run(session, "pass", timeout_ms=timeout_ms)
    assert session.execution_count == 0


# --- stops ---


def test_after_a_timeout_the_session_takes_only_reset(run: Run):
    with Session() as session:
        run(session, "n = 1")
        snapshot = session.snapshot_state()
        with pytest.raises(TimeoutError):
            run(session, "n = 2\nwhile True: pass", timeout_ms=100)
        for refused in (
            lambda: run(session, "print(n)"),
            session.snapshot_state,
            session.clear_state,
        ):
            with pytest.raises(BrumateError, match="reset"):
                refused()
        session.restore_state(snapshot)
        assert run(session, "print(n)").stdout == "1\n"


def test_ended_tells_whether_a_reset_is_needed(session: Session, run: Run):
    assert not session.ended
    with pytest.raises(TimeoutError):
        run(session, "while True: pass", timeout_ms=50)
    assert session.ended
    session.reset()
    assert not session.ended


def test_with_interrupt_the_session_goes_on(run: Run):
    with Session(on_timeout="interrupt") as session:
        run(session, "n = 1")
        for _ in range(3):
            with pytest.raises(TimeoutError) as stopped:
                run(session, "n += 1; print('in')\nwhile True: pass", timeout_ms=100)
            assert stopped.value.stdout == "in\n"
        assert run(session, "print(n)").stdout == "4\n"


def test_a_timeout_tells_where_the_code_was(run: Run):
    with Session(on_timeout="interrupt") as session:
        with pytest.raises(TimeoutError) as caught:
            run(session, "def spin():\n    while True: pass\nspin()", timeout_ms=100)
        assert "line 2, in spin\n    while True: pass" in (caught.value.traceback or "")


def test_what_resists_the_interrupt_ends_the_session(run: Run):
    with Session(on_timeout="interrupt") as session:
        code = "while True:\n try:\n  while True: pass\n except BaseException: pass"
        with pytest.raises(TimeoutError):
            run(session, code, timeout_ms=100)
        with pytest.raises(BrumateError, match="reset"):
            run(session, "print(1)")
        session.reset()
        assert run(session, "print(1)").stdout == "1\n"


def test_on_timeout_is_checked():
    with pytest.raises(ValueError, match="on_timeout"):
        Session(on_timeout="explode")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "code",
    ["while True: pass", "import time; time.sleep(60)", "import asyncio; await asyncio.sleep(60)"],
)
def test_interrupt_from_a_thread(code: str, run: Run):
    with Session() as session:
        threading.Timer(0.1, session.interrupt).start()
        start = time.monotonic()
        with pytest.raises(ExecutionError) as stopped:
            run(session, "x = 1; print('in')\n" + code)
        assert time.monotonic() - start < 10
        assert stopped.value.stdout == "in\n" and not isinstance(stopped.value, TimeoutError)


def test_state_after_an_interrupt(session: Session, run: Run):
    threading.Timer(0.1, session.interrupt).start()
    with pytest.raises(ExecutionError):
        run(session, "x = 1\nwhile True: pass")
    assert run(session, "print(x)").stdout == "1\n"


def test_ctrl_c_between_two_steps_ends_the_run(monkeypatch: pytest.MonkeyPatch):
    def stop(*event: Any) -> None:
        raise KeyboardInterrupt

    with Session(callbacks={"ask": None}) as session:
        with monkeypatch.context() as patch:
            patch.setattr("brumate.steps.Held.note", stop)
            with pytest.raises(KeyboardInterrupt):
                session.start("await ask()")
        assert session.execute("print(1)").stdout == "1\n"


def test_interrupt_of_nothing_does_nothing(session: Session, run: Run):
    session.interrupt()
    assert run(session, "print(1)").stdout == "1\n"


def test_interrupt_while_a_host_function_works(run: Run):
    with Session(callbacks={"slow": lambda: time.sleep(2)}) as session:
        threading.Timer(0.1, session.interrupt).start()
        with pytest.raises(ExecutionError):
            run(session, "await slow()")


def test_cpu_time_is_limited(run: Run):
    limits = ResourceLimits(max_cpu_ms=100)
    with Session(resource_limits=limits) as session:
        assert run(session, "import time; time.sleep(0.3); print('slept')").stdout == "slept\n"
        with pytest.raises(TimeoutError):
            run(session, "while True: pass")


def test_memory_limit_says_what_is_left(run: Run):
    with Session(resource_limits=ResourceLimits(max_memory_bytes=64 << 20)) as session:
        with pytest.raises(brumate.ResourceLimitError):
            run(session, "x = bytearray(10**9)")
        try:
            assert run(session, "print(1)").stdout == "1\n"
        except BrumateError as e:
            assert "reset" in str(e)


def test_a_limit_that_is_too_small_for_python():
    with pytest.raises(brumate.InitializationError):
        Session(resource_limits=ResourceLimits(max_memory_bytes=1000)).execute("pass")


# --- one at a time ---


def test_second_call_from_a_thread_is_refused_at_once():
    with Session() as session:
        started = threading.Event()
        results: list[Any] = []

        def first() -> None:
            results.append(
                session.execute(
                    "print('on', flush=True)\nimport time; time.sleep(1)",
                    on_stdout=lambda _: started.set(),
                )
            )

        thread = threading.Thread(target=first)
        thread.start()
        assert started.wait(10)
        for refused in (
            lambda: session.execute("pass"),
            session.reset,
            session.clear_state,
            session.snapshot_state,
            lambda: session.restore_state(b"x"),
            lambda: session.files.list(),
        ):
            with pytest.raises(BrumateError, match="busy"):
                refused()
        thread.join()
        assert results[0].stdout == "on\n"
        assert session.execute("print(1)").stdout == "1\n"


def test_second_call_from_a_task_is_refused_at_once(session: Session):
    async def main() -> None:
        first = asyncio.create_task(
            session.execute_async("import asyncio; await asyncio.sleep(0.3); print('first')")
        )
        await asyncio.sleep(0.05)
        with pytest.raises(BrumateError, match="busy"):
            await session.execute_async("pass")
        assert (await first).stdout == "first\n"

    asyncio.run(main())


def test_call_from_its_own_callback_is_refused(run: Run):
    refused: list[str] = []

    def again() -> None:
        try:
            session.execute("pass")
        except BrumateError as e:
            refused.append(str(e))

    with Session(callbacks={"again": again}) as session:
        run(session, "await again()")
    assert len(refused) == 1 and "busy" in refused[0]


def test_cancelled_run_leaves_a_session_that_says_what_it_is(session: Session):
    async def main() -> None:
        for code in ("while True: pass", "import asyncio; await asyncio.sleep(60)"):
            task = asyncio.create_task(session.execute_async(code))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            try:
                await session.execute_async("print(1)")
            except BrumateError as e:
                assert "reset" in str(e)
                session.reset()

    asyncio.run(main())
    assert session.execute("print(1)").stdout == "1\n"


# --- close ---


def test_close_and_after(run: Run):
    session = Session()
    assert not session.closed
    session.close()
    session.close()
    assert session.closed
    for refused in (
        lambda: run(session, "pass"),
        session.reset,
        session.snapshot_state,
        lambda: session.files.list(),
    ):
        with pytest.raises(BrumateError, match="closed"):
            refused()


def test_with_closes():
    with Session() as session:
        pass
    assert session.closed
    with brumate.Sandbox() as sandbox:
        sandbox.execute("pass")
    with pytest.raises(BrumateError, match="closed"):
        sandbox.execute("pass")


def test_close_while_a_run_is_under_way():
    session = Session()
    started = threading.Event()
    ends: list[BaseException | Any] = []

    def work() -> None:
        try:
            ends.append(
                session.execute(
                    "print(1, flush=True)\nwhile True: pass", on_stdout=lambda _: started.set()
                )
            )
        except BaseException as e:
            ends.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(10)
    try:
        session.close()
    except BrumateError as e:
        assert "busy" in str(e)
        session.interrupt()
    thread.join(20)
    assert not thread.is_alive() and isinstance(ends[0], BrumateError)
    session.close()


# --- what a run is given ---


def test_inputs_are_variables(session: Session, run: Run):
    result = run(session, "print(a, b)\na.append(2)", inputs={"a": [1], "b": {"x": b"\0"}})
    assert result.stdout == "[1] {'x': b'\\x00'}\n"
    assert run(session, "print(a)").stdout == "[1, 2]\n"


@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        ({"a b": 1}, ValueError),
        ({"class": 1}, ValueError),
        ({5: 1}, TypeError),
        ({"a": object()}, TypeError),
        ([1], TypeError),
    ],
)
def test_inputs_are_checked(inputs: Any, error: type[Exception], session: Session, run: Run):
    with pytest.raises(error):
        run(session, "pass", inputs=inputs)
    assert session.execution_count == 0


def test_large_inputs(session: Session, run: Run):
    assert run(session, "print(len(a))", inputs={"a": "x" * 8_000_000}).stdout == "8000000\n"
    with pytest.raises(ValueError):
        run(session, "pass", inputs={"a": "x" * 50_000_000})


def test_environment(run: Run):
    with Session(env={"KEY": "value", "EMPTY": ""}) as session:
        assert (
            run(session, "import os; print(os.environ['KEY'], repr(os.environ['EMPTY']))").stdout
            == "value ''\n"
        )
        session.reset()
        assert run(session, "import os; print(os.environ['KEY'])").stdout == "value\n"


@pytest.mark.parametrize(
    "env", [{"A=B": "x"}, {"": "x"}, {"A": "x\0"}, {"A\0": "x"}, {"A": 5}, ["A=1"]]
)
def test_environment_is_checked(env: Any):
    with pytest.raises((ValueError, TypeError)):
        Session(env=env)


@pytest.mark.parametrize("code", [5, None, b"print(1)", ["x"]])
def test_code_must_be_text(code: Any, session: Session, run: Run):
    with pytest.raises(TypeError):
        run(session, code)


@pytest.mark.parametrize("code", ["x = '\0'", "x = '\ud800'"])
def test_code_that_is_no_program_text(code: str, session: Session, run: Run):
    with pytest.raises((ValueError, ExecutionError)):
        run(session, code)
    assert run(session, "print(1)").stdout == "1\n"


def test_mounted_folders(tmp_path: Path, run: Run):
    (tmp_path / "f").write_text("text")
    with Session(mounts={"/mnt/in": tmp_path}) as session:
        code = "print(open('/mnt/in/f').read())\ntry: open('/mnt/in/g', 'w')\nexcept OSError: print('no')"
        assert run(session, code).stdout == "text\nno\n"
        session.reset()
        assert run(session, "print(open('/mnt/in/f').read())").stdout == "text\n"
    assert not (tmp_path / "g").exists()


def test_mount_that_is_not_there(tmp_path: Path):
    with pytest.raises((brumate.InitializationError, FileNotFoundError)) as failed:
        Session(mounts={"/mnt/in": tmp_path / "missing"}).execute("pass")
    assert "missing" in str(failed.value)
