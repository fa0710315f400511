"""Where a Store keeps its sessions: a folder, or what fsspec knows by URL.

A session is one file, a snapshot, named after it: ``<stem>.bru``. Where the name cannot be the stem, the stem is made
from it and ``<stem>.name`` holds it; that file is there before the other, and goes after it.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
from hashlib import sha256
from importlib import import_module
from typing import NamedTuple

from . import _native
from .errors import BrumateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from typing import Any

__all__ = ["File", "Folder", "Remote", "check_name", "place_of", "stem_of"]

NAME_MAX = 200  # characters

_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
_LEFTOVER = re.compile(r"(.+)\.(?:bru\.[0-9A-Za-z]{6}|name\.new)")


def check_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a session's name must be a string, not {type(name).__name__}")
    if not 0 < len(name) <= NAME_MAX:
        raise ValueError(f"a session's name must have 1 to {NAME_MAX} characters, not {len(name)}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the session's name {name!r} is no valid Unicode text") from None
    return name


def stem_of(name: str) -> str:
    """The name of a session's files, without what stands behind the dot; no two names share one."""
    if _PLAIN.fullmatch(name):
        return name
    seen = re.sub("[^a-z0-9]+", "_", name.lower())[:40]
    return f"{seen}~{sha256(name.encode()).hexdigest()[:32]}"


def _is_named(stem: str) -> bool:
    return "~" not in stem


class File(NamedTuple):
    stem: str
    size: int  # bytes
    used: float  # seconds since 1970


