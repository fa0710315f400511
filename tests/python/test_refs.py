"""Nothing is kept: references and memory stay as they are over many uses of every part."""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from measure import MIB, grows_by

import brumate
from brumate import Sandbox, Session, VfsStorage


def fails(box: Any, code: str, **kwargs: Any) -> None:
    try:
        box.execute(code, **kwargs)
    except brumate.BrumateError:
        pass


def refuses(call: Callable[[], object]) -> None:
    try:
        call()
    except (ValueError, TypeError, OSError, brumate.BrumateError):
        pass


def snapshot_and_restore(session: Session) -> None:
    session.execute("x = list(range(1000))")
    session.restore_state(session.snapshot_state())


ASKING = brumate.CallbackRegistry()
ASKING.add(None, name="ask")
TWO_CALLS = "import asyncio\nprint(await asyncio.gather(ask('x' * 10_000), ask(k=[1] * 100)))"


def step_by_step() -> None:
    with Session(callbacks=ASKING) as asking:
        for _ in range(3):
            progress = asking.start(TWO_CALLS, stdin="x" * 1000, on_stdout=len)
            asking.fork().close()
            asking.checkpoint()
            for call in progress.pending:
                refuses(lambda: asking.reply({99: 1}))
                assert call.args or call.kwargs
                asking.reply({call.id: VALUE})
        asking.start(TWO_CALLS)
        asking.reset()
        asking.start(TWO_CALLS)


def sleep_and_wake() -> None:
    with Session(callbacks=ASKING) as asking:
        asking.start(TWO_CALLS, on_stdout=len)
        snapshot = asking.suspend(key=b"k" * 16)
        replies = {call.id: call.kwargs for call in snapshot.pending}
        brumate.resume(snapshot.to_bytes(), key=b"k" * 16, replies=replies).finish()
        woken = brumate.resume(snapshot, callbacks={"ask": lambda *a, **k: a})
        asyncio.run(woken.finish_async())
        asking.restore_state(snapshot)
        refuses(lambda: brumate.Snapshot.from_bytes(snapshot.to_bytes()[:-1]))
        refuses(lambda: asking.suspend(key=b"short"))


def undo(session: Session) -> None:
    session.execute("x = list(range(1000))")
    before = session.checkpoint()
    session.execute("del x")
    session.rollback(before)
    try:
        with session.trial():
            session.execute("del x; raise ValueError")
    except brumate.ExecutionError:
        pass
    with session.trial():
        for twin in session.fork(3):
            twin.execute("x.clear()")


def use_store(folder: str) -> None:
    with brumate.Store(folder, callbacks=ASKING) as store:
        for name in ("A", "A"):
            with store.session(name) as session:
                session.execute("x = 1")
        store.list()
        store.brumate()
        with store.session("b") as session:
            session.start(TWO_CALLS)
        with store.session("b") as session:
            session.progress()
        store.remove("b")


def use_files(session: Session) -> None:
    session.files.put("/data/f", b"x" * 100_000)
    session.files.get("/data/f")
    list(session.files.read("/data/f"))
    session.files.list("/data")
    session.files.stat("/data/f")
    session.files.remove("/data/f")
    refuses(lambda: session.files.get("/data/no"))


VALUE = {"a": [1, 2.5, "text", b"bytes" * 1000, None, True], "b": ({1, 2}, 2**100, 1j)}
CALLBACKS: dict[str, Callable[..., Any]] = {"echo": lambda v=None: v, "boom": lambda: 1 / 0}

STORE = tempfile.TemporaryDirectory()

