"""Programs as people and attackers write them, with what their authors see: run by execute() and by
execute_async(). tests/cases has many more of each kind, below this package."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Run

import brumate
from brumate import ExecutionError, ResourceLimitError, TimeoutError


class Case(NamedTuple):
    name: str
    code: str
    stdout: str | None = ""  # None: not looked at
    error: type[Exception] | tuple[type[Exception], ...] | None = None
    text: str = ""  # in the error's text
    may_pass: bool = False  # or no error at all


def check(case: Case, box: Any, run: Run, **kwargs: Any) -> brumate.ExecuteResult | None:
    result: brumate.ExecuteResult | None
    if case.error is None:
        result = run(box, case.code, **kwargs)
    else:
        try:
            result = run(box, case.code, **kwargs)
            assert case.may_pass, "no error"
        except case.error as e:
            assert case.text in str(e)
            result = e.result
            assert result is not None
    if case.stdout is not None:
        assert result.stdout == case.stdout
    return result


def table(*cases: Case) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


@table(
    Case(
        "time zones",
        """
from datetime import datetime
from zoneinfo import ZoneInfo
d = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("America/New_York"))
print(d.astimezone(ZoneInfo("Asia/Tokyo")).isoformat())
""",
        "2026-07-02T01:00:00+09:00\n",
    ),
    Case(
        "every zone of the standard",
        """
from zoneinfo import ZoneInfo, available_timezones
zones = [ZoneInfo(name) for name in available_timezones()]
print(len(zones) > 400)
""",
        "True\n",
    ),
    Case(
        "sqlite in memory and on the virtual disk",
        """
import sqlite3
for p in (":memory:", "/data/t.db"):
    with sqlite3.connect(p) as k:
        k.execute("create table t(a, b)"); k.executemany("insert into t values(?,?)", [(i, i*i) for i in range(100)])
        print(k.execute("select count(*), sum(b) from t where a % 2 = 0").fetchone())
""",
        "(50, 161700)\n" * 2,
    ),
    Case(
        "numbers and texts",
        """
from decimal import Decimal; from fractions import Fraction; from collections import Counter; import re, itertools
print(sum(Decimal("0.1") for _ in range(10)), Fraction(1, 3) + Fraction(1, 6))
print(Counter(re.findall(r"(?i)[a-z]+", "To be or not to be"))["be"], list(itertools.batched(range(5), 2)))
""",
        "1.0 1/2\n2 [(0, 1), (2, 3), (4,)]\n",
    ),
    Case(
        "asyncio.run beside top-level await",
        """
import asyncio
async def main():
    return await asyncio.gather(*(asyncio.sleep(0.01 * i, i) for i in (3, 1, 2)))
print(asyncio.run(main()))
print(await main())
""",
        "[3, 1, 2]\n" * 2,
    ),
    Case(
        "input at its end",
        """
try: input("name? ")
except EOFError: print("eof")
""",
        "name? eof\n",
    ),
    Case(
        "classes, generators, dataclasses and matches",
        """
from dataclasses import dataclass
@dataclass
class Point: x: int; y: int = 2
match Point(1):
    case Point(x=1, y=y): print(y, [*(i * i for i in range(3))])
""",
        "2 [0, 1, 4]\n",
    ),
    Case(
        "csv, json, regular expressions and dates",
        """
