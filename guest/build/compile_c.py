"""Compiles the guest's C and links core.so: one exported symbol, nothing undefined but libc and libm."""
import settings
from steps import REPO, BuildError

import subprocess

FLAGS = [
    "-std=gnu11", "-O2", "-fPIC", "-w", "-fvisibility=hidden", "-ffunction-sections", "-fno-math-errno",
    # no frame may step over the stack's guard page
    "-fstack-clash-protection",
    # loads and stores are caught by guard pages, the stack's end by its own
    "-DWASM_RT_USE_MMAP=1", "-DWASM_RT_MEMCHECK_GUARD_PAGES=1",
]
LINK = ["-shared", "-fuse-ld=lld", "-Wl,-z,defs", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack",
        "-Wl,--gc-sections", "-Wl,--build-id=sha1", "-Wl,-soname,core.so"]
# what the generated code may take from the C library
ALLOWED = set("memcpy memmove memset memcmp abort floor floorf ceil ceilf trunc truncf nearbyint nearbyintf "
              "sqrt sqrtf rint rintf".split())


def shared_object(job, flags):
    source, wabt = job.use("core-c"), job.use("wabt")
    include = ["-I", source, "-I", wabt / "wasm2c", "-I", wabt / "include", "-I", REPO / "src"]
    files = sorted(source.glob("*.c"), key=lambda p: -p.stat().st_size)     # the longest first
    objects = [job.work / (p.stem + ".o") for p in files]
    job.say("compiling %d files with %s" % (len(files), " ".join(["-O2"] + [f.split("=")[0] for f in flags])))
    job.run_all([[settings.CLANG] + FLAGS + flags + include + ["-c", p, "-o", o] for p, o in zip(files, objects)])
    job.run([settings.CLANG] + LINK + [f for f in flags if "generate" in f] +
            objects + ["-lm", "-o", job.out / "core.so"], what="linking core.so")
    if not any("generate" in f for f in flags):
        check(job.out / "core.so")


def check(path):
    """That the object exports its descriptor alone and takes no more than it should."""
    done = subprocess.run([settings.AR.replace("llvm-ar", "llvm-nm"), "-D", path], stdout=subprocess.PIPE, check=True)
    exported, taken = set(), set()
    for line in done.stdout.decode().splitlines():
        kind, name = line.split()[-2:]
        (taken if kind in "Uwv" else exported).add(name.split("@")[0])
    taken -= {"__cxa_finalize", "__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable"}
    if exported != {"brumate_guest"}:
        raise BuildError("core.so exports %s" % ", ".join(sorted(exported)))
    if taken - ALLOWED:
        raise BuildError("core.so takes %s from the C library, which guest/build/compile_c.py does not allow"
                         % ", ".join(sorted(taken - ALLOWED)))
