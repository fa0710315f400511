"""Tests of the guest's build that need no compiler: the cache, the wasm reader and its proofs, the shim."""
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BUILD))

import shim                                                  # noqa: E402
import translate                                             # noqa: E402
import wasm                                                  # noqa: E402
from steps import BuildError                                 # noqa: E402


def leb(n):
    out = b""
    while True:
        out += bytes([n & 0x7F | (0x80 if n > 0x7F else 0)])
        n >>= 7
        if not n:
            return out


def section(number, *items):
    body = leb(len(items)) + b"".join(items)
    return bytes([number]) + leb(len(body)) + body


def text(s):
    return leb(len(s)) + s.encode()


def module(code=b"\x00\x0b", element=1, table=b"\x70\x00\x02", imported=True):
    """A module: import m.f, one function of its own, one table with one entry, one memory."""
    body = leb(len(code)) + code
    return b"\0asm\1\0\0\0" + b"".join([
        section(1, b"\x60\x01\x7f\x01\x7f", b"\x60\x00\x00"),
        section(2, text("m") + text("f") + b"\x00\x00"),
        section(3, b"\x01"),
        section(4, table),
        section(5, b"\x00\x01"),
        section(6, b"\x7f\x01\x41\x80\x08\x0b"),
        section(7, text("run") + b"\x00\x01"),
        section(9, b"\x00\x41\x01\x0b\x01" + leb(element)),
        section(10, body),
        section(11, b"\x00\x41\x10\x0b" + text("data")),
    ])


class WasmReader(unittest.TestCase):
    def test_a_module_is_read_as_written(self):
        m = wasm.Module(module())
        self.assertEqual(m.imports, [("m", "f", "i:i")])
        self.assertEqual((m.table, m.memory), ((2, None), (1, None)))
        self.assertEqual(m.globals[0], ("i", True, 1024, "g0"))
        self.assertEqual(m.elements[0][:2], (1, [1]))
        self.assertEqual(m.data[0][:2], (16, b"data"))
        self.assertEqual(m.type_of(m.exports[0].index), ":")

    def test_instructions_are_counted(self):
        # i32.const 5, i32.load align=2 offset=300, drop, i64.const -1, drop, end
        code = b"\x00\x41\x05\x28\x02\xac\x02\x1a\x42\x7f\x1a\x0b"
        counts = wasm.Module(module(code)).prove()
        self.assertEqual((counts[0x41], counts[0x28], counts[0x1A], counts[0x0B]), (1, 1, 2, 1))

    def test_an_import_in_the_table_is_refused(self):
        with self.assertRaisesRegex(BuildError, "m.f stands in the function table"):
            wasm.Module(module(element=0)).prove()

    def test_types_that_are_alike_are_refused(self):
        twice = module().replace(section(1, b"\x60\x01\x7f\x01\x7f", b"\x60\x00\x00"),
                                 section(1, b"\x60\x01\x7f\x01\x7f", b"\x60\x00\x00", b"\x60\x00\x00"))
        with self.assertRaisesRegex(BuildError, "two function types"):
            wasm.Module(twice).prove()

    def test_instructions_on_tables_are_refused(self):
        for code in (b"\x00\x41\x00\x25\x00\x1a\x0b",          # table.get
                     b"\x00\x41\x00\xd0\x70\x26\x00\x0b",      # ref.null, table.set
                     b"\x00\xd2\x01\x1a\x0b",                  # ref.func
                     b"\x00\xd0\x70\x41\x01\xfc\x0f\x00\x1a\x0b",  # table.grow
                     b"\x00\xfc\x10\x00\x1a\x0b"):             # table.size
            with self.assertRaises(BuildError, msg=code.hex()):
                wasm.Module(module(code)).prove()

    def test_a_table_of_other_references_is_refused(self):
        with self.assertRaisesRegex(BuildError, "not of functions"):
            wasm.Module(module(table=b"\x6f\x00\x02"))


