"""The command against a library that only pretends (fake.c): what reaches the library, what is said
of its answers, and what a real guest seldom does."""

import fcntl
import os
import re
import signal
import subprocess
import tempfile
import time

from command import BRUMATE, Case, Terminal, main, run

os.environ.pop("BRUMATE_IMAGE", None)

S, MS = 10**9, 10**6

# Options, and what the library is given.
FIELDS = [
    ([], {"timeout": 30 * S, "exec": 30 * S, "cpu": 0, "grace": 100 * MS, "memory": 512 << 20,
          "output": 64 << 20, "files": 0, "stops": 1, "trusted": 1}),
    (["--timeout", "2s"], {"timeout": 2 * S, "exec": 2 * S}),
    (["-t", "1.5s"], {"timeout": 1500 * MS}),
    (["-t1m"], {"timeout": 60 * S}),
    (["--timeout=500ms"], {"timeout": 500 * MS}),
    (["--timeout=2h"], {"timeout": 7200 * S}),
    (["--cpu=10us"], {"cpu": 10000}),
    (["--timeout", "none"], {"timeout": 2**64 - 1}),
    (["--timeout", "1s", "--timeout", "3s"], {"timeout": 3 * S}),
    (["--cpu", "1s"], {"cpu": S}),
    (["--grace", "5ms"], {"grace": 5 * MS}),
    (["--memory", "64M"], {"memory": 64 << 20}),
    (["--memory", "64MiB"], {"memory": 64 << 20}),
    (["--memory", "64m"], {"memory": 64 << 20}),
    (["--memory", "33554432"], {"memory": 33554432}),
    (["--memory", "1.5G"], {"memory": 3 << 29}),
    (["--memory", "none"], {"memory": 2**64 - 1}),
    (["--output", "500K"], {"output": 500 << 10}),
    (["--output-policy", "cut"], {"stops": 0}),
    (["--output-policy", "stop"], {"stops": 1}),
    (["--files", "1M"], {"files": 1 << 20}),
    (["--image", "x.bru"], {"trusted": 0}),
    (["--guest", "x.so"], {"trusted": 0}),
]

