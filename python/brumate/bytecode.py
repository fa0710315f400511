"""Compiles sources to bytecode inside a sandbox, whose Python is the one that will load it."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Mapping
from itertools import repeat

from .errors import BrumateError

__all__ = ["compile_sources"]

MIB = 1 << 20
SITE = "/lib/python{}/site-packages/"
# Sources that are compiled in one sandbox.
PART_BYTES = 4 * MIB
# Bytecode is about as large as its source; more than this is not believed.
OUTPUT_MAX = 16 * PART_BYTES
MEMORY_BYTES = 1024 * MIB
TIMEOUT_MS = 120_000
# A longer name leaves no room for what the bytecode's has besides.
NAME_MAX = 200
# Rarely imported, and often half of a package.
_TESTS = re.compile(r"(^|/)tests?/")

# Reads records of (length of path, length of source, path, source), writes (number, length, bytecode).
# Bytecode is marked as never to be checked against its source: both are read-only.
_GUEST = """
import importlib.util, struct, warnings
from importlib._bootstrap_external import _code_to_hash_pyc

warnings.simplefilter("ignore")
with open("/data/sources", "rb") as sources, open("/data/bytecode", "wb") as output:
    number = 0
    while head := sources.read(8):
        path_len, size = struct.unpack("<II", head)
        path, source = sources.read(path_len).decode(), sources.read(size)
        try:
            code = compile(source, path, "exec", dont_inherit=True)
        except Exception:
            pass  # stays a source: a template, or of another Python
        else:
            data = _code_to_hash_pyc(code, importlib.util.source_hash(source), False)
            output.write(struct.pack("<II", number, len(data)) + data)
        number += 1
"""


def compile_sources(files: Mapping[str, bytes], python: tuple[int, ...]) -> dict[str, bytes]:
    """Bytecode for the sources in `files` (paths below site-packages), by the paths where it belongs.

    What does not compile is left out: it is compiled, or fails, when it is imported."""
    from concurrent.futures import ThreadPoolExecutor

    sources = sorted(path for path in files if path.endswith(".py") and _is_worth_it(path))
    parts = list(_parts(sources, files))
    bytecode: dict[str, bytes] = {}
    with ThreadPoolExecutor(max(1, min(len(parts), os.cpu_count() or 1))) as pool:
        for compiled in pool.map(_compile, parts, repeat(files), repeat(python)):
            bytecode.update(compiled)
    return bytecode


def _is_worth_it(path: str) -> bool:
    return not _TESTS.search(path) and len(path.rpartition("/")[2].encode()) <= NAME_MAX


def _parts(paths: list[str], files: Mapping[str, bytes]) -> Iterator[list[str]]:
    share = min(PART_BYTES, sum(len(files[path]) for path in paths) // (os.cpu_count() or 1) + 1)
    part: list[str] = []
    size = 0
    for path in paths:
        part.append(path)
        size += len(files[path])
        if size >= share:
            yield part
            part, size = [], 0
    if part:
        yield part


def _compile(
    paths: list[str], files: Mapping[str, bytes], python: tuple[int, ...]
) -> dict[str, bytes]:
    from .limits import ResourceLimits
    from .session import Session

    minor = f"{python[0]}.{python[1]}"
    records: list[bytes] = []
    for path in paths:
        name = (SITE.format(minor) + path).encode()
        records.append(struct.pack("<II", len(name), len(files[path])) + name + files[path])
    limits = ResourceLimits(TIMEOUT_MS, max_memory_bytes=MEMORY_BYTES, max_file_bytes=None)
    try:
        with Session(resource_limits=limits) as session:
            session.files.put("/data/sources", b"".join(records))
            session.execute(_GUEST)
            if session.files.stat("/data/bytecode").size > OUTPUT_MAX:
                return {}
            output = session.files.get("/data/bytecode")
    except BrumateError:
        return {}  # one that the compiler has no time or memory for: all stay sources
    tag = f"cpython-{python[0]}{python[1]}"
    return {_cached(paths[number], tag): data for number, data in _records(output, len(paths))}


def _cached(path: str, tag: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}__pycache__/{name[:-3]}.{tag}.pyc"


def _records(output: bytes, count: int) -> Iterator[tuple[int, bytes]]:
    """What the guest wrote, as far as it makes sense."""
    at = 0
    while at + 8 <= len(output):
        number, size = struct.unpack_from("<II", output, at)
        if number >= count or size > len(output) - at - 8:
            return
        yield number, output[at + 8 : at + 8 + size]
        at += 8 + size
