"""Host functions that guest code may call as ``await name(...)``."""

from __future__ import annotations

import builtins
import keyword

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypeAlias, TypeVar, Union

    F = TypeVar("F", bound=Callable[..., Any])
    Callbacks: TypeAlias = Union[
        "CallbackRegistry", Iterable[Mapping[str, Any]], Mapping[str, Callable[..., Any] | None]
    ]

__all__ = ["CallbackRegistry", "Function", "normalise"]

NAME_MAX = 200  # bytes of UTF-8
TEXT_MAX = 1 << 20  # bytes of a description or a schema

_RESERVED = frozenset({"brumate", "_callbacks", "_"})


class Function:
    """A host function, checked: its name for the guest, and what ``_callbacks.list()`` tells of it.
    ``schema`` is JSON text, or None; ``fn`` None: it is only declared."""

    __slots__ = ("description", "fn", "name", "schema")

    def __init__(
        self, name: str, fn: Callable[..., Any] | None, description: str = "", schema: str | None = None
    ) -> None:
        self.name = name
        self.fn = fn
        self.description = description
        self.schema = schema

    def __repr__(self) -> str:
        return f"Function({self.name!r}, {self.fn!r})"


def _check_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a callback's name must be a string, not {type(name).__name__}")
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > NAME_MAX:
        raise ValueError(
            f"callback name {name[:20]!r}... has {size} bytes; {NAME_MAX} are the most"
        )
    for part in name.split("."):
        if not part.isidentifier():
            raise ValueError(
                f"callback name {name!r} is no identifier, nor several with dots between; "
                "give another with name="
            )
        if keyword.iskeyword(part) or part.startswith("__"):
            raise ValueError(
                f"callback name {name!r} is reserved by Python; give another with name="
            )
        _check_spelling(name, part)
    first = name.partition(".")[0]
    if first in _RESERVED or hasattr(builtins, first):
        raise ValueError(
            f"callback name {name!r} would hide {first!r} from guest code; give another with name="
        )
    return name


def _check_spelling(name: str, part: str) -> None:
    """Python reads identifiers in a normal form: another spelling could never be called."""
    if part.isascii():
        return
    from unicodedata import normalize

    normal = normalize("NFKC", part)
    if normal != part:
        raise ValueError(f"callback name {name!r} must be spelled {normal!r}, as Python reads it")


