"""The command with a real guest: exit codes, what comes out where, each flag's bite, the prompt on
a terminal, damaged images and machines that refuse. BRUMATE names the command, BRUMATE_IMAGE the
image (build/core.bru), BRUMATE_GUEST the guest's shared object."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from command import BRUMATE, Case, Terminal, main, run

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
IMAGE = os.environ.setdefault("BRUMATE_IMAGE", os.path.join(SOURCE, "build/core.bru"))
GUEST = os.environ.get("BRUMATE_GUEST", os.path.join(os.path.dirname(IMAGE), "core.so"))
SANITIZED = os.environ.get("SANITIZE", "none") != "none"
ROOT = os.path.join(os.path.dirname(GUEST), "root")
EAT = "x = bytearray(100 << 20); print('ate')"

# Arguments, stdin, then exit code, stdout, and a pattern for stderr (None: it is empty).
ENDS = [
    (["-c", "print('hi')"], "", 0, "hi\n", None),
    (["-c", "import sys; sys.exit(3)"], "", 3, "", None),
    (["-c", "import sys; sys.exit()"], "", 0, "", None),
    (["-c", "import sys; sys.exit(256 + 7)"], "", 7, "", None),
    (["-c", "import sys; sys.exit(-1)"], "", 255, "", None),
    (["-c", "import sys; sys.exit('bye')"], "", 1, "", r"\Abye\n\Z"),
    (["-c", "raise SystemExit(141)"], "", 141, "", None),
    (["-c", "1/0"], "", 1, "",
     r"\ATraceback(.|\n)*File \"<string>\", line 1(.|\n)*ZeroDivisionError"),
    (["-c", "import sys; print('a'); print('b', file=sys.stderr); raise RuntimeError('boom')"],
     "", 1, "a\n", r"\Ab\nTraceback(.|\n)*RuntimeError: boom\n\Z"),
    (["-c", "x = [1, 2\nprint(x)"], "", 1, "",
     r"File \"<string>\", line 1\n(.|\n)*\^(.|\n)*SyntaxError"),
    (["-c", "raise KeyboardInterrupt"], "", None, "", "KeyboardInterrupt"),
    (["-c", "import sys; print(sys.argv)", "a", "--timeout", "-x"], "", 0,
     "['-c', 'a', '--timeout', '-x']\n", None),
    (["-", "a"], "import sys; print(sys.argv, repr(sys.stdin.read()))", 0, "['-', 'a'] ''\n", None),
    ([], "print(1)", 0, "1\n", None),
    (["-m", "json.tool", "--compact"], '{"a": [1]}', 0, '{"a":[1]}\n', None),
    (["-m", "no.such.module"], "", 1, "", "No module named"),
    (["-c", "try: input('name? ')\nexcept EOFError: print('eof')"], "", 0, "name? eof\n", None),
    (["-c", "print(input('? '), input())"], "one\ntwo", 0, "? one two\n", None),
    (["-c", "import sys; print(len(sys.stdin.buffer.read()))"], "x" * 300000, 0, "300000\n", None),
    (["-c", "import sys; [print(len(l)) for l in sys.stdin]"], "ab\nc", 0, "3\n1\n", None),
    (["-c", "import os; os.write(1, bytes(range(256)))"], "", 0, bytes(range(256)), None),
    (["-c", "import asyncio; await asyncio.sleep(.01); print('up')"], "", 0, "up\n", None),
    (["-c", "import time; time.sleep(.05); print('up')"], "", 0, "up\n", None),
    (["-c", "import atexit; atexit.register(print, 'end'); print('body')"], "", 0,
     "body\nend\n", None),
    (["-e", "A=b=c", "-c", "import os; print(os.environ['A'], len(os.environ))"], "", 0,
     "b=c 4\n", None),
    (["-c", "import os; print(*sorted(os.environ))"], "", 0, "HOME LANG TMPDIR\n", None),
    (["-c", "import os; print(os.path.exists('/etc/passwd'), os.path.exists('/work'))"], "", 0,
     "False False\n", None),
    (["--timeout", "300ms", "-c", "print('a')\nwhile 1: pass"], "", 124, "a\n",
     "time limit reached"),
    (["--timeout", "300ms", "-c", "import time; time.sleep(60)"], "", 124, "",
     "time limit reached"),
    (["--timeout", "300ms", "-c", "import asyncio; await asyncio.sleep(60)"], "", 124, "",
     "time limit reached"),
    (["--timeout", "300ms", "-c",
      "while 1:\n try:\n  while 1: pass\n except BaseException: pass"], "", 124, "", "time limit"),
    (["--timeout", "300ms", "-c", "try:\n while 1: pass\nfinally: print('clean')"], "", 124,
     "clean\n", "time limit"),
    (["--cpu", "200ms", "-c", "while 1: pass"], "", 124, "", r"brumate: CPU time limit reached \(--cpu 200ms\)"),
    (["--cpu", "200ms", "-c", "import time; time.sleep(.5); print('ok')"], "", 0, "ok\n", None),
    (["--timeout", "none", "-c", "print(1)"], "", 0, "1\n", None),
    (["--memory", "64M", "-c", EAT], "", None, "", "MemoryError|memory limit"),
    (["--memory", "256M", "-c", EAT], "", 0, "ate\n", None),
    (["--memory", "64M", "-c",
      "try: bytearray(100 << 20)\nexcept MemoryError: print('caught')"], "", 0, "caught\n", None),
    (["--output", "1K", "-c", "for i in range(9999): print('x' * 99)"], "", 126, None,
     "brumate: output limit reached"),
    (["--output", "1000", "--output-policy", "cut", "-c", "print('x' * 4999); print('y')"], "", 0,
     "x" * 1000, r"\Abrumate: 4002 bytes of output were cut \(--output 1000\)"),
    (["--files", "1M", "-c", "open('f', 'wb').write(bytes(2 << 20))"], "", 1, "", "OSError"),
    (["--files", "4M", "-c", "print(open('f', 'wb').write(bytes(2 << 20)))"], "", 0,
     "2097152\n", None),
    (["-c", "def f(n): return f(n + 1)\nf(0)"], "", 1, "", "RecursionError"),
    (["--image", "none.bru", "-c", ""], "", 120, "", r"\Abrumate: .*none\.bru.*\n\Z"),
    (["--guest", "none.so", "-c", ""], "", 120, "", r"\Abrumate: .*none\.so.*\n\Z"),
    (["-v", "/no/such:/x", "-c", ""], "", 120, "", r"\Abrumate: .*/no/such.*\n\Z"),
    (["--memory", "1M", "-c", ""], "", 120, "", r"\Abrumate: .*\n\Z"),
]


class Programs(Case):
    def test_a_table_of_command_lines(self):
        for args, given, code, out, err in ENDS:
            with self.subTest(args):
                end = run(*args, input=given)
                self.ends(end, end.code if code is None else code, out, err or r"\A\Z")
                if code is None:
                    self.assertNotEqual(end.code, 0)

    def test_a_script_has_its_name_and_arguments(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "script.py")
            with open(path, "w") as f:
                f.write("import sys\nprint(sys.argv, __file__, __name__)\ndef f():\n    1/0\nf()\n")
            end = run(path, "a", "-q")
            self.ends(end, 1, f"{[path, 'a', '-q']} {path} __main__\n",
                      f'File "{path}", line 4, in f\n    1/0\n')
            with open(path, "w") as f:
                f.write("import neighbour\n")
            with open(os.path.join(d, "neighbour.py"), "w") as f:
                f.write("print('imported')\n")
            self.ends(run(path), 1, "", "ModuleNotFoundError")
            self.ends(run("-v", f"{d}:{d}", path), 0, "imported\n")
            self.ends(run("-v", f"{d}:/data", "-m", "neighbour"), 0, "imported\n")

    def test_source_in_other_encodings(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "x.py")
            for head, encoding in [("", "utf-8"), ("", "utf-8-sig"),
                                   ("# -*- coding: latin-1 -*-\n", "latin-1"),
                                   ("# coding: cp1252\n", "cp1252"), ("# coding: utf-8\n", "utf-8"),
                                   ("", "crlf")]:
                with self.subTest(encoding):
                    text = head + "print('gr\u00fc\u00df')\n"
                    with open(path, "wb") as f:
                        f.write(text.replace("\n", "\r\n").encode() if encoding == "crlf"
                                else text.encode(encoding))
                    self.ends(run(path), 0, "gr\u00fc\u00df\n", r"\A\Z")
            with open(path, "wb") as f:
                f.write(b"print(1)\nx = '\0'\n")
            self.ends(run(path), 1, "", "null byte")

    def test_streams_keep_their_order(self):
        code = ("import sys\nfor i in range(300):\n print('o', i, flush=True)\n"
                " print('e', i, file=sys.stderr, flush=True)")
        end = run("-c", code, stderr=subprocess.STDOUT)
        self.ends(end, 0, "".join(f"o {i}\ne {i}\n" for i in range(300)))

    def test_output_comes_while_it_runs(self):
        p = subprocess.Popen([BRUMATE, "-c", "print('now', flush=True); input(); print('then')"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(p.stdout.readline(), b"now\n")
        self.assertEqual(p.communicate(b"\n")[0], b"then\n")

    def test_many_tiny_writes(self):
        end = run("-c", "import sys\nfor i in range(300_000): sys.stderr.write('x')")
        self.ends(end, 0, "")
        self.assertEqual(end.err, b"x" * 300_000)
        self.assertLess(end.seconds, 5)

    def test_megabytes_of_program_text(self):
        rows = repr([(i, str(i)) for i in range(200_000)])
        code = f"rows = {rows}\nprint(len(rows), sum(int(b) for _, b in rows))"
        self.ends(run("-", input=code), 0, "200000 19999900000\n", r"\A\Z")

    def test_a_closed_pipe_is_quiet(self):
        for code in ["while 1: print('x' * 100)", "import os\nwhile 1: os.write(1, b'x')"]:
            p = subprocess.Popen(["sh", "-c", '"$0" -c "$1" | head -c 9', BRUMATE, code],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            out, err = p.communicate(timeout=40)
            self.assertEqual(err, b"")

    def test_the_three_ways_in_have_the_same_memory_limit(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as f:
            f.write(EAT)
            f.flush()
            for way in (["-c", EAT], [f.name]):
                self.ends(run("--memory", "64M", *way), run("--memory", "64M", *way).code, "",
                          "MemoryError|memory limit")
                self.ends(run("--memory", "256M", *way), 0, "ate\n", r"\A\Z")
            end = run("--memory", "64M", "-i", "-q", input=EAT + "\nprint('on')\n")
            self.ends(end, 0, "on\n", "MemoryError|memory limit")
            end = run("--memory", "256M", "-i", "-q", input=EAT + "\n")
            self.ends(end, 0, "ate\n")

    def test_stats(self):
        end = run("--stats", "-c", "import sys; print('abc'); sys.stderr.write('12'); "
                                   "open('f', 'w').write('x' * 5000)")
        self.ends(end, 0, "abc\n")
        stats = dict(line.split(": ", 1) for line in end.err[2:].decode().splitlines())
        self.assertEqual((stats["reason"], stats["exit_code"]), ("completed", "0"))
        self.assertEqual((stats["stdout_bytes"], stats["stderr_bytes"], stats["cut_bytes"]),
                         ("4", "2", "0"))
        self.assertTrue(0 < float(stats["cpu_seconds"]) <= float(stats["wall_seconds"]) + 0.01 < 5)
        self.assertTrue(10 << 20 < int(stats["peak_memory_bytes"]) < 128 << 20)
        self.assertTrue(0 <= int(stats["written_memory_bytes"]) < 64 << 20)
        self.assertTrue(5000 <= int(stats["file_bytes"]) < 20000)
        end = run("--stats", "--timeout", "200ms", "-c", "while 1: pass")
        self.ends(end, 124, "", r"reason: time limit reached\nexit_code: 124\n")

    def test_deadlines_are_kept(self):
        for code in ["while 1: pass", "import time; time.sleep(9)", "3**(10**7)",
                     "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
                     "sorted(range(10**7), key=lambda x: -x)"]:
            with self.subTest(code):
                end = run("--timeout", "300ms", "--memory", "1G", "-c", code)
                self.assertEqual(end.code, 124, end)
                self.assertLess(end.seconds, 1)


class Mounts(Case):
    def setUp(self):
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        self.dir = d.name
        with open(self.path("file"), "w") as f:
            f.write("inside\n")
        os.mkdir(self.path("sub"))

    def path(self, name):
        return os.path.join(self.dir, name)

    def test_read_only_unless_asked(self):
        read, write = "print(open('/m/file').read(), end='')", "open('/m/new', 'w').write('x')"
        for suffix in ("", ":ro"):
            self.ends(run("-v", f"{self.dir}:/m{suffix}", "-c", read), 0, "inside\n")
            for code in (write, "open('/m/file', 'a')", "import os; os.remove('/m/file')",
                         "import os; os.mkdir('/m/d')", "import os; os.rename('/m/file', '/m/f')",
                         "import os; os.truncate('/m/file', 0)"):
                with self.subTest((suffix, code)):
                    self.ends(run("-v", f"{self.dir}:/m{suffix}", "-c", code), 1, "",
                              "OSError|PermissionError")
        self.assertEqual(sorted(os.listdir(self.dir)), ["file", "sub"])
        self.ends(run("-v", f"{self.dir}:/m:rw", "-c", write), 0, "")
        with open(self.path("new")) as f:
            self.assertEqual(f.read(), "x")

    def test_a_file(self):
        self.ends(run("-v", self.path("file") + ":/a/b/c", "-c", "print(open('/a/b/c').read())"), 0,
                  "inside\n\n")
        self.ends(run("-v", self.path("file") + ":/f", "-c", "open('/f', 'w')"), 1, "")
        self.ends(run("-v", self.path("file") + ":/f:rw", "-c", "open('/f', 'w').write('new')"), 0)
        with open(self.path("file")) as f:
            self.assertEqual(f.read(), "new")

    def test_several_and_names_with_colons(self):
        odd = self.path("a:b")
        os.mkdir(odd)
        end = run("-v", f"{odd}:/x:rw", "-v", f"{self.dir}:/y", "-c",
                  "open('/x/f', 'w').write('1'); import os; print(sorted(os.listdir('/y')))")
        self.ends(end, 0, "['a:b', 'file', 'sub']\n")
        self.assertEqual(os.listdir(odd), ["f"])

    def test_a_link_does_not_lead_out(self):
        os.symlink("/etc/passwd", self.path("out"))
        os.symlink("../..", self.path("up"))
        for name in ("out", "up/etc/passwd", "../etc/passwd"):
            self.ends(run("-v", f"{self.dir}:/m:rw", "-c", f"open('/m/{name}')"), 1, "")


class Interrupts(Case):
    def started(self, code, *args):
        p = subprocess.Popen([BRUMATE, *args, "-c", "print('go', flush=True)\n" + code],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(p.stdout.readline(), b"go\n")
        time.sleep(0.1)
        return p

    def test_the_first_is_a_keyboard_interrupt(self):
        for code in ["while 1: pass", "import time; time.sleep(60)", "input()",
                     "import asyncio; await asyncio.sleep(60)",
                     "import asyncio; asyncio.run(asyncio.sleep(60))"]:
            with self.subTest(code):
                p = self.started(code)
                p.send_signal(signal.SIGINT)
                self.assertEqual(p.wait(10), 130)
                self.assertRegex(p.stderr.read().decode(),
                                 r"\A(Traceback(.|\n)*\n)?KeyboardInterrupt\n\Z")

    def test_the_program_may_clean_up_or_go_on(self):
        p = self.started("try:\n while 1: pass\nexcept KeyboardInterrupt: print('caught')")
        p.send_signal(signal.SIGINT)
        self.assertEqual((p.wait(10), p.stdout.read()), (0, b"caught\n"))

    def test_one_that_is_not_heard_is_followed_by_force(self):
        p = self.started("while 1:\n try:\n  while 1: pass\n except BaseException: pass")
        begin = time.monotonic()
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(10), 130)
        self.assertLess(time.monotonic() - begin, 2)
        p = self.started("while 1:\n try:\n  while 1: pass\n except BaseException: pass",
                         "--grace", "20s")
        p.send_signal(signal.SIGINT)
        time.sleep(0.3)
        self.assertIsNone(p.poll())
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(5), 130)


class Prompt(Case):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = home.name

    def terminal(self, *args):
        t = Terminal(*args, env={"HOME": self.home, "XDG_STATE_HOME": ""})
        self.addCleanup(t.close)
        return t

    def started(self, *args):
        t = self.terminal("-q", *args)
        t.expect(">>> ")
        return t

    def test_a_session(self):
        t = self.terminal()
        self.assertIn("Python 3.", t.expect(">>> "))
        t.say("x = 6")
        self.assertIn("\r\n42\r\n", t.say("x * 7"))
        # What is typed may be shown twice: by the terminal, then by the line editor.
        self.assertEqual([w for w in t.say("None").split() if w != "None"], [">>>"])
        self.assertIn("\r\n42\r\n", t.say("_"))
        self.assertIn("ZeroDivisionError", t.say("1/0"))
        self.assertIn("SyntaxError", t.say("1 +"))
        t.say("import asyncio")
        self.assertIn("\r\n'woke'\r\n", t.say("await asyncio.sleep(0.01, 'woke')"))
        t.type("\x04")
        self.assertEqual(t.finish(), 0)
        self.assertIn("x * 7\n", open(self.home + "/.local/state/brumate/history").read())

    def test_blocks(self):
        t = self.started()
        t.say("def f(n):", "... ")
        t.say("    if n > 1:", "... ")
        t.say("        return n * f(n - 1)", "... ")
        t.say("    return 1", "... ")
        t.say("")
        self.assertIn("\r\n120\r\n", t.say("f(5)"))
        t.say("for i in range(2):", "... ")
        t.say("    print(i)", "... ")
        self.assertIn("0\r\n1\r\n", t.say(""))
        t.say("s = '''a", "... ")
        t.say("b'''")
        self.assertIn("'a\\nb'", t.say("s"))
        t.say("[1,", "... ")
        self.assertIn("[1, 2]", t.say("2]"))
        t.say("class C:", "... ")
        t.type("\x03")
        self.assertIn("KeyboardInterrupt", t.expect(">>> "))
        self.assertIn("\r\n2\r\n", t.say("1 + 1"))

    def test_ctrl_c_while_it_runs_keeps_the_session(self):
        t = self.started()
        t.say("x = 5")
        t.say("import asyncio, time")
        t.say("def spin():", "... ")
        t.say("    while 1: pass", "... ")
        t.say("")
        for code in ("spin()", "time.sleep(60)", "input()", "await asyncio.sleep(60)"):
            with self.subTest(code):
                t.type("print('g' + 'o'); " + code + "\n")
                t.expect("\r\ngo\r\n")
                time.sleep(0.2)
                t.type("\x03")
                self.assertIn("KeyboardInterrupt", t.expect(">>> "))
                self.assertIn("\r\n5\r\n", t.say("x"))

    def test_what_cannot_be_interrupted_is_ended(self):
        t = self.started("--grace", "100ms")
        t.type("print('g' + 'o'); sum(range(10**10))\n")
        t.expect("\r\ngo\r\n")
        time.sleep(0.1)
        t.type("\x03")
        self.assertIn("starts afresh", t.expect(">>> "))
        self.assertIn("\r\n2\r\n", t.say("1 + 1"))

    def test_input_reads_a_line(self):
        t = self.started()
        t.type("name = input('who? ')\n")
        t.expect("who? ")
        t.type("snake\n")
        t.expect(">>> ")
        self.assertIn("'snake'", t.say("name"))
        t.type("input()\n")
        time.sleep(0.2)
        t.type("\x04")
        self.assertIn("EOFError", t.expect(">>> "))
        self.assertIn("'snake'", t.say("name"))

    def test_a_line_typed_ahead_reaches_input(self):
        t = self.started()
        for i in range(20):  # the terminal may change hands before, between or after
            with self.subTest(i):
                t.type(f"name = input('who? ')\nsnake{i}\n")
                self.assertIn("who? ", t.expect(">>> "))
                self.assertIn(f"'snake{i}'", t.say("name"))

    def test_leaving(self):
        for line, code in [("exit()", 0), ("quit()", 0), ("exit", 0), ("exit(6)", 6),
                           ("import sys; sys.exit(4)", 4), ("raise SystemExit(5)", 5)]:
            with self.subTest(line):
                t = self.started()
                t.type(line + "\n")
                self.assertEqual(t.finish(), code)

    def test_limits_bite_and_the_session_starts_afresh(self):
        t = self.started("--timeout", "300ms", "--grace", "20ms", "--memory", "64M",
                         "--output", "1K")
        t.say("x = 1")
        t.say("while 1: pass", "... ")
        self.assertIn("time limit reached (--timeout 300ms)", t.say(""))
        self.assertIn("MemoryError", t.say("bytearray(100 << 20)"))
        self.assertIn("output limit", t.say("print('y' * 5000)"))
        t.say("try: x", "... ")
        t.say("except NameError: print('go' + 'ne')", "... ")
        t.say("")
        for line in ("while 1:", " try:", "  while 1: pass", " except BaseException: pass"):
            t.say(line, "... ")
        out = t.say("")
        self.assertIn("time limit reached", out)
        self.assertIn("starts afresh", out)
        self.assertIn("NameError", t.say("x"))
        self.assertIn("\r\n2\r\n", t.say("1 + 1"))

    def test_completion(self):
        t = self.started()
        t.say("import os")
        t.say("wonderful = 'w'")
        t.type("wonderf\t\n")
        self.assertIn("'w'", t.expect("'w'"))
        t.expect(">>> ")
        t.type("os.path.isf\t'/x'); 1\n")
        self.assertNotIn("Error", t.expect(">>> "))

    def test_atexit_runs_at_the_end(self):
        end = run("-i", "-q", input="import atexit\natexit.register(print, 'end') and None\n")
        self.ends(end, 0, "end\n")
        end = run("-i", "-q", "-c", "import atexit; atexit.register(print, 'end'); y = 2",
                  input="print(y)\n")
        self.ends(end, 0, "2\nend\n")


    def test_ways_back_and_twins(self):
        t = self.started()
        self.assertIn(":undo", t.say(":help"))
        self.assertIn("Nothing to go back to", t.say(":undo"))
        t.say("x = 1")
        self.assertIn("Checkpoint of", t.say(":checkpoint"))
        t.say("x = 2; open('/data/f', 'w').write('f')")
        self.assertIn("Undone", t.say(":undo"))
        t.say("import os")
        self.assertIn("\r\n(1, [])\r\n", t.say("x, os.listdir('/data')"))
        self.assertIn("This is no twin", t.say(":back"))
        self.assertIn("In a twin", t.say(":fork"))
        self.assertIn("Nothing to go back to", t.say(":undo"))
        t.say("x = 99")
        self.assertIn("\r\n99\r\n", t.say("x"))
        t.say(":back")
        self.assertIn("\r\n1\r\n", t.say("x"))
        self.assertIn("No such command", t.say(":nosuch"))
        self.assertIn("In a twin", t.say(":fork"))
        t.type("\x04")
        self.assertEqual(t.finish(), 0)

    def test_checkpoints_before_each_statement(self):
        t = self.started("--checkpoint", "--timeout", "200ms")
        for line in ("x = [1]", "x.append(2)", "x.append(3)"):
            t.say(line)
        t.say(":undo")
        self.assertIn("\r\n[1, 2]\r\n", t.say("x"))
        # What a limit ended, variables and all, comes back too.
        t.say("while 1:", "... ")
        t.say("    try:", "... ")
        t.say("        while 1: pass", "... ")
        t.say("    except BaseException: pass", "... ")
        self.assertIn("starts afresh", t.say(""))
        t.say(":undo")
        self.assertIn("\r\n[1, 2]\r\n", t.say("x"))
        t.type("\x04")
        self.assertEqual(t.finish(), 0)


class Deterministic(Case):
    CODE = ("import random, secrets, uuid, time, datetime\ntime.sleep(3600)\n"
            "print(random.random(), secrets.token_hex(), uuid.uuid4(), time.time_ns(), datetime.datetime.now())")

    def test_the_same_seed_gives_the_same_and_another_does_not(self):
        first, again, other = (run(*args, "-c", self.CODE) for args in (
            ["--deterministic", "42"], ["--deterministic=42"], ["--deterministic", "43"]))
        self.ends(first, 0, again.out)
        self.assertNotEqual(first.out, other.out)
        self.assertIn(b"2025-01-01 01:00:00", first.out)

    def test_seeds_that_are_none(self):
        for seed in ("", "x", "-1", "1.5", "0x10", "18446744073709551616", " 1", "1 "):
            with self.subTest(seed):
                self.one_line(run("--deterministic", seed, "-c", "print(1)"), words="is no seed")
        self.ends(run("--deterministic", "18446744073709551615", "-c", "print(1)"), 0, "1\n")


class Frozen(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = self.folder + "/s"

    def test_variables_and_files_are_there_when_thawed(self):
        self.ends(run("freeze", "-o", self.file, "-c", "x = 41; open('f', 'w').write('kept'); print('a')"),
                  0, "a\n")
        self.ends(run("thaw", self.file, "-c", "x += 1; print(x, open('f').read())"), 0, "42 kept\n")
        self.ends(run("thaw", self.file, "-c", "print(x)"), 0, "41\n")
        self.ends(run("thaw", self.file, "-o", self.file, "-c", "x = 7"), 0, "")
        self.ends(run("thaw", "-q", self.file, "-i", input="x\n"), 0, "7\n")
        self.ends(run("thaw", self.file, input="print(x + 1)"), 0, "8\n")
        self.assertEqual(os.listdir(self.folder), ["s"])

    def test_what_waits_goes_on(self):
        script = self.folder + "/s.py"
        with open(script, "w") as f:
            f.write("import asyncio, sys\nfor i in range(3):\n"
                    "    print(i, sys.argv[1:], flush=True)\n    await asyncio.sleep(.3)\nsys.exit(5)\n")
        self.ends(run("freeze", "-o", self.file, script, "a"), 0, "0 ['a']\n", "frozen while it waits")
        self.assertIn("waiting: yes\n", run("snapshot", "info", self.file).out.decode())
        for more in ([], ["-o", self.file], ["-c", "print('no more')"]):
            self.assertEqual(run("thaw", self.file, *more).out, b"1 ['a']\n2 ['a']\n")
        self.ends(run("thaw", self.file), 5, "1 ['a']\n2 ['a']\n")
        code = "import asyncio\nfor i in range(2):\n    print(i)\n    await asyncio.sleep(.3)"
        self.ends(run("freeze", "-o", self.file, "-c", code), 0, "0\n", "frozen while it waits")
        self.ends(run("thaw", self.file, "-o", self.file, "-c", "await asyncio.sleep(.3); print('on')"), 0, "1\n",
                  "frozen while it waits")
        self.ends(run("thaw", "-q", self.file, "-i", input="i"), 0, "on\n1\n")

    def test_a_program_that_fails_is_not_frozen(self):
        for code, exit_code in (("1/0", 1), ("import sys; sys.exit(3)", 3)):
            self.ends(run("freeze", "-o", self.file, "-c", code), exit_code, "", "nothing was frozen")
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_wait_in_the_middle_of_a_call_passes(self):
        self.ends(run("freeze", "-o", self.file, "-c", "import time; time.sleep(.05); print('on')"), 0, "on\n")
        self.assertIn("waiting: no\n", run("snapshot", "info", self.file).out.decode())

    def test_a_deterministic_session_stays_so(self):
        draw = "import random, time; print(random.random(), time.time())"
        whole = run("--deterministic", "5", "-c", f"{draw}; {draw}").out
        self.ends(run("freeze", "--deterministic", "5", "-o", self.file, "-c", draw), 0, whole.split(b"\n")[0] + b"\n")
        for more in ([], ["--deterministic", "6"]):
            self.ends(run("thaw", *more, self.file, "-c", draw), 0, whole.split(b"\n")[1] + b"\n")

    def test_a_key_is_needed_where_there_is_one(self):
        key, short = self.folder + "/key", self.folder + "/short"
        for path, text in ((key, b"k" * 40), (short, b"k" * 9)):
            with open(path, "wb") as f:
                f.write(text)
        self.one_line(run("freeze", "--key-file", short, "-o", self.file, "-c", ""), words="too short")
        self.ends(run("freeze", "--key-file", key, "-o", self.file, "-c", "x = 1"), 0, "")
        self.one_line(run("thaw", self.file, "-c", ""), words="give the key")
        self.one_line(run("snapshot", "info", self.file), words="give the key")
        self.ends(run("thaw", "--key-file", key, self.file, "-c", "print(x)"), 0, "1\n")
        self.assertIn("signed: yes\n",
                      run("snapshot", "info", "--key-file", key, self.file).out.decode())
        with open(self.file, "r+b") as f:
            f.seek(-40, 2)
            f.write(b"spoilt")
        self.one_line(run("thaw", "--key-file", key, self.file, "-c", ""), words="another key")
        self.ends(run("freeze", "-o", self.file, "-c", "x = 1"), 0, "")
        self.one_line(run("thaw", "--key-file", key, self.file, "-c", ""), words="not signed")

    def test_a_file_that_is_no_snapshot(self):
        self.one_line(run("thaw", IMAGE, "-c", ""), words="no Brumate snapshot")
        self.one_line(run("snapshot", "info", self.folder), words="not a file")


class Images(Case):
    def setUp(self):
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        self.dir = d.name
        self.image = os.path.join(d.name, "core.bru")

    def copy(self):
        shutil.copyfile(IMAGE, self.image)
        return self.image

    def verify(self, path):
        return run("image", "verify", "--guest", GUEST, path)

    def test_info_and_verify(self):
        end = run("image", "info", IMAGE)
        self.ends(end, 0)
        info = dict(re.split(": ?", line, maxsplit=1) for line in end.out.decode().splitlines())
        self.assertRegex(info["id"], r"\A[0-9a-f]{32}\Z")
        self.assertRegex(info["wasm_sha256"], r"\A[0-9a-f]{64}\Z")
        self.assertEqual(int(info["file_bytes"]), os.path.getsize(IMAGE))
        self.ends(run("image", "info"), 0, end.out)  # the environment's
        self.ends(self.verify(self.copy()), 0, f"{self.image}: whole, id {info['id']}\n", r"\A\Z")

    def test_an_image_without_its_guest(self):
        self.one_line(run("image", "verify", self.copy()), words="core.so")

    def test_each_flipped_byte_is_seen(self):
        size = os.path.getsize(self.copy())
        step = size // 60
        offsets = [*range(0, 120, 5), 119, *range(120, 4096, 300), *range(4096, size, step), size - 1]
        with open(self.image, "r+b") as f:
            for at in offsets:
                with self.subTest(at):
                    f.seek(at)
                    byte = f.read(1)
                    f.seek(at)
                    f.write(bytes([byte[0] ^ 0x41]))
                    f.flush()
                    self.one_line(self.verify(self.image))
                    if at < 200 or at == size - 1:
                        self.one_line(run("--image", self.image, "--guest", GUEST, "-c", ""))
                    f.seek(at)
                    f.write(byte)
                    f.flush()
        self.ends(self.verify(self.image), 0)

    def test_each_cut_is_seen(self):
        size = os.path.getsize(self.copy())
        for length in (size + 1, size - 1, size // 2, size // 3, 65536, 4097, 4096, 4095, 512, 64,
                       63, 16, 8, 7, 1, 0):
            with self.subTest(length):
                os.truncate(self.image, length)
                self.one_line(self.verify(self.image))

    def test_files_that_are_no_images(self):
        with open("/bin/sh", "rb") as f:
            elf = f.read(100000)
        for name, text in [("elf", elf), ("text", b"hello\n" * 1000), ("zeros", bytes(1 << 20)),
                           ("empty", b""), ("noise", os.urandom(1 << 20))]:
            path = os.path.join(self.dir, name)
            with open(path, "wb") as f:
                f.write(text)
            self.one_line(self.verify(path), words=name)
        self.one_line(self.verify(self.dir))
        self.one_line(self.verify("/dev/zero"))
        self.one_line(self.verify(os.path.join(self.dir, "none")), words="none")

    def test_guests_that_are_none(self):
        path = os.path.join(self.dir, "x.so")
        for text in [b"", b"no library", open(GUEST, "rb").read(5000)]:
            with open(path, "wb") as f:
                f.write(text)
            self.one_line(run("--image", IMAGE, "--guest", path, "-c", ""), words="x.so")

    def build(self, *args, **kw):
        return run("image", "build", "--guest", GUEST, "--root", ROOT, *args, **kw)

    def test_a_build_is_whole(self):
        end = self.build("--preload", "json,textwrap", "-o", self.image)
        self.ends(end, 0, "", r"\A\Z")
        self.assertEqual(os.listdir(self.dir), ["core.bru"])
        text = run("image", "info", "--guest", GUEST, self.image).out.decode()
        self.assertIn("json", text)
        code = "import sys; print('textwrap' in sys.modules, 'decimal' in sys.modules)"
        self.ends(run("--image", self.image, "--guest", GUEST, "-c", code), 0, "True False\n")
        self.ends(self.verify(self.image), 0)

    def test_builds_that_fail_leave_nothing(self):
        no_root = os.path.join(self.dir, "no-root")
        os.mkdir(no_root)
        before = sorted(os.listdir(self.dir))
        for args, words in [
            (["--preload", "no_such_module"], "no_such_module"),
            (["--root", no_root], ""),
            (["--root", os.path.join(self.dir, "none")], "none"),
            (["--guest", os.path.join(self.dir, "none.so")], "none.so"),
            (["--guest", "/bin/sh"], "/bin/sh"),
            (["-o", os.path.join(self.dir, "none", "x.bru")], "none"),
            (["-o", no_root], "not a regular file"),
        ]:
            with self.subTest(args):
                out = [] if "-o" in args else ["-o", self.image]
                self.one_line(self.build(*out, *args), words=words)
                self.assertEqual(sorted(os.listdir(self.dir)), before)

    def test_a_full_disk_leaves_the_old_image(self):
        disk = os.path.join(self.dir, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk],
                          capture_output=True).returncode:
            self.skipTest("cannot mount a small disk")
        self.addCleanup(subprocess.run, ["umount", disk])
        path = os.path.join(disk, "core.bru")
        with open(path, "w") as f:
            f.write("old")
        self.one_line(self.build("-o", path), words="space")
        self.assertEqual(os.listdir(disk), ["core.bru"])
        self.assertEqual(open(path).read(), "old")

    def test_a_file_size_limit_leaves_nothing(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        self.one_line(self.build("-o", self.image, preexec_fn=limit), words="")
        self.assertEqual(os.listdir(self.dir), [])


class Refusals(Case):
    def limited(self, what, value, *args):
        def limit():
            resource.setrlimit(what, (value, value))
        return run(*args, preexec_fn=limit)

    @unittest.skipIf(SANITIZED, "a sanitizer reserves more addresses than these")
    def test_too_little_address_space_is_one_line(self):
        for size in (64 << 20, 256 << 20, 1 << 30, 4 << 30, 8 << 30):
            with self.subTest(size):
                self.one_line(self.limited(resource.RLIMIT_AS, size, "-c", "print(1)"))

    @unittest.skipIf(SANITIZED, "a sanitizer wants descriptors of its own")
    def test_too_few_descriptors_is_one_line(self):
        codes = set()
        for count in range(3, 16):
            end = self.limited(resource.RLIMIT_NOFILE, count, "-c", "print(1)")
            codes.add(end.code)
            with self.subTest(count):
                if end.code == 127:  # not even the loader's libraries could be opened
                    continue
                if end.code:
                    self.one_line(end)
                else:
                    self.ends(end, 0, "1\n", r"\A\Z")
        self.assertIn(0, codes)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to be somebody else")
    def test_no_permission_is_one_line(self):
        with tempfile.TemporaryDirectory() as d:
            os.chmod(d, 0o755)
            script, image, folder = (os.path.join(d, n) for n in ("x.py", "x.bru", "f"))
            for path in (script, image):
                with open(path, "w") as f:
                    f.write("print(1)")
                os.chmod(path, 0)
            os.mkdir(folder, 0o700)
            try:
                reached = run("-c", "print(1)", user=65534).code == 0
            except PermissionError:
                reached = False
            if not reached:
                self.skipTest("the command is out of reach of others here")
            for args in ([script], ["--image", image, "-c", ""], ["-v", f"{folder}/x:/m", "-c", ""],
                         ["image", "build", "--guest", GUEST, "--root", ROOT, "-o", f"{folder}/x"],
                         ["image", "build", "--guest", GUEST, "--root", ROOT, "-o", f"{d}/x"]):
                with self.subTest(args):
                    self.one_line(run(*args, user=65534), words="ermission denied")
            self.assertEqual(sorted(os.listdir(d)), ["f", "x.bru", "x.py"])

    def test_a_full_disk_below_stdout(self):
        with open("/dev/full", "wb") as full:
            self.one_line(run("-c", "print('x' * 100000)", stdout=full), words="No space left")


class Manual(Case):
    """The manual and --help speak of the same options and exit codes."""

    def test_options(self):
        helped = set()
        for command in ([], ["image", "info"], ["image", "build"], ["image", "verify"], ["freeze"],
                        ["thaw"], ["snapshot", "info"]):
            text = run(*command, "--help").out.decode()
            helped |= set(re.findall(r"^  (-\S.*?|    --.*?)(?:  |$)", text, re.M))
        helped = {h.strip() for h in helped}
        with open(os.path.join(SOURCE, "docs/man/brumate.1")) as f:
            page = f.read()
        heads = re.findall(r"^\.TP\n(\\fB\\-.*)$", page, re.M)
        manual = {re.sub(r"\\f.", "", h).replace("\\-", "-") for h in heads}
        self.assertEqual(helped, manual)
        self.assertGreater(len(manual), 15)

    def test_exit_codes(self):
        text = run("--help").out.decode()
        with open(os.path.join(SOURCE, "docs/man/brumate.1")) as f:
            page = f.read()
        self.assertEqual(set(re.findall(r"^  (1\d\d)  ", text, re.M)),
                         set(re.findall(r"^\.TP\n(1\d\d)$", page, re.M)))


class Examples(Case):
    def test_each_runs(self):
        for name, args, words in [
            ("hello.py", [], "Hello from Python 3."), ("primes.py", ["1000"], "168 primes"),
            ("async_tasks.py", [], "worker 3 did"), ("sqlite_notes.py", [], "Words altogether: 13"),
            ("limits.py", [], "no deadline came"),
        ]:
            with self.subTest(name):
                end = run(os.path.join(SOURCE, "examples", name), *args)
                self.assertEqual(end.code, 0, end)
                self.assertIn(words, end.out.decode())


if __name__ == "__main__":
    main()
