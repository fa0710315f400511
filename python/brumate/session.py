"""Session: a Python that keeps its state between runs."""

from __future__ import annotations

from .drive import CPU_LIMIT, TIMEOUT, finish, settle
from .errors import BrumateError
from .limits import check_number
from .recipe import GRACE, GRACE_TO_LIVE, Recipe, streams_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any, Literal

    from ._native import ExecuteResult
    from .files import Files
    from .limits import ResourceLimits
    from .network import NetConfig
    from .registry import Callbacks
    from .sandbox import Input, Listener
    from .storage import VfsStorage

__all__ = ["Session"]

_ENDED = "the session has ended ({}): call reset() or restore_state() first"

_MS_MAX = (2**63 - 1) // 1_000_000


def _storage_of(vfs: object) -> Any:
    if vfs is None:
        return None
    from .storage import VfsStorage

    if not isinstance(vfs, VfsStorage):
        raise TypeError(f"vfs must be a VfsStorage, not {type(vfs).__name__}")
    return vfs._native


def _mount_path(path: object) -> str:
    if not isinstance(path, str):
        raise TypeError(f"vfs_mount_path must be a string, not {type(path).__name__}")
    if not path.startswith("/") or "\0" in path:
        raise ValueError(f"vfs_mount_path must start with / and hold no NUL, not {path!r}")
    return path


