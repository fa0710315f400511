"""What guest code prints and reads."""

from __future__ import annotations

import time

import pytest
from conftest import Run

import brumate
from brumate import ExecutionError, ResourceLimitError, ResourceLimits, Sandbox, Session


def test_streams_are_kept_apart_and_together(sandbox: Sandbox, run: Run):
    result = run(sandbox, "import sys\nprint('o'); print('e', file=sys.stderr); print('p')")
    assert (result.stdout, result.stderr) == ("o\np\n", "e\n")
    assert result.output == "o\ne\np\n"
    assert (result.stdout_text, result.stderr_text) == ("o\np\n", "e\n")


def test_streaming_is_in_order_and_live(sandbox: Sandbox, run: Run):
    seen: list[tuple[str, str]] = []
    times: list[float] = []

    def out(text: str) -> None:
        seen.append(("o", text))
        times.append(time.monotonic())

    code = """
import sys, time
for i in range(3):
    print(i, flush=True); print(-i, file=sys.stderr, flush=True)
time.sleep(0.5)
print("last")
"""
    result = run(sandbox, code, on_stdout=out, on_stderr=lambda text: seen.append(("e", text)))
    assert result.stdout == "0\n1\n2\nlast\n" and result.stderr == "0\n-1\n-2\n"
    assert "".join(text for stream, text in seen if stream == "o") == result.stdout
    assert "".join(text for _, text in seen) == "0\n0\n1\n-1\n2\n-2\nlast\n"
    assert times[-1] - times[0] > 0.3


def test_streaming_of_sandbox_and_of_a_run(run: Run):
    first: list[str] = []
    second: list[str] = []
    with Sandbox(on_stdout=first.append) as sandbox:
        run(sandbox, "print(1)")
        run(sandbox, "print(2)", on_stdout=second.append)
    assert "".join(first) == "1\n" and "".join(second) == "2\n"


def test_streamed_text_is_never_cut_within_a_character(sandbox: Sandbox, run: Run):
    seen: list[str] = []
    code = "import os\nfor b in 'grüße 🙂'.encode() * 50: os.write(1, bytes([b]))"
    result = run(sandbox, code, on_stdout=seen.append)
    assert result.stdout == "grüße 🙂" * 50 and "".join(seen) == result.stdout


def test_invalid_utf8_becomes_replacement_characters(sandbox: Sandbox, run: Run):
    seen: list[str] = []
    code = "import os\nos.write(1, b'a\\xffb\\xc3'); os.write(2, b'\\xe2\\x82')"
    result = run(sandbox, code, on_stdout=seen.append)
    assert result.stdout == "a\ufffdb\ufffd" and result.stderr == "\ufffd"
    assert "".join(seen) == result.stdout


def test_error_in_the_receiver_ends_the_run(sandbox: Sandbox, run: Run):
    def out(text: str) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(sandbox, "print(1, flush=True)\nwhile True: pass", on_stdout=out)
    assert run(sandbox, "print(1)").stdout == "1\n"


@pytest.mark.parametrize("name", ["on_stdout", "on_stderr"])
def test_receivers_are_checked(name: str, sandbox: Sandbox, run: Run):
    with pytest.raises(TypeError, match=name):
        run(sandbox, "print(1)", **{name: 5})
    with pytest.raises(TypeError, match=name):
        Sandbox(**{name: 5})


def test_output_before_an_exception_is_streamed_and_kept(sandbox: Sandbox, run: Run):
    seen: list[str] = []
    with pytest.raises(ExecutionError) as failed:
        run(sandbox, "print('step 1')\n1/0", on_stdout=seen.append)
    assert "".join(seen) == failed.value.stdout == "step 1\n"


def test_output_before_a_timeout_is_kept(run: Run):
    limits = ResourceLimits(execution_timeout_ms=200)
    with Sandbox(resource_limits=limits) as sandbox:
        for code in (
            "print('step 1')\nwhile True: pass",
            "print('step 1')\nimport time; time.sleep(9)",
        ):
            with pytest.raises(brumate.TimeoutError) as stopped:
                run(sandbox, code)
            assert stopped.value.stdout == "step 1\n" and stopped.value.result is not None


def test_output_beyond_the_limit_is_cut_and_counted(run: Run):
    limits = ResourceLimits(max_output_bytes=1000)
    with Sandbox(resource_limits=limits) as sandbox:
        result = run(sandbox, "import sys\nsys.stdout.write('x' * 3000)\nresult = 'end'")
    assert result.stdout == "x" * 1000 and result.output_cut_bytes == 2000
    assert result.result == "end"


def test_limit_is_for_both_streams_together(run: Run):
    limits = ResourceLimits(max_output_bytes=1000)
    with Sandbox(resource_limits=limits) as sandbox:
        code = "import sys\nsys.stdout.write('x' * 700); sys.stdout.flush(); sys.stderr.write('y' * 700)"
        result = run(sandbox, code)
    assert len(result.stdout) + len(result.stderr) == 1000 and result.output_cut_bytes == 400


