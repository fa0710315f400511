"""What is read of wheels, tarballs and folders, and what is refused."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archives
import pytest
from archives import Members, add, tarball, tree, wheel

from brumate.errors import PackageError
from brumate.packages import Budget, Package, check_together, read_packages

GUEST = (3, 13, 5)
ONE: Members = {"pkg/__init__.py": "x = 1\n"}


def read(*paths: Path, budget: Budget | None = None) -> tuple[Package, ...]:
    return read_packages(paths, GUEST, budget)


def names(package: Package) -> list[str]:
    return sorted(path for path in package.files if ".dist-info/" not in path)


# ---- What is taken of what is there ----


def test_a_wheel_becomes_what_an_installer_would_put_in_place(tmp_path: Path):
    files = {
        "pkg/__init__.py": "",
        "pkg/data.txt": "data",
        "one.py": "",
        "pkg-1.0.data/purelib/pure.py": "",
        "pkg-1.0.data/platlib/pkg/plat.py": "",
        "pkg-1.0.data/scripts/run": "#!python",
        "pkg-1.0.data/headers/pkg.h": "",
        "pkg-1.0.data/data/share/x": "",
        "pkg/__pycache__/old.cpython-312.pyc": "",
        "hook.pth": "import os; os.abort()",
    }
    (package,) = read(wheel(tmp_path, files, metadata="Requires-Dist: dep>=1\n"))
    assert names(package) == ["one.py", "pkg/__init__.py", "pkg/data.txt", "pkg/plat.py", "pure.py"]
    assert (package.name, package.version, package.requires) == ("pkg", "1.0", ("dep>=1",))
    assert package.modules == {"one", "pkg", "pure"}
    assert package.files["pkg/data.txt"] == b"data"
    with pytest.raises(TypeError):
        package.files["pkg/data.txt"] = b""  # type: ignore[index]


TREES: dict[str, tuple[str, Members, list[str]]] = {
    "packages at its top": (
        "p-1.tar.gz",
        {"a/__init__.py": "", "b.py": ""},
        ["a/__init__.py", "b.py"],
    ),
    "./ before each path": (
        "p-1.tgz",
        {"./a/__init__.py": "", "./b.py": ""},
        ["a/__init__.py", "b.py"],
    ),
    "a folder around them": (
        "p-1.tar.gz",
        {"p-1/a/__init__.py": "", "p-1/a/b.txt": ""},
        ["a/__init__.py", "a/b.txt"],
    ),
    "a namespace package": ("p-1.tar.gz", {"space/a/__init__.py": ""}, ["space/a/__init__.py"]),
    "a project with src": (
        "p-1.tar.gz",
        {
            "p-1/PKG-INFO": "Name: P\n",
            "p-1/src/a/__init__.py": "",
            "p-1/src/a/_fast.c": "",
            "p-1/tests/test_a.py": "",
            "p-1/setup.py": "",
        },
        ["a/__init__.py", "a/_fast.c"],
    ),
    "a project with lib": (
        "p-1.tar.gz",
        {
            "p-1/PKG-INFO": "Name: P\n",
            "p-1/lib/a/__init__.py": "",
            "p-1/lib/P.egg-info/top_level.txt": "_a\na\n",
            "p-1/lib/_a/__init__.py": "",
            "p-1/lib/other/__init__.py": "",
        },
        ["_a/__init__.py", "a/__init__.py"],
    ),
    "a flat project": (
        "p-1.tar.gz",
        {
            "p-1/pyproject.toml": "",
            "p-1/a/__init__.py": "",
            "p-1/a/sub/x.py": "",
            "p-1/tests/__init__.py": "",
            "p-1/docs/conf.py": "",
            "p-1/setup.py": "",
            "p-1/noxfile.py": "",
        },
        ["a/__init__.py", "a/sub/x.py"],
    ),
    "a module": (
        "p-1.tar.gz",
        {"p-1/PKG-INFO": "Name: P\n", "p-1/a.py": "", "p-1/setup.py": ""},
        ["a.py"],
    ),
    "native code that is not installed": (
        "p-1.tar.gz",
        {"p-1/PKG-INFO": "Name: P\n", "p-1/src/a/__init__.py": "", "p-1/bench/x.so": ""},
        ["a/__init__.py"],
    ),
}


@pytest.mark.parametrize("case", TREES)
def test_a_tree_is_taken_by_its_layout(tmp_path: Path, case: str):
    name, files, expected = TREES[case]
    (package,) = read(tarball(tmp_path, files, name=name))
    assert names(package) == expected
    folder = tree(tmp_path / "folder-1", files)
    (package,) = read(folder)
    assert names(package) == expected


def test_a_folder_that_is_a_package_keeps_its_name(tmp_path: Path):
    (package,) = read(
        tree(tmp_path / "mine", {"__init__.py": "", "sub/x.py": "", "__pycache__/x.pyc": ""})
    )
    assert names(package) == ["mine/__init__.py", "mine/sub/x.py"]
    assert package.modules == {"mine"}


def test_a_source_distribution_has_its_metadata(tmp_path: Path):
    (package,) = read(
        tarball(
            tmp_path,
            {"p-1.5/PKG-INFO": "Name: P.q\nVersion: 1.5\n", "p-1.5/p.py": ""},
            name="p-1.5.tar.gz",
        )
    )
    assert (package.name, package.version) == ("P.q", "1.5")
    assert package.files["P.q-1.5.dist-info/METADATA"].startswith(b"Name: P.q")


@pytest.mark.parametrize(
    "tags",
    [
        "py3-none-any",
        "py2.py3-none-any",
        "py313-none-any",
        "cp313-none-any",
        "py38-none-any",
        "py3-none.abi3-linux_x86_64.any",
    ],
)
def test_a_wheel_for_any_platform_is_taken(tmp_path: Path, tags: str):
    assert names(read(wheel(tmp_path, ONE, tags=tags))[0]) == ["pkg/__init__.py"]


def test_a_wheel_may_have_a_build_number(tmp_path: Path):
    path = wheel(tmp_path, ONE)
    assert read(path.rename(tmp_path / "pkg-1.0-1local-py3-none-any.whl"))[0].version == "1.0"


# ---- What is refused ----


@pytest.mark.parametrize(
    "tags",
    [
        "cp312-cp312-manylinux_2_17_x86_64",
        "py2-none-any",
        "cp313-cp313-any",
        "py3-none-win32",
        "py314-none-any",
    ],
)
def test_a_wheel_for_another_python_is_refused_with_both_tags(tmp_path: Path, tags: str):
    with pytest.raises(PackageError, match=f"found {tags}; accepted: py3-none-any"):
        read(wheel(tmp_path, ONE, tags=tags))


RECORDS: dict[str, tuple[dict[str, Any], str]] = {
    "a hash that differs": (
        {"record": lambda text: text.replace("sha256=", "sha256=A", 1)},
        "pkg/__init__.py .*sha256 differs",
    ),
    "a size that differs": (
        {"record": lambda text: text.replace(",6\n", ",7\n", 1)},
        "pkg/__init__.py has 6 bytes",
    ),
    "a file that is missing": (
        {"drop": ["pkg/__init__.py"]},
        "pkg/__init__.py is listed in RECORD but missing",
    ),
    "a file that is not listed": (
        {"change": lambda z: z.writestr("pkg/more.py", "")},
        "pkg/more.py is not listed",
    ),
    "a line too many": (
        {"record": lambda text: text.splitlines()[0] + "\n" + text},
        "listed in RECORD twice",
    ),
    "no hash": (
        {"record": lambda text: "pkg/__init__.py,,\n" + text.split("\n", 1)[1]},
        "no hash in RECORD",
    ),
    "a weak hash": (
        {"record": lambda text: text.replace("sha256=", "md5=", 1)},
        "no hash in RECORD",
    ),
    "no lines": ({"record": lambda text: ""}, "not listed"),
    "no text": ({"record": lambda text: "a,b\n" + text}, "a line that is not"),
    "a path that leads out": ({"record": lambda text: "../x,,\n" + text}, "leads out"),
    "none": ({"drop": ["pkg-1.0.dist-info/RECORD"]}, "RECORD is missing"),
}


@pytest.mark.parametrize("case", RECORDS)
def test_a_wheel_that_is_not_what_its_record_says_is_refused_by_file(tmp_path: Path, case: str):
    options, message = RECORDS[case]
    with pytest.raises(PackageError, match=message):
        read(wheel(tmp_path, ONE, **options))


def test_a_signature_of_record_needs_no_hash(tmp_path: Path):
    assert read(
        wheel(tmp_path, ONE, change=lambda z: z.writestr("pkg-1.0.dist-info/RECORD.jws", "{}"))
    )


PATHS = [
    "../x.py",
    "/etc/x.py",
    "a/../../b.py",
    "..",
    "C:/x.py",
    "c:x.py",
    "a\\b.py",
    "a\0b.py",
    "a//b.py",
    "a/./b.py",
    "d/" * 60 + "x.py",
    "x" * 300,
    "a\nb.py",
    "a\x1b[2J.py",
    "a\u2028b.py",
]


@pytest.mark.parametrize("path", PATHS, ids=ascii)
def test_a_path_that_leads_elsewhere_is_refused_in_a_wheel(tmp_path: Path, path: str):
    def change(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo("x" * len(path))
        info.filename = path
        archive.writestr(info, "")

    with pytest.raises(PackageError, match="path"):
        read(wheel(tmp_path, ONE, change=change))


@pytest.mark.parametrize("path", [path for path in PATHS if "\0" not in path], ids=ascii)
def test_a_path_that_leads_elsewhere_is_refused_in_a_tarball(tmp_path: Path, path: str):
    with pytest.raises(PackageError, match="path"):
        read(tarball(tmp_path, ONE, change=lambda tar: add(tar, path)))


KINDS = {
    "symlink": {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
    "hard link": {"type": tarfile.LNKTYPE, "linkname": "pkg/__init__.py"},
    "device": {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3},
    "pipe": {"type": tarfile.FIFOTYPE},
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_neither_file_nor_folder_is_refused_in_a_tarball(tmp_path: Path, kind: str):
    with pytest.raises(PackageError, match="pkg/odd is"):
        read(tarball(tmp_path, ONE, change=lambda tar: add(tar, "pkg/odd", **KINDS[kind])))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_what_is_neither_file_nor_folder_is_refused_in_a_wheel(tmp_path: Path, kind: int):
    def change(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo("pkg/odd")
        info.external_attr = (kind | 0o777) << 16
        archive.writestr(info, "/etc/passwd")

    with pytest.raises(PackageError, match="pkg/odd is"):
        read(wheel(tmp_path, ONE, change=change))


def test_what_is_neither_file_nor_folder_is_refused_in_a_folder(tmp_path: Path):
    folder = tree(tmp_path / "folder", ONE)
    odd = folder / "pkg" / "odd"
    for make in (
        lambda: odd.symlink_to("/etc/passwd"),
        lambda: odd.symlink_to("/etc"),
        lambda: os.mkfifo(odd),
    ):
        make()
        with pytest.raises(PackageError, match="pkg/odd"):
            read(folder)
        odd.unlink()


def test_a_member_that_is_there_twice_is_refused(tmp_path: Path):
    with pytest.raises(PackageError, match="pkg/__init__.py is in it twice"):
        read(tarball(tmp_path, ONE, change=lambda tar: add(tar, "./pkg/__init__.py", b"y = 2")))
    with (
        pytest.warns(UserWarning),
        pytest.raises(PackageError, match="pkg/__init__.py is in it twice"),
    ):
        read(wheel(tmp_path, ONE, change=lambda z: z.writestr("pkg/__init__.py", "y = 2")))
    with pytest.raises(PackageError, match="both a file and a folder"):
        read(tarball(tmp_path, {"a.py": "", "a.py/b.py": ""}))


@pytest.mark.parametrize(
    "name",
    [
        "_fast.so",
        "_fast.cpython-313-x86_64-linux-gnu.so",
        "_fast.pyd",
        "lib.dylib",
        "x.DLL",
        "lib.so.1.2",
    ],
)
def test_native_code_is_refused_by_its_name(tmp_path: Path, name: str):
    files = {**ONE, f"pkg/{name}": "\x7fELF"}
    for path in (
        wheel(tmp_path, files),
        tarball(tmp_path, files),
        tree(tmp_path / "folder", files),
    ):
        with pytest.raises(
            PackageError, match=f"pkg/{name} is native code.*use a pure Python wheel"
        ):
            read(path)


def zeros(tar: tarfile.TarFile) -> None:
    for i in range(40):
        add(tar, f"pkg/{i}", bytes(1 << 20))


BOMBS: dict[str, tuple[Callable[[Path], Path], Budget, str]] = {
    "ratio, tarball": (
        lambda path: tarball(path, ONE, change=zeros),
        Budget(),
        "100 times its size",
    ),
    "ratio, wheel": (
        lambda path: wheel(path, {**ONE, "pkg/x": bytes(40 << 20)}),
        Budget(),
        "100 times its size",
    ),
    "bytes, tarball": (
        lambda path: tarball(path, {**ONE, "pkg/x": os.urandom(3 << 20)}),
        Budget(max_bytes=2 << 20),
        "2 MiB",
    ),
    "bytes, wheel": (
        lambda path: wheel(path, {**ONE, "pkg/x": "ab" * (3 << 20)}),
        Budget(max_bytes=2 << 20),
        "2 MiB",
    ),
    "bytes, folder": (
        lambda path: tree(path, {**ONE, "pkg/x": bytes(3 << 20)}),
        Budget(max_bytes=2 << 20),
        "2 MiB",
    ),
    "file, tarball": (
        lambda path: tarball(path, {**ONE, "pkg/x": bytes(2 << 20)}),
        Budget(max_file_bytes=1 << 20),
        "pkg/x is larger than 1 MiB",
    ),
    "file, wheel": (
        lambda path: wheel(path, {**ONE, "pkg/x": bytes(2 << 20)}),
        Budget(max_file_bytes=1 << 20),
        "pkg/x is larger than 1 MiB",
    ),
    "file, folder": (
        lambda path: tree(path, {**ONE, "pkg/x": bytes(2 << 20)}),
        Budget(max_file_bytes=1 << 20),
        "pkg/x is larger than 1 MiB",
    ),
    "files, tarball": (
        lambda path: tarball(path, {f"{i}.py": "" for i in range(9)}),
        Budget(max_files=8),
        "more than 8 files",
    ),
    "files, wheel": (
        lambda path: wheel(path, {f"{i}.py": "" for i in range(9)}),
        Budget(max_files=8),
        "more than 8 files",
    ),
    "files, folder": (
        lambda path: tree(path, {f"{i}.py": "" for i in range(9)}),
        Budget(max_files=8),
        "more than 8 files",
    ),
}


@pytest.mark.parametrize("case", BOMBS)
def test_what_unpacks_to_too_much_is_refused_with_the_limit(tmp_path: Path, case: str):
    make, budget, message = BOMBS[case]
    path = make(tmp_path)
    with pytest.raises(PackageError, match=message):
        read(path, budget=budget)


def test_the_limit_is_for_all_packages_together(tmp_path: Path):
    paths = [tarball(tmp_path, {f"{c}.py": b"#" * (1 << 20)}, name=f"{c}.tgz") for c in "abc"]
    with pytest.raises(PackageError, match="c.tgz: more than 2 MiB"):
        read(*paths, budget=Budget(max_bytes=2_500_000))


def test_archives_in_archives_are_left_alone(tmp_path: Path):
    inner = wheel(tmp_path, {"inner.py": ""}, name="inner").read_bytes()
    (package,) = read(wheel(tmp_path, {**ONE, "pkg/inner.whl": inner}))
    assert package.files["pkg/inner.whl"] == inner


@pytest.mark.parametrize("name", ["pkg-1.0-py3-none-any.whl", "pkg.tar.gz"])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"PK\x05\x06" + bytes(18),
        b"PK\x03\x04" + bytes(100),
        b"\x1f\x8b\x08" + bytes(20),
        bytes(4096),
    ],
)
def test_what_is_no_archive_is_told(tmp_path: Path, name: str, data: bytes):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(PackageError, match=name):
        read(tmp_path / name)


@pytest.mark.parametrize("make", [wheel, tarball])
def test_an_archive_cut_short_or_damaged_is_told_or_does_not_matter(
    tmp_path: Path, make: Callable[..., Path]
):
    path = make(tmp_path, {**ONE, "pkg/random": os.urandom(5000)})
    sound, files = path.read_bytes(), read(path)[0].files
    for cut in range(1, len(sound), len(sound) // 20):
        path.write_bytes(sound[:cut])
        with pytest.raises(PackageError):
            read(path)
    for at in range(100, len(sound) - 100, len(sound) // 20):
        damaged = bytearray(sound)
        damaged[at] ^= 0x55
        path.write_bytes(damaged)
        try:
            (package,) = read(path)
        except PackageError:
            continue
        assert package.files == files  # a date, for instance


def test_a_wheel_with_another_name_inside_is_refused(tmp_path: Path):
    path = wheel(tmp_path, ONE)
    with pytest.raises(PackageError, match="its metadata names it pkg"):
        read(path.rename(tmp_path / "other-1.0-py3-none-any.whl"))
    with pytest.raises(PackageError, match="not a wheel's name"):
        read(wheel(tmp_path, ONE).rename(tmp_path / "pkg.whl"))


REQUIRES = [
    (">=3.8", True),
    (">=3.13.5", True),
    (">=3.13.6", False),
    (">3.13", True),
    (">=3.14", False),
    ("<3.13", False),
    ("<4,>=3.7,!=3.9.*", True),
    ("!=3.13.*", False),
    ("==3.13.*", True),
    ("~=3.8", True),
    ("~=3.12.0", False),
    ("~=2.7", False),
    (">=2.7, !=3.0.*, !=3.1.*", True),
    ("==3.13", False),
    ("<=3.13.5", True),
    ("nonsense", True),
    ("", True),
]


@pytest.mark.parametrize("wanted, fits", REQUIRES)
def test_the_python_that_a_package_requires_is_compared_with_the_sandboxes(
    tmp_path: Path, wanted: str, fits: bool
):
    path = wheel(tmp_path, ONE, metadata=f"Requires-Python: {wanted}\n")
    if fits:
        assert read(path)
    else:
        with pytest.raises(PackageError, match="the sandbox has 3.13.5"):
            read(path)


@pytest.mark.parametrize("name", ["missing.whl", "missing.tar.gz", "missing"])
def test_a_path_with_nothing_there_is_file_not_found(tmp_path: Path, name: str):
    with pytest.raises(FileNotFoundError, match=f"packages are paths.*{name}"):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["pkg.zip", "pkg.tar.bz2", "pkg.tar", "pkg.py", "pkg.egg", "pkg"])
def test_a_file_of_another_kind_is_a_value_error(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match=f"{name}: not a package"):
        read(tmp_path / name)


def test_a_tree_without_modules_is_refused(tmp_path: Path):
    with pytest.raises(PackageError, match="nothing in it that can be imported"):
        read(tarball(tmp_path, {"README": "", "data-1/x.txt": ""}))


# ---- Several together ----


def test_two_packages_with_the_same_path_are_both_named(tmp_path: Path):
    one, same, other = (
        wheel(tmp_path, {"shared.py": text}, name=name)
        for name, text in (("a", "1"), ("b", "1"), ("c", "2"))
    )
    assert "shared.py" in check_together(read(one, same), frozenset())
    with pytest.raises(
        PackageError, match="c-1.0-py3-none-any.whl and a-1.0-py3-none-any.whl both have shared.py"
    ):
        check_together(read(one, same, other), frozenset())
    blocks = tree(tmp_path / "folder-1", {"shared.py/x.py": "", "y.py": ""})
    with pytest.raises(PackageError, match="shared.py is a file in a-1.0"):
        check_together(read(one, blocks), frozenset())


def test_names_that_could_never_be_imported_are_refused(tmp_path: Path):
    for name, message in (
        ("json", "shadowed by the standard library"),
        ("brumate", "reserved"),
        ("_callbacks", "reserved"),
        ("_brumate_agent", "reserved"),
    ):
        for files in ({f"{name}.py": ""}, {f"{name}/__init__.py": ""}):
            with pytest.raises(PackageError, match=f"{name}.*{message}|{message}.*{name}"):
                check_together(read(wheel(tmp_path, files)), frozenset({"json"}))


def test_helpers_make_sound_archives(tmp_path: Path):
    assert names(read(archives.wheel(tmp_path, ONE))[0]) == names(
        read(archives.tarball(tmp_path, ONE))[0]
    )
