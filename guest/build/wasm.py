"""Reads a WebAssembly module: what the shim is generated from and what the proofs are made on.

Only what clang and wasm-ld write for a reactor is understood; anything else is an error, so that no
construct that the engine does not expect slips through.
"""
from collections import Counter, namedtuple

from steps import BuildError

VALUE = {0x7F: "i", 0x7E: "I", 0x7D: "f", 0x7C: "F"}      # the letters of guest_abi.h
KINDS = {0: "func", 1: "table", 2: "memory", 3: "global"}

Import = namedtuple("Import", "module name type")         # functions only
Export = namedtuple("Export", "name kind index")
Global = namedtuple("Global", "type mutable init name")
Segment = namedtuple("Segment", "offset content name")     # content: bytes, or function indices


class Reader:
    def __init__(self, data, at=0, end=None):
        self.data, self.at, self.end = data, at, len(data) if end is None else end

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def leb(self):
        """An unsigned LEB128 number; of a signed one, its low bits."""
        result = shift = 0
        while True:
            b = self.byte()
            result |= (b & 0x7F) << shift
            shift += 7
            if b < 0x80:
                return result

    def signed(self):
        begin = self.at
        value = self.leb()
        bits = 7 * (self.at - begin)
        return value - (1 << bits) if value >> (bits - 1) else value

    def take(self, count):
        self.at += count
        return self.data[self.at - count:self.at]

    def text(self):
        return self.take(self.leb()).decode()


def _expect(condition, what):
    if not condition:
        raise BuildError("core.wasm: %s" % what)


