"""Host functions called from the guest."""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import decimal
import fractions
import functools
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import Run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import brumate
from brumate import CallbackRegistry, ExecutionError, ResourceLimits, Sandbox, TimeoutError


def echo(v: Any = None) -> Any:
    return v


async def aecho(v: Any = None) -> Any:
    await asyncio.sleep(0)
    return v


@pytest.fixture(params=[echo, aecho], ids=["def", "async def"])
def box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox with `echo`, a plain function and an async one."""
    with Sandbox(callbacks={"echo": request.param}) as sandbox:
        yield sandbox


def sandbox_with(*functions: Callable[..., Any], **limits: Any) -> Sandbox:
    callbacks = {f.__name__: f for f in functions}
    return Sandbox(callbacks=callbacks, resource_limits=ResourceLimits(**limits))


# --- values ---

VALUES: dict[str, Any] = {
    "None": None,
    "True": True,
    "False": False,
    "0": 0,
    "-1": -1,
    "2**63": 2**63,
    "2**100": 2**100,
    "-(2**100)": -(2**100),
    "1.0": 1.0,
    "-0.0": -0.0,
    "float('inf')": math.inf,
    "5e-324": 5e-324,
    "1+2j": 1 + 2j,
    "''": "",
    "'grüße \\U0001f642'": "grüße \U0001f642",
    "'\\ud800'": "\ud800",
    "'a\\0b'": "a\0b",
    "b''": b"",
    "b'\\x00\\xff'": b"\x00\xff",
    "[]": [],
    "[1, [2, [3]]]": [1, [2, [3]]],
    "()": (),
    "(1, (2,))": (1, (2,)),
    "{}": {},
    "{'a': {'b': 1}}": {"a": {"b": 1}},
    "{1: 2, (3, 4): 5, None: 6}": {1: 2, (3, 4): 5, None: 6},
    "{1, 2}": {1, 2},
    "frozenset({3})": frozenset({3}),
    "date(2026, 1, 2)": datetime.date(2026, 1, 2),
    "time(1, 2, 3, 4)": datetime.time(1, 2, 3, 4),
    "datetime(2026, 1, 2, 3, 4, 5, 6)": datetime.datetime(2026, 1, 2, 3, 4, 5, 6),
    "datetime(2026, 1, 2, tzinfo=timezone.utc)": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
    "timedelta(1, 2, 3)": datetime.timedelta(1, 2, 3),
    "Decimal('1.10')": decimal.Decimal("1.10"),
    "Fraction(1, 3)": fractions.Fraction(1, 3),
    "UUID(int=5)": uuid.UUID(int=5),
}

IMPORTS = """
from datetime import date, time, datetime, timedelta, timezone
from decimal import Decimal; from fractions import Fraction; from uuid import UUID
"""


@pytest.mark.parametrize("text", VALUES)
def test_values_cross_both_ways_as_themselves(text: str):
    seen: list[Any] = []

    def keep(v: Any) -> Any:
        seen.append(v)
        return v

    with sandbox_with(keep) as sandbox:
        code = (
            f"v = {text}\nr = await keep(v)\nprint(r == v, type(r) is type(v), repr(r) == repr(v))"
        )
        assert sandbox.execute(IMPORTS + code).stdout == "True True True\n"
    value = VALUES[text]
    assert type(seen[0]) is type(value) and seen[0] == value and repr(seen[0]) == repr(value)


def test_nan_stays_nan(box: Sandbox, run: Run):
    out = run(box, "x = await echo(float('nan')); print(type(x).__name__, x != x)").stdout
    assert out == "float True\n"


def test_numbers_keep_their_type(box: Sandbox, run: Run):
    code = "r = await echo(v=[2**100, 1.0, float('nan'), b'\\x00', {1, 2}, True])\nprint([type(x).__name__ for x in r])"
    assert run(box, code).stdout == "['int', 'float', 'float', 'bytes', 'set', 'bool']\n"


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
plain |= (
    st.complex_numbers()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.uuids()
    | st.dates()
    | st.timedeltas()
)
hashed = plain | st.tuples(plain) | st.frozensets(plain)
values = st.recursive(
    hashed | st.sets(hashed),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(hashed, inner),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=values)
def test_any_value_comes_back_as_it_went(value: Any):
    """Into the guest as an input, out as an argument, in again as the answer, out again."""
    seen: list[Any] = []
    with brumate.Session(callbacks={"keep": lambda v: seen.append(v) or v}) as session:
        session.execute("await keep(await keep(value))", inputs={"value": value})
    assert [written(v) for v in seen] == [written(value)] * 2


def written(value: Any) -> str:
    """A text that is the same for values of the same type and value (nan is nan; sets have no order)."""
    if isinstance(value, (set, frozenset)):
        parts = sorted(map(written, value))
    elif isinstance(value, (list, tuple)):
        parts = list(map(written, value))
    elif isinstance(value, dict):
        parts = [f"{written(k)}: {written(v)}" for k, v in value.items()]
    else:
        return repr(value)
    return f"{type(value).__name__}({', '.join(parts)})"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("object()", "object"),
        ("open", "builtin_function_or_method"),
        ("[1, {'rows': [object()]}]", "object"),
        ("lambda: 1", "function"),
        ("range(3)", "range"),
        ("__import__('sys')", "module"),
        ("(i for i in [])", "generator"),
        ("Ellipsis", "ellipsis"),
        ("type('C', (), {})()", "C"),
    ],
)
def test_what_cannot_cross_is_a_type_error_in_the_guest(
    text: str, named: str, box: Sandbox, run: Run
):
    code = f"try: await echo({text})\nexcept TypeError as e: print(e)"
    assert named in run(box, code).stdout


def test_type_error_names_the_place(box: Sandbox):
    out = box.execute(
        "try: await echo({'rows': [1, object()]})\nexcept TypeError as e: print(e)"
    ).stdout
    assert "object" in out and "rows" in out and "1" in out


def test_result_that_cannot_cross_is_a_type_error_in_the_guest(run: Run):
    def bad() -> Any:
        return {"rows": [object()]}

    with sandbox_with(bad) as sandbox:
        out = run(sandbox, "try: await bad()\nexcept TypeError as e: print(e)").stdout
    assert "object" in out and "rows" in out


@pytest.mark.parametrize(
    "make",
    ["x = []; x.append(x)", "x = {}; x['me'] = x", "x = []\nfor _ in range(100_000): x = [x]"],
)
def test_circular_and_deep_arguments_are_value_errors(make: str, box: Sandbox, run: Run):
    out = run(box, f"{make}\ntry: await echo(x)\nexcept ValueError as e: print('refused')").stdout
    assert out == "refused\n"


def test_circular_and_deep_results_are_value_errors(run: Run):
    def circular() -> Any:
        x: list[Any] = []
        x.append(x)
        return x

    def deep() -> Any:
        x: list[Any] = []
        for _ in range(100_000):
            x = [x]
        return x

    code = "for f in (circular, deep):\n try: await f()\n except ValueError: print('refused')"
    with sandbox_with(circular, deep) as sandbox:
        assert run(sandbox, code).stdout == "refused\n" * 2


def test_shared_arguments_arrive_as_equal_copies():
    seen: list[Any] = []
    with sandbox_with(seen.append) as sandbox:
        sandbox.execute("a = [1]; await append({'p': a, 'q': a})")
    assert seen == [{"p": [1], "q": [1]}]


def test_large_payloads(run: Run):
    def big() -> str:
        return "x" * 50_000_000

    limits = {"max_memory_bytes": 512 << 20}
    code = """