class Folder:
    """A folder of this machine. Files are replaced whole: on the disk, under another name, then renamed. Who uses a
    session holds a lock on one byte of the file ``.lock``: the system takes it back when the process dies."""

    _locks = -1

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        os.makedirs(self.path, exist_ok=True)
        self._open_locks()
        self.clean()

    def _open_locks(self) -> None:
        self._locks = os.open(os.path.join(self.path, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        if self._locks >= 0:
            os.close(self._locks)
            self._locks = -1

    __del__ = close

    def in_child(self) -> None:
        """After a fork: the locks that were inherited are the parent's."""
        self.close()
        self._open_locks()

    def _path(self, stem: str, kind: str = "bru") -> str:
        return os.path.join(self.path, f"{stem}.{kind}")

    # ---- Locks

    def _lock(self, stem: str, how: int) -> None:
        at = int.from_bytes(sha256(stem.encode()).digest()[:7], "big")
        # struct flock; locks of a file description, not of a process, which loses its own too easily
        fcntl.fcntl(self._locks, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", how, os.SEEK_SET, at, 1, 0))

    def lock(self, stem: str) -> bool:
        """False: another process has it."""
        try:
            self._lock(stem, fcntl.F_WRLCK)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(self, stem: str) -> None:
        if self._locks >= 0:
            self._lock(stem, fcntl.F_UNLCK)

    # ---- Files; who changes one has its lock

    def version(self, stem: str) -> Hashable:
        """Another one whenever the file is another; None: there is none."""
        try:
            s = os.stat(self._path(stem))
        except FileNotFoundError:
            return None
        return s.st_ino, s.st_mtime_ns, s.st_size

    def read(self, stem: str, key: bytes | None) -> _native.Snapshot:
        return _native.Snapshot.load(self._path(stem), key)

    def write(self, stem: str, name: str, snapshot: _native.Snapshot) -> None:
        if not _is_named(stem) and not os.path.exists(self._path(stem, "name")):
            self._write_name(stem, name)
        snapshot.save(self._path(stem))

    def _write_name(self, stem: str, name: str) -> None:
        new = self._path(stem, "name.new")
        with open(new, "wb") as file:
            file.write(name.encode())
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, self._path(stem, "name"))  # the snapshot that follows puts the folder on the disk

    def remove(self, stem: str) -> None:
        os.unlink(self._path(stem))
        self._forget_name(stem)
        self._sync()

    def _forget_name(self, stem: str) -> None:
        try:
            os.unlink(self._path(stem, "name"))
        except FileNotFoundError:
            pass

    def _sync(self) -> None:
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def put_aside(self, stem: str) -> str:
        """Where a damaged file is kept from now on."""
        number = 1
        while os.path.lexists(self._path(stem, f"damaged-{number}")):
            number += 1
        aside = self._path(stem, f"damaged-{number}")
        os.rename(self._path(stem), aside)
        self._forget_name(stem)
        self._sync()
        return aside

    def name(self, stem: str) -> str | None:
        """None: its file has gone meanwhile."""
        if _is_named(stem):
            return stem
        try:
            with open(self._path(stem, "name"), "rb") as file:
                name = file.read(4 * NAME_MAX + 1).decode()
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        return name if stem_of(name) == stem else None

    def files(self) -> Iterator[File]:
        with os.scandir(self.path) as entries:
            for entry in entries:
                stem, _, kind = entry.name.partition(".")
                if not stem or kind != "bru":
                    continue
                try:
                    s = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                yield File(stem, s.st_size, s.st_mtime)

    def clean(self) -> None:
        """Removes what processes that were killed left behind."""
        names = os.listdir(self.path)
        there = set(names)
        for name in names:
            left = _LEFTOVER.fullmatch(name)
            stem, _, kind = name.partition(".")
            orphan = kind == "name" and f"{stem}.bru" not in there
            if not left and not orphan:
                continue
            stem = left.group(1) if left else stem
            if not self.lock(stem):
                continue
            try:
                if left or not os.path.exists(self._path(stem)):
                    os.unlink(os.path.join(self.path, name))
            except FileNotFoundError:
                pass
            finally:
                self.unlock(stem)


class Remote:
    """A folder that fsspec reaches. A file is written under another name, then moved: that is as atomic as the file
    system makes it. It has no locks: one process at a time."""

    def __init__(self, url: str) -> None:
        try:
            core: Any = import_module("fsspec.core")
        except ImportError as e:
            raise ImportError(f"a store at {url!r} needs the package fsspec: install it") from e
        self._fs: Any
        self._root: str
        self._fs, self._root = core.url_to_fs(url)
        self._fs.makedirs(self._root, exist_ok=True)

    def close(self) -> None:
        pass

    def in_child(self) -> None:
        pass

    def _path(self, stem: str, kind: str = "bru") -> str:
        return f"{self._root.rstrip('/')}/{stem}.{kind}"

    def lock(self, stem: str) -> bool:
        return True

    def unlock(self, stem: str) -> None:
        pass

    def version(self, stem: str) -> Hashable:
        self._fs.invalidate_cache()
        try:
            return str(self._fs.ukey(self._path(stem)))
        except FileNotFoundError:
            return None

    def read(self, stem: str, key: bytes | None) -> _native.Snapshot:
        return _native.Snapshot(self._fs.cat_file(self._path(stem)), key)

    def write(self, stem: str, name: str, snapshot: _native.Snapshot) -> None:
        if not _is_named(stem):
            self._put(stem, "name", name.encode())
        self._put(stem, "bru", snapshot.to_bytes())

    def _put(self, stem: str, kind: str, data: bytes) -> None:
        new = self._path(stem, f"{kind}.new")
        self._fs.pipe_file(new, data)
        self._fs.mv(new, self._path(stem, kind))

    def remove(self, stem: str) -> None:
        self._fs.rm_file(self._path(stem))
        if not _is_named(stem):
            self._fs.rm_file(self._path(stem, "name"))

    def put_aside(self, stem: str) -> str:
        aside = self._path(stem, f"damaged-{os.urandom(4).hex()}")
        self._fs.mv(self._path(stem), aside)
        return aside

    def name(self, stem: str) -> str | None:
        if _is_named(stem):
            return stem
        try:
            name = self._fs.cat_file(self._path(stem, "name")).decode()
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        return name if stem_of(name) == stem else None

    def files(self) -> Iterator[File]:
        self._fs.invalidate_cache()
        for entry in self._fs.ls(self._root, detail=True):
            stem, _, kind = entry["name"].rpartition("/")[2].partition(".")
            if stem and kind == "bru":
                yield File(stem, int(entry["size"] or 0), _time_of(entry))

    def clean(self) -> None:
        pass


def _time_of(entry: dict[str, Any]) -> float:
    """File systems tell it under one of several names, in one of several ways; 0: not at all."""
    for key in ("mtime", "modified", "LastModified", "last_modified", "updated", "created"):
        when = entry.get(key)
        stamp: Callable[[], float] | None = getattr(when, "timestamp", None)
        if stamp is not None:
            return stamp()
        if isinstance(when, (int, float)):
            return float(when)
    return 0.0


def place_of(where: str | os.PathLike[str]) -> Folder | Remote:
    path = os.fspath(where)
    if not isinstance(path, str):
        raise TypeError(f"a store's folder must be a string or a path, not {type(where).__name__}")
    scheme, found, rest = path.partition("://")
    if not found:
        return Folder(path)
    if scheme == "file":
        return Folder(rest)
    return Remote(path)


def damaged(name: str, error: ValueError, aside: str) -> BrumateError:
    return BrumateError(
        f"the stored session {name!r} cannot be woken: {error}; its file is kept as {aside}, and the name is free"
    )
