"""Reads Python packages (wheels, tarballs, folders) into memory, checking all that comes in.

Nothing is unpacked onto the disk and nothing of a package is run here. What a package holds becomes a
mapping from the path below site-packages to the file's bytes.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import IO

from .errors import PackageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gzip import GzipFile
    from tarfile import TarFile

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
    found = os.stat(path)  # FileNotFoundError says which
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


# ---- Folders ----


def read_folder(path: str, budget: Budget) -> Package:
    """A folder with packages and modules in it, or that is a package itself, or a project with such."""
    label = os.path.basename(os.path.abspath(path))
    tree = Tree(label, budget)
    for folder, names, files, fd in os.fwalk(path, follow_symlinks=False):
        names[:] = sorted(name for name in names if name not in SKIPPED)
        inside = os.path.relpath(folder, path)
        for name in sorted(files) + [name for name in names if _is_link(name, fd)]:
            _read_one(
                tree, tree.check_path(name if inside == "." else f"{inside}/{name}"), name, fd
            )
    tree.check_kinds()
    return _arranged(tree, path, label)


def _is_link(name: str, fd: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)


def _read_one(tree: Tree, path: str, name: str, fd: int) -> None:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
    except OSError as error:
        if _is_link(name, fd):
            raise PackageError(f"{tree.label}: {path} is a link; put a copy in its place") from None
        raise PackageError(f"{tree.label}: {path} cannot be read: {error.strerror}") from None
    with open(file, "rb", buffering=0) as stream:
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode):
            raise PackageError(f"{tree.label}: {path} is neither a file nor a folder")
        if is_wanted(path):
            tree.expect(path, info.st_size)
            tree.add(path, read_file(stream, tree, path))


# ---- Tarballs ----


def read_tarball(path: str, budget: Budget) -> Package:
    """A compressed tar of packages, or a source distribution."""
    import gzip
    import tarfile
    import zlib

    label = os.path.basename(path)
    tree = Tree(label, budget)
    with open(path, "rb") as packed:
        size = os.fstat(packed.fileno()).st_size
        budget.check_packed(label, size)
        try:
            with gzip.GzipFile(fileobj=packed) as unpacked:
                stream = _Counted(unpacked, tree, size)
                with tarfile.open(fileobj=stream, mode="r|") as tar:  # type: ignore[call-overload]
                    _read_members(tar, tree)
                while stream.read(MIB):  # to its end, where its checksum is
                    pass
        except (
            tarfile.TarError,
            gzip.BadGzipFile,
            zlib.error,
            EOFError,
            ValueError,
            OverflowError,
        ) as error:
            raise PackageError(f"{label}: not a sound .tar.gz: {error}") from None
    tree.check_kinds()
    stem = re.sub(r"\.(tar\.gz|tgz)$", "", label, flags=re.IGNORECASE)
    return _arranged(tree, path, stem)


def _read_members(tar: TarFile, tree: Tree) -> None:
    while (member := tar.next()) is not None:
        tar.members.clear()  # type: ignore[attr-defined]  # it would keep all of them
        path = tree.check_path(member.name)
        if member.isdir():
            continue
        if not member.isreg() or member.issparse():
            what = "a link" if member.issym() or member.islnk() else "neither a file nor a folder"
            raise PackageError(f"{tree.label}: {path} is {what}")
        tree.expect(path, member.size)
        contents = tar.extractfile(member)
        assert contents is not None
        data = contents.read()  # at most member.size, which was checked
        if is_wanted(path):
            tree.add(path, data)
        else:
            tree.files[path] = b""  # so that a second one is noticed


class _Counted:
    """A stream that counts what is read from it, headers included, against the budget."""

    def __init__(self, stream: GzipFile, tree: Tree, packed: int) -> None:
        self.stream = stream
        self.tree = tree
        self.packed = packed
        self.unpacked = 0

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        self.unpacked += len(data)
        self.tree.budget.add_bytes(self.tree.label, len(data))
        self.tree.budget.check_ratio(self.tree.label, self.packed, self.unpacked)
        return data


# ---- What of a tree is to be imported ----

PROJECT_MARKS = ("PKG-INFO", "pyproject.toml", "setup.py", "setup.cfg")
# In a project's own folder, beside what is to be installed.
PROJECT_TOOLS = frozenset({
    "setup", "conftest", "noxfile", "tasks", "fabfile", "tests", "test", "testing", "docs", "doc", "examples",
    "example", "benchmarks", "bench", "tools", "scripts", "build", "dist", "ci", "requirements", "bin", "utils",
})  # fmt: skip


def _arranged(tree: Tree, source: str, stem: str) -> Package:
    files = {path: data for path, data in tree.files.items() if is_wanted(path)}
    name, version = _name_of(stem)
    if "__init__.py" in files:
        if not stem.isidentifier():
            raise PackageError(
                f"{tree.label}: it is a package itself, but its name cannot be imported"
            )
        files = {f"{stem}/{path}": data for path, data in files.items()}
        name, version = stem, None
    else:
        files = _without_wrapper(files)
        if any(mark in files for mark in PROJECT_MARKS):
            files = _of_project(files, name, version)
    for path in files:
        refuse_native(tree.label, path)
    info = _metadata(files)
    package = Package(
        source=source,
        files=MappingProxyType(files),
        name=info.name or name,
        version=info.version or version,
        requires_python=info.requires_python,
        requires=info.requires,
    )
    if not package.modules:
        raise PackageError(f"{tree.label}: there is nothing in it that can be imported")
    return package


def _name_of(stem: str) -> tuple[str | None, str | None]:
    """ "markupsafe-2.1.3-wasi" is version 2.1.3 of markupsafe."""
    match = re.fullmatch(r"(.+?)-(\d[^-]*)(-.*)?", stem)
    return (match[1], match[2]) if match else (stem or None, None)


def _below(files: Mapping[str, bytes], folder: str) -> dict[str, bytes]:
    if not folder:
        return dict(files)
    return {
        path[len(folder) + 1 :]: data
        for path, data in files.items()
        if path.startswith(folder + "/")
    }


def _without_wrapper(files: dict[str, bytes]) -> dict[str, bytes]:
    """A single folder at the top that is none that could be imported is stepped into."""
    for _ in range(DEPTH_MAX):
        tops = {path.partition("/")[0] for path in files}
        top = next(iter(tops), "")
        if len(tops) != 1 or top in files or f"{top}/__init__.py" in files:
            break
        inside = _below(files, top)
        if (
            top.isidentifier()
            and top not in ("src", "lib")
            and not any(mark in inside for mark in PROJECT_MARKS)
        ):
            break
        files = inside
    return files


def _of_project(files: dict[str, bytes], name: str | None, version: str | None) -> dict[str, bytes]:
    """What installing a source distribution would put in place, as far as that can be told by looking."""
    tops = sorted(path for path in files if path.endswith(".egg-info/top_level.txt"))
    wanted: set[str] | None = None
    if tops:  # setuptools says what it is
        root = tops[0].rpartition("/")[0].rpartition("/")[0]
        wanted = set(files[tops[0]].decode("utf-8", "replace").split())
    else:
        root = next((folder for folder in ("src", "lib") if _modules_at(files, folder)), "")
    found = {}
    for path, data in _below(files, root).items():
        top = path.partition("/")[0]
        module = (
            top[:-3] if "/" not in path and top.endswith(".py") else top if "/" in path else None
        )
        if module is None or not module.isidentifier():
            continue
        if wanted is not None:
            take = module in wanted
        else:
            take = bool(root) or (module not in PROJECT_TOOLS and module in _modules_at(files, ""))
        if take:
            found[path] = data
    if "PKG-INFO" in files:
        info = parse_metadata(files["PKG-INFO"])
        folder = f"{re.sub(r'[^A-Za-z0-9.]+', '_', info.name or name or 'unknown')}-{info.version or version or '0'}"
        found[f"{folder}.dist-info/METADATA"] = files["PKG-INFO"]
    return found


def _modules_at(files: Mapping[str, bytes], folder: str) -> set[str]:
    inside = _below(files, folder)
    modules = {path[:-3] for path in inside if "/" not in path and path.endswith(".py")}
    packages = {
        path[: -len("/__init__.py")]
        for path in inside
        if path.count("/") == 1 and path.endswith("/__init__.py")
    }
    return {
        name for name in modules | packages if name.isidentifier() and name not in PROJECT_TOOLS
    }


# ---- Metadata ----


@dataclass(frozen=True)
class Metadata:
    name: str | None = None
    version: str | None = None
    requires_python: str | None = None
    requires: tuple[str, ...] = field(default=())


def _metadata(files: Mapping[str, bytes]) -> Metadata:
    found = [path for path in files if re.fullmatch(r"[^/]+\.dist-info/METADATA", path)]
    return parse_metadata(files[found[0]]) if len(found) == 1 else Metadata()


def parse_metadata(data: bytes) -> Metadata:
    from email.parser import HeaderParser

    fields = HeaderParser().parsestr(data[:MIB].decode("utf-8", "replace"))
    return Metadata(
        name=_plain(fields.get("Name")),
        version=_plain(fields.get("Version")),
        requires_python=_plain(fields.get("Requires-Python")),
        requires=tuple(filter(None, map(_plain, fields.get_all("Requires-Dist", [])))),
    )


def _plain(value: object) -> str | None:
    return re.sub(r"[^\x20-\x7e]", "?", str(value).strip())[:300] if value is not None else None


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def check_python(package: Package, python: tuple[int, ...]) -> None:
    """PackageError if the package's Requires-Python excludes `python`."""
    wanted = package.requires_python
    if wanted and not all(
        _allows(clause.strip(), python) for clause in wanted.split(",") if clause.strip()
    ):
        have = ".".join(map(str, python))
        raise PackageError(f"{package.label}: it requires Python {wanted}, the sandbox has {have}")


def _allows(clause: str, python: tuple[int, ...]) -> bool:
    """One clause of a version specifier; one that says nothing we know excludes nothing."""
    match = re.fullmatch(r"(~=|===?|!=|<=|>=|<|>)\s*v?(\d+(?:\.\d+)*)(\.\*)?([^*]*)", clause)
    if not match:
        return True
    operator, number, wildcard, _ = match.groups()
    version = tuple(map(int, number.split(".")))
    length = max(len(version), len(python))
    have = python + (0,) * (length - len(python))
    want = version + (0,) * (length - len(version))
    starts = have[: len(version)] == version
    equal = starts if wildcard else have == want
    if operator == "~=":
        return have >= want and have[: len(version) - 1] == version[:-1]
    return {
        "==": equal,
        "===": equal,
        "!=": not equal,
        "<=": have <= want or (wildcard is not None and starts),
        ">=": have >= want,
        "<": have < want,
        ">": have > want and not (wildcard and starts),
    }[operator]


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
