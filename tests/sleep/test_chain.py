"""A thousand sleeps, from process to process, end where one run without any ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import brumate

STEPS, PROCESSES = 1000, 50

# Each step changes state of many kinds, and waits in the middle of a call and of a generator.
PROGRAM = f"""
import hashlib, sqlite3, collections, zlib, random
log = open("/data/log", "w+")
db = sqlite3.connect("/data/db"); db.execute("create table t(n, s)")
h = hashlib.sha256(); z = zlib.compressobj(); packed = []; r = random.Random(7)
last = collections.deque(maxlen=50); tree = {{}}
def squares():
    total = 0
    while True:
        total = (total + (yield total) ** 2) % 1_000_003
it = squares(); next(it)
class Node:
    def __init__(self, n, parent): self.n, self.parent = n, parent
node = None
for n in range({STEPS}):
    answer = await step(n)
    node = Node(answer, node if n % 100 else None)
    total = it.send(answer)
    h.update(str((answer, total, r.random())).encode())
    log.write(f"{{n}} {{answer}}\\n")
    db.execute("insert into t values(?, ?)", (answer, h.hexdigest()))
    if n % 7 == 0: db.commit()
    if n % 41 == 40: db.rollback()
    packed.append(z.compress(h.digest()))
    last.append(answer); tree[n % 97] = [tree.get(n % 97), node][-1:]
db.commit(); log.seek(0)
packed.append(z.flush())
depth = 0
while node: depth, node = depth + node.n, node.parent
print(h.hexdigest(), total, depth, sum(last), hashlib.sha256(log.read().encode()).hexdigest(),
      db.execute("select count(*), sum(n), max(s) from t").fetchone(),
      hashlib.sha256(zlib.decompress(b"".join(packed))).hexdigest(), r.random())
"""

STRETCH = """
import sys, brumate
path, steps = sys.argv[1], int(sys.argv[2])
for _ in range(steps):
    snapshot = brumate.Snapshot.load(path)
    (call,) = snapshot.pending
    with brumate.resume(snapshot) as session:
        progress = session.reply({call.id: call.args[0] * 3 % 1009})
        if progress.done:
            print(progress.result.stdout, end="")
        else:
            session.suspend().save(path)
"""


def test_a_thousand_sleeps_change_nothing(tmp_path: Path):
    with brumate.Session(callbacks={"step": lambda n: n * 3 % 1009}) as session:
        expected = session.execute(PROGRAM, timeout_ms=60_000).stdout
    with brumate.Session(callbacks={"step": None}) as session:
        session.start(PROGRAM)
        session.suspend().save(tmp_path / "s")
    told = ""
    for _ in range(PROCESSES):
        done = subprocess.run(
            [sys.executable, "-B", "-c", STRETCH, str(tmp_path / "s"), str(STEPS // PROCESSES)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stderr) == (0, "")
        told += done.stdout
    assert told == expected
