#!/usr/bin/env python3
"""Measures Brumate against native CPython of the same source, in one run; standard library only.

    run.py --native PYTHON [--quick] [--only turns,cli,build,cpu,overshoot,memory] [--rounds N] [--build DIR]

Prints one table and writes bench.json beside the build (groups "core" and "sleep"). Rounds go over all candidates in turn, so that
the machine's noise falls on all alike; a figure is the median of its rounds. The machine's own python3 is
a further column. Results of the CPU suite are compared with the native ones: a wrong answer is an error.
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
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = HERE.parent
HELLO = "print('hi')"
GROUPS = "turns,cli,build,cpu,overshoot,memory,sleep"

MEASURE = """
import time as _time
work()
_best = 1e9
for _ in range({repeat}):
    _begin = _time.perf_counter(); _result = work(); _took = _time.perf_counter() - _begin
    _best = min(_best, _took)
print(repr(_result)); print(_best)
"""

# A native process that answers as a session would: the nearest thing to compare turns with.
NATIVE_TURNS = """
import contextlib, io, time, statistics
def run(code, names):
    out = io.StringIO()
    with contextlib.redirect_stdout(out): exec(compile(code, "<x>", "exec"), names)
    return out.getvalue()
names, took = {}, []
for _ in range(%d):
    begin = time.perf_counter(); run("print('hi')", names); took.append(time.perf_counter() - begin)
