"""Runs that are left where they wait, and gone on with later, here or in a copy of their session."""

from __future__ import annotations

from .drive import DONE, DROP, GO, HELD, LOST, WAIT, drive_on_helper
from .errors import BrumateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ._native import ExecuteResult, Session
    from .drive import Event

    Arguments = tuple[tuple[Any, ...], dict[str, Any]]

__all__ = ["PendingCall", "Progress"]


class PendingCall:
    """A call of a host function that waits for its answer.

    id    names it, to `Session.reply` and `resume`; good until it is answered
    name  of the function

    `args` and `kwargs` are the guest's arguments, made when they are first asked for: ValueError if the guest
    forged what is none.
    """

    __slots__ = ("_arguments", "_source", "id", "name")

    def __init__(self, id: int, name: str, source: Callable[[], Arguments]) -> None:
        self.id = id
        self.name = name
        self._source = source
        self._arguments: Arguments | None = None

    def _both(self) -> Arguments:
        if self._arguments is None:
            self._arguments = self._source()
        return self._arguments

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments."""
        return self._both()[0]

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments."""
        return self._both()[1]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PendingCall):
            return NotImplemented
        return (self.id, self.name, self._both()) == (other.id, other.name, other._both())

    def __hash__(self) -> int:
        return hash((self.id, self.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return _call_of, (self.id, self.name, self._both())

    def __repr__(self) -> str:
        return f"PendingCall(id={self.id}, name={self.name!r})"


def _call_of(id: int, name: str, both: Arguments) -> PendingCall:
    return PendingCall(id, name, lambda: both)


class Progress:
    """How far a run has come that is driven step by step.

    done        whether it is over
    result      its `ExecuteResult`, if it is
    pending     the calls that wait for `Session.reply`, in the order in which they were made
    wake_in_ms  milliseconds after which `Session.progress` finds something to do without any reply: a timer of
                the guest's. None: never
    """

    __slots__ = ("done", "pending", "result", "wake_in_ms")

    def __init__(
        self,
        result: ExecuteResult | None,
        pending: Iterable[PendingCall] = (),
        wake_in_ms: float | None = None,
    ) -> None:
        self.done = result is not None
        self.result = result
        self.pending = list(pending)
        self.wake_in_ms = wake_in_ms

    def __repr__(self) -> str:
        if self.done:
            return f"<Progress done: {self.result!r}>"
        return f"<Progress waiting: {self.pending}, wake_in_ms={self.wake_in_ms}>"


class Held(dict[int, PendingCall]):
    """Calls that wait for somebody outside, by id; hears of them from whoever drives the run."""

    __slots__ = ()

    def note(self, event: Event) -> None:
        if event[0] == HELD:
            arguments = event[3], event[4]
            self[event[1]] = PendingCall(event[1], event[2], lambda: arguments)
        else:
            self.pop(event[1], None)


def go_on(core: Session, held: Held, through: bool) -> Event:
    """Drives a run on to its end (DONE) or to where it waits (WAIT); `through`: but for timers."""
    context = None
    ticket = core.begin_drive()
    try:
        while True:
            event = core.advance(ticket, through)
            if event[0] == GO:
                if context is None:
                    from contextvars import copy_context

                    context = copy_context()
                on = drive_on_helper(core, context.copy(), held.note)
                if on is None:
                    ticket = core.claim()
                    continue
                event = on
            if event[0] == DONE:
                return event
            if event[0] == WAIT:
                core.end_drive()
                return event
            if event[0] in (HELD, DROP):
                held.note(event)
            if event[0] == LOST:
                raise BrumateError("the run was taken over by another thread")
    except BaseException:  # Ctrl-C between two events: the run is over, as that of execute() is
        core.abandon(ticket)
        core.end_drive()
        raise


def progress_of(event: Event, held: Held) -> Progress:
    """Of a WAIT event."""
    from time import monotonic

    wake, is_timer = event[1], event[2]
    return Progress(None, held.values(), max(0.0, wake / 1e6 - monotonic() * 1e3) if is_timer else None)
