"""Runs one module of CPython's test suite inside the sandbox.

    in_guest.py MODULE LOG [--skip TEST]...

Each line of LOG is the repr of a tuple: ("start", test), then how that test ended: ("passed",),
("skipped", why) or ("failed", summary, traceback); ("module", why) if the module skips itself as a
whole; ("end",) when all is done. What has no ("end",) died, in the test started last.
"""
import gc
import importlib
import importlib.machinery
import os
import sys
import traceback
import types
import unittest

RESOURCES = ["decimal", "subprocess", "curses", "tzdata", "walltime"]
# CPython's C modules for tests are not in the image. Most test modules skip what needs them; these would
# fail or skip as a whole for the sake of a few tests, so they get a stand-in.
STAND_INS = {
    "test_bytes": ["_testlimitedcapi"],
    "test_class": ["_testinternalcapi"],
    "test_code": ["_testinternalcapi"],
    "test_compile": ["_testinternalcapi"],
    "test_compileall": ["_testsinglephase"],
    "test_dis": ["_testinternalcapi"],
    "test_getpath": ["_testinternalcapi"],
    "test_import": ["_testsinglephase"],
    "test_marshal": ["_testinternalcapi"],
    "test_monitoring": ["_testcapi"],
    "test_opcache": ["_testinternalcapi"],
    "test_pkgutil": ["_testsinglephase"],
    "test_pyclbr": ["_testsinglephase"],
}
# Classes of tests that are about those modules only.
ABOUT_THEM = {"test_import": ("SinglephaseInitTests",), "test_monitoring": ("TestCApiEventGeneration", "TestCApiEvent")}


class StandIn(types.ModuleType):
    """What uses anything of it is skipped, but for what test.support asks on the way."""

    get_config = staticmethod(lambda: {"code_debug_ranges": 1})
    get_immortalize_deferred = staticmethod(lambda: False)
    suppress_immortalization = staticmethod(lambda on: None)

    @staticmethod
    def get_recursion_depth():
        raise ImportError("test.support counts frames instead")

    def __getattr__(self, name):
        if name.startswith("__") or name == "get_optimizer":
            raise AttributeError(name)

        def absent(*args, **kwargs):
            raise unittest.SkipTest(f"needs {self.__name__}, which is not in the image")
        return absent


class Log(unittest.TestResult):
    """Written through at once, by what a test cannot have replaced."""

    def __init__(self, fd):
        super().__init__()
        self.fd = fd
        self.test = None
        self.done = False

    def put(self, *what, write=os.write, text=repr):
        write(self.fd, (text(what) + "\n").encode("utf-8", "backslashreplace"))

    def began(self, test):
        if self.test is not test:
            self.put("start", test.id())
            self.test, self.done = test, False

    def startTest(self, test):
        super().startTest(test)
        self.began(test)

    def ended(self, test, *what):
        self.began(test)
        self.done = True
        self.put(*what)

    def failed(self, test, exc):
        lines = traceback.format_exception(*exc)
        text = "".join(lines)
        self.ended(test, "failed", lines[-1].strip()[:500], text[-4000:])

    def addSuccess(self, test):
        if not self.done:
            self.ended(test, "passed")

    def addExpectedFailure(self, test, exc):
        self.ended(test, "passed")

    def addUnexpectedSuccess(self, test):
        self.ended(test, "failed", "unexpected success", "")

    def addSkip(self, test, why):
        self.ended(test, "skipped", str(why))

    def addSubTest(self, test, subtest, exc):
        if exc is not None:
            self.failed(test, exc)

    def addError(self, test, exc):
        self.failed(test, exc)

    addFailure = addError


def without(suite, skip):
    """The suite's tests but those to skip (names of tests or classes), in suites as they were."""
    kept = []
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            kept.append(without(test, skip))
        elif test.id() not in skip and type(test).__name__ not in skip:
            kept.append(test)
    suite._tests = kept
    return suite


def prepare(module):
    sys.path.append("/cpython")         # for what the image leaves out: venv, ensurepip ...
    importlib.invalidate_caches()
    sys.modules["__main__"].__spec__ = importlib.machinery.ModuleSpec("in_guest", None)  # as run by -m
    for name in STAND_INS.get(module, ()):
        sys.modules[name] = StandIn(name)
    from test import support
    support.verbose = 0
    support.failfast = False
    support.use_resources = RESOURCES
    support.record_original_stdout(sys.stdout)
    sys.stdout.reconfigure(errors="backslashreplace")
    os.makedirs("/tmp/test_python", exist_ok=True)
    os.chdir("/tmp/test_python")


def deeper(n, run):
    """Runs something below n frames: some tests count on those of CPython's own runner."""
    return deeper(n - 1, run) if n else run()


def main(module, log, skip):
    result = Log(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666))
    prepare(module)
    try:
        loader = unittest.TestLoader()
        suite = loader.loadTestsFromModule(importlib.import_module("test." + module))
        if loader.errors:
            raise ImportError(loader.errors[0])
    except unittest.SkipTest as why:
        result.put("module", str(why))
    except BaseException as e:
        result.put("start", "import of test." + module)
        result.put("failed", traceback.format_exception_only(e)[-1].strip()[:500],
                   "".join(traceback.format_exception(e))[-4000:])
    else:
        suite = without(suite, skip.union(ABOUT_THEM.get(module, ())))
        deeper(10, lambda: suite.run(result))
        gc.collect()
    result.put("end")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], {sys.argv[i + 1] for i, a in enumerate(sys.argv) if a == "--skip"})