print(statistics.median(took) * 1e6)
"""


def say(text):
    print("bench: " + text, file=sys.stderr, flush=True)


def start_to_exit(command):
    """Seconds of wall time from the start of a process to its end."""
    begin = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ,
                         file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    status = os.waitpid(pid, 0)[1]
    took = time.perf_counter() - begin
    if status:
        sys.exit(f"bench: {command[0]} failed")
    return took


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)]


class Bench:
    def __init__(self, options):
        self.options = options
        self.rows = []       # (title, unit, brumate, native, machine, note)
        self.core = {}
        self.asleep = {}
        self.build_folder = options.build
        self.image = options.build / "core.bru"
        self.command = str(options.build / "brumate")
        self.pythons = {"native": str(options.native), "python3": options.python3}

    def measure(self, *args):
        """Runs bench-core; its lines."""
        command = [self.build_folder / "host" / "bench" / "bench-core", *map(str, args)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"bench: bench-core {args[0]} failed")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def row(self, title, unit, ours, native=None, machine=None, note="", ratio=None):
        self.rows.append((title, unit, ours, native, machine, note, ratio))

    # -- starting, running, resetting

    def turns(self):
        batches, runs = (3, 200) if self.options.quick else (9, 1000)
        found = self.measure("turns", self.image, batches, runs)
        figure = {key: statistics.median(f[key] for f in found) for key in found[0]}
        self.core.update((k, figure[k]) for k in ("fresh_hello_us", "live_hello_us", "reset_us", "slot_create_us"))
        start = {name: statistics.median(start_to_exit([python, "-I", "-c", HELLO]) for _ in range(9)) * 1e6
                 for name, python in self.pythons.items()}
        live = {name: float(subprocess.run([python, "-I", "-c", NATIVE_TURNS % 2000], stdout=subprocess.PIPE,
                                           check=True).stdout) for name, python in self.pythons.items()}
        self.row("fresh sandbox + hello", "us", figure["fresh_hello_us"], start["native"], start["python3"],
                 "native: a process")
        self.row("new session, hello, closed", "us", figure["new_run_free_us"], start["native"], start["python3"],
                 "native: a process")
        self.row("hello in a live session", "us", figure["live_hello_us"], live["native"], live["python3"],
                 "native: compile, exec, StringIO")
        self.row("reset after a hello", "us", figure["reset_us"])
        self.row("create a session's slot", "us", figure["slot_create_us"])

    # -- the command

    def cli(self):
        rounds = 9 if self.options.quick else 41
        commands = {"ours": [self.command, "-c", HELLO],
                    **{name: [python, "-I", "-c", HELLO] for name, python in self.pythons.items()}}
        took = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                took[name].append(start_to_exit(command))
        middle = {name: statistics.median(t) * 1e3 for name, t in took.items()}
        self.core["cli_hello_ms"] = middle["ours"]
        self.core["cli_hello_ratio"] = middle["ours"] / middle["native"]
        self.row("command: -c \"print('hi')\", start to exit", "ms", middle["ours"], middle["native"], middle["python3"],
                 "native: python3 -I -c")

    def build(self):
        with tempfile.TemporaryDirectory(dir=self.build_folder) as folder:
            found = [self.measure("build", self.build_folder / "core.so", self.build_folder / "root", Path(folder) / "x.bru")[0]["boot_ms"]
                     for _ in range(1 if self.options.quick else 3)]
        self.core["boot_ms"] = statistics.median(found)
        self.row("boot and freeze, once an image", "ms", self.core["boot_ms"], note="importing and writing included")

    # -- speed

    def cpu(self):
        repeat, rounds = (2, 1) if self.options.quick else (4, self.options.rounds)
        took, values = {}, {}
        with tempfile.TemporaryDirectory(dir=self.build_folder) as folder:
            programs = []
            for source in sorted((HERE / "workloads").glob("*.py")):
                program = Path(folder) / source.name
                program.write_text(source.read_text() + MEASURE.format(repeat=repeat))
                programs.append(program)
            for n in range(rounds):
                say(f"CPU suite, round {n + 1} of {rounds}")
                for program in programs:
                    for name, command in self.runners(program):
                        value, best = self.timed(command)
                        took.setdefault((program.stem, name), []).append(best)
                        if values.setdefault(program.stem, value) != value:
                            sys.exit(f"bench: {program.stem}: {name} answers {value}, not {values[program.stem]}")
        self.report_cpu(sorted(values), took)

    def runners(self, program):
        yield "native", [self.pythons["native"], "-I", program]
        yield "ours", [self.command, "--timeout", "60s", "--memory", "512M", program]
        yield "python3", [self.pythons["python3"], "-I", program]

    @staticmethod
    def timed(command):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"bench: {command[0]} {command[-1]} ended with {done.returncode}")
        value, best = done.stdout.splitlines()
        return value, float(best)

    def report_cpu(self, names, took):
        """The ratio is the median of those of the rounds, whose runs lie side by side: a machine whose speed
        drifts moves it least."""
        middle = {key: statistics.median(t) * 1e3 for key, t in took.items()}

        def ratio(name, who):
            return statistics.median(a / b for a, b in zip(took[name, who], took[name, "native"]))

        ratios = {name: ratio(name, "ours") for name in names}
        machine = [ratio(name, "python3") for name in names]
        self.core.update(ratios)
        self.core["cpu_geomean_ratio"] = statistics.geometric_mean(ratios.values())
        for name in names:
            self.row("CPU: " + name.replace("_", " "), "ms", *(middle[name, n] for n in ("ours", "native", "python3")),
                     ratio=ratios[name])
        self.row(f"CPU: geometric mean of {len(names)}", "ratio", self.core["cpu_geomean_ratio"], 1.0,
                 statistics.geometric_mean(machine), "of the times, against native")

    # -- deadlines

    def overshoot(self):
        samples, deadline = (40, 20) if self.options.quick else (300, 40)
        say(f"deadlines: {samples} of {deadline} ms")
        found = self.measure("overshoot", self.image, samples, deadline)
        late = [f["late_us"] for f in found]
        wrong = {f["kind"] for f in found if "time limit" not in f["reason"]}
        note = f"{len(late)} x {deadline} ms over {len({f['kind'] for f in found})} kinds"
        for title, key, value in (("median", "overshoot_p50_ms", percentile(late, .5)),
                                  ("p99", "overshoot_p99_ms", percentile(late, .99)),
                                  ("largest", "overshoot_max_ms", max(late))):
            self.core[key] = value / 1e3
            self.row(f"deadline met late by: {title}", "ms", value / 1e3, note=note)
        self.core["overshoot_by_kind_ms"] = {
            kind: {"p50": percentile(v, .5), "max": max(v)} for kind in dict.fromkeys(f["kind"] for f in found)
            for v in [[f["late_us"] / 1e3 for f in found if f["kind"] == kind]]}
        if wrong:
            self.row("not stopped by the deadline", "kinds", len(wrong), note=", ".join(sorted(wrong)))

    # -- memory

    def memory(self):
        few, many = (200, 1000) if self.options.quick else (1000, 10000)
        say(f"memory: {few} sessions, then {many}")
        m = self.measure("memory", self.image, few, 1 << 20)[0]
        self.core["idle_private_kb"], self.core["idle_resident_kb"] = m["private_kb"], m["resident_kb"]
        self.row(f"private memory of an idle session, of {few}", "kB", m["private_kb"])
        self.row("resident, pages shared with others counted fully", "kB", m["resident_kb"])
        self.row("page tables", "kB", m["page_table_kb"])
        m = self.measure("memory", self.image, many, 8192)[0]
        self.core["live_sessions"], self.core["live_sessions_mb"] = m["sessions"], m["total_mb"]
        self.row("live sessions in one process", "", m["sessions"],
                 note=f"{m['total_mb']:.0f} MB in all, page tables included; {m['mappings']} mappings"
                      + (f"; stopped: {m['stopped_by']}" if m["stopped_by"] else ""))

    # -- sleep

    def sleep(self):
        count, parts = (200, 1) if self.options.quick else (1000, 3)
        self.asleep = f = self.measure("sleep", self.image, count, parts)[0]
        self.row("twin of a live session", "us", f["fork_us"])
        self.row(f"the same, {count} that live side by side", "us", f["fork_many_us"])
        self.row("private memory of a twin", "kB", f["fork_private_kb"])
        self.row("small session to bytes", "ms", f["suspend_ms"])
        self.row("those bytes", "kB", f["suspend_kb"])
        self.row("and back into a new session", "ms", f["resume_ms"])
        parked, woken = (1000, 200) if self.options.quick else (10000, 1000)
        with tempfile.TemporaryDirectory(dir=self.options.build) as folder:
            f.update(self.measure("park", self.image, folder, parked, woken)[0])
        self.row(f"woken from a file, of {f['parked']}: p99", "ms", f["wake_p99_ms"],
                 note=f"median {f['wake_ms']:.2f} ms, a statement included; parking one {f['park_ms']:.2f} ms")
        self.row(f"session with {f['big_mb']} MB of pages to bytes", "ms", f["big_suspend_ms"],
                 note=f"{f['big_state_vs_zstd_x']:.2f}x of zstd alone for as many")

    # -- the table

    def table(self):
        head = ["", "brumate", "native", "ratio", "python3", ""]
        lines = []
        for title, unit, ours, native, machine, note, ratio in self.rows:
            if native is None or unit == "ratio":
                ratio = ""
            elif ratio or ours > native / 10:
                ratio = f"{ratio or ours / native:.2f}x"
            else:
                ratio = f"1/{native / ours:.0f}"
            lines.append([title, f"{number(ours)} {unit}".strip() if unit != "ratio" else f"{ours:.3f}x",
                          "" if native is None else number(native), ratio,
                          "" if machine is None else number(machine), note])
        widths = [max(len(line[i]) for line in lines + [head]) for i in range(len(head))]
        out = []
        for line in [head] + lines:
            out.append("  ".join(c.ljust(w) if i in (0, 5) else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))).rstrip())
        return "\n".join(out)


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def version(python):
    code = "import sys, platform; print(platform.python_version(), platform.python_compiler())"
    return subprocess.run([python, "-I", "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--native", type=Path, required=True, help="CPython of the guest's own source")
    parser.add_argument("--build", type=Path, default=REPO / "build", help="where brumate, core.bru and host/ are")
    parser.add_argument("--python3", default="/usr/bin/python3", help="the machine's own")
    parser.add_argument("--quick", action="store_true", help="a look: fewer rounds, fewer sessions")
    parser.add_argument("--rounds", type=int, default=11, help="of the CPU suite")
    parser.add_argument("--only", default=GROUPS, help="groups, of " + GROUPS)
    options = parser.parse_args()
    options.build = options.build.resolve()
    if set(options.only.split(",")) - set(GROUPS.split(",")):
        parser.error("no such group: " + options.only)
    if not Path(options.python3).exists():
        options.python3 = sys.executable
    bench, began, load = Bench(options), time.monotonic(), os.getloadavg()[0]
    for group in options.only.split(","):
        say(group)
        getattr(bench, group)()
    machine = {"date": str(datetime.date.today()), "cores": os.cpu_count(), "kernel": platform.release().split("-")[0],
               "cpu": cpu_name(), "load_before": load, "load_after": os.getloadavg()[0], "quick": options.quick,
               "native": version(options.native), "python3": version(options.python3)}
    print(f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}; load {load:.1f} before, "
          f"{machine['load_after']:.1f} after; {time.monotonic() - began:.0f} s")
    print(f"native: {machine['native']}, -O3; python3: {machine['python3']}\n")
    print(bench.table())
    write(options.build / "bench.json", {"core": bench.core, "sleep": bench.asleep}, machine)


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def write(path, figures, machine):
    """Other groups that the file has are kept."""
    try:
        kept = json.loads(path.read_text())
    except (OSError, ValueError):
        kept = {}
    for group, found in figures.items():
        rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in found.items()}
        kept[group] = {**kept.get(group, {}), **rounded}
    kept["machine"] = machine
    path.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