import csv, io, json, re, datetime
rows = list(csv.DictReader(io.StringIO("a,b\\n1,x\\n2,y\\n")))
print(json.dumps(rows), re.sub(r"\\d", "#", "a1"), datetime.date(2026, 1, 31) + datetime.timedelta(1))
""",
        '[{"a": "1", "b": "x"}, {"a": "2", "b": "y"}] a# 2026-02-01\n',
    ),
    Case("unicode", "print('grüße 日本 🙂', len('🙂'))", "grüße 日本 🙂 1\n"),
    Case("empty program", "", ""),
    Case("comment only", "# nothing", ""),
    Case("exit with 0", "import sys; print(1); sys.exit(0)", "1\n"),
    Case("exit with nothing", "print(1); raise SystemExit", "1\n"),
)
def test_ordinary_code(case: Case, sandbox: brumate.Sandbox, run: Run):
    check(case, sandbox, run)


def test_database_is_there_for_the_next_run(session: brumate.Session, run: Run):
    code = "import sqlite3; k = sqlite3.connect('/data/t.db')\n"
    run(
        session,
        code + "with k: k.execute('create table t(a)'); k.execute('insert into t values(100)')",
    )
    assert (
        run(session, code + "print(k.execute('select a from t').fetchone())").stdout == "(100,)\n"
    )


def test_syntax_error_names_the_place_and_runs_nothing(session: brumate.Session, run: Run):
    with pytest.raises(ExecutionError) as failed:
        run(session, "x = [1, 2\nprint(x)")
    text = str(failed.value)
    assert "line 1" in text and "x = [1, 2" in text and "^" in text
    assert failed.value.exception_type == "SyntaxError"
    assert failed.value.stdout == ""
    assert run(session, "print('x' in globals())").stdout == "False\n"


@table(
    Case("a set", 'print("done"); result = {"a": 1, "b": {1, 2}}', "done\n", text="set"),
    Case("not a number", 'print("done"); result = {"a": float("nan")}', "done\n"),
    Case("an object", "print('done'); result = object()", "done\n", text="object"),
    Case("circular", "print('done'); result = []; result.append(result)", "done\n"),
    Case(
        "deep",
        "print('done'); result = []\nfor _ in range(100_000): result = [result]",
        "done\n",
    ),
    Case(
        "deep and circular",
        "x = []\nfor _ in range(100_000): x = [x]\ny = {}; y['me'] = y\nresult = [x, y]",
        "",
    ),
)
def test_result_that_cannot_be_told_fails_no_run(case: Case, sandbox: brumate.Sandbox, run: Run):
    result = check(case, sandbox, run)
    assert result is not None
    assert result.result is None and result.result_json is None
    assert result.result_error and case.text in result.result_error


def test_output_before_a_crash_is_kept(sandbox: brumate.Sandbox, run: Run):
    with pytest.raises(ExecutionError) as failed:
        run(
            sandbox,
            'import sys\nprint("step 1"); print("warn", file=sys.stderr); raise RuntimeError("boom")',
        )
    e = failed.value
    assert e.stdout == "step 1\n" and e.stderr.startswith("warn\n")
    assert str(e).rstrip().endswith("RuntimeError: boom") and "Traceback" in str(e)
    assert (e.exception_type, e.exception_message, e.exit_code) == ("RuntimeError", "boom", 1)


def test_output_is_in_order(sandbox: brumate.Sandbox, run: Run):
    result = run(
        sandbox,
        """
import sys, os
for i in range(3):
    print("o", i, flush=True); print("e", i, file=sys.stderr, flush=True)
os.write(1, b"\\xff\\n")
""",
    )
    assert result.output == "o 0\ne 0\no 1\ne 1\no 2\ne 2\n\ufffd\n"
    assert result.stdout == "o 0\no 1\no 2\n\ufffd\n" and result.stderr == "e 0\ne 1\ne 2\n"


def test_programs_may_be_large(run: Run):
    limits = brumate.ResourceLimits(max_memory_bytes=512 << 20)
    rows = "rows = " + repr([(i, str(i)) for i in range(50_000)])
    with brumate.Sandbox(resource_limits=limits) as sandbox:
        result = run(sandbox, rows + "\nprint(len(rows), sum(int(b) for _, b in rows))")
    assert result.stdout == "50000 1249975000\n"


# --- hostile: time, memory, output, crash ---

SHORT = brumate.ResourceLimits(execution_timeout_ms=300)


@table(
    Case("loop", "while True: pass", error=TimeoutError),
    Case(
        "loop that catches",
        "while True:\n try:\n  while True: pass\n except BaseException: pass",
        error=TimeoutError,
    ),
    Case(
        "hash",
        "import hashlib\nhashlib.pbkdf2_hmac('sha256', b'a', b'b', 10**9)",
        error=TimeoutError,
    ),
    Case(
        "sort", "x = [str(i) for i in range(10**5)] * 2\nwhile True: sorted(x)", error=TimeoutError
    ),
    Case(
        "number",
        "import sys\nsys.set_int_max_str_digits(0)\nint('9' * 10**6)",
        error=TimeoutError,
        may_pass=True,
    ),
    Case("power", "x = 7 ** (7 ** 12)", error=(TimeoutError, ResourceLimitError)),
    Case(
        "regular expression", "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')", error=TimeoutError
    ),
    Case("sleep", "import time\ntime.sleep(3600)", error=TimeoutError),
    Case(
        "event",
        "import asyncio\nawait asyncio.Event().wait()",
        error=(TimeoutError, ExecutionError),
    ),
    Case("async sleep", "import asyncio\nawait asyncio.sleep(3600)", error=TimeoutError),
    Case("sum in C", "sum(range(10**12))", error=TimeoutError),
)
def test_time_is_limited(case: Case, run: Run):
    with brumate.Sandbox(resource_limits=SHORT) as sandbox:
        start = time.monotonic()
        check(case, sandbox, run)
        assert time.monotonic() - start < 10
        assert run(sandbox, "print('on')").stdout == "on\n"


def test_waiting_takes_no_cpu(run: Run):
    with brumate.Sandbox(resource_limits=SHORT) as sandbox:
        before = time.process_time()
        with pytest.raises(TimeoutError) as stopped:
            run(sandbox, "import asyncio\nawait asyncio.sleep(3600)")
        used = time.process_time() - before
    assert used < 0.25 and stopped.value.result.cpu_ms < 250


def test_memory_bombs_do_not_reach_the_host(run: Run):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with brumate.Sandbox() as sandbox:
        case = Case(
            "bombs",
            """
