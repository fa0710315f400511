"""The exceptions of this package. Each carries what a run had printed and computed before it failed."""

from __future__ import annotations

import builtins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .result import ExecuteResult

__all__ = [
    "BrumateError",
    "EryxError",
    "ExecutionError",
    "InitializationError",
    "PackageError",
    "ResourceLimitError",
    "TimeoutError",
]


class BrumateError(Exception):
    """Base of all errors that a sandbox or session reports.

    ``result`` is the `ExecuteResult` of the run that failed, with everything it had printed, counted
    and shown by then, or None if nothing ran. ``str(error)`` says in words what happened.
    To a caller who has made a mistake (a wrong argument, a missing file) Python's own exceptions tell it.

    Example::

        try:
            sandbox.execute("print('step 1'); 1/0")
        except brumate.BrumateError as e:
            print(e.stdout)          # step 1
    """

    def __init__(self, message: str = "", result: ExecuteResult | None = None) -> None:
        super().__init__(message)
        self.result = result

    @property
    def stdout(self) -> str:
        """What the run had printed to standard output; "" if nothing ran."""
        return "" if self.result is None else self.result.stdout

    @property
    def stderr(self) -> str:
        """What the run had printed to standard error; "" if nothing ran."""
        return "" if self.result is None else self.result.stderr

    @property
    def traceback(self) -> str | None:
        """Where the code was, as Python prints it; None if the guest could not tell any more."""
        return None if self.result is None else self.result._traceback or None


class ExecutionError(BrumateError):
    """The code in the sandbox raised an exception, exited with a code other than 0, crashed, or was
    stopped by ``interrupt()``.

    ``str(error)`` is the traceback as Python prints it, or "exit code 3". ``exception_type`` ("ValueError",
    "json.decoder.JSONDecodeError") and ``exception_message`` ("oops") are its parts, or None where there was no
    exception; ``exit_code`` is 1 for an exception, 130 for ``interrupt()``, else the code the guest exited with.
    """

    def __init__(
        self,
        message: str = "",
        result: ExecuteResult | None = None,
        *,
        exception_type: str | None = None,
        exception_message: str | None = None,
        exit_code: int | None = None,
    ) -> None:
        super().__init__(message, result)
        self.exception_type = exception_type
        self.exception_message = exception_message
        self.exit_code = exit_code


class InitializationError(BrumateError):
    """No Python could be started: the image or a factory's file is damaged, an import of a factory failed, something
    cannot be mounted, or a limit is too small for Python itself."""


class ResourceLimitError(BrumateError):
    """The run used more memory, stack or output than it may; the message says which. A MemoryError that
    nothing caught comes as this, too."""


class TimeoutError(BrumateError, builtins.TimeoutError):
    """The run reached its time or CPU time limit. Also caught as Python's own `TimeoutError`."""


class PackageError(BrumateError):
    """A package cannot be used: broken, hostile, for another platform, or in conflict with another."""


EryxError = BrumateError
