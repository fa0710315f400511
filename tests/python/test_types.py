"""Types: the package is clean under strict checkers, and so is code that uses it."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import brumate

PACKAGE = Path(brumate.__file__).parent
CONFIG = """
[mypy]
strict = True
python_version = 3.11
exclude = for_guest
"""
# As in pyproject.toml, which an installed package does not have beside it.
PYRIGHT = {
    "exclude": ["**/for_guest"],
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "reportPrivateUsage": False,
    "reportUnnecessaryIsInstance": False,
    "reportUnknownArgumentType": False,
    "reportUnknownMemberType": False,
    "reportUnknownVariableType": False,
}

USAGE = """
from __future__ import annotations

from typing import assert_type

import brumate

limits: brumate.ResourceLimits = brumate.ResourceLimits(execution_timeout_ms=5000, max_cpu_ms=None)
config: brumate.NetConfig = brumate.NetConfig(allowed_hosts=["a.com"]).allow_host("b.com").allow_localhost()
registry = brumate.CallbackRegistry()


@registry.callback(name="add", description="Adds")
def add(a: int, b: int = 0) -> int:
    return a + b


@registry.callback()
async def later(text: str) -> dict[str, str]:
    return {"text": text}


assert_type(add(1), int)


def plain() -> None: ...


def use(text: str) -> None: ...


with brumate.Sandbox(resource_limits=limits, network=config, callbacks=registry, on_stdout=use) as sandbox:
    result = sandbox.execute("print(1)", inputs={"a": 1}, stdin=b"x", timeout_ms=100)
    assert_type(result, brumate.ExecuteResult)
    assert_type(result.stdout, str)
    assert_type(result.duration_ms, float)
    assert_type(result.result_json, str | None)
    for artifact in result.artifacts:
        assert_type(artifact.mime_type, str)
        assert_type(artifact.data, bytes)

brumate.Sandbox(callbacks=[{"name": "plain", "fn": plain, "description": "D"}])
brumate.Sandbox(callbacks={"plain": plain})


async def main() -> brumate.ExecuteResult:
    with brumate.Session(vfs=brumate.VfsStorage(), execution_timeout_ms=100, on_timeout="interrupt") as session:
        await session.execute_async("x = 1")
        assert_type(session.snapshot_state(), bytes)
        assert_type(session.execution_count, int)
        assert_type(session.vfs, brumate.VfsStorage | None)
        session.files.put("/data/f", "text")
        assert_type(session.files.get("/data/f"), bytes)
        for file in session.files.list():
            assert_type(file, brumate.FileInfo)
            assert_type(file.size, int)
        return await session.execute_async("print(x)")


session = brumate.Session(callbacks={"ask": None})
progress = session.start("await ask()")
assert_type(progress, brumate.Progress)
assert_type(progress.pending, list[brumate.PendingCall])
assert_type(progress.result, brumate.ExecuteResult | None)
assert_type(session.reply({1: "yes", 2: ValueError()}), brumate.Progress)
assert_type(session.fork(), brumate.Session)
assert_type(session.fork(3), list[brumate.Session])
snapshot = session.suspend(close=True)
assert_type(brumate.Snapshot.from_bytes(snapshot.to_bytes()).pending, list[brumate.PendingCall])
assert_type(snapshot.info.time_left_ms, float | None)
assert_type(brumate.resume(snapshot, replies={1: 2}, resource_limits=limits).finish(), brumate.ExecuteResult)
delta = session.suspend(base=snapshot)
assert_type(delta.is_delta, bool)
assert_type(delta.info.base_id, str | None)
assert_type(delta.join(snapshot), brumate.Snapshot)
fixed = brumate.Deterministic(b"seed", start=1893456000)
assert_type(fixed.seed, int)
assert_type(fixed.start, float)
brumate.Sandbox(deterministic=7)
brumate.Session(deterministic=fixed)
brumate.resume(delta, deterministic=b"seed")
brumate.Store("folder", deterministic=fixed)
session.rollback(session.checkpoint())
with session.trial() as same:
    assert_type(same, brumate.Session)
store = brumate.Store("folder", max_live=5, idle_seconds=1.5, callbacks=registry)
with store.session("name") as stored:
    assert_type(stored, brumate.Session)
