"""Changes to the C that wasm2c writes. Each is counted, and what must not remain is looked for.

1. An indirect call passes the caller's own instance instead of the one in the table's entry. Right,
   because wasm.Module.prove() has shown that every entry is a function of this very module.
2. The memory's base is the instance's address plus a constant (GUEST_INSTANCE_SPAN) instead of a
   pointer loaded from the instance. Right, because the engine places the memory there, always.
3. The table is a constant of the shared object, of two words an entry: no load of its address and size
   before each indirect call, no copy to build. Right, because prove() has shown that it never changes.
   It holds the functions themselves, not wrappers that only change the type of the first parameter from
   `void *` to a pointer to the instance: to the ABI they are the same call.
4. A function type is a number, not a pointer to the hash of its text, and numbers alone are compared.
   Right, because prove() has shown that no two types are alike. An empty entry has none: 0.
5. The data segments are included from files (#embed) instead of as text: the same bytes, compiled sooner.
"""
import re

import shim
import wasm
from steps import BuildError

SPAN = 65536                     # GUEST_INSTANCE_SPAN, checked against the header by the shim

CALL = re.compile(r"instance->w2c_T0\.data\[\w+\]\.module_instance")
BASE = "uint8_t* const wasm_rt_local_memory_base = (&instance->w2c_memory)->data;"
OWN_BASE = "uint8_t* const wasm_rt_local_memory_base = (uint8_t*)instance + %d;" % SPAN
ENTRY = re.compile(r"\{RefFunc, (\w+), \(wasm_rt_function_ptr_t\)wrap_(w2c_\w+), \{NULL\}, 0\},")
KNOWN = "CALL_INDIRECT(instance->w2c_T0,"
# a macro that is empty here: no segment register is used
SEGUE = "wasm_rt_segue_write_base(instance->w2c_memory.data);"
# what no generated function may still hold
LEFT = ["w2c_memory.data", "w2c_memory->data", "w2c_memory)->data", "funcref_table_get(", "funcref_table_set(",
        "funcref_table_copy(", "funcref_table_fill(", "funcref_table_init(", "wasm_rt_grow_funcref_table", "wasm_rt_funcref_t ",
        ".module_instance"]

TYPE = re.compile(r"FUNC_TYPE_EXTERN_T\(w2c_\w+_t\d+\) = \"[^\"]*\";\n")
TYPE_NAME = re.compile(r"FUNC_TYPE_DECL_EXTERN_T\((w2c_\w+_t(\d+))\);\n")
# what core-impl.h says, and what it says instead
HEADER = [
    ("#define CHECK_CALL_INDIRECT(table, ft, x)                       \\\n"
     "  (LIKELY((x) < table.size && ft == table.data[x].func_type) || \\\n"
     "   func_types_eq_slowpath(&(table), ft, x))\n",
     "typedef struct {{ const char *type; wasm_rt_function_ptr_t func; }} w2c_table_entry;\n"
     "extern const w2c_table_entry w2c_table[] __attribute__((visibility(\"hidden\")));\n"
     "#define CHECK_CALL_INDIRECT(table, ft, x) \\\n"
     "  (LIKELY((x) < {size}u && ft == w2c_table[x].type) || TRAP(CALL_INDIRECT))\n"),
    ("#define DO_CALL_INDIRECT(table, t, x, ...) ((t)table.data[x].func)(__VA_ARGS__)\n",
     "#define DO_CALL_INDIRECT(table, t, x, ...) ((t)w2c_table[x].func)(__VA_ARGS__)\n"),
]

def _check(found, wanted, what):
    if found != wanted:
        raise BuildError("wasm2c's C has %d %s, where %d were expected: its output has changed; "
                         "see guest/build/translate.py" % (found, what, wanted))