# Wrong command lines, and words of the one line that says so.
WRONG = [
    (["--timeout", "2x", "-c", ""], '--timeout: "2x" is not a time; write 500ms, 2s or 1m'),
    (["--timeout", "300", "-c", ""], "is not a time"),
    (["--timeout", "-1s", "-c", ""], '"-1s" is not a time'),
    (["--timeout", "", "-c", ""], "is not a time"),
    (["--timeout", "0s", "-c", ""], "is not a time"),
    (["--timeout", " 1s", "-c", ""], "is not a time"),
    (["--timeout", "1s ", "-c", ""], "is not a time"),
    (["--timeout", "1.s", "-c", ""], "is not a time"),
    (["--timeout", ".5s", "-c", ""], "is not a time"),
    (["--timeout", "1e3s", "-c", ""], "is not a time"),
    (["--timeout", "0x1s", "-c", ""], "is not a time"),
    (["--timeout", "99999999999999999999s", "-c", ""], "is not a time"),
    (["--timeout", "18446744073709551616ns", "-c", ""], "is not a time"),
    (["--timeout", "9999999999h", "-c", ""], "is not a time"),
    (["--cpu", "x", "-c", ""], "--cpu"),
    (["--grace", "none", "-c", ""], "--grace"),
    (["--grace", "5", "-c", ""], "--grace"),
    (["--memory", "2x", "-c", ""], '--memory: "2x" is not a size; write 500K, 64M or 1G'),
    (["--memory", "0", "-c", ""], "is not a size"),
    (["--memory", "-5M", "-c", ""], "is not a size"),
    (["--memory", "99999999999G", "-c", ""], "is not a size"),
    (["--memory", "18446744073709551615", "-c", ""], "is not a size"),
    (["--memory", "64 M", "-c", ""], "is not a size"),
    (["--output", "M", "-c", ""], "--output"),
    (["--files", "1T", "-c", ""], "--files"),
    (["--output-policy", "keep", "-c", ""], "neither stop nor cut"),
    (["--env", "A", "-c", ""], '"A" is not KEY=VALUE'),
    (["--env", "=A", "-c", ""], "is not KEY=VALUE"),
    (["-v", "/tmp", "-c", ""], '"/tmp" is not SRC:DST'),
    (["-v", "/tmp:", "-c", ""], "is not SRC:DST"),
    (["-v", "/tmp:x", "-c", ""], "absolute DST"),
    (["-v", ":/x", "-c", ""], "is not SRC:DST"),
    (["-v", "/tmp:rw", "-c", ""], "is not SRC:DST"),
    (["-v", "", "-c", ""], "is not SRC:DST"),
    (["--timeot", "1s"], "unknown option --timeot; the nearest is --timeout (brumate --help"),
    (["--memroy=1M"], "the nearest is --memory"),
    (["--outputpolicy=cut"], "the nearest is --output-policy"),
    (["--zzzzzzzzzz"], "unknown option --zzzzzzzzzz (brumate --help"),
    (["--" + "x" * 5000], "unknown option --xxx"),
    (["-z"], "unknown option -z"),
    (["-qz"], "unknown option -z"),
    (["--timeout"], "--timeout needs a value: TIME"),
    (["-c"], "-c needs a value: CODE"),
    (["-v"], "-v needs a value"),
    (["--quiet=1"], "unknown option --quiet"),
    (["--help=1"], "--help takes no value"),
    (["--root", "x"], "unknown option --root"),
    (["image"], "is not a command"),
    (["image", "inof"], '"inof" is not a command; write image info'),
    (["--timeout", "1s", "image", "info"], "do not go with `image`"),
    (["image", "info", "a", "b"], "one file"),
    (["image", "verify"], "which file?"),
    (["image", "build"], "--guest FILE is missing"),
    (["image", "build", "--guest", "g"], "--root DIR is missing"),
    (["image", "build", "--guest", "g", "--root", "r"], "-o FILE is missing"),
    (["image", "build", "--guest", "g", "--root", "r", "-o", "o", "x"], 'what is "x"?'),
    (["image", "build", "--preload", "a b"], "is not a list of modules"),
    (["image", "info", "--timeout", "1s"], "unknown option --timeout"),
    (["-c", b"\xff"], "-c: not UTF-8"),
    (["freeze", "-c", ""], "-o FILE is missing"),
    (["freeze", "-i", "-o", "x"], "unknown option -i"),
    (["freeze", "-o", "/", "-c", ""], "not a regular file"),
    (["freeze", "-o", "/tmp/x", "--key-file", "/no/such", "-c", ""], "--key-file: /no/such: No such"),
    (["--timeout", "1s", "freeze", "-o", "x"], "do not go with `freeze`"),
    (["thaw"], "which snapshot?"),
    (["thaw", "-c", "1", "x"], "the snapshot comes before the program"),
    (["thaw", "/no/such"], "cannot open the snapshot"),
    (["snapshot"], '"" is not a command; write snapshot info'),
    (["snapshot", "build"], '"build" is not a command'),
    (["snapshot", "info"], "which file?"),
    (["snapshot", "info", "a", "b"], "one file"),
    (["snapshot", "info", "--timeout", "1s"], "unknown option --timeout"),
]

# A program's file, and the line that refuses it.
BAD_SOURCES = [
    (b"PK\3\4rest", "a zip archive"),
    (b"\xa7\x0d\x0d\x0a" + bytes(12), "compiled Python"),
    (b"out a\n\xff\n", "line 2 is not UTF-8"),
    (b"\xed\xa0\x80", "line 1 is not UTF-8"),
    (b"\xc0\xaf", "not UTF-8"),
    (b"ab\xe2\x82", "not UTF-8"),
    (b"# coding: no-such\nout a\n", 'the encoding "no-such" is not known'),
    (b"# coding: utf-16\nout a\n", 'the encoding "utf-16" is not known'),
    (b"# coding: shift_jis\nout \xff\xff\n", 'line 2 is not text in "shift_jis"'),
]