for call in (lambda: echo("x" * 50_000_000), big):
    try: await call()
    except ValueError as e: print("refused")
print(await echo("ok"), len(await echo("x" * 8_000_000)))
"""
    with sandbox_with(echo, big, **limits) as sandbox:
        assert run(sandbox, code).stdout == "refused\nrefused\nok 8000000\n"


# --- arguments and names ---


def test_positional_and_keyword_arguments(run: Run):
    def f(*args: Any, **kwargs: Any) -> Any:
        return [args, kwargs]

    with sandbox_with(f) as sandbox:
        out = run(
            sandbox, "print(await f(), await f(1, 2), await f(1, x=2), await f(**{'class': 3}))"
        )
    assert out.stdout == "[(), {}] [(1, 2), {}] [(1,), {'x': 2}] [(), {'class': 3}]\n"


@pytest.mark.parametrize("call", ["f()", "f(1, 2)", "f(b=1)", "f(1, a=1)"])
def test_wrong_arguments_are_type_errors_in_the_guest(call: str, run: Run):
    def f(a: int) -> int:
        return a

    with sandbox_with(f) as sandbox:
        assert "f()" in run(sandbox, f"try: await {call}\nexcept TypeError as e: print(e)").stdout


def test_dotted_names_are_objects(run: Run):
    callbacks = {
        "db.query": lambda q: f"rows of {q}",
        "db.admin.drop": lambda: "dropped",
        "plain": lambda: 1,
    }
    with Sandbox(callbacks=callbacks) as sandbox:
        code = "print(await db.query('t'), await db.admin.drop(), await plain())"
        assert run(sandbox, code).stdout == "rows of t dropped 1\n"


def test_methods_partials_and_objects(run: Run):
    class Adder:
        def __init__(self, n: int) -> None:
            self.n = n

        def add(self, m: int) -> int:
            return self.n + m

        def __call__(self, m: int) -> int:
            return self.n * m

    class AsyncObject:
        async def __call__(self, m: int) -> int:
            return m

    callbacks = {
        "method": Adder(1).add,
        "partial": functools.partial(Adder(2).add, 3),
        "object_": Adder(5),
        "aobject": AsyncObject(),
        "apartial": functools.partial(aecho, 7),
        "builtin": len,
    }
    with Sandbox(callbacks=callbacks) as sandbox:
        code = "print(await method(1), await partial(), await object_(2), await aobject(3), await apartial(), await builtin('four'))"
        assert run(sandbox, code).stdout == "2 5 10 3 7 4\n"


def test_list_of_callbacks_tells_description_and_schema(run: Run):
    registry = CallbackRegistry()

    @registry.callback(schema={"type": "object"})
    def documented() -> None:
        """First line.

        More."""

    registry.add(echo, name="ns.echo", description="Given")
    with Sandbox(callbacks=registry) as sandbox:
        out = run(sandbox, "import _callbacks\nresult = _callbacks.list()").result
    assert out == [
        {"name": "documented", "description": "First line.", "schema": {"type": "object"}},
        {"name": "ns.echo", "description": "Given"},
    ]


# --- errors ---


@pytest.mark.parametrize(
    "error",
    [ValueError("v"), TypeError("t"), KeyError("k"), IndexError("i"), OSError("o")]
    + [FileNotFoundError(2, "no such"), PermissionError("p"), ZeroDivisionError("z")]
    + [RuntimeError("r"), NotImplementedError("n"), AssertionError("a"), StopIteration("s")]
    + [LookupError("l"), AttributeError("a"), UnicodeError("u"), ConnectionError("c")],
    ids=lambda e: type(e).__name__,
)
def test_errors_keep_their_type(error: Exception, run: Run):
    def fails() -> None:
        raise error

    with sandbox_with(fails) as sandbox:
        code = "try: await fails()\nexcept BaseException as e: print(type(e).__name__, e)"
        name, _, text = run(sandbox, code).stdout.rstrip().partition(" ")
    if isinstance(error, StopIteration):  # cannot leave a coroutine
        assert name in ("RuntimeError", "StopIteration", "CallError")
    else:
        assert name == type(error).__name__
        assert str(error).strip("'") in text


def test_other_errors_are_call_errors(run: Run):
    class Own(Exception):
        pass

    def fails() -> None:
        raise Own("why")

    with sandbox_with(fails) as sandbox:
        code = "import brumate\ntry: await fails()\nexcept brumate.CallError as e: print(e)"
        assert run(sandbox, code).stdout == "Own: why\n"


def test_error_that_cannot_be_printed(run: Run):
    class Own(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def fails() -> None:
        raise Own

    with sandbox_with(fails) as sandbox:
        code = "import brumate\ntry: await fails()\nexcept brumate.CallError as e: print('Own' in str(e))"
        assert run(sandbox, code).stdout == "True\n"


def test_error_with_odd_text(run: Run):
    def fails() -> None:
        raise ValueError("\ud800\0\nline: " + "x" * 10)

    with sandbox_with(fails) as sandbox:
        code = "try: await fails()\nexcept ValueError as e: print('line' in str(e))"
        assert run(sandbox, code).stdout == "True\n"


def test_uncaught_error_ends_the_run(run: Run):
    def fails() -> None:
        raise KeyError("city")

    with sandbox_with(fails) as sandbox, pytest.raises(ExecutionError) as failed:
        run(sandbox, "print(1)\nawait fails()")
    assert failed.value.exception_type == "KeyError" and failed.value.stdout == "1\n"
    assert __file__ not in str(failed.value)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_leaving_the_host_function_leaves_the_run(stop: type[BaseException]):
    """What is meant for the application reaches it, and the guest is stopped."""

    async def leave() -> None:
        raise stop

    def leave_sync() -> None:
        raise stop

    for f in (leave, leave_sync):
        with Sandbox(callbacks={"leave": f}) as sandbox:
            with pytest.raises((stop, ExecutionError)):
                sandbox.execute("await leave()")
            assert sandbox.execute("print(1)").stdout == "1\n"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_leaving_the_host_function_leaves_the_session_free(stop: type[BaseException]):
    async def leave() -> None:
        raise stop

    with brumate.Session(callbacks={"leave": leave}) as session:
        with pytest.raises(stop):
            session.execute("await leave()")
        assert session.execute("print(1)").stdout == "1\n"


def test_error_whose_text_takes_long_loses_the_run():
    """str() of an exception is the host's code as the function is: the run does not wait for it."""
    go = threading.Event()

    class Slow(Exception):
        def __str__(self) -> str:
            go.wait(30)
            return "late"

    def fails() -> None:
        raise Slow

    limits = ResourceLimits(execution_timeout_ms=200)
    session = brumate.Session(callbacks={"fails": fails}, resource_limits=limits)
    with pytest.raises(TimeoutError):
        session.execute("await fails()")
    session.close()
    go.set()
    time.sleep(0.1)  # its thread must not touch the session any more


