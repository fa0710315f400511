"""The guest as a shared object that counts what it runs: what `make pgo` trains with."""
import settings

USES = ["core-c", "wabt"]
FILES = ["src/engine/guest_abi.h", "guest/build/compile_c.py"]
TOOLS = [settings.CLANG]


def make(job):
    import compile_c
    compile_c.shared_object(job, ["-fprofile-generate"])
