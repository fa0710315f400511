"""Boot, once per image; and what is new in every instance that starts from it."""

import _sitebuiltins
import builtins
import gc
import importlib
import linecache
import os
import random
import site
import sys
import tracemalloc  # for warnings about coroutines that were never awaited
import warnings

from _brumate import environ, stir

from _brumate_agent import loops
from _brumate_agent.report import STOPS

# Executed at boot, those at odd places as a REPL does, so that what they need is loaded and warm.
REHEARSAL = [
    "import asyncio\nprint('', end='')\nx = [i for i in range(10)]\n",
    "1 + 1; None",
    "await asyncio.sleep(0)\n",
    "await asyncio.sleep(0, None)\n",
    "import sys\nsys.stderr = None\ndef f(n):\n    return 1 / n\nf(0)\n",
    "None",
    "import sys\nsys.stderr = None\nasync def f():\n    raise SystemExit('x')\nawait f()\n",
    "None",
    "import asyncio\nasync def f():\n    await asyncio.sleep(0)\nasyncio.run(f())\n",
    "None",
    "import sys\nsys.stderr = None\nasync def f(): pass\nf()\n",
    "None",
    "x = (1, 2\n",
    "None",
]

# Destructors may make new variables, for ever if they like.
CLEAR_ROUNDS = 4

_names = sys.modules["__main__"].__dict__
_collect = gc.collect
_environ = os.environ
_encoded = environ()
_randoms = []
_Random = random.Random
_urandom = os.urandom


class Quitter(_sitebuiltins.Quitter):
    """exit and quit; the session may go on, so stdin stays open."""

    def __call__(self, code=None):
        raise SystemExit(code)


_print_unraisable = sys.unraisablehook


def _unraisable(args, /):
    """A stop that strikes in a finalizer is ignored there, but raised again where the program is: it is no
    fault to be told."""
    if not issubclass(args.exc_type, STOPS):
        _print_unraisable(args)


def boot(modules):
    """Loads the modules named, one a line."""
    sys.unraisablehook = _unraisable
    builtins.exit = Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = Quitter("quit", "Ctrl-D (i.e. EOF)")
    site.setcopyright()
    site.sethelper()
    for name in ("brumate", "_callbacks", *modules.split()):
        importlib.import_module(name)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(line_buffering=True)


def clear():
    """Drops the variables of `__main__`; destructors run, and may make others."""
    for _ in range(CLEAR_ROUNDS):
        names = [name for name in _names if not (isinstance(name, str) and name.startswith("__")
                                                 and name.endswith("__"))]
        if not names:
            break
        for name in names:
            _names.pop(name, None)
    _collect()


def rehearsed():
    """Undoes what the rehearsal left."""
    clear()
    sys.stderr = sys.__stderr__
    sys.argv = [""]
    linecache.clearcache()
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        sys.__dict__.pop(name, None)
    uuid = sys.modules.get("uuid")
    if uuid is not None:
        uuid._node = uuid._last_timestamp = None
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile._name_sequence = tempfile.tempdir = None
    loops.renew()
    loops._abandoned.clear()
    # Subclasses too, that packages imported at the boot made instances of; by type, since __class__
    # may be a property that does anything.
    _randoms.extend(one for one in gc.get_objects() if issubclass(type(one), _Random)
                    and not issubclass(type(one), random.SystemRandom))


def wake():
    """The first thing in an instance, and in one that a snapshot was put back into: entropy and
    environment of its own. What the program itself changed in os.environ stays."""
    global _encoded
    for one in _randoms:
        entropy = _urandom(16)
        if not stir(one, entropy):
            _Random.seed(one, int.from_bytes(entropy))  # whatever a subclass makes of seed()
    now = environ()
    if now == _encoded:
        return
    data = _environ._data
    for item in _encoded:
        if item not in now:
            data.pop(item.partition(b"=")[0], None)
    for item in now:
        key, equals, value = item.partition(b"=")
        if equals and key and item not in _encoded:
            data[key] = value
    _encoded = now
