"""The source tarballs, one fetch for all of them, and the guest's libc as a Debian package."""
import os
import re
import shutil
from pathlib import Path

import debian
import settings
from steps import BuildError, file_hash

PY = re.escape(settings.PYTHON)
# what it is kept as, Debian's source package, what its tarball may be called
TARBALLS = [
    ("python", "python" + settings.PYTHON, r"(?i)python[-_]?%s[-_.].*\.tar\.(xz|gz|bz2)$|Python-%s.*\.t" % (PY, PY)),
    ("zlib", "zlib", r"zlib[-_].*\.tar\.(gz|xz)$"),
    ("bzip2", "bzip2", r"bzip2[-_].*\.tar\.(gz|bz2|xz)$"),
    ("xz", "xz-utils", r"xz(-utils)?[-_].*\.tar\.(xz|gz)$"),
    ("sqlite", "sqlite3", r"sqlite(3|-src)[-_].*\.tar\.(xz|gz)$"),
    ("openssl", "openssl", r"openssl[-_].*\.tar\.(gz|xz)$"),
]
WASI_LIBC = r"wasi-libc_.*\.deb$"


def SETTINGS():
    return {"python": settings.PYTHON, "release": settings.SOURCES_FROM,
            "folder": os.environ.get("BRUMATE_SOURCES", "")}


def _pick(folder, pattern):
    """The tarball itself, not Debian's additions to it nor its signature."""
    found = [p for p in Path(folder).iterdir() if re.match(pattern, p.name)
             and ".debian.tar" not in p.name and "-www." not in p.name]
    return max(found, default=None, key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)])


def make(job):
    given = os.environ.get("BRUMATE_SOURCES")
    folder = given or job.work
    need_libc = not os.environ.get("WASI_SYSROOT")
    if not given:
        debian.fetch(job, [source for _, source, _ in TARBALLS], ["wasi-libc"] if need_libc else [])
    wanted = [(name, pattern) for name, _, pattern in TARBALLS]
    if need_libc:
        wanted.append(("wasi-libc", WASI_LIBC))
    missing, text = [], []
    for name, pattern in wanted:
        found = _pick(folder, pattern)
        if not found:
            missing.append(name)
            continue
        suffix = "".join(re.search(r"(\.tar)?\.\w+$", found.name).group(0))
        shutil.copyfile(found, job.out / (name + suffix))
        text.append("%s %s %s" % (name, found.name, file_hash(found)))
    if missing:
        raise BuildError("%s: %s has no tarball of %s" % (job.name, folder, ", ".join(missing)))
    (job.out / "list.txt").write_text("\n".join(text) + "\n")
