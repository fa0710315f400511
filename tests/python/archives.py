"""Wheels and tarballs made on the fly, sound ones and others."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

Members = Mapping[str, str | bytes]


def as_bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def record_line(path: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}"


def wheel(
    folder: Path,
    files: Members,
    *,
    name: str = "pkg",
    version: str = "1.0",
    tags: str = "py3-none-any",
    metadata: str = "",
    drop: Iterable[str] = (),
    record: Callable[[str], str] = str,
    change: Callable[[zipfile.ZipFile], object] = lambda archive: None,
) -> Path:
    """A wheel of `files`. `drop` leaves members out that RECORD lists, `record` changes RECORD's text,
    `change` adds to the archive what RECORD does not list."""
    info = f"{name}-{version}.dist-info"
    members = {path: as_bytes(data) for path, data in files.items()}
    members[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}".encode()
    )
    members[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tags}\n".encode()
    lines = [record_line(path, data) for path, data in members.items()] + [f"{info}/RECORD,,"]
    path = folder / f"{name}-{version}-{tags}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            if member not in drop:
                archive.writestr(member, data)
        if f"{info}/RECORD" not in drop:
            archive.writestr(f"{info}/RECORD", record("\n".join(lines) + "\n"))
        change(archive)
    return path


def tarball(
    folder: Path,
    files: Members,
    *,
    name: str = "pkg-1.0.tar.gz",
    change: Callable[[tarfile.TarFile], object] = lambda tar: None,
) -> Path:
    path = folder / name
    with tarfile.open(path, "w:gz") as tar:
        for member, data in files.items():
            add(tar, member, as_bytes(data))
        change(tar)
    return path


def add(tar: tarfile.TarFile, path: str, data: bytes = b"", **fields: object) -> None:
    info = tarfile.TarInfo(path)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    tar.addfile(info, io.BytesIO(data))


def tree(folder: Path, files: Members) -> Path:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(as_bytes(data))
    return folder
