"""Changes to the C that wasm2c writes. Each is counted, and what must not remain is looked for.

1. An indirect call passes the caller's own instance instead of the one in the table's entry. Right,
   because wasm.Module.prove() has shown that every entry is a function of this very module.
2. The memory's base is the instance's address plus a constant (GUEST_INSTANCE_SPAN) instead of a
   pointer loaded from the instance. Right, because the engine places the memory there, always.
3. The table holds the functions themselves, not wrappers that only change the type of the first
   parameter from `void *` to a pointer to the instance: to the ABI they are the same call.
4. A function type is known by the address of its 32 bytes, not by the value of a pointer to them.
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
WRAPPER = re.compile(r"\(wasm_rt_function_ptr_t\)wrap_(w2c_\w+)")
KNOWN = "CALL_INDIRECT(instance->w2c_T0,"
# a macro that is empty here: no segment register is used
SEGUE = "wasm_rt_segue_write_base(instance->w2c_memory.data);"
# what no generated function may still hold
LEFT = ["w2c_memory.data", "w2c_memory->data", "w2c_memory)->data", "funcref_table_get(", "funcref_table_set(",
        "funcref_table_copy(", "funcref_table_fill(", "wasm_rt_grow_funcref_table", "wasm_rt_funcref_t ",
        ".module_instance"]

TYPES = ("#if defined(__GNUC__) || defined(__clang__)\n"
         "#define FUNC_TYPE_DECL_EXTERN_T(x) extern const char* const x\n")
OWN_TYPES = TYPES.replace("defined(__GNUC__) || defined(__clang__)", "0 /* an array: its address is the type */")


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


def translate(folder, name, module, counts):
    """Rewrites the files `name`_*.c and `name`-impl.h in `folder`; `counts` are prove()'s."""
    total = dict.fromkeys(["indirect calls", "memory bases", "table entries", "data segments"], 0)
    marked = 0
    for path in sorted(folder.glob(name + "_*.c")):
        text, segments = _embed(path.read_text(), folder, name, module)
        marked += text.count("CALL_INDIRECT(")
        _check(text.count(KNOWN), text.count("CALL_INDIRECT("), "indirect calls through the table in " + path.name)
        text, calls = CALL.subn("(void*)instance", text)
        bases = text.count(BASE)
        _check(bases, text.count("wasm_rt_local_memory_base = "), "memory bases of the known form in " + path.name)
        text = text.replace(BASE, OWN_BASE)
        text, entries = WRAPPER.subn(r"(wasm_rt_function_ptr_t)\1", text)
        rest = text.replace(SEGUE, "")
        for left in LEFT:
            if left in rest:
                raise BuildError("%s still has `%s`: see guest/build/translate.py" % (path.name, left))
        path.write_text(text)
        for what, n in zip(total, (calls, bases, entries, segments)):
            total[what] += n
    _check(marked, counts[wasm.CALL_INDIRECT], "indirect calls (call_indirect in the wasm)")
    _check(total["indirect calls"], marked, "indirect calls that took the entry's instance")
    _check(total["table entries"], sum(len(s.content) for s in module.elements), "table entries")
    _check(total["data segments"], sum(1 for s in module.data if s.content), "data segments")
    if not total["memory bases"]:
        raise BuildError("wasm2c's C has no memory base of the known form: see guest/build/translate.py")
    header = folder / (name + "-impl.h")
    text = header.read_text()
    _check(text.count(TYPES), 1, "definitions of function types")
    header.write_text(text.replace(TYPES, OWN_TYPES))
    return total
