"""The codec of guest/c/value.h, through the module that module.c makes of it."""
import collections
import contextlib
import datetime as dt
import decimal
import enum
import gc
import itertools
import math
import random
import struct
import sys
import unittest
import uuid
import zoneinfo
from fractions import Fraction

import value_codec
from value_codec import DEPTH_MAX, ITEMS_MAX, decode, encode

D = decimal.Decimal
HASH_MODULUS = sys.hash_info.modulus
UTC = dt.timezone.utc


sys.setrecursionlimit(10000) # to compare what is nested deeply


def shape(key):
    """Of a key, what == does not compare: the types in it."""
    if isinstance(key, tuple):
        return f"({', '.join(map(shape, key))})"
    if isinstance(key, (set, frozenset)):
        return f"{{{', '.join(sorted(map(shape, key)))}}}"
    return repr(key)


def same(a, b):
    """Equal with equal types all the way down, floats by their bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack(">d", a) == struct.pack(">d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return False
        for x, y in zip(a, b): # not all(): deep values would recurse in C
            if not same(x, y):
                return False
        return True
    if isinstance(a, dict):
        return len(a) == len(b) and all(same(k, m) and same(a[k], b[m]) for k, m in zip(a, b))
    if isinstance(a, (set, frozenset)):
        return a == b and shape(a) == shape(b)
    if isinstance(a, D):
        return a.as_tuple() == b.as_tuple()
    if isinstance(a, (dt.datetime, dt.time)):
        return a.replace(tzinfo=None) == b.replace(tzinfo=None) and a.fold == b.fold and a.utcoffset() == b.utcoffset()
    return a == b


def nested(depth):
    v = []
    for _ in range(depth - 1):
        v = [v]
    return v


def float_of(bits):
    return struct.unpack(">d", struct.pack(">Q", bits))[0]


INTS = [n + d for n in (0, 24, 2**8, 2**16, 2**32, 2**63, 2**64, 2**128, 2**1000, 10**5000) for d in (-2, -1, 0, 1)]
AS_THEMSELVES = [
    None, True, False, *INTS, *[-n for n in INTS],
    0.0, -0.0, 1.5, 5e-324, math.inf, -math.inf, math.nan, float_of(0x7ff8000000000123), float_of(0xfff8000000000000),
    0j, complex(-0.0, math.nan), 1.5 - 2j,
    "", "a", "a" * 23, "a" * 24, "x" * 70000, "\0", "é", "€", "😀", "é" * 300, "\ud800", "a\udfff€", "\ud83d\ude00",
    b"", b"\0\xff", bytes(70000),
    [], [[]], [1, [2, [3]]], (), ((),), (1, "a", (None,)), {}, {"a": 1}, {"": {}}, {"k" * 100: 1, "é": 2, "\ud800": 3},
    {1: "a", 1.5: "b", None: "c", False: "d", b"x": "e", ("t", (2,)): "f", frozenset([1, ("u",)]): "g"},
    [{"name": 1, "other": 2}, {"name": 3, "other": 4}], {"b": 1, "a": 2},
    set(), {1, "a", (2, 3)}, frozenset(), frozenset([frozenset([1]), 2]),
    list(range(1000)), {i: str(i) for i in range(1000)}, set(range(1000)),
    dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999, fold=1),
    dt.datetime(2024, 2, 29, 1, 2, 3, 4, UTC), dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(microseconds=-1))),
    dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=23, minutes=59, seconds=59, microseconds=999999))),
    dt.time(), dt.time(23, 59, 59, 999999, fold=1), dt.time(1, 2, tzinfo=dt.timezone(dt.timedelta(hours=-5, minutes=-30))),
    dt.timedelta(), dt.timedelta.min, dt.timedelta.max, dt.timedelta(-1, 1, 1),
    *map(D, ["0", "-0", "0.00", "-0E+5", "1.50", "1E+999999", "1E-1000000", "NaN", "-NaN", "sNaN", "NaN123", "-sNaN9",
             "Infinity", "-Infinity", "123456789" * 50]),
    Fraction(0), Fraction(-1, 3), Fraction(10**500, 7), uuid.UUID(int=0), uuid.UUID(int=2**128 - 1),
    nested(DEPTH_MAX),
]


class Text(str):
    __slots__ = ()


class Number(enum.IntEnum):
    ONE = 1


class Word(str, enum.Enum):
    A = "a"


class Mine:
    pass


def raising(*_, **__):
    raise AssertionError("code of the value ran")


def sabotaged(base):
    names = ["__len__", "__iter__", "__getitem__", "__str__", "__repr__", "__int__", "__index__", "__float__", "__bool__", "__eq__",
             "keys", "items", "__next__", "__reduce__", "encode", "to_bytes", "__getattribute__", "__bytes__"]
    return type("Sabotaged", (base,), {name: raising for name in names} | {"__hash__": base.__hash__})


Point = collections.namedtuple("Point", "x y")
AS_BASE = [
    (Text("a"), "a"), (Number.ONE, 1), (Word.A, "a"), (Point(1, 2), (1, 2)), (collections.OrderedDict(a=1), {"a": 1}),
    (collections.Counter("aab"), {"a": 2, "b": 1}), (collections.defaultdict(list, a=[1]), {"a": [1]}),
    (bytearray(b"ab"), b"ab"), (memoryview(b"abcd")[::2], b"ac"), (memoryview(b"ab"), b"ab"), ({Text("k"): 1}, {"k": 1}),
    (dt.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo("UTC")), dt.datetime(2024, 7, 1, 12, tzinfo=UTC)),
    (dt.time(12, tzinfo=zoneinfo.ZoneInfo("UTC")), dt.time(12, tzinfo=UTC)),
] + [(sabotaged(type(base))(base), base) for base in (5, 10**30, 1.5, "é", b"x", [1, [2]], (1,), {"a": 1})]

THEIR_OWN = "cannot cross between guest and host"
REFUSED = [
    ([1, {"rows": [0, 1, 2, {Mine(): 1}]}], TypeError, f"value[1]['rows'][3].key: a 'Mine' {THEIR_OWN}"),
    (Mine(), TypeError, f"value: a 'Mine' {THEIR_OWN}"),
    ({"a": {(1, Mine): 1}}, TypeError, f"value['a'].key[1]: a 'type' {THEIR_OWN}"),
    ({1: {None: {2.5: Mine()}}}, TypeError, f"value[1][None][<float>]: a 'Mine' {THEIR_OWN}"),
    ({"é": {len}}, TypeError, f"value['é'].item: a 'builtin_function_or_method' {THEIR_OWN}"),
    ([type("S", (set,), {})()], TypeError, f"value[0]: a 'S' {THEIR_OWN}"),
    (type("B", (bytearray,), {})(), TypeError, f"value: a 'B' {THEIR_OWN}"),
    (type("L", (list,), {})(), None, None),
    ({type("H", (list,), {"__hash__": lambda s: 1})(): 1}, TypeError, f"value.key: a 'H' in a key {THEIR_OWN}"),
    (range(3), TypeError, f"value: a 'range' {THEIR_OWN}"),
    (dt.datetime(1, 1, 1, tzinfo=type("Z", (dt.tzinfo,), {"utcoffset": raising})()), TypeError,
     f"value: a 'datetime.datetime' with a time zone of type 'Z' {THEIR_OWN}"),
    (nested(DEPTH_MAX + 1), ValueError, "value: deeper than 1000 containers"),
    ("x" * 200, ValueError, "value: larger than 100 bytes"),
    ("é" * 60, ValueError, "value: larger than 100 bytes"),
    (b"x" * 98 + b"abc", ValueError, "value: larger than 100 bytes"),
    ([1] * 101, ValueError, "value: larger than 100 bytes"),
    ([1.5] * 20, ValueError, "value: larger than 100 bytes"),
    (10**400, ValueError, "value: larger than 100 bytes"),
    (Fraction(1 << 760, 3**479), ValueError, "value: larger than 100 bytes"),
    (memoryview(bytes(1000)), ValueError, "value: larger than 100 bytes"),
]


def cycles():
    a = []
    a.append(a)
    yield a, "value: the list contains itself"
    b = {"x": [1]}
    b["x"].append(({"y": b},))
    yield b, "value: the dict contains itself"
    c = ["x" * 1000]
    c.append(c)
    yield [c], "value[0]: the list contains itself"


def head(major, n):
    return bytes([major << 5 | 27]) + n.to_bytes(8, "big")


def tag(n):
    return head(6, n)


def array(*items):
    return head(4, len(items)) + b"".join(items)


def mapping(pairs):
    pairs = list(pairs)
    return head(5, len(pairs)) + b"".join(k + v for k, v in pairs)


def blob(b):
    return head(2, len(b)) + b


def text(s):
    return head(3, len(s)) + s.encode()


ONE = b"\x01"
MALFORMED = [
    (b"", "byte 0: the value ends early"),
    (b"\x82\x01", "byte 0: 2 items announced, 1 bytes left for them"),
    (b"\x81\x82\x01\x82", "byte 3: 2 items announced, 0 bytes left for them"),
    (b"\x19\x01", "byte 0: the value ends early"),
    (b"\x01\x01", "byte 1: 1 bytes too many"),
    (b"\x9f\x01\xff", "byte 0: indefinite or reserved length"),
    (b"\x5f\x41a\xff", "byte 0: indefinite or reserved length"),
    (b"\x1c", "byte 0: indefinite or reserved length"),
    (b"\xff", "byte 0: indefinite or reserved length"),
    (b"\x42a", "byte 0: 2 bytes announced, 1 left"),
    (head(2, 2**64 - 1), "byte 0: 18446744073709551615 bytes announced, 0 left"),
    (head(4, 2**64 - 1), "byte 0: 18446744073709551615 items announced, 0 bytes left for them"),
    (head(5, 2**63) + b"\x01" * 20, "byte 0: 9223372036854775808 items announced, 20 bytes left for them"),
    (tag(45100) + head(4, 2**32), "byte 0: 4294967296 items announced, 0 bytes left for them"),
    (b"\x83\x44aaaa\x84\x01\x01\x01", "byte 6: 4 items announced, 2 bytes left for them"),
    (b"\x81" * 1001 + b"\x01", "byte 1000: deeper than 1000 containers"),
    (b"\x61\xff", "byte 0: not a valid text: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    (b"\x63\xed\xa0\x80", "byte 0: not a valid text: 'utf-8' codec can't decode byte 0xed in position 0: invalid continuation byte"),
    (b"\xa1\x61\xff\x01", "byte 1: not a valid text: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    (b"\xf7", "byte 0: unknown simple value or float of another size"),
    (b"\xf9\x3c\x00", "byte 0: unknown simple value or float of another size"),
    (b"\xfa\x3f\x80\x00\x00", "byte 0: unknown simple value or float of another size"),
    (b"\xe0", "byte 0: unknown simple value or float of another size"),
    (tag(0) + text("2024-01-01T00:00:00Z"), "byte 0: unknown tag 0"),
    (tag(28) + b"\x80", "byte 0: unknown tag 28"),
    (tag(2), "byte 9: the value ends early"),
    (tag(2) + ONE, "byte 0: not a valid int: of another kind"),
    (tag(2) + tag(2) + blob(b"1"), "byte 0: not a valid int: of another kind"),
    (tag(258) + ONE, "byte 0: not a valid tuple or set: no array"),
    (tag(258) + b"\x82\x01\x01", "byte 11: an item twice in a set"),
    (tag(258) + b"\x82\x01\xf5", "byte 11: an item twice in a set"),
    (tag(258) + b"\x81\x80", "byte 10: a list, dict or set in a key"),
    (tag(258) + b"\x81" + tag(258) + b"\x80", "byte 10: a list, dict or set in a key"),
    (b"\xa2\x61a\x01\x61a\x02", "byte 4: a key twice in a dict"),
    (b"\xa1\x80\x01", "byte 1: a list, dict or set in a key"),
    (b"\xa1\xa0\x01", "byte 1: a list, dict or set in a key"),
    (b"\xa1" + tag(45100) + b"\x81\x80\x01", "byte 11: a list, dict or set in a key"),
    (b"\xa1" + (tag(45100) + b"\x81") * 18 + b"\x01\x01", "byte 161: a key deeper than 16"),
    (b"\xa1" + tag(2) + blob(bytes(2049)) + ONE, "byte 1: a number of 2049 bytes in a key"),
    (b"\xa1" + tag(45106) + text("1" * 2049) + ONE, "byte 1: a number of 2049 bytes in a key"),
    (b"\xa1" + tag(45106) + text("sNaN") + ONE, "byte 1: not a valid key: Cannot hash a signaling NaN value"),
    (tag(30) + ONE, "byte 0: not a valid Fraction: no pair"),
    (tag(30) + b"\x82\x01", "byte 11: the value ends early"),
    (tag(30) + b"\x82\x01\x00", "byte 0: not a valid Fraction: its denominator is not positive"),
    (tag(30) + b"\x82\x01\x20", "byte 0: not a valid Fraction: its denominator is not positive"),
    (tag(30) + b"\x82\x01" + tag(3) + blob(b"\1" * 9), "byte 0: not a valid Fraction: its denominator is not positive"),
    (tag(30) + b"\x82\x01\xf5", "byte 0: not a valid Fraction: no int"),
    (tag(30) + b"\x82" + (tag(2) + blob(b"\1" * 40000)) * 2, "byte 0: fractions with too many digits"),
    (tag(37) + blob(b"x"), "byte 0: not a valid UUID: 1 bytes"),
    (tag(37) + text("x" * 16), "byte 0: not a valid UUID: of another kind"),
    (tag(1004) + text("2024-13-01"), "byte 0: not a valid date: month must be in 1..12"),
    (tag(1004) + text("2024-1-01"), "byte 0: not a valid date"),
    (tag(1004) + text("2024-01-01T"), "byte 0: not a valid date"),
    (tag(1004) + blob(b"2024-01-01"), "byte 0: not a valid date: of another kind"),
    (tag(43000) + b"\x82\x01\x01", "byte 0: not a valid complex: no float"),
    (tag(45102) + blob(bytes([24, 0, 0, 0, 0, 0, 0])), "byte 0: not a valid time: hour must be in 0..23"),
    (tag(45102) + blob(bytes(8)), "byte 0: not a valid time: 8 bytes"),
    (tag(45102) + blob(bytes(7) + (86400 * 10**6).to_bytes(8, "big")), "byte 0: not a valid time: its offset is a day or more"),
    (tag(45103) + blob(bytes(11)), "byte 0: not a valid timedelta: 11 bytes"),
    (tag(45103) + blob(b"\x7f\xff\xff\xff" + bytes(8)), "byte 0: not a valid timedelta: days=2147483647; must have magnitude <= 999999999"),
    (tag(45103) + blob(bytes(4) + b"\xff\xff\xff\xff" + bytes(4)), "byte 0: not a valid timedelta: out of range"),
    (tag(45104) + blob(bytes(11)), "byte 0: not a valid datetime: year 0 is out of range"),
    (tag(45104) + blob(bytes([7, 200, 1, 1, 0, 0, 0, 0, 0, 0, 2])), "byte 0: not a valid datetime: fold must be either 0 or 1"),
    (tag(45104) + blob(bytes([7, 200, 1, 1, 0, 0, 0, 0, 0, 0, 0]) + b"\x80" + bytes(7)), "byte 0: not a valid datetime: its offset is a day or more"),
    (tag(45105) + blob(b"\xff"), "byte 0: not a valid text: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    *[(tag(45106) + text(s), "byte 0: not a valid Decimal") for s in
      ("", "-", " 1", "1 ", "1_0", ".5", "1.", "1e", "1E+", "+1", "inf", "nan", "sInfinity", "s", "sN", "NaN1.", "0x1", "1\0", "--1")],
]


def attacks():
    """Keys that make a dict or set quadratic, by name."""
    many = 20000
    same_hash = [encode(i * HASH_MODULUS) for i in range(many)]
    yield "one hash", same_hash
    yield "one hash of tuples", [tag(45100) + array(k) for k in same_hash]
    yield "one hash of frozensets", [tag(45101) + array(k) for k in same_hash]
    yield "one hash of fractions", [tag(30) + array(k, ONE) for k in same_hash[:2000]]
    yield "long way through the table", list(map(encode, long_ways()))


def long_ways(bits=14, run=9000, keys=1900):
    """Ints of different hashes for a dict of 2**bits slots: first a run of slots in the order in which a
    probe ends up going through them, then keys whose first probes are taken, so that they walk the run."""
    mask, at, order = (1 << bits) - 1, 0, []
    for _ in range(run):
        order.append(at)
        at = (at * 5 + 1) & mask
    taken, rng, found = set(order), random.Random(1), []
    while len(found) < keys:
        perturb = h = rng.randrange(1 << bits, 1 << 30)
        i = h & mask
        while i in taken and perturb:
            perturb >>= 5
            i = (i * 5 + perturb + 1) & mask
        if i in taken:
            found.append(h)
    return order + found


def innocent():
    """Big containers of keys that collide a little, by name."""
    rng = random.Random(2)
    n = 30000
    yield "small ints", range(n)
    yield "negative ints", range(-n, n)
    yield "random ints", [rng.getrandbits(60) for _ in range(n)]
    yield "big ints", [rng.getrandbits(200) for _ in range(n)]
    yield "ints with low bits clear", [i << 32 for i in range(n)]
    yield "floats", [i * 0.1 for i in range(n)]
    yield "floats of whole numbers", [float(i) for i in range(n)]
    yield "large floats", [i * 1e300 / n for i in range(n)]
    yield "a grid", list(itertools.product(range(-3, 4), repeat=5))
    yield "a grid of many -1 and -2", list(itertools.product((-2, -1, 0, 1, 2), repeat=6))
    yield "days", [dt.timedelta(i) for i in range(n)]
    yield "fractions", [Fraction(i, 1000) for i in range(2000)]
    yield "decimals", [D(i) / 8 for i in range(n)]
    yield "text and ints", [x for i in range(n) for x in (i, str(i))]
    yield "powers of two", [1 << i for i in range(2000)]


class Encoding(unittest.TestCase):
    def test_a_value_arrives_as_itself(self):
        for i, v in enumerate(AS_THEMSELVES):
            with self.subTest(type(v).__name__, row=i):
                self.assertTrue(same(decode(encode(v)), v))

    def test_all_values_arrive_in_one(self):
        deep = [v for v in AS_THEMSELVES if v is not AS_THEMSELVES[-1]]
        self.assertTrue(same(decode(encode(deep)), deep))

    def test_subclasses_arrive_as_their_base_and_run_no_code(self):
        for v, base in AS_BASE:
            with self.subTest(type(v).__name__ + repr(base)):
                self.assertTrue(same(decode(encode(v)), base))
                self.assertTrue(same(decode(encode([v])), [base]))

    def test_what_cannot_cross_is_named_with_its_place(self):
        for v, error, message in REFUSED:
            with self.subTest(message):
                if error is None:
                    encode(v)
                    continue
                with self.assertRaises(error) as caught:
                    encode(v, 100) if "100 bytes" in message else encode(v)
                self.assertEqual(str(caught.exception), message)
                self.assertIs(type(caught.exception), error)

    def test_what_contains_itself_is_called_so(self):
        for v, message in cycles():
            for limit in 16 << 20, 2000:
                with self.assertRaises(ValueError) as caught:
                    encode(v, limit)
                self.assertEqual(str(caught.exception), message)

    def test_a_long_path_is_shortened(self):
        v = [Mine()]
        for _ in range(100):
            v = [v]
        with self.assertRaises(TypeError) as caught:
            encode(v)
        self.assertEqual(str(caught.exception), f"value{'[0]' * 8} ... {'[0]' * 8}: a 'Mine' {THEIR_OWN}")

    def test_exactly_the_limit_of_bytes_is_allowed(self):
        for v in AS_THEMSELVES:
            b = encode(v)
            self.assertEqual(encode(v, len(b)), b)
            with self.assertRaises(ValueError):
                encode(v, len(b) - 1)

    def test_items_are_limited_on_both_sides(self):
        wide = [None] * (ITEMS_MAX - 1)
        self.assertEqual(len(decode(encode(wide))), len(wide))
        wide.append(None)
        with self.assertRaises(ValueError) as caught:
            encode(wide)
        self.assertEqual(str(caught.exception), f"value: more than {ITEMS_MAX} items")
        with self.assertRaises(ValueError) as caught:
            decode(head(4, ITEMS_MAX) + bytes(ITEMS_MAX))
        self.assertEqual(str(caught.exception), f"byte 0: more than {ITEMS_MAX} items")

    def test_what_is_shared_a_lot_is_refused_by_size(self):
        v = []
        for _ in range(60):
            v = [v, v]
        with self.assertRaises(ValueError):
            encode(v)

    def test_deep_tuples_in_keys_are_refused(self):
        v = 1
        for _ in range(18):
            v = (v,)
        with self.assertRaisesRegex(ValueError, "a key deeper than 16"):
            encode({v: 1})
        with self.assertRaisesRegex(ValueError, "a key deeper than 16"):
            encode({v})

    def test_a_released_memoryview_is_refused(self):
        v = memoryview(b"a")
        v.release()
        with self.assertRaisesRegex(ValueError, r"value\[0\]: the memoryview was released"):
            encode([v])

    def test_datetimes_of_a_zone_arrive_with_its_offset(self):
        try:
            zone = zoneinfo.ZoneInfo("Europe/Berlin")
        except zoneinfo.ZoneInfoNotFoundError:
            self.skipTest("no time zones here")
        for fold in 0, 1:
            v = dt.datetime(2024, 10, 27, 2, 30, tzinfo=zone, fold=fold)
            back = decode(encode(v))
            self.assertEqual(back.utcoffset(), v.utcoffset())
            self.assertIs(type(back.tzinfo), dt.timezone)
        self.assertIsNone(decode(encode(dt.time(1, tzinfo=zone))).tzinfo)

    def test_utc_arrives_as_the_one_utc(self):
        self.assertIs(decode(encode(dt.datetime(2024, 1, 1, tzinfo=UTC))).tzinfo, UTC)


class Decoding(unittest.TestCase):
    def refused(self, bytes_, message):
        with self.assertRaises(ValueError) as caught:
            decode(bytes_)
        self.assertIs(type(caught.exception), ValueError)
        self.assertEqual(str(caught.exception), message)

    def test_malformed_bytes_are_refused_with_the_place(self):
        for b, message in MALFORMED:
            with self.subTest(b[:40].hex()):
                # What CPython words differently from version to version is compared up to the reason.
                try:
                    decode(b)
                except ValueError as e:
                    self.assertIs(type(e), ValueError)
                    self.assertEqual(str(e).split(" must be")[0], message.split(" must be")[0])
                else:
                    self.fail("accepted")

    def test_every_cut_of_a_value_is_refused(self):
        for v in AS_THEMSELVES:
            b = encode(v)
            for n in range(min(len(b), 300)):
                with self.assertRaises(ValueError):
                    decode(b[:n])

    def test_heads_need_not_be_the_shortest(self):
        self.assertEqual(decode(head(4, 2) + head(0, 1) + head(1, 0)), [1, -1])
        self.assertEqual(decode(tag(2) + blob(b"\0\1")), 1)

    def test_nested_announcements_share_the_bytes_that_are_left(self):
        n = 1 << 20
        self.refused(head(4, n) + head(4, n) + bytes(n + 9), f"byte 9: {n} items announced, 10 bytes left for them")

    def test_a_decimal_beyond_the_limits_is_refused_whatever_the_context(self):
        b = tag(45106) + text("1E+9999999999999999999")
        for traps in [], [decimal.InvalidOperation]:
            with decimal.localcontext(decimal.Context(traps=traps)), self.assertRaisesRegex(ValueError, "byte 0: not a valid Decimal"):
                decode(b)

    def test_keys_made_to_collide_are_refused(self):
        for name, keys in attacks():
            for kind, b in ("dict", mapping((k, ONE) for k in keys)), ("set", tag(258) + array(*keys)):
                if name.startswith("long way") and kind == "set":
                    continue # that table is a dict's
                with self.subTest(name + ", " + kind), self.assertRaisesRegex(ValueError, "keys made to collide"):
                    decode(b)

    def test_big_containers_of_innocent_keys_arrive(self):
        for name, keys in innocent():
            with self.subTest(name):
                as_dict = dict.fromkeys(keys)
                self.assertEqual(decode(encode(as_dict)), as_dict)
                self.assertEqual(decode(encode(set(keys))), set(keys))
                self.assertEqual(decode(encode(frozenset(keys))), set(keys))

    def test_fractions_are_bounded_together(self):
        one = tag(30) + b"\x82" + (tag(2) + blob(b"\3" * 15000)) + (tag(2) + blob(b"\2" * 15000))
        self.assertIs(type(decode(one)), Fraction)
        with self.assertRaisesRegex(ValueError, "fractions with too many digits"):
            decode(array(*[one] * 10))

    def test_random_bytes_raise_nothing_but_value_error(self):
        rng = random.Random(3)
        for _ in range(20000):
            with contextlib.suppress(ValueError):
                decode(rng.randbytes(rng.randrange(60)))

    def test_changed_bytes_raise_nothing_but_value_error(self):
        rng = random.Random(4)
        good = [encode(v) for v in AS_THEMSELVES]
        good = [bytearray(b) for b in good if len(b) < 2000]
        for _ in range(20000):
            b = bytearray(rng.choice(good))
            for _ in range(rng.randrange(1, 4)):
                b[rng.randrange(len(b))] = rng.randrange(256)
            with contextlib.suppress(ValueError):
                decode(bytes(b))


EVERYTHING = [{"a": [1, (2, {3, 4}), frozenset([5])], 10**30: "é\ud800", (1, frozenset([2])): b"x"}, 1.5, 2j, -10**30,
              dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(1, -5))), dt.date(2024, 1, 1), dt.time(1), dt.timedelta(1),
              D("1.5"), Fraction(1, 3), uuid.UUID(int=5), nested(40), ["text" * 300], {i: i for i in range(300)}, set(range(300)),
              memoryview(bytes(20))[::2]]


class Memory(unittest.TestCase):
    def sweep(self, which, arg):
        encode(EVERYTHING), decode(encode(EVERYTHING))
        for once in True, False:
            n = 0
            while True:
                n += 1
                try:
                    result, reached = value_codec.failing(n, once, which, arg)
                except MemoryError:
                    continue
                if not reached:
                    break
            self.assertGreater(n, 20)

    def test_the_writer_survives_each_failing_allocation(self):
        self.sweep("encode", EVERYTHING)

    def test_the_reader_survives_each_failing_allocation(self):
        self.sweep("decode", encode(EVERYTHING))

    def test_errors_survive_each_failing_allocation(self):
        for which, arg in ("encode", [{"a": Mine()}]), ("decode", b"\xa1\x61\xff\x01"), ("decode", MALFORMED[-20][0]):
            for n in range(1, 100):
                with self.assertRaises((MemoryError, TypeError, ValueError)):
                    value_codec.failing(n, True, which, arg)

    def test_nothing_is_left_behind(self):
        marker = "marker" * 100
        bad = [b for b, _ in MALFORMED if len(b) < 1000]
        refused = [v for v, error, _ in REFUSED if error]
        good = encode(EVERYTHING)

        def work():
            encode([marker, EVERYTHING, {marker: (marker,)}])
            decode(good)
            for b in bad:
                with contextlib.suppress(ValueError):
                    decode(b)
            for v in refused + [c for c, _ in cycles()]:
                with contextlib.suppress(ValueError, TypeError):
                    encode(v, 2000)

        # Caches of the interpreter grow for a while; what leaks grows in every round.
        growth = []
        while len(growth) < 10 and (not growth or growth[-1] > 100):
            gc.collect()
            before, references = sys.getallocatedblocks(), sys.getrefcount(marker)
            for _ in range(300):
                work()
            gc.collect()
            self.assertEqual(sys.getrefcount(marker), references)
            growth.append(sys.getallocatedblocks() - before)
        self.assertLess(growth[-1], 101, growth)


try:
    from hypothesis import given, settings, strategies as st
except ImportError:
    given = None

if given:
    keys = st.recursive(st.none() | st.integers() | st.text() | st.binary() | st.floats(allow_nan=False),
                        lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
    scalars = (st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text(st.characters()) | st.binary() |
               st.dates() | st.datetimes() | st.times() | st.timedeltas() | st.decimals() | st.fractions() | st.uuids())
    values = st.recursive(scalars, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(keys, inner) | st.sets(keys),
                          max_leaves=12)

    class Properties(unittest.TestCase):
        @settings(deadline=None, max_examples=200, database=None)
        @given(values)
        def test_any_value_arrives_as_itself(self, v):
            self.assertTrue(same(decode(encode(v)), v))


if __name__ == "__main__":
    unittest.main()
