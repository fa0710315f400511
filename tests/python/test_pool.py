"""Pools: many pieces of code over a few live Pythons."""

from __future__ import annotations

import concurrent.futures
import queue
import threading
import time

import pytest
from measure import grows_by

import brumate
from brumate import ExecutionError, Pool, ResourceLimits


def test_submit_and_result():
    with Pool(size=2) as pool:
        assert isinstance(pool, concurrent.futures.Executor)
        future = pool.submit("print(1); result = 2")
        assert isinstance(future, concurrent.futures.Future)
        assert (future.result(30).stdout, future.result().result) == ("1\n", 2)


def test_many_in_order():
    with Pool(size=4) as pool:
        futures = [pool.submit(f"print({i})") for i in range(300)]
        assert [future.result(60).stdout for future in futures] == [f"{i}\n" for i in range(300)]


def test_map():
    with Pool(size=2) as pool:
        results = pool.map([f"print({i})" for i in range(20)], timeout=60)
        assert [result.stdout for result in results] == [f"{i}\n" for i in range(20)]


def test_runs_are_fresh():
    with Pool(size=1) as pool:
        pool.submit("x = 1; open('/tmp/f', 'w').write('v')").result(30)
        out = (
            pool.submit("import os; print('x' in globals(), os.path.exists('/tmp/f'))")
            .result(30)
            .stdout
        )
    assert out == "False False\n"


def test_errors_come_from_the_future():
    with Pool(size=1) as pool:
        future = pool.submit("print('before'); 1/0")
        with pytest.raises(ExecutionError) as failed:
            future.result(30)
        assert failed.value.stdout == "before\n"
        assert isinstance(future.exception(), ExecutionError)
        assert pool.submit("print(1)").result(30).stdout == "1\n"


def test_arguments_of_execute():
    seen: list[str] = []
    with Pool(size=1) as pool:
        future = pool.submit(
            "print(a, input())",
            inputs={"a": 1},
            stdin="in\n",
            on_stdout=seen.append,
            timeout_ms=9000,
        )
        assert future.result(30).stdout == "1 in\n" and "".join(seen) == "1 in\n"


def test_arguments_of_sandbox():
    limits = ResourceLimits(execution_timeout_ms=100)
    with Pool(
        size=1, resource_limits=limits, callbacks={"echo": lambda v: v}, env={"K": "V"}
    ) as pool:
        assert (
            pool.submit("import os; print(await echo(1), os.environ['K'])").result(30).stdout
            == "1 V\n"
        )
        with pytest.raises(brumate.TimeoutError):
            pool.submit("while True: pass").result(30)


def test_runs_are_side_by_side():
    both = threading.Barrier(2, timeout=30)
    with Pool(size=2, callbacks={"meet": lambda: both.wait() and None}) as pool:
        futures = [pool.submit("await meet()") for _ in range(2)]
        for future in futures:
            future.result(30)


def test_no_more_at_once_than_its_size():
    running = peak = 0
    lock = threading.Lock()

    def enter() -> None:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
        time.sleep(0.05)
        with lock:
            running -= 1

    with Pool(size=2, callbacks={"enter": enter}) as pool:
        for future in [pool.submit("await enter()") for _ in range(8)]:
            future.result(30)
    assert peak <= 2


def test_waiting_work_can_be_cancelled():
    with Pool(size=1) as pool:
        busy = pool.submit("import time; time.sleep(0.5)")
        waiting = pool.submit("print(1)")
        assert waiting.cancel()
        busy.result(30)
    with pytest.raises(concurrent.futures.CancelledError):
        waiting.result()


def test_queue_is_bounded():
    with Pool(size=1, queue_size=2) as pool:
        futures = [pool.submit("import time; time.sleep(0.2)")]
        refused = 0
        for _ in range(20):
            try:
                futures.append(pool.submit("pass", queue_timeout=0))
            except queue.Full:
                refused += 1
        assert refused >= 16
        for future in futures:
            future.result(30)
        assert pool.submit("print(1)").result(30).stdout == "1\n"


def test_submit_waits_for_room():
    with Pool(size=1, queue_size=1) as pool:
        futures = [pool.submit("import time; time.sleep(0.05)") for _ in range(6)]
        for future in futures:
            future.result(30)


def test_shutdown_waits_and_then_refuses():
    pool = Pool(size=1)
    future = pool.submit("import time; time.sleep(0.1); print(1)")
    pool.shutdown()
    assert future.done() and future.result().stdout == "1\n"
    with pytest.raises(RuntimeError):
        pool.submit("pass")


def test_shutdown_may_cancel_what_waits():
    pool = Pool(size=1)
    busy = pool.submit("import time; time.sleep(0.3)")
    waiting = pool.submit("pass")
    pool.shutdown(cancel_futures=True)
    assert busy.done() and waiting.cancelled()


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [
        ({"size": 0}, ValueError),
        ({"size": "2"}, TypeError),
        ({"queue_size": -1}, ValueError),
        ({"size": 1, "nonsense": 1}, TypeError),
    ],
)
def test_arguments_are_checked(kwargs, error):
    with pytest.raises(error):
        Pool(**kwargs)


def test_asyncio_may_wait_for_it():
    import asyncio

    async def main() -> list[str]:
        with Pool(size=2) as pool:
            futures = [asyncio.wrap_future(pool.submit(f"print({i})")) for i in range(5)]
            return [result.stdout for result in await asyncio.gather(*futures)]

    assert asyncio.run(main()) == [f"{i}\n" for i in range(5)]


def test_pools_leave_nothing():
    def live() -> None:
        with Pool(size=2) as pool:
            for future in [pool.submit("x = 1") for _ in range(4)]:
                future.result(30)

    memory, files = grows_by(live, 30, warm_up=5)
    assert memory < (16 << 20) and files <= 0


def test_pool_of_a_factory(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "own.py").write_text("V = 5\n")
    factory = brumate.SandboxFactory(packages=[str(tmp_path / "own")], imports=["own"])
    with Pool(factory, size=1) as pool:
        assert pool.submit("import own; print(own.V)").result(30).stdout == "5\n"


def test_exit_with_a_pool_at_work(python):
    done = python("""
import brumate
pool = brumate.Pool(size=2)
futures = [pool.submit("import time; time.sleep(0.2)") for _ in range(2)]
print("leaving")
""")
    assert (done.stdout, done.returncode) == ("leaving\n", 0), done.stderr


def test_map_waits_as_long_as_anybody_can():
    with Pool(size=1) as pool:
        for timeout in (2**64, float("inf")):
            assert [r.stdout for r in pool.map(["print(1)"], timeout=timeout)] == ["1\n"]
        with pytest.raises(TypeError, match="timeout"):
            next(pool.map(["1"], timeout="1"))  # type: ignore[arg-type]
