"""The agent's Python, against a stand-in for the reactor (door.py)."""

import contextlib
import io
import json
import os
import sys
import textwrap
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import door  # noqa: E402
from door import (CANCELLED, DISPLAY, DONE, DROP, EXCEPTION, EXIT, FINAL, INTERRUPT,  # noqa: E402
                  MODULE, OK, PENDING, SOFT_STOP, Interrupt, Ran, TimeLimit)


def ran(source, **options):
    return Ran(textwrap.dedent(source), **options)


class AgentTest(unittest.TestCase):
    def setUp(self):
        door.fresh()


class Ends(AgentTest):
    def test_plain_code_ends_well_and_its_names_stay(self):
        self.assertEqual(ran("x = 1").end, OK)
        door.door.results.clear()
        self.assertEqual(ran("print(x)").out, "1\n")

    def test_awaiting_code_ends_well_and_its_names_stay(self):
        self.assertEqual(ran("import asyncio\nx = await asyncio.sleep(0, 2)").end, OK)
        self.assertEqual(door.names["x"], 2)

    def test_an_exception_shows_the_users_lines_alone(self):
        for source in ("def f():\n    return 1 / 0\nf()\n",
                       "async def f():\n    return 1 / 0\nawait f()\n"):
            with self.subTest(source):
                door.fresh()
                got = ran(source)
                self.assertEqual((got.end, got.code), (EXCEPTION, 1))
                self.assertEqual((got.type, got.text), ("ZeroDivisionError", "division by zero"))
                self.assertIn("    return 1 / 0\n           ~~^~~\n", got.traceback)
                self.assertNotIn("_brumate_agent", got.traceback)
                self.assertEqual(got.err, got.traceback)

    def test_chains_and_groups_are_shown_without_the_agent(self):
        got = ran("""
            import asyncio
            async def bad(): raise KeyError("k")
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(bad())
            except ExceptionGroup as caught:
                raise RuntimeError("second") from caught
            """)
        self.assertEqual(got.type, "RuntimeError")
        self.assertIn("KeyError: 'k'", got.traceback)
        self.assertIn("RuntimeError: second", got.traceback)
        self.assertNotIn("_brumate_agent", got.traceback)

    def test_a_type_is_named_as_in_a_traceback(self):
        self.assertEqual(ran("import json\njson.loads('[')").type, "json.decoder.JSONDecodeError")
        door.door.results.clear()
        self.assertEqual(ran("class E(Exception): pass\nraise E").type, "E")

    def test_a_syntax_error_is_shown_as_by_python(self):
        got = ran("x = [1, 2\nprint(x)\n")
        self.assertEqual(got.type, "SyntaxError")
        self.assertEqual(got.traceback, '  File "<brumate>", line 1\n    x = [1, 2\n'
                                        "        ^\nSyntaxError: '[' was never closed\n")

    def test_exits(self):
        table = [
            ("raise SystemExit", 0, "", ""),
            ("raise SystemExit(None)", 0, "", ""),
            ("raise SystemExit(3)", 3, "", ""),
            ("raise SystemExit(True)", 1, "", ""),
            ("raise SystemExit(2 ** 40)", -1, "", ""),
            ("raise SystemExit('bye')", 1, "bye", "bye\n"),
            ("raise SystemExit((1, 2))", 1, "(1, 2)", "(1, 2)\n"),
            ("async def f(): raise SystemExit(4)\nawait f()", 4, "", ""),
            ("import asyncio\nasync def f(): raise SystemExit(5)\n"
             "await asyncio.gather(asyncio.gather(f(), asyncio.sleep(9)), asyncio.sleep(9))",
             5, "", ""),
            ("import asyncio\nasync def f(): raise SystemExit(6)\nasyncio.run(f())", 6, "", ""),
        ]
        for source, code, text, err in table:
            with self.subTest(source):
                door.fresh()
                got = ran(source)
                self.assertEqual((got.end, got.code, got.text, got.err), (EXIT, code, text, err))

    def test_other_base_exceptions_are_exceptions(self):
        for source in ("raise KeyboardInterrupt", "raise GeneratorExit",
                       "import asyncio\nawait asyncio.sleep(0)\nraise KeyboardInterrupt",
                       "import asyncio\nraise asyncio.CancelledError"):
            with self.subTest(source):
                door.fresh()
                got = ran(source)
                self.assertEqual((got.end, got.code), (EXCEPTION, 1))
                self.assertIn("Traceback", got.err)

    def test_the_guests_excepthook_is_used(self):
        self.addCleanup(setattr, sys, "excepthook", sys.__excepthook__)
        got = ran("import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__)\n1 / 0")
        self.assertEqual((got.out, got.err, got.end), ("mine ZeroDivisionError\n", "", EXCEPTION))

    def test_no_stream_is_needed(self):
        for source in ("import sys\nsys.stdout = sys.stderr = None\n1 / 0",
                       "import sys\nsys.stdout = sys.stderr = 5\n1 / 0",
                       "import sys\nsys.stderr.close()\n1 / 0"):
            with self.subTest(source):
                door.fresh()
                self.assertEqual(ran(source).type, "ZeroDivisionError")

    def test_an_exception_without_a_text_is_still_an_end(self):
        got = ran("class E(Exception):\n    def __str__(self): raise ValueError\nraise E")
        self.assertEqual((got.end, got.type), (EXCEPTION, "E"))

    def test_a_huge_text_loses_its_middle(self):
        got = ran("raise ValueError('a' * 10 ** 6 + 'z')")
        self.assertLess(len(got.text), 300_000)
        self.assertTrue(got.text.endswith("z"))
        self.assertIn("characters left out", got.text)

    def test_a_whole_program_runs_its_atexit_callbacks(self):
        got = ran("import atexit\natexit.register(print, 'last')\nprint('first')", flags=FINAL)
        self.assertEqual((got.out, got.end), ("first\nlast\n", OK))


