"""What `import brumate` brings along."""

from __future__ import annotations

import brumate

NAMES = """Sandbox Session ExecuteResult ResourceLimits NetConfig CallbackRegistry SandboxFactory VfsStorage Pool
Artifact FileInfo BrumateError EryxError ExecutionError InitializationError ResourceLimitError TimeoutError
PackageError Snapshot SnapshotInfo PendingCall Progress Checkpoint Store StoredSession""".split()


def test_names():
    for name in NAMES:
        assert hasattr(brumate, name), name
    assert set(NAMES) <= set(brumate.__all__)
    assert brumate.EryxError is brumate.BrumateError
    for name in brumate.__all__:
        getattr(brumate, name)


def test_every_public_name_is_documented():
    for name in NAMES:
        thing = getattr(brumate, name)
        assert thing.__doc__, name
        assert thing.__module__.startswith("brumate")
        for attribute, value in vars(thing).items():
            if not attribute.startswith("_") and (callable(value) or isinstance(value, property)):
                assert value.__doc__, f"{name}.{attribute}"


def test_import_is_light(python):
    done = python("""
import sys
before = set(sys.modules)
import brumate
heavy = {"asyncio", "inspect", "zipfile", "json", "concurrent.futures", "multiprocessing", "tempfile",
         "subprocess", "socket", "ssl", "ipaddress", "logging", "dataclasses", "shutil", "tarfile", "decimal"}
print(sorted(heavy & (set(sys.modules) - before)))
""")
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_import_and_run_leave_stdout_and_stderr_alone(python):
    done = python("import brumate; brumate.Sandbox().execute('print(1)')")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_no_warnings(python):
    done = python("""
import warnings; warnings.simplefilter("error")
import brumate, asyncio, gc
s = brumate.Session(); s.execute("x = 1"); s.snapshot_state()
asyncio.run(s.execute_async("print(1)"))
del s; gc.collect()
""")
    assert (done.stderr, done.returncode) == ("", 0)


def test_version():
    assert isinstance(brumate.__version__, str) and brumate.__version__[0].isdigit()
