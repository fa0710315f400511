"""pydantic-monty: not CPython but an interpreter of a part of Python, in worker processes."""
import asyncio
import importlib.metadata
import time

import pydantic_monty

from adapter import ERROR, GUEST, MEMORY, OK, TIMEOUT, Adapter, Outcome, Unsupported, last_line

START = """
import sys
from pydantic_monty import Monty
def show(stream, text):
    sys.stdout.write(text); sys.stdout.flush()
with Monty() as pool:
    with pool.checkout() as session:
        session.feed_run("print('hi')", print_callback=show)
"""
OUTPUT_CEILING = 10 << 20
CALLS = {"max_suspensions": 10**9}


async def echo_later(x):
    return x


def worker_limits(limits):
    if limits is None:
        return None
    found = dict(CALLS)
    if limits.seconds:
        # sleeping is not on the first clock
        found |= {"max_feed_duration_secs": limits.seconds, "max_total_sleep_secs": limits.seconds}
    if limits.memory:
        found["max_memory"] = limits.memory
    return found


def failure(error, printed):
    line = last_line(error)
    if isinstance(error, pydantic_monty.MontyCrashedError):
        return Outcome(TIMEOUT if error.timed_out else ERROR, detail=f"MontyCrashedError: {line}")
    if isinstance(error, pydantic_monty.MontyRuntimeError):
        if "TimeoutError" in line or "time limit" in line:
            return Outcome(TIMEOUT, detail=line)
        return Outcome(MEMORY if "memory limit" in line else GUEST, printed[:10_000], line)
    return Outcome(ERROR, detail=f"{type(error).__name__}: {line}")


class Monty(Adapter):
    package = "pydantic-monty"

    def open(self):
        self.pool = pydantic_monty.Monty(min_processes=2, max_processes=64)
        self.pool.__enter__()

    def close(self):
        self.pool.__exit__(None, None, None)

    def version(self):
        return f"{importlib.metadata.version('pydantic-monty')}, a part of Python, not CPython"

    def import_program(self):
        return "import pydantic_monty"

    def start_program(self):
        return START

    def feed(self, session, code, ceiling=OUTPUT_CEILING, **functions):
        printed = pydantic_monty.CollectString(max_bytes=ceiling)
        try:
            session.feed_run(code, print_callback=printed, external_lookup=functions or None)
        except Exception as error:
            return failure(error, printed.output)
        return Outcome(OK, printed.output)

    def fresh(self, limits=None):
        ceiling = limits.output if limits and limits.output else OUTPUT_CEILING

        def run(code):
            with self.pool.checkout(limits=worker_limits(limits)) as session:
                return self.feed(session, code, ceiling)
        return run

    def session(self):
        session = self.pool.checkout()
        session.__enter__()
        return session

    def run(self, session, code):
        return self.feed(session, code)

    def end(self, session):
        session.__exit__(None, None, None)

    def call_word(self, asynchronous):
        return "await " if asynchronous else ""

    def call(self, code, asynchronous):
        if not asynchronous:
            if "gather" in code:
                raise Unsupported("calls of plain functions cannot be awaited")
            with self.pool.checkout(limits=CALLS) as session:
                return self.feed(session, code, echo=lambda x: x)
        printed = pydantic_monty.CollectString()

        async def run():
            async with pydantic_monty.AsyncMonty() as pool:
                async with pool.checkout(limits=CALLS) as session:
                    await session.feed_run(code, external_lookup={"echo": echo_later}, print_callback=printed)
        try:
            asyncio.run(run())
        except Exception as error:
            return failure(error, printed.output)
        return Outcome(OK, printed.output)

    def slow(self, seconds, limits):
        if limits.callback_seconds:
            raise Unsupported("no limit for a host function")
        with self.pool.checkout(limits=worker_limits(limits)) as session:
            return self.feed(session, "slow()", slow=lambda: time.sleep(seconds))


ADAPTER = Monty