BODIES: dict[str, Callable[[Session, Sandbox], object]] = {
    "step by step": lambda session, box: step_by_step(),
    "sleep and wake": lambda session, box: sleep_and_wake(),
    "undo": lambda session, box: undo(session),
    "store": lambda session, box: use_store(STORE.name),
    "execute": lambda session, box: box.execute("print('x' * 1000); result = [1] * 100"),
    "exception": lambda session, box: fails(session, "raise ValueError('x' * 1000)"),
    "syntax error": lambda session, box: fails(session, "x = ["),
    "exit": lambda session, box: fails(box, "import os; os._exit(3)"),
    "inputs": lambda session, box: session.execute("pass", inputs={"a": VALUE}),
    "inputs refused": lambda session, box: refuses(
        lambda: session.execute("pass", inputs={"a": object()})
    ),
    "code refused": lambda session, box: refuses(lambda: session.execute(5)),  # type: ignore[arg-type]
    "stdin": lambda session, box: session.execute(
        "input()", stdin=iter(["x" * 1000, None]).__next__
    ),
    "streams": lambda session, box: session.execute(
        "print('x' * 1000)", on_stdout=lambda text: None
    ),
    "callbacks": lambda session, box: session.execute("await echo({'a': [1, 2.5, b'x' * 10000]})"),
    "callback errors": lambda session, box: fails(session, "await boom()"),
    "artifacts": lambda session, box: session.execute("import brumate; brumate.show('x' * 10000)"),
    "reset": lambda session, box: session.reset(),
    "clear": lambda session, box: session.clear_state(),
    "snapshot": lambda session, box: snapshot_and_restore(session),
    "restore refused": lambda session, box: refuses(lambda: session.restore_state(b"junk" * 1000)),
    "files": lambda session, box: use_files(session),
    "storage": lambda session, box: VfsStorage().files.put("/f", b"x" * 100_000),
    "async": lambda session, box: asyncio.run(box.execute_async("print(await echo(1))")),
    "new session": lambda session, box: Session(env={"A": "x"}).close(),
    "new sandbox": lambda session, box: Sandbox(callbacks=CALLBACKS).close(),
    "refused options": lambda session, box: refuses(lambda: Session(env={"A=": "x"})),
}


@pytest.mark.parametrize("name", BODIES)
def test_memory_is_flat(name: str):
    with Session(callbacks=CALLBACKS) as session, Sandbox(callbacks=CALLBACKS) as box:
        memory, files = grows_by(lambda: BODIES[name](session, box), 150, warm_up=30)
    assert memory < 3 * MIB, f"{memory / MIB:.1f} MiB more"
    assert files <= 0


def test_references_to_what_was_given_are_flat():
    def out(text: str) -> None: ...

    def call(v: Any) -> Any:
        return v

    inputs = {"a": VALUE, "n": 12345678901234567890}
    watched = [out, call, inputs, VALUE, VALUE["a"]]
    with Session(callbacks={"call": call}, on_stdout=out) as session:
        session.execute("await call(a)", inputs=inputs)
        gc.collect()
        before = [sys.getrefcount(x) for x in watched]
        for _ in range(50):
            session.execute("print(await call(a))", inputs=inputs, on_stderr=out)
            fails(session, "print(1); 1/0", inputs=inputs)
        gc.collect()
        after = [sys.getrefcount(x) for x in watched]
    assert after == before


@pytest.mark.parametrize("kind", [Sandbox, Session])
def test_what_is_no_longer_used_is_freed(kind: Any):
    class Receiver:
        def __call__(self, text: str) -> None: ...

        def call(self) -> None: ...

    receiver = Receiver()
    box = kind(on_stdout=receiver, callbacks={"call": receiver.call})
    box.execute("print(1); await call()")
    asyncio.run(box.execute_async("print(1); await call()"))
    watch = weakref.ref(receiver)
    box.close()
    del box, receiver
    gc.collect()
    assert watch() is None


def test_cycles_through_callbacks_are_collected():
    class Owner:
        def __init__(self) -> None:
            self.session = Session(callbacks={"call": self.call}, on_stdout=self.out)

        def call(self) -> None: ...

        def out(self, text: str) -> None: ...

    owner = Owner()
    owner.session.execute("await call(); print(1)")
    watch = weakref.ref(owner)
    del owner
    gc.collect()
    assert watch() is None


def test_errors_keep_only_their_result(sandbox: Sandbox):
    big = {"a": "x" * 100_000}
    before = sys.getrefcount(big)
    fails(sandbox, "1/0", inputs=big)
    gc.collect()
    assert sys.getrefcount(big) == before
