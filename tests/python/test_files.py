"""Files of a session, from the host's side; and the same of a storage."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import brumate
from brumate import ResourceLimits, Session, VfsStorage


@pytest.fixture(params=["session", "storage"])
def files(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The files of a session and of a storage: one interface."""
    if request.param == "session":
        with Session() as session:
            yield session.files
    else:
        yield VfsStorage().files


@pytest.mark.parametrize(
    ("make", "kept"),
    [
        (lambda: b"", b""),
        (lambda: b"\0\xff", b"\0\xff"),
        (lambda: "grüße", "grüße".encode()),
        (lambda: bytearray(b"array"), b"array"),
        (lambda: io.BytesIO(b"file"), b"file"),
        (lambda: [b"a", b"", b"b"], b"ab"),
        (lambda: iter([b"c"] * 3), b"ccc"),
    ],
)
def test_put_and_get(make: Callable[[], Any], kept: bytes, files: Any):
    files.put("/data/f", make())
    assert files.get("/data/f") == kept


def test_put_replaces(files: Any):
    files.put("/data/f", b"long text")
    files.put("/data/f", b"short")
    assert files.get("/data/f") == b"short"


def test_put_makes_folders(files: Any):
    files.put("/data/a/b/c", b"x")
    assert files.exists("/data/a/b") and files.get("/data/a/b/c") == b"x"


def test_open_file_of_the_host(files: Any, tmp_path: Path):
    (tmp_path / "big").write_bytes(os.urandom(1000) * 3000)
    with open(tmp_path / "big", "rb") as f:
        files.put("/data/big", f)
    assert files.get("/data/big") == (tmp_path / "big").read_bytes()


def test_read_in_pieces(files: Any):
    files.put("/data/f", bytes(range(256)) * 10_000)
    pieces = list(files.read("/data/f"))
    assert b"".join(pieces) == bytes(range(256)) * 10_000 and len(pieces) == 3
    assert [len(piece) for piece in files.read("/data/f", chunk=1_000_000)] == [1_000_000] * 2 + [
        560_000
    ]
    assert list(files.read("/data/f", 10**9)) == [bytes(range(256)) * 10_000]


def test_read_of_nothing(files: Any):
    files.put("/data/f", b"")
    assert b"".join(files.read("/data/f")) == b""


@pytest.mark.parametrize("chunk", [0, -1])
def test_chunk_is_checked(chunk: int, files: Any):
    files.put("/data/f", b"x")
    with pytest.raises(ValueError, match="chunk"):
        list(files.read("/data/f", chunk=chunk))


def test_list_and_stat(files: Any):
    files.put("/data/b", b"12345")
    files.put("/data/a/inner", b"")
    found = files.list("/data")
    assert [(f.name, f.kind) for f in found] == [("a", "folder"), ("b", "file")]
    assert found[1].size == 5 and found[1].mtime >= 0
    info = files.stat("/data/b")
    assert (info.name, info.kind, info.size) == ("b", "file", 5)
    assert files.stat("/data").kind == "folder"


def test_list_has_odd_names(files: Any):
    for name in ("sp ace", "ünïcode 🙂", "a\nb", "-", "...", "x" * 200):
        files.put(f"/data/{name}", b"x")
    assert {f.name for f in files.list("/data")} == {
        "sp ace",
        "ünïcode 🙂",
        "a\nb",
        "-",
        "...",
        "x" * 200,
    }


def test_many_files(files: Any):
    for i in range(2000):
        files.put(f"/data/{i}", b"x")
    assert len(files.list("/data")) == 2000


def test_exists_mkdir_remove(files: Any):
    files.mkdir("/data/a/b")
    files.mkdir("/data/a/b")
    assert files.exists("/data/a/b") and not files.exists("/data/z")
    files.put("/data/a/b/f", b"x")
    files.remove("/data/a/b/f")
    assert not files.exists("/data/a/b/f")
    files.remove("/data/a")
    assert not files.exists("/data/a")


