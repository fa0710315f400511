"""zlib, bzip2, liblzma and SQLite for the guest: archives and headers, no configure but SQLite's own
(which makes its amalgamation)."""
import os
import tarfile

import settings

USES = ["sources", "wasi-sdk"]
TOOLS = [settings.CLANG]

ZLIB = "adler32 crc32 deflate infback inffast inflate inftrees trees zutil compress uncompr".split()
BZIP2 = "blocksort huffman crctable randtable compress decompress bzlib".split()
# liblzma: every file of these folders but the tools that print tables, other machines' code and threads
XZ_FOLDERS = "check common delta lz lzma rangecoder simple".split()
XZ_SKIP = ("_tablegen.c", "_small.c", "_consts_gen.c", "_mt.c", "outqueue.c", "hardware_cputhreads.c")
XZ_FLAGS = ("-DNDEBUG -DHAVE_STDBOOL_H -DHAVE__BOOL -DHAVE_STDINT_H -DHAVE_INTTYPES_H -DHAVE_CHECK_CRC32 "
            "-DHAVE_CHECK_CRC64 -DHAVE_CHECK_SHA256 -DHAVE_MF_HC3 -DHAVE_MF_HC4 -DHAVE_MF_BT2 "
            "-DHAVE_MF_BT3 -DHAVE_MF_BT4 -DHAVE_LZIP_DECODER -DHAVE_VISIBILITY=0 -DTUKLIB_SYMBOL_PREFIX=lzma_ "
            "-DASSUME_RAM=128 -DSIZEOF_SIZE_T=4 -DTUKLIB_FAST_UNALIGNED_ACCESS -DHAVE_ENCODERS -DHAVE_DECODERS "
            + " ".join("-DHAVE_ENCODER_%s -DHAVE_DECODER_%s" % (f, f) for f in
                       "LZMA1 LZMA2 X86 POWERPC IA64 ARM ARMTHUMB ARM64 SPARC RISCV DELTA".split())).split()
# one thread, one process: "unix-excl" counts the locks of that process's connections itself, and gets
# those of the system from guest/c/sqlite_locks.c. WAL is left out by SQLite itself on WASI.
SQLITE_FLAGS = ["-DSQLITE_THREADSAFE=0", "-DSQLITE_DEFAULT_UNIX_VFS=\"unix-excl\"", "-Dfcntl=sqlite_fcntl",
                "-DSQLITE_OMIT_LOAD_EXTENSION",
                "-DSQLITE_MAX_MMAP_SIZE=0", "-DSQLITE_ENABLE_FTS5", "-DSQLITE_ENABLE_RTREE",
                "-DSQLITE_ENABLE_MATH_FUNCTIONS", "-DSQLITE_ENABLE_DBSTAT_VTAB", "-DSQLITE_ENABLE_SESSION",
                "-DSQLITE_ENABLE_PREUPDATE_HOOK", "-DSQLITE_ENABLE_COLUMN_METADATA", "-DSQLITE_DQS=0",
                "-DSQLITE_TEMP_STORE=2", "-D_WASI_EMULATED_GETPID"]


def unpack(job, name):
    """Unpacks a tarball of the sources; answers its tree."""
    folder = job.work / name
    with tarfile.open(next(job.use("sources").glob(name + ".*"))) as archive:
        archive.extractall(folder)
    inside = [p for p in folder.iterdir() if p.is_dir()]
    return inside[0] if len(inside) == 1 else folder


def make(job):
    (job.out / "lib").mkdir()
    (job.out / "include").mkdir()
    zlib, bzip2, xz, sqlite = (unpack(job, n) for n in ("zlib", "bzip2", "xz", "sqlite"))
    job.run(["./configure", "--disable-tcl", "--disable-readline", "--disable-shared"], cwd=sqlite,
            what="sqlite: configure and amalgamation")
    job.run(["make", "sqlite3.c"], cwd=sqlite)
    lzma = xz / "src" / "liblzma"
    lzma_files = [f for d in XZ_FOLDERS for f in sorted((lzma / d).glob("*.c")) if not f.name.endswith(XZ_SKIP)]
    lzma_flags = XZ_FLAGS + ["-I%s" % (xz / "src" / "common")] + [
        "-I%s" % (lzma / d) for d in ["api"] + XZ_FOLDERS]
    libraries = [
        ("sqlite3", [sqlite / "sqlite3.c"], SQLITE_FLAGS, [sqlite / "sqlite3.h"]),
        ("lzma", lzma_files, lzma_flags, []),
        ("z", [zlib / (f + ".c") for f in ZLIB], ["-DHAVE_UNISTD_H"], [zlib / "zlib.h", zlib / "zconf.h"]),
        ("bz2", [bzip2 / (f + ".c") for f in BZIP2], [], [bzip2 / "bzlib.h"]),
    ]
    compiler = job.use("wasi-sdk") / "bin" / "wasi-clang"
    job.say("compiling")
    commands = []
    for name, files, flags, _ in libraries:
        (job.work / name).mkdir(exist_ok=True)
        commands += [[compiler, "-O2" if name == "sqlite3" else "-O3", "-w", "-c"] + flags + [f, "-o", job.work / name / (f.parent.name + "-" + f.stem + ".o")]
                     for f in files]
    job.run_all(commands)
    for name, files, _, headers in libraries:
        job.run([settings.AR, "rcs", job.out / "lib" / ("lib%s.a" % name)] + sorted((job.work / name).glob("*.o")))
        for header in headers:
            (job.out / "include" / header.name).write_bytes(header.read_bytes())
    job.run(["cp", "-r", lzma / "api" / "lzma.h", lzma / "api" / "lzma", job.out / "include"])
    notices = job.out / "licenses"
    notices.mkdir()
    for name, text in (("zlib", zlib / "LICENSE"), ("bzip2", bzip2 / "LICENSE"), ("xz", xz / "COPYING"),
                       ("xz-0BSD", xz / "COPYING.0BSD"), ("sqlite", sqlite / "LICENSE.md")):
        if text.exists():
            (notices / (name + ".txt")).write_bytes(text.read_bytes())