try: bytearray(10**9)
except MemoryError: print("one")
x = []
try:
    while True: x.append(bytes(10**6))
except MemoryError: x.clear(); print("two")
""",
            None,
            ResourceLimitError,
            may_pass=True,
        )
        result = check(case, sandbox, run)
    assert result is not None and result.stdout in ("one\n", "one\ntwo\n")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < (128 + 32) * 1024  # KiB


def test_many_tiny_writes(run: Run):
    with brumate.Sandbox() as sandbox:
        result = run(sandbox, "import sys\nfor i in range(300_000): sys.stderr.write('x')")
    assert result.stderr == "x" * 300_000


@table(
    Case(
        "recursion",
        "def f(n): return f(n + 1)\ntry: f(0)\nexcept RecursionError: print('rec')",
        "rec\n",
    ),
    Case(
        "500 levels",
        "def f(n): return n and 1 + f(n - 1)\nprint(f(500))",
        "500\n",
    ),
    Case(
        "recursion without a limit",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
        error=(ExecutionError, ResourceLimitError),
    ),
    Case(
        "deep json",
        "import json\njson.loads('[' * 200_000)",
        error=(ExecutionError, ResourceLimitError),
    ),
    Case(
        "deep brackets",
        "eval('(' * 100_000 + ')' * 100_000)",
        error=(ExecutionError, ResourceLimitError),
    ),
    Case(
        "deep repr",
        "x = []\nfor _ in range(10**5): x = [x]\nrepr(x)",
        error=(ExecutionError, ResourceLimitError),
    ),
    Case("deep del", "x = []\nfor _ in range(10**5): x = [x]\ndel x\nprint('gone')", "gone\n"),
    Case(
        "attributes without end",
        "class A:\n def __getattr__(s, n): return getattr(s, n + 'x')\nA().a",
        error=(ExecutionError, ResourceLimitError),
    ),
)
def test_depth_stays_in_the_guest(case: Case, sandbox: brumate.Sandbox, run: Run):
    check(case, sandbox, run)
    assert run(sandbox, "print('on')").stdout == "on\n"


class Exit(NamedTuple):
    code: str
    exit_code: int | None
    text: str = ""
    type: str | None = None


@pytest.mark.parametrize(
    "exit",
    [
        Exit("import sys; sys.exit(5)", 5),
        Exit("import os; os._exit(3)", 3),
        Exit("raise SystemExit('bye')", 1),
        Exit("raise KeyboardInterrupt", 1, "KeyboardInterrupt", "KeyboardInterrupt"),
        Exit("raise GeneratorExit", 1, "GeneratorExit", "GeneratorExit"),
        Exit("import os; os.abort()", None),
    ],
    ids=lambda exit: exit.code,
)
def test_exits_are_execution_errors(exit: Exit, session: brumate.Session, run: Run):
    with pytest.raises(ExecutionError) as failed:
        run(session, "print('before', flush=True)\n" + exit.code)
    e = failed.value
    assert e.stdout == "before\n" and exit.text in str(e) and str(e)
    if exit.exit_code is not None:
        assert e.exit_code == exit.exit_code and e.result.exit_code == exit.exit_code
        assert e.exception_type == exit.type or exit.type is None
    if "bye" in exit.code:
        assert "bye" in e.stderr
    try:
        assert run(session, "print('on')").stdout == "on\n"
    except brumate.BrumateError as ended:
        assert "reset" in str(ended)
        session.reset()
        assert run(session, "print('on')").stdout == "on\n"


def test_hunting_finds_nothing_of_the_host(sandbox: brumate.Sandbox, run: Run):
    secret_token = "s3cret"  # noqa: F841  a name to be looked for
    result = run(
        sandbox,
        """