def test_folders_of_the_host_both_ways(files: Any, tmp_path: Path):
    source = tmp_path / "source"
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "f").write_bytes(b"1")
    (source / "sub" / "g").write_bytes(os.urandom(3 << 20))
    files.put_folder(source, "/data/in")
    assert files.get("/data/in/f") == b"1"
    files.get_folder("/data/in", tmp_path / "out")
    for name in ("f", "sub/g"):
        assert (tmp_path / "out" / name).read_bytes() == (source / name).read_bytes()
    assert (tmp_path / "out" / "sub" / "empty").is_dir()


def test_links_of_the_host_are_not_followed_out(files: Any, tmp_path: Path):
    (tmp_path / "secret").write_text("secret")
    source = tmp_path / "source"
    source.mkdir()
    (source / "link").symlink_to(tmp_path / "secret")
    (source / "f").write_text("x")
    try:
        files.put_folder(source, "/data/in")
    except OSError:
        pass
    assert not files.exists("/data/in/link") or files.get("/data/in/link") != b"secret"


def test_get_folder_writes_nothing_outside(tmp_path: Path):
    target = tmp_path / "out"
    outside = tmp_path / "outside"
    outside.mkdir()
    with Session() as session:
        session.execute(
            "import os\nos.makedirs('/data/d')\n"
            f"os.symlink({str(outside)!r}, '/data/d/l')\nos.symlink('..', '/data/d/up')\n"
            "open('/data/d/f', 'w').write('x')"
        )
        try:
            session.files.get_folder("/data/d", target)
        except OSError:
            pass
        # What was a link becomes a folder for the second copy.
        session.execute(
            "import os\nos.remove('/data/d/l'); os.makedirs('/data/d/l'); open('/data/d/l/evil', 'w')"
        )
        try:
            session.files.get_folder("/data/d", target)
        except OSError:
            pass
    assert list(outside.iterdir()) == []
    assert {p.name for p in tmp_path.iterdir()} <= {"out", "outside"}


@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("get", ("/data/no",), FileNotFoundError),
        ("read", ("/data/no",), FileNotFoundError),
        ("stat", ("/data/no",), FileNotFoundError),
        ("list", ("/data/no",), FileNotFoundError),
        ("remove", ("/data/no",), FileNotFoundError),
        ("get", ("/data/folder",), IsADirectoryError),
        ("put", ("/data/folder", b""), IsADirectoryError),
        ("list", ("/data/file",), NotADirectoryError),
        ("put", ("/data/file/x", b""), NotADirectoryError),
        ("mkdir", ("/data/file",), OSError),
        ("get", ("data/file",), ValueError),
        ("get", ("",), ValueError),
        ("read", ("/data/file", "5"), TypeError),
        ("read", ("/data/file", 0), ValueError),
        ("put_folder", (None, "/data"), TypeError),
        ("put_folder", (5, "/data"), TypeError),
        ("get_folder", ("/data", None), TypeError),
        ("get", ("/data/\0",), ValueError),
        ("put", ("/data/" + "x" * 5000, b""), OSError),
        ("put", ("/data/f", 5), TypeError),
        ("put", ("/data/f", [5]), TypeError),
        ("put", ("/data/f", ["text"]), TypeError),
        ("put", (5, b""), TypeError),
        ("get", ("/data/\ud800",), ValueError),
    ],
)
def test_errors_are_those_of_python(
    method: str, arguments: tuple[Any, ...], error: Any, files: Any
):
    files.put("/data/file", b"x")
    files.mkdir("/data/folder")
    with pytest.raises(error):
        answer = getattr(files, method)(*arguments)
        if method == "read":
            list(answer)


def test_an_error_names_its_path_once(files: Any):
    with pytest.raises(FileNotFoundError) as caught:
        files.get("/data/no")
    assert str(caught.value) == "[Errno 2] no such file or folder: '/data/no'"
    assert caught.value.filename == "/data/no"


@pytest.mark.parametrize("data", [None, 5, object(), "\ud800"])
def test_what_is_no_contents_leaves_the_file_alone(data: Any, files: Any):
    files.put("/data/file", b"x")
    with pytest.raises((TypeError, ValueError)):
        files.put("/data/file", data)
    assert files.get("/data/file") == b"x"


def test_paths_do_not_lead_out(files: Any):
    for path in ("/data/../../etc/passwd", "/../etc/passwd", "/data/./../etc/passwd"):
        with pytest.raises(OSError):
            files.get(path)