class Loop(AgentTest):
    def test_waiting_is_at_rest_not_parked(self):
        door.door.parked = self.fail
        got = ran("import asyncio\nawait asyncio.sleep(0.02)\nprint('on')")
        self.assertEqual((got.rests, got.out), ([PENDING, DONE], "on\n"))

    def test_asyncio_run_beside_top_level_await(self):
        got = ran("""
            import asyncio
            async def main():
                return await asyncio.gather(*(asyncio.sleep(0.02 * i, i) for i in (3, 1, 2)))
            print(asyncio.run(main()))
            print(await main())
            """)
        self.assertEqual(got.out, "[3, 1, 2]\n[3, 1, 2]\n")
        self.assertLess(got.seconds, 0.2)

    def test_a_nested_run_leaves_other_tasks_running(self):
        got = ran("""
            import asyncio
            async def other(): await asyncio.sleep(0); print("other")
            async def main(): await asyncio.sleep(0.02); print("main")
            task = asyncio.create_task(other())
            await asyncio.sleep(0)
            asyncio.run(main())
            await task
            """)
        self.assertEqual((got.out, got.end), ("other\nmain\n", OK))

    def test_loops_of_ones_own(self):
        sources = [
            "loop = asyncio.new_event_loop()\nprint(loop.run_until_complete(f()))\nloop.close()",
            "with asyncio.Runner() as r: print(r.run(f()))",
            "print(asyncio.run(f()))",
            "await asyncio.sleep(0)\nwith asyncio.Runner() as r: print(r.run(f()))",
            "await asyncio.sleep(0)\nloop = asyncio.new_event_loop()\n"
            "print(loop.run_until_complete(f()))\nloop.close()",
            "await asyncio.sleep(0)\nprint(asyncio.get_event_loop().run_until_complete(f()))",
            "async def g(): return asyncio.run(f())\nprint(asyncio.run(g()))",
        ]
        for source in sources:
            with self.subTest(source):
                door.fresh()
                got = ran("import asyncio\nasync def f(): return await asyncio.sleep(0.001, 7)\n"
                          + source)
                self.assertEqual((got.out, got.err, got.end), ("7\n", "", OK))

    def test_toolbox(self):
        got = ran("""
            import asyncio
            try:
                async with asyncio.timeout(0.01): await asyncio.sleep(9)
            except TimeoutError: print("timeout")
            queue = asyncio.Queue(1)
            async def feed():
                for i in range(3): await queue.put(i)
            async with asyncio.TaskGroup() as group:
                group.create_task(feed())
                print([await queue.get() for _ in range(3)])
            print(await asyncio.to_thread(lambda: "inline"))
            print(await asyncio.get_running_loop().run_in_executor(None, max, 1, 2))
            async def numbers():
                yield 1
            print([n async for n in numbers()])
            try: await asyncio.create_subprocess_exec("ls")
            except NotImplementedError: print("no processes")
            """)
        self.assertEqual(got.err, "")
        self.assertEqual(got.out, "timeout\n[0, 1, 2]\ninline\n2\n[1]\nno processes\n")

    def test_a_deadlock_is_an_exception_where_it_waits(self):
        for source in ("await asyncio.Event().wait()",
                       "async def f(): await asyncio.Event().wait()\nasyncio.run(f())",
                       "await asyncio.gather(asyncio.Event().wait(), asyncio.sleep(0))",
                       "await asyncio.create_task(asyncio.Queue().get())"):
            with self.subTest(source):
                door.fresh()
                got = ran("import asyncio\n" + source)
                self.assertEqual(got.type, "RuntimeError")
                self.assertIn("deadlock", got.text)
                self.assertIn("wait", got.traceback)

    def test_forgotten_tasks_are_cancelled(self):
        for main in ("asyncio.create_task(slow())",
                     "asyncio.create_task(slow())\nawait asyncio.sleep(0)"):
            with self.subTest(main):
                door.fresh()
                got = ran("""
                    import asyncio
                    async def slow():
                        try: await asyncio.sleep(60)
                        except asyncio.CancelledError: print("cancelled"); raise
                    """ .replace("\n                    ", "\n") + main)
                self.assertEqual((got.out, got.err, got.end), ("cancelled\n", "", OK))

    def test_what_a_forgotten_task_raises_when_cancelled_is_shown(self):
        got = ran("""
            import asyncio
            async def slow():
                try: await asyncio.sleep(60)
                finally: 1 / 0
            asyncio.create_task(slow())
            await asyncio.sleep(0)
            """)
        self.assertEqual(got.end, OK)

    def test_cleaning_up_may_take_its_time(self):
        got = ran("""
            import asyncio
            async def slow():
                try: await asyncio.sleep(60)
                finally:
                    await asyncio.sleep(0.01); print("clean")
            asyncio.create_task(slow())
            await asyncio.sleep(0)
            """)
        self.assertEqual((got.out, got.end, got.rests[-2:]), ("clean\n", OK, [PENDING, DONE]))

    def test_timers_do_not_outlive_their_execution(self):
        ran("import asyncio\nasyncio.get_running_loop().call_later(9, print)\nawait asyncio.sleep(0)")
        self.assertFalse(door.agent.loops.current._scheduled)

    def test_executors_work_inline_and_threads_say_why_not(self):
        got = ran("""
            from concurrent.futures import ThreadPoolExecutor, as_completed
            import threading
            with ThreadPoolExecutor(4) as pool:
                print(sorted(f.result() for f in as_completed([pool.submit(abs, -i) for i in (2, 1)])))
                print(list(pool.map(str, range(2))))
                print(repr(pool.submit(int, "x").exception()))
            threading.Thread(target=print).start()
            """)
        self.assertTrue(got.out.startswith("[1, 2]\n['0', '1']\nValueError("))
        self.assertEqual(got.type, "RuntimeError")
        self.assertIn("can't start new thread", got.text)


