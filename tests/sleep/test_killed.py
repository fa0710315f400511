"""kill -9 at random moments of suspend, resume and store traffic: nothing is lost that was reported saved."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import brumate

KILLS = int(os.environ.get("BRUMATE_KILLS", "200"))
NAMES = ("plain", "Named", "third")
CHECK = "f.seek(0); lines = f.read().split(); f.seek(0, 2); print(n, lines == [str(k) for k in range(1, n + 1)])"


def work_and_kill(folder: Path, seed: int, seconds: float, what: str) -> list[str]:
    """What the worker reported before it was killed; a line that is not whole was not reported."""
    program = Path(__file__).parent / "killed.py"
    with subprocess.Popen(
        [sys.executable, "-B", str(program), str(folder), str(seed), what],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdout and worker.stderr
        assert worker.stdout.readline() == "open\n", worker.stderr.read()
        time.sleep(seconds)
        worker.send_signal(signal.SIGKILL)
        told, errors = worker.communicate()
        assert (worker.returncode, errors) == (-signal.SIGKILL, "")
    return [line for line in told.splitlines(keepends=True) if line.endswith("\n")]


def test_nothing_is_lost_that_was_reported_saved(tmp_path: Path):
    r = random.Random()
    saved: dict[str, int] = {}
    reports = 0
    for seed in range(KILLS // 2):
        for line in work_and_kill(tmp_path, seed, r.random() * 0.12, "store"):
            what, name, *n = line.split()
            reports += 1
            if what == "saved":
                saved[name] = int(n[0])
            else:
                saved.pop(name, None)
        with brumate.Store(tmp_path) as store:
            assert not [p for p in tmp_path.iterdir() if "damaged" in p.name]
            assert not [p for p in tmp_path.iterdir() if p.suffix not in (".bru", ".name", "")]
            assert {s.name for s in store.list()} <= set(NAMES)
            for name in list(saved):
                if name not in store and name == "third":
                    saved.pop(name)  # killed between its removal and the report
                    continue
                with store.session(name, create=False) as session:
                    n, whole = session.execute(CHECK).stdout.split()
                    assert int(n) >= saved[name] and whole == "True", (seed, name, n, saved)
                    saved[name] = int(n)
    assert reports > KILLS // 2


def test_a_snapshot_is_replaced_whole(tmp_path: Path):
    r = random.Random()
    with brumate.Session(callbacks={"ask": None}) as session:
        session.start("import os\nn = 0\nwhile True:\n    m = await ask(n)\n    assert m == n + 1\n    n, junk = m, os.urandom(n % 7 * 50_000)")
        session.suspend().save(tmp_path / "asleep")
    saved = 0
    for seed in range(KILLS // 2):
        told = work_and_kill(tmp_path, seed, r.random() * 0.2, "snapshot")
        saved = max([saved, *(int(line.split()[2]) for line in told)])
        (call,) = brumate.Snapshot.load(tmp_path / "asleep").pending
        assert call.args[0] >= saved
        with brumate.resume(brumate.Snapshot.load(tmp_path / "asleep")) as session:
            assert session.progress().pending == [call]
    assert saved > KILLS // 4
