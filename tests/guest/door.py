"""A stand-in for the guest's built-in module `_brumate` and for the reactor, so that the agent can
be tested under a native Python: `python3.13 -m unittest discover tests/guest`."""

import contextlib
import io
import os
import struct
import sys
import time
import types

CALL, REPLY, DROP = 2, 3, 5
OK, EXCEPTION, EXIT, SOFT_STOP, INTERRUPT, CANCELLED = range(6)
DONE, PENDING = 0, 1
DISPLAY, MODULE, FINAL = 1, 2, 4
TOP_LEVEL_AWAIT, CO_COROUTINE = 0x2000, 0x80


class TimeLimit(BaseException):
    def __init__(self, *args):
        super().__init__(*(args or ("the time limit was reached",)))
        door.struck = self


class Interrupt(KeyboardInterrupt):
    def __init__(self, *args):
        super().__init__(*args)
        door.struck = self


TimeLimit.__module__ = Interrupt.__module__ = "builtins"
Interrupt.__name__ = Interrupt.__qualname__ = "KeyboardInterrupt"


class Door:
    """What the host would see, and what it would answer."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.posts = []
        self.calls = 0
        self.functions = []
        self.captured = None   # called when an execution that ended well captures its variable
        self.shown = []
        self.room = True       # whether artifacts are taken
        self.results = []
        self.acks = 0
        self.struck = None
        self.loop_used = False
        self.flags = 0
        self.at_rest = None
        self.answer = None   # called with (id, name, payload) of a call: bytes, or None for later
        self.parked = None   # called with the time while the guest is parked: records of replies
        self.ready = b""
        self.on_result = None


door = Door()


def record(ident, data, ok=True):
    return struct.pack("<IIII", ident, ok, len(data), 0) + data


def _post(kind, data):
    door.posts.append((kind, bytes(data)))
    if kind == CALL and door.answer:
        ident, size = struct.unpack_from("<II", data)
        data = door.answer(ident, data[8:8 + size].decode(), data[8 + size:])
        if data is not None:
            door.ready += record(ident, data)
            return len(door.ready)
    return 0


class CallError(Exception):
    pass


async def call(name, payload):
    """As the reactor's calls of host functions, but with bytes both ways."""
    return await _Call(name, payload)


class _Call:
    def __init__(self, name, payload):
        door.calls += 1
        self.ident = door.calls
        self.message = struct.pack("<II", self.ident, len(name)) + name.encode() + payload

    def __await__(self):
        answers, others = [], []
        if _post(CALL, self.message):
            ready, door.ready = agent.calls.parse(door.ready), b""
            for reply in ready:
                (answers if reply[0] == self.ident else others).append(reply)
            agent.answer(others)
        if answers:
            _, ok, data = answers[0]
        else:
            try:
                ok, data = yield from agent.expect(self.ident)
            except BaseException:
                agent.forget(self.ident)
                raise
        if ok:
            return data
        raise agent.error(data.decode())


def _wait(wake_at):
    if door.parked:
        return door.parked(wake_at)
    if wake_at < 0:
        raise AssertionError("parked for ever")
    time.sleep(max(0, wake_at / 1e9 - time.monotonic()))
    return b""


def _struck():
    exc, door.struck = door.struck, None
    return exc


def _result(*end):
    if door.on_result:
        door.on_result()
    door.results.append(end)


def _module():
    module = types.ModuleType("_brumate")
    module.TimeLimit, module.Interrupt = TimeLimit, Interrupt
    module.post, module.wait, module.result = _post, _wait, _result
    module.CallError = CallError
    module.functions = lambda: agent.describe(door.functions)
    module.capture = lambda: door.captured and door.captured()
    module.show = _show
    module.struck = _struck
    module.soft_ack = lambda: setattr(door, "acks", door.acks + 1)
    module.rest = lambda *at_rest: setattr(door, "at_rest", at_rest)
    module.settle = lambda: None
    module.loop_used = lambda: setattr(door, "loop_used", True)
    module.exec_flags = lambda: door.flags
    module.environ = lambda: [b"%s=%s" % item for item in os.environb.items()]
    module.stir = lambda random, entropy: False
    module.remember = _remember
    module.module_clear = lambda module: vars(module).clear()
    return module