def _check_text(name: str, what: str, text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(
            f"the {what} of callback {name!r} must be a string, not {type(text).__name__}"
        )
    if "\0" in text:
        raise ValueError(f"the {what} of callback {name!r} must not contain NUL characters")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError(f"the {what} of callback {name!r} is no valid Unicode text") from None
    if size > TEXT_MAX:
        raise ValueError(
            f"the {what} of callback {name!r} has {size} bytes; {TEXT_MAX} is the most"
        )
    return text


def _schema_text(name: str, schema: object) -> str | None:
    if schema is None:
        return None
    from json import dumps

    try:
        text = dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as e:
        raise type(e)(f"the schema of callback {name!r} must be JSON: {e}") from None
    return _check_text(name, "schema", text)


def _first_line(fn: Callable[..., Any] | None) -> str:
    doc = None if fn is None else getattr(fn, "__doc__", None)
    # An object that can be called, as functools.partial, shows its class's text, that tells nothing.
    if not isinstance(doc, str) or doc is type(fn).__doc__:
        return ""
    return next((line.strip() for line in doc.splitlines() if line.strip()), "")


def _function(name: object, fn: object, description: object, schema: object) -> Function:
    checked = _check_name(name)
    if fn is not None and not callable(fn):
        raise TypeError(f"callback {checked!r} must be a function, not {type(fn).__name__}")
    text = _check_text(checked, "description", "" if description is None else description)
    return Function(checked, fn, text or _first_line(fn), _schema_text(checked, schema))


class _Table:
    """Functions by name, whose names can live side by side in one namespace."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self._objects: dict[str, str] = {}  # "db" -> "db.query", that needs it to be an object

    def insert(self, function: Function) -> None:
        name = function.name
        if name in self.functions:
            raise ValueError(f"there are two callbacks {name!r}; give one of them another name")
        parts = name.split(".")
        above = [".".join(parts[:end]) for end in range(1, len(parts))]
        for short in above:
            if short in self.functions:
                raise _clash(short, name)
        if name in self._objects:
            raise _clash(name, self._objects[name])
        self.functions[name] = function
        for short in above:
            self._objects.setdefault(short, name)


def _clash(short: str, long: str) -> ValueError:
    return ValueError(
        f"callback {long!r} needs {short!r} to be an object, but that is a callback too; "
        "give one of them another name"
    )


class CallbackRegistry:
    """A collection of host functions for ``callbacks=`` of Sandbox and Session.

    A function may be sync or async; it is called with the guest's positional and keyword arguments.
    Values that cross: None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset,
    dates and times, Decimal, Fraction, UUID. An exception that it raises is raised in the guest.

    Example::

        registry = CallbackRegistry()

        @registry.callback(description="Adds two numbers")
        def add(a: int, b: int) -> int:
            return a + b

        Sandbox(callbacks=registry).execute("print(await add(1, b=2))")      # 3
    """

    def __init__(self) -> None:
        self._table = _Table()
        self._schemas: dict[str, Any] = {}

    def callback(
        self, name: str | None = None, *, description: str = "", schema: Any = None
    ) -> Callable[[F], F]:
        """A decorator that adds the function and returns it unchanged.

        Example::

            @registry.callback(name="db.query", description="Runs a query")
            async def query(sql: str) -> list[dict]: ...

        Arguments and errors as for `add`.
        """
        if callable(name):
            raise TypeError("write the decorator with parentheses: @registry.callback()")

        def decorate(fn: F) -> F:
            self.add(fn, name=name, description=description, schema=schema)
            return fn

        return decorate

    def add(
        self,
        fn: Callable[..., Any] | None,
        name: str | None = None,
        description: str = "",
        schema: Any = None,
    ) -> None:
        """Adds `fn`. None, with a name: a function that is only declared; its calls stay pending, for
        ``Session.reply()`` (see ``Session.start()``).

        name         how guest code calls it: an identifier, or several with dots between ("db.query"),
                     which makes an object of functions. Default: the function's own name
        description  for ``_callbacks.list()``. Default: the first line of its docstring
        schema       of its arguments, for the same: anything that is JSON

        ValueError: the name is taken, reserved or no identifier; a text is too large.
        TypeError: `fn` cannot be called, or an argument has the wrong type.
        """
        if fn is not None and not callable(fn):
            raise TypeError(f"a callback must be a function, not {type(fn).__name__}")
        if name is None:
            name = None if fn is None else getattr(fn, "__name__", None)
            if name is None:
                raise ValueError(f"{fn!r} has no name of its own; give one with name=")
        self._table.insert(_function(name, fn, description, schema))
        self._schemas[name] = schema

    def __len__(self) -> int:
        return len(self._table.functions)

    def __contains__(self, name: object) -> bool:
        return name in self._table.functions

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Dicts with "name", "fn", "description", and "schema" where there is one."""
        for function in list(self._table.functions.values()):
            entry: dict[str, Any] = {
                "name": function.name,
                "fn": function.fn,
                "description": function.description,
            }
            if function.schema is not None:
                entry["schema"] = self._schemas[function.name]
            yield entry

    def __repr__(self) -> str:
        return f"CallbackRegistry({list(self._table.functions)})"


_KEYS = frozenset({"name", "fn", "description", "schema"})


def _need_mapping(number: int, entry: object) -> None:
    from collections.abc import Mapping

    if not isinstance(entry, Mapping):
        raise TypeError(
            f"callbacks[{number}] must be a dict with 'name' and 'fn', not {type(entry).__name__}"
        )


def _entry(number: int, entry: Mapping[str, Any]) -> Function:
    _need_mapping(number, entry)
    for key in ("name", "fn"):
        if key not in entry:
            raise ValueError(f"callbacks[{number}] lacks {key!r}: give a dict with 'name' and 'fn'")
    unknown = [key for key in entry if key not in _KEYS]
    if unknown:
        raise ValueError(
            f"callbacks[{number}] has an unknown key {unknown[0]!r}: "
            "'name', 'fn', 'description' and 'schema' are known"
        )
    return _function(entry["name"], entry["fn"], entry.get("description"), entry.get("schema"))


def normalise(callbacks: Callbacks | None, *, taken: Iterable[str] = ()) -> dict[str, Function]:
    """What ``callbacks=`` was given, checked, by name. A copy: later changes of it are not seen.

    Takes a CallbackRegistry, a list of dicts ``{"name", "fn", "description"?, "schema"?}``, a dict
    ``{name: function}``, or None. `taken` are names that no callback may have here.

    ValueError, TypeError: as for `CallbackRegistry.add`; the message names the entry.
    """
    table = _Table()
    for function in _given(callbacks):
        if function.name.partition(".")[0] in taken:
            raise ValueError(
                f"callback name {function.name!r} is that of the result variable; "
                "give another with name=, or another result_variable="
            )
        table.insert(function)
    return table.functions


def _given(callbacks: Callbacks | None) -> Iterable[Function]:
    from collections.abc import Mapping

    if callbacks is None:
        return []
    if isinstance(callbacks, CallbackRegistry):
        return list(callbacks._table.functions.values())  # pyright: ignore[reportPrivateUsage]
    _need_collection(callbacks)
    if isinstance(callbacks, Mapping):
        by_name: Any = callbacks
        return [_function(name, fn, None, None) for name, fn in by_name.items()]
    return [_entry(number, entry) for number, entry in enumerate(callbacks)]


def _need_collection(callbacks: object) -> None:
    from collections.abc import Iterable

    if isinstance(callbacks, (str, bytes)) or not isinstance(callbacks, Iterable):
        raise TypeError(
            "callbacks must be a CallbackRegistry, a list of dicts or a dict of functions, "
            f"not {type(callbacks).__name__}"
        )
