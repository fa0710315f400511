"""Snapshots: a session asleep, as data."""

from __future__ import annotations

import os
from typing import NamedTuple

from . import _native
from .errors import BrumateError
from .steps import Held, PendingCall, Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any, Unpack

    from .session import Options, Session

__all__ = ["Checkpoint", "PendingCall", "Progress", "Snapshot", "SnapshotInfo", "resume"]


class SnapshotInfo(NamedTuple):
    """What a snapshot is; sizes in bytes."""

    id: str  # of what it holds
    base_id: str | None  # of the snapshot that it holds the changes since; None: it is whole
    image_id: str  # of the image that it belongs to
    guest_id: str  # of the build of the guest
    taken: float  # when, seconds since 1970
    size: int  # of the snapshot itself
    memory: int  # of the guest
    changed: int  # of it, what differs from the image, or from the base
    stored: int  # of that, what is stored here, before compression
    files: int  # before compression; 0 if they are those of its base
    open_files: int
    waiting: bool  # a run waits in it; else the session was idle
    pending: int  # calls that wait for an answer
    time_left_ms: float | None  # of the run; None: no limit, or no run
    signed: bool
    format: int  # of the bytes


class Snapshot:
    """A session asleep: its Python, its files, and the run that waits in it, if one does. Made by
    `Session.suspend`; woken by `resume` in any process of this build, as often as you like.

    Immutable; may be used by any threads at once, and pickled. It holds no limits, callbacks, mounts and
    environment: those are the waking session's.

    Example::

        snapshot = session.suspend()
        snapshot.save("agent.bru")
        ...
        session = brumate.resume(brumate.Snapshot.load("agent.bru"), replies={3: "yes"})
    """

    __slots__ = ("__weakref__", "_data", "_pending")

    _data: _native.Snapshot
    _pending: tuple[PendingCall, ...] | None

    def __init__(self) -> None:
        raise TypeError("snapshots are made by Session.suspend(), Snapshot.load() and from_bytes()")

    @staticmethod
    def _of(native: _native.Snapshot) -> Snapshot:
        self = object.__new__(Snapshot)
        self._data = native
        self._pending = None
        return self

    @staticmethod
    def from_bytes(
        data: bytes | bytearray | memoryview, *, key: bytes | None = None
    ) -> Snapshot:
        """A snapshot from what `to_bytes` gave. ValueError: it is none, or damaged. BrumateError: it was not signed
        with `key`, or without one, it was signed.

        From an untrusted source it can do no more than untrusted code could."""
        return Snapshot._of(_native.Snapshot(data, key))

    @staticmethod
    def load(path: str | os.PathLike[str], *, key: bytes | None = None) -> Snapshot:
        """A snapshot from a file. Errors as for `from_bytes`; FileNotFoundError, OSError."""
        path = os.fspath(path)  # a number would be a descriptor, and closed
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))  # says what is wrong as Python says it
        return Snapshot._of(_native.Snapshot.load(path, key))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Puts it into a file: whole and on the disk when this returns, or not at all; a file that was there
        stays until then. OSError says why it could not."""
        self._data.save(path)

    def to_bytes(self) -> bytes:
        """Its bytes, to be kept or sent."""
        return self._data.to_bytes()

    @property
    def pending(self) -> list[PendingCall]:
        """The calls that wait for an answer, in the order in which they were made."""
        if self._pending is None:
            calls = enumerate(self._data.calls())
            self._pending = tuple(self._call(index, *call) for index, call in calls)
        return list(self._pending)

    def _call(self, index: int, id: int, name: str) -> PendingCall:
        native = self._data
        return PendingCall(id, name, lambda: native.arguments(index))

    @property
    def waiting(self) -> bool:
        """Whether a run waits in it; else the session was idle."""
        return bool(self._data.info["waiting"])

    @property
    def is_delta(self) -> bool:
        """Whether it holds only what changed since another (``info.base_id``): `join` it with that, to wake it."""
        return bool(self._data.info["base_id"])

    def join(self, base: Snapshot, *, key: bytes | None = None) -> Snapshot:
        """The whole snapshot of which this one holds the changes since `base`; `key` signs it. It has the id of the changes,
        so it is the base of what was taken over them, too.

        BrumateError: this one is whole, or of another base; ValueError: they were made up.

        Example::

            first = session.suspend()
            session.execute("x += 1")
            delta = session.suspend(base=first)         # some KB
            brumate.resume(delta.join(first))
        """
        if not isinstance(base, Snapshot):
            raise TypeError(f"base must be a Snapshot, not {type(base).__name__}")
        return Snapshot._of(self._data.join(base._data, key))

    def _check_whole(self) -> None:
        base: str = self._data.info["base_id"]
        if base:
            raise BrumateError(
                f"the snapshot holds only what changed since the one with the id {base}: join() it with that first"
            )

    @property
    def info(self) -> SnapshotInfo:
        """What it is: sizes in bytes, when it was taken, what it waits for."""
        i = self._data.info
        timed = i["waiting"] and i["left_ns"] != 2**64 - 1
        return SnapshotInfo(
            id=i["id"],
            base_id=i["base_id"] or None,
            image_id=i["image_id"],
            guest_id=i["wasm_sha256"],
            taken=i["wall_ns"] / 1e9,
            size=self._data.size,
            memory=i["memory_bytes"],
            changed=i["changed_bytes"],
            stored=i["stored_bytes"],
            files=i["file_bytes"],
            open_files=i["descriptors"],
            waiting=i["waiting"],
            pending=i["call_count"],
            time_left_ms=i["left_ns"] / 1e6 if timed else None,
            signed=i["signed"],
            format=i["format"],
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if self._data.info["signed"]:
            raise TypeError("a signed snapshot cannot be pickled, as its key would have to go along: send to_bytes()")
        return Snapshot.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        state = f"waiting, {len(self.pending)} calls pending" if self.waiting else "idle"
        if self.is_delta:
            state = f"changes, {state}"
        return f"<Snapshot {state}, {self._data.size} bytes>"


def resume(
    snapshot: Snapshot | bytes | bytearray | memoryview,
    *,
    replies: Mapping[int, Any] | None = None,
    key: bytes | None = None,
    **options: Unpack[Options],
) -> Session:
    """A new session with the snapshot in it: it goes on where the other was, with fresh entropy and the
    time that has passed meanwhile.

    replies  {id: value or exception} for calls of `Snapshot.pending`
    key      that the snapshot was signed with, if bytes are given
    options  those of `Session` (its time limit is the most that the run still gets): callbacks, limits, mounts, ... are given anew. Open calls of functions that have an
             implementation here are performed, again if need be; the others stay pending. A snapshot of a deterministic
             session goes on with its own seed and time; `deterministic` is for others

    If a run waited (`Snapshot.waiting`), go on with it by `Session.progress`, `reply`, `finish` or
    `finish_async`. Of a run that was told to listeners (`on_stdout`) as it went, the result has the output from
    here on only.

    ValueError: no snapshot, or damaged; or a reply to a call that is not pending. BrumateError: it belongs to another
    image, holds only what changed since another (`Snapshot.join`), or needs more than the limits.

    Example::

        session = brumate.resume(snapshot, replies={snapshot.pending[0].id: "yes"})
        print(session.finish().stdout)
    """
    from .session import Session

    if not isinstance(snapshot, Snapshot):
        snapshot = Snapshot.from_bytes(snapshot, key=key)
    session = Session(**options)
    try:
        session.restore_state(snapshot)
        if replies:
            session._answer(replies)
    except BaseException:
        session.close()
        raise
    return session


def held_of(snapshot: Snapshot) -> Held:
    return Held((call.id, call) for call in snapshot.pending)


class Checkpoint:
    """A state of a session to go back to, in memory: see `Session.checkpoint`."""

    __slots__ = ("_core", "_count", "_held", "_owner")

    def __init__(self, owner: Session, core: _native.Session, count: int, held: Held) -> None:
        self._owner: Session | None = owner
        self._core = core
        self._count = count
        self._held = held

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._core.closed

    def close(self) -> None:
        """Frees its memory; it cannot be gone back to any more."""
        self._owner = None
        self._core.close()

    def __repr__(self) -> str:
        return f"<Checkpoint {'closed' if self.closed else f'after {self._count} runs'}>"


class Trial:
    """``with session.trial():``."""

    __slots__ = ("_checkpoint", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._checkpoint: Checkpoint | None = None

    def __enter__(self) -> Session:
        if self._checkpoint is not None:
            raise RuntimeError("a trial is for one `with` statement: call trial() again")
        self._checkpoint = self._session.checkpoint()
        return self._session

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        checkpoint = self._checkpoint
        assert checkpoint is not None
        try:
            if exception is not None and not self._session.closed:
                self._session._go_back(checkpoint, checkpoint._core)
        finally:
            checkpoint.close()
