"""What the tests of the Python package share: both ways to run code, and folders of a test's own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.configuration
import pytest

import brumate

hypothesis.configuration.set_hypothesis_home_dir(
    Path(__file__).parents[2] / "build" / "hypothesis"
)
hypothesis.settings.register_profile("here", database=None)
hypothesis.settings.load_profile("here")


def python_env() -> dict[str, str]:
    """The environment of another Python that finds the modules that this one does."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


Run = Callable[..., brumate.ExecuteResult]


def run_sync(box: Any, code: str, **kwargs: Any) -> brumate.ExecuteResult:
    return box.execute(code, **kwargs)


def run_async(box: Any, code: str, **kwargs: Any) -> brumate.ExecuteResult:
    return asyncio.run(box.execute_async(code, **kwargs))


@pytest.fixture(params=[run_sync, run_async], ids=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs code in a sandbox or session: once by execute(), once by execute_async()."""
    return request.param


@pytest.fixture
def sandbox() -> Iterator[brumate.Sandbox]:
    with brumate.Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def session() -> Iterator[brumate.Session]:
    with brumate.Session() as session:
        yield session


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a Python of its own that can import brumate."""

    def run_program(
        source: str, *args: str, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "program.py"
        program.write_text(source)
        return subprocess.run(
            [sys.executable, str(program), *args],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=python_env(),
        )

    return run_program