CALLER = "import asyncio\n"


class Calls(AgentTest):
    def ids(self, kind=door.CALL):
        return [int.from_bytes(data[:4], "little") for k, data in door.door.posts if k == kind]

    def test_replies_come_in_any_order(self):
        rest = door.execute(CALLER + "r = await asyncio.gather(call('f', b'1'), call('g', b'2'))")
        self.assertEqual((rest, door.door.at_rest), (PENDING, (-1, 2, b"")))
        first, second = self.ids()
        self.assertEqual(door.door.posts[0][1][4:], b"\1\0\0\0f1")
        self.assertEqual(door.deliver((second, True, b"two")), PENDING)
        self.assertEqual(door.deliver((first, True, b"one")), DONE)
        self.assertEqual(door.names["r"], [b"one", b"two"])

    def test_an_answer_at_once_needs_no_step(self):
        door.door.answer = lambda ident, name, payload: name.encode() + payload
        self.assertEqual(ran(CALLER + "print(await call('f', b'1'))").out, "b'f1'\n")

    def test_a_call_under_asyncio_run_parks(self):
        door.door.parked = lambda wake_at: door.record(self.ids()[-1], b"late")
        got = ran(CALLER + "async def f(): return await call('f', b'')\nprint(asyncio.run(f()))")
        self.assertEqual((got.out, got.rests), ("b'late'\n", [DONE]))

    def test_an_error_is_raised(self):
        door.execute(CALLER + "import brumate\ntry: await call('f', b'')\n"
                     "except brumate.CallError as e: r = str(e)")
        door.deliver((self.ids()[0], False, b"no such"))
        self.assertEqual(door.names["r"], "no such")

    def test_an_error_has_the_type_that_it_names_if_that_is_a_builtin_exception(self):
        table = [
            ("ValueError: no such city", ValueError, ("no such city",)),
            ("KeyError: k", KeyError, ("k",)),
            ("FileNotFoundError: a: b", FileNotFoundError, ("a: b",)),
            ("ValueError", ValueError, ()),
            ("ValueError: ", ValueError, ()),
            ("app.Broken: no", door.CallError, ("app.Broken: no",)),
            ("no such", door.CallError, ("no such",)),
            ("", door.CallError, ("",)),
            ("print: x", door.CallError, ("print: x",)),
            ("int: x", door.CallError, ("int: x",)),
            ("UnicodeDecodeError: x", door.CallError, ("UnicodeDecodeError: x",)),
            ("ExceptionGroup: x", door.CallError, ("ExceptionGroup: x",)),
        ]
        table += [(f"{name}: x", door.CallError, (f"{name}: x",)) for name in (
            "SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException",
            "BaseExceptionGroup", "StopIteration", "StopAsyncIteration")]
        for text, kind, args in table:
            with self.subTest(text):
                exc = door.agent.error(text)
                self.assertEqual((type(exc), exc.args), (kind, args))

    def test_an_argument_that_cannot_cross_is_named(self):
        table = [
            ("value[0][1]['rows'][3]: a 'set'", "f(): argument 2['rows'][3]: a 'set'"),
            ("value[1]['key'].x: no", "f(): argument 'key'.x: no"),
            ("value: larger than 5 bytes", "f(): the arguments: larger than 5 bytes"),
            ("else", "f(): else"),
        ]
        for text, better in table:
            with self.subTest(text):
                self.assertEqual(door.agent.blame("f", text), better)

    def test_a_call_given_up_is_dropped(self):
        ran(CALLER + "try:\n    async with asyncio.timeout(0.01): await call('f', b'')\n"
            "except TimeoutError: pass")
        self.assertEqual(self.ids(DROP), self.ids())

    def test_calls_left_open_are_dropped_at_the_end(self):
        ran(CALLER + "async def f(): await call('f', b'')\nasyncio.create_task(f())")
        self.assertEqual(self.ids(DROP), self.ids())
        self.assertEqual(len(self.ids()), 1)

    def test_unknown_late_and_damaged_replies_are_ignored(self):
        door.execute(CALLER + "r = await call('f', b'')")
        self.assertEqual(door.deliver((12345, True, b"")), PENDING)
        ident = self.ids()[0]
        self.assertEqual(door.deliver((ident, True, b"a"), (ident, True, b"b")), DONE)
        self.assertEqual(door.deliver((ident, True, b"c")), DONE)
        self.assertEqual(door.names["r"], b"a")
        self.assertEqual(door.agent.calls.parse(b"\1\0\0"), [])


