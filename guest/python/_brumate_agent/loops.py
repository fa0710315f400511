"""Event loops whose selector is the door to the host.

Two ways of waiting. The agent's own loop (top-level await) is driven by turn(), which returns when
nothing is ready: then no frame of the guest is left on any stack. Any other loop (asyncio.run in
plain code) waits inside select(), which parks the stack.

Loops may be run while another one runs, or the same one: `asyncio.run(main())` next to a top-level
await, as notebooks have it.
"""

import asyncio
import contextvars
import heapq
import selectors
import struct
import sys
import threading
import time
from asyncio import coroutines, events, futures, runners, selector_events, tasks

from _brumate import loop_used, rest, struck, wait

from _brumate_agent import calls
from _brumate_agent.report import STOPS

DEADLOCK = "deadlock: every task waits and nothing can wake them"
NEVER = -1

_WAIT = struct.Struct("<II")
_get_running_loop = events._get_running_loop
_set_running_loop = events._set_running_loop
_swap_current_task = tasks._swap_current_task
_current_task = tasks.current_task
_all_tasks = tasks.all_tasks
_ensure_future = tasks.ensure_future
_gather = tasks.gather
_isfuture = futures.isfuture
_iscoroutine = coroutines.iscoroutine
_copy_context = contextvars.copy_context
_heappop = heapq.heappop
_heapify = heapq.heapify
_get_ident = threading.get_ident
_monotonic = time.monotonic
_get_hooks = sys.get_asyncgen_hooks
_set_hooks = sys.set_asyncgen_hooks
_FdSelector = getattr(selectors, "PollSelector", selectors.SelectSelector)


class Door(_FdSelector):
    """Descriptors are asked for by poll; waiting is the host's."""

    loop = None

    def select(self, timeout=None):
        if timeout is not None and timeout <= 0:
            return super().select(0) if self._fd_to_key else []
        if timeout is None and not self._fd_to_key and not calls.pending:
            self.loop.unlock()
            return []
        wake_at = NEVER if timeout is None else time_ns(_monotonic() + timeout)
        rest(wake_at, len(calls.pending), self.waits())
        calls.deliver(calls.parse(wait(wake_at)))
        return super().select(0) if self._fd_to_key else []

    def waits(self):
        """agent_wait records; the events of selectors are 1 for read, 2 for write, as the host's."""
        return b"".join([_WAIT.pack(fd, key.events) for fd, key in self._fd_to_key.items()])


def time_ns(when):
    return int(when * 1e9) + 1


def _leaf(future):
    """The future that the chain of waits from `future` on ends at, or None."""
    for _ in range(10000):
        waited = getattr(future, "_fut_waiter", None)
        if waited is None:
            children = getattr(future, "_children", None)
            if not children:
                break
            waited = next((child for child in children if not child.done()), None)
            if waited is None:
                return None
        future = waited
    if future.done() or isinstance(future, asyncio.Task):
        return None
    return future


