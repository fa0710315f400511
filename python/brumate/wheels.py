"""Reads wheels (PEP 427): which may be used, and whether they are what their RECORD says."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
import stat
import zipfile
import zlib
from types import MappingProxyType

from .errors import PackageError
from .metadata import canonical, parse_metadata
from .packages import Budget, Package, Tree, is_wanted, read_file, refuse_native

__all__ = ["read_wheel"]

_NAME = re.compile(
    r"(?P<name>[^\s-]+)-(?P<version>[^\s-]+)(-(?P<build>\d[^\s-]*))?-(?P<python>[^\s-]+)-(?P<abi>[^\s-]+)-(?P<platform>[^\s-]+)\.whl",
    re.IGNORECASE,
)
_HASHES = {"sha256", "sha384", "sha512"}
_SIGNATURES = ("RECORD", "RECORD.jws", "RECORD.p7s")


def read_wheel(path: str, python: tuple[int, ...], budget: Budget) -> Package:
    label = os.path.basename(path)
    match = _NAME.fullmatch(label)
    if not match:
        raise PackageError(
            f"{label}: not a wheel's name, which is NAME-VERSION-PYTHON-ABI-PLATFORM.whl"
        )
    _check_tags(label, match, python)
    tree = Tree(label, budget)
    with open(path, "rb") as packed:
        budget.check_packed(label, os.fstat(packed.fileno()).st_size)
        try:
            with zipfile.ZipFile(packed) as archive:
                _read_members(archive, tree, os.fstat(packed.fileno()).st_size)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
            RuntimeError,
            ValueError,
        ) as error:
            raise PackageError(f"{label}: not a sound wheel: {error}") from None
    tree.check_kinds()
    info = _info_folder(tree)
    _check_record(tree, info)
    _check_format(tree, info)
    for name in tree.files:
        refuse_native(label, name)
    metadata = parse_metadata(tree.files.get(f"{info}/METADATA", b""))
    if canonical(metadata.name or "") != canonical(match["name"]):
        raise PackageError(f"{label}: its metadata names it {metadata.name}")
    return Package(
        source=path,
        files=MappingProxyType(_installed(tree, info)),
        name=metadata.name,
        version=metadata.version or match["version"],
        requires_python=metadata.requires_python,
        requires=metadata.requires,
    )


def _check_tags(label: str, match: re.Match[str], python: tuple[int, ...]) -> None:
    """Any of the tags that a name stands for will do: each is a set, written with dots between."""
    major, minor = python[:2]
    good = {f"py{major}", f"cp{major}{minor}", *(f"py{major}{older}" for older in range(minor + 1))}
    fits = (
        good.intersection(match["python"].lower().split("."))
        and "none" in match["abi"].lower().split(".")
        and "any" in match["platform"].lower().split(".")
    )
    if not fits:
        raise PackageError(
            f"{label}: this wheel is for another Python: found {match['python']}-{match['abi']}-{match['platform']}; "
            f"accepted: py{major}-none-any, py{major}{minor}-none-any, cp{major}{minor}-none-any"
        )


def _read_members(archive: zipfile.ZipFile, tree: Tree, packed: int) -> None:
    unpacked = 0
    for member in archive.infolist():
        path = tree.check_path(member.orig_filename)
        kind = stat.S_IFMT(member.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise PackageError(
                f"{tree.label}: {path} is {'a link' if kind == stat.S_IFLNK else 'no file'}"
            )
        if member.is_dir():
            continue
        if member.flag_bits & 1:
            raise PackageError(f"{tree.label}: {path} is encrypted")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise PackageError(
                f"{tree.label}: {path} is compressed in a way that wheels do not use"
            )
        tree.expect(path, member.file_size)
        unpacked += member.file_size
        tree.budget.check_ratio(tree.label, packed, unpacked)
        with archive.open(member) as stream:
            tree.add(path, read_file(stream, tree, path))


def _info_folder(tree: Tree) -> str:
    found = {path.partition("/")[0] for path in tree.files if re.match(r"[^/]+\.dist-info/", path)}
    if len(found) != 1:
        raise PackageError(
            f"{tree.label}: a wheel has one .dist-info folder, this has {len(found)}"
        )
    return found.pop()


def _check_record(tree: Tree, info: str) -> None:
    """Every file is listed with its hash and size, and every file listed is there."""
    record = tree.files.get(f"{info}/RECORD")
    if record is None:
        raise PackageError(f"{tree.label}: {info}/RECORD is missing")
    exempt = {f"{info}/{name}" for name in _SIGNATURES}
    left = set(tree.files) - exempt
    try:
        rows = list(csv.reader(record.decode().splitlines()))
    except (UnicodeDecodeError, csv.Error):
        raise PackageError(f"{tree.label}: {info}/RECORD is damaged") from None
    for row in filter(None, rows):
        if len(row) != 3:
            raise PackageError(
                f"{tree.label}: {info}/RECORD has a line that is not path, hash, size"
            )
        path = tree.check_path(row[0])
        if path in exempt:
            continue
        if path not in tree.files:
            raise PackageError(f"{tree.label}: {path} is listed in RECORD but missing")
        if path not in left:
            raise PackageError(f"{tree.label}: {path} is listed in RECORD twice")
        left.discard(path)
        _check_hash(tree, path, row[1], row[2])
    if left:
        raise PackageError(f"{tree.label}: {min(left)} is not listed in RECORD")


def _check_hash(tree: Tree, path: str, digest: str, size: str) -> None:
    algorithm, _, value = digest.partition("=")
    data = tree.files[path]
    if algorithm not in _HASHES:
        raise PackageError(
            f"{tree.label}: {path} has no hash in RECORD that can be relied on (sha256)"
        )
    have = base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest()).rstrip(b"=").decode()
    if have != value.rstrip("="):
        raise PackageError(
            f"{tree.label}: {path} is not the file that RECORD lists: its {algorithm} differs"
        )
    if size and size != str(len(data)):
        raise PackageError(f"{tree.label}: {path} has {len(data)} bytes, RECORD says {size[:20]}")


def _check_format(tree: Tree, info: str) -> None:
    text = tree.files.get(f"{info}/WHEEL")
    if text is None:
        raise PackageError(f"{tree.label}: {info}/WHEEL is missing")
    match = re.search(rb"^Wheel-Version:\s*(\d+)\.", text, re.MULTILINE)
    if not match or match[1] != b"1":
        raise PackageError(f"{tree.label}: not a wheel of version 1")


def _installed(tree: Tree, info: str) -> dict[str, bytes]:
    """What an installer would put into site-packages. Scripts, headers and data go elsewhere: dropped."""
    data = info[: -len("dist-info")] + "data/"
    files: dict[str, bytes] = {}
    for path, contents in tree.files.items():
        if path.startswith(data):
            scheme, _, path = path[len(data) :].partition("/")
            if scheme not in ("purelib", "platlib"):
                continue
        if not path or not is_wanted(path):
            continue
        if path in files:
            raise PackageError(f"{tree.label}: {path} is in it twice")
        files[path] = contents
    return files
