"""How a run is driven from its start to its result.

A run without host functions is one call of the extension, on the caller's thread. At the first call of a host
function it moves to a helper thread, which from then on drives the guest and calls the functions: so
a thousand calls cost no switch of threads. The caller waits and keeps the time: host code that
exceeds its time loses the run to the caller, who tells the guest and drives on; the helper drops
whatever its function answers in the end.

`execute_async` is told in the module `asynchronous`.
"""

from __future__ import annotations

import _thread

from ._native import ExecuteResult
from .errors import ExecutionError, ResourceLimitError, TimeoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context
    from typing import Any

    from ._native import Session
    from .errors import BrumateError

    # kind, call or time, function or result, arguments, keywords
    Event = tuple[int, int, Any, Any, Any]
    Note = Callable[[Event], object] | None

__all__ = ["finish", "settle"]

# Kinds of events, as the extension numbers them.
DONE, CALL, CALL_ASYNC, DROP, WAIT, INPUT, GO, LOST, HELD = range(9)

HELPERS_MAX = 256

# ---- How a run ended ------------------------------------------------------------------------

COMPLETED, EXCEPTION, EXITED, TIMEOUT, CPU_LIMIT, MEMORY_LIMIT, OUTPUT_LIMIT, STACK_LIMIT = range(8)


def error_of(result: ExecuteResult) -> BrumateError | None:
    """The exception that a result is raised as, or None if the run ended well."""
    reason = result._reason
    if reason == COMPLETED or (reason == EXITED and result.exit_code == 0):
        return None
    if reason in (TIMEOUT, CPU_LIMIT):
        what = "CPU time limit" if reason == CPU_LIMIT else "time limit"
        return TimeoutError(f"the {what} was reached after {result.duration_ms:.0f} ms", result)
    if reason in (MEMORY_LIMIT, OUTPUT_LIMIT, STACK_LIMIT):
        return ResourceLimitError(result._detail or result._reason_text, result)
    if reason == EXCEPTION and result._type == "MemoryError":
        return ResourceLimitError("the memory limit was reached: MemoryError", result)
    if reason == EXCEPTION:
        message = result._traceback.rstrip() or f"{result._type}: {result._message}"
    elif reason == EXITED:
        message = f"exit code {result.exit_code}"
        if result._message:
            message += f": {result._message}"
    else:
        message = result._traceback.rstrip() or result._detail or result._reason_text
    return ExecutionError(
        message,
        result,
        exception_type=result._type,
        exception_message=result._message if result._type else None,
        exit_code=result.exit_code,
    )


def settle(result: ExecuteResult) -> ExecuteResult:
    """The result, or the exception that says how the run failed."""
    error = error_of(result)
    if error is not None:
        raise error
    return result


# ---- Helper threads -------------------------------------------------------------------------


class _Helper:
    """A thread that performs one job after another."""

    __slots__ = ("job", "later", "loop", "wakeup")

    def __init__(self) -> None:
        self.job: Callable[[_Helper], None] | None = None
        self.loop: Any = None  # the private event loop of this thread, once it has needed one
        self.later: Callable[[], None] | None = None  # to be done behind the job
        self.wakeup = _thread.allocate_lock()
        self.wakeup.acquire()

    def run(self) -> None:
        while True:
            job = self.job
            self.job = None
            if job is None:
                return
            job(self)
            del job
            if self.later is not None:
                later, self.later = self.later, None
                try:
                    later()
                except BaseException:  # sys.exit() in a function that was cancelled: nobody waits
                    self.loop = None
            _idle.append(self)
            self.wakeup.acquire()


_idle: list[_Helper] = []
_count = 0


def _forget_helpers() -> None:
    """After a fork there is no other thread."""
    global _count
    _idle.clear()
    _count = 0


