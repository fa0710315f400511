"""Pool: many runs, some at a time."""

from __future__ import annotations

import os
import queue
import threading
import weakref
from _thread import TIMEOUT_MAX
from collections import deque
from concurrent.futures import Executor, Future
from itertools import islice
from time import monotonic

from .limits import check_number
from .sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ._native import ExecuteResult
    from .factory import SandboxFactory

__all__ = ["Pool"]


class _Work:
    """A run to be done, and who waits for it."""

    __slots__ = ("arguments", "code", "future", "room")

    def __init__(
        self,
        code: str,
        arguments: dict[str, Any],
        future: Future[ExecuteResult],
        room: threading.Semaphore,
    ) -> None:
        self.code = code
        self.arguments = arguments
        self.future = future
        self.room = room  # a place in the queue, given back when its turn comes

    def run(self, sandbox: Sandbox) -> None:
        self.room.release()
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = sandbox.execute(self.code, **self.arguments)
        except BaseException as e:
            self.future.set_exception(e)
        else:
            self.future.set_result(result)


def _serve(sandbox: Sandbox, works: queue.Queue[_Work | None]) -> None:
    """A thread of a pool. Knows nothing of the pool, so that one that is forgotten can go."""
    while True:
        work = works.get()
        if work is None:
            works.put(None)  # for the next thread
            return
        work.run(sandbox)
        del work


class Pool(Executor):
    """Runs code in fresh sandboxes, `size` at a time: an executor as of `concurrent.futures`.

    image       a `SandboxFactory`; default: the package's own Python
    size        runs at a time; default: the number of processors
    queue_size  runs that may wait for their turn; default: 16 for each thread
    The others are as for `Sandbox`.

    `submit` gives a Future of the `ExecuteResult`, or of the exception that `Sandbox.execute` would raise. A run
    that waits can be cancelled; one that runs ends by its limits. After a fork() the child cannot use it.

    Example::

        with brumate.Pool(size=4) as pool:
            for result in pool.map(f"print({n} ** 2)" for n in range(100)):
                print(result.stdout)
    """

    def __init__(
        self,
        image: SandboxFactory | None = None,
        size: int | None = None,
        *,
        queue_size: int | None = None,
        **sandbox: Any,
    ) -> None:
        if size is None:
            size = os.cpu_count() or 1
        self._size = check_number("size", size, 1, 10_000)
        if queue_size is None:
            queue_size = 16 * self._size
        queue_size = check_number("queue_size", queue_size, 1, 2**31 - 1)
        self._sandbox = Sandbox(image=image, **sandbox)
        # The limit is kept by the room, so that the sign of the end always fits.
        self._works: queue.Queue[_Work | None] = queue.Queue()
        self._room = threading.Semaphore(queue_size)
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._pid = os.getpid()
        self._finalizer = weakref.finalize(self, self._works.put, None)

    @property
    def size(self) -> int:
        """How many runs there are at a time."""
        return self._size

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("this pool belongs to the process that made it: make another here")
        if self._closed:
            raise RuntimeError("the pool was shut down: make another")

    # An executor takes functions; this one takes code.
    def submit(  # type: ignore[override]
        self, code: str, /, *, queue_timeout: float | None = None, **arguments: Any
    ) -> Future[ExecuteResult]:
        """Runs `code` when its turn comes; `arguments` are those of `Sandbox.execute`. Waits while the queue is full,
        at most `queue_timeout` seconds.

        queue.Full    there was no room in that time
        RuntimeError  the pool was shut down, or belongs to another process
        """
        self._check()
        if not isinstance(code, str):
            raise TypeError(f"code must be a string, not {type(code).__name__}")
        if not self._room.acquire(timeout=queue_timeout):
            raise queue.Full(f"no room in the pool's queue within {queue_timeout} s")
        future: Future[ExecuteResult] = Future()
        work = _Work(code, arguments, future, self._room)
        with self._lock:
            if self._closed:
                self._room.release()
                self._check()
            self._works.put(work)
            self._add_thread()
        return future

    def _add_thread(self) -> None:
        if len(self._threads) < self._size:
            thread = threading.Thread(
                target=_serve,
                args=(self._sandbox, self._works),
                name=f"brumate-pool-{len(self._threads) + 1}",
                daemon=True,
            )
            thread.start()
            self._threads.append(thread)

    def map(  # type: ignore[override]
        self, codes: Iterable[str], timeout: float | None = None, **arguments: Any
    ) -> Iterator[ExecuteResult]:
        """The results of `codes`, in their order; a failed run raises its exception when its turn comes, which ends the
        iteration: take `submit` to see them all.
        TimeoutError (Python's own) `timeout` seconds after the call. Two for each thread are submitted ahead."""
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float))):
            raise TypeError(f"timeout must be a number, not {type(timeout).__name__}")
        # More than a thread can wait is for ever.
        end = None if timeout is None or timeout > TIMEOUT_MAX else monotonic() + timeout
        return self._map(iter(codes), end, arguments)

    def _map(
        self, codes: Iterator[str], end: float | None, arguments: dict[str, Any]
    ) -> Iterator[ExecuteResult]:
        ahead: deque[Future[ExecuteResult]] = deque()
        try:
            while True:
                for code in islice(codes, 2 * self._size - len(ahead)):
                    ahead.append(self.submit(code, **arguments))
                if not ahead:
                    return
                left = None if end is None else max(0.0, end - monotonic())
                yield ahead[0].result(left)
                ahead.popleft()
        finally:
            for future in ahead:
                future.cancel()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more runs. `wait`: until those submitted are done. `cancel_futures`: those that wait for their
        turn are cancelled."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            first, self._closed = not self._closed, True
        if cancel_futures:
            self._cancel_waiting()
        if first or cancel_futures:
            self._finalizer()
            self._works.put(None)
        if wait:
            for thread in self._threads:
                thread.join()
            self._sandbox.close()

    def _cancel_waiting(self) -> None:
        while True:
            try:
                work = self._works.get_nowait()
            except queue.Empty:
                return
            if work is not None:
                work.room.release()
                work.future.cancel()
                work.future.set_running_or_notify_cancel()

    def __repr__(self) -> str:
        return f"<Pool size={self._size}{' closed' if self._closed else ''}>"
