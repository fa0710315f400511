"""Guests beside the threads, loops, processes and signals of their host."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import signal
import threading
import time

import pytest
from measure import MIB, descriptors, grows_by, rss_bytes, threads

import brumate
from brumate import Sandbox, Session


def test_eight_threads_while_another_counts():
    """The interpreter lock is free while guests run: the counting thread is never held up for long."""
    stop = threading.Event()
    longest = 0.0

    def count() -> None:
        nonlocal longest
        last = time.monotonic()
        while not stop.is_set():
            time.sleep(0.001)
            now = time.monotonic()
            longest = max(longest, now - last)
            last = now

    def work(n: int) -> list[str]:
        with Sandbox() as sandbox:
            return [sandbox.execute(f"print({n * 100 + i})").stdout for i in range(50)]

    counter = threading.Thread(target=count)
    counter.start()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    stop.set()
    counter.join()
    assert results == [[f"{n * 100 + i}\n" for i in range(50)] for n in range(8)]
    assert longest < 2  # 50 ms on a machine of its own


def test_one_sandbox_serves_many_threads(sandbox: Sandbox):
    def work(i: int) -> str:
        return sandbox.execute(f"import time; time.sleep(0.01); print({i})").stdout

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(100))) == [f"{i}\n" for i in range(100)]


def test_event_loop_ticks_while_guests_burn_cpu(sandbox: Sandbox):
    async def main() -> float:
        burn = (
            "n = 0\nimport time\nend = time.monotonic() + 0.5\nwhile time.monotonic() < end: n += 1"
        )
        burning = [asyncio.create_task(sandbox.execute_async(burn)) for _ in range(3)]
        latest = 0.0
        while not all(task.done() for task in burning):
            before = time.monotonic()
            await asyncio.sleep(0.005)
            latest = max(latest, time.monotonic() - before - 0.005)
        await asyncio.gather(*burning)
        return latest

    assert asyncio.run(main()) < 2


def test_guests_run_at_the_same_time(sandbox: Sandbox):
    async def main() -> float:
        start = time.monotonic()
        code = "import time; time.sleep(0.4)"
        await asyncio.gather(*(sandbox.execute_async(code) for _ in range(20)))
        return time.monotonic() - start

    assert asyncio.run(main()) < 20 * 0.4 / 2


def test_waiting_guests_hold_no_thread(sandbox: Sandbox):
    async def main() -> int:
        before = threads()
        runs = []
        for _ in range(200):
            runs.append(
                asyncio.create_task(
                    sandbox.execute_async("import asyncio; await asyncio.sleep(1.5)")
                )
            )
            await asyncio.sleep(0.002)
        more = threads() - before
        await asyncio.gather(*runs)
        return more

    assert asyncio.run(main()) < 64


def test_a_session_may_move_between_threads(session: Session):
    for i in range(10):
        thread = threading.Thread(target=session.execute, args=(f"x = {i}",))
        thread.start()
        thread.join()
    assert session.execute("print(x)").stdout == "9\n"


def test_several_event_loops_in_turn(sandbox: Sandbox):
    for i in range(5):
        result = asyncio.run(
            sandbox.execute_async(f"import asyncio; await asyncio.sleep(0.01); print({i})")
        )
        assert result.stdout == f"{i}\n"


def test_event_loops_in_several_threads(sandbox: Sandbox):
    def work(i: int) -> str:
        return asyncio.run(sandbox.execute_async(f"print({i})")).stdout

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(20))) == [f"{i}\n" for i in range(20)]


# --- processes ---


def test_forked_child_runs_guests_of_its_own(python):
    done = python("""
import os, sys, brumate
sandbox = brumate.Sandbox()
session = brumate.Session()
print(sandbox.execute("print('parent')").stdout, end="", flush=True)
session.execute("x = 1")
child = os.fork()
if child == 0:
    try:
        print(brumate.Sandbox().execute("print('child')").stdout, end="", flush=True)
        for box in (sandbox, session):
            try: print(box.execute("print('again')").stdout, end="", flush=True)
            except brumate.BrumateError as e: print("refused", flush=True)
    finally:
        os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(session.execute("print(x)").stdout, end="")
""")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0] == "parent" and lines[1] == "child" and lines[-1] == "1"
    assert all(line in ("again", "refused") for line in lines[2:-1]) and len(lines) == 5


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method: str, python):
    done = python(
        """
import multiprocessing, sys, brumate

def work(i):
    return brumate.Sandbox(resource_limits=brumate.ResourceLimits()).execute(f"print({i})")

if __name__ == "__main__":
    brumate.Sandbox().execute("pass")
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        results = pool.map(work, range(6))
    print("".join(result.stdout.strip() for result in results))
""",
        method,
    )
    assert (done.stdout, done.returncode) == ("012345\n", 0), done.stderr


def test_forked_while_others_run(python):
    done = python("""
