#!/usr/bin/env python3
"""Measures brumate beside other Python sandboxes, in one run; needs nothing but the standard library.

    run.py [--quick] [--only start,sessions,...] [--rounds N] [--build DIR] [--table FILE] [--no-install]

Prints Markdown (--table writes it to a file too) and puts group "python" into bench.json beside the build. README.md
says what each figure is. Peers are installed from where pip finds them, into environments of their own below
build/peers; one that cannot be had is a column that says why.
"""
import argparse
import datetime
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import environments  # noqa: E402
import guest  # noqa: E402
from peer import Failed, Peer, Unknown  # noqa: E402
from report import brief, ended, number, table  # noqa: E402

REPO = HERE.parent.parent
GROUPS = ["start", "sessions", "throughput", "calls", "cpu", "image", "memory", "output", "deadlines", "bombs", "host",
          "values", "sight", "wheels"]
QUICK = ["start", "sessions", "throughput", "calls", "cpu", "image", "memory", "output", "deadlines"]
QUICK_DEADLINES = list(guest.DEADLINES)[:5]
OURS, RIVAL, MONTY = "brumate", "pyeryx", "pydantic-monty"
NOT_CPYTHON = {MONTY}
WHEEL = "idna"      # the small one of the image
WHEELS = [WHEEL, "tomli", "certifi", "pygments"]
MIB = 1 << 20

# A figure of the rounds: key: (group, title, unit, factor from seconds, whether less is better).
FIGURES = {
    "start_hi": ("start", "process start to 'hi'", "ms", 1e3, True),
    "start_exit": ("start", "process start to its end", "ms", 1e3, True),
    "import": ("start", "import of the package", "ms", 1e3, True),
    "fresh": ("sessions", "fresh sandbox + hello", "us", 1e6, True),
    "create": ("sessions", "create a session", "us", 1e6, True),
    "create_hello": ("sessions", "create a session + hello", "us", 1e6, True),
    "end": ("sessions", "end a session", "us", 1e6, True),
    "session_hello": ("sessions", "hello in a live session", "us", 1e6, True),
    "rate": ("throughput", "fresh hellos, 2 threads", "a second", 1, False),
    "sync": ("calls", "host function, awaited in turn", "us", 1e6, True),
    "sync_gathered": ("calls", "the same, 1,000 gathered", "us", 1e6, True),
    "sync_large": ("calls", "the same, 1 MB there and back", "us", 1e6, True),
    "async": ("calls", "`async def` host function, awaited in turn", "us", 1e6, True),
    "async_gathered": ("calls", "the same, 1,000 gathered", "us", 1e6, True),
    "async_large": ("calls", "the same, 1 MB there and back", "us", 1e6, True),
    "imports": ("image", "fresh sandbox that imports 8 modules", "ms", 1e3, True),
    "image_run": ("image", "the same and a wheel, from an image", "ms", 1e3, True),
    "image_build": ("image", "build of that image", "s", 1, True),
    "image_save": ("image", "its save", "ms", 1e3, True),
    "image_load": ("image", "its load", "ms", 1e3, True),
    "image_size": ("image", "its size on disk", "MB", 1e-6, True),
}
CALLS = {"sync": (False, {}), "sync_gathered": (False, {"gather": True}), "sync_large": (False, {"size": 1_000_000}),
         "async": (True, {}), "async_gathered": (True, {"gather": True}), "async_large": (True, {"size": 1_000_000})}


def say(text):
    print("bench: " + text, file=sys.stderr, flush=True)


