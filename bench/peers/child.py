"""The side that runs in a product's interpreter: answers one line of JSON with another."""
import importlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import guest
from adapter import Limits, Unsupported, family


def memory(pids):
    """MB of the processes together."""
    total = dict.fromkeys(("resident", "proportional", "private"), 0)
    kinds = {"Rss": "resident", "Pss": "proportional", "Private_Clean": "private", "Private_Dirty": "private"}
    for pid in pids:
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                name, _, rest = line.partition(":")
                if name in kinds:
                    total[kinds[name]] += int(rest.split()[0])
        except OSError:
            continue  # it has ended
    return {kind: kilobytes / 1024 for kind, kilobytes in total.items()}


def must(outcome):
    if not outcome.ok:
        raise RuntimeError(f"{outcome.kind}: {outcome.detail}")
    return outcome.stdout


def timed(count, call):
    took = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        took.append(time.perf_counter() - begin)
    return took


class Measures:
    def __init__(self, adapter):
        self.adapter = adapter
        self.kept = {}

    def keep(self, name, make):
        """What serves every batch of a measure is made once, and not timed."""
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]

    def version(self):
        return self.adapter.version()

    def programs(self):
        found = {}
        for name in ("start", "import"):
            try:
                found[name] = getattr(self.adapter, name + "_program")()
            except Unsupported:
                pass
        return found

    # -- starting and running

    def fresh(self, count, code=guest.HELLO):
        run = self.keep("fresh", self.adapter.fresh)
        return timed(count, lambda: must(run(code)))

    def create(self, count):
        """New sessions, and a hello in each; what ending one costs stands by itself."""
        found = {"create": [], "create_hello": [], "end": []}
        for _ in range(count):
            begin = time.perf_counter()
            session = self.adapter.session()
            created = time.perf_counter()
            must(self.adapter.run(session, guest.HELLO))
            said = time.perf_counter()
            self.adapter.end(session)
            del session
            found["create"].append(created - begin)
            found["create_hello"].append(said - begin)
            found["end"].append(time.perf_counter() - said)
        return found

    def session_hello(self, count):
        session = self.keep("session", self.adapter.session)
        must(self.adapter.run(session, guest.HELLO))
        return timed(count, lambda: must(self.adapter.run(session, guest.HELLO)))

    def throughput(self, seconds):
        return self.adapter.throughput(guest.HELLO, seconds)

    # -- host functions

    def calls(self, count, asynchronous, gather=False, size=0):
        """Seconds of one call, by the guest's clock."""
        code = guest.calls(count, self.adapter.call_word(asynchronous), gather, size)
        return float(must(self.adapter.call(code, asynchronous))) / count

    def value(self, text):
        module = guest.VALUES[text]
        load = f"import {module}\n" if module else ""
        outcome = self.adapter.call(f"{load}print(repr({self.adapter.call_word(False)}echo(x={text})))", False)
        if not outcome.ok:
            return f"{outcome.kind}: {outcome.detail}"
        names = {module: importlib.import_module(module)} if module else {}
        return "same" if outcome.stdout.strip() == repr(eval(text, names)) else outcome.stdout.strip()

    def slow(self, seconds, callback_seconds):
        limits = Limits(seconds=seconds, callback_seconds=callback_seconds)
        begin = time.perf_counter()
        outcome = self.adapter.slow(2.0, limits)
        return {"kind": outcome.kind, "detail": outcome.detail, "took": time.perf_counter() - begin}

    # -- speed

    def cpu(self, name, repeat):
        run = self.keep("cpu", lambda: self.adapter.fresh(Limits(seconds=30, memory=256 << 20)))
        value, _, best = must(run(guest.workload(name, repeat))).strip().rpartition("\n")
        return {"value": value, "took": float(best)}

    def output(self, megabytes):
        limits = Limits(seconds=60, memory=256 << 20, output=(megabytes + 1) * 1_000_000)
        run = self.adapter.fresh(limits)
        begin = time.perf_counter()
        outcome = run(guest.writing(megabytes))
        took = time.perf_counter() - begin
        return {"kind": outcome.kind, "detail": outcome.detail, "took": took, "kept": len(outcome.stdout)}

    def default_output(self, megabytes):
        outcome = self.adapter.fresh()(guest.writing(megabytes))
        return {"kind": outcome.kind, "detail": outcome.detail, "kept": len(outcome.stdout)}

    # -- memory

    def memory(self, count):
        must(self.adapter.fresh()(guest.HELLO))
        warm = self.adapter.session()
        must(self.adapter.run(warm, "x = 1"))
        base = memory(family(os.getpid()))
        sessions = []

        def one_more():
            sessions.append(self.adapter.session())
            must(self.adapter.run(sessions[-1], "x = 1"))
        took = timed(count, one_more)
        full = memory(family(os.getpid()))
        while sessions:
            self.adapter.end(sessions.pop())
        time.sleep(0.2)
        after = memory(family(os.getpid()))
        return {"took": took, "base": base, "each": {k: (full[k] - base[k]) / count for k in full},
                "left": {k: after[k] - base[k] for k in full}}

    def growth(self, count, seconds=8):
        """Private kB that a fresh hello leaves behind, after some that fill what is kept; fewer where they take long."""
        run = self.adapter.fresh()
        self.hellos(run, count // 4, seconds)
        base = memory(family(os.getpid()))["private"]
        done = self.hellos(run, count, seconds)
        return (memory(family(os.getpid()))["private"] - base) * 1024 / done

    def hellos(self, run, most, seconds):
        end = time.perf_counter() + seconds
        for done in range(most):
            if done and time.perf_counter() > end:
                return done
            must(run(guest.HELLO))
        return most

    # -- images and wheels

    def image(self, modules, wheels):
        begin = time.perf_counter()
        image = self.adapter.build(modules, wheels)
        built = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "image")
            before_save = time.perf_counter()
            self.adapter.save(image, path)
            saved = time.perf_counter()
            on_disk = os.stat(path).st_blocks * 512
            loaded = self.adapter.load(path)
            done = time.perf_counter()
            must(self.adapter.fresh_from(loaded)("print(1)"))
        self.kept["image"] = self.adapter.fresh_from(image)
        return {"build": built - begin, "save": saved - before_save, "load": done - saved,
                "size": on_disk}

    def from_image(self, count, code):
        if "image" not in self.kept:
            raise Unsupported
        return timed(count, lambda: must(self.kept["image"](code)))

    def wheels(self, wheels, code, count):
        begin = time.perf_counter()
        run = self.adapter.attach(wheels)
        ready = time.perf_counter() - begin
        first, *rest = timed(count + 1, lambda: must(run(code)))
        return {"ready": ready, "first": first, "rest": rest}

    # -- what wants to hang, to eat or to crash

    def danger(self, code, seconds, memory_limit, times=1):
        run = self.adapter.fresh(Limits(seconds=seconds, memory=memory_limit))
        hello = self.adapter.fresh()
        must(hello(guest.HELLO))
        outcomes = []
        took = timed(times, lambda: outcomes.append(run(code)))
        begin = time.perf_counter()
        after = hello(guest.HELLO)
        last = outcomes[-1]
        return {"kind": last.kind, "detail": last.detail, "took": took, "kept": len(last.stdout), "after": after.ok,
                "after_took": time.perf_counter() - begin}

    def interrupt(self):
        """Ctrl-C in the midst of a loop: seconds until the host's thread has its exception."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run = self.adapter.fresh(Limits(seconds=4))
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin, seen = time.perf_counter(), False
        try:
            run("while True: pass")
        except KeyboardInterrupt:
            seen = True
        return {"seen": seen, "took": time.perf_counter() - begin - 0.5}

    def fork(self):
        """A fresh hello in the child of a process that ran one."""
        run = self.adapter.fresh()
        must(run(guest.HELLO))
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(5)
            code = 1
            try:
                code = 0 if run(guest.HELLO).ok else 1
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return {0: "works", -signal.SIGALRM: "hangs"}.get(code, "fails")

    # -- what a guest sees

    def differs(self, code):
        run = self.keep("fresh", self.adapter.fresh)
        seen = [run(code) for _ in range(3)]
        if not all(outcome.ok for outcome in seen):
            return f"{seen[0].kind}: {seen[0].detail}"
        return "yes" if len({outcome.stdout for outcome in seen}) == 3 else "no"

    def probe(self, code):
        outcome = self.adapter.fresh(Limits(seconds=5, memory=128 << 20))(code)
        return outcome.stdout.strip() or "ok" if outcome.ok else f"{outcome.kind}: {outcome.detail}"


def main():
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a product prints by itself must not stand among the replies
    adapter = importlib.import_module("adapters." + sys.argv[1]).ADAPTER()
    adapter.open()
    measures = Measures(adapter)
    for line in sys.stdin:
        request = json.loads(line)
        if request["name"] == "quit":
            break
        try:
            reply = {"value": getattr(measures, request["name"])(**request["args"])}
        except Unsupported as error:
            reply = {"unsupported": str(error)}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {str(error).strip()[-300:]}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
    adapter.close()


if __name__ == "__main__":
    main()
