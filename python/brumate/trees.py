"""Reads folders and tarballs, and tells what in them is to be imported."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from types import MappingProxyType

from .errors import PackageError
from .metadata import metadata_in, parse_metadata
from .packages import (
    DEPTH_MAX,
    MIB,
    SKIPPED,
    Budget,
    Package,
    Tree,
    is_wanted,
    read_file,
    refuse_native,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gzip import GzipFile
    from tarfile import TarFile

__all__ = ["read_folder", "read_tarball"]

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
    info = metadata_in(files)
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