def test_output_limit_may_stop_the_run(run: Run):
    limits = ResourceLimits(max_output_bytes=1000, stop_at_output_limit=True)
    with Sandbox(resource_limits=limits) as sandbox:
        with pytest.raises(ResourceLimitError, match="output") as stopped:
            run(sandbox, "while True: print('x' * 99)")
    assert 900 <= len(stopped.value.stdout) <= 1000


def test_streamed_output_is_limited_too(run: Run):
    seen: list[str] = []
    limits = ResourceLimits(max_output_bytes=1000)
    with Sandbox(resource_limits=limits) as sandbox:
        result = run(
            sandbox, "import sys\nfor i in range(300): print('x' * 99)", on_stdout=seen.append
        )
    assert sum(map(len, seen)) == len(result.stdout) == 1000


def test_unlimited_output(run: Run):
    with Sandbox(resource_limits=ResourceLimits(max_output_bytes=None)) as sandbox:
        assert len(run(sandbox, "print('x' * 5_000_000, end='')").stdout) == 5_000_000


# --- input ---


def test_input_at_its_end(sandbox: Sandbox, run: Run):
    assert run(sandbox, "try: input('? ')\nexcept EOFError: print('eof')").stdout == "? eof\n"
    assert run(sandbox, "import sys\nprint(repr(sys.stdin.read()))").stdout == "''\n"


@pytest.mark.parametrize("stdin", ["Ann\n7\n", b"Ann\n7\n", "Ann\n7"])
def test_input_as_text_and_bytes(stdin: str | bytes, sandbox: Sandbox, run: Run):
    assert (
        run(sandbox, "print(input('name? '), int(input()) + 1)", stdin=stdin).stdout
        == "name? Ann 8\n"
    )


def test_input_from_a_function(sandbox: Sandbox, run: Run):
    lines = iter(["one\n", b"two\n", None])
    code = "import sys\nfor line in sys.stdin: print(line.strip())\nprint('end')"
    assert run(sandbox, code, stdin=lambda: next(lines)).stdout == "one\ntwo\nend\n"


def test_input_that_is_empty_is_its_end(sandbox: Sandbox, run: Run):
    assert (
        run(sandbox, "import sys\nprint(repr(sys.stdin.read()))", stdin=lambda: "").stdout == "''\n"
    )


def test_prompt_is_seen_before_input_is_asked_for(sandbox: Sandbox, run: Run):
    seen: list[str] = []

    def answer() -> str:
        seen.append("asked")
        return "x\n"

    run(sandbox, "input('name? ')", stdin=answer, on_stdout=seen.append)
    assert seen == ["name? ", "asked"]


def test_large_input(sandbox: Sandbox, run: Run):
    result = run(sandbox, "import sys\nprint(len(sys.stdin.buffer.read()))", stdin=b"x" * 5_000_000)
    assert result.stdout == "5000000\n"


def test_error_in_the_input_function(sandbox: Sandbox, run: Run):
    def fails() -> str:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(sandbox, "input()", stdin=fails)
    assert run(sandbox, "print(1)").stdout == "1\n"


def test_input_function_that_is_exhausted(sandbox: Sandbox, run: Run):
    with pytest.raises((StopIteration, RuntimeError), match=r"^$|StopIteration"):
        run(sandbox, "input(); input()", stdin=iter(["x\n"]).__next__)
    assert run(sandbox, "print(1)").stdout == "1\n"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, StopIteration])
def test_receiver_that_means_to_leave(stop: type[BaseException], sandbox: Sandbox, run: Run):
    def out(text: str) -> None:
        raise stop

    with pytest.raises((stop, RuntimeError)):
        run(sandbox, "print(1, flush=True)\nwhile True: pass", on_stdout=out)
    assert run(sandbox, "print(1)").stdout == "1\n"


def test_stdin_is_checked(sandbox: Sandbox, run: Run):
    with pytest.raises(TypeError, match="stdin"):
        run(sandbox, "input()", stdin=5)


def test_input_function_that_gives_something_else(sandbox: Sandbox, run: Run):
    with pytest.raises(TypeError, match="stdin"):
        run(sandbox, "input()", stdin=lambda: 5)


def test_stdin_of_a_session_holds_for_all_runs(run: Run):
    lines = iter(["a\n", "b\n"])
    with Session(stdin=lambda: next(lines)) as session:
        assert run(session, "print(input())").stdout == "a\n"
        assert run(session, "print(input())").stdout == "b\n"


def test_slow_input_function_does_not_outlive_the_deadline(run: Run):
    def slow() -> str:
        time.sleep(2)
        return "x\n"

    limits = ResourceLimits(execution_timeout_ms=200)
    with Sandbox(resource_limits=limits) as sandbox:
        with pytest.raises(brumate.TimeoutError):
            run(sandbox, "print(input())\nwhile True: pass", stdin=slow)