assert_type(store.list(), list[brumate.StoredSession])

try:
    pass
except brumate.ExecutionError as error:
    assert_type(error.stdout, str)
    assert_type(error.result, brumate.ExecuteResult | None)
    assert_type(error.exception_type, str | None)

factory = brumate.SandboxFactory(packages=["a.whl"], imports=["a"])
assert_type(factory.create_sandbox(resource_limits=limits), brumate.Sandbox)
assert_type(factory.create_session(execution_timeout_ms=5), brumate.Session)
assert_type(factory.to_bytes(), bytes)
with brumate.Pool(factory, size=2) as pool:
    assert_type(pool.submit("print(1)").result().stdout, str)
"""

WRONG = """
import brumate

brumate.ResourceLimits(execution_timeout_ms="5")
brumate.Sandbox(resource_limits=5)
brumate.Sandbox().execute(5)
brumate.Session(on_timeout="explode")
brumate.Session(deterministic="seed")
brumate.Deterministic(1, start="2030")
brumate.resume(b"", on_timeout="explode")
brumate.Store("folder", nonsense=1)
brumate.Sandbox().execute("x").stdout = "y"
"""


def need(tool: str) -> None:
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed")


def check(tmp_path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "mypy.ini").write_text(CONFIG)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(PYRIGHT))
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"MYPYPATH": str(PACKAGE.parent), "PYTHONPATH": str(PACKAGE.parent)},
        timeout=300,
    )


def wrong_lines(text: str, name: str) -> set[int]:
    found = set()
    for line in text.splitlines():
        if name in line and "error" in line:
            found.add(int(line.split(name)[1].lstrip(":").split(":")[0]))
    return found


EXPECTED_WRONG = {
    number for number, line in enumerate(WRONG.splitlines(), 1) if line.startswith("brumate.")
}


def test_mypy(tmp_path: Path):
    need("mypy")
    (tmp_path / "usage.py").write_text(USAGE)
    (tmp_path / "wrong.py").write_text(WRONG)
    done = check(tmp_path, "mypy", "--config-file", "mypy.ini", str(PACKAGE), "usage.py")
    assert done.returncode == 0, done.stdout
    done = check(tmp_path, "mypy", "--config-file", "mypy.ini", "wrong.py")
    assert wrong_lines(done.stdout, "wrong.py") == EXPECTED_WRONG, done.stdout


def test_pyright(tmp_path: Path):
    need("pyright")
    (tmp_path / "usage.py").write_text(USAGE)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "brumate").mkdir()
    for file in [*PACKAGE.glob("*.py"), *PACKAGE.glob("*.pyi")]:
        shutil.copy(file, tmp_path / "brumate")
    done = check(tmp_path, "pyright", "--outputjson", "--pythonpath", sys.executable)
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] >= len(list(tmp_path.rglob("*.py")))
    errors = [e for e in told["generalDiagnostics"] if e["severity"] == "error"]
    assert [e for e in errors if not e["file"].endswith("wrong.py")] == []
    wrong = [e for e in errors if e["file"].endswith("wrong.py")]
    assert {e["range"]["start"]["line"] + 1 for e in wrong} == EXPECTED_WRONG


def test_stub_is_that_of_the_extension(tmp_path: Path):
    need("mypy")
    done = check(tmp_path, "mypy.stubtest", "brumate._native", "--mypy-config-file", "mypy.ini")
    assert done.returncode == 0, done.stdout


def test_marker_is_there():
    assert (PACKAGE / "py.typed").exists()


def test_options_that_are_passed_on_are_all_those_of_a_session():
    tree = ast.parse((PACKAGE / "session.py").read_text())
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    options = [n for n in classes["Options"].body if isinstance(n, ast.AnnAssign)]
    (init,) = (n for n in classes["Session"].body if getattr(n, "name", "") == "__init__")
    assert isinstance(init, ast.FunctionDef)
    assert {ast.unparse(o.target): ast.unparse(o.annotation) for o in options} == {
        a.arg: ast.unparse(a.annotation) for a in init.args.kwonlyargs if a.annotation
    }
