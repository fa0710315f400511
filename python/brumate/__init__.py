"""Untrusted Python in a sandbox that starts in microseconds.

    import brumate

    result = brumate.Sandbox().execute("print('hi'); result = 6 * 7")
    result.stdout, result.result            # ('hi\\n', 42)

`Sandbox` runs each piece of code in a fresh Python, `Session` keeps its state, `SandboxFactory` freezes
packages into the start, `Pool` runs many at a time.
"""

from __future__ import annotations

from ._native import version as __version__
from .errors import (
    BrumateError,
    EryxError,
    ExecutionError,
    InitializationError,
    PackageError,
    ResourceLimitError,
    TimeoutError,
)
from .limits import ResourceLimits
from .registry import CallbackRegistry
from .result import Artifact, ExecuteResult
from .sandbox import Sandbox
from .session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .deterministic import Deterministic
    from .factory import SandboxFactory
    from .files import FileInfo
    from .network import NetConfig
    from .pool import Pool
    from .snapshot import Checkpoint, PendingCall, Progress, Snapshot, SnapshotInfo, resume
    from .storage import VfsStorage
    from .store import Store, StoredSession

__all__ = [
    "Artifact",
    "BrumateError",
    "CallbackRegistry",
    "Checkpoint",
    "Deterministic",
    "EryxError",
    "ExecuteResult",
    "ExecutionError",
    "FileInfo",
    "InitializationError",
    "NetConfig",
    "PackageError",
    "PendingCall",
    "Pool",
    "Progress",
    "ResourceLimitError",
    "ResourceLimits",
    "Sandbox",
    "SandboxFactory",
    "Session",
    "Snapshot",
    "SnapshotInfo",
    "Store",
    "StoredSession",
    "TimeoutError",
    "VfsStorage",
    "__version__",
    "resume",
]

# Looked up when they are first used, to keep the import short.
_LATER = {
    "Checkpoint": "snapshot",
    "Deterministic": "deterministic",
    "FileInfo": "files",
    "NetConfig": "network",
    "PendingCall": "snapshot",
    "Pool": "pool",
    "Progress": "snapshot",
    "SandboxFactory": "factory",
    "Snapshot": "snapshot",
    "SnapshotInfo": "snapshot",
    "Store": "store",
    "StoredSession": "store",
    "VfsStorage": "storage",
    "resume": "snapshot",
}


def __getattr__(name: str) -> object:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'brumate' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f".{module}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
