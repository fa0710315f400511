"""What README shows of Python is what it does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import brumate

README = Path(__file__).resolve().parents[2] / "README.md"


def steady(text: str) -> str:
    return re.sub(r"\d+ (us|ms)\b", r"N \1", text)


def test_first_example_prints_what_readme_says(tmp_path: Path):
    if not README.exists():
        pytest.skip("the tests lie elsewhere")
    found = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README.read_text(), re.S)
    assert found
    (tmp_path / "example.py").write_text(found[1])
    done = subprocess.run(
        [sys.executable, "-B", "example.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(brumate.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, steady(done.stdout)) == (0, steady(found[2])), done.stderr
