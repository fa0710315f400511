# SQLite works in memory and on the session's files.

#== in memory and in a file
#: stdout (50, 161700)
#: stdout (50, 161700)
import os, sqlite3
os.makedirs("/data", exist_ok=True)
for p in (":memory:", "/data/t.db"):
    with sqlite3.connect(p) as k:
        k.execute("create table t(a, b)"); k.executemany("insert into t values(?,?)", [(i, i*i) for i in range(100)])
        print(k.execute("select count(*), sum(b) from t where a % 2 = 0").fetchone())
#-- the next run finds the database
#: stdout 100
import sqlite3
print(sqlite3.connect("/data/t.db").execute("select count(*) from t").fetchone()[0])
#-- so does a fresh Python that keeps the files
#: reset
#: stdout 100
import sqlite3
print(sqlite3.connect("/data/t.db").execute("select count(*) from t").fetchone()[0])

#== rollback, savepoints and constraints
#: stdout 1 IntegrityError 1
import sqlite3
db = sqlite3.connect("/tmp/x.db", isolation_level=None)
db.execute("create table t(a unique)"); db.execute("insert into t values(1)")
db.execute("begin"); db.execute("insert into t values(2)"); db.execute("rollback")
a = db.execute("select count(*) from t").fetchone()[0]
try: db.execute("insert into t values(1)")
except sqlite3.Error as e: print(a, type(e).__name__, db.execute("select count(*) from t").fetchone()[0])

#== text search, JSON, window functions and Python functions
#: stdout [('the cat sat',)] 3 [(1,), (3,), (6,)] 42
import sqlite3
db = sqlite3.connect(":memory:")
db.execute("create virtual table d using fts5(t)")
db.executemany("insert into d values(?)", [("the cat sat",), ("a dog ran",)])
db.create_function("double", 1, lambda x: x * 2)
print(db.execute("select t from d where d match 'cat'").fetchall(),
      db.execute("select json_array_length('[1,2,3]')").fetchone()[0],
      db.execute("select sum(value) over (order by value) from json_each('[1,2,3]')").fetchall(),
      db.execute("select double(21)").fetchone()[0])

#== blobs, backup, dump and a second connection
#: stdout b'\\x00\\x01\\xff' 1 True
import sqlite3
a = sqlite3.connect("/tmp/a.db"); a.execute("create table t(x)"); a.execute("insert into t values(?)", (b"\0\1\xff",)); a.commit()
b = sqlite3.connect("/tmp/b.db"); a.backup(b)
print(b.execute("select x from t").fetchone()[0], sqlite3.connect("/tmp/b.db").execute("select count(*) from t").fetchone()[0],
      any("INSERT" in line for line in a.iterdump()))

#== a database that outgrows the file quota
#: files 1M
#: stdout OperationalError
#: stdout ok
import sqlite3, os
db = sqlite3.connect("/tmp/x.db"); db.execute("create table t(x)")
try:
    while True:
        db.execute("insert into t values(?)", (b"x" * 50000,)); db.commit()
except sqlite3.Error as e: print(type(e).__name__)
db.close(); os.remove("/tmp/x.db")
open("/tmp/y", "wb").write(b"x" * 500_000); print("ok")

#== a query that never ends
#: timeout 300ms
#: reason timeout
import sqlite3
sqlite3.connect(":memory:").execute("with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n").fetchone()

#== two connections to one file lock each other out, and both are right in the end
#: stdout database is locked
#: stdout [(1,), (2,)]
import sqlite3
a = sqlite3.connect("/data/two.db", timeout=0.01)
b = sqlite3.connect("/data/two.db", timeout=0.01)
a.execute("create table t(x)")
a.execute("insert into t values(1)")
try: b.execute("insert into t values(2)")
except sqlite3.OperationalError as e: print(e)
a.commit()
b.execute("insert into t values(2)")
b.commit()
print(a.execute("select x from t").fetchall())

#== two connections read one file at a time
#: stdout 3 3
import sqlite3
a = sqlite3.connect("/data/read.db")
a.execute("create table t(x)")
a.executemany("insert into t values(?)", [(i,) for i in range(3)])
a.commit()
b = sqlite3.connect("/data/read.db")
one, two = a.execute("select x from t"), b.execute("select x from t")
print(len([one.fetchone() for _ in range(3)]), len(two.fetchall()))
