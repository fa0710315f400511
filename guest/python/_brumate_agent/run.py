"""An execution from its first await, or from its end, to the result that the host gets.

    MAIN      the main coroutine runs
    CLEANUP   it ended; the tasks it forgot are cancelled, and end
    AGENS     its asynchronous generators are closed
    (none)    the result is posted

Each step goes on until nothing is ready, then answers PENDING, or DONE when the result is posted.
"""

import asyncio
import atexit
import sys
import threading

from _brumate import (Interrupt, TimeLimit, capture, exec_flags, module_clear, rest, result,
                      settle, soft_ack)

from _brumate_agent import calls, loops, report
from _brumate_agent.report import STOPS

OK, EXCEPTION, EXIT, SOFT_STOP, INTERRUPT, CANCELLED = range(6)
DONE, PENDING = 0, 1
MAIN, CLEANUP, AGENS = 1, 2, 3
FINAL = 4
# After a stop, what is ready may go on for so many rounds of the loop.
ROUNDS_AFTER_STOP = 100

_main = sys.modules["__main__"]
_all_tasks = asyncio.all_tasks
_scheduled_tasks = getattr(asyncio.tasks, "_scheduled_tasks", ())
_run_exitfuncs = atexit._run_exitfuncs
_threading_shutdown = threading._shutdown
_CancelledError = asyncio.CancelledError


class Run:
    """The execution that is open; there is never more than one."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.phase = None
        self.task = None       # the main coroutine's
        self.ended = False     # it is done, and the loop has run once more
        self.outcome = None    # the exception that ended it
        self.settled = False   # the outcome is known
        self.cancelled = False
        self.acknowledged = False
        self.end = None        # what result() is to be called with: what there is to print was printed
        self.left = ()         # the tasks that it forgot
        self.closing = None    # the task that closes asynchronous generators


run = Run()


def start(coro):
    """Drives the coroutine that the main code turned out to be."""
    run.clear()
    run.phase = MAIN
    run.task = loops.current.create_task(coro)
    run.task._log_destroy_pending = False
    run.task.add_done_callback(_ended)
    return _go()


def _ended(task):
    run.ended = True


def finish(exc):
    """Ends plain code, that left work on the loop or ended by `exc`, or is a whole program."""
    run.clear()
    run.outcome = exc
    run.settled = True
    if isinstance(exc, STOPS):
        return _halt()
    loop = loops.current
    if loop._ready or loop._scheduled or calls.pending or loop._asyncgens.data:
        run.phase = MAIN
        run.ended = True
        try:
            loop.turn(_once())  # forgotten tasks get their first step, as under asyncio.run()
        except STOPS:
            raise
        except BaseException as failure:
            _failed(failure)
        return _go()
    return _conclude()


def _once():
    turns = iter((False,))
    return lambda: next(turns, True)


def struck(exc):
    """A stop struck the agent's own code."""
    if not run.settled:
        _acknowledge()
        if run.phase == MAIN and run.task is not None:
            _throw(exc)
        if not run.settled:
            _failed(exc)
    return _halt()


def _acknowledge():
    if not run.acknowledged:
        run.acknowledged = True
        soft_ack()
    settle()


def _throw(exc):
    """Raises a stop where the main coroutine waits, for the traceback."""
    leaf = loops._leaf(run.task)
    if leaf is None:
        return
    exc.__traceback__ = None
    leaf.set_exception(exc)
    rounds = iter(range(ROUNDS_AFTER_STOP))
    try:
        loops.current.turn(lambda: run.task.done() or next(rounds, None) is None)
    except BaseException:
        pass


def deliver(replies):
    calls.deliver(replies)
    return _go() if run.phase else DONE


def cancel(_):
    if not run.phase:
        return DONE
    run.cancelled = True
    run.task.cancel()
    return _go()


def _go():
    try:
        while run.phase:
            try:
                loops.current.turn(_phase_done)
            except STOPS:
                raise
            except BaseException as exc:
                _failed(exc)
            if type(run.outcome) in STOPS:
                return _halt()
            if not _phase_done():
                if _can_wake():
                    return PENDING
                _unlock()
            elif _next_phase():
                break
    except STOPS:
        raise
    except BaseException as exc:
        # Something that asyncio needs is broken: no more of the loop, but still the report.
        _failed(exc)
        loops.renew()
    return _conclude()


def _phase_done():
    if run.phase == MAIN:
        return run.ended or run.settled
    if run.phase == CLEANUP:
        return all([task.done() for task in run.left])
    return run.closing.done()


def _failed(exc):
    """What came out of the loop itself: SystemExit and KeyboardInterrupt end all tasks."""
    if not run.settled:
        run.outcome = exc
        run.settled = True


