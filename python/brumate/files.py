"""The files of a session or a storage, from outside."""

from __future__ import annotations

import errno
import os
import stat as stat_module

from .limits import check_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, BinaryIO, Literal, Protocol, TypeVar

    T = TypeVar("T")
    Raw = tuple[str, int, int, float]

    class Native(Protocol):
        """What sessions and storages of the extension have in common."""

        def write_file(self, path: str, offset: int, data: Any, replace: bool, /) -> None: ...
        def read_file(self, path: str, offset: int, length: int, /) -> bytes: ...
        def stat_file(self, path: str, /) -> Raw: ...
        def list_files(self, path: str, /) -> list[Raw]: ...
        def remove_file(self, path: str, /) -> None: ...
        def make_folder(self, path: str, /) -> None: ...


__all__ = ["FileInfo", "Files"]

CHUNK = 1 << 20  # bytes read or written in one go
CHUNK_MAX = 1 << 30  # the most, whatever is asked for
FETCH_MAX = 1 << 30  # bytes that leave the sandbox at once, if nothing else is said
_COUNT_MAX = 2**63 - 1
DEPTH_MAX = 100  # folders in folders that are copied

_KINDS: tuple[Literal["file", "folder", "link", "device"], ...] = (
    "file",
    "folder",
    "link",
    "device",
)


class FileInfo:
    """What is known of a file.

    name   without its folder
    kind   "file", "folder", "link" or "device"
    size   bytes
    mtime  when it was last changed, seconds since 1970
    """

    __slots__ = ("kind", "mtime", "name", "size")

    def __init__(
        self, name: str, kind: Literal["file", "folder", "link", "device"], size: int, mtime: float
    ) -> None:
        self.name = name
        self.kind = kind
        self.size = size
        self.mtime = mtime

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileInfo):
            return NotImplemented
        return (self.name, self.kind, self.size, self.mtime) == (
            other.name,
            other.kind,
            other.size,
            other.mtime,
        )

    def __hash__(self) -> int:
        return hash((self.name, self.kind, self.size, self.mtime))

    def __repr__(self) -> str:
        return f"FileInfo({self.name!r}, {self.kind!r}, size={self.size}, mtime={self.mtime})"


def _info(raw: Raw) -> FileInfo:
    name, kind, size, mtime = raw
    return FileInfo(name, _KINDS[kind], size, mtime)


class _Left:
    """How many bytes may still leave the sandbox."""

    def __init__(self, count: int) -> None:
        self.count = count

    def take(self, count: int, path: str) -> None:
        self.count -= count
        if self.count < 0:
            raise OSError(errno.EFBIG, "the folder has more than max_bytes", path)


