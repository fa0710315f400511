"""Session: a Python that keeps its state between runs."""

from __future__ import annotations

from .drive import CPU_LIMIT, DONE, TIMEOUT, finish, settle
from .errors import BrumateError
from .limits import check_number
from .recipe import GRACE_TO_LIVE, Recipe, streams_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any, Literal, TypedDict, overload

    from ._native import ExecuteResult, Session as Core
    from .deterministic import Deterministic
    from .files import Files
    from .limits import ResourceLimits
    from .network import NetConfig
    from .registry import Callbacks
    from .sandbox import Input, Listener
    from .snapshot import Checkpoint, Snapshot, Trial
    from .steps import Held, PendingCall, Progress
    from .storage import VfsStorage

    class Options(TypedDict, total=False):
        """What a Session is made with."""

        vfs: VfsStorage | None
        vfs_mount_path: str
        execution_timeout_ms: int | None
        result_variable: str | None
        callbacks: Callbacks | None
        network: NetConfig | None
        resource_limits: ResourceLimits | None
        env: Mapping[str, str] | None
        mounts: Mapping[str, Any] | None
        stdin: Input
        on_stdout: Listener
        on_stderr: Listener
        on_timeout: Literal["end", "interrupt"]
        image: object
        deterministic: Deterministic | int | bytes | None

else:

    def overload(function: object) -> object:
        return function


__all__ = ["Session"]

_ENDED = "the session has ended ({}): call reset() or restore_state() first"

_BUSY = "the session is busy: one run at a time, and none from inside a callback"

_MS_MAX = (2**63 - 1) // 1_000_000
_TWINS_MAX = 10_000  # made by one call


