"""Runs and event loops.

`execute` drives a run for a caller on an event loop: workers of the extension run the guest, the loop
hears of its events, asynchronous functions are tasks on that loop, others run on helper threads.
`drive_privately` is for a plain ``execute()`` that meets an asynchronous function: a helper thread
runs guest and function in turn, on an event loop of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextvars import copy_context
from weakref import WeakKeyDictionary

from ._native import Notifier
from .drive import CALL, CALL_ASYNC, DONE, DROP, HELD, INPUT, LOST, WAIT, start_helper
from .errors import BrumateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextvars import Context
    from typing import Any

    from ._native import ExecuteResult, Session
    from .drive import Event, Note, _Helper, _Job

__all__ = ["drive_privately", "execute", "go_on", "take_away"]

# How long the end of a run waits for functions that were cancelled, seconds.
CANCEL_GRACE = 0.05

# How long a guest with only one call under way is left without a worker, since the answer may come at once: turns
# of the loop if it is a task, else seconds. One way to a worker and back is saved then; other tasks of the guest
# wait as long.
LINGER_TURNS = 3
LINGER = 0.0002

# Begin a task at once, where Python can.
_EAGER: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


async def _result(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _late() -> TimeoutError:
    return TimeoutError("the host function took longer than callback_timeout_ms")


class _Calls:
    """Asynchronous functions under way for one run. `answer` is told how each ends, once, but of those that the
    run no longer waits for."""

    __slots__ = ("answer", "context", "loop", "tasks", "timeout")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: Context,
        timeout: float | None,
        answer: Callable[[int, bool, Any], None],
    ) -> None:
        self.loop = loop
        self.context = context
        self.timeout = timeout
        self.answer = answer
        self.tasks: dict[int, tuple[asyncio.Task[Any], asyncio.TimerHandle | None]] = {}

    def start(self, number: int, awaitable: Any) -> None:
        """Begins, at once where Python can; what is over by then is answered."""
        coroutine = awaitable if asyncio.iscoroutine(awaitable) else _result(awaitable)
        context = self.context.copy()
        task: asyncio.Task[Any] = asyncio.Task(
            coroutine, loop=self.loop, context=context, **_EAGER
        )
        if task.done():
            self._finish(number, task)
            return
        timer = None
        if self.timeout is not None:
            timer = self.loop.call_later(self.timeout, self._expire, number)
        self.tasks[number] = (task, timer)
        task.add_done_callback(lambda task: self._done(number, task))

    def _done(self, number: int, task: asyncio.Task[Any]) -> None:
        entry = self.tasks.get(number)
        if entry is None or entry[0] is not task:
            if not task.cancelled():
                task.exception()  # nobody waits for it: say that it was looked at
            return
        del self.tasks[number]
        if entry[1] is not None:
            entry[1].cancel()
        self._finish(number, task)

    def _finish(self, number: int, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            self.answer(number, False, asyncio.CancelledError("the host function was cancelled"))
            return
        error = task.exception()
        if error is None:
            self.answer(number, True, task.result())
        else:
            self.answer(number, False, error)

    def _expire(self, number: int) -> None:
        self.drop(number)
        self.answer(number, False, _late())

    def drop(self, number: int) -> None:
        """Cancels a call that nobody waits for any more."""
        entry = self.tasks.pop(number, None)
        if entry is not None and not self.loop.is_closed():
            entry[0].cancel()
            if entry[1] is not None:
                entry[1].cancel()

    def drop_all(self) -> list[asyncio.Task[Any]]:
        """The same for all; the tasks, to be waited for."""
        tasks = [task for task, _ in self.tasks.values()]
        for number in list(self.tasks):
            self.drop(number)
        return tasks


# ---- On a loop of the thread's own -------------------------------------------------------------


class _PrivateRun:
    """Drives a run on a helper thread, with an event loop that runs while the guest waits."""

    def __init__(self, job: _Job, loop: asyncio.AbstractEventLoop) -> None:
        self.job = job
        self.core = core = job.core
        self.ticket = job.ticket
        self.loop = loop
        self.calls = _Calls(loop, copy_context(), core.call_timeout, self._answer)
        self.answered = False
        self.woken: asyncio.Future[None] | None = None

    def _answer(self, number: int, fine: bool, value: Any) -> None:
        reply = self.core.reply if fine else self.core.fail
        reply(self.ticket, number, value)
        self.answered = True
        self._wake()

    def _wake(self) -> None:
        if self.woken is not None and not self.woken.done():
            self.woken.set_result(None)

    async def _wait(self, until: int) -> None:
        if not self.answered:
            self.woken = self.loop.create_future()
            timer = None if until == 2**64 - 1 else self.loop.call_at(until / 1e9, self._wake)
            await self.woken
            self.woken = None
            if timer is not None:
                timer.cancel()
        self.answered = False

    async def run(self, event: Event) -> Event:
        core = self.core
        note = self.job.note
        self.job.wake_loop = lambda: self.loop.call_soon_threadsafe(self._wake)
        try:
            while event[0] not in (DONE, LOST):
                if event[0] == CALL_ASYNC:
                    self.calls.start(event[1], event[2])
                elif event[0] == DROP:
                    self.calls.drop(event[1])
                if note is not None and event[0] in (HELD, DROP):
                    note(event)
                elif event[0] == WAIT:
                    if note is not None and not self.calls.tasks and not self.answered:
                        return event
                    await self._wait(event[1])
                event = core.drive(self.ticket)
            return event
        finally:
            self.job.wake_loop = None
            left = self.calls.drop_all()
            if left:
                await asyncio.wait(left, timeout=CANCEL_GRACE)


def drive_privately(job: _Job, helper: _Helper, event: Event) -> Event:
    """Drives the run to its end, with `event` in hand; or until another has taken it over."""
    loop = helper.loop
    if loop is None:
        loop = helper.loop = asyncio.new_event_loop()
    try:
        end: Event = loop.run_until_complete(_PrivateRun(job, loop).run(event))
    finally:
        if asyncio.all_tasks(loop):
            helper.later = lambda: _wait_for_all(loop)
    return end


def _wait_for_all(loop: asyncio.AbstractEventLoop) -> None:
    """Functions that do not heed their cancellation: their thread is theirs until they end."""
    tasks = asyncio.all_tasks(loop)
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))


# ---- On the caller's loop ------------------------------------------------------------------------

_notifiers: WeakKeyDictionary[asyncio.AbstractEventLoop, Notifier] = WeakKeyDictionary()
os.register_at_fork(after_in_child=_notifiers.clear)


def _notifier_of(loop: asyncio.AbstractEventLoop) -> Notifier:
    notifier = _notifiers.get(loop)
    if notifier is None:
        notifier = _notifiers[loop] = Notifier()
        loop.add_reader(notifier.fileno(), notifier.dispatch)
    return notifier


class _LoopRun:
    """A run that a worker drives from event to event, and that the loop's thread holds in between."""

    __slots__ = (
        "answers",
        "asking",
        "calls",
        "context",
        "core",
        "future",
        "loop",
        "note",
        "notifier",
        "over",
        "released",
        "ticket",
        "timer",
        "timers",
        "working",
    )

    def __init__(
        self, core: Session, loop: asyncio.AbstractEventLoop, note: Note = None
    ) -> None:
        self.core = core
        self.loop = loop
        self.note = note
        self.notifier = _notifier_of(loop)
        self.future: asyncio.Future[ExecuteResult | None] = loop.create_future()
        self.context = copy_context()
        self.calls = _Calls(loop, self.context, core.call_timeout, self.answer)
        self.ticket = core.claim()
        self.working = False  # a worker has the run
        self.answers: list[tuple[int, bool, Any]] = []  # that came meanwhile
        self.asking = False  # for input
        self.timer: asyncio.TimerHandle | None = None  # when the guest wants to go on
        self.timers: dict[int, asyncio.TimerHandle | None] = {}  # of functions on helper threads
        self.over = False
        self.released: asyncio.Future[None] | None = None  # wanted when the worker lets go
        core.on_ready = self.ready
        core.waker = lambda: loop.call_soon_threadsafe(self.go)

    def go(self) -> None:
        """The guest goes on, if it does not run anyway."""
        if self.working or self.over:
            return
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        try:
            while self.answers:
                number, fine, value = self.answers.pop(0)
                (self.core.reply if fine else self.core.fail)(self.ticket, number, value)
            self.core.submit(self.notifier)
            self.working = True
        except BaseException as e:
            self.fail(e)

    def answer(self, number: int, fine: bool, value: Any) -> None:
        """What a call ends with."""
        if not self.over:
            self.answers.append((number, fine, value))
            if self.timer is not None or self.asking:
                self.go()

    def fail(self, error: BaseException) -> None:
        self.over = True
        if isinstance(error, StopIteration):  # cannot leave a coroutine
            stopped, error = error, RuntimeError("a host function raised StopIteration")
            error.__cause__ = stopped
        if not self.future.done():
            self.future.set_exception(error)

    def ready(self) -> None:
        """A worker has come to an event."""
        self.working = False
        if self.released is not None and not self.released.done():
            self.released.set_result(None)
        if self.over:
            return
        try:
            event = self.core.take()
        except BaseException as e:
            self.fail(e)
            return
        kind = event[0]
        try:
            if kind == DONE:
                self.over = True
                if not self.future.done():
                    self.future.set_result(event[2])
                return
            if kind == WAIT or kind == INPUT:
                self.wait(event)
                return
            if kind == CALL_ASYNC:
                self.calls.start(event[1], event[2](*event[3], **event[4]))
            elif kind == CALL:
                self.call(event[1], event[2], event[3], event[4])
            elif kind == DROP:
                self.calls.drop(event[1])
                self.forget(event[1])
            if self.note is not None and kind in (HELD, DROP):
                self.note(event)
            if (kind == CALL_ASYNC or kind == CALL) and self.linger(kind):
                return
        except BaseException as e:
            if kind != CALL_ASYNC or isinstance(e, (SystemExit, KeyboardInterrupt)):
                self.fail(e)
                return
            self.answers.append((event[1], False, e))
        self.go()

    def linger(self, kind: int) -> bool:
        """Whether the guest goes on later: with the answer of the only call under way, if that comes at once."""
        if len(self.calls.tasks) + len(self.timers) != 1 or self.answers:
            return False
        if kind == CALL_ASYNC:
            self.loop.call_soon(self.turn, LINGER_TURNS)
        else:
            self.timer = self.loop.call_later(LINGER, self.go)
        return True

    def turn(self, left: int) -> None:
        if left and not self.answers:
            self.loop.call_soon(self.turn, left - 1)
        else:
            self.go()

    def wait(self, event: Event) -> None:
        until = event[1]
        if event[0] == INPUT and not self.asking:
            self.asking = True
            self.help(event[2], (), {}, self.give)
        if self.answers:
            self.go()
        elif self.note is not None and not (event[2] or self.calls.tasks or self.timers or self.asking):
            self.over = True  # for now: what it waits for must come from outside
            if not self.future.done():
                self.future.set_result(None)
        else:
            at = self.loop.time() + 3600 if until == 2**64 - 1 else until / 1e9
            self.timer = self.loop.call_at(at, self.go)

    # Functions that are not asynchronous

    def help(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        done: Callable[[bool, Any], None],
    ) -> None:
        """Calls `fn` on a helper thread; then `done` on the loop."""
        loop = self.loop
        context = self.context.copy()

        def job(helper: _Helper) -> None:
            try:
                value: Any = context.run(fn, *args, **kwargs)
                fine = True
            except BaseException as e:
                value, fine = e, False
            try:
                loop.call_soon_threadsafe(done, fine, value)
            except RuntimeError:
                pass  # the loop was closed: nobody waits

        if not start_helper(job):
            done(False, RuntimeError("too many host functions are stuck: no thread is left for one"))

    def call(
        self, number: int, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        timeout = self.core.call_timeout
        self.timers[number] = (
            None if timeout is None else self.loop.call_later(timeout, self.expire, number)
        )
        self.help(fn, args, kwargs, lambda fine, value: self.called(number, fine, value))

    def called(self, number: int, fine: bool, value: Any) -> None:
        if not self.forget(number) or self.over:
            return
        if fine and hasattr(type(value), "__await__"):
            self.calls.start(number, value)
            if self.answers and (self.timer is not None or self.asking):
                self.go()
        else:
            self.answer(number, fine, value)

    def expire(self, number: int) -> None:
        if self.forget(number):
            self.answer(number, False, _late())

    def forget(self, number: int) -> bool:
        """Whether the call was still waited for."""
        if number not in self.timers:
            return False
        timer = self.timers.pop(number)
        if timer is not None:
            timer.cancel()
        return True

    def give(self, fine: bool, value: Any) -> None:
        self.asking = False
        if self.over:
            return
        if not fine:
            self.core.stop()
            self.fail(value)
            return
        try:
            if not self.working:
                self.core.give(self.ticket, value)
        except BaseException as e:
            self.core.stop()
            self.fail(e)
            return
        self.go()

    async def cancel(self) -> None:
        """Stops the guest without keeping the loop from others meanwhile."""
        self.over = True
        if self.working:
            self.released = self.loop.create_future()
            self.core.kill()
            await self.released
        self.core.stop()

    def end(self) -> None:
        """Leaves nothing behind."""
        self.over = True
        self.core.stop()  # if it is not over
        self.leave()

    def leave(self) -> None:
        """Forgets what this loop has of it."""
        self.core.on_ready = self.core.waker = None
        if self.timer is not None:
            self.timer.cancel()
        for number in list(self.timers):
            self.forget(number)
        self.calls.drop_all()


async def execute(core: Session, *args: Any) -> ExecuteResult:
    """Runs code (arguments as for `Session.execute` of the extension) without blocking the loop."""
    loop = asyncio.get_running_loop()
    core.start(*args)
    result = await _drive(_LoopRun(core, loop))
    assert result is not None
    return result


async def go_on(core: Session, note: Note) -> ExecuteResult | None:
    """Drives a stepwise run on. None: it waits for answers that must come from outside."""
    loop = asyncio.get_running_loop()
    core.begin_drive()
    return await _drive(_LoopRun(core, loop, note))


async def _drive(run: _LoopRun) -> ExecuteResult | None:
    left = False
    try:
        run.go()
        result = await run.future
        left = result is None
        return result
    except asyncio.CancelledError:
        await run.cancel()
        raise
    finally:
        if left:
            run.leave()
            run.core.end_drive()
        else:
            run.end()


def take_away(core: Session) -> None:
    """Ends the run that this thread's loop drives: whoever awaits it is told that it was suspended."""
    run = getattr(core.on_ready, "__self__", None)
    if run is None:
        return
    try:
        here = asyncio.get_running_loop() is run.loop
    except RuntimeError:
        here = False
    if not here:
        raise BrumateError("another thread's event loop has the run: close the session there")
    run.fail(BrumateError("the session was suspended and closed while this run waited"))
    run.end()