def test_no_thread_for_host_functions(monkeypatch: pytest.MonkeyPatch):
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with brumate.Session(callbacks={"echo": echo}) as session:
        with monkeypatch.context() as patch:
            patch.setattr("brumate.drive._idle", [])
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="no thread is left"):
                session.execute("await echo(1)")
        assert session.execute("print(await echo(1))").stdout == "1\n"


def test_names_of_keywords_are_text():
    """A guest below its functions may send others, which C functions of the host need not expect."""
    code = """
import _brumate, struct
_brumate.post(2, struct.pack("<II", 1, 3) + b"own" + bytes.fromhex("8280a10102"))
"""
    seen: list[Any] = []

    class Own:
        def __call__(self, *args: Any, **kwargs: Any) -> None:
            seen.append(kwargs)

    with Sandbox(callbacks={"own": Own()}) as sandbox:
        assert sandbox.execute(code).callback_invocations == 0
    assert seen == []


# --- limits ---


def test_number_of_calls_is_limited(run: Run):
    code = """
import brumate
n = 0
try:
    while True: await echo(v=n); n += 1
except brumate.CallError as e: print(n, "5" in str(e))
"""
    with sandbox_with(echo, max_callback_invocations=5) as sandbox:
        result = run(sandbox, code)
    assert result.stdout == "5 True\n" and result.callback_invocations == 5


