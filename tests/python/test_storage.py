"""Storages: files that several sessions share and that outlive them."""

from __future__ import annotations

import threading

import pytest
from conftest import Run

from brumate import Session, VfsStorage


def test_it_outlives_its_sessions():
    storage = VfsStorage()
    with Session(vfs=storage) as session:
        session.execute("open('/data/f', 'w').write('kept')")
    assert storage.files.get("/f") == b"kept"
    with Session(vfs=storage) as session:
        assert session.execute("print(open('/data/f').read())").stdout == "kept\n"


def test_it_is_counted_and_bounded(run: Run):
    storage = VfsStorage(max_bytes=1 << 20)
    assert storage.max_bytes == 1 << 20
    with Session(vfs=storage) as session:
        out = run(
            session,
            "try: open('/data/f', 'wb').write(bytes(2**21))\nexcept OSError as e: print(e.errno)",
        ).stdout
        assert out.strip().isdigit()
        run(session, "import os\nos.remove('/data/f')\nopen('/data/g', 'wb').write(bytes(500_000))")
    assert 500_000 <= storage.bytes_used <= 1 << 20
    with pytest.raises(OSError):
        storage.files.put("/h", bytes(1 << 20))
    storage.files.remove("/g")
    assert storage.bytes_used < 100_000


def test_default_size():
    storage = VfsStorage()
    assert storage.max_bytes == 64 << 20 and storage.bytes_used < 100_000


@pytest.mark.parametrize(
    ("size", "error"), [(0, ValueError), (-1, ValueError), ("1", TypeError), (1.5, TypeError)]
)
def test_size_is_checked(size, error):
    with pytest.raises(error, match="max_bytes"):
        VfsStorage(max_bytes=size)


def test_only_the_mount_is_shared():
    storage = VfsStorage()
    with Session(vfs=storage) as one, Session(vfs=storage) as two:
        one.execute("open('/tmp/f', 'w').write('x'); open('/data/g', 'w').write('y')")
        out = two.execute(
            "import os; print(os.path.exists('/tmp/f'), os.path.exists('/data/g'))"
        ).stdout
    assert out == "False True\n"


@pytest.mark.parametrize("path", ["relative", "", "/", "/data/../etc", "/dev", "/usr"])
def test_mount_paths_that_are_refused_or_harmless(path: str):
    try:
        with Session(vfs=VfsStorage(), vfs_mount_path=path) as session:
            assert session.execute("import json; print(json.dumps(1))").stdout == "1\n"
    except (ValueError, OSError):
        pass
    except Exception as e:
        assert type(e).__name__ == "InitializationError"


def test_snapshot_leaves_storage_alone(run: Run):
    storage = VfsStorage()
    with Session(vfs=storage) as session:
        run(session, "open('/data/f', 'w').write('old')")
        snapshot = session.snapshot_state()
        run(session, "open('/data/f', 'w').write('new')")
        session.restore_state(snapshot)
        assert run(session, "print(open('/data/f').read())").stdout == "new\n"


def test_storage_may_be_used_from_many_threads():
    storage = VfsStorage()
    errors: list[BaseException] = []

    def work(n: int) -> None:
        try:
            with Session(vfs=storage) as session:
                for i in range(10):
                    session.execute(
                        f"open('/data/{n}-{i}', 'w').write('x' * 1000)\nimport os; os.listdir('/data')"
                    )
                    storage.files.put(f"/host-{n}-{i}", b"y" * 1000)
                    storage.files.list("/")
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and len(storage.files.list("/")) == 80


def test_database_shared_by_two_sessions():
    storage = VfsStorage()
    with Session(vfs=storage) as one, Session(vfs=storage) as two:
        one.execute(
            "import sqlite3\nwith sqlite3.connect('/data/t.db') as k: k.execute('create table t(a)'); k.execute('insert into t values(7)')"
        )
        assert (
            two.execute(
                "import sqlite3\nprint(sqlite3.connect('/data/t.db').execute('select a from t').fetchone())"
            ).stdout
            == "(7,)\n"
        )
