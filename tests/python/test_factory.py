"""SandboxFactory: packages and imports that sandboxes and sessions start with."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from archives import Members, tarball, tree, wheel

import brumate

PKG: Members = {
    "pkg/__init__.py": "import random\nfrom pkg.deep import word\nshared = random.Random(7)\nstate = []\n"
    "class Own(random.Random):\n    def seed(self, *args): super().seed(1)\nown = Own()\nsystem = random.SystemRandom()\n",
    "pkg/deep.py": "word = 'deep'\n",
    "pkg/later.py": "word = 'later'\n",
    "pkg/tests/test_x.py": "",
    "pkg/template.py": "print 'python 2'\n",
    "pkg/data.txt": "data",
    f"pkg/{'long' * 60}.py": "",
}


@pytest.fixture(scope="module")
def factory(tmp_path_factory: pytest.TempPathFactory) -> brumate.SandboxFactory:
    return brumate.SandboxFactory([wheel(tmp_path_factory.mktemp("wheels"), PKG)], ["pkg"])


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, which must be empty again at the end."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def out(box: Any, code: str) -> str:
    return box.execute(code).stdout


def test_imports_are_there_from_the_start(factory: brumate.SandboxFactory):
    assert (
        out(
            factory.create_sandbox(),
            "import sys; print('pkg' in sys.modules, 'pkg.later' in sys.modules)",
        )
        == "True False\n"
    )
    assert (
        out(brumate.Sandbox(), "import importlib.util as u; print(u.find_spec('pkg'))") == "None\n"
    )


def test_packages_are_whole(factory: brumate.SandboxFactory):
    code = """
import importlib.metadata, importlib.resources, pkg, pkg.later
print(pkg.word, pkg.later.word, importlib.resources.files('pkg').joinpath('data.txt').read_text())
print(importlib.metadata.version('pkg'), pkg.__file__)
try:
    import pkg.template
except SyntaxError as e:
    print(e.filename)
"""
    assert out(factory.create_sandbox(), code).splitlines() == [
        "deep later data",
        "1.0 /lib/python3.13/site-packages/pkg/__init__.py",
        "/lib/python3.13/site-packages/pkg/template.py",
    ]


def test_sources_are_compiled_once(factory: brumate.SandboxFactory):
    code = """
import glob, importlib.util
for path in sorted(glob.glob('/lib/python3.13/site-packages/pkg/**/*.pyc', recursive=True)):
    with open(path, 'rb') as f: head = f.read(8)
    print(path.rpartition('/')[2], head == importlib.util.MAGIC_NUMBER + b'\\1\\0\\0\\0')
"""
    tag = "cpython-313.pyc True"
    assert out(factory.create_sandbox(), code).splitlines() == [
        f"__init__.{tag}",
        f"deep.{tag}",
        f"later.{tag}",
    ]


def test_sandboxes_of_one_factory_do_not_see_each_other(factory: brumate.SandboxFactory):
    one, two = factory.create_session(), factory.create_session()
    one.execute(
        "import pkg; pkg.state.append('secret'); pkg.word = 'mine'; open('/tmp/x', 'w').close()"
    )
    for other in (two, factory.create_session(), factory.create_sandbox()):
        assert (
            out(other, "import os, pkg; print(pkg.state, pkg.word, os.path.exists('/tmp/x'))")
            == "[] deep False\n"
        )
    assert out(one, "print(pkg.state)") == "['secret']\n"


def test_random_numbers_differ_in_each_sandbox(factory: brumate.SandboxFactory):
    code = "import pkg, random; print(pkg.shared.random(), pkg.own.random(), pkg.system.random(), random.random())"
    assert (
        len({word for _ in range(4) for word in out(factory.create_sandbox(), code).split()}) == 16
    )


def test_nothing_of_the_build_is_left_in_a_sandbox(factory: brumate.SandboxFactory):
    code = "import sys, os, linecache, threading; print(sys.argv, linecache.cache, threading.active_count(), os.listdir('/tmp'), os.listdir('/data'), os.getcwd())"
    assert out(factory.create_sandbox(), code) == out(brumate.Sandbox(), code)


def test_packages_may_ask_ctypes_for_sizes_and_for_nothing_else(factory: brumate.SandboxFactory):
    code = """