def test_number_of_calls_is_limited_through_gather(run: Run):
    seen: list[int] = []
    code = """
import asyncio
r = await asyncio.gather(*(append(i) for i in range(50)), return_exceptions=True)
print(sum(x is None for x in r), {type(x).__name__ for x in r if x is not None})
"""
    with sandbox_with(seen.append, max_callback_invocations=5) as sandbox:
        assert run(sandbox, code).stdout == "5 {'CallError'}\n"
    assert len(seen) == 5


def test_no_calls_at_all(run: Run):
    with sandbox_with(echo, max_callback_invocations=0) as sandbox:
        out = run(
            sandbox, "try: await echo()\nexcept Exception as e: print(type(e).__name__)"
        ).stdout
    assert out == "CallError\n"


def test_each_run_counts_anew(run: Run):
    with brumate.Session(
        callbacks={"echo": echo}, resource_limits=ResourceLimits(max_callback_invocations=2)
    ) as session:
        for _ in range(3):
            assert run(session, "await echo(); await echo()").callback_invocations == 2


def test_flood_is_refused_at_once(run: Run):
    running = peak = 0

    async def slow() -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0.2)
        running -= 1

    code = """
import asyncio
r = await asyncio.gather(*(slow() for _ in range(5000)), return_exceptions=True)
print(sum(x is None for x in r) >= 100, {type(x).__name__ for x in r if x is not None})
"""
    with sandbox_with(slow, max_pending_callbacks=100, max_callback_invocations=None) as sandbox:
        assert run(sandbox, code).stdout == "True {'CallError'}\n"
    assert peak <= 100