import os, threading, brumate
box = brumate.Sandbox()
stop = False
def work():
    while not stop: box.execute("sum(range(10000))")
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
for i in range(5):
    child = os.fork()
    if child == 0:
        ok = brumate.Sandbox().execute("print(1)").stdout == "1\\n"
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop = True
for t in threads: t.join()
print("done")
""")
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


# --- many lives ---


def test_a_thousand_sandboxes_leave_nothing():
    def live() -> None:
        with Sandbox() as sandbox:
            assert sandbox.execute("x = bytearray(10**6); print(1)").stdout == "1\n"

    memory, files = grows_by(live, 1000, warm_up=50)
    assert memory < 16 * MIB and files <= 0


def test_sessions_leave_nothing():
    def live() -> None:
        with Session() as session:
            session.execute("x = bytearray(10**6)")
            session.snapshot_state()

    memory, files = grows_by(live, 200, warm_up=20)
    assert memory < 16 * MIB and files <= 0


def test_abandoned_sessions_leave_nothing():
    def live() -> None:
        Session().execute("x = bytearray(10**6)")
        Sandbox().execute("x = 1")

    memory, files = grows_by(live, 100, warm_up=10)
    assert memory < 16 * MIB and files <= 0


def test_cancelled_runs_leave_nothing(sandbox: Sandbox):
    async def cancel_some() -> None:
        for code in (
            "while True: pass",
            "import asyncio; await asyncio.sleep(60)",
            "import time; time.sleep(60)",
        ):
            task = asyncio.create_task(sandbox.execute_async(code))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    memory, files = grows_by(lambda: asyncio.run(cancel_some()), 15, warm_up=5)
    assert memory < 16 * MIB and files <= 0
    assert sandbox.execute("print(1)").stdout == "1\n"


def test_cancel_is_quick(sandbox: Sandbox):
    async def main() -> float:
        task = asyncio.create_task(
            sandbox.execute_async(
                "while True:\n try:\n  while True: pass\n except BaseException: pass"
            )
        )
        await asyncio.sleep(0.1)
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - start

    assert asyncio.run(main()) < 5


def test_wait_for_stops_the_guest(sandbox: Sandbox):
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sandbox.execute_async("while True: pass"), 0.1)
        assert (await sandbox.execute_async("print(1)")).stdout == "1\n"

    asyncio.run(main())


def test_closing_gives_memory_back():
    def open_and_close(count: int) -> int:
        sessions = [Session() for _ in range(count)]
        for session in sessions:
            session.execute("x = bytearray(10**6)")
        peak = rss_bytes()
        for session in sessions:
            session.close()
        return peak

    open_and_close(10)
    before = rss_bytes()
    open_and_close(50)
    assert rss_bytes() - before < max(before // 5, 24 * MIB)


def test_many_sessions_at_once():
    sessions = [Session() for _ in range(200)]
    for i, session in enumerate(sessions):
        session.execute(f"x = {i}")
    assert [s.execute("print(x)").stdout for s in sessions[::20]] == [
        f"{i}\n" for i in range(0, 200, 20)
    ]
    before = descriptors()
    for session in sessions:
        session.close()
    assert descriptors() <= before


# --- signals and ends of the process ---


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "import asyncio; await asyncio.sleep(60)",
        "await slow()",
    ],
)
@pytest.mark.parametrize("way", ["sync", "async"])
def test_ctrl_c_stops_the_run(code: str, way: str, python):
    done = python(
        """
import asyncio, os, signal, sys, threading, time, brumate
box = brumate.Sandbox(callbacks={"slow": lambda: time.sleep(1)})
threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    if sys.argv[2] == "sync": box.execute(sys.argv[1])
    else: asyncio.run(box.execute_async(sys.argv[1]))
    print("ended")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - start < 10)
print(box.execute("print('on')").stdout, end="")
""",
        code,
        way,
    )
    assert (done.stdout, done.returncode) == ("interrupted True\non\n", 0), done.stderr


def test_handlers_of_signals_run_while_a_guest_waits_and_behind_one_that_works(python):
    done = python("""
import os, signal, threading, time, brumate
seen = []
signal.signal(signal.SIGUSR1, lambda n, f: seen.append(time.monotonic()))
box = brumate.Sandbox()
for code in ("import time; time.sleep(1)", "import time\\nend = time.monotonic() + 1\\nwhile time.monotonic() < end: pass"):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    box.execute(code)
    print(len(seen), time.monotonic() - seen[-1] > 0.3)
""")
    assert (done.stdout, done.returncode) == ("1 True\n2 False\n", 0), done.stderr


def test_exit_while_runs_are_under_way(python):
    done = python("""
