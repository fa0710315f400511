"""The guest as a native shared object."""
import lzma

import settings
from steps import expand

USES = ["core-c", "wabt"]
PROFILE = "guest/build/profile/core.proftext.xz"
FILES = ["src/engine/guest_abi.h", "guest/build/compile_c.py", PROFILE]
TOOLS = [settings.CLANG]


def make(job):
    import compile_c
    flags = []
    for stored in expand([PROFILE]):
        text = job.work / "core.proftext"
        text.write_bytes(lzma.decompress(stored.read_bytes()))
        job.run([settings.PROFDATA, "merge", text, "-o", job.work / "core.profdata"])
        flags = ["-fprofile-use=%s" % (job.work / "core.profdata")]
    compile_c.shared_object(job, flags)
