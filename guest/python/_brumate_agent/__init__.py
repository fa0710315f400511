"""The agent: what runs user code inside the guest, and reports to the host.

User code shares this interpreter and may break it. So everything the agent uses is bound here,
before user code runs, and the agent's modules have a copy of the builtins of their own. Whatever
the agent still cannot do, the reactor (guest/c/reactor.c) does without it.
"""

import builtins
import importlib.util
import sys

_builtins = dict(vars(builtins))


def _load(name):
    full = f"{__name__}.{name}"
    spec = importlib.util.find_spec(full)
    module = importlib.util.module_from_spec(spec)
    module.__builtins__ = _builtins
    sys.modules[full] = module
    spec.loader.exec_module(module)
    globals()[name] = module
    return module


for _name in ("no_network", "report", "calls", "capture", "loops", "threads", "console", "run", "life"):
    _load(_name)

# What the reactor calls, by these names.
begin = console.begin
check = console.check
complete = console.complete
start = run.start
finish = run.finish
struck = run.struck
deliver = run.deliver
cancel = run.cancel
lines = report.lines
wake = life.wake
boot = life.boot
rehearsal = life.REHEARSAL
rehearsed = life.rehearsed
clear = life.clear
expect = calls.expect
forget = calls.forget
answer = calls.deliver
error = calls.error
blame = calls.blame
describe = calls.describe
to_json = capture.to_json
