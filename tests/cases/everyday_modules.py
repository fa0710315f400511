# What agents' programs lean on.

#== numbers, text and counting together
#: stdout 1.0 1/2
#: stdout 2 [(0, 1), (2, 3), (4,)]
from decimal import Decimal; from fractions import Fraction; from collections import Counter; import re, itertools
print(sum(Decimal("0.1") for _ in range(10)), Fraction(1, 3) + Fraction(1, 6))
print(Counter(re.findall(r"(?i)[a-z]+", "To be or not to be"))["be"], list(itertools.batched(range(5), 2)))

#== formats
#: stdout {"a": [1, 2.5, null, "\xc3\xa9"]} [['x', 'y,z']] 1
import json, csv, io, xml.etree.ElementTree as ET
print(json.dumps({"a": [1, 2.5, None, "é"]}, ensure_ascii=False), list(csv.reader(io.StringIO('x,"y,z"'))), ET.fromstring("<a><b>1</b></a>").find("b").text)

#== compression round trips
#: stdout [True, True, True, True]
import zlib, gzip, bz2, lzma
d = bytes(range(256)) * 400
print([m.decompress(m.compress(d)) == d for m in (zlib, gzip, bz2, lzma)])

#== archives on the session's disk
#: stdout ['a.txt'] hello ['a.txt'] hello
import zipfile, tarfile, io
with zipfile.ZipFile("/tmp/a.zip", "w", zipfile.ZIP_DEFLATED) as z: z.writestr("a.txt", "hello")
with tarfile.open("/tmp/a.tar.gz", "w:gz") as t:
    i = tarfile.TarInfo("a.txt"); i.size = 5; t.addfile(i, io.BytesIO(b"hello"))
with zipfile.ZipFile("/tmp/a.zip") as z, tarfile.open("/tmp/a.tar.gz") as t:
    print(z.namelist(), z.read("a.txt").decode(), t.getnames(), t.extractfile("a.txt").read().decode())

#== digests
#: stdout 900150983cd24fb0d6963f7d28e17f72 ba7816bf 3a985da7 b751850b 508c5e8c
#: stdout True True
import hashlib, hmac
print(hashlib.md5(b"abc").hexdigest(), *(hashlib.new(n, b"abc").hexdigest()[:8] for n in ("sha256", "sha3_256", "sha3_512", "blake2s")))
print(hmac.new(b"k", b"m", "sha256").digest() == hmac.digest(b"k", b"m", "sha256"), hashlib.pbkdf2_hmac("sha1", b"p", b"s", 2).hex() != "")

#== digests that OpenSSL brings
#: stdout 8eb208f7e05d987a9b044a8e98c6b087f15a0bfc 66c7f0f462eeedd9 53048e2681941ef9 54173687d265e432
#: stdout 1 ValueError unsupported hash type nonsense
import hashlib
print(hashlib.new("ripemd160", b"abc").hexdigest(), hashlib.new("sm3", b"abc").hexdigest()[:16], hashlib.new("sha512_256", b"abc").hexdigest()[:16], hashlib.scrypt(b"pleaseletmein", salt=b"SodiumChloride", n=1024, r=8, p=1).hex()[:16])
try: hashlib.new("nonsense")
except ValueError as e: print(hashlib.new("shake_128").block_size // 168, "ValueError", e)

#== time that was used is not time that passed
#: stdout True True True
import os, time
c, t, w = time.process_time(), os.times(), time.monotonic()
time.sleep(0.2)
slept = time.process_time() - c
while time.process_time() - c < 0.1: pass
u = os.times()
print(slept < 0.1, 0.05 <= u.user - t.user <= 1, 0.25 < u.elapsed - t.elapsed < 60)

#== processes say why they cannot start
#: stdout OSError wasi does not support processes.
import multiprocessing
try: multiprocessing.Process(target=print).start()
except OSError as e: print("OSError", e.strerror)

#== dates, random numbers and unique names
#: stdout 2026-02-28 0 True True
import calendar, datetime, random, secrets, uuid
r = random.Random(7)
print(datetime.date(2026, 1, 31) + datetime.timedelta(28), r.random() == random.Random(8).random() or 0, uuid.uuid4() != uuid.uuid4(), len(secrets.token_hex(8)) == 16)

#== classes, matching, typing and dataclasses
#: stdout Point(x=1, y=2) on the diagonal: 5 int
from dataclasses import dataclass; from typing import get_type_hints
@dataclass(order=True)
class Point:
    x: int
    y: int = 2
def where(p):
    match p:
        case Point(x=a, y=b) if a == b: return f"on the diagonal: {a}"
        case Point(): return "elsewhere"
print(Point(1), where(Point(5, 5)), get_type_hints(Point)["x"].__name__)

#== files, paths and temporary folders
#: stdout ['a', 'b'] 5 True
import pathlib, tempfile, shutil, os
with tempfile.TemporaryDirectory() as d:
    p = pathlib.Path(d)
    (p / "a").write_text("hello"); (p / "b").mkdir(); (p / "b" / "c").write_bytes(b"x")
    print(sorted(x.name for x in p.iterdir()), (p / "a").stat().st_size, shutil.copytree(p / "b", p / "d") == p / "d")

#== pickles, copies, weak references and contexts
#: stdout [[1, 2], {'a': (3,)}] True None
import pickle, copy, weakref, gc
x = [[1, 2], {"a": (3,)}]
class C: pass
c = C(); w = weakref.ref(c); del c
print(pickle.loads(pickle.dumps(x)), copy.deepcopy(x) == x, w())

#== unit tests and doctests of one's own
#: stdout TestResults(failed=0, attempted=1)
#: stdout 1 []
import unittest, doctest, io
def double(x):
    """
    >>> double(2)
    4
    """
    return 2 * x
print(doctest.testmod())
class T(unittest.TestCase):
    def test(self): self.assertEqual(double(1), 2)
r = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(T))
print(r.testsRun, r.failures)

#== a result that no format could carry does not fail the run
#: stdout done
print("done"); result = {"a": float("nan"), "b": {1, 2}}

#== the value of the last expression is shown when asked for
#: display
#: stdout 42
x = 6
x * 7
#-- and None is not
#: display
None

#== a byte is found wherever it stands, and not beyond the end
#: stdout True
d = b"a" * 70 + b"\x80" + b"\0" * 3
print(all(d[i:j].find(b"\x80") == (70 - i if j > 70 else -1) for i in range(40) for j in range(i, 74)))