import threading, time, brumate
def work(): brumate.Sandbox().execute("while True: pass")
for _ in range(3): threading.Thread(target=work, daemon=True).start()
box = brumate.Sandbox(); session = brumate.Session(); session.execute("x = 1")
time.sleep(0.3)
print("leaving")
""")
    assert (done.stdout, done.returncode) == ("leaving\n", 0), done.stderr


@pytest.mark.parametrize("way", ["sync", "async"])
def test_exit_while_a_host_function_is_stuck(way: str, python):
    done = python(
        """
import asyncio, sys, time, brumate
limits = brumate.ResourceLimits(execution_timeout_ms=200)
box = brumate.Sandbox(callbacks={"stuck": lambda: time.sleep(600)}, resource_limits=limits)
try:
    if sys.argv[1] == "sync": box.execute("await stuck()")
    else: asyncio.run(box.execute_async("await stuck()"))
except TimeoutError: print("leaving")
""",
        way,
        timeout=30,
    )
    assert (done.stdout, done.returncode) == ("leaving\n", 0), done.stderr


def test_exit_with_open_loops(python):
    done = python("""
import asyncio, brumate
async def slow(): await asyncio.sleep(60)
async def main():
    box = brumate.Sandbox(callbacks={"slow": slow})
    global task
    task = asyncio.create_task(box.execute_async("await slow()"))
    await asyncio.sleep(0.2)
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
print("leaving")
""")
    assert (done.stdout, done.returncode) == ("leaving\n", 0), done.stderr


def test_exit_when_a_loop_is_closed_over_a_run(python):
    done = python("""
import asyncio, brumate
async def main():
    box = brumate.Sandbox()
    global task
    task = asyncio.create_task(box.execute_async("while True: pass"))
    await asyncio.sleep(0.2)
asyncio.run(main())
print(task.cancelled(), brumate.Sandbox().execute("print(1)").stdout, end="")
""")
    assert (done.stdout, done.returncode) == ("True 1\n", 0), done.stderr


def test_run_at_exit(python):
    done = python("""
import atexit, brumate
box = brumate.Sandbox()
atexit.register(lambda: print(box.execute("print('late')").stdout, end=""))
box.execute("pass")
""")
    assert (done.stdout, done.returncode) == ("late\n", 0), done.stderr


def test_signals_of_the_host_keep_their_handlers(python):
    done = python("""
import signal
before = {n: signal.getsignal(n) for n in signal.valid_signals() if n not in (9, 19)}
import brumate
brumate.Sandbox().execute("print(1)")
print(before == {n: signal.getsignal(n) for n in before})
""")
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


def test_faulthandler_and_crashing_guests_live_together(python):
    done = python("""
import faulthandler, brumate
faulthandler.enable()
box = brumate.Sandbox()
for code in ("import os; os.abort()", "import sys; sys.setrecursionlimit(10**9)\\ndef f(): f()\\nf()", "bytearray(10**10)"):
    try: box.execute(code)
    except brumate.BrumateError as e: print("caught")
print(box.execute("print('on')").stdout, end="")
""")
    assert (done.stdout, done.returncode) == ("caught\n" * 3 + "on\n", 0), done.stderr
    assert "Fatal Python error" not in done.stderr


def test_host_crash_is_still_a_crash(python):
    done = python("""
import ctypes, brumate
brumate.Sandbox().execute("print(1)")
ctypes.string_at(8)
""")
    assert done.returncode == -signal.SIGSEGV or "AddressSanitizer: SEGV" in done.stderr


def test_small_thread_stacks(python):
    done = python("""
import threading, brumate
threading.stack_size(64 * 1024)
out = []
def work(): out.append(brumate.Sandbox().execute("def f(n): return n and f(n - 1)\\nprint(f(400))").stdout)
t = threading.Thread(target=work); t.start(); t.join()
print(out)
""")
    assert (done.stdout, done.returncode) == ("['0\\n']\n", 0), done.stderr


def test_subinterpreters_are_refused_or_work(python):
    done = python("""
import brumate
try:
    import _xxsubinterpreters as si
except ImportError:
    import _interpreters as si
i = si.create()
try:
    si.run_string(i, "import brumate; assert brumate.Sandbox().execute('print(1)').stdout == '1\\\\n'")
except Exception as e:
    print(type(e).__name__)
print("done")
""")
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stderr


def test_environment_of_the_host_is_left_alone(sandbox: Sandbox):
    before = dict(os.environ)
    sandbox.execute("import os; os.environ['X'] = '1'; os.putenv('Y', '2')")
    assert dict(os.environ) == before and "X" not in os.environ


def test_errors_name_no_files_of_this_package(sandbox: Sandbox):
    with pytest.raises(brumate.ExecutionError) as failed:
        sandbox.execute("1/0")
    assert "brumate/" not in str(failed.value)
