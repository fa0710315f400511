"""How an execution ended, as texts; and what CPython would print of it."""

import linecache
import os
import sys
import traceback

from _brumate import Interrupt, TimeLimit

lines = linecache.cache
STOPS = (TimeLimit, Interrupt)

# A text longer than this loses its middle on the way to the host (the guest's own stderr gets all).
TEXT_MAX = 256 << 10

# Of a traceback longer than both, so many calls are told of from its begin and from its end: each
# takes some 40 us, and runaway recursion has as many as memory holds.
_KEEP = 1000
_KEEP_STOPPED = 60  # after a stop there are some ms left to tell of it

_AGENT = os.path.dirname(os.path.abspath(__file__)) + os.sep
_ASYNCIO = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "asyncio") + os.sep
_sys = sys.__dict__
_print_hook = sys.__excepthook__
_TracebackException = traceback.TracebackException
_MISSING = object()
_LIMIT = traceback.BUILTIN_EXCEPTION_LIMIT


def _strip(te, seen):
    """Takes the agent's frames out of `te` and all that is chained to it, and those of asyncio by
    which the agent's loop called user code."""
    while te is not None and id(te) not in seen:
        seen.add(id(te))
        kept = []
        below_agent = False
        for frame in te.stack:
            name = frame.filename
            if name.startswith(_AGENT):
                below_agent = True
            elif not (below_agent and name.startswith(_ASYNCIO)):
                below_agent = False
                kept.append(frame)
        te.stack[:] = kept
        for part in te.exceptions or ():
            _strip(part, seen)
        if te.__cause__ is not None:
            _strip(te.__cause__, seen)
        te = te.__context__


def _plain_traceback(exc):
    """For a guest that broke what the traceback module needs."""
    text = []
    tb = exc.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if not code.co_filename.startswith(_AGENT):
            text.append(f'  File "{code.co_filename}", line {tb.tb_lineno}, in {code.co_name}\n')
        tb = tb.tb_next
    if text:
        text.insert(0, "Traceback (most recent call last):\n")
    message = safe_str(exc)
    text.append(f"{type_name(exc)}: {message}\n" if message else f"{type_name(exc)}\n")
    return "".join(text)


def type_name(exc):
    cls = type(exc)
    name = cls.__qualname__
    module = cls.__module__
    if isinstance(module, str) and module not in ("builtins", "__main__"):
        return f"{module}.{name}"
    return str(name)


def safe_str(value):
    try:
        return str(value)
    except STOPS:
        raise
    except BaseException:
        return f"<exception str() failed>"


def _shorten(exc, cuts, keep):
    """Takes the middle out of long tracebacks, of `exc` and all that is chained to it; `cuts` is how
    to put it back."""
    seen = set()
    todo = [exc]
    while todo:
        exc = todo.pop()
        if exc is None or id(exc) in seen:
            continue
        seen.add(id(exc))
        count = 0
        tb = exc.__traceback__
        while tb is not None:
            count += 1
            tb = tb.tb_next
        if count > 2 * keep:
            head = tail = exc.__traceback__
            for _ in range(keep - 1):
                head = head.tb_next
            for _ in range(count - keep):
                tail = tail.tb_next
            cuts.append((head, head.tb_next, count - 2 * keep))
            head.tb_next = tail
        todo += exc.__cause__, exc.__context__
        if isinstance(exc, BaseExceptionGroup):
            todo += exc.exceptions


def format(exc):
    """The traceback as CPython prints it, but for the middle of very long ones."""
    cuts = []
    try:
        _shorten(exc, cuts, _KEEP_STOPPED if isinstance(exc, STOPS) else _KEEP)
        text = _format(exc)
    finally:
        for head, after, _ in cuts:
            head.tb_next = after
    if cuts:
        left_out = sum(count for _, _, count in cuts)
        text = f"[{left_out} calls in the middle of this traceback are left out]\n{text}"
    return text


def _format(exc):
    try:
        te = _TracebackException(type(exc), exc, exc.__traceback__, limit=_LIMIT, compact=True)
        _strip(te, set())
        if isinstance(exc, STOPS):
            # Where in its line code was when it was stopped is chance, and to find out takes long.
            for frame in te.stack:
                frame.colno = frame.end_colno = None
        return "".join(te.format())
    except STOPS:
        raise
    except BaseException:
        return _plain_traceback(exc)


def clip(text):
    if len(text) <= TEXT_MAX:
        return text
    half = TEXT_MAX // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"


def flush(*names):
    for name in names:
        stream = _sys.get(name)
        if stream is None:
            continue
        try:
            stream.flush()
        except STOPS:
            raise
        except BaseException:
            pass


def write_stderr(text):
    """To the guest's stderr, which it may have taken away or closed."""
    stream = _sys.get("stderr")
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except STOPS:
        raise
    except BaseException:
        pass


def show(exc, text):
    """Prints an uncaught exception, by the guest's own sys.excepthook if it has set one."""
    flush("stdout")
    hook = _sys.get("excepthook", _MISSING)
    if hook is _print_hook:
        write_stderr(text)
        return
    if hook is _MISSING:
        write_stderr("sys.excepthook is missing\n" + text)
        return
    try:
        hook(type(exc), exc, exc.__traceback__)
    except STOPS:
        raise
    except BaseException as second:
        write_stderr(f"Error in sys.excepthook:\n{format(second)}"
                     f"\nOriginal exception was:\n{text}")


def exit_code(exc):
    """What CPython does with SystemExit: the process's status, and the text for stderr or None."""
    code = getattr(exc, "code", None)
    if code is None:
        return 0, None
    if isinstance(code, int):
        code = int(code)
        return (code if -1 << 31 <= code < 1 << 31 else -1), None
    return 1, safe_str(code)