import ctypes
print(ctypes.sizeof(ctypes.c_long), ctypes.sizeof(ctypes.c_void_p), ctypes.c_int8(200).value)
for use in (lambda: ctypes.CDLL("libc.so.6"), lambda: ctypes.string_at(0), lambda: ctypes.c_int * 4):
    try: use()
    except OSError as e: print(e.errno)
"""
    assert out(factory.create_sandbox(), code) == "4 4 -56\n" + "52\n" * 3


def test_a_save_that_cannot_read_leaves_nothing(
    tmp_path: Path, factory: brumate.SandboxFactory, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "lseek", fail)
    with pytest.raises(OSError, match="no"):
        factory.save(tmp_path / "f.bru")
    assert list(tmp_path.iterdir()) == []


def test_packages_cannot_be_written_to(factory: brumate.SandboxFactory):
    code = "import pkg\ntry: open(pkg.__file__, 'w')\nexcept OSError as e: print(type(e).__name__)"
    assert out(factory.create_sandbox(), code) == "OSError\n"


def test_sandboxes_live_on_without_their_factory(tmp_path: Path):
    factory = brumate.SandboxFactory([wheel(tmp_path, PKG)])
    sandbox, session = factory.create_sandbox(), factory.create_session()
    del factory
    gc.collect()
    assert out(sandbox, "import pkg.later; print(pkg.later.word)") == "later\n"
    session.execute("import pkg.later")
    session.reset()
    assert out(session, "import pkg.later; print(pkg.later.word)") == "later\n"


def test_options_reach_sandboxes_and_sessions(factory: brumate.SandboxFactory):
    limits = brumate.ResourceLimits(execution_timeout_ms=100)
    with pytest.raises(brumate.TimeoutError):
        factory.create_sandbox(resource_limits=limits).execute("while True: pass")
    assert (
        factory.create_sandbox(result_variable="pkg_word")
        .execute("import pkg; pkg_word = pkg.word")
        .result
        == "deep"
    )
    assert factory.create_session(execution_timeout_ms=5000).execution_timeout_ms == 5000
    with pytest.raises(TypeError):
        factory.create_sandbox(image=None)


def test_factories_are_told_apart(tmp_path: Path, factory: brumate.SandboxFactory):
    other = brumate.SandboxFactory([wheel(tmp_path, {"pkg.py": "word = 'other'"}, version="2.0")])
    boxes = [(factory, "deep"), (other, "other"), (factory, "deep")]
    threads = [
        threading.Thread(
            target=lambda f=f, w=w: words.append(
                out(f.create_sandbox(), "import pkg; print(pkg.word)") == w + "\n"
            )
        )
        for f, w in boxes
    ]
    words: list[bool] = []
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert words == [True] * 3
    assert (factory.packages, other.packages) == ((("pkg", "1.0"),), (("pkg", "2.0"),))


def test_two_factories_are_made_at_once(tmp_path: Path):
    made: dict[int, str] = {}

    def make(i: int) -> None:
        made[i] = out(
            brumate.SandboxFactory(
                [tree(tmp_path / f"f-{i}", {"m.py": f"i = {i}"})], ["m"]
            ).create_sandbox(),
            "import m; print(m.i)",
        )

    threads = [threading.Thread(target=make, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == {i: f"{i}\n" for i in range(3)}


@pytest.mark.parametrize(
    "make", [wheel, tarball, lambda folder, files: tree(folder / "own", files)]
)
def test_each_kind_of_package_can_be_used(tmp_path: Path, make: Callable[..., Path]):
    path = make(tmp_path, {"own/__init__.py": "word = 'mine'"})
    for given in (path, str(path)):
        assert (
            out(
                brumate.SandboxFactory(packages=[given], imports=["own"]).create_sandbox(),
                "import own; print(own.word)",
            )
            == "mine\n"
        )


def test_a_factory_needs_no_packages():
    factory = brumate.SandboxFactory(imports=["csv", "xml.dom"])
    assert (
        out(
            factory.create_sandbox(),
            "import sys; print('csv' in sys.modules, 'xml.dom' in sys.modules)",
        )
        == "True True\n"
    )
    assert factory.packages == ()


# ---- Saving ----


def test_a_factory_survives_as_file_and_as_bytes(factory: brumate.SandboxFactory, tmp_path: Path):
    path = tmp_path / "factory.bin"
    factory.save(path)
    factory.save(str(path))
    assert [p.name for p in tmp_path.iterdir()] == ["factory.bin"]
    assert path.stat().st_size == factory.size_bytes == len(factory.to_bytes())
    code = "import sys, pkg; print('pkg' in sys.modules, pkg.word)"
    for again in (
        brumate.SandboxFactory.load(path),
        brumate.SandboxFactory.load(str(path)),
        brumate.SandboxFactory.from_bytes(factory.to_bytes()),
    ):
        assert out(again.create_sandbox(), code) == "True deep\n"
        assert (again.packages, again.size_bytes) == (factory.packages, factory.size_bytes)
        assert again.to_bytes() == factory.to_bytes()
        assert repr(again) == repr(factory)


def test_a_file_that_is_replaced_or_removed_is_not_missed(
    factory: brumate.SandboxFactory, tmp_path: Path
):
    path = tmp_path / "factory.bin"
    factory.save(path)
    loaded = brumate.SandboxFactory.load(path)
    brumate.SandboxFactory().save(path)
    assert out(loaded.create_sandbox(), "import pkg.later; print(pkg.later.word)") == "later\n"
    path.unlink()
    assert out(loaded.create_sandbox(), "import pkg.later; print(pkg.later.word)") == "later\n"
    loaded.save(path)
    assert brumate.SandboxFactory.load(path).packages == factory.packages


def test_another_process_can_load_it(
    factory: brumate.SandboxFactory, tmp_path: Path, python: Callable[..., Any]
):
    factory.save(tmp_path / "f.bru")
    source = "import brumate, sys\nprint(brumate.SandboxFactory.load(sys.argv[1]).create_sandbox().execute('import pkg; print(pkg.word)').stdout)"
    assert python(source, str(tmp_path / "f.bru")).stdout == "deep\n\n"


def test_a_save_that_fails_leaves_what_was_there(
    factory: brumate.SandboxFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "factory.bin"
    path.write_bytes(b"before")

    def fail(fd: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        factory.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["factory.bin"]
    assert path.read_bytes() == b"before"
    with pytest.raises(FileNotFoundError):
        factory.save(tmp_path / "none" / "factory.bin")


def damaged(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), len(data) // 12):
        yield data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_what_is_no_factory_is_an_initialization_error(
    factory: brumate.SandboxFactory, tmp_path: Path
):
    data = factory.to_bytes()
    path = tmp_path / "damaged.bin"
    for bad in (
        b"",
        b"x",
        b"PK\3\4" * 5000,
        data[:-1],
        data[:4096],
        data[: len(data) // 2],
        *damaged(data),
    ):
        path.write_bytes(bad)
        with pytest.raises(brumate.InitializationError, match="damaged.bin"):
            brumate.SandboxFactory.load(path)
        with pytest.raises(brumate.InitializationError) as caught:
            brumate.SandboxFactory.from_bytes(bad)
        assert "\n" not in str(caught.value) and "factory.bru" not in str(caught.value)
    with pytest.raises(FileNotFoundError):
        brumate.SandboxFactory.load(tmp_path / "none.bin")
    with pytest.raises(brumate.InitializationError):
        brumate.SandboxFactory.load(tmp_path)
    with pytest.raises(TypeError):
        brumate.SandboxFactory.from_bytes("text")  # type: ignore[arg-type]


def test_a_factory_is_not_pickled(factory: brumate.SandboxFactory):
    with pytest.raises(TypeError, match="save"):
        pickle.dumps(factory)


# ---- Nothing left behind ----


def test_no_file_is_left_while_or_after_a_factory_lives(temporary: Path, tmp_path: Path):
    factory = brumate.SandboxFactory([wheel(tmp_path, PKG)], ["pkg"])
    assert list(temporary.iterdir()) == []
    again = brumate.SandboxFactory.from_bytes(factory.to_bytes())
    assert list(temporary.iterdir()) == []
    assert out(again.create_sandbox(), "print(1)") == "1\n"


def test_no_file_is_left_of_one_that_fails(temporary: Path, tmp_path: Path):
    path = wheel(tmp_path, {"bad.py": "1 / 0"})
    with pytest.raises(brumate.InitializationError, match="ZeroDivisionError"):
        brumate.SandboxFactory([path], ["bad"])
    with pytest.raises(brumate.PackageError):
        brumate.SandboxFactory([wheel(tmp_path, {"json.py": ""})])
    with pytest.raises(brumate.InitializationError):
        brumate.SandboxFactory.from_bytes(b"nothing")


def test_descriptors_go_with_the_factory(factory: brumate.SandboxFactory, tmp_path: Path):
    factory.save(tmp_path / "f.bru")
    brumate.SandboxFactory.load(tmp_path / "f.bru")
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        brumate.SandboxFactory.load(tmp_path / "f.bru").create_sandbox().execute("pass")
        with pytest.raises(brumate.InitializationError):
            brumate.SandboxFactory.from_bytes(b"nothing")
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_forked_child_can_use_it_and_the_parent_still(
    factory: brumate.SandboxFactory, tmp_path: Path, python: Callable[..., Any]
):
    factory.save(tmp_path / "f.bru")
    source = """