class Captures(AgentTest):
    def test_json_is_that_of_json_dumps(self):
        for value in (None, True, 1, 2.5, "ä\"\n", [], {}, [1, (2, "x")], {"k": {1: None}}, 10 ** 30):
            with self.subTest(value):
                self.assertEqual(door.agent.to_json(value),
                                 (json.dumps(value, ensure_ascii=False), None))

    def test_lone_surrogates_are_told_by_escapes(self):
        self.assertEqual(door.agent.to_json("a\udc80ä"), ('"a\\udc80\\u00e4"', None))

    def test_what_is_no_json_says_why_in_one_line(self):
        loop = []
        loop.append(loop)
        deep = []
        for _ in range(100_000):
            deep = [deep]

        class Lines(dict):
            def items(self):
                raise RuntimeError("two\nlines")

        class Leaves(dict):
            def items(self):
                raise SystemExit(3)

        table = [
            ({1}, "Object of type set is not JSON serializable"),
            (float("nan"), "Out of range float values are not JSON compliant"),
            (loop, "Circular reference detected"),
            ({(1,): 2}, "keys must be str, int, float, bool or None, not tuple"),
            (deep, "maximum recursion depth exceeded"),
            (Lines(a=1), "RuntimeError: two lines"),
            (Leaves(a=1), "SystemExit: 3"),
        ]
        for value, why in table:
            with self.subTest(why):
                text, error = door.agent.to_json(value)
                self.assertIsNone(text)
                self.assertEqual(error[:len(why)], why)
                self.assertNotIn("\n", error)

    def test_a_json_module_that_was_broken_makes_no_difference(self):
        for module, name in ((json, "dumps"), (json.encoder, "c_make_encoder")):
            self.addCleanup(setattr, module, name, getattr(module, name))
        ran("import json\njson.encoder.c_make_encoder = json.dumps = None")
        self.assertEqual(door.agent.to_json([1]), ("[1]", None))

    def test_a_stop_that_strikes_there_ends_the_execution(self):
        def struck():
            raise TimeLimit

        door.door.captured = struck
        self.assertEqual(ran("import asyncio\nawait asyncio.sleep(0)").end, SOFT_STOP)
        self.assertEqual(door.door.acks, 1)

    def test_only_an_execution_that_ended_well_captures(self):
        called = []
        door.door.captured = lambda: called.append(1)
        ran("import asyncio\nawait asyncio.sleep(0)\n1 / 0")
        self.assertEqual(called, [])
        door.door.results.clear()
        ran("import asyncio\nawait asyncio.sleep(0)")
        self.assertEqual(called, [1])


