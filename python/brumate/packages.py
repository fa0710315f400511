"""Python packages (wheels, tarballs, folders) in memory, and the checks of all that comes in.

Nothing is unpacked onto the disk and nothing of a package is run here. What a package holds becomes a
mapping from the path below site-packages to the file's bytes.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from .errors import PackageError
from .metadata import allows

__all__ = ["Budget", "Package", "check_together", "read_packages"]

MIB = 1 << 20

# What a sandbox keeps for itself.
RESERVED = frozenset({"brumate", "_brumate", "_brumate_agent", "_callbacks", "__main__"})
# Native code, "libfoo.so.1" included.
NATIVE = re.compile(r"\.(so(\.\d+)*|pyd|dylib|dll)$", re.IGNORECASE)
# Folders that are of no use to a sandbox, and files that are made anew.
SKIPPED = frozenset({"__pycache__", ".git", ".hg", ".svn", ".tox", ".venv", "node_modules"})

PATH_MAX = 1024
DEPTH_MAX = 40


@dataclass(frozen=True)
class Package:
    """What was read from one path: ``files`` maps paths below site-packages to contents."""

    source: str
    files: Mapping[str, bytes]
    name: str | None = None
    version: str | None = None
    requires_python: str | None = None
    requires: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return os.path.basename(self.source.rstrip("/")) or self.source

    @property
    def modules(self) -> frozenset[str]:
        """The names that can be imported from it."""
        found = set()
        for path in self.files:
            top, slash, _ = path.partition("/")
            if not slash and top.endswith(".py"):
                found.add(top[:-3])
            elif slash and top.isidentifier():
                found.add(top)
        return frozenset(found)


@dataclass
class Budget:
    """What the packages of one factory may take, together, once unpacked."""

    max_bytes: int = 256 * MIB
    max_files: int = 100_000
    max_file_bytes: int = 64 * MIB
    max_ratio: int = 100
    bytes_used: int = 0
    files_used: int = 0

    def add_file(self, label: str, path: str) -> None:
        self.files_used += 1
        if self.files_used > self.max_files:
            raise PackageError(f"{label}: more than {self.max_files} files, at {path}")

    def add_bytes(self, label: str, count: int) -> None:
        self.bytes_used += count
        if self.bytes_used > self.max_bytes:
            raise PackageError(
                f"{label}: more than {self.max_bytes // MIB} MiB unpacked, the limit for all packages"
            )

    def check_size(self, label: str, path: str, size: int) -> None:
        if size > self.max_file_bytes:
            raise PackageError(
                f"{label}: {path} is larger than {self.max_file_bytes // MIB} MiB, the limit for a file"
            )

    def check_packed(self, label: str, size: int) -> None:
        if size > self.max_bytes:
            raise PackageError(
                f"{label}: larger than {self.max_bytes // MIB} MiB, the limit for all packages"
            )

    def check_ratio(self, label: str, packed: int, unpacked: int) -> None:
        if unpacked > 8 * MIB and unpacked > packed * self.max_ratio:
            raise PackageError(
                f"{label}: unpacks to more than {self.max_ratio} times its size, which no package does"
            )


class Tree:
    """The files of a package while they are read: each path checked, each once, all within a budget."""

    def __init__(self, label: str, budget: Budget) -> None:
        self.label = label
        self.budget = budget
        self.files: dict[str, bytes] = {}
        self.folders: set[str] = set()

    def check_path(self, path: str) -> str:
        """The path without "./" before it and "/" behind it; PackageError if it may lead elsewhere."""
        shown = ascii(path[:200])
        if path.startswith("/") or re.match(r"[A-Za-z]:", path):
            raise PackageError(f"{self.label}: the path {shown} is absolute")
        while path.startswith("./"):
            path = path[2:]
        path = path.rstrip("/") or "."
        parts = path.split("/")
        if "\0" in path or "\\" in path or ".." in parts:
            raise PackageError(
                f"{self.label}: the path {shown} leads out of the package or is ambiguous"
            )
        if path != "." and ("" in parts or "." in parts):
            raise PackageError(f"{self.label}: the path {shown} is not written plainly")
        if not path.isprintable():
            raise PackageError(
                f"{self.label}: the path {shown} has characters that cannot be shown"
            )
        size = len(path.encode())
        if (
            size > PATH_MAX
            or len(parts) > DEPTH_MAX
            or max(len(part.encode()) for part in parts) > 255
        ):
            raise PackageError(f"{self.label}: the path {shown}... is too long")
        return path

    def expect(self, path: str, size: int) -> None:
        """Before a file is read: its path (checked), and the size that is announced."""
        if path in self.files or path == ".":
            raise PackageError(f"{self.label}: {path} is in it twice")
        self.budget.add_file(self.label, path)
        self.budget.check_size(self.label, path, size)

    def add(self, path: str, contents: bytes) -> None:
        self.files[path] = contents

    def check_kinds(self) -> None:
        """No file is a folder of another one."""
        for path in self.files:
            parent = path.rpartition("/")[0]
            while parent and parent not in self.folders:
                if parent in self.files:
                    raise PackageError(f"{self.label}: {parent} is both a file and a folder")
                self.folders.add(parent)
                parent = parent.rpartition("/")[0]


def read_packages(
    paths: Sequence[str | os.PathLike[str]], python: tuple[int, ...], budget: Budget | None = None
) -> tuple[Package, ...]:
    """Reads each path by what it is. `python` is the version they will run under.

    FileNotFoundError if there is nothing at a path, ValueError for a file of another kind, PackageError
    for what cannot be used."""
    budget = budget or Budget()
    packages = []
    for path in paths:
        package = _read(os.fspath(path), python, budget)
        check_python(package, python)
        packages.append(package)
    return tuple(packages)


def _read(path: str, python: tuple[int, ...], budget: Budget) -> Package:
    if not isinstance(path, str):
        raise TypeError(f"a package's path must be text, not {type(path).__name__}")
    try:
        found = os.stat(path)
    except FileNotFoundError as e:
        e.strerror = "no such file or folder (packages are paths; pip download gets them)"
        raise
    from .trees import read_folder, read_tarball

    if stat.S_ISDIR(found.st_mode):
        return read_folder(path, budget)
    lower = path.lower()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path}: not a package: neither a file nor a folder")
    if lower.endswith(".whl"):
        from .wheels import read_wheel

        return read_wheel(path, python, budget)
    if lower.endswith((".tar.gz", ".tgz")):
        return read_tarball(path, budget)
    raise ValueError(
        f"{path}: not a package: expected a wheel (.whl), a tarball (.tar.gz, .tgz) or a folder"
    )


def read_file(stream: IO[bytes], tree: Tree, path: str) -> bytes:
    """All that is left of a stream, never believing what it says of its size."""
    parts, size = [], 0
    while part := stream.read(MIB):
        size += len(part)
        tree.budget.check_size(tree.label, path, size)
        tree.budget.add_bytes(tree.label, len(part))
        parts.append(part)
    return b"".join(parts)


def refuse_native(label: str, path: str) -> None:
    if NATIVE.search(path):
        raise PackageError(
            f"{label}: {path} is native code, which a sandbox cannot load; use a pure Python wheel "
            "(...-none-any.whl) of the package, or its source (.tar.gz) if it works without the native part"
        )


def is_wanted(path: str) -> bool:
    """Whether a file has any use in a sandbox: no stored bytecode (made anew), no .pth (not obeyed there)."""
    parts = path.split("/")
    return not (
        SKIPPED.intersection(parts)
        or path.endswith((".pyc", ".pyo"))
        or (len(parts) == 1 and path.endswith(".pth"))
    )


def check_python(package: Package, python: tuple[int, ...]) -> None:
    """PackageError if the package's Requires-Python excludes `python`."""
    wanted = package.requires_python
    if wanted and not allows(wanted, python):
        have = ".".join(map(str, python))
        raise PackageError(f"{package.label}: it requires Python {wanted}, the sandbox has {have}")


# ---- Several packages together ----


def check_together(packages: Iterable[Package], stdlib: frozenset[str]) -> dict[str, bytes]:
    """All files of all packages; PackageError if two collide, or a name can never be imported."""
    owners: dict[str, Package] = {}
    files: dict[str, bytes] = {}
    for package in packages:
        for name in sorted(package.modules):
            if name in RESERVED:
                raise PackageError(
                    f"{package.label}: the name {name} is reserved for the sandbox itself"
                )
            if name in stdlib:
                raise PackageError(
                    f"{package.label}: its module {name} would be shadowed by the standard library's {name}"
                )
        for path, data in package.files.items():
            if path in files and files[path] != data:
                raise PackageError(
                    f"{package.label} and {owners[path].label} both have {path}, with different contents"
                )
            files[path] = data
            owners.setdefault(path, package)
    for path in files:
        for parent in _parents(path):
            if parent in files:
                raise PackageError(
                    f"{owners[path].label} has {path}, but {parent} is a file in {owners[parent].label}"
                )
    return files


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
