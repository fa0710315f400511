"""ResourceLimits as an object."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from brumate import ResourceLimits

FIELDS = {
    "execution_timeout_ms": 30_000,
    "callback_timeout_ms": 10_000,
    "max_memory_bytes": 134_217_728,
    "max_callback_invocations": 1000,
    "max_cpu_ms": None,
    "max_output_bytes": 1 << 20,
    "max_file_bytes": 64 << 20,
    "max_artifact_bytes": 32 << 20,
    "max_pending_callbacks": 1000,
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields(name: str):
    assert getattr(ResourceLimits(), name) == FIELDS[name]
    assert getattr(ResourceLimits(**{name: 5}), name) == 5
    assert getattr(ResourceLimits(**{name: None}), name) is None
    assert getattr(ResourceLimits.unlimited(), name) is None


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (-1, ValueError),
        (2**63, ValueError),
        (1.5, TypeError),
        ("1", TypeError),
        (True, TypeError),
        ([], TypeError),
    ],
)
def test_errors_name_the_argument(name: str, value: Any, error: type[Exception]):
    with pytest.raises(error, match=name):
        ResourceLimits(**{name: value})


@pytest.mark.parametrize("name", ["execution_timeout_ms", "max_memory_bytes", "max_output_bytes"])
def test_nothing_at_all_is_refused(name: str):
    with pytest.raises(ValueError, match=name):
        ResourceLimits(**{name: 0})


def test_no_callbacks_may_be_allowed():
    assert ResourceLimits(max_callback_invocations=0).max_callback_invocations == 0


def test_flag_is_a_flag():
    assert ResourceLimits().stop_at_output_limit is False
    assert ResourceLimits(stop_at_output_limit=True).stop_at_output_limit is True
    with pytest.raises(TypeError, match="stop_at_output_limit"):
        ResourceLimits(stop_at_output_limit=1)  # type: ignore[arg-type]


def test_they_are_values():
    one, two = ResourceLimits(max_cpu_ms=5), ResourceLimits(max_cpu_ms=5)
    assert one == two and hash(one) == hash(two) and one != ResourceLimits() and one != 5
    assert eval(repr(one)) == one
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)


def test_they_cannot_be_changed():
    limits = ResourceLimits()
    with pytest.raises(AttributeError, match="max_cpu_ms"):
        limits.max_cpu_ms = 5
    with pytest.raises(AttributeError):
        limits.nonsense = 5  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        del limits.max_cpu_ms
    assert limits == ResourceLimits()


def test_later_ones_are_given_by_name():
    with pytest.raises(TypeError):
        ResourceLimits(1, 2, 3, 4, 5)  # type: ignore[misc]
