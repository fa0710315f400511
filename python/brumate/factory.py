"""SandboxFactory: packages and imports frozen into an image, from which sandboxes start."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence

from . import _native
from .errors import InitializationError, PackageError
from .limits import check_number
from .recipe import default_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .packages import Package
    from .sandbox import Sandbox
    from .session import Session

__all__ = ["SandboxFactory"]

MIB = 1 << 20
NOTE_VERSION = 1
# Put beside packages: some (sympy) ask ctypes for the size of a C type, and for nothing else.
FOR_GUEST = ("_ctypes.py",)


class SandboxFactory:
    """Sandboxes and sessions that have packages, and modules imported, from their start.

    packages        paths of pure Python packages: wheels (.whl), tarballs (.tar.gz, .tgz; source
                    distributions too) and folders (that hold packages or modules, or are a package).
                    ``pip download --no-deps NAME`` gets one
    imports         names of modules to import once, now: code still says ``import``, but it costs nothing
    timeout_ms      time that the imports may take, milliseconds
    max_memory_bytes  memory that the imports may use, Python's own included

    Making one runs the packages' code in a sandbox and takes about a second, and what their sources take
    to compile; making a sandbox of it costs no more than one without packages. Dependencies are not
    looked for: name all packages that are needed. A factory cannot be changed, and threads may share it.
    Its sandboxes and sessions live on without it.

    Raises FileNotFoundError (no such path), ValueError (a file that is no package, a name that is no
    module's), PackageError (a package that is broken, for another platform, or in conflict with another),
    InitializationError (an import that failed).

    Example::

        factory = brumate.SandboxFactory(["jinja2-3.1.6-py3-none-any.whl", "markupsafe-3.0.2.tar.gz"], ["jinja2"])
        factory.create_sandbox().execute("from jinja2 import Template; print(Template('{{ 1 + 1 }}').render())")
    """

    _image: _native.Image
    _file: int

    def __init__(
        self,
        packages: Sequence[str | os.PathLike[str]] = (),
        imports: Sequence[str] = (),
        *,
        timeout_ms: int = 60_000,
        max_memory_bytes: int = 512 * MIB,
    ) -> None:
        modules = _check_imports(imports)
        _check_list("packages", packages)
        timeout_ns = check_number("timeout_ms", timeout_ms, 1, 2**43) * 1_000_000
        memory = check_number("max_memory_bytes", max_memory_bytes, 1, 2**32)
        base = default_image()
        python = _python_of(base)
        found: tuple[Package, ...] = ()
        files: Mapping[str, bytes] = {}
        if packages:
            from .packages import read_packages

            found = read_packages(packages, python)
            files = _installed(found, python)

        def build(path: str) -> None:
            try:
                _native.build_image(path, base, files, modules, timeout_ns, memory, _note(found))
            except InitializationError as error:
                raise InitializationError(_explained(str(error), found)) from None
            except ValueError as error:
                raise PackageError(str(error)) from None

        self._open(base, build, trusted=True)

    def _open(self, base: _native.Image, write: Callable[[str], None], trusted: bool) -> None:
        """Opens the image that `write` puts at a path. The file has lost its name when this returns:
        nothing is left of it once nobody uses it any more, however this process ends."""
        folder = tempfile.mkdtemp(prefix="brumate-")
        try:
            path = os.path.join(folder, "factory.bru")
            write(path)
            self._adopt(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path, base, trusted)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _adopt(self, file: int, path: str, base: _native.Image, trusted: bool) -> None:
        self._file = file
        weakref.finalize(self, os.close, file)
        self._image = _native.open_image(path, base, trusted)

    # ---- Sandboxes and sessions ----

    def create_sandbox(self, **options: Any) -> Sandbox:
        """A `Sandbox` that has the packages; `options` as `Sandbox` takes them.

        Example::

            sandbox = factory.create_sandbox(resource_limits=brumate.ResourceLimits(execution_timeout_ms=1000))
        """
        from .sandbox import Sandbox

        return Sandbox(**options, image=self._image)

    def create_session(self, **options: Any) -> Session:
        """A `Session` that has the packages; `options` as `Session` takes them.

        Example::

            session = factory.create_session(execution_timeout_ms=1000)
        """
        from .session import Session

        return Session(**options, image=self._image)

    # ---- Keeping it ----

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the factory to a file, for `load`: whole, or not at all if it fails.

        Example::

            factory.save("jinja2.bru")
        """
        target: str = os.path.abspath(os.fspath(path))
        handle, temporary = tempfile.mkstemp(
            prefix=f".{os.path.basename(target)}.", dir=os.path.dirname(target)
        )
        try:
            with open(handle, "wb", buffering=0) as out:
                for at, part in self._data():
                    out.seek(at)
                    out.write(part)
                os.ftruncate(handle, self.size_bytes)
                os.fchmod(handle, 0o644)
                os.fsync(handle)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SandboxFactory:
        """The factory in a file that `save` wrote. The file is mapped, not copied: while the factory or a
        sandbox of it lives, replace it (as `save` does) rather than write into it.

        Raises FileNotFoundError, or InitializationError if it is damaged or from another version.

        Example::

            factory = brumate.SandboxFactory.load("jinja2.bru")
        """
        self = cls.__new__(cls)
        name = os.fspath(path)
        self._adopt(
            os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), name, default_image(), False
        )
        return self

    def to_bytes(self) -> bytes:
        """The factory as bytes, for `from_bytes`: what `save` writes to a file.

        Example::

            cache["jinja2"] = factory.to_bytes()
        """
        return b"".join(self._parts())

    @classmethod
    def from_bytes(cls, data: bytes) -> SandboxFactory:
        """The factory that `to_bytes` made bytes of.

        Raises InitializationError if they are damaged or from another version.

        Example::

            factory = brumate.SandboxFactory.from_bytes(cache["jinja2"])
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data must be bytes, not {type(data).__name__}")
        self = cls.__new__(cls)

        def write(path: str) -> None:
            with open(path, "xb") as out:
                out.write(data)

        try:
            self._open(default_image(), write, trusted=False)
        except InitializationError as error:
            raise InitializationError(re.sub(r"\S*/factory\.bru", "the data", str(error))) from None
        return self

    def _data(self) -> Iterable[tuple[int, bytes]]:
        """What is not a hole (a third of the file is), and where it lies."""
        end = 0
        while True:
            try:
                at = os.lseek(self._file, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:  # which says that nothing but a hole is left
                    raise
                return
            end = os.lseek(self._file, at, os.SEEK_HOLE)
            while at < end and (part := os.pread(self._file, min(end - at, 4 * MIB), at)):
                yield at, part
                at += len(part)

    def _parts(self) -> Iterable[bytes]:
        at = 0
        while part := os.pread(self._file, 4 * MIB, at):
            yield part
            at += len(part)

    # ---- What it is ----

    @property
    def size_bytes(self) -> int:
        """The length of what `save` writes, bytes: the whole Python, with the packages. On disk it is less: pages of
        zeros take no room.

        Example::

            print(factory.size_bytes // 1_000_000, "MB")
        """
        return int(self._image.info["file_bytes"])

    @property
    def packages(self) -> tuple[tuple[str, str | None], ...]:
        """Name and version of each package; the version is None where a package does not tell.

        Example::

            factory.packages  # (("Jinja2", "3.1.6"), ("MarkupSafe", "3.0.2"))
        """
        return tuple(_read_note(self._image.info["note"]))

    def __repr__(self) -> str:
        names = ", ".join(f"{name} {version or ''}".strip() for name, version in self.packages)
        return f"<SandboxFactory: {names or 'no packages'}; {self.size_bytes / 1e6:.1f} MB>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a SandboxFactory cannot be pickled: save() it, or hand over its to_bytes()"
        )


def _check_list(name: str, value: object) -> None:
    if isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} must be a list, not one {type(value).__name__}")


def _check_imports(imports: Sequence[str]) -> list[str]:
    _check_list("imports", imports)
    for name in imports:
        if not isinstance(name, str):
            raise TypeError(f"imports must be names of modules, not {type(name).__name__}")
        if not name.isascii() or not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"imports: {name!r} is not the name of a module")
    return list(imports)


def _python_of(image: _native.Image) -> tuple[int, ...]:
    match = re.search(r"CPython (\d+)\.(\d+)\.(\d+)", image.info["guest_build"])
    if not match:
        raise InitializationError("the image does not tell its version of Python: build it again")
    return tuple(map(int, match.groups()))


def _installed(packages: tuple[Package, ...], python: tuple[int, ...]) -> dict[str, bytes]:
    """All that is to be added to the guest's /lib."""
    from .bytecode import compile_sources
    from .packages import check_together

    files = check_together(packages, _standard_library())
    for name in FOR_GUEST:
        files.setdefault(name, _for_guest(name))
    files.update(compile_sources(files, python))
    site = f"python{python[0]}.{python[1]}/site-packages/"
    return {site + path: data for path, data in files.items()}


def _for_guest(name: str) -> bytes:
    with open(os.path.join(os.path.dirname(__file__), "for_guest", name), "rb") as file:
        return file.read()


def _standard_library() -> frozenset[str]:
    """The names that the guest's own library has: this Python's may be others."""
    from .sandbox import Sandbox

    result = Sandbox().execute("import sys\nresult = sorted(sys.stdlib_module_names)").result
    if not isinstance(result, list):
        raise InitializationError(
            "the image does not tell what its standard library has: build it again"
        )
    return frozenset(map(str, result))


def _note(packages: tuple[Package, ...]) -> str:
    import json

    return json.dumps(
        {
            "version": NOTE_VERSION,
            "packages": [[package.name or package.label, package.version] for package in packages],
        }
    )


def _read_note(note: str) -> Iterable[tuple[str, str | None]]:
    """What `_note` wrote; a file may say anything."""
    import json

    try:
        packages = json.loads(note)["packages"]
        return [
            (str(name), None if version is None else str(version)) for name, version in packages
        ]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []


def _explained(message: str, packages: tuple[Package, ...]) -> str:
    """The message of a failed import; if a module was missing, with what the packages ask for."""
    message = message.replace("the guest did not boot: importing modules: ", "an import failed: ")
    missing = re.search(r"No module named \\?'([\w.]+)\\?'", message)
    if not missing:
        return message
    if missing[1].partition(".")[0] in _standard_library():
        return f"{message}; the Python of a sandbox goes without this part of the standard library"
    from .metadata import canonical

    have = {canonical(package.name or "") for package in packages}
    wanted: list[str] = []
    for package in packages:
        for requirement in package.requires:
            name = re.match(r"[\w.-]+", requirement)
            if name and ";" not in requirement and canonical(name[0]) not in have:
                wanted.append(f"{package.name} requires {requirement}")
    hint = f"; {', '.join(wanted[:5])}" if wanted else ""
    return f"{message}; dependencies are not looked for: add the package that has {missing[1]} to packages{hint}"
