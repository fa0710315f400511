"""Works with a store, or on one snapshot, until it is killed, and says what was saved, a line each: only what is
reported counts."""

from __future__ import annotations

import random
import sys

import brumate


def say(*words: object) -> None:
    print(*words, flush=True)


def step_by_step(folder: str) -> None:
    """Wakes a snapshot, answers its call, puts it to sleep again, over and over."""
    path = f"{folder}/asleep"
    say("open")
    while True:
        snapshot = brumate.Snapshot.load(path)
        (call,) = snapshot.pending
        with brumate.resume(snapshot) as session:
            session.reply({call.id: call.args[0] + 1})
            session.suspend().save(path)
        say("saved", "asleep", call.args[0] + 1)


def work(folder: str, seed: int) -> None:
    r = random.Random(seed)
    with brumate.Store(folder, max_live=2, callbacks={"ask": None}) as store:
        say("open")
        while True:
            name = r.choice(["plain", "Named", "third"])
            with store.session(name) as session:
                if session.execution_count == 0 and "begun" not in session.execute("print(*globals())").stdout:
                    session.execute("begun = True; n = 0; f = open('/data/f', 'w+'); import os; junk = None")
                session.execute(f"n += 1; junk = os.urandom({r.choice([0, 1000, 300_000])}); f.write(f'{{n}}\\n'); f.flush()")
                n = int(session.execute("print(n)").stdout)
                if r.random() < 0.3:
                    store.flush()
                    say("saved", name, n)
                    n = int(session.execute("n += 1; f.write(f'{n}\\n'); f.flush(); print(n)").stdout)
            say("saved", name, n)
            if r.random() < 0.2:
                store.brumate()
            if r.random() < 0.1:
                store.remove("third") if "third" in store else None
                say("removed", "third")


if sys.argv[3] == "store":
    work(sys.argv[1], int(sys.argv[2]))
else:
    step_by_step(sys.argv[1])