# A program's file, and what the library is given of its last line.
GOOD_SOURCES = [
    (b"out plain", "plain"),
    ("out gr\u00fc\u00df \U0001f40d".encode(), "gr\u00fc\u00df \U0001f40d"),
    (b"\xef\xbb\xbfout marked", "marked"),
    (b"# -*- coding: latin-1 -*-\nout gr\xfc\xdf", "gr\u00fc\u00df"),
    (b"#!/usr/bin/brumate\n# vim: set fileencoding=cp1252 :\nout \x80", "\u20ac"),
    (b"\n#coding=koi8-r\nout \xc1", "\u0430"),
    (b"# coding: utf-8\nout \xc3\xa9", "\u00e9"),
    (b"# CODING none\nout \xc3\xa9", "\u00e9"),
    (b"x = 1\n# coding: latin-1\nout \xc3\xa9", "\u00e9"),  # too late to count
    (b"out x\n# coding: latin-1\nout \xc3\xa9", "x\n\u00e9"),
]


class Lines(Case):
    def shown(self, *args, **kw):
        end = run(*args, **kw)
        self.assertEqual(end.code, 0, end)
        return end.out.decode()

    def test_each_option_reaches_the_library(self):
        for args, want in FIELDS:
            with self.subTest(args):
                text = self.shown(*args, "-c", "show")
                have = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", text)}
                self.assertEqual({k: have[k] for k in want}, want)

    def test_texts_reach_the_library(self):
        text = self.shown("--image", "x.bru", "--guest", "y.so", "-e", "A=1", "--env", "B=x=y",
                          "-v", "/a:/b", "-v", "c:d:/e:rw", "--volume", "f:/g/h:ro", "-c", "show")
        self.assertIn("image x.bru guest=y.so", text)
        self.assertIn("env A=1 B=x=y\n", text)
        self.assertIn("mounts /a>/b:ro c:d>/e:rw f>/g/h:ro\n", text)

    def test_an_image_of_the_environment_is_checked(self):
        self.assertIn("trusted=0", self.shown("-c", "show", env={"BRUMATE_IMAGE": "z.bru"}))

    def test_arguments_after_the_program_are_its_own(self):
        with tempfile.NamedTemporaryFile(suffix=".py") as f:
            f.write(b"show")
            f.flush()
            name = f.name
            for args, want in [
                (["-c", "show", "--timeout", "x", "-q"],
                 "file=<string> flags=4 argv [-c] [--timeout] [x] [-q]"),
                (["-cshow", "a"], "argv [-c] [a]"),
                (["-m", "show", "-v"], "flags=6 argv [-v]"),
                ([name, "--memory", "1"], f"file={name} flags=4 argv [{name}] [--memory] [1]"),
                (["--", name, "--", "x"], f"argv [{name}] [--] [x]"),
                ([name, ""], f"argv [{name}] []"),
            ]:
                with self.subTest(args):
                    self.assertIn(want + "\n", self.shown(*args))

    def test_a_program_from_stdin(self):
        self.assertIn("file=<stdin> flags=4 argv [-] [a]\n", self.shown("-", "a", input="show"))
        self.assertIn("file=<stdin> flags=4 argv []\n", self.shown(input="show"))
        self.ends(run("-", input="out a\nin\nout b"), 0, "a\nb\n")  # its stdin is at its end

    def test_wrong_command_lines(self):
        for args, words in WRONG:
            with self.subTest(args):
                self.one_line(run(*args), words=words)

    def test_sources_refused(self):
        with tempfile.TemporaryDirectory() as d:
            for text, words in BAD_SOURCES:
                with self.subTest(text):
                    path = os.path.join(d, "x.py")
                    with open(path, "wb") as f:
                        f.write(text)
                    self.one_line(run(path), words=words)
                    self.one_line(run("-", input=text), words=words)
            self.one_line(run(d), words="a folder")
            self.one_line(run(os.path.join(d, "none.py")), words="No such file")
            self.one_line(run(os.path.join(d, "no\nne\033[31m.py")), words="no\\nne\\x1b[31m")
            big = os.path.join(d, "big.py")
            with open(big, "wb") as f:
                f.truncate((64 << 20) + 1)
            self.one_line(run(big), words="larger than 64 MiB")
            self.one_line(run("/dev/zero"), words="larger than 64 MiB")

    def test_sources_taken(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "x.py")
            for text, want in GOOD_SOURCES:
                with self.subTest(text):
                    with open(path, "wb") as f:
                        f.write(text)
                    self.ends(run(path), 0, want + "\n")
            with open(path, "wb") as f:
                f.write(b"#" * (20 << 20) + b"\nout end")
            self.ends(run(path), 0, "end\n")

    def test_help_and_version(self):
        self.assertIn("--timeout TIME", self.shown("--help"))
        self.assertIn("--preload A,B", self.shown("image", "build", "-h"))
        self.assertEqual(self.shown("-V"), "brumate 0.0.0-fake\n")
        with open("/dev/full", "wb") as full:
            self.one_line(run("--help", stdout=full), words="cannot write to stdout")

    def test_image_commands(self):
        text = self.shown("image", "info", "x.bru")
        self.assertIn("guest: no Python\n", text)
        self.assertIn("preloaded: a b\n", text)
        self.assertEqual(self.shown("image", "verify", "a", "--guest", "g", "b"),
                         "a: whole, id 11\nb: whole, id 11\n")
        end = run("image", "verify", "a", "damaged", "b")
        self.assertEqual((end.code, end.out), (120, b"a: whole, id 11\nb: whole, id 11\n"))
        self.assertEqual(self.shown("image", "build", "--guest", "g", "--root", "r", "--preload",
                                    "json,os.path", "-o", "o"),
                         "guest=g root=r preload=json\nos.path path=o\n")

    def test_snapshot_commands(self):
        with tempfile.TemporaryDirectory() as d:
            path = d + "/s"
            ended = run("freeze", "-o", path, "-c", "out one\nwait 60000\nout two")
            self.ends(ended, 0, "one\n", r"\Abrumate: frozen while it waits")
            text = self.shown("snapshot", "info", path)
            self.assertIn("id: 22\n", text)
            self.assertIn("waiting: yes\nleft_seconds: 1.500\n", text)
            self.assertIn("calls: f?[31m\n", text)
            self.ends(run("thaw", path), 0, "two\n")
            self.ends(run("thaw", path, "-c", "out more"), 0, "two\nmore\n")
            for code, why in (("raise", 1), ("exit 7", 7), ("end timeout", 124)):
                self.assertEqual(run("freeze", "-o", d + "/none", "-c", code).code, why)
            self.ends(run("freeze", "-o", path, "-c", "restless\nwait 10"), 120, "", "not at rest")
            self.assertEqual(os.listdir(d), ["s"])
            for command in ("freeze", "thaw", "snapshot"):
                with open(f"{d}/{command}", "w") as f:
                    f.write("out a script")
                self.ends(run("--", command, cwd=d), 0, "a script\n")

    def test_a_message_of_the_library_is_one_line(self):
        self.one_line(run("--image", "damaged", "-c", ""),
                      words="damaged.bru: damaged\\nor \\x1b[31mnot")


