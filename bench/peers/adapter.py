"""What a product is asked for; a file of adapters/ answers for one product, in a process of its own.

Only `version`, `fresh` and `session` are required. What is left out raises Unsupported and is an n/a in the tables.
"""
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

# How a run ended, in the product's own view.
OK = "ok"
TIMEOUT = "timeout"
MEMORY = "memory limit"
OUTPUT = "output limit"
STACK = "stack limit"
GUEST = "exception"     # of the guest, MemoryError and RecursionError included
ERROR = "error"         # anything else: a trap, a worker that died, a fault of the host's side


class Unsupported(Exception):
    """The product has no such thing."""


@dataclass(frozen=True)
class Limits:
    """None is the most that the product lets its user set; `output` None is the product's own default."""
    seconds: float | None = None
    memory: int | None = None
    output: int | None = None
    callback_seconds: float | None = None


@dataclass
class Outcome:
    kind: str
    stdout: str = ""
    detail: str = ""    # the last line of the error

    @property
    def ok(self):
        return self.kind == OK


class Adapter:
    package = ""        # as the product's package is named

    def open(self):
        """Starts what the product needs once a process: an engine, a daemon, workers."""

    def close(self):
        """Stops it."""

    def version(self):
        raise NotImplementedError

    def start_program(self):
        """A host's program that runs print('hi') in a sandbox and prints what that printed."""
        raise Unsupported

    def import_program(self):
        """A host's program that imports the product."""
        raise Unsupported

    # -- fresh sandboxes

    def fresh(self, limits=None):
        """A function that runs code in a sandbox nobody used before, by the fastest way there is, and gives an
        Outcome. It raises nothing for what the guest did. Without limits: the product's own."""
        raise NotImplementedError

    def ways(self):
        """Ways for threads to run fresh sandboxes beside each other: {title: as of `fresh`}."""
        return {"threads": self.fresh()}

    def throughput(self, code, seconds):
        """Runs in fresh sandboxes as fast as two threads can: {title: a second}."""
        return {title: rate_of_threads(run, code, seconds) for title, run in self.ways().items()}

    # -- sessions

    def session(self):
        raise Unsupported

    def run(self, session, code):
        raise NotImplementedError

    def end(self, session):
        """Ends a session and gives back what it holds."""

    # -- host functions: `echo` gives back its argument x, `slow` blocks

    def call(self, code, asynchronous):
        """Runs code for which echo is bound. The host's function is a plain or an `async def` one, and the host a
        plain caller or one on a running event loop."""
        raise Unsupported

    def call_word(self, asynchronous):
        """What stands before a call of a host function in the guest."""
        return "await "

    def slow(self, seconds, limits):
        """Runs a call of a host function that sleeps so long without giving way."""
        raise Unsupported

    # -- images

    def build(self, imports, wheels):
        raise Unsupported

    def save(self, image, path):
        raise Unsupported

    def load(self, path):
        raise Unsupported

    def fresh_from(self, image):
        """As `fresh`, from that image."""
        raise Unsupported

    # -- wheels

    def attach(self, wheels):
        """Makes wheels importable by the cheapest means; a function as of `fresh`."""
        raise Unsupported


def rate_of_threads(run, code, seconds, threads=2):
    counts = [0] * threads
    begin = time.perf_counter()

    def work(n):
        while time.perf_counter() - begin < seconds:
            outcome = run(code)
            if not outcome.ok:
                raise RuntimeError(f"{outcome.kind}: {outcome.detail}")
            counts[n] += 1

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return sum(counts) / (time.perf_counter() - begin)


def last_line(text):
    lines = [line for line in str(text).splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else ""


def family(root):
    """root and all that descend from it."""
    children = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(entry))
    found, todo = [], [root]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], ())
    return found