class Module:
    def __init__(self, data):
        _expect(data[:8] == b"\0asm\1\0\0\0", "not a WebAssembly module of version 1")
        self.types, self.imports, self.functions, self.exports, self.globals = [], [], [], [], []
        self.table = self.memory = None
        self.elements, self.data, self.bodies, self.names = [], [], [], {}
        sections, reader = [], Reader(data, 8)
        while reader.at < len(data):
            number, size = reader.byte(), reader.leb()
            sections.append((number, reader.at, reader.at + size))
            reader.at += size
        # names first: segments and globals are called by them
        for number, begin, end in sorted(sections, key=lambda s: s[0] != 0):
            method = {0: self._custom, 1: self._types, 2: self._imports, 3: self._functions, 4: self._tables,
                      5: self._memories, 6: self._globals, 7: self._exports, 8: self._start, 9: self._elements,
                      10: self._code, 11: self._data, 12: lambda r: r.leb()}.get(number)
            _expect(method, "section %d is not understood" % number)
            section = Reader(data, begin, end)
            method(section)
            _expect(section.at == end, "section %d does not end where it says" % number)

    def type_of(self, function):
        """The type of a function by its index, imports first."""
        if function < len(self.imports):
            return self.imports[function].type
        return self.types[self.functions[function - len(self.imports)]]

    # sections

    def _custom(self, r):
        if r.text() == "name":
            while r.at < r.end:
                kind, size = r.byte(), r.leb()
                end = r.at + size
                if kind in (1, 7, 9):          # functions, globals, data segments
                    self.names[kind] = {r.leb(): r.text() for _ in range(r.leb())}
                r.at = end
        r.at = r.end

    def _types(self, r):
        for _ in range(r.leb()):
            _expect(r.byte() == 0x60, "a type that is not a function")
            parts = ["".join(VALUE.get(r.byte(), "?") for _ in range(r.leb())) for _ in range(2)]
            _expect("?" not in parts[0] + parts[1], "a vector or reference type")
            self.types.append(":".join(parts))

    def _imports(self, r):
        for _ in range(r.leb()):
            module, name, kind = r.text(), r.text(), r.byte()
            _expect(kind == 0, "import %s.%s is not a function" % (module, name))
            self.imports.append(Import(module, name, self.types[r.leb()]))

    def _functions(self, r):
        self.functions = [r.leb() for _ in range(r.leb())]

    def _limits(self, r):
        flags = r.byte()
        _expect(flags in (0, 1), "shared or 64-bit limits")
        low = r.leb()
        return low, (r.leb() if flags else None)

    def _tables(self, r):
        _expect(r.leb() == 1, "other than one table")
        _expect(r.byte() == 0x70, "a table that is not of functions")
        self.table = self._limits(r)

    def _memories(self, r):
        _expect(r.leb() == 1, "other than one memory")
        self.memory = self._limits(r)

    def _constant(self, r):
        """A constant expression of one instruction: its type's letter and value."""
        opcode = r.byte()
        if opcode in (0x41, 0x42):
            value = "iI"[opcode - 0x41], r.signed() & ((1 << (32 if opcode == 0x41 else 64)) - 1)
        elif opcode in (0x43, 0x44):
            size = 4 if opcode == 0x43 else 8
            value = "fF"[opcode - 0x43], int.from_bytes(r.take(size), "little")
        else:
            raise BuildError("core.wasm: an initial value that is not a constant")
        _expect(r.byte() == 0x0B, "an initial value of several instructions")
        return value

    def _globals(self, r):
        names = self.names.get(7, {})
        for index in range(r.leb()):
            kind, mutable = VALUE.get(r.byte(), "?"), r.byte()
            letter, value = self._constant(r)
            _expect(letter == kind, "global %d and its initial value differ in type" % index)
            self.globals.append(Global(kind, bool(mutable), value, names.get(index, "g%d" % index)))

    def _exports(self, r):
        for _ in range(r.leb()):
            name, kind, index = r.text(), r.byte(), r.leb()
            self.exports.append(Export(name, KINDS.get(kind, "?"), index))

    def _start(self, r):
        raise BuildError("core.wasm: a start function; a reactor has _initialize instead")

    def _elements(self, r):
        for index in range(r.leb()):
            _expect(r.leb() == 0, "an element segment that is not active in table 0")
            letter, offset = self._constant(r)
            _expect(letter == "i", "an element segment's offset is not an i32")
            self.elements.append(Segment(offset, [r.leb() for _ in range(r.leb())], "e%d" % index))

    def _data(self, r):
        names = self.names.get(9, {})
        for index in range(r.leb()):
            _expect(r.leb() == 0, "a data segment that is not active in memory 0")
            _, offset = self._constant(r)
            self.data.append(Segment(offset, r.take(r.leb()), names.get(index, "d%d" % index)))

    def _code(self, r):
        for _ in range(r.leb()):
            size = r.leb()
            self.bodies.append((r.at, r.at + size))
            r.at += size
        self._bytes = r.data

    # proofs

    def count_instructions(self):
        """How often each opcode stands in the code; the two-byte ones as 0xFC00 + number.

        An instruction that touches tables or references is an error, see prove()."""
        counts = Counter()
        for begin, end in self.bodies:
            self._count_body(Reader(self._bytes, begin, end), counts)
        return counts

    @staticmethod
    def _count_body(r, counts):
        for _ in range(r.leb()):               # locals
            r.leb()
            r.byte()
        data, leb = r.data, r.leb
        while r.at < r.end:
            op = data[r.at]
            r.at += 1
            counts[op] += 1
            if 0x45 <= op <= 0xC4 or op in PLAIN:
                continue
            if op in ONE_LEB:
                leb()
            elif op in TWO_LEB:
                leb()
                leb()
            elif op == 0x43:
                r.at += 4
            elif op == 0x44:
                r.at += 8
            elif op == 0x0E:                   # br_table
                for _ in range(leb() + 1):
                    leb()
            elif op == 0xFC:
                sub = leb()
                counts[0xFC00 + sub] += 1
                _expect(sub <= 11, "instruction 0xFC %d, which touches a table" % sub)
                for _ in range((0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 1)[sub]):
                    leb()
            else:
                raise BuildError("core.wasm: instruction 0x%02X, which is not expected of CPython's code" % op)
        _expect(r.at == r.end, "a function's code does not end where it says")

    def prove(self):
        """That one read-only function table serves every instance and the transformations hold:

        - one memory, one table of functions, both of the module's own;
        - no imported function stands in the table: so every entry takes this module's instance;
        - no instruction reads, writes, grows or copies a table or makes a reference: so the entries
          are the ones written at the start, for ever;
        - no two types are alike: so a type may be known by its number;
        - no start function, no passive segments: so the shim's attach() and instantiate() do all.

        Answers the counts of instructions."""
        _expect(self.table and self.memory, "no table or no memory")
        _expect(len(set(self.types)) == len(self.types), "two function types that are alike")
        for segment in self.elements:
            for function in segment.content:
                if function < len(self.imports):
                    bad = self.imports[function]
                    raise BuildError("core.wasm: the imported function %s.%s stands in the function table; "
                                     "wrap it in a function of the guest's own" % (bad.module, bad.name))
            _expect(segment.offset + len(segment.content) <= self.table[0], "an element segment beyond the table")
        for segment in self.data:
            _expect(segment.offset + len(segment.content) <= self.memory[0] << 16, "a data segment beyond memory")
        return self.count_instructions()


# unreachable nop else end return drop select; table.get, table.set, ref.* and typed select are not among them
PLAIN = frozenset([0x00, 0x01, 0x05, 0x0B, 0x0F, 0x1A, 0x1B])
# block loop if, br, br_if, call, local.*, global.*, memory.size, memory.grow, i32.const, i64.const
ONE_LEB = frozenset([0x02, 0x03, 0x04, 0x0C, 0x0D, 0x10, 0x20, 0x21, 0x22, 0x23, 0x24, 0x3F, 0x40, 0x41, 0x42])
# call_indirect, loads and stores (alignment, offset)
TWO_LEB = frozenset([0x11] + list(range(0x28, 0x3F)))
CALL_INDIRECT = 0x11