def test_flood_does_not_starve_others():
    async def slow() -> None:
        await asyncio.sleep(0.5)

    flood = """
import asyncio
await asyncio.gather(*(slow() for _ in range(1000)), return_exceptions=True)
"""

    async def main() -> float:
        with sandbox_with(slow) as one, sandbox_with(aecho) as two:
            busy = asyncio.create_task(one.execute_async(flood))
            await asyncio.sleep(0.1)
            start = time.monotonic()
            await two.execute_async("await aecho(1)")
            waited = time.monotonic() - start
            await busy
            return waited

    assert asyncio.run(main()) < 5


def test_gather_of_300(box: Sandbox, run: Run):
    code = "import asyncio\nprint(await asyncio.gather(*(echo(i) for i in range(300))) == list(range(300)))"
    result = run(box, code)
    assert result.stdout == "True\n" and result.callback_invocations == 300


def test_async_calls_are_concurrent(run: Run):
    running = 0

    async def meet() -> None:
        nonlocal running
        running += 1
        while running < 20:
            await asyncio.sleep(0.005)

    with sandbox_with(meet) as sandbox:
        run(sandbox, "import asyncio\nawait asyncio.gather(*(meet() for _ in range(20)))")


# --- time ---


def sleeps(seconds: float = 3.0) -> None:
    time.sleep(seconds)


async def asleeps(seconds: float = 3.0) -> None:
    await asyncio.sleep(seconds)


@pytest.mark.parametrize("slow", [sleeps, asleeps])
def test_call_that_outlives_its_time(slow: Callable[..., Any], run: Run):
    code = """
try: await slow()
except TimeoutError as e: print(type(e).__name__)
print("on")
"""
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.wait(0.01):
            ticks += 1

    ticker = threading.Thread(target=tick)
    ticker.start()
    limits = ResourceLimits(callback_timeout_ms=200)
    start = time.monotonic()
    with Sandbox(callbacks={"slow": slow}, resource_limits=limits) as sandbox:
        result = run(sandbox, code)
        took = result.duration_ms
    stop.set()
    ticker.join()
    assert result.stdout == "TimeoutError\non\n"
    assert 190 < took < 2500 and ticks > 5
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("slow", [sleeps, asleeps])
def test_deadline_holds_while_the_host_function_sleeps(slow: Callable[..., Any], run: Run):
    limits = ResourceLimits(execution_timeout_ms=200)
    with Sandbox(callbacks={"slow": slow}, resource_limits=limits) as sandbox:
        with pytest.raises(TimeoutError) as stopped:
            run(sandbox, "print('before')\nawait slow()")
    assert stopped.value.result.duration_ms < 2500
    assert stopped.value.stdout == "before\n"


def test_late_answer_is_dropped(run: Run):
    async def slow() -> str:
        await asyncio.sleep(0.15)
        return "late"

    code = """
import asyncio
try: await slow()
except TimeoutError: print("first")
await asyncio.sleep(0.3)
print(await echo("second"))
"""
    with sandbox_with(slow, echo, callback_timeout_ms=50) as sandbox:
        assert run(sandbox, code).stdout == "first\nsecond\n"


def test_guest_may_wait_less(box: Sandbox, run: Run):
    with sandbox_with(asleeps) as sandbox:
        code = """
import asyncio
try: await asyncio.wait_for(asleeps(2), 0.05)
except TimeoutError: print("short")
"""
        result = run(sandbox, code)
    assert result.stdout == "short\n"


# --- ends ---


def test_call_that_is_not_awaited_is_not_performed(run: Run):
    seen: list[Any] = []
    with sandbox_with(seen.append) as sandbox:
        result = run(sandbox, "append(1)\nprint('end')")
    assert seen == [] and result.stdout == "end\n" and "never awaited" in result.stderr
    assert result.callback_invocations == 0


def test_task_left_behind_is_cancelled(run: Run):
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(5)
            ended.append("completed")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    code = (
        "import asyncio\nt = asyncio.create_task(slow())\nawait asyncio.sleep(0.05)\nprint('end')"
    )
    with sandbox_with(slow) as sandbox:
        result = run(sandbox, code)
        assert result.stdout == "end\n" and result.duration_ms < 3000
    assert ended in (["cancelled"], [])


