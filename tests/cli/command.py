"""What the tests of the command share: running it, a terminal to run it in, the closing line."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
import unittest

BRUMATE = os.environ.get("BRUMATE", "")


class Ended:
    """How a run ended: .code as a shell sees it, .out and .err as bytes."""

    def __init__(self, code, out=b"", err=b"", seconds=0.0):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def __repr__(self):
        return f"<code {self.code} out {self.out[-300:]!r} err {self.err[-600:]!r}>"


def environment(**more):
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH",)}
    env.update(more)
    return env


def run(*args, input=b"", timeout=60, env=None, **popen):
    if isinstance(input, str):
        input = input.encode()
    begin = time.monotonic()
    p = subprocess.Popen([BRUMATE, *map(os.fsencode, args)], env=environment(**(env or {})),
                         stdin=popen.pop("stdin", subprocess.PIPE),
                         stdout=popen.pop("stdout", subprocess.PIPE),
                         stderr=popen.pop("stderr", subprocess.PIPE), **popen)
    try:
        out, err = p.communicate(input if p.stdin else None, timeout)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        raise AssertionError(f"{args}: still running after {timeout} s: {out[-300:]} {err[-300:]}")
    code = p.returncode if p.returncode >= 0 else 128 - p.returncode
    return Ended(code, out or b"", err or b"", time.monotonic() - begin)


class Terminal:
    """The command in a terminal of its own: say() types, expect() waits for what appears."""

    def __init__(self, *args, env=None, program=None):
        # libedit never frees the name of a function given to it, which the leak checker minds.
        environ = environment(TERM="xterm", ASAN_OPTIONS="detect_leaks=0", **(env or {}))
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(program or BRUMATE, [program or BRUMATE, *args], environ)
        self.seen = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self, seconds):
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)

    def expect(self, text, seconds=20):
        """Everything up to and including `text`, without escape sequences."""
        end = time.monotonic() + seconds
        while True:
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]", "", self.seen)
            at = plain.find(text)
            if at >= 0:
                self.seen = plain[at + len(text):]
                return plain[:at + len(text)]
            left = end - time.monotonic()
            if left <= 0 or not self.read(left):
                raise AssertionError(f"{text!r} did not appear, but {plain[-500:]!r}")

    def say(self, line, wait=">>> "):
        """Types a line, waits for the next prompt, answers what came between."""
        self.type(line + "\n")
        return self.expect(wait)

    def local_echo(self):
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def finish(self, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            while self.read(0):
                pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            self.read(0.02)
        self.close()
        raise AssertionError(f"still there after {seconds} s: {self.seen[-300:]!r}")

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self.fd)
            self.pid = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Case(unittest.TestCase):
    maxDiff = 2000

    def ends(self, ended, code, out=None, err=None):
        """Checks an end; `err` is a regular expression over all of stderr."""
        self.assertEqual(ended.code, code, ended)
        if out is not None:
            self.assertEqual(ended.out, out.encode() if isinstance(out, str) else out, ended)
        if err is not None:
            self.assertRegex(ended.err.decode("utf-8", "replace"), re.compile(err), ended)

    def one_line(self, ended, code=120, words=""):
        """Our own failure: nothing on stdout, one line on stderr that has `words`."""
        text = ended.err.decode("utf-8", "replace")
        self.assertEqual(ended.code, code, ended)
        self.assertEqual(ended.out, b"", ended)
        self.assertTrue(text.startswith("brumate: ") and text.count("\n") == 1
                        and text.endswith("\n"), ended)
        self.assertFalse(re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text), ended)
        self.assertIn(words, text)


class Result(unittest.TextTestResult):
    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed = getattr(self, "passed", 0) + 1


def main():
    if not BRUMATE:
        sys.exit("set BRUMATE to the command to test")
    words = sys.argv[1:]
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    if words:
        flat = [t for group in suite for t in group]
        suite = unittest.TestSuite(t for t in flat if any(w in t.id() for w in words))
    result = unittest.TextTestRunner(sys.stderr, resultclass=Result).run(suite)
    failed = len({str(t) for t, _ in result.failures + result.errors})
    print(f"{getattr(result, 'passed', 0)} passed, {failed} failed"
          + (f", {len(result.skipped)} skipped" if result.skipped else ""))
    sys.exit(failed > 0 or getattr(result, "passed", 0) == 0)
