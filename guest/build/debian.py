"""What comes from Debian: the machine's own packages, and sources of a newer release.

Sources and wasi-libc come through a private apt configuration, which never touches the machine's
apt state; the mirror's address is read from the machine's own sources.
"""
import importlib.util
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import settings
from steps import BuildError

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
V = settings.LLVM


def _header(name):
    return lambda: any(Path(d, name).exists() for d in ("/usr/include", "/usr/local/include",
                       "/usr/include/" + (sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu")))


def _runtime(pattern):
    """clang's runtime libraries lie in its resource folder."""
    def there():
        clang = shutil.which(settings.CLANG)
        if not clang:
            return False
        done = subprocess.run([clang, "-print-resource-dir"], stdout=subprocess.PIPE)
        return any(Path(done.stdout.decode().strip()).glob(pattern))
    return there


def _perl():
    """Debian's smallest installation has a perl without its library."""
    return shutil.which("perl") and not subprocess.run(
        ["perl", "-MFindBin", "-MIPC::Cmd", "-e1"], stderr=subprocess.DEVNULL).returncode


def _python_h():
    return (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()


def _command(*names):
    return lambda: any(shutil.which(name) for name in names)


# what is needed, how to tell, the package that brings it, the variable that names another
NEEDS = [
    (settings.CLANG, _command(settings.CLANG), "clang-" + V, "CLANG"),
    ("wasm-ld", _command("wasm-ld-" + V, "wasm-ld"), "lld-" + V, "CLANG with its own wasm-ld"),
    (settings.AR, _command(settings.AR), "llvm-" + V, "LLVM_AR, LLVM_RANLIB, LLVM_PROFDATA"),
    ("clang's wasm32 builtins", _runtime("lib/was*/libclang_rt.builtins*.a"),
     "libclang-rt-%s-dev-wasm32" % V, "CLANG"),
    ("clang's profile runtime", _runtime("lib/*/libclang_rt.profile*.a"),
     "libclang-rt-%s-dev" % V, "CLANG"),
    ("cc", _command("cc"), "gcc", "CC"),
    ("make", _command("make"), "make", "PATH"),
    ("pkg-config", _command("pkg-config"), "pkg-config", "PATH"),
    ("perl and its library", _perl, "perl", "PATH"),
    ("tclsh", _command("tclsh"), "tcl", "PATH"),
    ("xz", _command("xz"), "xz-utils", "PATH"),
    ("patch", _command("patch"), "patch", "PATH"),
    ("libc6 headers", _header("stdio.h"), "libc6-dev", "CC"),
    ("zlib.h", _header("zlib.h"), "zlib1g-dev", "CFLAGS"),
    ("bzlib.h", _header("bzlib.h"), "libbz2-dev", "CFLAGS"),
    ("lzma.h", _header("lzma.h"), "liblzma-dev", "CFLAGS"),
    ("sqlite3.h", _header("sqlite3.h"), "libsqlite3-dev", "CFLAGS"),
    ("openssl/ssl.h", _header("openssl/ssl.h"), "libssl-dev", "CFLAGS"),
    ("meson", _command("meson"), "meson", "PATH"),
    ("ninja", _command("ninja"), "ninja-build", "PATH"),
    ("xxhash.h", _header("xxhash.h"), "libxxhash-dev", "CFLAGS"),
    ("zstd.h", _header("zstd.h"), "libzstd-dev", "CFLAGS"),
    ("sodium.h", _header("sodium.h"), "libsodium-dev", "CFLAGS"),
    ("pip", lambda: importlib.util.find_spec("pip") is not None,
     "python3-pip", "BRUMATE_SOURCES with the wheels"),
    ("python's venv", lambda: importlib.util.find_spec("ensurepip") is not None, "python3-venv", "PYTHON"),
    ("Python.h", _python_h, "python3-dev", "PYTHON"),
]


def _missing():
    return [need for need in NEEDS if not need[1]()]


def install_needs(say):
    """Installs what the machine lacks; one message names everything that cannot be had."""
    missing = _missing()
    if not missing:
        return
    packages = [package for _, _, package, _ in missing]
    if shutil.which("apt-get") and os.geteuid() == 0:
        env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        say("apt-get: installing " + " ".join(packages))
        for command in (["apt-get", "update", "-qq"],
                        ["apt-get", "install", "-y", "-qq", "--no-install-recommends"] + packages):
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode:
                raise BuildError("`%s` failed:\n%s" % (" ".join(command),
                                                       done.stdout.decode(errors="replace")[-2000:]))
        missing = _missing()
        if not missing:
            return
    lines = ["  %-26s Debian package %-30s or set %s" % (what, package, variable)
             for what, _, package, variable in missing]
    raise BuildError(
        "these are missing:\n%s\n"
        "On Debian or Ubuntu, as root: apt-get install %s\n"
        "Elsewhere give paths: BRUMATE_SOURCES=folder with the source tarballs (and wheels), CLANG=, "
        "LLVM_AR=, LLVM_RANLIB=,\nLLVM_PROFDATA=, WABT=folder with bin/wasm2c, WASI_SYSROOT=folder of "
        "wasi-libc, PYTHON313_SOURCE=folder" % ("\n".join(lines), " ".join(p for _, _, p, _ in missing)))


def _mirror():
    """The address that this machine gets Debian's main archive from."""
    files = [Path("/etc/apt/sources.list")] + sorted(Path("/etc/apt/sources.list.d").glob("*"))
    for path in files:
        if not path.is_file():
            continue
        text = path.read_text(errors="replace")
        if path.suffix == ".sources":
            for stanza in re.split(r"\n\s*\n", text):
                fields = dict(re.findall(r"^(\w[\w-]*):[ \t]*(.*)$", stanza, re.M))
                if "main" in fields.get("Components", "").split() and "ebian" in fields.get("Signed-By", "debian"):
                    return fields["URIs"].split()[0]
        else:
            found = re.search(r"^deb(?:\s+\[[^\]]*\])?\s+(\S+)\s+\S+\s+(?:.*\s)?main\b", text, re.M)
            if found and "security" not in found.group(1):
                return found.group(1)
    return None


def _private_apt(job):
    """An apt configuration of our own for settings.SOURCES_FROM; answers its environment."""
    mirror = _mirror()
    if not mirror or not shutil.which("apt-get") or not Path(KEYRING).exists():
        raise BuildError("%s: no Debian archive is configured here; set BRUMATE_SOURCES to a folder "
                         "with the source tarballs" % job.name)
    apt = job.work / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True)
    line = "%s [signed-by=" + KEYRING + "] " + mirror + " " + settings.SOURCES_FROM + " main\n"
    (apt / "sources.list").write_text(line % "deb" + line % "deb-src")
    config = apt / "apt.conf"
    config.write_text('Dir::Etc::sourcelist "{0}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
                      'Dir::State::lists "{0}/lists";\nDir::Cache "{0}/cache";\n'
                      'Dir::State::status "/var/lib/dpkg/status";\nAPT::Sandbox::User "root";\n'
                      'Acquire::Languages "none";\n'.format(apt))
    return {"APT_CONFIG": str(config)}


def _versions(env, command, name):
    done = subprocess.run(["apt-cache", command, name], env=dict(os.environ, **env),
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found = re.findall(r"^Version: (\S+)", done.stdout.decode(), re.M)
    ordered = []
    for version in found:
        place = 0
        while place < len(ordered) and subprocess.run(
                ["dpkg", "--compare-versions", ordered[place], "gt", version]).returncode == 0:
            place += 1
        if version not in ordered:
            ordered.insert(place, version)
    return ordered


def fetch(job, sources, packages):
    """Downloads the sources' tarballs and the packages' .debs into job.work, newest version that
    the mirror hands out (it refuses some that are only days old)."""
    env = _private_apt(job)
    job.run(["apt-get", "update", "-qq"], env=env, what="reading the package lists")
    for command, names, get in (("showsrc", sources, ["apt-get", "source", "-qq", "--download-only"]),
                                ("show", packages, ["apt-get", "download", "-qq"])):
        for name in names:
            for version in _versions(env, command, name):
                try:
                    job.run(get + ["%s=%s" % (name, version)], env=env, what="fetching %s %s" % (name, version))
                    break
                except BuildError:
                    job.say("%s %s cannot be had, trying an older one" % (name, version))
            else:
                raise BuildError("%s: no version of %s could be downloaded; give it in BRUMATE_SOURCES"
                                 % (job.name, name))
