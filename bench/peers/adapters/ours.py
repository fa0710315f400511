"""brumate: as its package is laid out in the build folder, or installed."""
import asyncio
import os
import time

import brumate

from adapter import ERROR, GUEST, MEMORY, OK, OUTPUT, STACK, TIMEOUT, Adapter, Outcome, last_line

async def echo_later(x):
    return x


def failure(error):
    line = last_line(error)
    if isinstance(error, brumate.TimeoutError):
        return Outcome(TIMEOUT, detail=line)
    if isinstance(error, brumate.ResourceLimitError):
        kind = OUTPUT if "output" in line else STACK if "stack" in line else MEMORY
        return Outcome(kind, detail=line)
    if isinstance(error, brumate.ExecutionError):
        return Outcome(GUEST if error.exception_type else ERROR, error.stdout or "", line)
    return Outcome(ERROR, detail=f"{type(error).__name__}: {line}")


def outcome(run, code):
    try:
        result = run(code)
    except Exception as error:
        return failure(error)
    return Outcome(OK, result.stdout)


def milliseconds(seconds):
    return int(seconds * 1000) if seconds else None


def resource_limits(limits):
    more = {} if limits.output is None else {"max_output_bytes": limits.output}
    return brumate.ResourceLimits(execution_timeout_ms=milliseconds(limits.seconds), max_memory_bytes=limits.memory,
                                  callback_timeout_ms=milliseconds(limits.callback_seconds),
                                  max_callback_invocations=None, **more)


def fresh_of(sandbox):
    return lambda code: outcome(sandbox.execute, code)


class Ours(Adapter):
    package = "brumate"

    def open(self):
        self.pool = None

    def close(self):
        if self.pool:
            self.pool.shutdown()

    def version(self):
        guest = brumate.Sandbox().execute("import sys; print(sys.version.split()[0])").stdout.strip()
        return f"{getattr(brumate, '__version__', 'of the tree')}, guest CPython {guest}"

    def import_program(self):
        return "import brumate"

    def start_program(self):
        return "import brumate, sys\nsys.stdout.write(brumate.Sandbox().execute(\"print('hi')\").stdout)"

    def fresh(self, limits=None):
        return fresh_of(brumate.Sandbox(resource_limits=limits and resource_limits(limits)))

    def ways(self):
        if self.pool is None:
            self.pool = brumate.Pool(size=os.cpu_count())
        return {"one Sandbox": self.fresh(), "a Sandbox each": lambda code: outcome(brumate.Sandbox().execute, code),
                "a Pool": lambda code: outcome(lambda c: self.pool.submit(c).result(), code)}

    def session(self):
        return brumate.Session()

    def run(self, session, code):
        return outcome(session.execute, code)

    def end(self, session):
        session.close()

    def call(self, code, asynchronous):
        limits = brumate.ResourceLimits(max_callback_invocations=None)
        sandbox = brumate.Sandbox(callbacks={"echo": echo_later if asynchronous else lambda x: x}, resource_limits=limits)
        if not asynchronous:
            return outcome(sandbox.execute, code)
        return outcome(lambda c: asyncio.run(sandbox.execute_async(c)), code)

    def slow(self, seconds, limits):
        sandbox = brumate.Sandbox(callbacks={"slow": lambda: time.sleep(seconds)}, resource_limits=resource_limits(limits))
        return outcome(sandbox.execute, "await slow()")

    def build(self, imports, wheels):
        return brumate.SandboxFactory(packages=wheels, imports=imports)

    def save(self, image, path):
        image.save(path)

    def load(self, path):
        return brumate.SandboxFactory.load(path)

    def fresh_from(self, image):
        return lambda code: outcome(image.create_sandbox().execute, code)

    def attach(self, wheels):
        return self.fresh_from(brumate.SandboxFactory(packages=wheels))


ADAPTER = Ours
