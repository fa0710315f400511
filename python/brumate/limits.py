"""What a run may use."""

from __future__ import annotations

from _operator import index  # the rest of operator is not needed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["ResourceLimits"]

_MS_MAX = (2**63 - 1) // 1_000_000  # the library counts nanoseconds
_COUNT_MAX = 2**63 - 1

# Name, least and largest value. A limit of no bytes or no time could not run anything.
_FIELDS = (
    ("execution_timeout_ms", 1, _MS_MAX),
    ("callback_timeout_ms", 1, _MS_MAX),
    ("max_memory_bytes", 1, _COUNT_MAX),
    ("max_callback_invocations", 0, _COUNT_MAX),
    ("max_cpu_ms", 1, _MS_MAX),
    ("max_output_bytes", 1, _COUNT_MAX),
    ("max_file_bytes", 1, _COUNT_MAX),
    ("max_artifact_bytes", 1, _COUNT_MAX),
    ("max_pending_callbacks", 0, _COUNT_MAX),
)


def check_number(name: str, value: Any, least: int, most: int) -> int:
    """`value` as an int between `least` and `most`, or a TypeError or ValueError naming the argument."""
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"{name} must be a whole number, not {type(value).__name__}")
    number = index(value)
    if not least <= number <= most:
        raise ValueError(f"{name} must be between {least} and {most}, not {number}")
    return number


class ResourceLimits:
    """What one run may use. None lifts a limit. Cannot be changed once made.

    execution_timeout_ms      wall time of a run, milliseconds (waiting included)
    callback_timeout_ms       time for one call of a host function, milliseconds; the guest's call then
                              raises TimeoutError
    max_memory_bytes          the guest's memory, some 20 MB of Python's own included
    max_callback_invocations  calls of host functions in a run; those beyond raise brumate.CallError
                              in the guest
    max_cpu_ms                CPU time of a run, milliseconds
    max_output_bytes          stdout and stderr of a run together; the rest is cut and counted in
                              `ExecuteResult.output_cut_bytes`
    max_file_bytes            in-memory files of a sandbox or session, names and folders included
    max_artifact_bytes        what ``brumate.show()`` hands out in a run
    max_pending_callbacks     calls of host functions under way at one time
    stop_at_output_limit      end the run with ResourceLimitError at the output limit

    Raises TypeError or ValueError that names the argument.

    Example::

        limits = ResourceLimits(execution_timeout_ms=5000, max_memory_bytes=100_000_000)
        sandbox = Sandbox(resource_limits=limits)
    """

    __slots__ = (
        "execution_timeout_ms",
        "callback_timeout_ms",
        "max_memory_bytes",
        "max_callback_invocations",
        "max_cpu_ms",
        "max_output_bytes",
        "max_file_bytes",
        "max_artifact_bytes",
        "max_pending_callbacks",
        "stop_at_output_limit",
    )

    execution_timeout_ms: int | None
    callback_timeout_ms: int | None
    max_memory_bytes: int | None
    max_callback_invocations: int | None
    max_cpu_ms: int | None
    max_output_bytes: int | None
    max_file_bytes: int | None
    max_artifact_bytes: int | None
    max_pending_callbacks: int | None
    stop_at_output_limit: bool

    def __init__(
        self,
        execution_timeout_ms: int | None = 30_000,
        callback_timeout_ms: int | None = 10_000,
        max_memory_bytes: int | None = 128 << 20,
        max_callback_invocations: int | None = 1000,
        *,
        max_cpu_ms: int | None = None,
        max_output_bytes: int | None = 1 << 20,
        max_file_bytes: int | None = 64 << 20,
        max_artifact_bytes: int | None = 32 << 20,
        max_pending_callbacks: int | None = 1000,
        stop_at_output_limit: bool = False,
    ) -> None:
        given: dict[str, Any] = locals()
        for name, least, most in _FIELDS:
            value = given[name]
            if value is not None:
                value = check_number(name, value, least, most)
            object.__setattr__(self, name, value)
        flag = given["stop_at_output_limit"]
        if not isinstance(flag, bool):
            raise TypeError(
                f"stop_at_output_limit must be True or False, not {type(flag).__name__}"
            )
        object.__setattr__(self, "stop_at_output_limit", stop_at_output_limit)

    @classmethod
    def unlimited(cls) -> ResourceLimits:
        """Limits that limit nothing: a run may use all time, memory and files of the machine.

        Example::

            Sandbox(resource_limits=ResourceLimits.unlimited())
        """
        return cls(
            None,
            None,
            None,
            None,
            max_output_bytes=None,
            max_file_bytes=None,
            max_artifact_bytes=None,
            max_pending_callbacks=None,
        )

    def _values(self) -> tuple[int | None, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"limits cannot be changed; make new ResourceLimits({name}=...)")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("limits cannot be changed; give None to lift one")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ResourceLimits):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"ResourceLimits({fields})"

    def __reduce__(self) -> tuple[object, ...]:
        return _remade, (dict(zip(self.__slots__, self._values(), strict=True)),)


def _remade(fields: dict[str, int | None]) -> ResourceLimits:
    return ResourceLimits(**fields)  # type: ignore[arg-type]