class Packages(AgentTest):
    def shown(self, source):
        got = ran("import brumate\n" + textwrap.dedent(source))
        self.assertEqual(got.err, "")
        return door.door.shown

    def test_what_is_shown_has_the_richest_form_that_it_offers(self):
        table = [
            ("brumate.show('text')", ("text/plain", b"text")),
            ("brumate.show('<b>', 'text/html')", ("text/html", b"<b>")),
            ("brumate.show(b'\\1', mime_type='image/png')", ("image/png", b"\1")),
            ("brumate.show([1])", ("text/plain", b"[1]")),
            ("brumate.show(type('T', (), {'_repr_html_': lambda s: '<i>'})())",
             ("text/html", b"<i>")),
            ("brumate.show(type('T', (), {'_repr_html_': lambda s: '<i>', "
             "'_repr_png_': lambda s: b'p'})())", ("image/png", b"p")),
            ("brumate.show(type('T', (), {'_repr_png_': lambda s: b'p', "
             "'_repr_html_': lambda s: '<i>'})(), 'text/html')", ("text/html", b"<i>")),
            ("brumate.show(type('T', (), {'_repr_png_': lambda s: None, "
             "'_repr_json_': lambda s: {'a': 1}})())", ("application/json", b'{"a": 1}')),
            ("brumate.show(type('T', (), {'_repr_mimebundle_': lambda s: {'text/plain': 't', "
             "'image/png': 'cA=='}})())", ("image/png", b"p")),
        ]
        for source, shown in table:
            with self.subTest(source):
                door.fresh()
                self.assertEqual(self.shown(source), [shown])

    def test_what_cannot_be_shown_says_why(self):
        table = [
            ("brumate.show(b'x')", "TypeError", "show() of bytes needs their type"),
            ("brumate.show('x', 'png')", "ValueError", "'image/png'"),
            ("brumate.show('x', 3)", "TypeError", "not int"),
            ("brumate.show(3, 'image/png')", "TypeError", "no form of type image/png"),
        ]
        for source, kind, why in table:
            with self.subTest(source):
                door.fresh()
                got = ran("import brumate\n" + source)
                self.assertEqual(got.type, kind)
                self.assertIn(why, got.text)

    def test_an_artifact_that_is_refused_names_the_limit(self):
        door.door.room = False
        got = ran("import brumate\nbrumate.show('x')")
        self.assertIn("max_artifact_bytes", got.text)

    def test_callbacks_are_listed_with_their_schemas_parsed(self):
        door.door.functions = [("f", "does f", ""), ("g", "", '{"type": "object"}'), ("h", "", "{")]
        ran("import _callbacks\nr = _callbacks.list()")
        self.assertEqual(door.names["r"], [
            {"name": "f", "description": "does f"},
            {"name": "g", "description": "", "schema": {"type": "object"}},
            {"name": "h", "description": "", "schema": "{"}])

    def test_both_can_be_imported_again(self):
        ran("import sys\nfor n in 'brumate', '_callbacks': del sys.modules[n]")
        door.door.results.clear()
        real = list(sys.path)
        sys.path.insert(0, os.path.join(os.path.dirname(door.agent.__file__), ".."))
        self.addCleanup(sys.path.__setitem__, slice(None), real)
        ran("import brumate, _callbacks\nr = brumate.__all__, _callbacks.list()")
        self.assertEqual(door.names["r"], (["CallError", "show"], []))