def _joined(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


def _contents(data: Any) -> Any:
    """Checked as far as that can be without reading."""
    if isinstance(data, str):
        return data.encode()
    if not hasattr(type(data), "read") and not hasattr(type(data), "__iter__"):
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(
                "data must be bytes, str, a binary file or an iterable of bytes, "
                f"not {type(data).__name__}"
            )
    return data


def _pieces(data: Any) -> Iterator[bytes | memoryview]:
    """What is to be written, in pieces that are not too large."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        view = memoryview(data).cast("B")
        for at in range(0, len(view), CHUNK):
            yield view[at : at + CHUNK]
    elif hasattr(data, "read"):
        while True:
            piece = data.read(CHUNK)
            if not isinstance(piece, bytes):
                raise TypeError("a file to put must be opened in binary mode")
            if not piece:
                return
            yield piece
    else:
        for piece in data:
            if not isinstance(piece, (bytes, bytearray, memoryview)):
                raise TypeError(f"pieces of a file must be bytes, not {type(piece).__name__}")
            yield from _pieces(piece)


class Files:
    """Files of a session (paths as its guest sees them) or of a storage (paths from its root).

    Paths are absolute. Errors are those of the built-in ``open``: FileNotFoundError, PermissionError,
    IsADirectoryError, NotADirectoryError, OSError with ENOSPC at the file limit. BrumateError while a run is
    under way in the session.

    Example::

        session.files.put("/data/in.csv", Path("in.csv").open("rb"))
        session.execute("open('/data/out.csv', 'w').write(open('/data/in.csv').read())")
        print(session.files.get("/data/out.csv"))
    """

    __slots__ = ("_native", "_top")

    def __init__(self, native: Native, top: str) -> None:
        self._native = native
        self._top = top

    def _try(self, path: str, call: Callable[..., T], *args: Any) -> T:
        try:
            return call(path, *args)
        except OSError as e:
            if e.errno != errno.EINVAL:
                e.strerror = (e.strerror or "").removeprefix(f"{path}: ")  # it follows, as the filename
                raise
            error = e
        try:
            is_folder = self._native.stat_file(path)[1] == 1
        except OSError:
            is_folder = False
        code = errno.EISDIR if is_folder else errno.ENOTDIR
        raise OSError(code, os.strerror(code), path) from error

    def put(
        self, path: str, data: bytes | bytearray | memoryview | str | BinaryIO | Iterable[bytes]
    ) -> None:
        """Writes a file, in place of what is there; folders above it are made. Text is written as UTF-8, a binary
        file or an iterable of bytes piece by piece. If that fails, no part of it stays."""
        at = 0
        data = _contents(data)
        write = self._native.write_file
        self._try(path, write, 0, b"", True)
        try:
            for piece in _pieces(data):
                self._try(path, write, at, piece, False)
                at += len(piece)
        except BaseException:
            self._native.remove_file(path)
            raise

    def get(self, path: str, *, max_bytes: int = FETCH_MAX) -> bytes:
        """The contents of a file. OSError (EFBIG) if it has more than `max_bytes`."""
        check_number("max_bytes", max_bytes, 0, _COUNT_MAX)
        size = self.stat(path).size
        if size > max_bytes:
            raise OSError(errno.EFBIG, f"{size} bytes are more than max_bytes={max_bytes}", path)
        return b"".join(self.read(path))

    def read(self, path: str, chunk: int = CHUNK) -> Iterator[bytes]:
        """The contents of a file in pieces of `chunk` bytes."""
        chunk = check_number("chunk", chunk, 1, _COUNT_MAX)
        chunk = min(chunk, CHUNK_MAX)
        at = 0
        piece = self._try(path, self._native.read_file, at, chunk)
        return self._read_on(path, chunk, piece)

    def _read_on(self, path: str, chunk: int, piece: bytes) -> Iterator[bytes]:
        at = 0
        while piece:
            yield piece
            at += len(piece)
            piece = self._try(path, self._native.read_file, at, chunk)

    def list(self, path: str | None = None) -> list[FileInfo]:
        """What is in a folder, by name; default: /data (wherever `vfs` is shown), of a storage its root."""
        folder = self._top if path is None else path
        return [_info(raw) for raw in self._try(folder, self._native.list_files)]

    def stat(self, path: str) -> FileInfo:
        """What is at `path`, links followed."""
        info = _info(self._try(path, self._native.stat_file))
        info.name = info.name or path.rstrip("/").rpartition("/")[2]
        return info

    def exists(self, path: str) -> bool:
        """Whether there is something at `path`."""
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def mkdir(self, path: str) -> None:
        """Makes a folder and those above it; one that is there is no error."""
        self._try(path, self._native.make_folder)

    def remove(self, path: str) -> None:
        """Removes a file, or a folder and all that is in it."""
        self._try(path, self._native.remove_file)

    def put_folder(self, host: str | os.PathLike[str], path: str) -> None:
        """Copies the host's folder to `path`. Only files and folders: links and devices are left out."""
        host = os.fsdecode(host)
        self.mkdir(path)
        with os.scandir(host) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                to = _joined(path, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    self.put_folder(entry.path, to)
                elif entry.is_file(follow_symlinks=False):
                    with open(entry.path, "rb") as file:
                        self.put(to, file)

    def get_folder(
        self, path: str, host: str | os.PathLike[str], *, max_bytes: int = FETCH_MAX
    ) -> None:
        """Copies a folder to the host's folder, which is made if it is missing. Guest code chose the names: nothing
        is written outside of the folder, and no link is followed or made. Only files and folders; links
        and devices are left out.

        OSError (EFBIG) beyond `max_bytes` of contents, (ELOOP) more than 100 folders deep, or as the host
        answers; what was copied by then stays.
        """
        check_number("max_bytes", max_bytes, 0, _COUNT_MAX)
        os.makedirs(host, exist_ok=True)
        folder = os.open(host, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._fetch(path, folder, _Left(max_bytes), 0)
        finally:
            os.close(folder)

    def _fetch(self, path: str, folder: int, left: _Left, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise OSError(errno.ELOOP, f"more than {DEPTH_MAX} folders in folders", path)
        for name, kind, _, _ in self._try(path, self._native.list_files):
            if name in ("", ".", "..") or "/" in name or "\0" in name:
                raise OSError(errno.EINVAL, "a name that no file can have", _joined(path, name))
            where = _joined(path, name)
            if kind == 1:
                inner = _open_folder(name, folder)
                try:
                    self._fetch(where, inner, left, depth + 1)
                finally:
                    os.close(inner)
            elif kind == 0:
                self._fetch_file(where, name, folder, left)

    def _fetch_file(self, path: str, name: str, folder: int, left: _Left) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(name, flags, 0o644, dir_fd=folder), "wb") as file:
            if not stat_module.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "what is there on the host is no file", name)
            for piece in self.read(path):
                left.take(len(piece), path)
                file.write(piece)


def _open_folder(name: str, folder: int) -> int:
    try:
        os.mkdir(name, 0o755, dir_fd=folder)
    except FileExistsError:
        pass
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
