"""Twins, snapshots and checkpoints in any order: each session is what its own history makes of it, and no other's."""

from __future__ import annotations

import hashlib
from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, multiple, rule

import brumate

START = "x, d = [], {}\nopen('/data/f', 'w').close()\ndef g():\n    n = 0\n    while True:\n        n += yield n\nit = g(); next(it)"
LOOK = "print(x, sorted(d.items()), open('/data/f').read(), it.send(0))"


class Model:
    """What a session must hold."""

    def __init__(self) -> None:
        self.x: list[int] = []
        self.d: dict[int, int] = {}
        self.f = ""
        self.n = 0

    def copy(self) -> Model:
        other = Model()
        other.x, other.d, other.f, other.n = self.x[:], dict(self.d), self.f, self.n
        return other

    def __str__(self) -> str:
        return f"{self.x} {sorted(self.d.items())} {self.f} {self.n}\n"


class Pair:
    def __init__(self, session: brumate.Session, model: Model) -> None:
        self.session, self.model = session, model
        self.points: list[tuple[Any, Model]] = []

    def check(self) -> None:
        assert self.session.execute(LOOK).stdout == str(self.model)


number = st.integers(0, 99)


class Forks(RuleBasedStateMachine):
    sessions = Bundle("sessions")
    asleep = Bundle("asleep")

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Pair] = []

    def add(self, session: brumate.Session, model: Model) -> Pair:
        pair = Pair(session, model)
        self.all.append(pair)
        return pair

    @rule(target=sessions)
    def begin(self) -> Pair:
        session = brumate.Session()
        session.execute(START)
        return self.add(session, Model())

    @rule(pair=sessions, n=number)
    def change_memory(self, pair: Pair, n: int) -> None:
        pair.session.execute(f"x.append({n}); d[{n % 10}] = {n}; it.send({n})")
        pair.model.x.append(n)
        pair.model.d[n % 10] = n
        pair.model.n += n

    @rule(pair=sessions, n=number)
    def change_file(self, pair: Pair, n: int) -> None:
        pair.session.execute(f"with open('/data/f', 'a') as f: f.write('{n};')")
        pair.model.f += f"{n};"

    @rule(pair=sessions, n=number)
    def change_much(self, pair: Pair, n: int) -> None:
        text = hashlib.sha256(bytes([n])).hexdigest()
        pair.session.execute(f"junk = ['{text}' * k for k in range(200)]; x.insert(0, len(junk)); del junk")
        pair.model.x.insert(0, 200)

    @rule(target=sessions, pair=sessions, n=st.integers(1, 3))
    def fork(self, pair: Pair, n: int) -> Any:
        return multiple(*(self.add(twin, pair.model.copy()) for twin in pair.session.fork(n)))

    @rule(target=asleep, pair=sessions)
    def suspend(self, pair: Pair) -> tuple[bytes, Model]:
        return pair.session.suspend().to_bytes(), pair.model.copy()

    @rule(target=sessions, state=asleep)
    def wake(self, state: tuple[bytes, Model]) -> Pair:
        return self.add(brumate.resume(state[0]), state[1].copy())

    @rule(pair=sessions, state=asleep)
    def restore(self, pair: Pair, state: tuple[bytes, Model]) -> None:
        pair.session.restore_state(state[0])
        pair.model = state[1].copy()

    @rule(pair=sessions)
    def checkpoint(self, pair: Pair) -> None:
        pair.points.append((pair.session.checkpoint(), pair.model.copy()))

    @rule(pair=sessions, which=number)
    def rollback(self, pair: Pair, which: int) -> None:
        if pair.points:
            point, model = pair.points[which % len(pair.points)]
            pair.session.rollback(point)
            pair.model = model.copy()

    @rule(pair=sessions, n=number)
    def failed_trial(self, pair: Pair, n: int) -> None:
        try:
            with pair.session.trial():
                pair.session.execute(f"x.append({n}); it.send({n}); open('/data/f', 'w').write('gone')")
                raise KeyError
        except KeyError:
            pass

    @rule(pair=consumes(sessions))
    def close(self, pair: Pair) -> None:
        pair.check()
        pair.session.close()
        self.all.remove(pair)

    @rule(pair=sessions)
    def look(self, pair: Pair) -> None:
        pair.check()

    def teardown(self) -> None:
        for pair in self.all:
            pair.check()
            pair.session.close()


Forks.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestForks = Forks.TestCase
