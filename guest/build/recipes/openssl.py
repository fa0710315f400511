"""OpenSSL's libcrypto for the guest: digests, HMAC, PBKDF2 and scrypt for hashlib. Everything else that can
be left out is; TLS comes with the network."""
import os
import tarfile

import settings

USES = ["sources", "wasi-sdk"]
TOOLS = [settings.CLANG]

# what the guest has not: threads, processes, sockets, terminals, files of OpenSSL's own
PLATFORM = ("asm threads shared dso module engine sock dgram async afalgeng ui-console secure-memory posix-io "
            "stdio autoload-config").split()
# what nothing in the guest asks for. `deprecated` stays: _hashlib takes ERR_func_error_string().
UNUSED = ("apps tests docs legacy tls dtls quic ssl-trace srp srtp ec ecx dh dsa ml-dsa ml-kem slh-dsa sm2 aria bf "
          "camellia cast chacha poly1305 des idea rc2 rc4 rc5 seed sm4 ocb siv multiblock cmac siphash argon2 gost "
          "md4 mdc2 whirlpool cmp cms comp ct http ocsp rfc3779 ts filenames").split()
NOT_UNPACKED = ("test/", "fuzz/corpora/", "demos/")


def make(job):
    tree = unpack(job)
    build = job.work / "build"
    build.mkdir()
    env = {"PATH": "%s:%s" % (job.use("wasi-sdk") / "bin", os.environ["PATH"])}
    job.run([tree / "Configure", "linux-generic32", "--openssldir=/lib/ssl", "no-pic"] +
            ["no-" + name for name in PLATFORM + UNUSED] +
            ["CC=wasi-clang", "AR=" + settings.AR, "RANLIB=" + settings.RANLIB, "CFLAGS=-O2 -w",
             "CPPFLAGS=-D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_GETPID -D_WASI_EMULATED_PROCESS_CLOCKS"],
            cwd=build, env=env, what="Configure")
    jobs = "-j%d" % (os.cpu_count() or 1)
    job.run(["make", "-s", jobs, "build_generated"], cwd=build, env=env, what="make")
    job.run(["make", "-s", jobs, "libcrypto.a"], cwd=build, env=env)
    (job.out / "lib").mkdir()
    (build / "libcrypto.a").rename(job.out / "lib" / "libcrypto.a")
    headers = job.out / "include" / "openssl"
    headers.mkdir(parents=True)
    for folder in (tree, build):
        for header in (folder / "include" / "openssl").glob("*.h"):
            (headers / header.name).write_bytes(header.read_bytes())
    # _hashlib refuses an OpenSSL without locks. Where there is one thread, nothing needs them.
    with open(headers / "configuration.h", "a") as f:
        f.write("#define OPENSSL_THREADS\n")
    (job.out / "LICENSE").write_bytes((tree / "LICENSE.txt").read_bytes())


def unpack(job):
    job.say("unpacking")

    def wanted(member):
        return not member.name.split("/", 1)[-1].startswith(NOT_UNPACKED)
    with tarfile.open(next(job.use("sources").glob("openssl.*"))) as archive:
        archive.extractall(job.work, members=filter(wanted, archive))
    return next(p for p in job.work.iterdir() if p.name.startswith("openssl"))
