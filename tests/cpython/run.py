#!/usr/bin/env python3
"""Runs CPython's own test suite in the sandbox, module by module, each in a fresh Python.

    run.py --source TREE [MODULE...] [--quick] [-j N] [--brumate FILE]

Writes build/cpython-tests.json (module -> passed, failed, skipped, how it ended, failures) and, after a
full run, docs/cpython-tests.md. A failure is known if reasons.toml says why; others fail the run.
What a module printed is kept in build/cpython-tests/. A module whose Python dies (a limit, a crash) is
run again without the test that did it, so that one test does not hide the rest.
"""
import argparse
import ast
import collections
import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import report

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
DEATHS = {122: "crashed", 123: "stack limit", 124: "time limit", 125: "memory limit", 126: "output limit"}
AGAIN = 8          # runs of one module at most
PACKAGES_OF_MODULES = {"test_asyncio", "test_concurrent_futures", "test_future_stmt", "test_gdb",
                       "test_inspect", "test_multiprocessing_fork", "test_multiprocessing_forkserver",
                       "test_multiprocessing_spawn", "test_pydoc"}


def modules_below(folder, prefix=""):
    """The same list as CPython's runner makes."""
    for path in sorted(folder.iterdir()):
        name = prefix + path.stem
        if not path.name.startswith("test_") or path.suffix not in (".py", ""):
            continue
        if name in PACKAGES_OF_MODULES:
            yield from modules_below(path, name + ".")
        else:
            yield name


def read_log(path):
    """(tests: name -> how it ended, why the module skips itself, the test it died in)"""
    tests, module, last, ended = {}, None, None, False
    for line in path.read_text("utf-8", "replace").splitlines() if path.exists() else ():
        try:
            kind, *rest = ast.literal_eval(line)
        except (ValueError, SyntaxError):
            continue
        if kind == "start":
            last = rest[0]
            tests.setdefault(last, ("passed",))
        elif kind == "module":
            module = rest[0]
        elif kind == "end":
            ended = True
        elif last and tests.get(last, ("",))[0] != "failed":
            tests[last] = (kind, *rest)
    return tests, module, None if ended else last or "before the first test"


class Runner:
    def __init__(self, options, logs):
        self.options = options
        self.logs = logs
        self.library = options.source / "Lib"
        header = (options.source / "Include" / "patchlevel.h").read_text()
        version = re.search(r'PY_VERSION\s+"(\d+\.\d+)', header).group(1)
        self.place = f"/lib/python{version}/test"

    def once(self, module, skip):
        log = self.logs / (module + ".log")
        log.unlink(missing_ok=True)
        command = [self.options.brumate, "--timeout", self.options.timeout, "--memory", self.options.memory,
                   "--output", "16M", "--output-policy", "cut", "--files", "3G",
                   "-v", f"{self.library}:/cpython", "-v", f"{self.library / 'test'}:{self.place}", "-v", f"{self.logs}:/log:rw",
                   HERE / "in_guest.py", module, f"/log/{module}.log"]
        for test in skip:
            command += ["--skip", test]
        with open(self.logs / (module + ".out"), "ab") as out:
            out.write(b"---- %s\n" % " ".join(map(str, command)).encode())
            out.flush()
            code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out).returncode
        return code, *read_log(log)

    def module(self, module):
        began = time.monotonic()
        (self.logs / (module + ".out")).unlink(missing_ok=True)
        tests, deaths = {}, {}
        for _ in range(AGAIN):
            code, found, why, died_in = self.once(module, deaths)
            tests.update(found)
            if died_in is None:
                break
            deaths[died_in] = ("failed", DEATHS.get(code, f"exit code {code}"), "")
            tests.update(deaths)
            if died_in == "before the first test" or died_in.startswith(("setUpClass", "setUpModule")):
                break
        return self.summary(tests, why, time.monotonic() - began)

    @staticmethod
    def summary(tests, why, seconds):
        count = collections.Counter(t[0] for t in tests.values())
        failures = {name: list(t[1:]) for name, t in tests.items() if t[0] == "failed"}
        skips = collections.Counter(t[1] for t in tests.values() if t[0] == "skipped")
        return {"passed": count["passed"], "failed": count["failed"], "skipped": count["skipped"],
                "module_skipped": why, "seconds": round(seconds, 1), "skips": dict(skips), "failures": failures}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="default: all")
    parser.add_argument("--source", type=Path, help="CPython's source; default: asks guest/build")
    parser.add_argument("--brumate", type=Path, default=REPO / "build" / "brumate")
    parser.add_argument("--quick", action="store_true", help="the modules of quick.txt")
    parser.add_argument("--timeout", default="120s", help="of a module")
    parser.add_argument("--memory", default="1G")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, dest="jobs")
    options = parser.parse_args()
    if not options.source:
        steps = [sys.executable, REPO / "guest" / "build" / "build.py", "path", "python-source"]
        options.source = Path(subprocess.run(steps, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()) / "tree"
    if not (options.source / "Lib" / "test" / "support").is_dir():
        parser.error(f"no Lib/test in {options.source}")
    options.brumate = options.brumate.resolve()
    if options.quick:
        options.modules = (HERE / "quick.txt").read_text().split()
    return options


def longest_first(modules, before):
    return sorted(modules, key=lambda m: -before.get(m, {}).get("seconds", 5))


def main():
    options = parse()
    build = REPO / "build"
    logs = build / ("cpython-quick" if options.quick else "cpython-tests")
    logs.mkdir(parents=True, exist_ok=True)
    kept = build / "cpython-tests.json"
    before = json.loads(kept.read_text()) if kept.exists() else {}
    modules = options.modules or list(modules_below(options.source / "Lib" / "test"))
    runner, reasons, results, lock = Runner(options, logs), report.Reasons(HERE / "reasons.toml"), {}, threading.Lock()

    def run(module):
        result = runner.module(module)
        unknown = [name for name in result["failures"] if not reasons.why(module, name, result["failures"][name])]
        with lock:
            results[module] = result
            if sys.stderr.isatty() or unknown or not options.quick:
                print(f"[{len(results)}/{len(modules)}] {module}: {report.one_line(result)}", file=sys.stderr, flush=True)
            for name in unknown:
                print(f"    {name}: {result['failures'][name][0]}", file=sys.stderr, flush=True)
        return not unknown

    with ThreadPoolExecutor(options.jobs) as pool:
        good = list(pool.map(run, longest_first(modules, before)))
    if not options.quick:
        merged = {**before, **results}
        kept.write_text(json.dumps(dict(sorted(merged.items())), indent=1, ensure_ascii=False) + "\n")
        if not options.modules:
            page = REPO / "docs" / "cpython-tests.md"
            page.write_text(report.page(results, reasons, runner.options))
            print(f"wrote {kept.relative_to(REPO)} and {page.relative_to(REPO)}")
    print(report.totals(results))
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