class Loop(selector_events.BaseSelectorEventLoop):
    def __init__(self, selector=None):
        if selector is None:
            selector = Door()
        super().__init__(selector)
        selector.loop = self
        self._outer = []      # what ran when this loop was entered, innermost last
        self._target = None   # the future that run_until_complete() waits for

    # No thread ever has to wake a loop.
    def _make_self_pipe(self):
        pass

    def _close_self_pipe(self):
        pass

    def _write_to_self(self):
        pass

    # -- running, also inside a running loop --

    def enter(self):
        self._check_closed()
        outer = _get_running_loop()
        task = _swap_current_task(outer, None) if outer is not None else None
        self._outer.append((outer, task, _get_hooks(), self._thread_id))
        _set_hooks(firstiter=self._asyncgen_firstiter_hook,
                   finalizer=self._asyncgen_finalizer_hook)
        self._thread_id = _get_ident()
        _set_running_loop(self)

    def leave(self):
        outer, task, hooks, self._thread_id = self._outer.pop()
        _set_running_loop(outer)
        _set_hooks(*hooks)
        if outer is not None:
            _swap_current_task(outer, task)
        if not self._outer:
            self._stopping = False

    def run_forever(self):
        self.enter()
        try:
            while True:
                self._run_once()
                if self._stopping:
                    break
        finally:
            self.leave()

    def run_until_complete(self, future):
        self._check_closed()
        new_task = not _isfuture(future)
        future = _ensure_future(future, loop=self)
        if new_task:
            future._log_destroy_pending = False
        ended = []
        future.add_done_callback(ended.append)
        outer_target, self._target = self._target, future
        self.enter()
        try:
            while not ended and not self._stopping:
                self._run_once()
        except BaseException:
            if new_task and future.done() and not future.cancelled():
                future.exception()  # retrieved: no warning about it
            raise
        finally:
            self.leave()
            self._target = outer_target
            future.remove_done_callback(ended.append)
        if not future.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        return future.result()

    def run_inside(self, coro, context=None):
        """asyncio.run() while this loop runs: its tasks go on meanwhile."""
        if not _iscoroutine(coro):
            raise ValueError(f"a coroutine was expected, got {coro!r}")
        before = _all_tasks(self)
        task = self.create_task(coro, context=context or _copy_context())
        try:
            return self.run_until_complete(task)
        finally:
            left = _all_tasks(self) - before
            for one in left:
                one.cancel()
            if left:
                self.run_until_complete(_gather_on(self, left))

    def turn(self, enough):
        """Runs until enough() or until nothing is ready."""
        self.enter()
        try:
            if self._selector._fd_to_key:
                self._process_events(self._selector.select(0))
            while not enough() and self.has_ready():
                self._run_once()
        finally:
            self.leave()

    def has_ready(self):
        self._prune()
        if self._ready:
            return True
        scheduled = self._scheduled
        return bool(scheduled) and scheduled[0]._when <= _monotonic() + self._clock_resolution

    def wake_at(self):
        """When the next timer is due, in ns; NEVER without one."""
        self._prune()
        return time_ns(self._scheduled[0]._when) if self._scheduled else NEVER

    def waits(self):
        return self._selector.waits()

    def _prune(self):
        scheduled = self._scheduled
        cancelled = self._timer_cancelled_count
        if cancelled > 100 and cancelled > len(scheduled) // 2:
            kept = []
            for handle in scheduled:
                if handle._cancelled:
                    handle._scheduled = False
                else:
                    kept.append(handle)
            _heapify(kept)
            scheduled[:] = kept
            self._timer_cancelled_count = 0
        while scheduled and scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            _heappop(scheduled)._scheduled = False

    def _run_once(self):
        """One round, as BaseEventLoop has it; but a handle may run rounds of its own."""
        self._prune()
        ready, scheduled = self._ready, self._scheduled
        if ready or self._stopping:
            timeout = 0
        elif scheduled:
            timeout = max(0, scheduled[0]._when - _monotonic())
        else:
            timeout = None
        if timeout != 0 or self._selector._fd_to_key:
            self._process_events(self._selector.select(timeout))
        now = _monotonic() + self._clock_resolution
        while scheduled and scheduled[0]._when < now:
            handle = _heappop(scheduled)
            handle._scheduled = False
            ready.append(handle)
        for _ in range(len(ready)):
            if not ready:
                break
            handle = ready.popleft()
            if not handle._cancelled:
                try:
                    handle._run()
                except STOPS:
                    struck()
                    raise
        handle = None
        stop = struck()
        if stop is not None:
            raise stop  # a task swallowed it: a stop ends more than one task

    def unlock(self):
        """Nothing can wake the target any more: it gets an exception where it waits."""
        leaf = _leaf(self._target) if self._target is not None else None
        error = RuntimeError(DEADLOCK)
        if leaf is None:
            raise error
        leaf.set_exception(error)

    def forget(self):
        """Drops callbacks and timers that an execution left."""
        self._ready.clear()
        self._scheduled.clear()
        self._timer_cancelled_count = 0
        self._asyncgens_shutdown_called = False
        self._executor_shutdown_called = False
        self._exception_handler = None
        self._task_factory = None
        self._stopping = False

    # -- no threads, no processes --

    def run_in_executor(self, executor, func, *args):
        """Blocking work has no thread to go to: it runs in a round of the loop."""
        self._check_closed()
        if executor is not None:
            return futures.wrap_future(executor.submit(func, *args), loop=self)
        future = self.create_future()
        self.call_soon(_run_inline, future, func, args)
        return future

    async def shutdown_default_executor(self, timeout=None):
        self._executor_shutdown_called = True

    def set_default_executor(self, executor):
        self._default_executor = executor


def _run_inline(future, func, args):
    if future.cancelled():
        return
    try:
        result = func(*args)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as exc:
        future.set_exception(exc)
    else:
        if not future.done():
            future.set_result(result)


async def _gather_all(left):
    await _gather(*left, return_exceptions=True)


def _gather_on(loop, left):
    return _gather_all(left)


class Policy(events.BaseDefaultEventLoopPolicy):
    _loop_factory = Loop


_run = runners.run


def run(main, *, debug=None, loop_factory=None):
    running = _get_running_loop()
    if isinstance(running, Loop):
        return running.run_inside(main)
    return _run(main, debug=debug, loop_factory=loop_factory)


class Runner(runners.Runner):
    def run(self, coro, *, context=None):
        running = _get_running_loop()
        if isinstance(running, Loop):
            return running.run_inside(coro, context)
        return super().run(coro, context=context)


def create_task(coro, *, name=None, context=None):
    """asyncio.create_task; plain code's tasks go to the agent's loop, which runs when it ends."""
    loop = _get_running_loop()
    if loop is None:
        loop = current
        loop_used()
    return loop.create_task(coro, name=name, context=context)


def _install():
    for function in (run, create_task):
        function.__module__ = f"asyncio.{'runners' if function is run else 'tasks'}"
    run.__doc__ = _run.__doc__
    create_task.__doc__ = tasks.create_task.__doc__
    Runner.__module__ = "asyncio.runners"
    Runner.__doc__ = runners.Runner.__doc__
    runners.run = asyncio.run = run
    asyncio.Runner = Runner
    tasks.create_task = asyncio.create_task = create_task
    asyncio.SelectorEventLoop = asyncio.EventLoop = Loop
    asyncio.DefaultEventLoopPolicy = Policy
    events._event_loop_policy = Policy()


def renew():
    """A loop for the next execution, after one that cannot be trusted any more."""
    global current
    try:
        for task in _all_tasks(current):
            task._log_destroy_pending = False
            _abandoned.append(task)  # alive, so that no code of theirs runs when they are freed
        current.close()
        current = Loop()
    except BaseException:
        current.forget()  # asyncio is broken: whatever can be had of this loop


_abandoned = []
_install()
current = Loop()