def test_cancelled_call_is_cancelled_at_the_host():
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    code = """
import asyncio
t = asyncio.create_task(slow())
await asyncio.sleep(0.05)
t.cancel()
try: await t
except asyncio.CancelledError: print("cancelled")
await asyncio.sleep(0.05)
"""
    with sandbox_with(slow) as sandbox:
        assert run_in_loop(sandbox, code).stdout == "cancelled\n"
    assert ended == ["cancelled"]


def run_in_loop(sandbox: Sandbox, code: str) -> brumate.ExecuteResult:
    return asyncio.run(sandbox.execute_async(code))


def test_cancelling_the_task_stops_guest_and_host_function():
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("ended")

    async def main() -> None:
        with sandbox_with(slow) as sandbox:
            task = asyncio.create_task(sandbox.execute_async("await slow()"))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0)
            assert ended == ["ended"]
            assert (await sandbox.execute_async("print(1)")).stdout == "1\n"

    asyncio.run(main())


# --- where host functions run ---


def test_async_functions_run_on_the_applications_loop():
    async def main() -> tuple[list[int], list[bool]]:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
        loop = asyncio.get_running_loop()
        same_loop: list[bool] = []

        async def put(v: int) -> None:
            same_loop.append(asyncio.get_running_loop() is loop)
            await queue.put(v)

        async def reader() -> list[int]:
            return [await queue.get() for _ in range(2)]

        with sandbox_with(put) as sandbox:
            running = sandbox.execute_async("await put(1); await put(2)")
            _, read = await asyncio.gather(running, reader())
        return read, same_loop

    read, same_loop = asyncio.run(main())
    assert read == [1, 2] and same_loop == [True, True]


def test_context_variables_are_seen(run: Run):
    variable = contextvars.ContextVar("variable", default="unset")

    def get() -> str:
        return variable.get()

    async def aget() -> str:
        return variable.get()

    def inner() -> str:
        variable.set("set")
        with sandbox_with(get, aget) as sandbox:
            return run(sandbox, "print(await get(), await aget())").stdout

    assert contextvars.copy_context().run(inner) == "set set\n"


def test_host_functions_may_run_guests(run: Run):
    def nested(code: str) -> str:
        with Sandbox() as sandbox:
            return sandbox.execute(code).stdout

    async def anested(code: str) -> str:
        with Sandbox() as sandbox:
            return (await sandbox.execute_async(code)).stdout

    with sandbox_with(nested, anested) as sandbox:
        code = "print(await nested('print(1)'), await anested('print(2)'), end='')"
        assert run(sandbox, code).stdout == "1\n 2\n"


def test_host_function_may_use_its_own_sandbox(run: Run):
    def again(code: str) -> str:
        return sandbox.execute(code).stdout

    with sandbox_with(again) as sandbox:
        assert run(sandbox, "print(await again('print(1)'), end='')").stdout == "1\n"


def test_host_function_may_not_use_the_files_of_its_session(run: Run):
    refused: list[str] = []

    def put() -> None:
        try:
            session.files.put("/data/f", b"x")
        except brumate.BrumateError as e:
            refused.append(str(e))

    with brumate.Session(callbacks={"put": put}) as session:
        run(session, "await put()")
    assert len(refused) == 1 and "busy" in refused[0]


def test_function_that_gives_something_to_await(run: Run):
    class Later:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0.01).__await__()
            return "later"

    callbacks = {"wrapped": lambda v: aecho(v), "object_": lambda: Later()}
    with Sandbox(callbacks=callbacks) as sandbox:
        assert run(sandbox, "print(await wrapped(5), await object_())").stdout == "5 later\n"


def test_host_function_that_is_cancelled_by_others(run: Run):
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with sandbox_with(cancelled) as sandbox:
        code = "try: await cancelled()\nexcept BaseException as e: print('ended')\nprint('on')"
        assert run(sandbox, code).stdout == "ended\non\n"