class Ends(Case):
    def test_each_reason_has_its_code_and_its_line(self):
        for name, code, err in [
            ("completed", 0, r"\A\Z"),
            ("exception", 1, r"\ATraceback: boom\n\Z"),
            ("timeout", 124,
             r"\Abrumate: time limit reached \(--timeout 30s\): it was\\ntoo much\n\Z"),
            ("cpu_limit", 124, r"\Abrumate: CPU time .*\(--cpu .*\): .*\n\Z"),
            ("memory_limit", 125, r"\Abrumate: memory limit .*\(--memory 512M\): .*\n\Z"),
            ("output_limit", 126, r"\Abrumate: output limit .*\(--output 64M\): .*\n\Z"),
            ("stack_limit", 123, r"\Abrumate: stack limit reached: it was\\ntoo much\n\Z"),
            ("crashed", 122, r"\Abrumate: the interpreter crashed: .*\n\Z"),
            ("interrupted", 130, r"\Abrumate: interrupted: .*\n\Z"),
        ]:
            with self.subTest(name):
                self.ends(run("-c", f"out a\nend {name}"), code, "a\n", err)

    def test_exit_codes_of_the_guest(self):
        for n, code in [(0, 0), (3, 3), (255, 255), (256, 0), (-1, 255), (141, 141)]:
            self.ends(run("-c", f"exit {n}"), code, "", r"\A\Z")

    def test_a_call_gets_an_error(self):
        self.ends(run("-c", "call"), 0, "no host function is offered here\n")

    def test_stats(self):
        end = run("--stats", "-c", "out a\nexit 3")
        self.ends(end, 3, "a\n")
        keys = [line.split(": ")[0] for line in end.err.decode().splitlines()]
        self.assertEqual(keys, ["reason", "exit_code", "wall_seconds", "cpu_seconds",
                                "peak_memory_bytes", "written_memory_bytes", "stdout_bytes",
                                "stderr_bytes", "cut_bytes", "file_bytes"])
        self.assertIn(b"reason: exited\nexit_code: 3\nwall_seconds: 0.001500\n", end.err)
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "stats")
            self.ends(run(f"--stats={path}", "-c", "out a"), 0, "a\n", r"\A\Z")
            with open(path) as f:
                self.assertIn("stdout_bytes: 2\n", f.read())
            self.ends(run(f"--stats={d}/none/x", "-c", "out a"), 120, "a\n",
                      r"\Abrumate: --stats: ")
            self.ends(run("--stats=/dev/full", "-c", "out a"), 120, "a\n", r"No space left")