class Clearing(AgentTest):
    def test_variables_go_and_pythons_own_names_stay(self):
        ran("x = 1\n__y__ = 2\n_z = 3\nimport json")
        door.agent.clear()
        self.assertNotIn("x", door.names)
        self.assertNotIn("_z", door.names)
        self.assertNotIn("json", door.names)
        self.assertEqual(door.names["__y__"], 2)

    def test_variables_that_destructors_make_go_too(self):
        ran("class D:\n    def __del__(self):\n        global late\n        late = 1\nd = D()\n")
        door.agent.clear()
        self.assertNotIn("late", door.names)


class Stops(AgentTest):
    def test_a_stop_is_acknowledged_and_reported(self):
        for kind, end in ((TimeLimit, SOFT_STOP), (Interrupt, INTERRUPT)):
            for source in ("def f(): raise stop\nf()",
                           "async def f(): raise stop\nawait f()",
                           "import asyncio\nasync def f(): raise stop\nasyncio.run(f())"):
                with self.subTest(source, kind=kind):
                    door.fresh()
                    door.names["stop"] = kind
                    got = ran(source)
                    self.assertEqual((got.end, got.code, door.door.acks), (end, 1, 1))
                    self.assertIn("in f", got.traceback)
                    self.assertNotIn("_brumate_agent", got.traceback)

    def test_a_stop_swallowed_by_a_task_ends_the_execution_all_the_same(self):
        door.names["stop"] = TimeLimit
        got = ran("""
            import asyncio
            async def f(): raise stop
            task = asyncio.create_task(f())
            await asyncio.sleep(60)
            """)
        self.assertEqual((got.end, got.seconds < 5), (SOFT_STOP, True))

    def test_the_report_comes_before_the_tasks_clean_up(self):
        door.names["stop"] = TimeLimit
        seen = door.names["seen"] = []
        door.door.on_result = lambda: seen.append("result")
        ran("""
            import asyncio
            async def f():
                try: await asyncio.sleep(60)
                finally: seen.append("task")
            task = asyncio.create_task(f())
            await asyncio.sleep(0)
            raise stop
            """)
        self.assertEqual(seen, ["result", "task"])

    def test_a_task_that_will_not_end_is_left_behind(self):
        door.names["stop"] = TimeLimit
        got = ran("""
            import asyncio
            async def f():
                while True:
                    try: await asyncio.sleep(0)
                    except BaseException: pass
            task = asyncio.create_task(f())
            await asyncio.sleep(0)
            raise stop
            """)
        self.assertEqual(got.end, SOFT_STOP)
        door.door.results.clear()
        self.assertEqual(ran("await asyncio.sleep(0, 1)").end, OK)

    def test_a_stop_inside_the_agent_is_reported(self):
        real = door.agent.report.format

        def struck(exc):
            door.agent.report.format = real
            raise TimeLimit

        door.agent.report.format = struck
        self.addCleanup(setattr, door.agent.report, "format", real)
        got = ran("1 / 0")
        self.assertEqual((got.type, got.end, door.door.acks), ("ZeroDivisionError", EXCEPTION, 1))

    def test_a_stop_at_rest_shows_what_was_waited_for(self):
        self.assertEqual(door.execute("import asyncio\nawait asyncio.sleep(60)"), PENDING)
        real = door.agent.calls.deliver

        def struck(replies):
            raise TimeLimit

        door.agent.calls.deliver = struck
        self.addCleanup(setattr, door.agent.calls, "deliver", real)
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(door.deliver(), DONE)
        (end, _, _, _, traceback), = door.door.results
        self.assertEqual(end, SOFT_STOP)
        self.assertIn("line 2, in <module>\n    await asyncio.sleep(60)\n", traceback)

    def test_stops_that_come_again_and_again_are_reported_once(self):
        real = door.agent.report.write_stderr

        def struck(text):
            real(text)
            raise TimeLimit

        door.agent.report.write_stderr = struck
        self.addCleanup(setattr, door.agent.report, "write_stderr", real)
        door.names["stop"] = TimeLimit
        got = ran("raise stop")
        self.assertEqual((got.end, got.err.count("TimeLimit")), (SOFT_STOP, 1))

    def test_cancelling(self):
        self.assertEqual(door.execute(
            CALLER + "try: await call('f', b'')\nfinally: r = 'cleaned'"), PENDING)
        self.assertEqual(door.cancel(), DONE)
        self.assertEqual(door.door.results[0][0], CANCELLED)
        self.assertEqual(door.names["r"], "cleaned")


