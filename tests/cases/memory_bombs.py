# Memory ends where the limit says: as MemoryError, or as the end of the run; never in the host.
#: memory 128M
#: host-memory 160M
#: timeout 60s

#== one huge block, then many small ones
#: reason completed memory_limit
#: stdout one
#: stdout two
try: bytearray(10**9)
except MemoryError: print("one")
x = []
try:
    while True: x.append(bytes(10**6))
except MemoryError: x.clear(); print("two")

#== sizes around every power of two
#: stdout 24 refused
n = 0
for e in (29, 30, 31, 32, 33, 40, 62, 63):
    for d in (-1, 0, 1):
        try: bytearray(2**e + d)
        except (MemoryError, OverflowError): n += 1
print(n, "refused")

#== multiplication of strings, lists, bytes and tuples
#: stdout 4 refused
n = 0
for x in ("ab", [1], b"x", (1,)):
    try: x * (10**9)
    except (MemoryError, OverflowError): n += 1
print(n, "refused")

#== shifts and powers
#: reason completed exception memory_limit
#: type MemoryError OverflowError
#: stdout-any
1 << 2**33

#== formats with a huge width
#: stdout 3 refused
n = 0
for f in (lambda: "%*d" % (2**31 - 1, 1), lambda: f"{1:>2147483647}", lambda: "x".ljust(2**31 - 1)):
    try: f()
    except (MemoryError, OverflowError, ValueError): n += 1
print(n, "refused")

#== a list that grows without end, and is still there afterwards
#: wrecked
#: reason exception memory_limit
#: type MemoryError
l = []
while True: l.append("x" * 1000 + str(len(l)))

#== a dictionary, a set and a string that double
#: reason exception memory_limit
#: type MemoryError
s = "ab"
while True: s += s

#== objects with references to each other
#: wrecked
#: reason exception memory_limit
#: type MemoryError
class Node: pass
n = None
while True: m = Node(); m.next = n; n = m

#== a decompression bomb
#: memory 64M
#: reason exception memory_limit
#: type MemoryError
import zlib
c = zlib.compressobj(9); z = b"".join(c.compress(bytes(10**6)) for _ in range(200)) + c.flush()
zlib.decompress(z)

#== bombs of the other compressions
#: memory 64M
#: stdout 2 refused
import bz2, lzma
n = 0
for m in (bz2.BZ2Compressor(1), lzma.LZMACompressor(preset=0)):
    z = b"".join(m.compress(bytes(10**6)) for _ in range(60)) + m.flush()
    try: (bz2 if z[:2] == b"BZ" else lzma).decompress(z)
    except MemoryError: n += 1
    del z
print(n, "refused")

#== billion laughs
#: reason exception memory_limit
#: type MemoryError xml.etree.ElementTree.ParseError ParseError
import xml.etree.ElementTree as ET
d = '<!DOCTYPE x [<!ENTITY a "ha">' + "".join(f'<!ENTITY {chr(b)} "{("&" + chr(b - 1) + ";") * 10}">' for b in range(98, 110)) + ']><x>&m;</x>'
ET.fromstring(d)

#== a generator fed into a constructor
#: reason exception memory_limit
#: type MemoryError
import itertools
list(itertools.count())

#== MemoryError swallowed again and again
#: timeout 500ms
#: reason timeout memory_limit
x = []
while True:
    try: x.append(bytearray(10**6))
    except MemoryError: pass

#== the session is usable after a caught MemoryError
#: alive yes
#: stdout caught
x = []
try:
    while True: x.append([0] * 1000)
except MemoryError: x = None; print("caught")
#-- and so is its memory
#: stdout 50000000
print(len(bytes(50_000_000)))

#== memory that is given back can be had again
#: stdout 100
n = 0
for _ in range(100):
    x = bytearray(60_000_000); n += 1; del x
print(n)

#== mmap, array, ctypes and shared memory
#: stdout refused
import array
try: array.array("q", [0]) * 10**9
except (MemoryError, OverflowError): print("refused")
try:
    import mmap
    mmap.mmap(-1, 2**30)
except (ImportError, OSError, MemoryError, OverflowError, ValueError): pass
else: print("not refused")

#== an anonymous mapping, file buffers and readers with huge sizes
#: stdout 3 refused
import io
n = 0
for f in (lambda: io.BytesIO().write(bytes(10**9)), lambda: open("/tmp/x", "wb", buffering=2**31 - 1), lambda: io.BufferedReader(io.BytesIO(), 2**31 - 1)):
    try: f()
    except (MemoryError, OverflowError, ValueError): n += 1
print(n, "refused")

#== a smaller limit bites earlier
#: memory 32M
#: reason exception memory_limit
#: type MemoryError
bytearray(33554432)

#== without a bomb nothing changes
#: memory 32M
#: stdout 1000000
print(len(bytes(1_000_000)))