def _check_timeout(value: object) -> int:
    return check_number("execution_timeout_ms", value, 1, _MS_MAX)


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

    The value of an expression at the end of the code is not shown, as it is not in a script: print it, or set `result`.
    ``ExecuteResult.result`` tells that of the current run: None if its code neither sets nor names the variable.

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
        "_held",
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
        deterministic: Deterministic | int | bytes | None = None,
    ) -> None:
        if on_timeout not in ("end", "interrupt"):
            raise ValueError(f"on_timeout must be 'end' or 'interrupt', not {on_timeout!r}")
        self._keeps = on_timeout == "interrupt"
        self._vfs = vfs
        self._vfs_mount_path = _mount_path(vfs_mount_path)
        if execution_timeout_ms is not None:
            execution_timeout_ms = _check_timeout(execution_timeout_ms)
        self._recipe = recipe = Recipe(
            image,
            resource_limits,
            network,
            callbacks,
            result_variable,
            env,
            mounts,
            timeout_ms=execution_timeout_ms,
            storage=_storage_of(vfs),
            storage_path=self._vfs_mount_path,
            grace=GRACE_TO_LIVE if self._keeps else 0,
            deterministic=deterministic,
        )
        self._timeout_ms = (
            recipe.limits.execution_timeout_ms
            if execution_timeout_ms is None
            else execution_timeout_ms
        )
        self._streams = streams_of(stdin, on_stdout, on_stderr)
        self._count = 0
        self._ended: str | None = None
        self._held: Held | None = None  # calls of a stepwise run that wait for reply()
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
        cancelled (by ``asyncio.wait_for``, say), the session has to be reset; `timeout_ms` with
        ``on_timeout="interrupt"``, or `interrupt`, stop a run and keep it."""
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

    # ---- Runs step by step

    def start(
        self,
        code: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        stdin: Input = None,
        on_stdout: Listener = None,
        on_stderr: Listener = None,
        timeout_ms: float | None = None,
    ) -> Progress:
        """Runs `code` to its end, or to where it can only wait: for calls of host functions that have no
        implementation here (`fn` None, or not declared), or for a timer. Those that have one are performed meanwhile.
        The session can then be suspended or forked; `reply`, `progress`, `finish` go on, `reset` gives up.

        Time in which the run is left waiting does not count against its limit, in memory or asleep.
        Arguments and errors as for `execute`.

        Example::

            session = brumate.Session(callbacks={"ask": None})
            progress = session.start("answer = await ask('May I?')")
            call = progress.pending[0]                          # call.name, call.args
            progress = session.reply({call.id: "yes"})          # progress.done, progress.result
        """
        if self._ended is not None:
            raise BrumateError(self._ended)
        streams = self._streams
        self._core.start_steps(
            code,
            inputs,
            streams[0] if stdin is None else stdin,
            streams[1] if on_stdout is None else on_stdout,
            streams[2] if on_stderr is None else on_stderr,
            self._timeout() if timeout_ms is None else timeout_ms,
        )
        self._held = None
        return self._go_on(False)

    def progress(self) -> Progress:
        """Goes on with a run that waits, as far as that is possible without a reply. Errors as for `execute`;
        BrumateError if none waits."""
        return self._go_on(False)

    def reply(self, replies: Mapping[int, Any]) -> Progress:
        """Answers pending calls, {id: value or exception}, and goes on. An exception is raised in the guest, as from
        a host function; so is the TypeError of a value that cannot cross.

        ValueError: one of the ids is not pending; nothing was answered then. Others as for `progress`."""
        self._answer(replies)
        return self._go_on(False)

    def finish(self) -> ExecuteResult:
        """Goes on with a run that waits, through its timers, to its end. Errors as for `execute`; BrumateError if it
        waits for replies: it stays where it is."""
        progress = self._go_on(True)
        if progress.result is None:
            raise self._unanswered(progress.pending)
        return progress.result

    async def finish_async(self) -> ExecuteResult:
        """As `finish`, without blocking the event loop, on which asynchronous functions run. If the task is cancelled,
        the session has to be reset."""
        from .asynchronous import go_on

        held = self._calls()
        try:
            result = await go_on(self._core, held.note)
        except Exception:
            raise
        except BaseException:
            self._ended = _ENDED.format("its run was cancelled")
            raise
        if result is None:
            raise self._unanswered(list(held.values()))
        return self._over(result)

    def _calls(self) -> Held:
        if self._held is None:
            from .steps import Held

            self._held = Held()
        return self._held

    def _go_on(self, through: bool) -> Progress:
        from .steps import Progress, go_on, progress_of

        held = self._calls()
        event = go_on(self._core, held, through)
        return Progress(self._over(event[2])) if event[0] == DONE else progress_of(event, held)

    def _answer(self, replies: Mapping[int, Any]) -> None:
        core = self._core
        held = self._calls()
        if not hasattr(replies, "items"):
            raise TypeError(f"replies must be a dict, not {type(replies).__name__}")
        given = dict(replies)
        unknown = [id for id in given if id not in held]
        if unknown and core.waiting:
            raise ValueError(f"no call {unknown[0]!r} is pending, only {sorted(held)}")
        ticket = core.begin_drive()
        try:
            for id, value in given.items():
                answer = core.fail if isinstance(value, BaseException) else core.reply
                answer(ticket, id, value)
                held.pop(id, None)
        finally:
            core.end_drive()

    @staticmethod
    def _unanswered(pending: list[PendingCall]) -> BrumateError:
        calls = ", ".join(f"{call.name}() (call {call.id})" for call in pending[:5])
        return BrumateError(f"the run waits for replies, to be given by reply(): {calls}")

    def _over(self, result: ExecuteResult) -> ExecuteResult:
        self._held = None
        self._count += 1
        return self._settle(result) if result._reason else result

    def interrupt(self) -> None:
        """Raises KeyboardInterrupt in the guest, if something runs; from any thread. `execute` then
        raises ExecutionError, and the session goes on."""
        self._core.interrupt()
        waker = self._core.waker
        if waker is not None:
            waker()

    # ---- State

    def reset(self) -> None:
        """A fresh Python; files stay. Sets `execution_count` to 0. A run that waits (`start`) is given up."""
        self._core.reset(False)
        self._held = None
        self._ended = None
        self._count = 0

    def clear_state(self) -> None:
        """Drops the variables of earlier runs; modules that were imported stay."""
        if self._ended is not None:
            raise BrumateError(self._ended)
        self._core.clear_state()

    def suspend(
        self, *, close: bool = False, key: bytes | None = None, base: Snapshot | None = None
    ) -> Snapshot:
        """The session's state as a `Snapshot`, taken between two runs, or while a run waits in an `await`: for calls
        of host functions, or for a timer. The session goes on as before.

        close  end the session
        key    sign the snapshot (HMAC) with these bytes, at least 16: then only who has them can make one that
               `Snapshot.load`, given the same, takes
        base   an earlier snapshot of this session, or one that it woke from: only what changed since is taken, which
               is smaller, and has to be joined (`Snapshot.join`) before it wakes

        Also from another task of the event loop, while `execute_async` waits: its open calls are in the snapshot. With
        `close`, that raises BrumateError there.

        BrumateError: the session has ended, or is not at rest: its code is running, or waits in the middle of a
        call (`time.sleep`, `input`, `asyncio.run`).

        Example::

            session = brumate.Session(callbacks={"ask": None})
            session.start("x = await ask('?')")
            session.suspend(close=True).save("asleep.bru")
        """
        from .snapshot import Snapshot

        if self._ended is not None:
            raise BrumateError(self._ended)
        if base is not None and not isinstance(base, Snapshot):
            raise TypeError(f"base must be a Snapshot, not {type(base).__name__}")
        snapshot = Snapshot._of(self._core.suspend(key, None if base is None else base._data))
        if close:
            if self._core.on_ready is not None:
                from .asynchronous import take_away

                take_away(self._core)
            self.close()
        return snapshot

    @overload
    def fork(self) -> Session: ...

    @overload
    def fork(self, n: int) -> list[Session]: ...

    def fork(self, n: int | None = None) -> Session | list[Session]:
        """A twin of this session, or a list of `n`: same state, callbacks, limits, mounts, `vfs`; each goes its own way.
        When as for `suspend`. Where a run waits, each twin goes on by `progress`, `reply`, `finish` or
        `finish_async`; open calls of functions that have an implementation are performed for each.

        Example::

            session.execute("import random; x = [1, 2, 3]")
            for twin in session.fork(3):
                twin.execute("random.shuffle(x); print(x)")
        """
        if n is None:
            return self._twin(self._twin_core())
        n = check_number("n", n, 0, _TWINS_MAX)
        return [self._twin(self._twin_core()) for _ in range(n)]

    def _twin_core(self) -> Core:
        if self._ended is not None:
            raise BrumateError(self._ended)
        return self._core.fork(*self._streams)

    def _twin(self, core: Core) -> Session:
        twin: Session = object.__new__(type(self))
        for name in ("_count", "_ended", "_keeps", "_recipe", "_streams", "_timeout_ms", "_vfs"):
            setattr(twin, name, getattr(self, name))
        twin._vfs_mount_path = self._vfs_mount_path
        twin._held = self._copy_calls()
        twin._core = core
        return twin

    def _move(self) -> Session:
        """This session as another object; this one is closed."""
        return self._twin(self._core.move())

    def _copy_calls(self) -> Held | None:
        return None if self._held is None else type(self._held)(self._held)

    def checkpoint(self) -> Checkpoint:
        """A state to go `rollback` to, in memory: an undo. When as for `suspend`.

        It is a twin kept aside: quick, and it holds the memory that the session had written by
        then (`close` frees it, so does dropping it). To keep many for long, `suspend` takes less memory and more
        time. What is in `vfs` and mounts is not part of it.

        Example::

            before = session.checkpoint()
            session.execute("del data[:]")
            session.rollback(before)
        """
        from .snapshot import Checkpoint
        from .steps import Held

        return Checkpoint(self, self._twin_core(), self._count, self._copy_calls() or Held())

    def rollback(self, checkpoint: Checkpoint) -> None:
        """Back to where `checkpoint` was made; as often as you like. Also after the session has ended; a run that waits
        is given up. BrumateError if a run is under way; ValueError: another session's checkpoint, or closed."""
        if not hasattr(checkpoint, "_owner"):
            raise TypeError(f"checkpoint must be a Checkpoint, not {type(checkpoint).__name__}")
        if checkpoint._owner is not self:
            what = "closed" if checkpoint.closed else "another session's"
            raise ValueError(f"the checkpoint is {what}")
        self._go_back(checkpoint, checkpoint._core.fork(*self._streams))

    def _go_back(self, checkpoint: Checkpoint, core: Core) -> None:
        self._core.adopt(core)
        self._ended = None
        self._count = checkpoint._count
        self._held = type(checkpoint._held)(checkpoint._held)

    def trial(self) -> Trial:
        """``with session.trial():`` takes what runs in it back if an exception leaves it, which goes on;
        else it stays. Trials may be nested.

        Example::

            try:
                with session.trial():
                    session.execute("risky()")
            except brumate.ExecutionError:
                pass                                # the session is as before
        """
        from .snapshot import Trial

        return Trial(self)

    def snapshot_state(self) -> bytes:
        """The session's whole state as bytes: variables, modules, its own files (not those of `vfs`). To be given to
        `restore_state` of this session or another one of the same image, here or in another process.
        As ``suspend().to_bytes()``."""
        return self.suspend().to_bytes()

    def restore_state(self, snapshot: Snapshot | bytes | bytearray | memoryview) -> None:
        """Back to a state that `snapshot_state` or `suspend` gave. Callbacks, limits, mounts and `vfs` are this session's
        own. A run that waits here is given up; one that waited there goes on by `progress`, `reply` or `finish`.

        A snapshot from an untrusted source can do no more than untrusted code could.
        ValueError: it is none, or damaged. BrumateError: it belongs to another image, or needs more than the
        session's limits. If a message says that the session was reset, its state is lost."""
        from .snapshot import Snapshot, held_of

        if self._core.busy and not self._core.waiting:
            raise BrumateError(_BUSY)
        if not isinstance(snapshot, Snapshot):
            snapshot = Snapshot.from_bytes(snapshot)
        snapshot._check_whole()
        self._core.restore(snapshot._data, *self._streams)
        self._ended = None
        self._held = held_of(snapshot) if snapshot.waiting else None

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
            value = _check_timeout(value)
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
        """The session's files, from outside; ``help(session.files)`` says what can be done with them."""
        from .files import Files

        return Files(self._core, "/data")

    # ---- Life

    @property
    def ended(self) -> bool:
        """Whether a limit, a crash or a cancelled task ended it: it then only takes `reset` and
        `restore_state`.

        Example::

            if session.ended:
                session.reset()
        """
        return self._ended is not None

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._core.closed

    def close(self) -> None:
        """Ends the session and frees its memory; a run that waits (`start`) is given up. BrumateError if one is
        under way."""
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
