"""The exceptions as objects."""

from __future__ import annotations

import builtins
import pickle

import pytest

import brumate

KINDS = [
    brumate.BrumateError,
    brumate.ExecutionError,
    brumate.InitializationError,
    brumate.PackageError,
    brumate.ResourceLimitError,
    brumate.TimeoutError,
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_without_a_run(kind: type[brumate.BrumateError]):
    error = kind("what happened")
    assert str(error) == "what happened" and error.args == ("what happened",)
    assert (error.result, error.stdout, error.stderr) == (None, "", "")
    assert isinstance(error, brumate.EryxError)
    assert str(pickle.loads(pickle.dumps(error))) == "what happened"


def test_timeout_is_pythons_own_too(sandbox: brumate.Sandbox):
    assert issubclass(brumate.TimeoutError, builtins.TimeoutError)
    with pytest.raises(builtins.TimeoutError):
        sandbox.execute("while True: pass", timeout_ms=50)


def test_execution_error_has_its_parts(sandbox: brumate.Sandbox):
    with pytest.raises(brumate.ExecutionError) as failed:
        sandbox.execute("def f():\n    raise KeyError('k')\nf()")
    e = failed.value
    assert (e.exception_type, e.exception_message, e.exit_code) == ("KeyError", "'k'", 1)
    assert e.traceback is not None and "line 2, in f" in e.traceback
    assert str(e).startswith("Traceback (most recent call last):")


def test_uncaught_memory_error_is_a_limit(sandbox: brumate.Sandbox):
    with pytest.raises(brumate.ResourceLimitError, match="(?i)memory"):
        sandbox.execute("raise MemoryError")


@pytest.mark.parametrize("before", ["", "x"])
def test_long_texts_are_cut_between_letters(before: str):
    """What the library cuts to its room may end within a letter."""
    name = "/" + before + "ä" * 300
    for wrong in ({"image": name}, {"mounts": {name: "/tmp"}}, {"mounts": {"/x": name}}):
        with pytest.raises((brumate.InitializationError, ValueError), match="/x?ää") as failed:
            brumate.Sandbox(**wrong)
        assert "codec" not in str(failed.value)