import gc, sys
print(any("host" in str(type(o)).lower() for o in gc.get_objects()))
f = sys._getframe()
while f:
    print(f.f_code.co_filename, sorted(k for k in f.f_globals if "secret" in k.lower() or "token" in k.lower()))
    f = f.f_back
""",
    )
    first, *frames = result.stdout.splitlines()
    assert first == "False" and frames
    for frame in frames:
        assert frame.endswith(" []") and os.getcwd() not in frame and str(Path.home()) not in frame


SABOTAGE = """
import builtins, json, sys, asyncio
for n in ("print", "len", "isinstance", "repr", "open", "__import__"): setattr(builtins, n, None)
json.dumps = None; sys.stdout = None; sys.modules.clear(); asyncio.run = None
"""


def test_sabotage_hurts_only_its_own_run(session: brumate.Session, run: Run):
    try:
        assert isinstance(run(session, SABOTAGE), brumate.ExecuteResult)
    except brumate.BrumateError as e:
        assert isinstance(e.result, brumate.ExecuteResult)
    session.reset()
    assert run(session, "import json; print(json.dumps(1))").stdout == "1\n"
    with brumate.Sandbox() as sandbox:
        try:
            run(sandbox, SABOTAGE)
        except brumate.BrumateError:
            pass
        assert run(sandbox, "import json; print(json.dumps(1))").stdout == "1\n"


def test_process_settings_do_not_reach_the_host(sandbox: brumate.Sandbox, run: Run):
    caught: list[int] = []
    old = signal.signal(signal.SIGTERM, lambda n, frame: caught.append(n))
    umask = os.umask(0o022)
    os.umask(umask)
    cwd = os.getcwd()
    try:
        code = """
import signal, os, sys
for f in (lambda: signal.alarm(1), lambda: signal.raise_signal(signal.SIGTERM), lambda: os.chdir("/"), lambda: os.nice(-20), lambda: os.umask(0)):
    try: f()
    except BaseException as e: print(type(e).__name__)
"""
        try:
            run(sandbox, code)
        except brumate.BrumateError:
            pass
    finally:
        signal.signal(signal.SIGTERM, old)
    assert caught == [] and os.getcwd() == cwd and signal.alarm(0) == 0
    assert os.umask(umask) == umask


# --- files ---


def test_links_lead_nowhere_outside(tmp_path: Path, run: Run):
    secret = tmp_path / "secret"
    secret.write_text("secret-text")
    shared = tmp_path / "in"
    shared.mkdir()
    (shared / "planted").symlink_to(secret)
    (shared / "open").write_text("open-text")
    with brumate.Sandbox(mounts={"/mnt/in": str(shared)}) as sandbox:
        result = run(
            sandbox,
            """
import os
os.symlink("/etc/passwd", "/data/l"); os.symlink("../../..", "/data/up")
os.symlink("/data/loop", "/data/loop")
for p in ("/data/l", "/data/l/", "/data/up/etc/passwd", "/mnt/in/planted", "/mnt/in/planted/", "/data/loop"):
    try: print(open(p).read()[:9])
    except OSError as e: print("no")
print(open("/mnt/in/open").read())
""",
        )
    assert result.stdout == "no\n" * 6 + "open-text\n"


def test_sparse_files_are_bounded(sandbox: brumate.Sandbox, run: Run):
    result = run(
        sandbox,
        """
import errno
try:
    with open("/data/s", "wb") as f:
        f.seek(2**40); f.write(b"x")
except OSError as e: print(e.errno in (errno.ENOSPC, errno.EFBIG))
with open("/data/t", "wb") as f:
    f.seek(2**20); f.write(b"x")
