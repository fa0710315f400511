"""Reasons for failures, and the page that shows the last full run."""
import collections
import fnmatch
import re
import tomllib


class Reasons:
    """reasons.toml: [[reason]] with `why`, `tests` (patterns of test names, `module:pattern` or `module`)
    and, if only some failures of those are meant, `error` (a regular expression for its text)."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.rows = tomllib.load(f).get("reason", [])
        for row in self.rows:
            row["error"] = re.compile(row.get("error", ""), re.S)

    def why(self, module, test, failure):
        for row in self.rows:
            for pattern in row["tests"]:
                of, _, name = pattern.partition(":")
                if fnmatch.fnmatchcase(module, of) and fnmatch.fnmatchcase(test, name or "*") \
                        and row["error"].search("\n".join(failure)):
                    return row["why"]
        return None


def one_line(r):
    if r["module_skipped"] is not None and not r["failed"]:
        return f"skipped ({r['module_skipped']})"
    return f"{r['passed']} passed, {r['failed']} failed, {r['skipped']} skipped, {r['seconds']} s"


def state(r):
    if r["failed"]:
        return "fails"
    return "passes" if r["passed"] else "skips"


def totals(results):
    states = collections.Counter(state(r) for r in results.values())
    tests = [sum(r[k] for r in results.values()) for k in ("passed", "failed", "skipped")]
    return ("%d modules: %d pass, %d have failures, %d skip themselves; %d tests passed, %d failed, %d skipped"
            % (len(results), states["passes"], states["fails"], states["skips"], *tests))


def cell(text):
    return " ".join(str(text).replace("|", "\\|").replace("<", "&lt;").split())


def short(test):
    """"test_x (test.test_x.T.test_x)" and "test.test_x.T.test_x" alike, without the module."""
    name = re.sub(r"^test\.test_\w+(\.test_\w+)*?\.(?=[A-Z_])", "", test)
    return re.sub(r"\((?:.*\.)?(\w+)\)", r"(\1)", name)


def failures_by_reason(results, reasons):
    groups = collections.defaultdict(list)
    for module, r in sorted(results.items()):
        for test, failure in r["failures"].items():
            groups[reasons.why(module, test, failure) or "Not explained"].append((module, test, failure[0]))
    return sorted(groups.items(), key=lambda g: (g[0] == "Not explained", g[0]))


def page(results, reasons, options):
    out = ["# CPython's own tests, in the sandbox", "",
           "`make test-cpython` runs `Lib/test` of the very source that the guest is built from, each module in a fresh",
           f"Python with {options.memory} of memory and {options.timeout}, and writes this page. The resources are those of CPython's own",
           "checks, but for networks, large files and windows.", "",
           totals(results) + ".", "",
           "## Failures and why", ""]
    groups = failures_by_reason(results, reasons)
    for why, rows in groups:
        out += [f"### {why}", ""]
        for module, rest in _grouped(rows):
            out.append(f"- `{module}`: " + ", ".join(f"`{short(test)}` ({cell(error)[:110]})" for test, error in rest))
        out.append("")
    if not groups:
        out += ["None.", ""]
    out += ["## Modules that skip themselves", "", "| why | modules |", "|---|---|"]
    skips = collections.defaultdict(list)
    for module, r in sorted(results.items()):
        if state(r) == "skips":
            why = r["module_skipped"] or ", ".join(sorted(r["skips"])) or "no tests here"
            skips[cell(why)].append(module)
    out += [f"| {why} | {', '.join(f'`{m}`' for m in names)} |" for why, names in sorted(skips.items())]
    out += ["", "## All modules", "", "| module | passed | failed | skipped | seconds |", "|---|---:|---:|---:|---:|"]
    for module, r in sorted(results.items()):
        if state(r) != "skips":
            out.append(f"| `{module}` | {r['passed']} | {r['failed'] or ''} | {r['skipped'] or ''} | {r['seconds']} |")
    return "\n".join(out) + "\n"


def _grouped(rows):
    by_module = collections.defaultdict(list)
    for module, test, error in rows:
        by_module[module].append((test, error))
    return by_module.items()