def test_cancelling_does_not_wait_for_a_host_function_that_blocks():
    async def main() -> float:
        with sandbox_with(sleeps) as sandbox:
            task = asyncio.create_task(sandbox.execute_async("await sleeps(3)"))
            await asyncio.sleep(0.1)
            start = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            took = time.monotonic() - start
            assert (await sandbox.execute_async("print(1)")).stdout == "1\n"
            return took

    start = time.monotonic()
    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(main()) < 2
    loop.close()
    assert time.monotonic() - start < 2.9


def test_sync_functions_of_one_run_may_block_side_by_side():
    both = threading.Barrier(3, timeout=20)
    with Sandbox(callbacks={"meet": lambda: both.wait() and None}) as sandbox:
        code = "import asyncio\nawait asyncio.gather(meet(), meet(), meet())\nprint('met')"
        assert run_in_loop(sandbox, code).stdout == "met\n"


def test_calls_from_from_several_tasks_of_asyncio_run(box: Sandbox, run: Run):
    code = """
import asyncio
async def main():
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(echo(i)) for i in range(10)]
    return [task.result() for task in tasks]
print(asyncio.run(main()), await echo("after"))
"""
    assert run(box, code).stdout == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9] after\n"


def test_error_of_one_call_in_a_gather_leaves_the_others(run: Run):
    def odd(n: int) -> int:
        if n % 2:
            raise ValueError(n)
        return n

    code = "import asyncio\nprint(await asyncio.gather(*(odd(i) for i in range(4)), return_exceptions=True))"
    with sandbox_with(odd) as sandbox:
        out = run(sandbox, code).stdout
    assert out == "[0, ValueError('1'), 2, ValueError('3')]\n"


def test_many_calls_one_after_another(box: Sandbox, run: Run):
    code = "n = 0\nfor i in range(900): n += await echo(i)\nprint(n)"
    assert run(box, code).stdout == f"{sum(range(900))}\n"


def test_calls_from_asyncio_run_in_the_guest(box: Sandbox, run: Run):
    code = """
import asyncio
async def main():
    return await asyncio.gather(*(echo(i) for i in range(5)))
print(asyncio.run(main()))
def plain(): return asyncio.run(echo("deep"))
print(plain())
"""
    assert run(box, code).stdout == "[0, 1, 2, 3, 4]\ndeep\n"


def test_sync_execute_works_inside_a_running_loop():
    async def main() -> str:
        with Sandbox(callbacks={"echo": aecho}) as sandbox:
            return sandbox.execute("print(await echo(1))").stdout

    assert asyncio.run(main()) == "1\n"


def test_session_calls_over_several_runs(run: Run):
    with brumate.Session(callbacks={"echo": echo}) as session:
        run(session, "saved = echo")
        assert run(session, "print(await saved(5))").stdout == "5\n"
        session.reset()
        assert run(session, "print(await echo(6))").stdout == "6\n"


# --- the registry ---


@pytest.mark.parametrize(
    "name",
    ["", "1a", "a b", "a-b", "a.", ".a", "a..b", "class", "a.class", "None", "print", "ValueError"]
    + ["brumate", "_callbacks", "brumate.x", "__x", "a.__init__", "_", "a\0", "\ufb01x", "x" * 201, "ä" * 101],
)
def test_names_that_are_refused(name: str):
    for callbacks in (
        {name: echo},
        [{"name": name, "fn": echo}],
    ):
        with pytest.raises(ValueError, match="callback name"):
            Sandbox(callbacks=callbacks)
    with pytest.raises(ValueError, match="callback name"):
        CallbackRegistry().add(echo, name=name)


@pytest.mark.parametrize("name", ["a", "a1", "_a", "match", "type_", "größe", "db.query", "a.b.c"])
def test_names_that_are_taken(name: str):
    with Sandbox(callbacks={name: echo}) as sandbox:
        assert sandbox.execute(f"print(await {name}(1))").stdout == "1\n"


def test_names_must_be_distinct():
    entry = {"name": "f", "fn": echo}
    with pytest.raises(ValueError, match="two callbacks 'f'"):
        Sandbox(callbacks=[entry, entry])
    for names in (("a", "a.b"), ("a.b", "a"), ("a.b.c", "a.b")):
        with pytest.raises(ValueError, match="to be an object"):
            Sandbox(callbacks=dict.fromkeys(names, echo))


