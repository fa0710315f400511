"""What a run leaves behind."""

from __future__ import annotations

import copyreg

from ._native import ExecuteResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Artifact", "ExecuteResult"]


class Artifact:
    """Something that guest code handed out with ``brumate.show()``.

    mime_type  "image/png", "text/html", ...: as the guest says, which proves nothing
    data       its bytes

    Example::

        for artifact in result.artifacts:
            if artifact.mime_type == "image/png":
                Path("plot.png").write_bytes(artifact.data)
    """

    __slots__ = ("data", "mime_type")

    mime_type: str
    data: bytes

    def __init__(self, mime_type: str, data: bytes) -> None:
        self.mime_type = mime_type
        self.data = data

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Artifact):
            return NotImplemented
        return self.mime_type == other.mime_type and self.data == other.data

    def __hash__(self) -> int:
        return hash((self.mime_type, self.data))

    def __repr__(self) -> str:
        return f"Artifact({self.mime_type!r}, {len(self.data)} bytes)"


_FIELDS = [
    name
    for name, value in vars(ExecuteResult).items()
    if type(value).__name__ == "getset_descriptor"
]


class _Copy:
    """A result that came by pickle: the same fields, and an ExecuteResult to isinstance()."""

    __slots__ = ("__weakref__", "_fields")

    def __init__(self, fields: dict[str, Any]) -> None:
        object.__setattr__(self, "_fields", fields)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ExecuteResult

    def __getattr__(self, name: str) -> Any:
        if name in _FIELDS:
            return self._fields[name]
        raise AttributeError(f"'ExecuteResult' object has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a result cannot be changed")

    def __str__(self) -> str:
        return str(self.stdout)

    def __repr__(self) -> str:
        return f"<ExecuteResult exit_code={self.exit_code} stdout={self.stdout[:60]!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _Copy, (self._fields,)


def _reduce(result: ExecuteResult) -> tuple[Any, ...]:
    return _Copy, ({name: getattr(result, name) for name in _FIELDS},)


copyreg.pickle(ExecuteResult, _reduce)
