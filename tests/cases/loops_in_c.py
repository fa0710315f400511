# C code that never returns (no bytecode boundary in sight) is stopped all the same.
#: timeout 200ms
#: reason timeout

#== key derivation
import hashlib
hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)

#== scrypt, or its absence
#: reason timeout exception memory_limit
#: type AttributeError MemoryError ValueError
import hashlib
hashlib.scrypt(b"a", salt=b"b", n=2**20, r=8, p=100, maxmem=2**31 - 1)

#== a sort of many strings
#: memory 512M
#: reason timeout exception memory_limit completed
#: type MemoryError
sorted([str(i) for i in range(10**6)] * 8)

#== a sort with a key
#: memory 1G
#: reason timeout exception memory_limit completed
#: type MemoryError
list(range(10**7)).sort(key=lambda v: -v)

#== reading a huge integer
#: reason timeout completed
import sys
sys.set_int_max_str_digits(0)
int("9" * 10**6)

#== writing a huge integer
import sys
sys.set_int_max_str_digits(0)
str(1 << 10**7)

#== a huge power
3 ** 10**8

#== a huge modular power
pow(3, 2**100000 + 1, 2**100000 - 1)

#== a factorial
import math
math.factorial(10**7)

#== a huge division
(1 << 2 * 10**7) // (3 ** 10**6)

#== a sum over a range
sum(range(10**12))

#== max, any, in, count, index over long ranges
any(i < 0 for i in ()) or -1.5 in range(10**12)

#== a deque that eats a counter
import itertools, collections
collections.deque(itertools.count(), maxlen=0)

#== products and permutations
import itertools, collections
collections.deque(itertools.product(range(100), repeat=20), maxlen=0)

#== an evil regular expression
import re
re.match(r"(a+)+$", "a" * 40 + "b")

#== an evil regular expression with lookahead and back references
import re
re.match(r"(?:(?=(a*))\1?)*b|(x+x+)+y", "x" * 60)

#== compiling an evil regular expression
#: reason timeout exception memory_limit completed
#: type re.error MemoryError RecursionError OverflowError PatternError re.PatternError
import re
re.compile("(?:" * 5000 + "a" + "){1,50}" * 5000)

#== an endless decompression
#: reason timeout exception memory_limit
#: type MemoryError
import zlib
c = zlib.compressobj(9); bomb = b"".join(c.compress(bytes(10**6)) for _ in range(100)) + c.flush()
while True: zlib.decompress(bomb)

#== hashing gigabytes
import hashlib
h, block = hashlib.sha3_512(), bytes(2**24)
for _ in range(10**6): h.update(block)

#== a string search that goes quadratic
#: memory 64M
s = "a" * 10**6 + "b" + "a" * 10**6
while True: s.count("a" * 5 * 10**5 + "b" + "a" * 4 * 10**5 + "c"), ("a" * 10**6).replace("aab", "c")

#== JSON of a giant list
#: memory 256M
import json
x = [0] * 10**6
while True: json.dumps(x)

#== decimal digits without end
from decimal import Decimal, getcontext
getcontext().prec = 10**6
Decimal(2).sqrt() ** Decimal("1.5")

#== unicode normalisation of a giant text
import unicodedata
t = "\u1e9b\u0323" * 10**6
while True: unicodedata.normalize("NFKD", t)

#== a difference of long texts
import difflib
difflib.SequenceMatcher(None, "ab" * 10**5, "ba" * 10**5, autojunk=False).ratio()

#== combinations of big sets
#: memory 256M
a, b = set(range(10**6)), set(range(5 * 10**5, 15 * 10**5))
while True: a & b, a | b, a ^ b

#== a copy loop inside itertools.chain
import itertools
x = itertools.repeat(())
for _ in itertools.chain.from_iterable(x): pass

#== a comparison of equal giant tuples
a, b = tuple([0] * 10**6), tuple([0.0] * 10**6)
while True: a == b

#== a float parsed and printed again and again
while True: float("1" * 10**6), repr(1.1)

#== garbage collection of a huge graph
#: memory 512M
#: reason timeout memory_limit exception
#: type MemoryError
import gc
x = [[] for _ in range(10**6)]
while True: gc.collect()

#== struct, array and memoryview loops
import array
a = array.array("d", bytes(8 * 10**6))
while True: a.tobytes(), a.count(1.0), memoryview(a).tolist()

#== sqlite inside a callback
import sqlite3
db = sqlite3.connect(":memory:"); db.create_function("f", 1, lambda x: x)
db.execute("with recursive n(x) as (select 1 union all select f(x) from n) select count(*) from n").fetchall()

#== random bytes without end
#: timeout 300ms
#: reason timeout
import io
f = io.FileIO("/dev/urandom")
b = bytearray(60 << 20)
while True: f.readinto(b)
