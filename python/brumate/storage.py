"""VfsStorage: files that sessions share."""

from __future__ import annotations

from . import _native
from .files import Files
from .limits import check_number

__all__ = ["VfsStorage"]


class VfsStorage:
    """Files in memory, to be shown in any number of sessions; they outlive them.

    max_bytes  files, their names and folders; beyond, guests get OSError (no space). Default: 64 MiB

    Example::

        storage = brumate.VfsStorage()
        brumate.Session(vfs=storage).execute("open('/data/a.txt', 'w').write('hi')")
        storage.files.get("/a.txt")        # b'hi'
    """

    __slots__ = ("__weakref__", "_native")

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._native = _native.Storage(check_number("max_bytes", max_bytes, 1, 2**63 - 1))

    @property
    def bytes_used(self) -> int:
        """Bytes of files, names and folders."""
        return self._native.bytes_used

    @property
    def max_bytes(self) -> int:
        """The most that may be, bytes."""
        return self._native.max_bytes

    @property
    def files(self) -> Files:
        """The files, from outside; paths start at the storage's root. ``help(storage.files)`` says what can be done
        with them."""
        return Files(self._native, "/")

    def __repr__(self) -> str:
        return f"<VfsStorage {self.bytes_used} of {self.max_bytes} bytes>"