class Life(AgentTest):
    def test_an_instance_has_entropy_and_environment_of_its_own(self):
        import random
        life = door.agent.life
        self.addCleanup(life._randoms.clear)
        life._randoms.append(random._inst)
        state = random.getstate()
        first = random.random()
        random.setstate(state)
        os.environb[b"OF_THIS_INSTANCE"] = b"1=2"
        real, life.environ = life.environ, lambda: [b"OF_THIS_INSTANCE=1=2", b"", b"=x", b"none"]
        kept, encoded = dict(os.environ._data), life._encoded
        try:
            life.wake()
            self.assertNotEqual(random.random(), first)
            self.assertEqual(dict(os.environ), {"OF_THIS_INSTANCE": "1=2"})
            os.environ["OF_THE_PROGRAM"] = "kept"
            life.environ = lambda: [b"OF_ANOTHER_INSTANCE=3"]
            life.wake()
            self.assertEqual(dict(os.environ), {"OF_ANOTHER_INSTANCE": "3", "OF_THE_PROGRAM": "kept"})
        finally:
            life.environ, life._encoded = real, encoded
            os.environ._data.clear()
            os.environ._data.update(kept)
            del os.environ["OF_THIS_INSTANCE"]


class LongTraceback(AgentTest):
    def test_the_middle_of_a_long_traceback_is_left_out_and_counted(self):
        got = ran("import sys\nsys.setrecursionlimit(10**6)\n"
                  "def f(n):\n    if n: f(n - 1)\n    else: 1 / 0\nf(5000)\n")
        self.assertIn("calls in the middle of this traceback are left out]\nTraceback", got.traceback)
        self.assertTrue(got.traceback.endswith("ZeroDivisionError: division by zero\n"))
        self.assertIn("line 5, in f", got.traceback)

    def test_it_is_whole_again_afterwards(self):
        ran("import sys\nsys.setrecursionlimit(10**6)\nkept = None\n"
            "def f(n):\n    if n: f(n - 1)\n    else: 1 / 0\n"
            "try: f(5000)\nexcept Exception as e: kept = e; raise\n")
        door.door.results.clear()
        got = ran("n = 0\ntb = kept.__traceback__\nwhile tb: n += 1; tb = tb.tb_next\nprint(n)\n")
        self.assertGreater(int(got.out), 5000)


