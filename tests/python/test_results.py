"""The captured variable and what else a result tells."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from conftest import Run

import brumate
from brumate import ExecutionError, Sandbox, Session


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        2**100,
        1.5,
        -0.0,
        1e300,
        "",
        "grüße 🙂",
        "\ud800",
        "a\0b",
        [],
        [1, [2]],
        {},
        {"a": {"b": None}},
    ],
    ids=lambda v: repr(v)[:20],
)
def test_json_values(value: Any, sandbox: Sandbox, run: Run):
    result = run(sandbox, f"result = {value!r}")
    assert result.result == value and type(result.result) is type(value)
    assert result.result_error is None
    assert json.loads(result.result_json) == value


def test_number_of_more_digits_than_python_reads(sandbox: Sandbox, run: Run):
    result = run(sandbox, "import sys\nsys.set_int_max_str_digits(0)\nresult = 10**5000")
    if result.result_error is None:
        assert result.result == 10**5000
    else:
        assert result.result is None


def test_none_differs_from_absent(sandbox: Sandbox, run: Run):
    assert run(sandbox, "result = None").result_json == "null"
    assert run(sandbox, "pass").result_json is None


@pytest.mark.parametrize(
    ("source", "value"),
    [("(1, 2)", [1, 2]), ("{1: 2, True: 3, None: 4}", None), ("type('T', (tuple,), {})([1])", [1])],
)
def test_tuples_and_keys(source: str, value: Any, sandbox: Sandbox, run: Run):
    result = run(sandbox, f"result = {source}")
    if value is not None:
        assert result.result == value
    else:
        assert result.result is not None or result.result_error


@pytest.mark.parametrize("source", ["float('nan')", "[float('inf')]", "-float('inf')"])
def test_numbers_that_json_lacks(source: str, sandbox: Sandbox, run: Run):
    result = run(sandbox, f"result = {source}")
    assert (result.result, result.result_json) == (None, None) and result.result_error


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("{1, 2}", "set"),
        ("b'x'", "bytes"),
        ("object()", "object"),
        ("1j", "complex"),
        ("print", "builtin"),
        ("{(1,): 2}", ""),
    ],
)
def test_error_says_what_it_is(source: str, named: str, sandbox: Sandbox, run: Run):
    result = run(sandbox, f"print('on'); result = {source}")
    assert result.stdout == "on\n" and result.result is None and result.result_json is None
    assert named in result.result_error


def test_large_result(sandbox: Sandbox, run: Run):
    assert len(run(sandbox, "result = 'x' * 8_000_000").result) == 8_000_000
    result = run(sandbox, "result = 'x' * 20_000_000")
    assert result.result is None and result.result_error


@pytest.mark.parametrize(
    "code",
    [
        "import json; json.dumps = lambda *a, **k: 'evil'; result = [1]",
        "import json; json.encoder = None; json.JSONEncoder = None; result = [1]",
        "class D(dict):\n def items(self): raise ValueError\nresult = [1]",
        "import sys; sys.modules['json'] = None; result = [1]",
    ],
)
def test_guest_cannot_break_the_capture(code: str, sandbox: Sandbox, run: Run):
    assert run(sandbox, code).result == [1]


@pytest.mark.parametrize(
    "code",
    [
        "class D(dict):\n def items(self): raise ValueError\n def __iter__(self): raise ValueError\nresult = D(a=1)",
        "class S(str):\n def __str__(self): raise ValueError\n def __repr__(self): raise ValueError\nresult = S('x')",
        "class L(list):\n def __len__(self): return 10**9\n def __iter__(self):\n  while True: yield 1\nresult = L([1])",
        "class I(int):\n def __repr__(self): return '1, \"evil\": 2'\n __str__ = __repr__\nresult = {'a': I(5)}",
        "class F(float):\n def __repr__(self): return 'evil'\nresult = F(1.5)",
    ],
)
def test_hostile_objects_give_json_or_an_error(code: str, sandbox: Sandbox, run: Run):
    result = run(sandbox, code, timeout_ms=5000)
    if result.result_json is not None:
        assert json.loads(result.result_json) == result.result
        assert "evil" not in result.result_json
    else:
        assert result.result_error


def test_result_belongs_to_its_run(session: Session, run: Run):
    assert run(session, "result = 1").result == 1
    second = run(session, "x = 2")
    assert (second.result, second.result_json) == (None, None)


def test_result_after_an_exception(session: Session, run: Run):
    with pytest.raises(ExecutionError) as failed:
        run(session, "result = 1\n1/0")
    assert failed.value.result is not None
    assert run(session, "pass").result is None


@pytest.mark.parametrize("name", ["output", "_x", "größe"])
def test_other_variable(name: str, run: Run):
    with Sandbox(result_variable=name) as sandbox:
        assert run(sandbox, f"{name} = 5; result = 6").result == 5


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", ValueError),
        ("a b", ValueError),
        ("a.b", ValueError),
        ("class", ValueError),
        ("__x", ValueError),
        ("ä" * 101, ValueError),
        ("x'; evil", ValueError),
        (5, TypeError),
    ],
)
def test_variable_name_is_checked(name: Any, error: type[Exception]):
    for kind in (Sandbox, Session):
        with pytest.raises(error, match="result_variable"):
            kind(result_variable=name)


def test_figures(sandbox: Sandbox, run: Run):
    result = run(sandbox, "x = bytearray(30_000_000)\nfor _ in range(100_000): pass")
    assert isinstance(result.duration_ms, float) and 0 < result.duration_ms < 60_000
    assert isinstance(result.cpu_ms, float) and 0 < result.cpu_ms < 60_000
    assert result.peak_memory_bytes is None or result.peak_memory_bytes >= 30_000_000
    assert result.exit_code == 0 and result.callback_invocations == 0
    assert result.output_cut_bytes == 0 and result.artifacts == [] and result.fuel_consumed is None


def test_results_and_errors_can_be_pickled(sandbox: Sandbox):
    result = sandbox.execute("import brumate\nbrumate.show('x')\nprint(1)\nresult = [1]")
    copy = pickle.loads(pickle.dumps(result))
    assert (copy.stdout, copy.result, copy.artifacts[0].data) == ("1\n", [1], b"x")
    with pytest.raises(ExecutionError) as failed:
        sandbox.execute("print(1)\n1/0")
    error = pickle.loads(pickle.dumps(failed.value))
    assert str(error) == str(failed.value) and error.stdout == "1\n"
    assert error.exception_type == "ZeroDivisionError"


def test_result_cannot_be_changed(sandbox: Sandbox):
    result = sandbox.execute("print(1)")
    with pytest.raises(AttributeError):
        result.stdout = "2"  # type: ignore[misc]
    assert "ExecuteResult" in repr(result)


def test_guest_cannot_forge_the_end(sandbox: Sandbox, run: Run):
    """Output that looks like an error or a result is output."""
    fake = 'Traceback (most recent call last):\\n  File \\"<string>\\", line 1\\nValueError: fake'
    result = run(sandbox, f'print("{fake}"); result = {{"stdout": "x", "result_error": "y"}}')
    assert result.result_error is None and result.result == {"stdout": "x", "result_error": "y"}


def test_long_exception_text(sandbox: Sandbox, run: Run):
    with pytest.raises(ExecutionError) as failed:
        run(sandbox, "raise ValueError('x' * 5_000_000)")
    assert len(str(failed.value)) < 10_000_000 and failed.value.exception_type == "ValueError"


@pytest.mark.parametrize(
    "code",
    [
        "class E(Exception):\n def __str__(self): raise ValueError\nraise E",
        "class E(Exception):\n def __str__(self): return 5\nraise E",
        "class M(type):\n def __getattribute__(s, n): raise ValueError\nclass E(Exception, metaclass=M): pass\nraise E",
        "raise ValueError('\\ud800\\0')",
        "e = ValueError('x'); e.__cause__ = e; raise e",
        "raise ExceptionGroup('g', [ValueError(i) for i in range(1000)])",
        "import sys; sys.excepthook = None; sys.stderr = None; 1/0",
        "import traceback; traceback.TracebackException = None; 1/0",
    ],
)
def test_hostile_exceptions_are_execution_errors(code: str, sandbox: Sandbox, run: Run):
    with pytest.raises(ExecutionError) as failed:
        run(sandbox, code)
    assert str(failed.value) and isinstance(failed.value.result, brumate.ExecuteResult)
    str(failed.value).encode("utf-8", "surrogatepass")


def test_chained_and_grouped_exceptions_print_as_in_python(sandbox: Sandbox):
    code = "try: 1/0\nexcept ZeroDivisionError as e: raise ValueError('v') from e"
    with pytest.raises(ExecutionError) as failed:
        sandbox.execute(code)
    text = str(failed.value)
    assert "ZeroDivisionError: division by zero" in text and "direct cause" in text
    assert text.rstrip().endswith("ValueError: v") and failed.value.traceback is not None


def test_notes_and_own_classes(sandbox: Sandbox):
    code = "class Own(Exception): pass\ne = Own('why'); e.add_note('noted'); raise e"
    with pytest.raises(ExecutionError) as failed:
        sandbox.execute(code)
    assert "noted" in str(failed.value) and failed.value.exception_type in ("Own", "__main__.Own")
    assert failed.value.exception_message.startswith("why")
