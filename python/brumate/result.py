"""What a run leaves behind."""

from __future__ import annotations

from ._native import ExecuteResult

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
