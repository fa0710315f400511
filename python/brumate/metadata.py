"""What a package says of itself, and whether it is for this Python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Metadata", "allows", "canonical", "metadata_in", "parse_metadata"]

# Of METADATA, which may have a whole manual below its fields.
READ_MAX = 1 << 20


@dataclass(frozen=True)
class Metadata:
    name: str | None = None
    version: str | None = None
    requires_python: str | None = None
    requires: tuple[str, ...] = field(default=())


def metadata_in(files: Mapping[str, bytes]) -> Metadata:
    found = [path for path in files if re.fullmatch(r"[^/]+\.dist-info/METADATA", path)]
    return parse_metadata(files[found[0]]) if len(found) == 1 else Metadata()


def parse_metadata(data: bytes) -> Metadata:
    from email.parser import HeaderParser

    fields = HeaderParser().parsestr(data[:READ_MAX].decode("utf-8", "replace"))
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


def allows(specifier: str, python: tuple[int, ...]) -> bool:
    """Whether a version specifier (">=3.8, !=3.9.*") has `python` in it."""
    clauses = (clause.strip() for clause in specifier.split(","))
    return all(_allows(clause, python) for clause in clauses if clause)


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