def _can_wake():
    loop = loops.current
    wake_at = loop.wake_at()
    waits = loop.waits()
    rest(wake_at, len(calls.pending), waits)
    return wake_at != loops.NEVER or bool(calls.pending) or bool(waits)


def _unlock():
    """Nothing that is waited for can ever come."""
    if run.phase != MAIN:
        loops.renew()
        run.left = ()
        run.closing = None
        run.phase = AGENS
        return
    leaf = loops._leaf(run.task)
    error = RuntimeError(loops.DEADLOCK)
    if leaf is None:
        _failed(error)
    else:
        leaf.set_exception(error)


def _next_phase():
    """Enters the phase after the one that is done; true if that was the last."""
    loop = loops.current
    if run.phase == MAIN:
        if run.task is not None and run.task.done():
            outcome = _outcome(run.task)
            if not run.settled:
                run.outcome = outcome
                run.settled = True
        run.left = [task for task in _all_tasks(loop) if not task.done()]
        if isinstance(run.outcome, STOPS):
            return False
        for task in run.left:
            task.cancel()
        run.phase = CLEANUP
        return False
    if run.phase == CLEANUP:
        for task in run.left:
            if not task.cancelled() and task.exception() is not None and task is not run.task:
                loop.call_exception_handler({
                    "message": "unhandled exception during asyncio.run() shutdown",
                    "exception": task.exception(),
                    "task": task,
                })
        run.left = ()
        if loop._asyncgens.data:
            run.closing = loop.create_task(loop.shutdown_asyncgens())
            run.phase = AGENS
            return False
    return True


def _mark_retrieved():
    """SystemExit, KeyboardInterrupt and stops are raised through the task that they end: asyncio would
    complain that nobody asked the task for them."""
    try:
        for task in list(_scheduled_tasks):
            if task.done() and not task.cancelled():
                exc = task._exception
                if exc is run.outcome or isinstance(exc, STOPS):
                    task.exception()
    except STOPS:
        raise
    except BaseException:
        pass  # the set of all tasks is an internal of asyncio


def _outcome(task):
    if task.cancelled():
        return task._make_cancelled_error()
    return task.exception()


def _halt():
    """After a stop: the report first, since time is short; then what tasks do when cancelled."""
    _acknowledge()
    run.phase = None
    _report()
    calls.drop_all()
    try:
        _cancel_left(loops.current)
    except BaseException:
        loops.renew()
    loops.current.forget()
    run.clear()
    return DONE


def _cancel_left(loop):
    left = [task for task in _all_tasks(loop) if not task.done()]
    for task in left:
        task.cancel()
    rounds = iter(range(ROUNDS_AFTER_STOP))
    if left:
        loop.turn(lambda: next(rounds, None) is None or all([task.done() for task in left]))
    if not all([task.done() for task in left]):
        loops.renew()


def _conclude():
    run.phase = None
    calls.drop_all()
    loops.current.forget()
    settle()
    _report()
    run.clear()
    return DONE


def _report():
    """Prints what CPython prints at the end of a program, and posts the result."""
    if run.end is None:
        _show()
    if exec_flags() & FINAL:
        _exit_program()
    report.flush("stdout", "stderr")
    settle()
    result(*run.end)


def _show():
    """A stop may strike anywhere in here: then this is called again, and prints no second time."""
    if run.outcome is None and not run.cancelled:
        try:
            capture()
        except STOPS as stop:
            _acknowledge()
            run.outcome = stop
    exc = run.outcome
    if exc is not None and not isinstance(exc, Exception):
        _mark_retrieved()
    if run.cancelled:
        run.end = (CANCELLED, 1, "", "", "")
    elif exc is None:
        run.end = (OK, 0, "", "", "")
    elif isinstance(exc, SystemExit):
        code, message = report.exit_code(exc)
        run.end = (EXIT, code, "SystemExit", report.clip(message or ""), "")
        report.flush("stdout")
        if message is not None:
            report.write_stderr(message + "\n")
    else:
        text = report.format(exc)
        kind = (SOFT_STOP if type(exc) is TimeLimit else
                INTERRUPT if type(exc) is Interrupt else EXCEPTION)
        run.end = (kind, 1, report.type_name(exc), report.clip(report.safe_str(exc)),
                   report.clip(text))
        report.show(exc, text)


def _exit_program():
    for function in (_threading_shutdown, _run_exitfuncs):
        try:
            function()
        except STOPS:
            raise
        except BaseException:
            pass
    report.flush("stdout", "stderr")
    module_clear(_main)
