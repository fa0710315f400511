"""wasi-libc, and compiler commands that know where it is."""
import os
import shutil

import settings

USES = ["sources"]
TOOLS = [settings.CLANG]


def SETTINGS():
    return {"given": os.environ.get("WASI_SYSROOT", ""), "clang": settings.CLANG}


def make(job):
    given = os.environ.get("WASI_SYSROOT")
    if given:
        shutil.copytree(given, job.out / "sysroot", symlinks=True)
    else:
        job.run(["dpkg-deb", "-x", job.use("sources") / "wasi-libc.deb", job.work / "deb"],
                what="unpacking wasi-libc")
        (job.work / "deb" / "usr").rename(job.out / "sysroot")
    binaries = job.out / "bin"
    binaries.mkdir()
    for name, tool in (("wasi-clang", settings.CLANG),
                       ("wasi-clang++", settings.CLANG.replace("clang", "clang++"))):
        path = binaries / name
        # --no-wasm-opt: clang runs an installed wasm-opt unasked, and an old one fails on its output
        path.write_text("#!/bin/sh\nfor a; do case $a in -c|-E|-S|-M) "
                        "exec %s --target=wasm32-wasip1 --sysroot=%s \"$@\";; esac; done\n"
                        "exec %s --target=wasm32-wasip1 --sysroot=%s --no-wasm-opt \"$@\"\n"
                        % ((tool, job.final / "sysroot") * 2))
        path.chmod(0o755)