class Console(AgentTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(setattr, sys, "argv", sys.argv)
        self.addCleanup(setattr, sys, "path", list(sys.path))

    def test_display_shows_the_last_expression(self):
        table = [("1 + 1", "2\n"), ("x = 3\nx", "3\n"), ("None", ""), ("x = 1", ""),
                 ("import asyncio\nawait asyncio.sleep(0, 7)", "7\n"), ("5; 6", "6\n"),
                 ("for i in range(2): i", "0\n1\n"), ("if 1:\n  2", "2\n")]
        for source, out in table:
            with self.subTest(source):
                door.fresh()
                self.assertEqual(ran(source, flags=DISPLAY).out, out)

    def test_a_syntax_error_in_a_line(self):
        got = ran("a b", flags=DISPLAY)
        self.assertEqual(got.type, "SyntaxError")
        self.assertNotIn("Traceback", got.traceback)

    def test_check(self):
        table = [("x = 1", 0), ("", 0), ("def f():", 1), ("def f():\n  pass", 1),
                 ("def f():\n  pass\n", 0), ("x = (", 1), ("'''", 1), ("a b", 2), ("x = 1\ny = 2", 0),
                 ("await x", 0), ("async with a as b:", 1), ("if x:\n  1\nelse:", 1)]
        for source, want in table:
            with self.subTest(source):
                self.assertEqual(door.agent.check(source), bytes([want]))

    def test_complete(self):
        door.names["abcdef"] = 1
        self.assertEqual(door.agent.complete("print(abcd"), b"abcdef")
        self.assertEqual(door.agent.complete(""), b"")
        self.assertIn(b"str.upper(", door.agent.complete("x = str.up").split(b"\n"))

    def test_a_script_has_its_arguments_and_name(self):
        sys.path[:] = ["", *sys.path]
        got = ran("import sys\nprint(sys.argv, __name__, __file__, sys.path[0])\n1 / 0",
                  name="/data/a/x.py", args=["/data/a/x.py", "-v"])
        self.assertEqual(got.out, "['/data/a/x.py', '-v'] __main__ /data/a/x.py /data/a\n")
        self.assertIn('File "/data/a/x.py", line 3, in <module>\n    1 / 0\n', got.traceback)

    def test_a_module_runs_as_main(self):
        got = ran("this", flags=MODULE, args=["a"])
        self.assertEqual(got.end, OK)
        self.assertIn("Zen", got.out)
        self.assertEqual(door.names["__spec__"].name, "this")

    def test_no_such_module(self):
        got = ran("no_such_module", flags=MODULE)
        self.assertEqual((got.end, got.code), (EXIT, 1))
        self.assertIn("No module named no_such_module", got.err)


if __name__ == "__main__":
    unittest.main()