class Shim(unittest.TestCase):
    def test_names_are_mangled_as_wasm2c_does(self):
        for name, double, mangled in (("wasi_snapshot_preview1", True, "wasi__snapshot__preview1"),
                                      ("__stack_pointer", False, "0x5F_stack_pointer"),
                                      ("_initialize", False, "0x5Finitialize"),
                                      ("GOT.data.internal.__memory_base", False,
                                       "GOT0x2Edata0x2Einternal0x2E_0x5Fmemory_base"),
                                      (".rodata", False, "0x2Erodata")):
            self.assertEqual(shim.mangle(name, double), mangled)

    def test_the_shim_says_what_the_module_has(self):
        out = shim.write_shim(wasm.Module(module()), "core", "ab" * 32, 'a "b"', translate.SPAN)
        for part in ('{"m", "f", "i:i"}', '{"run", ":", call_run}', '{"g0", offsetof(w2c_core, w2c_g0), 4}',
                     ".max_pages = 65536", ".build = \"a 'b'\""):
            self.assertIn(part, out)


class Translation(unittest.TestCase):
    C = ("FUNC_TYPE_EXTERN_T(w2c_core_t0) = \"\\x01\\x02\";\nFUNC_TYPE_EXTERN_T(w2c_core_t1) = \"\\x03\\x04\";\n"
         "u32 w2c_core_f(w2c_core* instance, u32 a) {\n"
         "  uint8_t* const wasm_rt_local_memory_base = (&instance->w2c_memory)->data;\n"
         "  return CALL_INDIRECT(instance->w2c_T0, u32 (*)(void*), w2c_core_t0, a, "
         "instance->w2c_T0.data[a].module_instance);\n}\n"
         "const u8 data_segment_data_w2c_core_d0[] = {\n  0x64, 0x61, 0x74, 0x61, \n};\n"
         "const wasm_elem_segment_expr_t elem_segment_exprs_w2c_core_e0[] = {\n"
         "  {RefFunc, w2c_core_t0, (wasm_rt_function_ptr_t)wrap_w2c_core_f, {NULL}, 0},\n};\n"
         "static void init_tables(w2c_core* instance) {\n"
         "  wasm_rt_allocate_funcref_table(&instance->w2c_T0, 2, 4294967295);\n"
         "  funcref_table_init(&instance->w2c_T0, elem_segment_exprs_w2c_core_e0, 1, 1u, 0, 1, instance);\n}\n")
    HEADER = "".join("FUNC_TYPE_DECL_EXTERN_T(w2c_core_t%d);\n" % i for i in (0, 1)) + "".join(
        old for old, _ in translate.HEADER)

    def run_on(self, c, header=None):
        m = wasm.Module(module())
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "core_0.c").write_text(c)
            Path(folder, "core-impl.h").write_text(header or self.HEADER)
            translate.translate(Path(folder), "core", m, {wasm.CALL_INDIRECT: 1})
            return Path(folder, "core_0.c").read_text() + Path(folder, "core-impl.h").read_text()

    def test_the_known_forms_are_rewritten(self):
        out = self.run_on(self.C)
        for part in ("w2c_core_t0, a, (void*)instance)", "(uint8_t*)instance + 65536;",
                     "w2c_table[2] = { [1] =\n  {w2c_core_t0, (wasm_rt_function_ptr_t)w2c_core_f},\n};",
                     '#embed "data0.bin"', "#define w2c_core_t1 ((const char *)2)", "(x) < 2u && ft == w2c_table[x].type"):
            self.assertIn(part, out)

    def test_anything_unforeseen_stops_the_build(self):
        for old, new in (("data[a].module_instance", "data[a + 1].module_instance"),
                         ("(&instance->w2c_memory)->data;", "instance->w2c_memory.data;"),
                         ("return", "x = instance->w2c_memory.data; return"),
                         ("return", "funcref_table_set(); return"),
                         ("CALL_INDIRECT(instance->w2c_T0,", "CALL_INDIRECT(instance->w2c_T1,"),
                         ("0x61, \n", "\n"), ("wrap_w2c_core_f", "other_f"), ("RefFunc", "RefNull"),
                         ("1, 1u, 0, 1, instance", "1, 2u, 0, 1, instance"), ("_t1) =", "_u1) =")):
            self.assertIn(old, self.C)
            with self.assertRaises(BuildError, msg=new):
                self.run_on(self.C.replace(old, new))
        for old, _ in translate.HEADER:
            with self.assertRaises(BuildError, msg=old):
                self.run_on(self.C, self.HEADER.replace(old, ""))