class Suite:
    def __init__(self, options, products):
        self.options = options
        self.quick = options.quick
        self.all = products
        self.products = [p for p in products if not p.missing]
        self.labels = [p.label for p in products]
        self.samples = {p.label: {} for p in products}      # label: {key: [figures]}
        self.notes = {p.label: {} for p in products}        # label: {key: why there is no figure}
        self.values = {}                                    # what a workload answered first
        self.versions = {p.label: p.missing for p in products}
        self.unclean = {p.label: [] for p in products}
        self.children = {}
        self.sections = []
        self.worse = []                                     # where another CPython does better

    # -- asking

    def ask(self, product, key, name, /, **args):
        """Of the product's long-lived process; a failure is noted and not tried again."""
        if key in self.notes[product.label]:
            return None
        child = self.children[product.label]
        try:
            return child.ask(name, **args)
        except Unknown as error:
            self.notes[product.label][key] = f"n/a ({error})" if str(error) else "n/a"
        except Failed as error:
            self.notes[product.label][key] = "fails: " + str(error)
            if not child.alive():
                self.children[product.label] = Peer(product)
        return None

    def alone(self, product, name, /, timeout=60, **args):
        """Of a process of its own, since it may not survive; what it says, or {"failed": why}. The text of an n/a
        stands there too."""
        child = Peer(product)
        base = 0.0
        try:
            child.ask("version")
            base = child.resident()
            value = child.ask(name, timeout=timeout, watch=True, **args)
            if isinstance(value, dict):
                value["peak"] = max(0.0, child.peak - base)
            self.ended(product, child.quit())
            return value
        except Unknown as error:
            child.kill()
            return {"failed": f"n/a ({error})" if str(error) else "n/a", "absent": True}
        except Failed as error:
            child.kill()
            return {"failed": str(error), "peak": max(0.0, child.peak - base)}

    def ended(self, product, code):
        if code:
            self.unclean[product.label].append(f"exit {code}")
        elif code is None:
            self.unclean[product.label].append("no end within 20 s")

    def add(self, product, key, values):
        if values is not None:
            self.samples[product.label].setdefault(key, []).extend(values if isinstance(values, list) else [values])

    def middle(self, label, key):
        found = self.samples[label].get(key)
        return statistics.median(found) if found else None

    def times_better(self, key, rival, less=True):
        ours, theirs = self.middle(OURS, key), self.middle(rival, key)
        if not ours or not theirs:
            return None
        return theirs / ours if less else ours / theirs

    # -- rounds: a batch of each product in turn, so that the machine's noise falls on all alike

    def rounds(self):
        for product in self.products:
            self.children[product.label] = Peer(product)
            self.versions[product.label] = self.ask(product, "version", "version") or self.notes[product.label]["version"]
            say(f"{product.label}: {self.versions[product.label]}")
        self.programs = {p.label: self.ask(p, "programs", "programs") or {} for p in self.products}
        if "image" in self.options.only:
            for product in self.products:
                self.build_image(product)
        count = self.options.rounds
        for n in range(count):
            say(f"round {n + 1} of {count}")
            turn = n % len(self.products)
            order = self.products[turn:] + self.products[:turn]
            for group in ("start", "sessions", "image", "calls", "throughput", "cpu"):
                if group in self.options.only:
                    getattr(self, "round_" + group)(order)
        for product in self.products:
            self.ended(product, self.children[product.label].quit())

    def build_image(self, product):
        say(f"{product.label}: image")
        wheels = [self.options.wheels[name] for name in self.image_wheel()]
        found = self.ask(product, "image", "image", modules=guest.IMPORTS + self.image_wheel(), wheels=wheels)
        for part, value in (found or {}).items():
            self.add(product, "image_" + part, value)
        if found is None:
            for part in ("build", "save", "load", "size", "run"):
                self.notes[product.label]["image_" + part] = self.notes[product.label]["image"]

    def image_wheel(self):
        return [WHEEL] if WHEEL in self.options.wheels else []

    def round_start(self, order):
        for _ in range(1 if self.quick else 2):
            for product in order:
                if "start" in self.programs[product.label]:
                    self.start(product, self.programs[product.label]["start"])
        for _ in range(3 if self.quick else 5):
            for product in order:
                if "import" in self.programs[product.label]:
                    with_it = self.run_program(product, self.programs[product.label]["import"])
                    self.add(product, "import", with_it - self.run_program(product, "pass"))

    def start(self, product, program):
        begin = time.perf_counter()
        process = subprocess.Popen([product.python, "-c", program], env=product.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        said = process.stdout.readline()
        first = time.perf_counter() - begin
        process.stdout.read()
        code = process.wait()
        if b"hi" not in said or code:
            self.notes[product.label]["start_hi"] = self.notes[product.label]["start_exit"] = f"fails: exit {code}"
            return
        self.add(product, "start_hi", first)
        self.add(product, "start_exit", time.perf_counter() - begin)

    def run_program(self, product, program):
        begin = time.perf_counter()
        subprocess.run([product.python, "-c", program], env=product.environment, stdin=subprocess.DEVNULL, check=True)
        return time.perf_counter() - begin

    def round_sessions(self, order):
        for product in order:
            self.add(product, "fresh", self.ask(product, "fresh", "fresh", count=10))
        for product in order:
            for key, values in (self.ask(product, "create", "create", count=8) or {}).items():
                self.add(product, key, values)
        for product in order:
            self.add(product, "session_hello", self.ask(product, "session_hello", "session_hello", count=50))

    def round_image(self, order):
        code = guest.importing(guest.IMPORTS)
        for product in order:
            self.add(product, "imports", self.ask(product, "imports", "fresh", count=4, code=code))
        for product in order:
            self.add(product, "image_run", self.ask(product, "image_run", "from_image", count=8,
                                                    code=guest.importing(guest.IMPORTS + self.image_wheel())))

    def round_calls(self, order):
        for key, (asynchronous, more) in CALLS.items():
            count = 5 if "size" in more else 1000
            for product in order:
                self.add(product, key, self.ask(product, key, "calls", count=count, asynchronous=asynchronous, **more))

    def round_throughput(self, order):
        for product in order:
            found = self.ask(product, "rate", "throughput", seconds=0.4 if self.quick else 0.8) or {}
            for way, rate in found.items():
                self.add(product, "rate " + way, rate)
            if found:
                self.add(product, "rate", max(found.values()))

    def round_cpu(self, order):
        for name in guest.workloads():
            for product in order:
                key = "cpu " + name
                found = self.ask(product, key, "cpu", name=name, repeat=1 if self.quick else 3)
                if found and self.values.setdefault(name, found["value"]) == found["value"]:
                    self.add(product, key, found["took"])
                elif found:
                    self.notes[product.label][key] = f"answers {brief(found['value'], 40)}"

    # -- tables

    def head(self, first=""):
        return [first] + [f"{p.label} ({brief(p.missing)})" if p.missing else p.label for p in self.all]

    def section(self, *args):
        self.sections.append(table(*args))

    def figure(self, label, key, factor):
        values = self.samples[label].get(key)
        if not values:
            return brief(self.notes[label].get(key, "n/a"), 70)
        middle, best = statistics.median(values) * factor, min(values) * factor
        if len(values) == 1 or key == "import":  # the least of differences is noise
            return number(middle)
        return f"{number(middle)} ({number(best)})"

    def note_worse(self, title, figures, less=True):
        """Keeps the rows in which another CPython has the better figure."""
        ours = figures.get(OURS)
        for label, value in figures.items():
            if ours is None or value is None or label == OURS or label in NOT_CPYTHON:
                continue
            if value < ours if less else value > ours:
                self.worse.append(f"{title}: {number(ours)}, {label} {number(value)}")

    def report_rounds(self):
        titles = {"start": "Start", "sessions": "Sandboxes and sessions", "calls": "Host functions", "image": "Images"}
        for group, title in titles.items():
            if group not in self.options.only:
                continue
            rows = []
            for key, (its, name, unit, factor, less) in FIGURES.items():
                if its == group:
                    rows.append([f"{name}, {unit}"] + [self.figure(label, key, factor) for label in self.labels])
                    self.note_worse(rows[-1][0], {label: self.scaled(label, key) for label in self.labels}, less)
            self.section(title, self.head("median (least)"), rows)
        if "throughput" in self.options.only:
            self.report_throughput()
        if "cpu" in self.options.only:
            self.report_cpu()

    def scaled(self, label, key):
        value = self.middle(label, key)
        return None if value is None else value * FIGURES[key][3]

    def report_throughput(self):
        rows = []
        for label in self.labels:
            ways = [key for key in self.samples[label] if key.startswith("rate ")]
            rows += [[f"{label}: {key[5:]}", number(self.middle(label, key)), number(max(self.samples[label][key]))] for key in ways]
            if not ways:
                rows.append([label, self.figure(label, "rate", 1), ""])
        self.section("Fresh hellos a second, 2 threads", ["", "median", "most"], rows)
        self.note_worse("fresh hellos a second", {label: self.middle(label, "rate") for label in self.labels}, less=False)

    def report_cpu(self):
        rows = []
        for name in guest.workloads():
            title = name.replace("_", " ")
            rows.append([f"{title}, ms"] + [self.figure(label, "cpu " + name, 1e3) for label in self.labels])
            self.note_worse(f"CPU, {title}, ms", {label: self.cpu_ms(label, name) for label in self.labels})
        mean = ["**times brumate's, geometric mean**"]
        for label in self.labels:
            ratios = self.cpu_ratios(label)
            mean.append(f"**{statistics.geometric_mean(ratios):.2f}** of {len(ratios)}" if ratios else "")
        self.section("Speed", self.head("median (least)"), rows + [mean],
                     "By the guest's clock, the best of some runs of bench/workloads in one fresh sandbox, after one that does not count.")

    def cpu_ms(self, label, name):
        value = self.middle(label, "cpu " + name)
        return None if value is None else value * 1e3

    def cpu_ratios(self, label):
        return [found for found in (self.times_better("cpu " + name, label) for name in guest.workloads()) if found]

    # -- measures of processes of their own

    def each(self, *args, **more):
        """Asks every product alone: {label: what it says}."""
        return {p.label: {"failed": "n/a", "absent": True} if p.missing else self.alone(p, *args, **more) for p in self.all}

    def memory(self):
        count, runs = 50, 100 if self.quick else 400
        found = self.each("memory", count=count)
        growth = self.each("growth", timeout=60, count=runs)
        rows = []
        for title, key, part in (("a process with one session, resident, MB", "base", "resident"),
                                 ("the same, proportional, MB", "base", "proportional"),
                                 ("an idle session of 50, resident, MB", "each", "resident"),
                                 ("an idle session of 50, private, MB", "each", "private"),
                                 ("left when all 50 are closed, private, MB", "left", "private")):
            cells = {label: None if "failed" in value else value[key][part] for label, value in found.items()}
            for label, value in cells.items():
                if value is not None:
                    self.samples[label][f"memory_{key}_{part}"] = [value]
            rows.append([title] + [brief(found[label]["failed"]) if cells[label] is None else number(cells[label])
                                   for label in self.labels])
            self.note_worse(title, cells)
        took = {label: None if "failed" in value else statistics.median(value["took"]) * 1e6 for label, value in found.items()}
        rows.append(["create one more, and run that, us"] + [brief(found[label]["failed"]) if t is None else number(t)
                                                             for label, t in took.items()])
        self.note_worse("create a session while up to 50 live, us", took)
        rows.append([f"growth with each of up to {runs} fresh hellos, private, kB"]
                    + [brief(g["failed"]) if isinstance(g, dict) else number(g) for g in growth.values()])
        self.section("Memory", self.head(), rows,
                     "Of the host's process and all that it starts, from smaps_rollup; each of the sessions ran `x = 1`.")

    def output(self):
        rows = [["100 MB, MB a second"], ["the same, more resident meanwhile, MB"], ["100 MB under the default limit"]]
        rates = {}
        for label, value in self.each("output", megabytes=100).items():
            if "failed" in value:
                cells = [brief(value["failed"])] * 2
            elif value["kind"] == "ok" and value["kept"] == 100_000_000:
                rates[label] = 100 / value["took"]
                self.samples[label]["output_rate"] = [rates[label]]
                cells = [number(rates[label]), number(value["peak"])]
            else:
                cells = [f"{ended(value['kind'], value['detail'])}, {number(value['kept'] / 1e6)} MB kept", number(value["peak"])]
            for row, cell in zip(rows, cells):
                row.append(cell)
        for value in self.each("default_output", megabytes=100).values():
            rows[2].append(brief(value["failed"]) if "failed" in value else
                           f"{ended(value['kind'], value['detail'])}, {number(value['kept'] / 1e6)} MB kept")
        self.note_worse("output, MB a second", rates, less=False)
        self.section("Output by sys.stdout.write", self.head(), rows)

    def deadlines(self):
        rows, times = [], 1 if self.quick else 3
        for name, (code, busy) in guest.DEADLINES.items():
            if self.quick and name not in QUICK_DEADLINES:
                continue
            say("deadline: " + name)
            row, late = [f"`{name}`"], {}
            for label, value in self.each("danger", timeout=12, code=code, seconds=0.5, memory_limit=256 * MIB, times=times).items():
                row.append(self.danger_cell(value, 0.5))
                if value.get("kind") == "timeout":
                    late[label] = statistics.median(value["took"]) * 1e3 - 500
                    if busy and late[label] > 0:
                        self.samples[label]["late " + name] = [late[label]]
            self.note_worse(f"deadline, `{name}`, ms late", late)
            rows.append(row)
        self.section("Deadlines of 500 ms", self.head(), rows,
                     f"How it ended; milliseconds after the deadline, the median of {times}; more resident meanwhile. 256 MiB.")

    def danger_cell(self, value, deadline=None):
        if "failed" in value:
            return value["failed"] if "absent" in value else f"**{brief(value['failed'])}**, +{value['peak']:.0f} MB"
        took = statistics.median(value["took"]) * 1e3
        cell = ended(value["kind"], value["detail"])
        cell += f", {took - deadline * 1e3:+.1f} ms" if deadline else f", {took:.0f} ms"
        cell += f", +{value['peak']:.0f} MB"
        if not value["after"]:
            cell += ", **the next run fails**"
        elif value["after_took"] > 0.5:
            cell += f", the next run takes {value['after_took'] * 1e3:.0f} ms"
        return cell

    def bombs(self):
        for title, bombs, limit in (("Memory bombs: 64 MiB", guest.MEMORY_BOMBS, 64 * MIB),
                                    ("Stack bombs: 128 MiB", guest.STACK_BOMBS, 128 * MIB)):
            rows = []
            for name, code in bombs.items():
                say("bomb: " + name)
                found = self.each("danger", timeout=15, code=code, seconds=10, memory_limit=limit)
                rows.append([f"`{name}`" if "(" in name or "<" in name else name] + [self.danger_cell(v) for v in found.values()])
            self.section(title, self.head(), rows, "How it ended, after how long; more resident meanwhile. 10 s.")
        found = self.each("danger", timeout=15, code=guest.STORM, seconds=0.5, memory_limit=64 * MIB)
        row = ["`while True: print('x' * 1000)`"]
        for value in found.values():
            row.append(self.danger_cell(value) + (f", {number(value['kept'] / 1e6)} MB kept" if "kept" in value else ""))
        self.section("Output storm: 64 MiB, 500 ms, the default limit of output", self.head(), [row])

    def host(self):
        rows = []
        for title, seconds, callback in (("a host function blocks 2 s: run limited to 500 ms", 0.5, None),
                                         ("a host function blocks 2 s: calls limited to 500 ms", 10, 0.5)):
            found = self.each("slow", timeout=8, seconds=seconds, callback_seconds=callback)
            rows.append([title] + [self.slow_cell(value) for value in found.values()])
        found = self.each("interrupt", timeout=10)
        rows.append(["Ctrl-C into `while True: pass`"] + [
            brief(v["failed"]) if "failed" in v else f"{'' if v['seen'] else 'not seen, '}{v['took'] * 1e3:.1f} ms"
            for v in found.values()])
        found = self.each("fork", timeout=10)
        rows.append(["a fresh hello in a forked child"] + [brief(v["failed"]) if isinstance(v, dict) else v for v in found.values()])
        self.section("In the host's process", self.head(), rows)

    def slow_cell(self, value):
        if "failed" in value:
            return brief(value["failed"]) if "absent" in value else f"**{brief(value['failed'])}**"
        return f"{ended(value['kind'], value['detail'])} after {value['took'] * 1e3:.0f} ms"

    def asked_in_turn(self, measure, cases, argument):
        """Rows of short texts, each product in one process."""
        rows = [[f"`{name}`" if measure == "value" else name] for name in cases]
        for product in self.all:
            child = None if product.missing else Peer(product)
            for row, text in zip(rows, cases.values()):
                try:
                    row.append(brief(child.ask(measure, timeout=20, **{argument: text}), 70) if child else "n/a")
                except Unknown:
                    row.append("n/a")
                except Failed as error:
                    row.append(brief(error, 70))
                    if not child.alive():
                        child = Peer(product)
            if child:
                self.ended(product, child.quit())
        return rows

    def values_(self):
        rows = self.asked_in_turn("value", {text: text for text in guest.VALUES}, "text")
        self.section("Values through a host function and back", self.head(), rows)

    def sight(self):
        rows = self.asked_in_turn("differs", guest.DIFFERS, "code")
        self.section("What differs between fresh sandboxes", self.head(), rows)
        self.section("What a guest sees", self.head(), self.asked_in_turn("probe", guest.PROBES, "code"))

    def wheels(self):
        names = list(self.options.wheels)
        for chosen in (names[:1], names) if len(names) > 1 else (names,) if names else ():
            say("wheels: " + ", ".join(chosen))
            found = self.each("wheels", timeout=180, wheels=[self.options.wheels[name] for name in chosen],
                              code=guest.importing(chosen), count=6)
            rows = []
            for title, part in (("make importable", "ready"), ("first sandbox that imports", "first"), ("further ones", "rest")):
                cells = {label: None if "failed" in value else milliseconds(value[part]) for label, value in found.items()}
                rows.append([title + ", ms"] + [brief(found[label]["failed"]) if value is None else number(value)
                                                for label, value in cells.items()])
                self.note_worse(f"wheels {', '.join(chosen)}: {title}, ms", cells)
            self.section(f"Wheels: {', '.join(chosen)}", self.head(), rows)

    # -- all

    def run(self):
        self.began, self.load = time.monotonic(), os.getloadavg()[0]
        if not self.products:
            sys.exit("bench: nothing to measure: " + "; ".join(f"{p.label}: {p.missing}" for p in self.all))
        self.rounds()
        self.report_rounds()
        for group in ("memory", "output", "deadlines", "bombs", "host", "values", "sight", "wheels"):
            if group in self.options.only:
                say(group)
                (self.values_ if group == "values" else getattr(self, group))()

    def markdown(self):
        lines = ["# Beside other sandboxes", "",
                 f"What `make bench-peers` printed last: {datetime.date.today()}, {cpu_name()}, {os.cpu_count()} cores, "
                 f"Linux {platform.release().split('-')[0]}; load {self.load:.1f} before, {os.getloadavg()[0]:.1f} after; "
                 f"rounds: {self.options.rounds}; {time.monotonic() - self.began:.0f} s.", ""]
        lines += [f"- {label}: {self.versions[label]}" for label in self.labels] + [""]
        if any(self.figures().values()):
            lines += [table("In short", ["", ""], [[f"`{k}`", number(v)] for k, v in self.figures().items() if v is not None],
                            "The figures of group `python` in build/bench.json; bench/peers/README.md says what each is.")]
        lines += self.sections
        lines += ["## Where another CPython does better", ""] + ([f"- {text}" for text in self.worse] or ["nowhere"]) + [""]
        unclean = [f"- {label}: {', '.join(codes)}" for label, codes in self.unclean.items() if codes]
        lines += ["## Processes that did not end cleanly", ""] + (unclean or ["none"])
        return "\n".join(lines) + "\n"

    def figures(self):
        """Group `python` of bench.json."""
        cpu = self.cpu_ratios(RIVAL)
        late = [self.times_better("late " + name, RIVAL) for name in guest.DEADLINES]
        late = [ratio for ratio in late if ratio]

        def ours(key, factor=1.0):
            value = self.middle(OURS, key)
            return None if value is None else value * factor

        left = self.middle(OURS, "memory_left_private")
        return {
            "create_hello_x": self.times_better("create_hello", RIVAL),
            "create_hello_vs_monty_x": self.times_better("create_hello", MONTY),
            "session_hello_x": self.times_better("session_hello", RIVAL),
            "throughput_per_s": ours("rate"),
            "callback_sync_us": ours("sync", 1e6),
            "callback_async_us": ours("async", 1e6),
            "callback_x": self.times_better("sync", RIVAL),
            "private_memory_x": self.times_better("memory_each_private", RIVAL),
            "private_left_mb": None if left is None else max(0.0, left),
            "cpu_x": statistics.geometric_mean(cpu) if cpu else None,
            "overshoot_x": statistics.geometric_mean(late) if late else None,
            "factory_sandbox_x": self.times_better("image_run", RIVAL),
            "factory_build_s": ours("image_build"),
            "output_mb_s": ours("output_rate"),
            "import_ms": ours("import", 1e3),
        }

    def raw(self):
        """The medians that the figures are made of: seconds and bytes for what has no unit in its name."""
        return {label: {key: significant(statistics.median(values)) for key, values in found.items()}
                for label, found in self.samples.items() if found}


def milliseconds(took):
    return statistics.median(took if isinstance(took, list) else [took]) * 1e3


def significant(value):
    return float(f"{value:.5g}") if isinstance(value, float) and math.isfinite(value) else value


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def write(path, suite):
    """Other groups that the file has are kept, as are figures that this run did not take."""
    try:
        kept = json.loads(path.read_text())
    except (OSError, ValueError):
        kept = {}
    before = kept.get("python", {})
    figures = {key: significant(value) for key, value in suite.figures().items() if value is not None}
    raw = {label: {**before.get("raw", {}).get(label, {}), **found} for label, found in suite.raw().items()}
    kept["python"] = {**before, **figures, "raw": {**before.get("raw", {}), **raw}, "versions": suite.versions,
                      "date": str(datetime.date.today()), "quick": suite.quick, "load_before": suite.load,
                      "load_after": os.getloadavg()[0]}
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(path.name + ".new")
    scratch.write_text(json.dumps(kept, indent=1) + "\n")
    scratch.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a look of about a minute: " + ", ".join(QUICK))
    parser.add_argument("--only", help="groups, of " + ",".join(GROUPS))
    parser.add_argument("--rounds", type=int, help="default 5; 1 with --quick")
    parser.add_argument("--build", type=Path, default=REPO / "build", help="where python/ is and peers/ goes")
    parser.add_argument("--table", type=Path, help="write the Markdown here too")
    parser.add_argument("--no-install", dest="install", action="store_false", help="measure what is installed already")
    options = parser.parse_args()
    options.only = options.only.split(",") if options.only else QUICK if options.quick else GROUPS
    unknown = set(options.only) - set(GROUPS)
    if unknown:
        parser.error("no such group: " + ", ".join(sorted(unknown)))
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.build = options.build.resolve()
    products = [environments.ours(options.build)] + environments.peers(options.build / "peers", options.install)
    options.wheels = environments.wheels(options.build / "peers" / "wheels", WHEELS, options.install)
    suite = Suite(options, products)
    suite.run()
    text = suite.markdown()
    print(text, end="")
    if options.table:
        options.table.write_text(text)
    if any(value is not None for value in suite.figures().values()):
        write(options.build / "bench.json", suite)


if __name__ == "__main__":
    main()