def start_helper(job: Callable[[_Helper], None]) -> bool:
    """Performs `job` on a helper thread. False: there are as many as there may be, or can be, all of them stuck."""
    global _count
    try:
        helper = _idle.pop()
    except IndexError:
        if _count >= HELPERS_MAX:
            return False
        if _count == 0:
            _prepare()
        import threading

        _count += 1
        helper = _Helper()
        helper.job = job
        try:
            threading.Thread(target=helper.run, name=f"brumate-{_count}", daemon=True).start()
        except RuntimeError:
            _count -= 1
            return False
        return True
    helper.job = job
    helper.wakeup.release()
    return True


_prepared = False


def _prepare() -> None:
    global _prepared
    if not _prepared:
        import os

        _prepared = True
        os.register_at_fork(after_in_child=_forget_helpers)


class _Job:
    """A run in the hands of a helper."""

    __slots__ = ("context", "core", "done", "error", "event", "finished", "note", "ticket", "wake_loop")

    def __init__(self, core: Session, context: Context, note: Note = None) -> None:
        self.core = core
        self.context = context
        self.ticket = core.claim()
        self.note = note
        self.event: Event | None = None  # its last
        self.error: BaseException | None = None
        self.finished = False
        self.wake_loop: Callable[[], object] | None = None  # of the helper, while one runs there
        self.done = _thread.allocate_lock()  # released to wake the caller
        self.done.acquire()

    def __call__(self, helper: _Helper) -> None:
        try:
            self.context.run(self.drive, helper)
        except BaseException as e:  # whatever it is, it belongs to the caller
            self.error = e
            self.core.abandon(self.ticket)
        self.finished = True
        self.wake()

    def wake(self) -> None:
        """Lets the caller look."""
        try:
            self.done.release()
        except RuntimeError:
            pass  # it was told already

    def interrupted(self) -> None:
        """Lets caller and helper look: the guest is to be stopped."""
        self.wake()
        self.nudge()

    def nudge(self) -> None:
        """The helper may wait in its event loop for a run that is no longer its own."""
        wake = self.wake_loop
        if wake is not None:
            wake()

    def drive(self, helper: _Helper) -> None:
        event = self.core.drive(self.ticket)
        while self.note is not None and event[0] in (HELD, DROP):
            self.note(event)
            event = self.core.drive(self.ticket)
        if event[0] not in (DONE, LOST) and not (event[0] == WAIT and self.note is not None):
            from .asynchronous import drive_privately

            event = drive_privately(self, helper, event)
        self.event = event


def finish(core: Session) -> ExecuteResult:
    """Drives a run on that has come to its first call of a host function."""
    from contextvars import copy_context

    context = copy_context()
    while True:
        event = drive_on_helper(core, context)
        if event is not None:
            return event[2]  # type: ignore[no-any-return]
        result = core.resume(core.claim())
        if result is not None:
            return result
        context = context.copy()  # the other is in use by the function that is stuck


def drive_on_helper(core: Session, context: Context, note: Note = None) -> Event | None:
    """Drives the run on a helper thread, to its end; a stepwise one to where it waits, `note` being told of calls
    that nobody here performs, or waits for any more. None: host code has had its time, and the run is ours again."""
    job = _Job(core, context, note)
    if not start_helper(job):
        core.abandon(job.ticket)
        raise RuntimeError(
            f"no thread is left to call a host function: {HELPERS_MAX} are stuck, or there can be no more"
        )
    core.waker = job.interrupted
    try:
        taken = _wait(core, job)
    except BaseException:
        while not core.abandon(job.ticket) and not job.finished:
            job.done.acquire(timeout=0.01)
        job.nudge()
        raise
    finally:
        core.waker = None
    if taken:
        return None
    if job.error is not None:
        raise job.error
    assert job.event is not None
    return job.event


def _wait(core: Session, job: _Job) -> bool:
    """Until the helper is done. True: its time was over, and the run is ours again."""
    while not job.finished:
        job.done.acquire(timeout=core.patience())
        if not job.finished and core.overdue(job.ticket):
            job.nudge()
            return True
    return False