class CacheOfSteps(unittest.TestCase):
    """The cache, with recipes of its own in a copy of the driver."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.repo = Path(self.folder.name, "repo")
        self.recipes = self.repo / "guest" / "build" / "recipes"
        self.recipes.mkdir(parents=True)
        (self.repo / "guest/build/steps.py").write_bytes((BUILD / "steps.py").read_bytes())
        self.env = dict(os.environ, BRUMATE_CACHE=str(Path(self.folder.name, "cache")))

    def tearDown(self):
        self.folder.cleanup()

    def recipe(self, name, body, head=""):
        path = self.recipes / (name + ".py")
        path.write_text("import os, time\n%s\ndef make(job):\n%s" % (head, textwrap.indent(textwrap.dedent(body), "    ")))

    def start(self, name):
        code = ("import sys; sys.path.insert(0, %r)\nfrom steps import *\ntry: print(Cache().get(%r)[0])\n"
                "except BuildError as e: sys.exit(str(e))" % (str(self.repo / "guest/build"), name))
        return subprocess.Popen([sys.executable, "-B", "-c", code], env=self.env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def build(self, name):
        p = self.start(name)
        out, err = p.communicate()
        return p.returncode, out.strip(), err

    def test_a_step_is_made_once_and_again_when_a_file_of_it_changes(self):
        (self.repo / "in.txt").write_text("1")
        self.recipe("a", "(job.out / 'x').write_text(str(time.time_ns()))", "FILES = ['in.txt']")
        first, again = self.build("a"), self.build("a")
        self.assertEqual((first[0], first[1]), (0, again[1]))
        (self.repo / "in.txt").write_text("2")
        self.assertNotEqual(self.build("a")[1], first[1])

    def test_a_change_that_makes_the_same_bytes_goes_no_further(self):
        self.recipe("a", "(job.out / 'x').write_text('same')")
        self.recipe("b", "(job.out / 'y').write_text(str(time.time_ns()))", "USES = ['a']")
        first = self.build("b")[1]
        self.recipe("a", "(job.out / 'x').write_text('same')  # said otherwise")
        self.assertEqual(self.build("b")[1], first)

    def test_two_builds_at_once_make_a_step_once(self):
        count = Path(self.folder.name, "count")
        self.recipe("a", "open(%r, 'a').write('x'); time.sleep(0.5)" % str(count))
        builds = [self.start("a") for _ in range(3)]
        paths = {p.communicate()[0] for p in builds}
        self.assertEqual((len(paths), count.read_text()), (1, "x"))

    def test_a_killed_build_leaves_nothing_that_counts(self):
        self.recipe("a", "(job.out / 'half').write_text('');  print('here', flush=True); time.sleep(60)")
        p = self.start("a")
        self.assertEqual(p.stdout.readline(), "here\n")
        p.kill()
        p.communicate()
        self.assertEqual([f.name for f in Path(self.env["BRUMATE_CACHE"]).glob("a-*")], [])
        self.recipe("a", "(job.out / 'whole').write_text('')")
        path = Path(self.build("a")[1])
        self.assertEqual(sorted(f.name for f in path.iterdir()), [".identity", "whole"])

    def test_a_failure_names_the_step_and_shows_the_log(self):
        self.recipe("a", "job.run(['sh', '-c', 'echo what went wrong; exit 3'])")
        code, _, err = self.build("a")
        self.assertEqual(code, 1)
        for part in ("a: `sh -c", "ended with 3", "what went wrong", "steps that were finished are kept"):
            self.assertIn(part, err)
        self.assertEqual(list(Path(self.env["BRUMATE_CACHE"], "tmp").iterdir()), [])

    def test_a_full_disk_is_said(self):
        self.recipe("a", "raise OSError(28, 'No space left on device')")
        self.assertIn("set BRUMATE_CACHE to a larger place", self.build("a")[2])


if __name__ == "__main__":
    unittest.main()
