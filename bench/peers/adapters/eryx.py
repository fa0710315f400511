"""pyeryx: CPython on Wasmtime, in the host's process."""
import importlib.metadata
import time

import eryx

from adapter import ERROR, GUEST, MEMORY, OK, TIMEOUT, Adapter, Outcome, last_line


async def echo_later(x):
    return x


def outcome(run, code):
    try:
        result = run(code)
    except eryx.TimeoutError as error:
        return Outcome(TIMEOUT, detail=last_line(error))
    except eryx.ResourceLimitError as error:
        return Outcome(MEMORY, detail=last_line(error))
    except eryx.ExecutionError as error:
        return Outcome(GUEST if "Traceback" in str(error) else ERROR, detail=last_line(error))
    except Exception as error:
        return Outcome(ERROR, detail=f"{type(error).__name__}: {last_line(error)}")
    return Outcome(OK, result.stdout_text)


def milliseconds(seconds):
    return int(seconds * 1000) if seconds else None


def resource_limits(limits):
    return eryx.ResourceLimits(execution_timeout_ms=milliseconds(limits.seconds), max_memory_bytes=limits.memory,
                               callback_timeout_ms=milliseconds(limits.callback_seconds), max_callback_invocations=None)


def fresh_of(sandbox):
    return lambda code: outcome(sandbox.execute, code)


class Eryx(Adapter):
    package = "pyeryx"

    def version(self):
        guest = eryx.Sandbox().execute("import sys; print(sys.version.split()[0])").stdout_text.strip()
        return f"{importlib.metadata.version('pyeryx')}, guest CPython {guest}"

    def import_program(self):
        return "import eryx"

    def start_program(self):
        return "import eryx, sys\nsys.stdout.write(eryx.Sandbox().execute(\"print('hi')\").stdout_text)"

    def fresh(self, limits=None):
        return fresh_of(eryx.Sandbox(resource_limits=limits and resource_limits(limits)))

    def ways(self):
        return {"one Sandbox": self.fresh(), "a Sandbox each": lambda code: outcome(eryx.Sandbox().execute, code)}

    def session(self):
        return eryx.Session()

    def run(self, session, code):
        return outcome(session.execute, code)

    def call(self, code, asynchronous):
        function = echo_later if asynchronous else lambda x: x
        sandbox = eryx.Sandbox(callbacks=[{"name": "echo", "fn": function, "description": "echo"}],
                               resource_limits=eryx.ResourceLimits(max_callback_invocations=None))
        return outcome(sandbox.execute, code)

    def slow(self, seconds, limits):
        sandbox = eryx.Sandbox(callbacks=[{"name": "slow", "fn": lambda: time.sleep(seconds), "description": "slow"}],
                               resource_limits=resource_limits(limits))
        return outcome(sandbox.execute, "await slow()")

    def build(self, imports, wheels):
        return eryx.SandboxFactory(imports=imports, packages=wheels or None)

    def save(self, image, path):
        image.save(path)

    def load(self, path):
        return eryx.SandboxFactory.load(path)

    def fresh_from(self, image):
        return lambda code: outcome(image.create_sandbox().execute, code)

    def attach(self, wheels):
        return self.fresh_from(eryx.SandboxFactory(packages=wheels))


ADAPTER = Eryx