@pytest.mark.parametrize(
    ("callbacks", "error", "text"),
    [
        ("f", TypeError, "callbacks must be"),
        (5, TypeError, "callbacks must be"),
        ([echo], TypeError, r"callbacks\[0\]"),
        ([{"name": "f"}], ValueError, "lacks 'fn'"),
        ([{"fn": echo}], ValueError, "lacks 'name'"),
        ([{"name": "f", "fn": echo, "descripton": ""}], ValueError, "descripton"),
        ([{"name": "f", "fn": 5}], TypeError, "must be a function"),
        ([{"name": 5, "fn": echo}], TypeError, "must be a string"),
        ([{"name": "f", "fn": echo, "description": 5}], TypeError, "description"),
        ([{"name": "f", "fn": echo, "description": "\0"}], ValueError, "NUL"),
        ([{"name": "f", "fn": echo, "description": "\ud800"}], ValueError, "Unicode"),
        ([{"name": "f", "fn": echo, "schema": {1, 2}}], TypeError, "JSON"),
        ([{"name": "f", "fn": echo, "schema": math.nan}], ValueError, "JSON"),
    ],
)
def test_errors_of_callbacks_say_what_is_wrong(callbacks: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        Sandbox(callbacks=callbacks)


@pytest.mark.parametrize("kind", [Sandbox, brumate.Session])
def test_name_of_the_result_variable_is_taken(kind: Any):
    for name in ("result", "result.echo"):
        with pytest.raises(ValueError, match="result variable"):
            kind(callbacks={name: echo})
    kind(callbacks={"result": echo}, result_variable="other").close()
    kind(callbacks={"result": echo}, result_variable=None).close()


def test_registry_is_a_collection():
    registry = CallbackRegistry()
    registry.add(echo)
    registry.add(aecho, name="a.e", description="D", schema={"type": "object"})
    assert len(registry) == 2 and "echo" in registry and "a.e" in registry and "x" not in registry
    assert list(registry) == [
        {"name": "echo", "fn": echo, "description": ""},
        {"name": "a.e", "fn": aecho, "description": "D", "schema": {"type": "object"}},
    ]
    with Sandbox(callbacks=list(registry)) as sandbox:
        assert sandbox.execute("print(await a.e(1), await echo(2))").stdout == "1 2\n"


def test_decorator_returns_the_function():
    registry = CallbackRegistry()
    assert registry.callback()(echo) is echo
    with pytest.raises(TypeError, match="parentheses"):
        registry.callback(echo)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="two callbacks"):
        registry.callback()(echo)
    with pytest.raises(ValueError, match="lambda"):
        registry.add(lambda: 1)
    with pytest.raises(TypeError, match="must be a function"):
        registry.add(5)  # type: ignore[arg-type]


def test_sandbox_keeps_the_callbacks_it_was_given():
    registry = CallbackRegistry()
    registry.add(echo)
    with Sandbox(callbacks=registry) as sandbox:
        registry.add(echo, name="later")
        assert sandbox.execute("print('later' in globals(), await echo(1))").stdout == "False 1\n"


def test_one_registry_serves_many():
    registry = CallbackRegistry()
    registry.add(echo)
    boxes = [Sandbox(callbacks=registry) for _ in range(10)]
    assert [box.execute(f"print(await echo({i}))").stdout for i, box in enumerate(boxes)] == [
        f"{i}\n" for i in range(10)
    ]


def test_a_thousand_callbacks():
    callbacks = {f"f{i}": functools.partial(echo, i) for i in range(1000)}
    with Sandbox(callbacks=callbacks) as sandbox:
        assert sandbox.execute("print(await f0(), await f999())").stdout == "0 999\n"


def test_guest_cannot_forge_calls(run: Run):
    """Whatever the guest does below the functions that it was given, only those can be called."""
    code = """
import _brumate
for name in ("secret", "echo\\0x", "", "os.system", 5, None, "echo" * 10**6):
    for attribute in dir(_brumate):
        f = getattr(_brumate, attribute)
        if callable(f) and attribute in ("call", "post"):
            try: f(name, b"\\xff" * 100)
            except Exception: pass
            try: f(2, b"\\xff" * 100)
            except Exception: pass
print("on")
"""
    seen: list[Any] = []
    with sandbox_with(seen.append) as sandbox:
        try:
            run(sandbox, code, timeout_ms=5000)
        except brumate.BrumateError:
            pass
        assert seen == []
        assert run(sandbox, "await append(1)").callback_invocations == 1
