"""Runs that can be repeated to the bit."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["Deterministic"]

_SEED_BYTES = 32
_START = 1735689600  # of 2025: some formats know no year before 1980
_START_MAX = 2**62 // 10**9  # in the year 2116
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _seed(seed: object) -> int:
    if isinstance(seed, bytes):
        if len(seed) > _SEED_BYTES:
            raise ValueError(f"seed must have at most {_SEED_BYTES} bytes, not {len(seed)}")
        return int.from_bytes(seed, "little")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed must be an int or bytes, not {type(seed).__name__}")
    if not 0 <= seed < 1 << 8 * _SEED_BYTES:
        raise ValueError(f"seed must be 0 or more, and have at most {_SEED_BYTES} bytes")
    return seed


def _microseconds(start: object) -> int:
    """Since 1970."""
    if isinstance(start, datetime):
        if start.tzinfo is None:
            start = start.replace(tzinfo=timezone.utc)
        start_us = (start - _EPOCH) // timedelta(microseconds=1)
    elif isinstance(start, bool) or not isinstance(start, (int, float)):
        raise TypeError(f"start must be a datetime or seconds, not {type(start).__name__}")
    else:
        start_us = round(start * 1e6) if 0 <= start <= _START_MAX else -1
    if not 0 <= start_us <= _START_MAX * 10**6:
        raise ValueError(f"start must be between 1970 and 2116, or seconds since 1970, not {start!r}")
    return start_us


class Deterministic:
    """Time and chance of a sandbox or session that the same code meets again, whenever and wherever it runs.

    seed   of all chance: an int, or at most 32 bytes (the same as an int of these bytes, the lowest first)
    start  what the clock shows at the beginning: a datetime (one without time zone is UTC, as the guest's clock is),
           or seconds since 1970, to the microsecond; default: the beginning of 2025

    The same code, with the same inputs, files and answers of callbacks in the same order, then gives the same
    output, result, files and memory: `random`, `secrets`, `os.urandom`, `uuid.uuid4`, every clock, the names of
    temporary files. Each reading of a clock moves it by a microsecond. Sleeping takes no time: the clocks
    go on to its end at once. While a call of a host function is open, time stands still, so what sleeps
    beside it goes on after the answer.

    A `Sandbox` begins anew with each `execute`, a `Session` goes on until `reset`. Snapshots, twins and checkpoints go on
    with the seed and clock that they were taken with, and are equal until they do different things. The snapshots
    of two equal sessions are the same bytes, if nothing waits in them.

    Real remain: time limits, and what `ExecuteResult` tells of time; code that comes to a limit of time does
    not end at the same place again. Nothing is secret for who knows the seed. Another version of Brumate may give
    something else. Cannot be changed once made.

    Example::

        sandbox = brumate.Sandbox(deterministic=brumate.Deterministic(7, start=datetime(2030, 1, 1)))
        code = "import random, time; time.sleep(3600); print(random.random(), time.time())"
        assert sandbox.execute(code).stdout == sandbox.execute(code).stdout
    """

    __slots__ = ("seed", "start")

    seed: int
    start: float

    def __init__(self, seed: int | bytes, start: datetime | float = _START) -> None:
        object.__setattr__(self, "seed", _seed(seed))
        object.__setattr__(self, "start", _microseconds(start) / 1e6)

    def _native(self) -> tuple[bytes, int]:
        """Seed and nanoseconds, as the extension takes them."""
        return self.seed.to_bytes(_SEED_BYTES, "little"), round(self.start * 1e6) * 1000

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot be changed; make a new Deterministic with another {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("cannot be changed; make a new Deterministic")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Deterministic):
            return NotImplemented
        return (self.seed, self.start) == (other.seed, other.start)

    def __hash__(self) -> int:
        return hash((self.seed, self.start))

    def __repr__(self) -> str:
        return f"Deterministic({self.seed}, start={self.start!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return Deterministic, (self.seed, self.start)


def told(deterministic: object) -> tuple[bytes, int]:
    """From the argument of that name, if it is not None."""
    if isinstance(deterministic, (int, bytes)) and not isinstance(deterministic, bool):
        try:
            deterministic = Deterministic(deterministic)
        except ValueError as e:
            raise ValueError(f"deterministic: {e}") from None
    if not isinstance(deterministic, Deterministic):
        raise TypeError(
            "deterministic must be None, a seed (an int or bytes) or Deterministic, "
            f"not {type(deterministic).__name__}"
        )
    return deterministic._native()