class Session:
    """A Python that keeps variables, modules and files from one `execute` to the next.

    vfs                   a `VfsStorage` to show at `vfs_mount_path`; others may share it
    execution_timeout_ms  wall time of a run, milliseconds; default: that of `resource_limits`
    on_timeout            "end": after a timeout the session takes `reset` or `restore_state` only.
                          "interrupt": it goes on where it was stopped, if Python could be stopped softly
    The others are as for `Sandbox`.

    One run at a time; another thread's meanwhile raises BrumateError.

    Example::

        session = brumate.Session()
        session.execute("x = 42")
        print(session.execute("print(x * 2)").stdout)      # 84
    """

    __slots__ = (
        "__weakref__",
        "_core",
        "_count",
        "_ended",
        "_keeps",
        "_recipe",
        "_streams",
        "_timeout_ms",
        "_vfs",
        "_vfs_mount_path",
    )

    def __init__(
        self,
        *,
        vfs: VfsStorage | None = None,
        vfs_mount_path: str = "/data",
        execution_timeout_ms: int | None = None,
        result_variable: str | None = "result",
        callbacks: Callbacks | None = None,
        network: NetConfig | None = None,
        resource_limits: ResourceLimits | None = None,
        env: Mapping[str, str] | None = None,
        mounts: Mapping[str, Any] | None = None,
        stdin: Input = None,
        on_stdout: Listener = None,
        on_stderr: Listener = None,
        on_timeout: Literal["end", "interrupt"] = "end",
        image: object = None,
    ) -> None:
        if on_timeout not in ("end", "interrupt"):
            raise ValueError(f"on_timeout must be 'end' or 'interrupt', not {on_timeout!r}")
        self._keeps = on_timeout == "interrupt"
        self._vfs = vfs
        self._vfs_mount_path = _mount_path(vfs_mount_path)
        self._recipe = recipe = Recipe(
            image,
            resource_limits,
            network,
            callbacks,
            result_variable,
            env,
            mounts,
            storage=_storage_of(vfs),
            storage_path=self._vfs_mount_path,
            grace=GRACE_TO_LIVE if self._keeps else GRACE,
        )
        self._timeout_ms = recipe.limits.execution_timeout_ms
        if execution_timeout_ms is not None:
            self.execution_timeout_ms = execution_timeout_ms
        self._streams = streams_of(stdin, on_stdout, on_stderr)
        self._count = 0
        self._ended: str | None = None
        self._core = recipe.make()

    # ---- Runs

    def execute(
        self,
        code: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        stdin: Input = None,
        on_stdout: Listener = None,
        on_stderr: Listener = None,
        timeout_ms: float | None = None,
    ) -> ExecuteResult:
        """Runs `code` with what earlier runs have left. Arguments and errors as for `Sandbox.execute`;
        BrumateError if a run is under way, or the session has ended."""
        if self._ended is not None:
            raise BrumateError(self._ended)
        core = self._core
        streams = self._streams
        result = core.execute(
            code,
            inputs,
            streams[0] if stdin is None else stdin,
            streams[1] if on_stdout is None else on_stdout,
            streams[2] if on_stderr is None else on_stderr,
            self._timeout() if timeout_ms is None else timeout_ms,
        )
        if result is None:
            result = finish(core)
        self._count += 1
        return self._settle(result) if result._reason else result

    async def execute_async(
        self,
        code: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        stdin: Input = None,
        on_stdout: Listener = None,
        on_stderr: Listener = None,
        timeout_ms: float | None = None,
    ) -> ExecuteResult:
        """As `execute`, without blocking the event loop; see `Sandbox.execute_async`. If the task is
        cancelled, the session has to be reset."""
        from .asynchronous import execute

        if self._ended is not None:
            raise BrumateError(self._ended)
        streams = self._streams
        try:
            result = await execute(
                self._core,
                code,
                inputs,
                streams[0] if stdin is None else stdin,
                streams[1] if on_stdout is None else on_stdout,
                streams[2] if on_stderr is None else on_stderr,
                self._timeout() if timeout_ms is None else timeout_ms,
            )
        except Exception:
            raise
        except BaseException:  # the task was cancelled, and the guest was cut off wherever it was
            self._ended = _ENDED.format("its run was cancelled")
            raise
        self._count += 1
        return self._settle(result) if result._reason else result

    def _timeout(self) -> float:
        return float("inf") if self._timeout_ms is None else self._timeout_ms

    def _settle(self, result: ExecuteResult) -> ExecuteResult:
        timed_out = result._reason in (TIMEOUT, CPU_LIMIT)
        if not result._alive or (timed_out and not self._keeps):
            self._ended = _ENDED.format(result._reason_text)
        return settle(result)

    def interrupt(self) -> None:
        """Raises KeyboardInterrupt in the guest, if something runs; from any thread. `execute` then
        raises ExecutionError, and the session goes on."""
        self._core.interrupt()
        waker = self._core.waker
        if waker is not None:
            waker()

    # ---- State

    def reset(self) -> None:
        """A fresh Python; files stay. Sets `execution_count` to 0."""
        self._core.reset(False)
        self._ended = None
        self._count = 0

    def clear_state(self) -> None:
        """Drops the variables of earlier runs; modules that were imported stay."""
        if self._ended is not None:
            raise BrumateError(self._ended)
        self._core.clear_state()

    def snapshot_state(self) -> bytes:
        """The session's whole state as bytes: variables, modules, its own files (not those of `vfs`). To be given to
        `restore_state` of this session or another one of the same image, here or in another process."""
        if self._ended is not None:
            raise BrumateError(self._ended)
        return self._core.snapshot()

    def restore_state(self, snapshot: bytes | bytearray | memoryview) -> None:
        """Back to a state that `snapshot_state` gave. Callbacks, limits, mounts and `vfs` are this session's own.

        A snapshot from an untrusted source can do no more than untrusted code could.
        ValueError: it is none, or damaged. BrumateError: it belongs to another image, or needs more than the
        session's limits. If a message says that the session was reset, its state is lost."""
        self._core.restore(snapshot)
        self._ended = None

    @property
    def execution_count(self) -> int:
        """How many runs came to their end, well or not, since the session was made or reset."""
        return self._count

    @property
    def execution_timeout_ms(self) -> int | None:
        """Wall time of a run, milliseconds; None: no limit."""
        return self._timeout_ms

    @execution_timeout_ms.setter
    def execution_timeout_ms(self, value: int | None) -> None:
        if value is not None:
            value = check_number("execution_timeout_ms", value, 1, _MS_MAX)
        self._timeout_ms = value

    # ---- Files

    @property
    def vfs(self) -> VfsStorage | None:
        """The storage that the session was given, or None."""
        return self._vfs

    @property
    def vfs_mount_path(self) -> str | None:
        """Where the storage is shown, or None without one."""
        return None if self._vfs is None else self._vfs_mount_path

    @property
    def files(self) -> Files:
        """The session's files, from outside: `Files`."""
        from .files import Files

        return Files(self._core, "/data")

    # ---- Life

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._core.closed

    def close(self) -> None:
        """Ends the session and frees its memory. BrumateError if a run is under way."""
        self._core.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "ended" if self._ended else f"{self._count} runs"
        return f"<Session {state}>"