def test_no_room_is_enospc():
    with Session(resource_limits=ResourceLimits(max_file_bytes=1 << 20)) as session:
        with pytest.raises(OSError) as full:
            session.files.put("/data/f", bytes(2 << 20))
        assert full.value.errno == 28
        session.files.put("/data/g", bytes(1000))
        assert session.files.get("/data/g") == bytes(1000)


def test_packaged_files_cannot_be_written():
    with Session() as session:
        folder = session.execute(
            "import json, os; print(os.path.dirname(json.__file__), end='')"
        ).stdout
        with pytest.raises(OSError):
            session.files.put(folder + "/evil.py", b"x")
        with pytest.raises(OSError):
            session.files.remove(folder)


def test_guest_and_host_see_the_same(session: brumate.Session):
    session.files.put("/data/in.csv", "a,b\n1,2\n")
    session.execute(
        "import csv\nrows = list(csv.reader(open('/data/in.csv')))\nopen('/data/out', 'w').write(repr(rows))"
    )
    assert session.files.get("/data/out") == b"[['a', 'b'], ['1', '2']]"
    session.reset()
    assert session.files.get("/data/out") == b"[['a', 'b'], ['1', '2']]"


def test_hostile_names_of_the_guest_reach_the_host_as_text(session: brumate.Session):
    session.execute("import os\nfor n in ('a\\nb', '%s%n', '..x'): open('/data/' + n, 'w').close()")
    names = {f.name for f in session.files.list("/data")}
    assert names == {"a\nb", "%s%n", "..x"}


def test_link_of_the_guest_is_a_link_in_the_list(session: brumate.Session):
    session.execute("import os\nos.symlink('/etc/passwd', '/data/l')")
    assert [(f.name, f.kind) for f in session.files.list()] == [("l", "link")]
    with pytest.raises(OSError):
        session.files.get("/data/l")


names = st.sampled_from(["a", "b", "c"])
paths = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/data/" + "/".join(parts))


class FilesAndModel(RuleBasedStateMachine):
    """Whatever is done to files, they are what a dictionary says: contents by path, None for a folder."""

    def __init__(self) -> None:
        super().__init__()
        self.session = Session()
        self.model: dict[str, bytes | None] = {"/data": None}

    def teardown(self) -> None:
        self.session.close()

    def above(self, path: str) -> list[str]:
        parts = path.split("/")[1:]
        return ["/" + "/".join(parts[:end]) for end in range(1, len(parts))]

    def blocked(self, path: str) -> bool:
        return any(self.model.get(p, None) is not None for p in self.above(path))

    @rule(path=paths, data=st.binary(max_size=50))
    def put(self, path: str, data: bytes) -> None:
        if self.blocked(path) or (path in self.model and self.model[path] is None):
            with pytest.raises(OSError):
                self.session.files.put(path, data)
        else:
            self.session.files.put(path, data)
            self.model |= dict.fromkeys(self.above(path)) | {path: data}

    @rule(path=paths)
    def mkdir(self, path: str) -> None:
        if self.blocked(path) or self.model.get(path) is not None:
            with pytest.raises(OSError):
                self.session.files.mkdir(path)
        else:
            self.session.files.mkdir(path)
            self.model |= dict.fromkeys([*self.above(path), path])

    @rule(path=paths)
    def remove(self, path: str) -> None:
        if path not in self.model:
            with pytest.raises(OSError):
                self.session.files.remove(path)
        else:
            self.session.files.remove(path)
            self.model = {
                p: d for p, d in self.model.items() if p != path and not p.startswith(path + "/")
            }

    @rule()
    def reset(self) -> None:
        self.session.reset()

    @invariant()
    def same(self) -> None:
        found: dict[str, bytes | None] = {}

        def look(folder: str) -> None:
            found[folder] = None
            for file in self.session.files.list(folder):
                path = f"{folder}/{file.name}"
                if file.kind == "folder":
                    look(path)
                else:
                    found[path] = self.session.files.get(path)
                    assert file.size == len(found[path] or b"")

        look("/data")
        assert found == self.model


test_files_are_as_a_model_says = FilesAndModel.TestCase
test_files_are_as_a_model_says.settings = settings(
    max_examples=40, stateful_step_count=15, deadline=None
)