def _show(kind, data):
    if door.room:
        door.shown.append((kind, bytes(data)))
    return door.room


def _remember(name, source):
    agent.lines[name] = (len(source), None, source.splitlines(keepends=True), name)


def _load():
    """The agent, with a `__main__` of its own for user code."""
    own = sys.modules["__main__"]
    sys.modules["_brumate"] = _module()
    sys.modules["__main__"] = types.ModuleType("__main__")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.insert(0, os.path.join(root, "guest", "python"))
    try:
        import _brumate_agent
        import _callbacks  # noqa: F401
        import brumate  # noqa: F401
    finally:
        del sys.path[0]
        sys.modules["__main__"] = own
    return _brumate_agent


agent = _load()
main = agent.run._main
names = vars(main)
_first_names = dict(names)


def _run(what):
    """As the reactor's exec_run()."""
    if isinstance(what, types.CoroutineType):
        return what
    for code in what if isinstance(what, tuple) else (what,):
        value = eval(code, names)
        if code.co_flags & CO_COROUTINE:
            return value
    return None


def _users(tb):
    """The traceback from the user's first frame on."""
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(os.path.dirname(__file__)):
        tb = tb.tb_next
    return tb


def _step(function, *args):
    """As the reactor's agent_call()."""
    for _ in range(4):
        try:
            return function(*args)
        except (TimeLimit, Interrupt) as exc:
            function, args = agent.struck, (exc,)
    raise AssertionError("struck too often")


def execute(source, flags=0, name="<brumate>", args=()):
    """As the reactor's step_exec(): an agent_rest."""
    door.flags = flags
    door.struck = None
    door.loop_used = False
    try:
        if args or name != "<brumate>" or flags & ~FINAL:
            what = agent.begin(flags, name, list(args), source)
        else:
            _remember(name, source)
            what = compile(source, name, "exec", TOP_LEVEL_AWAIT, dont_inherit=True)
        value, failure = _run(what), None
    except BaseException as exc:
        exc.__traceback__ = _users(exc.__traceback__)
        failure = exc
    if failure is not None:
        return _step(agent.finish, failure)
    if value is not None:
        return _step(agent.start, value)
    if door.loop_used or flags & FINAL:
        return _step(agent.finish, None)
    door.results.append((OK, 0, "", "", ""))
    return DONE


def deliver(*replies):
    return _step(agent.deliver, list(replies))


def cancel():
    return _step(agent.cancel, None)


class Ran:
    """An execution driven to its end, timers and all."""

    def __init__(self, source, **options):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            began = time.monotonic()
            self.rests = [execute(source, **options)]
            while self.rests[-1] == PENDING and door.at_rest[0] >= 0:
                time.sleep(max(0, door.at_rest[0] / 1e9 - time.monotonic()))
                self.rests.append(deliver())
            self.seconds = time.monotonic() - began
        self.out = "" if out.closed else out.getvalue()
        self.err = "" if err.closed else err.getvalue()
        (self.end, self.code, self.type, self.text, self.traceback), = door.results or [(None,) * 5]


def program(path):
    """Runs a file as a whole program in this process, and ends it."""
    fresh()
    with open(path, encoding="utf-8") as file:
        execute(file.read(), name=path, flags=FINAL)
    sys.stdout.flush()
    os._exit(door.results[-1][1] & 0xFF)


def fresh():
    """Before each test."""
    names.clear()
    names.update(_first_names)
    names["__builtins__"] = __builtins__
    names["call"] = call
    agent.lines.clear()
    agent.calls.pending.clear()
    agent.loops.renew()
    agent.run.run.clear()
    door.clear()