class Streams(Case):
    def test_input_passes_byte_for_byte(self):
        data = bytes(range(256)) * 4000
        self.ends(run("-c", "in", input=data), 0, data)

    def test_input_is_read_only_when_asked_for(self):
        r, w = os.pipe()
        os.write(w, b"for the next\n")
        self.ends(run("-c", "out a", stdin=r), 0, "a\n")
        self.assertEqual(os.read(r, 100), b"for the next\n")

    def test_output_that_floods_and_a_slow_reader(self):
        r, w = os.pipe()
        fcntl.fcntl(w, fcntl.F_SETFL, os.O_NONBLOCK)  # EAGAIN instead of blocking
        p = subprocess.Popen([BRUMATE, "-c", "flood 3000000"], stdout=w)
        os.close(w)
        got = 0
        while data := os.read(r, 300000):
            got += len(data)
            time.sleep(0.001)
        self.assertEqual((p.wait(), got), (0, 3000000))

    def test_a_closed_pipe_ends_it_quietly(self):
        r, w = os.pipe()
        os.close(r)
        end = run("-c", "flood 3000000\nerr never", stdout=w)
        self.ends(end, 141, None, r"\A\Z")

    def test_a_closed_pipe_where_the_signal_is_ignored(self):
        r, w = os.pipe()
        os.close(r)
        end = run("-c", "flood 3000000", stdout=w, restore_signals=False,
                  preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
        self.ends(end, 141, None, r"\A\Z")

    def test_a_full_disk_is_one_line(self):
        with open("/dev/full", "wb") as full:
            self.one_line(run("-c", "flood 300000", stdout=full),
                          words="cannot write to stdout: No space left")

    def test_streams_that_came_closed(self):
        for fds in [(0,), (1,), (2,), (0, 1, 2)]:
            redirections = " ".join(f"{fd}>&-" for fd in fds)
            with self.subTest(fds):
                rc = subprocess.run(["sh", "-c", f'"$0" -c "in\nout a\nerr b" {redirections}',
                                     BRUMATE], stdin=subprocess.DEVNULL, capture_output=True)
                self.assertEqual(rc.returncode, 0)
                self.assertEqual(rc.stdout, b"" if 1 in fds else b"a\n")
                self.assertEqual(rc.stderr, b"" if 2 in fds else b"b\n")

    def test_stdin_that_cannot_be_read(self):
        with open("/dev/null", "wb") as unreadable:
            end = run("-c", "in\nout a", stdin=unreadable)
        self.ends(end, 0, "a\n", r"\Abrumate: cannot read stdin: ")
        fd = os.open("/tmp", os.O_RDONLY)
        self.one_line(run("-", stdin=fd), words="stdin: Is a directory")

    def test_waiting_for_the_world_is_bounded_by_the_deadline(self):
        r, w = os.pipe()
        for args, kw in [(["-c", "in"], {"stdin": r}), (["-c", "flood 1000000"], {"stdout": w}),
                         (["-c", "wait 60000"], {})]:
            with self.subTest(args):
                end = run("--timeout", "300ms", *args, **kw)
                self.ends(end, 124, None, "time limit")
                self.assertLess(end.seconds, 2)


class Interrupts(Case):
    def started(self, code, **kw):
        p = subprocess.Popen([BRUMATE, "--timeout", "30s", "-c", "out a\n" + code],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
        self.assertEqual(os.read(p.stdout.fileno(), 2), b"a\n")
        time.sleep(0.05)
        return p

    def test_the_first_is_soft(self):
        for code, kw in [("spin", {}), ("wait 20000", {}), ("in", {"stdin": subprocess.PIPE})]:
            with self.subTest(code):
                p = self.started(code, **kw)
                p.send_signal(signal.SIGINT)
                self.assertEqual((p.wait(5), p.stderr.read()), (130, b"KeyboardInterrupt\n"))

    def test_the_second_is_hard(self):
        p = self.started("deaf")
        p.send_signal(signal.SIGINT)
        time.sleep(0.2)
        self.assertIsNone(p.poll())
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(5), 130)
        self.assertIn(b"brumate: interrupted", p.stderr.read())

    def test_output_that_nobody_reads_does_not_hold_it(self):
        p = self.started("flood 1000000")
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(5), 130)

    def test_it_stays_ignored_where_it_was(self):
        p = self.started("wait 300\nout b",
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        p.send_signal(signal.SIGINT)
        self.assertEqual((p.wait(5), p.stdout.read()), (0, b"b\n"))

    def test_while_the_program_is_read(self):
        p = subprocess.Popen([BRUMATE, "-"], stdin=subprocess.PIPE)
        time.sleep(0.2)
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(5), 130)