data = open("/data/t", "rb").read()
print(len(data), set(data[:-1]))
""",
    )
    assert result.stdout == "True\n1048577 {0}\n"


@table(
    Case("write", "f = open('/data/f', 'wb')\nwhile True: f.write(bytes(10**6))"),
    Case("append", "while True:\n with open('/data/f', 'ab') as f: f.write(bytes(10**6))"),
    Case("truncate", "import os\nf = open('/data/f', 'wb'); f.truncate(2**36)"),
    Case("empty files", "for i in range(10**6): open(f'/data/{i}', 'w').close()"),
    Case("folders", "import os\np = '/data'\nfor i in range(10**6): p += '/d'; os.mkdir(p)"),
    Case("names", "open('/data/' + 'n' * 10**6, 'w')"),
    Case("long links", "import os\nfor i in range(10**6): os.symlink('x' * 4000, f'/data/{i}')"),
)
def test_quota_counts_every_route(case: Case, run: Run):
    limits = brumate.ResourceLimits(max_file_bytes=4 << 20)
    with brumate.Session(resource_limits=limits) as session:
        code = "try:\n" + "".join(f" {line}\n" for line in case.code.splitlines())
        result = run(session, code + "except OSError as e: print('refused')")
        assert result.stdout == "refused\n"
        run(session, "import shutil, os\ntry: f.close()\nexcept (OSError, NameError): pass")
        for file in session.files.list("/data"):
            session.files.remove("/data/" + file.name)
        assert (
            run(session, "print(open('/data/new', 'wb').write(bytes(10**6)))").stdout == "1000000\n"
        )


def test_closing_the_standard_streams(session: brumate.Session, run: Run):
    run(session, "import os\nos.close(1); os.close(2)")
    try:
        assert run(session, "print('on')").stdout == "on\n"
    except brumate.BrumateError:
        session.reset()
        assert run(session, "print('on')").stdout == "on\n"


# --- state ---


def test_open_file_and_restore(session: brumate.Session, run: Run):
    run(session, 'f = open("/data/page.html", "w"); f.write("hello"); f.flush()')
    snapshot = session.snapshot_state()
    session.restore_state(snapshot)
    assert run(session, "print(open('/data/page.html').read())").stdout == "hello\n"
    assert run(
        session, "try: f.write('x'); print('usable')\nexcept ValueError: print('closed')"
    ).stdout in (
        "usable\n",
        "closed\n",
    )


def test_names_bound_to_none_are_kept(session: brumate.Session, run: Run):
    run(session, 'x = None; _eryx_like = 1; __version__ = "2"')
    snapshot = session.snapshot_state()
    session.reset()
    session.restore_state(snapshot)
    out = run(session, "print(x is None, _eryx_like, __version__)").stdout
    assert out == "True 1 2\n"


def test_many_functions_in_a_snapshot(session: brumate.Session, run: Run):
    run(session, "\n".join(f"def f{i}(): return {i}" for i in range(300)))
    snapshot = session.snapshot_state()
    with brumate.Session() as other:
        other.restore_state(snapshot)
        assert run(other, "print(f299())").stdout == "299\n"


def test_state_after_a_timeout(run: Run):
    with brumate.Session() as session:
        run(session, "n = 1")
        with pytest.raises(TimeoutError):
            run(session, "n = 2; [0 for _ in iter(int, 1)]", timeout_ms=200)
        with pytest.raises(brumate.BrumateError, match="reset"):
            run(session, "print(n)")
        session.reset()
        assert run(session, "print('n' in globals())").stdout == "False\n"


def test_clock_after_a_restore(session: brumate.Session, run: Run):
    run(session, "import time, datetime\na = time.time(); m = time.monotonic()")
    snapshot = session.snapshot_state()
    time.sleep(0.1)
    session.restore_state(snapshot)
    out = run(
        session,
        "print(time.time() - a >= 0.09, time.monotonic() >= m, datetime.datetime.now(datetime.UTC).timestamp())",
    ).stdout.split()
    assert out[:2] == ["True", "True"]
    assert abs(float(out[2]) - time.time()) < 60


def test_reset_against_clear_state(session: brumate.Session, run: Run):
    setup = 'import sys; sys.path.append("/zz"); import json; json.MARK = 1; x = 1; open("/data/k", "w").write("v")'
    look = """
import sys, json, os
print('x' in globals(), hasattr(json, 'MARK'), '/zz' in sys.path, os.path.exists('/data/k'))
"""
    run(session, setup)
    session.clear_state()
    assert run(session, "print('x' in globals())").stdout == "False\n"
    session.reset()
    assert run(session, look).stdout == "False False False True\n"
    assert session.execution_count == 1


# --- others ---


def test_tenants_find_nothing_of_each_other(sandbox: brumate.Sandbox, run: Run):
    run(
        sandbox,
        "import builtins, json, os\nbuiltins.leak = 1; open('/tmp/leak', 'w').write('x')\n"
        "json.__doc__ = 'leak'; os.environ['L'] = 'leak'",
    )
    result = run(
        sandbox,
        "import builtins, json, os\nprint(hasattr(builtins, 'leak'), os.path.exists('/tmp/leak'),"
        " json.__doc__ == 'leak', 'L' in os.environ)",
    )
    assert result.stdout == "False False False False\n"


def test_async_runs_side_by_side(sandbox: brumate.Sandbox):
    async def main() -> list[str]:
        runs = (sandbox.execute_async(f"print({i})") for i in range(20))
        return [result.stdout for result in await asyncio.gather(*runs)]

    assert asyncio.run(main()) == [f"{i}\n" for i in range(20)]
