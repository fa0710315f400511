"""What guest code shows besides text."""

from __future__ import annotations

import pytest
from conftest import Run

import brumate
from brumate import ExecutionError, ResourceLimits, Sandbox, Session

PNG = b"\x89PNG\r\n\x1a\n\0"


def shown(result: brumate.ExecuteResult) -> list[tuple[str, bytes]]:
    return [(artifact.mime_type, artifact.data) for artifact in result.artifacts]


@pytest.mark.parametrize(
    ("call", "mime_type", "data"),
    [
        ("show('text')", "text/plain", b"text"),
        ("show('grüße')", "text/plain", "grüße".encode()),
        ("show('<b>', 'text/html')", "text/html", b"<b>"),
        (f"show({PNG!r}, 'image/png')", "image/png", PNG),
        ("show(b'', mime_type='image/png')", "image/png", b""),
        ("show([1, 2])", "text/plain", b"[1, 2]"),
        ("show(Html())", "text/html", b"<i>"),
        ("show(Png())", "image/png", PNG),
        ("show(Both())", "image/png", PNG),
        ("show(Bundle())", "image/svg+xml", b"<svg/>"),
    ],
)
def test_show(call: str, mime_type: str, data: bytes, sandbox: Sandbox, run: Run):
    code = f"""
from brumate import show
class Html:
    def _repr_html_(self): return "<i>"
class Png:
    def _repr_png_(self): return {PNG!r}
class Both(Html, Png): pass
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None): return {{"image/svg+xml": "<svg/>", "text/plain": "x"}}
{call}
"""
    assert shown(run(sandbox, code)) == [(mime_type, data)]


def test_bytes_need_a_type(sandbox: Sandbox, run: Run):
    code = "import brumate\ntry: brumate.show(b'x')\nexcept (TypeError, ValueError) as e: print('image/png' in str(e))"
    result = run(sandbox, code)
    assert result.stdout == "True\n" and result.artifacts == []


def test_artifacts_keep_their_order_and_belong_to_their_run(run: Run):
    with Session() as session:
        code = "import brumate\nfor i in range(3): brumate.show(str(i))"
        assert [data for _, data in shown(run(session, code))] == [b"0", b"1", b"2"]
        assert run(session, "pass").artifacts == []


def test_artifacts_before_an_exception_are_kept(sandbox: Sandbox, run: Run):
    with pytest.raises(ExecutionError) as failed:
        run(sandbox, "import brumate\nbrumate.show('x')\n1/0")
    assert failed.value.result is not None and shown(failed.value.result) == [("text/plain", b"x")]


def test_artifacts_are_bounded(run: Run):
    with Sandbox(resource_limits=ResourceLimits(max_artifact_bytes=10_000)) as sandbox:
        code = """
import brumate
n = 0
try:
    for i in range(100): brumate.show("x" * 1000); n += 1
except Exception as e: print(type(e).__name__)
"""
        result = run(sandbox, code)
    assert 5 <= len(result.artifacts) <= 10
    assert sum(len(artifact.data) for artifact in result.artifacts) <= 10_000


def test_a_million_small_artifacts_do_not_fill_the_host(run: Run):
    limits = ResourceLimits(max_artifact_bytes=100_000)
    with Sandbox(resource_limits=limits) as sandbox:
        code = "import brumate\ntry:\n for i in range(100_000): brumate.show('')\nexcept Exception: pass"
        result = run(sandbox, code)
    assert len(result.artifacts) <= 100_000


@pytest.mark.parametrize(
    "mime_type", ["''", "'no slash'", "'a/b\\0c'", "'x' * 10**6", "'a/\\ud800'", "5"]
)
def test_odd_types_are_refused_or_text(mime_type: str, sandbox: Sandbox, run: Run):
    code = f"import brumate\ntry: brumate.show('x', {mime_type})\nexcept Exception as e: print('refused')"
    result = run(sandbox, code)
    for artifact in result.artifacts:
        assert isinstance(artifact.mime_type, str) and len(artifact.mime_type) < 1000
