"""What sandboxes and sessions are told, checked, as the extension takes it."""

from __future__ import annotations

import os
from _thread import allocate_lock
from keyword import iskeyword

from . import _native
from .errors import InitializationError
from .limits import ResourceLimits
from .registry import NAME_MAX, normalise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .deterministic import Deterministic
    from .network import NetConfig
    from .registry import Callbacks

    Mounts = Mapping[str, str | tuple[str, str]] | Iterable[tuple[str | os.PathLike[str], str, str]]

__all__ = ["Recipe", "default_image"]

NO_LIMIT = 2**64 - 1

# What a program may take to end at its deadline, nanoseconds, where its session is to outlive that: the library's
# own grace is made for ends that nobody regrets.
GRACE_TO_LIVE = 20_000_000

_CO_COROUTINE = 0x80

_default: _native.Image | None = None
_opening = allocate_lock()
_usual: ResourceLimits | None = None


def default_image() -> _native.Image:
    """The image of this package, opened once in a process."""
    global _default
    if _default is None:
        with _opening:
            if _default is None:
                _default = _native.Image(None, None, "BRUMATE_IMAGE" not in os.environ)
    return _default


def image_of(image: object) -> _native.Image:
    if image is None:
        return default_image()
    if isinstance(image, _native.Image):
        return image
    if isinstance(image, (str, os.PathLike)):
        return _native.Image(image)
    own = getattr(image, "_image", None)  # a SandboxFactory
    if isinstance(own, _native.Image):
        return own
    raise TypeError(f"image must be a SandboxFactory or a path, not {type(image).__name__}")


def is_async(fn: Any) -> bool:
    """Whether calling `fn` makes a coroutine, as far as that can be told without calling it."""
    for _ in range(20):  # wrappers in wrappers
        if hasattr(fn, "func") and hasattr(fn, "keywords"):
            fn = fn.func  # functools.partial
        elif hasattr(fn, "__func__"):
            fn = fn.__func__  # a method
        else:
            break
    code = getattr(fn, "__code__", None)
    if code is None:
        code = getattr(getattr(type(fn), "__call__", None), "__code__", None)
    return bool(getattr(code, "co_flags", 0) & _CO_COROUTINE) or _is_marked(fn)


def _is_marked(fn: Any) -> bool:
    """As inspect.markcoroutinefunction() and unittest.mock.AsyncMock do."""
    return getattr(fn, "_is_coroutine_mark", None) is not None


def _ns(ms: int | None) -> int:
    return NO_LIMIT if ms is None else ms * 1_000_000


def _or_none(limit: int | None) -> int:
    return NO_LIMIT if limit is None else limit


def limits_of(limits: ResourceLimits | None) -> ResourceLimits:
    global _usual
    if limits is None:
        if _usual is None:
            _usual = ResourceLimits()
        return _usual
    if not isinstance(limits, ResourceLimits):
        raise TypeError(f"resource_limits must be ResourceLimits, not {type(limits).__name__}")
    return limits


def _environment(env: Mapping[str, str] | None) -> tuple[bytes, ...]:
    if env is None:
        return ()
    if not hasattr(env, "items"):
        raise TypeError(f"env must be a dict, not {type(env).__name__}")
    pairs: list[bytes] = []
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"env must map strings to strings; {name!r} does not")
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"env: {name!r} is no name of a variable, or its value holds NUL")
        pairs.append(f"{name}={value}".encode("utf-8", "surrogateescape"))
    return tuple(pairs)


def _mount(guest: object, host: object, mode: object) -> tuple[bytes, bytes, bool]:
    if not isinstance(guest, str) or not isinstance(host, (str, os.PathLike)):
        raise TypeError("mounts must map paths of the guest to paths of the host")
    if mode not in ("ro", "rw"):
        raise ValueError(f"the mode of mount {guest!r} must be 'ro' or 'rw', not {mode!r}")
    if not guest.startswith("/"):
        raise ValueError(f"mount {guest!r}: paths of the guest start with /")
    if "\0" in guest:
        raise ValueError(f"mount {guest!r}: paths hold no NUL characters")
    return os.fsencode(host), guest.encode("utf-8", "surrogateescape"), mode == "rw"


