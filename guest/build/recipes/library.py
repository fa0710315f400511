"""What the guest sees at /lib, but for the agent: the standard library (sources and bytecode), time
zones, licences."""
import ast
import pprint
import shutil
import zipfile

import settings
from steps import expand

USES = ["python-source", "python-native", "python-wasm", "guest-libs", "openssl", "wasi-sdk", "wabt"]
PATCHES = "guest/build/patches/library/*.patch"
FILES = ["guest/build/licenses/*", PATCHES]
# tests, tools with windows, and what installs packages
LEFT_OUT = ["test", "tests", "idlelib", "tkinter", "turtledemo", "turtle.py", "ensurepip", "venv", "__pycache__",
            "*.exe", "*.pyc", "_aix_support.py", "_android_support.py", "_apple_support.py", "_ios_support.py",
            "_osx_support.py", "README.txt"]


def SETTINGS():
    return {"tzdata": settings.TZDATA}


def make(job):
    source = job.use("python-source") / "tree"
    library = job.out / ("python" + settings.PYTHON)
    shutil.copytree(source / "Lib", library, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for patch in expand([PATCHES]):
        job.run(["patch", "-p2", "-s", "-d", library, "-i", patch], what="patch " + patch.name)
    for data in job.use("python-wasm").glob("_sysconfigdata*.py"):
        (library / data.name).write_text(without_paths(data.read_text(), str(job.root)))
    zones(job)
    licenses(job, source)
    compile_tree(job, job.out)


def compile_tree(job, root):
    """Bytecode beside each source; unchecked, because the tree is read only and both come together."""
    job.run([job.use("python-native") / "bin" / "python", "-m", "compileall", "-q", "-j", "0",
             "--invalidation-mode", "unchecked-hash", "-s", root, "-p", "/lib", root], what="compiling the library")


def without_paths(text, root):
    """sysconfig's data without this machine's folders."""
    tree = ast.parse(text)
    values = ast.literal_eval(tree.body[-1].value)
    values = {k: "" if isinstance(v, str) and (root in v or "/usr/lib/llvm" in v) else v for k, v in values.items()}
    return "# system configuration generated and used by the sysconfig module\nbuild_time_vars = %s\n" % (
        pprint.pformat(values))


def zones(job):
    from recipes.wabt import fetch_wheel
    with zipfile.ZipFile(fetch_wheel(job, "tzdata", settings.TZDATA)) as wheel:
        for name in wheel.namelist():
            inside = name.split("tzdata/zoneinfo/", 1)
            if len(inside) == 2 and inside[1] and not name.endswith((".py", "/")):
                path = job.out / "zoneinfo" / inside[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(wheel.read(name))
            elif ".dist-info/" in name and "LICENSE" in name:
                (job.work / ("tzdata-" + name.rsplit("/", 1)[1] + ".txt")).write_bytes(wheel.read(name))


def licenses(job, source):
    folder = job.out / "licenses"
    folder.mkdir()
    shutil.copy(source / "LICENSE", folder / "cpython.txt")
    shutil.copy(source / "Modules" / "expat" / "COPYING", folder / "expat.txt")
    shutil.copy(job.use("wabt") / "LICENSE", folder / "wabt.txt")
    for name, path in (("mpdecimal", "Modules/_decimal/libmpdec/mpdecimal.h"),
                       ("hacl-star", "Modules/_hacl/Hacl_Hash_SHA2.c"), ("blake2", "Modules/_blake2/impl/blake2.h")):
        if (source / path).exists():
            text = (source / path).read_text()
            (folder / (name + ".txt")).write_text(text[:text.index("*/") + 3])
    shutil.copy(job.use("openssl") / "LICENSE", folder / "openssl.txt")
    found = list((job.use("wasi-sdk") / "sysroot").glob("share/doc/wasi-libc/copyright"))
    for path in found:
        shutil.copy(path, folder / "wasi-libc.txt")
    for path in list((job.use("guest-libs") / "licenses").iterdir()) + list(job.work.glob("tzdata-*.txt")) + \
            expand(["guest/build/licenses/*"]):
        shutil.copy(path, folder)
