"""Store: many named sessions, most of them asleep on disk."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from typing import NamedTuple
from weakref import WeakSet, ref

from .errors import BrumateError
from .limits import check_number
from .places import File, check_name, damaged, place_of, stem_of
from .session import Session
from .snapshot import Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Hashable
    from typing import Unpack

    from .session import Options

__all__ = ["Store", "StoredSession"]

# How often a process that waits for another's session looks again, seconds.
_LOOK_AGAIN = 0.01

# Below this part of the machine's memory that is available, idle sessions are put to sleep at once.
_PRESSURE = 0.1

# How long the sizes of others' files are believed, seconds.
_BELIEVED = 5.0


class StoredSession(NamedTuple):
    """A session of a store, as `Store.list` tells of it."""

    name: str
    size: int  # bytes, of its file
    used: float  # when last, seconds since 1970
    live: bool  # in this process's memory


class _Live:
    """An idle session that is still in memory, and which file holds the same."""

    __slots__ = ("session", "since", "version")

    def __init__(self, session: Session, version: Hashable) -> None:
        self.session = session
        self.version = version
        self.since = time.monotonic()


class _InUse:
    __slots__ = ("name", "session", "stem", "thread")

    def __init__(self, name: str, stem: str) -> None:
        self.name = name
        self.stem = stem
        self.thread = threading.get_ident()
        self.session: Session | None = None


_stores: WeakSet[Store] = WeakSet()


def _in_child() -> None:
    for store in list(_stores):
        store._in_child()


os.register_at_fork(after_in_child=_in_child)


class Store:
    """Named sessions in a folder. Each is used by one owner at a time, in any process; behind each use it is put on
    the disk, and soon sleeps there only.

    where         a folder, made if missing; or a URL for fsspec ("s3://bucket/folder", "memory://x"), if that is
                  installed: replaced as atomically as that file system moves files, and without locks: for
                  one process at a time
    max_live      idle sessions that stay in memory, to be used again at once (some 0.3 MB each, and what they hold)
    idle_seconds  they leave it after that time; None: only when there are too many, or memory gets scarce (less
                  than a tenth of the machine's is available)
    max_sessions, max_bytes  of all in the store, bytes of their files; None: no limit. Beyond, a new session, or saving one that
                  grew, raises BrumateError; `evict`: those that were not used for the longest time are removed
    key           signs the files (HMAC), at least 16 bytes: others are not woken
    options       those of `Session`, for each that is made or woken

    A process that is killed at any moment loses nothing that was saved: a file is there whole, old or new. A
    damaged one is kept aside, with one error that says so.

    Example::

        store = brumate.Store("sessions", max_sessions=10_000, execution_timeout_ms=5_000)
        with store.session("alice") as session:
            session.execute("visits = globals().get('visits', 0) + 1")
    """

    def __init__(
        self,
        where: str | os.PathLike[str],
        *,
        max_live: int = 64,
        idle_seconds: float | None = None,
        max_bytes: int | None = None,
        max_sessions: int | None = None,
        evict: bool = False,
        key: bytes | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._max_live = check_number("max_live", max_live, 0, 1_000_000)
        self._idle_seconds = _seconds("idle_seconds", idle_seconds)
        self._max_bytes = None if max_bytes is None else check_number("max_bytes", max_bytes, 1, 2**62)
        self._max_sessions = (
            None if max_sessions is None else check_number("max_sessions", max_sessions, 1, 2**31)
        )
        self._evict = evict
        self._key = key
        self._options = options
        with Session(**options) as first:  # what is wrong with options or key is told now
            first.suspend(key=key)
        self._place = place_of(where)
        self._changed = threading.Condition()
        self._used: dict[str, _InUse] = {}  # by stem, as the next
        self._live: OrderedDict[str, _Live] = OrderedDict()  # the one not used for longest first
        self._sizes: dict[str, File] = {}
        self._seen: float | None = None  # when `sizes` was read
        self._sweeper: threading.Thread | None = None
        self._closed = False
        _stores.add(self)

    # ---- Use

    @contextmanager
    def session(
        self, name: str, *, create: bool = True, timeout: float | None = 0.0
    ) -> Generator[Session, None, None]:
        """The session of that name, for a `with` statement: woken, or made if there is none. Behind it the session is on
        the disk as it then is, also if the body raised; the object is closed.

        create   else KeyError if there is none
        timeout  seconds to wait while another owner has it; 0: not at all; None: for ever. The thread
                 waits: where tasks of one event loop may meet, leave it at 0

        BrumateError: another owner has it; the store is full; its file is damaged (it is kept aside) or belongs
        to another image; at the end: something still runs in it. What is on the disk then is what was saved before; so
        it is where the session has ended (by a timeout, say) or was closed."""
        stem = stem_of(check_name(name))
        use = self._acquire(name, stem, timeout)
        try:
            use.session = self._wake(name, stem, create)
            try:
                yield use.session
            finally:
                self._put_to_sleep(use)
        finally:
            self._release(use)

    def _acquire(self, name: str, stem: str, timeout: float | None) -> _InUse:
        until = None if timeout is None else time.monotonic() + timeout
        use = _InUse(name, stem)
        with self._changed:
            while True:
                if self._closed:
                    raise BrumateError("the store is closed")
                mine = stem not in self._used
                if mine and self._place.lock(stem):
                    self._used[stem] = use
                    return use
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    where = "in another process" if mine else "in this process"
                    raise BrumateError(f"the session {name!r} is in use {where}")
                pause = _LOOK_AGAIN if mine else left
                self._changed.wait(pause if left is None or pause is None else min(pause, left))

    def _release(self, use: _InUse) -> None:
        with self._changed:
            if self._used.get(use.stem) is use:
                del self._used[use.stem]
                self._place.unlock(use.stem)
                self._changed.notify_all()

    def _wake(self, name: str, stem: str, create: bool) -> Session:
        version = self._place.version(stem)
        with self._changed:
            live = self._live.pop(stem, None)
        if live is not None:
            if version is not None and live.version == version:
                return live.session
            live.session.close()
        if version is None:
            if not create:
                raise KeyError(name)
            self._make_room(stem, 0)
            return Session(**self._options)
        session = Session(**self._options)
        try:
            session.restore_state(Snapshot._of(self._place.read(stem, self._key)))
        except ValueError as e:
            session.close()
            raise damaged(name, e, self._place.put_aside(stem)) from None
        except BaseException:
            session.close()
            raise
        return session

    def _put_to_sleep(self, use: _InUse) -> None:
        session = use.session
        assert session is not None
        if session.closed or session._ended is not None:
            session.close()
            return
        self._save(use)
        live = _Live(session._move(), self._place.version(use.stem))
        with self._changed:
            self._live[use.stem] = live
        self.brumate(self._idle_seconds)

    def _save(self, use: _InUse) -> None:
        assert use.session is not None
        snapshot = use.session.suspend(key=self._key)._data
        self._make_room(use.stem, snapshot.size)
        self._place.write(use.stem, use.name, snapshot)
        with self._changed:
            self._sizes[use.stem] = File(use.stem, snapshot.size, time.time())

    def flush(self) -> None:
        """Puts the sessions that this thread uses at present on the disk, as they now are. What other threads use is
        saved at the end of their `with`. BrumateError: one is not at rest."""
        me = threading.get_ident()
        with self._changed:
            mine = [use for use in self._used.values() if use.thread == me]
        for use in mine:
            if use.session is not None and not use.session.closed:
                self._save(use)

    def brumate(self, idle_seconds: float | None = 0.0) -> None:
        """Lets idle sessions leave memory that were not used for that time, those beyond `max_live`, and all when memory is
        scarce; they are on the disk. None: no time."""
        scarce = _memory_is_scarce()
        before = None if idle_seconds is None else time.monotonic() - idle_seconds
        asleep: list[_Live] = []
        with self._changed:
            while self._live:
                stem, live = next(iter(self._live.items()))
                too_many = len(self._live) > self._max_live
                if not (too_many or scarce or (before is not None and live.since <= before)):
                    break
                asleep.append(self._live.pop(stem))
            if self._live and self._idle_seconds is not None and self._sweeper is None:
                self._start_sweeper(self._idle_seconds)
        for live in asleep:
            live.session.close()

    def _start_sweeper(self, idle_seconds: float) -> None:
        self._sweeper = threading.Thread(
            target=_sweep, args=(ref(self), idle_seconds), name="brumate-store", daemon=True
        )
        self._sweeper.start()

    # ---- What there is

    def list(self) -> list[StoredSession]:
        """The sessions of the store, those of other processes too, in order of their names."""
        found: list[StoredSession] = []
        for file in self._place.files():
            name = self._place.name(file.stem)
            if name is not None:
                live = file.stem in self._live or file.stem in self._used
                found.append(StoredSession(name, file.size, file.used, live))
        return sorted(found)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._place.version(stem_of(check_name(name))) is not None

    def __len__(self) -> int:
        return sum(1 for _ in self._place.files())

    def remove(self, name: str, *, timeout: float | None = 0.0) -> None:
        """Removes a session for good. KeyError: there is none. BrumateError: it is in use, for longer than
        `timeout` seconds."""
        stem = stem_of(check_name(name))
        use = self._acquire(name, stem, timeout)
        try:
            self._remove(stem)
        except FileNotFoundError:
            raise KeyError(name) from None
        finally:
            self._release(use)

    def _remove(self, stem: str) -> None:
        """The caller has it in use."""
        with self._changed:
            live = self._live.pop(stem, None)
            self._sizes.pop(stem, None)
        if live is not None:
            live.session.close()
        self._place.remove(stem)

    # ---- Limits

    def _make_room(self, stem: str, size: int) -> None:
        """For the file of `stem` to have that size, or to be new."""
        if self._max_sessions is None and self._max_bytes is None:
            return
        others = [file for file in self._all_files() if file.stem != stem]
        total = sum(file.size for file in others) + size
        for file in sorted(others, key=lambda file: file.used) if self._evict else ():
            if not self._is_full(len(others) + 1, total):
                break
            if self._evict_one(file.stem):
                others.remove(file)
                total -= file.size
        if self._is_full(len(others) + 1, total):
            raise BrumateError(
                f"the store is full: {len(others)} other sessions, {total} bytes with this one; remove some, or "
                "let evict=True do so"
            )

    def _is_full(self, count: int, total: int) -> bool:
        return (self._max_sessions is not None and count > self._max_sessions) or (
            self._max_bytes is not None and total > self._max_bytes
        )

    def _evict_one(self, stem: str) -> bool:
        """False: it is in use."""
        try:
            use = self._acquire(stem, stem, 0)
        except BrumateError:
            return False
        try:
            self._remove(stem)
        except FileNotFoundError:
            pass
        finally:
            self._release(use)
        return True

    def _all_files(self) -> tuple[File, ...]:
        now = time.monotonic()
        with self._changed:
            if self._seen is None or now - self._seen > _BELIEVED:
                self._sizes = {file.stem: file for file in self._place.files()}
                self._seen = now
            return tuple(self._sizes.values())

    # ---- Life

    def close(self) -> None:
        """Frees the idle sessions; they are on the disk. BrumateError if one is in use."""
        with self._changed:
            if self._used:
                use = next(iter(self._used.values()))
                raise BrumateError(f"the session {use.name!r} is in use")
            self._closed = True
            live = list(self._live.values())
            self._live.clear()
        for one in live:
            one.session.close()
        self._place.close()

    def _in_child(self) -> None:
        self._changed = threading.Condition()
        self._used.clear()
        self._live.clear()
        self._sweeper = None
        if not self._closed:
            self._place.in_child()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {len(self._live)} live, {len(self._used)} in use>"


def _sweep(store_ref: ref[Store], idle_seconds: float) -> None:
    """As long as there are idle sessions in memory."""
    while True:
        time.sleep(min(max(idle_seconds / 4, 0.01), 10.0))
        store = store_ref()
        if store is None:
            return
        store.brumate(idle_seconds)
        with store._changed:
            if not store._live:
                store._sweeper = None
                return
        del store


def _seconds(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number or None, not {type(value).__name__}")
    if not value >= 0:
        raise ValueError(f"{name} must be 0 or more, not {value!r}")
    return float(value)


def _memory_is_scarce() -> bool:
    total = available = 0
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                if line.startswith(b"MemTotal:"):
                    total = int(line.split()[1])
                elif line.startswith(b"MemAvailable:"):
                    available = int(line.split()[1])
                    break
    except OSError:
        return False
    return available < total * _PRESSURE
