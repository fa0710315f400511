"""Store: named sessions that sleep on disk, one owner each, safe against whatever kills a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import python_env

from brumate import BrumateError, ExecutionError, Store, TimeoutError
from brumate.places import stem_of

COUNT = "n = globals().get('n', 0) + 1\nprint(n)"


@pytest.fixture(params=["folder", "fsspec"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store") if request.param == "folder" else f"memory://{tmp_path}"


def use(store: Store, name: str, code: str = COUNT, **options: Any) -> str:
    with store.session(name, **options) as session:
        return session.execute(code).stdout


def test_sessions_keep_their_state_asleep_and_awake(where: str):
    with Store(where) as store:
        assert use(store, "a") == "1\n"
        assert use(store, "a") == "2\n"
        store.brumate()
        assert use(store, "a") == "3\n"
        assert use(store, "b") == "1\n"
    with Store(where) as again:
        assert use(again, "a") == "4\n"


def test_what_with_left_is_on_disk(tmp_path: Path, python: Callable[..., Any]):
    done = python(
        """
import brumate, os, signal, sys
store = brumate.Store(sys.argv[1])
with store.session("a") as session: session.execute("x = 'saved'")
with store.session("a") as session:
    session.execute("x = 'flushed'")
    store.flush()
    session.execute("x = 'lost'")
    os.kill(os.getpid(), signal.SIGKILL)
""",
        str(tmp_path),
    )
    assert done.returncode == -signal.SIGKILL
    with Store(tmp_path) as store:
        assert use(store, "a", "print(x)") == "flushed\n"


def test_state_is_saved_also_if_the_body_raises(where: str):
    with Store(where) as store:
        with pytest.raises(ExecutionError), store.session("a") as session:
            session.execute("x = 1\n1 / 0")
        store.brumate()
        assert use(store, "a", "print(x)") == "1\n"


def test_a_session_that_ended_goes_back_to_what_was_saved(where: str):
    with Store(where) as store:
        use(store, "a", "x = 'saved'")
        with pytest.raises(TimeoutError), store.session("a") as session:
            session.execute("x = 'lost'\nwhile True: pass", timeout_ms=50)
        assert use(store, "a", "print(x)") == "saved\n"
        with store.session("a") as session:
            session.execute("x = 'lost'")
            session.close()
        assert use(store, "a", "print(x)") == "saved\n"


def test_a_session_is_closed_behind_its_use(where: str):
    with Store(where) as store:
        with store.session("a") as session:
            files = session.files
        assert session.closed
        for refused in (lambda: session.execute("pass"), lambda: files.list()):
            with pytest.raises(BrumateError, match="closed"):
                refused()
        assert use(store, "a") == "1\n"


def test_a_run_that_waits_sleeps_too(where: str):
    with Store(where, callbacks={"ask": None}) as store:
        with store.session("a") as session:
            (call,) = session.start("print(await ask('?'))").pending
        for asleep in (False, True):
            if asleep:
                store.brumate()
            with store.session("a") as session:
                assert session.progress().pending == [call]
        with store.session("a") as session:
            assert session.reply({call.id: "yes"}).result.stdout == "yes\n"


def test_options_are_those_of_each_session(where: str):
    with Store(where, callbacks={"f": lambda: 8}, env={"K": "v"}) as store:
        for _ in range(2):
            assert use(store, "a", "import os; print(os.environ['K'], await f())") == "v 8\n"
            store.brumate()
    with pytest.raises(TypeError):
        Store(where, nonsense=1)


# --- names ---

NAMES = ["a", "A", "a b", "..", "../x", "/etc/passwd", ".lock", "a.bru", "a~b", "-", "_", "Ä", "ä", "a\u0308", "\0", "\n",
         "😀", "con", "x" * 200, "y" * 200, "日本" * 100, "%41", "a/b", "a\\b"]


def test_any_name_is_a_session_of_its_own(where: str):
    with Store(where) as store:
        for number, name in enumerate(NAMES):
            use(store, name, f"x = {number}")
        store.brumate()
        assert {s.name for s in store.list()} == set(NAMES)
        assert [use(store, name, "print(x)") for name in NAMES] == [f"{n}\n" for n in range(len(NAMES))]


def test_names_stay_inside_the_folder(tmp_path: Path):
    with Store(tmp_path / "in") as store:
        for name in NAMES:
            use(store, name)
    assert [p.name for p in tmp_path.iterdir()] == ["in"]
    assert all(p.is_file() and len(p.name) < 255 for p in (tmp_path / "in").iterdir())
    assert len({stem_of(name).casefold() for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", ["", "x" * 201, "\ud800", 5, None, b"a"])
def test_names_that_are_none(name: Any, tmp_path: Path):
    with Store(tmp_path) as store, pytest.raises((ValueError, TypeError), match="name"):
        use(store, name)


# --- what there is ---


def test_list_contains_and_remove(where: str):
    before = time.time() - 2
    with Store(where) as store:
        use(store, "b", "x = bytearray(100)")
        use(store, "a")
        store.brumate()
        use(store, "b")
        a, b = store.list()
        assert (a.name, a.live, b.name, b.live) == ("a", False, "b", True)
        assert a.size > 0 and before < a.used <= time.time() + 2
        assert "a" in store and "c" not in store and len(store) == 2
        store.remove("a")
        assert "a" not in store and use(store, "a") == "1\n"
        with pytest.raises(KeyError):
            store.remove("c")
        with pytest.raises(KeyError), store.session("c", create=False):
            pass
        with store.session("b"), pytest.raises(BrumateError, match="in use"):
            store.remove("b")
        store.remove("b")
        with pytest.raises(KeyError), store.session("b", create=False):
            pass


def test_folder_holds_nothing_else(tmp_path: Path):
    with Store(tmp_path) as store:
        for name in ("a", "B", "a"):
            use(store, name)
        assert sorted(p.suffix for p in tmp_path.iterdir()) == ["", ".bru", ".bru", ".name"]
        store.remove("a")
        store.remove("B")
    assert [p.name for p in tmp_path.iterdir()] == [".lock"]


# --- one owner ---


def test_a_second_owner_in_this_process_is_refused_or_waits(where: str):
    with Store(where) as store:
        with store.session("a"), pytest.raises(BrumateError, match="in use"):
            use(store, "a")
        with store.session("a"):
            begun = time.monotonic()
            with pytest.raises(BrumateError, match="in use"):
                use(store, "a", timeout=0.2)
            assert time.monotonic() - begun >= 0.2
        told: list[str] = []
        threads = [
            threading.Thread(target=lambda: told.append(use(store, "a", timeout=None)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(told, key=int) == [f"{n}\n" for n in range(1, 9)]


HOLDER = """
import brumate, sys
store = brumate.Store(sys.argv[1])
with store.session("a") as session:
    session.execute("x = 'theirs'")
    print("on", flush=True)
    sys.stdin.readline()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=python_env(),
    )
    assert process.stdout and process.stdout.readline() == "on\n"
    return process