def _mounts(mounts: Any) -> tuple[tuple[bytes, bytes, bool], ...]:
    """From {guest path: host path, or (host path, "ro" or "rw")}."""
    if mounts is None:
        return ()
    if not hasattr(mounts, "items"):
        raise TypeError(f"mounts must be a dict, not {type(mounts).__name__}")
    found: list[tuple[bytes, bytes, bool]] = []
    for guest, where in mounts.items():
        host, mode = where if isinstance(where, tuple) and len(where) == 2 else (where, "ro")
        found.append(_mount(guest, host, mode))
    return tuple(found)


def _capture(name: object) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str):
        raise TypeError(f"result_variable must be a string or None, not {type(name).__name__}")
    if not name.isidentifier() or iskeyword(name):
        raise ValueError(f"result_variable {name!r} is not a name that Python code can use")
    if name.startswith("__"):
        raise ValueError(f"result_variable {name!r}: names that start with __ are Python's own")
    size = len(name.encode())
    if size > NAME_MAX:
        raise ValueError(
            f"result_variable {name[:20]!r}... has {size} bytes; {NAME_MAX} are the most"
        )
    return name


def _deterministic(given: object) -> tuple[bytes | None, int]:
    """Seed and start."""
    if given is None:
        return None, 0
    from .deterministic import told

    return told(given)


def streams_of(stdin: Any, on_stdout: Any, on_stderr: Any) -> tuple[Any, Any, Any]:
    """Standard input and listeners that hold for all runs."""
    if stdin is not None and not isinstance(stdin, (str, bytes)) and not callable(stdin):
        raise TypeError(
            f"stdin must be str, bytes, a function or None, not {type(stdin).__name__}"
        )
    for name, listener in (("on_stdout", on_stdout), ("on_stderr", on_stderr)):
        if listener is not None and not callable(listener):
            raise TypeError(f"{name} must be a function, not {type(listener).__name__}")
    return stdin, on_stdout, on_stderr


def _need_network(network: object) -> None:
    from .network import NetConfig

    if not isinstance(network, NetConfig):
        raise TypeError(f"network must be a NetConfig, not {type(network).__name__}")


class Recipe:
    """Image, limits, functions, files and environment, checked; makes sessions of the extension."""

    __slots__ = ("args", "image", "limits", "storage")

    def __init__(
        self,
        image: object,
        limits: ResourceLimits | None,
        network: NetConfig | None,
        callbacks: Callbacks | None,
        result_variable: str | None,
        env: Mapping[str, str] | None,
        mounts: Any,
        timeout_ms: int | None = None,
        storage: _native.Storage | None = None,
        storage_path: str | None = None,
        grace: int = 0,
        deterministic: Deterministic | int | bytes | None = None,
    ) -> None:
        if network is not None:
            _need_network(network)
        self.image = image_of(image)
        self.limits = given = limits_of(limits)
        capture = _capture(result_variable)
        functions: tuple[Any, ...] = ()
        if callbacks is not None:
            functions = tuple(
                (f.name, f.description, f.schema, f.fn, is_async(f.fn))
                for f in normalise(callbacks, taken=() if capture is None else (capture,)).values()
            )
        self.args = (
            (
                _ns(given.execution_timeout_ms if timeout_ms is None else timeout_ms),
                _ns(given.max_cpu_ms),
                grace,
                _or_none(given.max_memory_bytes),
                _or_none(given.max_output_bytes),
                _or_none(given.max_file_bytes),
                _or_none(given.max_artifact_bytes),
                1 if given.stop_at_output_limit else 0,
            ),
            _ns(given.callback_timeout_ms),
            _or_none(given.max_callback_invocations),
            _or_none(given.max_pending_callbacks),
            functions,
            _environment(env),
            _mounts(mounts),
            storage,
            storage_path,
            capture,
            *_deterministic(deterministic),
        )

    def make(self) -> _native.Session:
        try:
            return _native.Session(self.image, *self.args)
        except ValueError as e:  # arguments were checked: Python cannot start within these limits
            raise InitializationError(str(e)) from None
