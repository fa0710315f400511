"""There are no threads in the guest: executors run their work where it is submitted, and a plain
thread says why it cannot start; so does a process."""

import concurrent.futures
import concurrent.futures.thread
import errno
import sys
import threading
import types

from _brumate_agent.report import STOPS

_Future = concurrent.futures.Future
_NO_THREADS = "can't start new thread: this sandbox has none; use asyncio, or an executor"


def _submit(self, fn, /, *args, **kwargs):
    if self._shutdown:
        raise RuntimeError("cannot schedule new futures after shutdown")
    initializer = self._initializer
    if initializer is not None:
        self._initializer = None
        initializer(*self._initargs)
    future = _Future()
    future.set_running_or_notify_cancel()
    try:
        result = fn(*args, **kwargs)
    except STOPS:
        raise
    except BaseException as exc:
        future.set_exception(exc)
    else:
        future.set_result(result)
    return future


def _start_joinable_thread(function, *, handle=None, daemon=True):
    raise RuntimeError(_NO_THREADS)


class Popen:
    """What multiprocessing starts a process by, whatever the start method. CPython's own module of
    this name does not even load where os has no WNOHANG."""

    method = "fork"

    def __init__(self, process_obj):
        raise OSError(errno.ENOTSUP, f"{sys.platform} does not support processes.")


_executor = concurrent.futures.thread.ThreadPoolExecutor
_submit.__doc__ = _executor.submit.__doc__
_submit.__name__ = "submit"
_submit.__qualname__ = "ThreadPoolExecutor.submit"
_executor.submit = _submit
threading._start_joinable_thread = _start_joinable_thread

_processes = types.ModuleType("multiprocessing.popen_fork")
Popen.__module__ = _processes.__name__
_processes.Popen = Popen
_processes.__all__ = ["Popen"]
sys.modules[_processes.__name__] = _processes