def test_a_second_owner_in_another_process(tmp_path: Path):
    with Store(tmp_path) as store:
        use(store, "a", "x = 'ours'")
        with holder(tmp_path) as other:
            with pytest.raises(BrumateError, match="another process"):
                use(store, "a")
            assert other.stdin
            threading.Timer(0.2, other.stdin.close).start()
            assert use(store, "a", "print(x)", timeout=30) == "theirs\n"


def test_an_owner_that_is_killed_lets_go(tmp_path: Path):
    with Store(tmp_path) as store:
        use(store, "a", "x = 'ours'")
        with holder(tmp_path) as other:
            other.kill()
        assert use(store, "a", "print(x)") == "ours\n"


def test_what_another_process_left_is_seen(tmp_path: Path):
    with Store(tmp_path) as one, Store(tmp_path) as two:
        for n in range(1, 7, 2):
            assert use(one, "a") == f"{n}\n"
            assert use(two, "a") == f"{n + 1}\n"
        two.remove("a")
        assert use(one, "a") == "1\n"


def test_a_forked_child_has_locks_of_its_own(tmp_path: Path):
    with Store(tmp_path) as store:
        use(store, "b")
        with store.session("a"):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    use(store, "b")
                    try:
                        use(store, "a")
                    except BrumateError:
                        code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
            with Store(tmp_path) as other, pytest.raises(BrumateError, match="another process"):
                use(other, "a")
        assert use(store, "b") == "3\n"


# --- memory ---


def test_idle_sessions_leave_memory_by_number(where: str):
    with Store(where, max_live=2) as store:
        for name in "abcab":
            use(store, name)
        assert [s.name for s in store.list() if s.live] == ["a", "b"]
        assert [use(store, name) for name in "abc"] == ["3\n", "3\n", "2\n"]


def test_idle_sessions_leave_memory_by_time(where: str):
    with Store(where, idle_seconds=0.05) as store:
        use(store, "a")
        until = time.monotonic() + 10
        while any(s.live for s in store.list()) and time.monotonic() < until:
            time.sleep(0.02)
        assert not any(s.live for s in store.list())
        assert use(store, "a") == "2\n"


def test_idle_sessions_leave_memory_when_it_is_scarce(
    where: str, monkeypatch: pytest.MonkeyPatch
):
    with Store(where) as store:
        use(store, "a")
        assert [s.live for s in store.list()] == [True]
        monkeypatch.setattr("brumate.store._memory_is_scarce", lambda: True)
        use(store, "b")
        assert [s.live for s in store.list()] == [False, False]


# --- limits ---


def test_a_full_store_takes_no_more(where: str):
    with Store(where, max_sessions=2) as store:
        use(store, "a")
        use(store, "b")
        with pytest.raises(BrumateError, match="full"):
            use(store, "c")
        assert use(store, "a") == "2\n"
        store.remove("b")
        assert use(store, "c") == "1\n"