class Prompt(Case):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.env = {"HOME": self.home.name, "XDG_STATE_HOME": self.home.name + "/state"}
        self.history = self.home.name + "/state/brumate/history"
        self.addCleanup(self.home.cleanup)

    def terminal(self, *args, **kw):
        t = Terminal(*args, env={**self.env, **kw})
        self.addCleanup(t.close)
        return t

    def test_lines_run_and_ctrl_d_leaves(self):
        t = self.terminal()
        self.assertIn("Ctrl-D leaves", t.expect(">>> "))
        self.assertIn("\r\nhello\r\n", t.say("out hello"))
        self.assertIn("flags=1", t.say("show"))
        t.type("\x04")
        self.assertEqual(t.finish(), 0)

    def test_quiet_has_no_banner(self):
        t = self.terminal("-q")
        self.assertEqual(t.expect(">>> "), ">>> ")

    def test_blocks_of_lines(self):
        t = self.terminal("-q")
        t.expect(">>> ")
        self.assertNotIn("b\r\n", t.say("more", "... "))
        self.assertNotIn("\r\nb\r\n", t.say("out b", "... "))
        self.assertIn("\r\nb\r\n", t.say(""))

    def test_ctrl_c_at_the_prompt_clears_the_line(self):
        t = self.terminal("-q")
        t.expect(">>> ")
        t.type("out no")
        t.expect("out no")
        t.type("\x03")
        self.assertIn("KeyboardInterrupt", t.expect(">>> "))
        out = t.say("out yes")
        self.assertIn("\r\nyes\r\n", out)
        self.assertNotIn("no\r\n", out)
        t.say("more", "... ")
        t.type("\x03")
        t.expect(">>> ")
        self.assertIn("\r\nyes\r\n", t.say("out yes"))

    def test_ctrl_c_while_it_runs(self):
        t = self.terminal("-q")
        t.expect(">>> ")
        for _ in range(2):
            t.type("out go\nspin\n")
            t.expect("\r\ngo\r\n")
            t.expect("spin")
            time.sleep(0.1)
            t.type("\x03")
            self.assertIn("KeyboardInterrupt", t.expect(">>> "))
        self.assertIn("\r\nyes\r\n", t.say("out yes"))

    def test_the_second_ctrl_c_resets(self):
        t = self.terminal("-q")
        t.expect(">>> ")
        t.type("deaf\n")
        t.expect("deaf")
        time.sleep(0.1)
        t.type("\x03")
        time.sleep(0.1)
        t.type("\x03")
        self.assertIn("the session starts afresh", t.expect(">>> "))
        self.assertIn("\r\nyes\r\n", t.say("out yes"))

    def test_a_limit_resets(self):
        t = self.terminal("-q")
        t.expect(">>> ")
        out = t.say("end memory_limit")
        self.assertIn("brumate: memory limit reached", out)
        self.assertIn("brumate: the session starts afresh", out)
        self.assertIn("\r\nyes\r\n", t.say("out yes"))

    def test_leaving(self):
        for line, code in [("exit", 0), ("quit", 0), ("exit 7", 7)]:
            t = self.terminal("-q")
            t.expect(">>> ")
            t.type(line + "\n")
            self.assertEqual(t.finish(), code)

    def test_the_timeout_is_none_unless_given(self):
        t = self.terminal("-q")
        t.expect(">>> ")
        self.assertIn(f"exec={2**64 - 1} cpu=0 grace={S}", t.say("show"))
        t = self.terminal("-q", "--timeout", "200ms", "--grace", "7ms", "--memory", "64M")
        t.expect(">>> ")
        self.assertIn(f"exec={200 * MS} cpu=0 grace={7 * MS} memory={64 << 20}", t.say("show"))
        self.assertIn("time limit reached", t.say("spin"))

    def test_input_of_the_guest_is_a_line_of_the_terminal(self):
        t = self.terminal("-q")
        t.expect(">>> ")
        t.type("line\n")
        t.expect("line\r\n")
        time.sleep(0.1)
        self.assertTrue(t.local_echo())
        t.type("typed\n")
        self.assertIn("typed\r\ntyped\r\n", t.expect(">>> "))
        t.type("in\n")
        time.sleep(0.1)
        t.type("\x04")
        t.expect(">>> ")
        self.assertIn("\r\nyes\r\n", t.say("out yes"))

    def test_tab_completes(self):
        t = self.terminal("-q")
        t.expect(">>> ")
        t.type("rai\t\n")
        t.expect("Traceback: boom")
        t.expect(">>> ")
        t.type("out\t\t")
        self.assertNotIn("31m", t.expect("out_two"))
        t.type("\x03")
        t.expect(">>> ")

    def test_text_beyond_ascii(self):
        for locale in ("C", "C.UTF-8"):
            t = self.terminal("-q", LC_ALL=locale)
            t.expect(">>> ")
            self.assertIn("\r\ngr\u00fc\u00df\u20ac\r\n", t.say("out gr\u00fc\u00df\u20ac"))

    def test_history_is_kept_private_and_bounded(self):
        t = self.terminal("-q")
        t.expect(">>> ")
        t.say("out first")
        t.say("out second")
        t.type("\x1b[A\x1b[A\n")  # up, up
        t.expect("\r\nfirst\r\n")
        t.expect(">>> ")
        t.type("\x04")
        t.finish()
        self.assertEqual(os.stat(self.history).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(os.path.dirname(self.history)).st_mode & 0o777, 0o700)
        with open(self.history) as f:
            self.assertEqual(f.read(), "out first\nout second\nout first\n")
        with open(self.history, "a") as f:
            f.writelines(f"out {n}\n" for n in range(5000))
        t = self.terminal("-q")
        t.expect(">>> ")
        t.type("\x1b[A\n")
        t.expect("\r\n4999\r\n")
        t.expect(">>> ")
        t.type("\x04")
        t.finish()
        with open(self.history) as f:
            lines = f.readlines()
        self.assertEqual((len(lines), lines[-2:]), (1001, ["out 4999\n"] * 2))
        self.assertEqual(os.listdir(os.path.dirname(self.history)), ["history"])

    def test_a_history_that_cannot_be_kept_is_no_matter(self):
        os.makedirs(self.history)  # a folder in its place
        for env in [{}, {"XDG_STATE_HOME": "/proc/none", "HOME": ""},
                    {"XDG_STATE_HOME": "x", "HOME": "/dev/null"}]:
            t = self.terminal("-q", **env)
            t.expect(">>> ")
            self.assertIn("\r\nyes\r\n", t.say("out yes"))

    def test_a_prompt_without_a_terminal(self):
        end = run("-i", "-q", input="out a\nmore\nout b\n\nline\nfor the guest\nexit 5\nout no\n")
        self.ends(end, 5, "a\nb\nfor the guest\n")
        self.assertIn(b">>> ... ... ", end.err)

    def test_a_prompt_after_the_program(self):
        with tempfile.NamedTemporaryFile(suffix=".py") as f:
            f.write(b"out a\nraise")
            f.flush()
            self.ends(run("-iq", f.name, input="out b"), 0, "a\nb\n", "boom")
        self.ends(run("-i", "-q", "-c", "end memory_limit", input="out b"), 0, "b\n",
                  "memory limit(.|\n)*afresh(.|\n)*>>> ")


if __name__ == "__main__":
    main()
