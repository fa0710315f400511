"""The guest as WebAssembly: a reactor linked from guest/c and CPython."""
import re

import settings
from steps import expand, tool_version

USES = ["python-wasm", "guest-libs", "openssl", "wasi-sdk"]
FILES = ["guest/c/*.c", "guest/c/*.h"]
TOOLS = [settings.CLANG]


def make(job):
    python, libs = job.use("python-wasm"), job.use("guest-libs")
    compiler = job.use("wasi-sdk") / "bin" / "wasi-clang"
    objects, commands = [], []
    for path in expand(["guest/c/*.c"]):
        objects.append(job.work / (path.stem + ".o"))
        commands.append([compiler, "-std=c11", "-O2", "-Wall", "-Wextra", "-c", "-D_WASI_EMULATED_SIGNAL",
                         "-D_WASI_EMULATED_GETPID", "-D_WASI_EMULATED_PROCESS_CLOCKS",
                         "-isystem", python / "include", "-I", path.parent, path, "-o", objects[-1]])
    job.run_all(commands)
    exports = ["bru_boot", "bru_alloc", "bru_step", "bru_control"]
    job.run([compiler, "-mexec-model=reactor", "-o", job.out / "core.wasm"] + objects +
            sorted((python / "lib").glob("libpython*.a")) + sorted((python / "lib").glob("lib[!p]*.a")) +
            ["-L", libs / "lib", "-L", job.use("openssl") / "lib", "-lcrypto", "-lsqlite3", "-llzma", "-lbz2", "-lz", "-lwasi-emulated-signal",
             "-lwasi-emulated-getpid", "-lwasi-emulated-process-clocks", "-ldl", "-lm",
             "-z", "stack-size=%d" % settings.STACK_BYTES, "-Wl,--stack-first", "-Wl,--strip-debug",
             "-Wl,--export=__stack_pointer"] + ["-Wl,--export=" + name for name in exports],
            what="linking core.wasm")
    version = re.search(r'#define PY_VERSION\s+"([^"]+)"', (python / "include" / "patchlevel.h").read_text()).group(1)
    clang = tool_version(settings.CLANG).split(" (")[0]
    (job.out / "versions.txt").write_text("CPython %s; %s" % (version, clang))
