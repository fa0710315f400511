"""pysandbox-wasi: CPython on Wasmtime, in a daemon."""
import asyncio
import importlib.metadata
import tempfile
import time
from pathlib import Path

import pysandbox

from adapter import ERROR, GUEST, MEMORY, OK, OUTPUT, TIMEOUT, Adapter, Outcome, Unsupported, last_line

# A worker keeps its names, but has no `run this text`.
WORKER = """
import traceback as _t
def _run(_c):
    try: exec(_c, globals())
    except BaseException: return _t.format_exc()
"""

START = """
import asyncio, sys
from pysandbox import PythonRuntime
async def main():
    runtime = PythonRuntime()
    result = await runtime.execute("print('hi')")
    sys.stdout.write(result.output.text); sys.stdout.flush()
    await runtime.close()
asyncio.run(main())
"""

REASONS = {"COMPLETED": OK, "TIMEOUT": TIMEOUT, "MEMORY_LIMIT": MEMORY, "OUTPUT_LIMIT": OUTPUT, "GUEST_ERROR": GUEST}


def runtime_limits(limits):
    if limits is None:
        return pysandbox.RuntimeLimits(guest_dispatch_request_queue_capacity=4096)
    return pysandbox.RuntimeLimits(max_memory_bytes=limits.memory or 1 << 32, timeout=limits.seconds,
                                   max_output_bytes=limits.output or 256 << 10)


class Pysandbox(Adapter):
    package = "pysandbox-wasi"

    def open(self):
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.runtime = pysandbox.PythonRuntime(host_dispatch_queue_capacity=4096)

        @self.runtime.rpc.expose
        def echo(context: pysandbox.RpcContext, /, x: int) -> int:
            return x

        @self.runtime.rpc.expose
        async def echo_later(context: pysandbox.RpcContext, /, x: int) -> int:
            return x

        @self.runtime.rpc.expose
        def slow(context: pysandbox.RpcContext, /, seconds: float) -> None:
            time.sleep(seconds)

    def close(self):
        self.wait(self.runtime.close())

    def wait(self, awaitable):
        return self.loop.run_until_complete(awaitable)

    def version(self):
        guest = self.fresh()("import sys; print(sys.version.split()[0])").stdout.strip()
        return f"{importlib.metadata.version('pysandbox-wasi')}, guest CPython {guest}"

    def import_program(self):
        return "import pysandbox"

    def start_program(self):
        return START

    async def once(self, code, limits, packages=None):
        try:
            result = await self.runtime.execute(code, limits=limits, packages=packages)
        except Exception as error:
            return Outcome(ERROR, detail=f"{type(error).__name__}: {last_line(error)}")
        kind = REASONS.get(result.reason.name, ERROR)
        return Outcome(kind, result.output.text, "" if kind == OK else f"{result.reason}: {last_line(result.error or '')}")

    def fresh(self, limits=None, packages=None):
        limits = runtime_limits(limits)
        return lambda code: self.wait(self.once(code, limits, packages))

    def throughput(self, code, seconds):
        # one loop serves all: tasks stand for the threads
        async def work(begin):
            count = 0
            while time.perf_counter() - begin < seconds:
                outcome = await self.once(code, None)
                if not outcome.ok:
                    raise RuntimeError(f"{outcome.kind}: {outcome.detail}")
                count += 1
            return count

        async def crowd(tasks):
            begin = time.perf_counter()
            counts = await asyncio.gather(*[work(begin) for _ in range(tasks)])
            return sum(counts) / (time.perf_counter() - begin)
        return {f"{tasks} tasks": self.wait(crowd(tasks)) for tasks in (2, 4)}

    def session(self):
        async def begin():
            worker = self.runtime.run(WORKER, limits=runtime_limits(None))
            await worker.call(("_run",), None, "0")
            return worker
        return self.wait(begin())

    def run(self, session, code):
        # what it prints arrives on a stream of the worker's, which is not read here
        try:
            error = self.wait(session.call(("_run",), None, code))
        except Exception as fault:
            return Outcome(ERROR, detail=f"{type(fault).__name__}: {last_line(fault)}")
        return Outcome(GUEST, detail=last_line(error)) if error else Outcome(OK)

    def end(self, session):
        self.wait(session.close())

    def call(self, code, asynchronous):
        return self.fresh()(f"echo = echo_later\n{code}" if asynchronous else code)

    def slow(self, seconds, limits):
        if limits.callback_seconds:
            raise Unsupported("no limit for a host function")
        return self.fresh(limits)(f"await slow({seconds})")

    def attach(self, wheels):
        self.cache = tempfile.TemporaryDirectory()
        manager = pysandbox.PackageManager(cache=pysandbox.PackageCache(Path(self.cache.name)))
        packages = self.wait(manager.resolve(*[
            pysandbox.Package(Path(wheel).name.split("-")[0], source=Path(wheel), build=False, include_dependencies=False)
            for wheel in wheels]))
        return self.fresh(packages=packages)


ADAPTER = Pysandbox
