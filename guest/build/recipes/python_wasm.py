"""CPython for the guest: a static library with every extension module that makes sense built in."""
import os
import shutil

import settings
from steps import expand

PATCHES = "guest/build/patches/*.patch"
FILES = [PATCHES]
USES = ["python-source", "python-native", "guest-libs", "openssl", "wasi-sdk"]
TOOLS = [settings.CLANG]
ARCHIVES = ["libpython{v}.a", "Modules/_hacl/libHacl_Hash_SHA2.a", "Modules/expat/libexpat.a",
            "Modules/_decimal/libmpdec/libmpdec.a"]


def make(job):
    # patches are for the guest alone: the native interpreter is of the source as it is
    source = job.work / "tree"
    shutil.copytree(job.use("python-source") / "tree", source, symlinks=True)
    for patch in expand([PATCHES]):
        job.run(["patch", "-p1", "-s", "-i", patch], cwd=source, what="patch " + patch.name)
    libs = job.use("guest-libs")
    build = job.work / "build"
    build.mkdir()
    flags = "-I%s" % (libs / "include")
    find = {}
    for name, library in (("ZLIB", "z"), ("BZIP2", "bz2"), ("LIBLZMA", "lzma"), ("LIBSQLITE3", "sqlite3")):
        find[name + "_CFLAGS"] = flags
        find[name + "_LIBS"] = "-L%s -l%s" % (libs / "lib", library)
    env = dict(find, CONFIG_SITE=str(source / "Tools/wasm/config.site-wasm32-wasi"), CC="wasi-clang",
               CXX="wasi-clang++", CPP="wasi-clang -E", AR=settings.AR, RANLIB=settings.RANLIB,
               CFLAGS="-O3", HOSTRUNNER="true", PKG_CONFIG_LIBDIR=str(job.work),
               PATH="%s:%s" % (job.use("wasi-sdk") / "bin", os.environ["PATH"]))
    # pymalloc: off by default on WASI, and faster than wasi-libc's malloc for Python's small objects
    job.run([source / "configure", "--host=wasm32-wasi", "--build=%s-pc-linux-gnu" % os.uname().machine,
             "--with-build-python=%s" % (job.use("python-native") / "bin" / "python"),
             "--with-pymalloc", "--with-tzpath=/lib/zoneinfo", "--with-openssl=%s" % job.use("openssl"),
             "--disable-test-modules", "--without-ensurepip", "--prefix=/"],
            cwd=build, env=env, what="configure")
    version = settings.PYTHON
    archives = [a.format(v=version) for a in ARCHIVES]
    job.run(["make", "-j%d" % (os.cpu_count() or 1)] + archives, cwd=build, env=env, what="make")
    (job.out / "lib").mkdir()
    for archive in archives:
        shutil.copy(build / archive, job.out / "lib")
    shutil.copytree(source / "Include", job.out / "include")
    shutil.copy(build / "pyconfig.h", job.out / "include")
    job.run(["make", "pybuilddir.txt"], cwd=build, env=env)
    for data in build.glob("build/lib*/_sysconfigdata*.py"):
        shutil.copy(data, job.out)
    shutil.copy(build / "Modules" / "config.c", job.out)
    shutil.copy(build / "config.log", job.out)