def test_a_session_that_grew_too_large_keeps_what_was_saved(where: str):
    with Store(where, max_bytes=200_000) as store:
        use(store, "a", "x = 'small'")
        with pytest.raises(BrumateError, match="full"):
            use(store, "a", "import os; x = os.urandom(300_000)")
        assert use(store, "a", "print(x)") == "small\n"


def test_eviction_removes_what_was_not_used_for_longest(where: str):
    with Store(where, max_sessions=3, evict=True) as store:
        for name in ("a", "B", "c", "a"):
            use(store, name)
            time.sleep(0.02)
        with store.session("B"):
            use(store, "d")
            assert [s.name for s in store.list()] == ["B", "a", "d"]
    with Store(where, max_bytes=250_000, evict=True) as store:
        use(store, "e", "import os; x = os.urandom(200_000)")
        assert "e" in store and sum(s.size for s in store.list()) <= 250_000


# --- damage ---


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_file_is_kept_aside_with_one_error(damage: bytes | None, where: str, tmp_path: Path):
    with Store(where) as store:
        for name in ("a", "B"):
            use(store, name)
            store.brumate()
            place, stem = store._place, stem_of(name)
            data = place.read(stem, None).to_bytes()
            broken = damage if damage is not None else data[:-9] + bytes(9)
            if where.startswith("memory"):
                place._fs.pipe_file(place._path(stem), broken)
            else:
                Path(place._path(stem)).write_bytes(broken)
        use(store, "c")
        for name in ("a", "B"):
            with pytest.raises(BrumateError, match="kept as .*damaged"):
                use(store, name)
            assert use(store, name) == "1\n"
        assert use(store, "c") == "2\n"
        assert {s.name for s in store.list()} == {"a", "B", "c"}


def test_a_session_of_another_image_stays_where_it_is(where: str):
    with Store(where) as store:
        use(store, "a")
    with Store(where, key=b"k" * 16) as store:
        for _ in range(2):
            with pytest.raises(BrumateError, match="signed"):
                use(store, "a")
    with Store(where) as store:
        assert use(store, "a") == "2\n"


def test_signed_stores_take_their_own(where: str):
    with Store(where, key=b"k" * 16) as store:
        use(store, "a")
        store.brumate()
        assert use(store, "a") == "2\n"
    with pytest.raises(ValueError, match="key"):
        Store(where, key=b"short")


def test_leftovers_are_removed_at_open_but_no_work_under_way(tmp_path: Path):
    with Store(tmp_path) as store:
        use(store, "a")
        use(store, "B")
        left = ["a.bru.Xy12Zz", "gone.bru.abcdef", "x~1.name", "x~1.name.new"]
        for name in left:
            (tmp_path / name).write_bytes(b"half")
        (tmp_path / "mine.txt").write_text("not the store's")
        with store.session("a"):
            Store(tmp_path).close()
            assert {p.name for p in tmp_path.iterdir()} & set(left) == {"a.bru.Xy12Zz"}
        Store(tmp_path).close()
        assert not {p.name for p in tmp_path.iterdir()} & set(left)
        assert (tmp_path / "mine.txt").exists()
        assert use(store, "a") == "2\n" and use(store, "B") == "2\n"


# --- arguments and the end ---


@pytest.mark.parametrize(
    "options",
    [{"max_live": -1}, {"idle_seconds": -1}, {"idle_seconds": "1"}, {"max_sessions": 0}, {"max_bytes": 0}, {"idle_seconds": True}],
)
def test_arguments_that_are_wrong_are_named(options: dict[str, Any], tmp_path: Path):
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        Store(tmp_path, **options)


def test_a_closed_store_and_one_in_use(where: str):
    store = Store(where)
    with store.session("a"), pytest.raises(BrumateError, match="in use"):
        store.close()
    store.close()
    with pytest.raises(BrumateError, match="closed"):
        use(store, "a")


def test_a_run_in_another_thread_at_the_end_is_an_error(where: str):
    with Store(where) as store:
        use(store, "a", "x = 'saved'")
        with pytest.raises(BrumateError, match="rest"), store.session("a") as session:
            begun = threading.Event()
            thread = threading.Thread(
                target=lambda: session.execute(
                    "print('on', flush=True)\nx = 'lost'\nimport time; time.sleep(0.5)",
                    on_stdout=lambda _: begun.set(),
                )
            )
            thread.start()
            begun.wait(10)
        thread.join()
        assert use(store, "a", "print(x)") == "saved\n"


def test_without_fsspec_an_url_says_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match="fsspec"):
        Store("memory://x")


def test_dropped_stores_leave_no_descriptors(tmp_path: Path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        Store(tmp_path)
    assert len(os.listdir("/proc/self/fd")) <= before + 2
