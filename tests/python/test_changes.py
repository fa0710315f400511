"""Snapshots that hold only what changed since another."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from brumate import BrumateError, Session, Snapshot, resume

KEY = b"sixteen bytes of"


@pytest.fixture
def pair(session: Session) -> Iterator[tuple[Snapshot, Snapshot]]:
    """A base, and what changed since."""
    session.execute("import os; x = [1]; y = bytes(range(256)) * 4000; open('f', 'wb').write(os.urandom(100_000))")
    base = session.suspend()
    session.execute("x.append(2); open('g', 'w').write('two')")
    yield base, session.suspend(base=base)


USE = "print(x, len(y), os.path.getsize('f'), open('g').read())"


def test_joined_it_is_what_was_there(pair: tuple[Snapshot, Snapshot]):
    base, delta = pair
    with resume(delta.join(base)) as session:
        assert session.execute(USE).stdout == "[1, 2] 1024000 100000 two\n"


def test_it_is_smaller_and_says_so(pair: tuple[Snapshot, Snapshot]):
    base, delta = pair
    assert delta.is_delta and not base.is_delta
    assert base.info.base_id is None and delta.info.base_id == base.info.id
    assert delta.info.size == len(delta.to_bytes()) < base.info.size / 2
    assert delta.info.stored < base.info.stored
    assert "changes" in repr(delta) and "changes" not in repr(base)
    whole = delta.join(base)
    assert whole.info.id == delta.info.id and whole.info.base_id is None
    assert whole.info.changed >= base.info.changed > delta.info.changed


def test_a_chain(session: Session):
    session.execute("x = 0")
    whole = session.suspend()
    for n in range(1, 6):
        session.execute("x += 1")
        delta = session.suspend(base=whole)
        whole = Snapshot.from_bytes(delta.to_bytes()).join(whole)
        with resume(whole) as woken:
            assert woken.execute("print(x)").stdout == f"{n}\n"


def test_without_its_base_it_does_not_wake(pair: tuple[Snapshot, Snapshot]):
    base, delta = pair
    with pytest.raises(BrumateError, match=f"since the one with the id {base.info.id}: join"):
        resume(delta)
    with Session(callbacks={"ask": None}) as session:
        session.start("kept = 1; await ask()")
        with pytest.raises(BrumateError, match="join"):
            session.restore_state(delta.to_bytes())
        assert session.progress().pending[0].name == "ask"  # the run was not given up


def test_what_does_not_fit_is_not_joined(pair: tuple[Snapshot, Snapshot]):
    base, delta = pair
    with Session() as other, pytest.raises(BrumateError):
        delta.join(other.suspend())
    for whole, changes in ((base, base), (delta, delta)):
        with pytest.raises(BrumateError):
            changes.join(whole)
    with pytest.raises(TypeError, match="base must be a Snapshot, not bytes"):
        delta.join(base.to_bytes())  # type: ignore[arg-type]


def test_bases_that_are_none(session: Session, pair: tuple[Snapshot, Snapshot]):
    with pytest.raises(BrumateError, match="join it to its own base"):
        session.suspend(base=pair[1])
    with pytest.raises(TypeError, match="base must be a Snapshot, not bytes"):
        session.suspend(base=b"")  # type: ignore[arg-type]


def test_where_a_run_waits():
    with Session(callbacks={"ask": None}) as session:
        session.execute("x = 1")
        base = session.suspend()
        call = session.start("x += await ask('what')").pending[0]
        delta = session.suspend(base=base)
    assert delta.waiting and delta.pending[0].args == ("what",)
    with resume(delta.join(base), replies={call.id: 41}) as woken:
        woken.finish()
        assert woken.execute("print(x)").stdout == "42\n"


def test_signed_in_files_and_pickled(pair: tuple[Snapshot, Snapshot], session: Session, tmp_path: Path):
    base, delta = pair
    assert pickle.loads(pickle.dumps(delta)).join(base).info == delta.join(base).info
    delta = session.suspend(base=base, key=KEY)
    delta.save(tmp_path / "changes")
    with pytest.raises(BrumateError, match="key"):
        Snapshot.load(tmp_path / "changes")
    whole = Snapshot.load(tmp_path / "changes", key=KEY).join(base, key=KEY)
    assert delta.info.signed and whole.info.signed
    with resume(whole.to_bytes(), key=KEY) as woken:
        assert woken.execute(USE).stdout == "[1, 2] 1024000 100000 two\n"
