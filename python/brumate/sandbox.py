"""Sandbox: each piece of code in a fresh Python."""

from __future__ import annotations

from .drive import finish, settle
from .errors import BrumateError
from .recipe import Recipe, streams_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Any

    from ._native import ExecuteResult, Session as Core
    from .deterministic import Deterministic
    from .limits import ResourceLimits
    from .network import NetConfig
    from .registry import Callbacks

    Input = str | bytes | Callable[[], str | bytes | None] | None
    Listener = Callable[[str], object] | None

__all__ = ["Sandbox"]

_IDLE_MAX = 8  # sessions kept for the next run, each for one run at a time


class Sandbox:
    """Runs untrusted Python code, each piece in a fresh Python with files of its own.

    resource_limits  `ResourceLimits`: time, memory, output, calls
    network          `NetConfig`; without one there is no network
    callbacks        host functions that guest code may call as ``await name(...)``, at top level too: a
                     `CallbackRegistry`, a list of dicts {"name", "fn", "description"?, "schema"?}, or a dict
                     {name: function}. Without ``await`` nothing is called, as with any coroutine
    result_variable  the variable whose value becomes ``ExecuteResult.result``, by way of JSON; None: none
    env              environment variables; nothing of the host's environment is shown
    mounts           {path in the guest: host path, or (host path, "ro" or "rw")}
    stdin            standard input: text, bytes, or a function that gives some at each call and "" at the end.
                     ``input()`` asks it until a line is whole: end each with a newline, as in
                     ``stdin=lambda: ask() + "\\n"``. A prompt has gone to `on_stdout` by then
    on_stdout, on_stderr  functions called with text as it comes; the result has all of it too.
                     They may be called on another thread, with the caller's context variables. What they (or
                     `stdin`) raise comes out of `execute`
    image            a `SandboxFactory`, or the path of an image; default: the package's own
    deterministic    a seed (an int, or at most 32 bytes) or `Deterministic`: each run meets the same time and chance,
                     so that the same code gives the same again

    Code starts in the folder /data, which is empty and may be written to, as may /tmp. There, ``import brumate`` is
    another module: its ``show()`` hands out an `Artifact`.

    Any number of threads may use one sandbox at a time. Raises InitializationError if the image cannot be used,
    ValueError or TypeError that names a wrong argument.

    Example::

        sandbox = brumate.Sandbox(resource_limits=brumate.ResourceLimits(execution_timeout_ms=5000))
        print(sandbox.execute("print('hi')").stdout)
    """

    __slots__ = ("__weakref__", "_closed", "_idle", "_recipe", "_streams")

    def __init__(
        self,
        *,
        resource_limits: ResourceLimits | None = None,
        network: NetConfig | None = None,
        callbacks: Callbacks | None = None,
        result_variable: str | None = "result",
        env: Mapping[str, str] | None = None,
        mounts: Mapping[str, Any] | None = None,
        stdin: Input = None,
        on_stdout: Listener = None,
        on_stderr: Listener = None,
        image: object = None,
        deterministic: Deterministic | int | bytes | None = None,
    ) -> None:
        self._recipe = Recipe(
            image, resource_limits, network, callbacks, result_variable, env, mounts,
            deterministic=deterministic,
        )
        self._streams = streams_of(stdin, on_stdout, on_stderr)
        self._idle: list[Core] = []
        self._closed = False
        self._give_back(self._take())  # a recipe that cannot be made is told now

    def _take(self) -> Core:
        if self._closed:
            raise BrumateError("the sandbox is closed: make another")
        try:
            return self._idle.pop()
        except IndexError:
            core = self._recipe.make()
            core.resets = True  # nothing of a run outlives it
            return core

    def _give_back(self, core: Core) -> None:
        """Keeps a session that is as new."""
        if not self._closed and len(self._idle) < _IDLE_MAX:
            self._idle.append(core)

    def _reuse(self, core: Core) -> None:
        """Keeps a session behind its run, unless that is still under way."""
        if core.busy:
            return
        if not core.fresh:  # the run did not come to its own end
            try:
                core.reset(True)
            except BrumateError:
                return  # no memory for it: the next run makes another
        self._give_back(core)

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
        """Runs `code` in a fresh Python, to its end.

        inputs      variables to set first: {name: value}
        timeout_ms  wall time for this run, milliseconds; default: the sandbox's
        The others are used instead of the sandbox's own.

        ExecutionError      the code raised, exited with a code other than 0, or crashed
        TimeoutError        it reached a time limit
        ResourceLimitError  it reached another limit
        Each has what was printed by then in ``.stdout`` and ``.stderr``, the rest in ``.result``, and where the
        code was in ``.traceback``. A traceback is printed to stderr too, as ever in Python: who shows both
        shows it twice.
        """
        streams = self._streams
        core = self._take()
        try:
            result = core.execute(
                code,
                inputs,
                streams[0] if stdin is None else stdin,
                streams[1] if on_stdout is None else on_stdout,
                streams[2] if on_stderr is None else on_stderr,
                timeout_ms,
            )
            if result is None:
                result = finish(core)
        finally:
            self._reuse(core)
        return settle(result) if result._reason else result

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
        """As `execute`, without blocking the event loop. Asynchronous callbacks run on the caller's loop,
        others on threads. Cancelling the task stops the guest. `stdin` and listeners are not asynchronous.

        Example::

            results = await asyncio.gather(*(sandbox.execute_async(code) for code in codes))
        """
        from .asynchronous import execute

        streams = self._streams
        core = self._take()
        try:
            result = await execute(
                core,
                code,
                inputs,
                streams[0] if stdin is None else stdin,
                streams[1] if on_stdout is None else on_stdout,
                streams[2] if on_stderr is None else on_stderr,
                timeout_ms,
            )
        finally:
            self._reuse(core)
        return settle(result) if result._reason else result

    def close(self) -> None:
        """Frees what is kept for further runs; those under way go on to their end."""
        self._closed = True
        self._idle.clear()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Sandbox {'closed' if self._closed else self._recipe.limits}>"
