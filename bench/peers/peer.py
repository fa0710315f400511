"""The side that asks: a product's process, under a watchdog."""
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from adapter import family

HERE = Path(__file__).resolve().parent
PAGE = os.sysconf("SC_PAGE_SIZE")


class Failed(Exception):
    """The measure failed, or took the product's process with it."""


class Unknown(Exception):
    """The product has no such thing."""


class Peer:
    def __init__(self, product):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([product.python, HERE / "child.py", product.adapter], env=product.environment,
                                        start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors)
        self.peak = 0.0
        self.pending = b""

    def alive(self):
        return self.process.poll() is None

    def resident(self):
        """MB of the process and all that it started."""
        pages = 0
        for pid in family(self.process.pid):
            try:
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            except (OSError, IndexError):
                continue  # it has ended
        return pages * PAGE / (1 << 20)

    def ask(self, name, /, timeout=120, watch=False, **args):
        """watch: also note in `peak` what is resident at most meanwhile."""
        self.peak = 0.0
        try:
            self.process.stdin.write(json.dumps({"name": name, "args": args}).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise Failed("the host's process is gone: " + self.obituary()) from None
        end = time.perf_counter() + timeout
        while b"\n" not in self.pending:
            left = end - time.perf_counter()
            if left <= 0:
                self.kill()
                raise Failed(f"no return within {timeout:g} s")
            if select.select([self.process.stdout], [], [], min(left, 0.02) if watch else left)[0]:
                data = os.read(self.process.stdout.fileno(), 1 << 16)
                if not data:
                    raise Failed("the host's process died: " + self.obituary())
                self.pending += data
            elif watch:
                self.peak = max(self.peak, self.resident())
        line, _, self.pending = self.pending.partition(b"\n")
        reply = json.loads(line)
        if "unsupported" in reply:
            raise Unknown(reply["unsupported"])
        if "error" in reply:
            raise Failed(reply["error"])
        return reply["value"]

    def obituary(self):
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read()[-400:].decode(errors="replace").strip().splitlines()
        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return f"{name} ({said[-1][:160]})" if said else name

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def quit(self):
        """How it ended: its exit code, or None if it did not end by itself."""
        try:
            self.process.stdin.write(b'{"name": "quit"}\n')
            self.process.stdin.close()
            code = self.process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            code = None
        self.kill()
        self.process.stdout.close()
        self.errors.close()
        return code
