# Signals and process-wide settings have no effect on the host (the driver compares it before and after).
#: stdout-any
#: stderr-any
#: reason completed exception exited crashed

#== signals, folders, priorities and masks
import signal, os, sys
for f in (lambda: signal.alarm(1), lambda: signal.raise_signal(signal.SIGTERM), lambda: os.chdir("/"), lambda: os.nice(-20), lambda: os.umask(0)):
    try: f()
    except BaseException as e: print(type(e).__name__)

#== every signal raised
import signal
for n in range(1, 65):
    try: signal.raise_signal(n)
    except BaseException as e: pass

#== every signal given a handler
import signal
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except BaseException as e: pass

#== timers, limits, groups and sessions
import os, signal
calls = [("setpgid", 0, 0), ("setsid",), ("setuid", 0), ("setgid", 0), ("chroot", "/tmp"), ("fchdir", 3), ("sched_setaffinity", 0, [0]), ("fork",), ("setpriority", 0, 0, -5),
         ("putenv", "LD_PRELOAD", "x"), ("unsetenv", "PATH"), ("sync",), ("kill", 1, 9), ("kill", -1, 15), ("killpg", 0, 9), ("tcsetpgrp", 0, 1)]
for name, *args in calls:
    try: getattr(os, name)(*args)
    except BaseException as e: print(name, type(e).__name__)
try: signal.setitimer(signal.ITIMER_REAL, 0.001)
except BaseException: pass

#== the environment
import os
os.environ["PATH"] = "/evil"
os.environ.clear()

#== the clock
import time
try: time.clock_settime(time.CLOCK_REALTIME, 0)
except BaseException as e: print(type(e).__name__)

#== the locale, the time zone
import locale, os, time
try: locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
except locale.Error: pass
os.environ["TZ"] = "Asia/Tokyo"
getattr(time, "tzset", lambda: 0)()