import brumate, os, sys
factory = brumate.SandboxFactory.load(sys.argv[1])
child = os.fork()
text = factory.create_sandbox().execute("import pkg; print(pkg.word)").stdout
if not child:
    os._exit(0 if text == "deep\\n" else 1)
print(os.waitpid(child, 0)[1], text, len(factory.to_bytes()) == factory.size_bytes)
"""
    assert python(source, str(tmp_path / "f.bru")).stdout == "0 deep\n True\n"


# ---- Mistakes ----

IMPORTS = {
    "raise ValueError('oops')": "ValueError",
    "import none_such": "none_such.*add the package",
    "import mmap": "the Python of a sandbox goes without",
    "import sys; sys.exit(3)": "SystemExit",
    "import os; os._exit(3)": "ended the process with code 3",
    "def f(": "SyntaxError",
    "x = bytearray(1 << 29)": "memory limit",
    "while True: pass": "did not end in time",
    "import time; time.sleep(100)": "did not end in time",
    "await brumate.nothing()": "SyntaxError",
}


@pytest.mark.parametrize("source", IMPORTS)
def test_an_import_that_fails_is_told_in_one_line(tmp_path: Path, source: str):
    with pytest.raises(brumate.InitializationError, match=IMPORTS[source]) as caught:
        brumate.SandboxFactory(
            [wheel(tmp_path, {"bad.py": source})],
            ["bad"],
            timeout_ms=2000,
            max_memory_bytes=100 << 20,
        )
    assert "\n" not in str(caught.value)


def test_a_missing_dependency_is_told_with_who_asks_for_it(tmp_path: Path):
    path = wheel(
        tmp_path,
        {"pkg.py": "import other"},
        metadata="Requires-Dist: Other.Thing>=2\nRequires-Dist: rest; extra == 'all'\n",
    )
    with pytest.raises(
        brumate.InitializationError,
        match=r"add the package that has other to packages; pkg requires Other.Thing>=2$",
    ):
        brumate.SandboxFactory([path], ["pkg"])


@pytest.mark.parametrize("name", ["json", "os", "asyncio", "brumate", "_callbacks", "antigravity"])
def test_a_module_that_would_be_shadowed_is_refused(tmp_path: Path, name: str):
    with pytest.raises(brumate.PackageError, match=name):
        brumate.SandboxFactory([wheel(tmp_path, {f"{name}.py": ""})])


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"packages": ["/none/such.whl"]}, FileNotFoundError),
        ({"packages": ["/dev/null"]}, ValueError),
        ({"packages": "x.whl"}, TypeError),
        ({"packages": [3]}, TypeError),
        ({"packages": [b"x.whl"]}, TypeError),
        ({"imports": "json"}, TypeError),
        ({"imports": [3]}, TypeError),
        ({"imports": ["a b"]}, ValueError),
        ({"imports": ["a\nb"]}, ValueError),
        ({"imports": [""]}, ValueError),
        ({"imports": ["a..b"]}, ValueError),
        ({"imports": ["pkg\0"]}, ValueError),
        ({"timeout_ms": 0}, ValueError),
        ({"timeout_ms": "1"}, TypeError),
        ({"max_memory_bytes": -1}, ValueError),
        ({"max_memory_bytes": 1 << 20}, brumate.InitializationError),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], error: type[Exception]):
    with pytest.raises(error):
        brumate.SandboxFactory(**arguments)
