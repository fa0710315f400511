"""Executions that need more than compile and evaluate: scripts, modules, lines of a REPL."""

import ast
import codeop
import inspect
import os
import re
import rlcompleter
import runpy
import sys

from _brumate import remember

DISPLAY, MODULE, FINAL = 1, 2, 4

_TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_ONLY_AST = ast.PyCF_ONLY_AST
_FUTURE_FLAGS = sum(
    getattr(codeop.__future__, name).compiler_flag for name in codeop.__future__.all_feature_names)
_CO_COROUTINE = inspect.CO_COROUTINE
_CANDIDATES_MAX = 1000

_sys = sys.__dict__
_main = sys.modules["__main__"]
_globals = _main.__dict__
_Expr, _Module, _Interactive = ast.Expr, ast.Module, ast.Interactive
_dirname = os.path.dirname
_get_module_details = runpy._get_module_details
_Completer = rlcompleter.Completer
_compile_or_none = codeop._maybe_compile
_last_word = re.compile(r"[\w.]*$").search

_repl_flags = 0  # what `from __future__ import ...` of earlier REPL lines asks for


def begin(flags, name, args, source):
    """Prepares sys.argv, sys.path[0] and `__main__`, as `python NAME`, `python -m` and the REPL do.
    Answers what is to be run: a code object, a tuple of such that await nothing, or a coroutine."""
    if flags & MODULE:
        return _module(source.strip(), args)
    if not name.startswith("<"):
        _globals["__file__"] = name
        _globals["__cached__"] = None
        _path0(_dirname(name))
    if args:
        _sys["argv"] = list(args)
    remember(name, source)
    if flags & DISPLAY:
        return _display(name, source)
    return compile(source, name, "exec", _TOP_LEVEL_AWAIT, dont_inherit=True)


def _path0(folder):
    path = _sys.get("path")
    if isinstance(path, list) and path and path[0] == "":
        path[0] = folder


def _module(name, args):
    _path0(os.getcwd())
    try:
        _, spec, code = _get_module_details(name, runpy._Error)
    except runpy._Error as exc:
        raise SystemExit(f"python: {exc}") from None
    _sys["argv"] = [spec.origin, *args]
    _globals.update(__file__=spec.origin, __cached__=spec.cached, __loader__=spec.loader,
                    __package__=spec.parent, __spec__=spec)
    return code


def _display(name, source):
    global _repl_flags
    flags = _TOP_LEVEL_AWAIT | _repl_flags
    tree = compile(source, name, "exec", flags | _ONLY_AST, dont_inherit=True)
    # A lone statement shows every expression in it, several only the last.
    alone = len(tree.body) == 1
    last = tree.body.pop() if alone or tree.body and isinstance(tree.body[-1], _Expr) else None
    body = compile(tree, name, "exec", flags, dont_inherit=True)
    _repl_flags |= body.co_flags & _FUTURE_FLAGS
    if last is None:
        return body
    shown = compile(_Interactive([last]), name, "single", flags | _repl_flags, dont_inherit=True)
    if (body.co_flags | shown.co_flags) & _CO_COROUTINE:
        return _parts((body, shown))
    return (body, shown)


async def _parts(codes):
    for code in codes:
        value = eval(code, _globals)
        if code.co_flags & _CO_COROUTINE:
            await value


class _Compiler:
    """compile() as codeop calls it, for one line of a REPL."""

    def __init__(self, flags):
        self.flags = flags | _TOP_LEVEL_AWAIT | _repl_flags

    def __call__(self, source, filename, symbol, flags=0, **kwargs):
        return compile(source, filename, symbol, self.flags | flags, dont_inherit=True)


def check(source):
    """Whether a REPL should ask for more: b"\\0" complete, b"\\1" incomplete, b"\\2" an error."""
    compiler = _Compiler(codeop.PyCF_DONT_IMPLY_DEDENT | codeop.PyCF_ALLOW_INCOMPLETE_INPUT)
    if not source.strip():
        return b"\0"
    try:
        if _maybe(compiler, source, "single") is not None:
            return b"\0"
        return b"\1"
    except (SyntaxError, ValueError, OverflowError):
        pass
    try:
        # Several statements at once, say pasted: complete unless the last is an open block.
        if _maybe(compiler, source, "exec") is None:
            return b"\1"
    except (SyntaxError, ValueError, OverflowError):
        return b"\2"
    last = source.rstrip("\n").rsplit("\n", 1)[-1]
    return b"\1" if last[:1].isspace() and not source.endswith("\n") else b"\0"


def _maybe(compiler, source, symbol):
    try:
        return _compile_or_none(compiler, source, "<stdin>", symbol)
    except TypeError:  # Python 3.14 takes the flags apart
        return _compile_or_none(compiler, source, "<stdin>", symbol, compiler.flags)


def complete(text):
    """The candidates for the last word of `text`, one a line."""
    word = _last_word(text).group()
    if not word:
        return b""
    completer = _Completer(_globals)
    found = completer.attr_matches(word) if "." in word else completer.global_matches(word)
    return "\n".join(dict.fromkeys(found[:_CANDIDATES_MAX])).encode(errors="replace")