def _embed(text, folder, name, module):
    """Puts the data segments that `text` defines into files of their own."""
    done = 0
    for number, segment in enumerate(module.data):
        begin = "const u8 data_segment_data_w2c_%s_%s[] = {\n" % (name, shim.mangle(segment.name))
        at = text.find(begin)
        if at >= 0:
            at += len(begin)
            stop = text.index("};", at)
            _check(text.count("0x", at, stop), len(segment.content), "bytes in data segment " + segment.name)
            (folder / ("data%d.bin" % number)).write_bytes(segment.content)
            text, done = text[:at] + '#embed "data%d.bin"\n' % number + text[stop:], done + 1
    return text, done


def _table(text, name, module):
    """Turns the element segment that `text` defines into the table; answers how many entries it has."""
    segment, size = module.elements[0], module.table[0]
    begin = "const wasm_elem_segment_expr_t elem_segment_exprs_w2c_%s_%s[] = {\n" % (name, segment.name)
    at = text.find(begin)
    if at < 0:
        return text, 0
    stop = text.index("};", at)
    rows, entries = ENTRY.subn(r"{\1, (wasm_rt_function_ptr_t)\2},", text[at + len(begin):stop])
    _check(rows.count("{"), entries, "table entries of an unknown form")
    built = "const w2c_table_entry w2c_table[%d] = { [%d] =\n" % (size, segment.offset) + rows
    text = text[:at] + built + text[stop:]
    for line in ("  wasm_rt_allocate_funcref_table(&instance->w2c_T0, %d, %d);\n" % (size, module.table[1] or 0xFFFFFFFF),
                 "  funcref_table_init(&instance->w2c_T0, elem_segment_exprs_w2c_%s_%s, %d, %du, 0, %d, instance);\n"
                 % (name, segment.name, entries, segment.offset, entries)):
        _check(text.count(line), 1, "lines `%s`" % line.strip())
        text = text.replace(line, "")
    return text, entries


def translate(folder, name, module, counts):
    """Rewrites the files `name`_*.c and `name`-impl.h in `folder`; `counts` are prove()'s."""
    total = dict.fromkeys(["indirect calls", "memory bases", "table entries", "data segments", "types"], 0)
    marked = 0
    _check(len(module.elements), 1, "element segments")
    for path in sorted(folder.glob(name + "_*.c")):
        text, segments = _embed(path.read_text(), folder, name, module)
        marked += text.count("CALL_INDIRECT(")
        _check(text.count(KNOWN), text.count("CALL_INDIRECT("), "indirect calls through the table in " + path.name)
        text, calls = CALL.subn("(void*)instance", text)
        bases = text.count(BASE)
        _check(bases, text.count("wasm_rt_local_memory_base = "), "memory bases of the known form in " + path.name)
        text = text.replace(BASE, OWN_BASE)
        text, entries = _table(text, name, module)
        text, types = TYPE.subn("", text)
        rest = text.replace(SEGUE, "")
        for left in LEFT:
            if left in rest:
                raise BuildError("%s still has `%s`: see guest/build/translate.py" % (path.name, left))
        path.write_text(text)
        for what, n in zip(total, (calls, bases, entries, segments, types)):
            total[what] += n
    _check(marked, counts[wasm.CALL_INDIRECT], "indirect calls (call_indirect in the wasm)")
    _check(total["indirect calls"], marked, "indirect calls that took the entry's instance")
    _check(total["table entries"], sum(len(s.content) for s in module.elements), "table entries")
    _check(total["data segments"], sum(1 for s in module.data if s.content), "data segments")
    if not total["memory bases"]:
        raise BuildError("wasm2c's C has no memory base of the known form: see guest/build/translate.py")
    header = folder / (name + "-impl.h")
    text = header.read_text()
    text, types = TYPE_NAME.subn(lambda m: "#define %s ((const char *)%d)\n" % (m[1], int(m[2]) + 1), text)
    _check(total["types"], len(module.types), "definitions of types")
    _check(types, len(module.types), "declarations of types")
    for old, new in HEADER:
        _check(text.count(old), 1, "lines `%s`" % old.split("\n")[-2])
        text = text.replace(old, new.format(size=module.table[0]))
    header.write_text(text)
    return total
