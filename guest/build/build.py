#!/usr/bin/env python3
"""Builds the guest: `build.py guest` makes build/core.so, build/core.wasm and build/root."""
import argparse
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import debian                                           # noqa: E402
import settings                                         # noqa: E402
from steps import IDENTITY, REPO, BuildError, Cache, cache_root, say  # noqa: E402


def path(args):
    debian.install_needs(say)
    for folder in Cache().get(*args.steps):
        print(folder)


def setup(args):
    debian.install_needs(say)


def guest(args):
    """The artifacts into build/: replaced only when they changed, each in one step."""
    debian.install_needs(say)
    so, core, root = Cache().get("core-so", "core-wasm", "root")
    build = REPO / "build"
    build.mkdir(exist_ok=True)
    stamp = build / ".guest"
    made = "\n".join(map(str, (so, core, root)))
    if stamp.exists() and stamp.read_text() == made and (build / "root").is_dir() and (build / "core.so").exists():
        return
    for source in (so / "core.so", core / "core.wasm"):
        fresh = build / (source.name + ".new")
        shutil.copyfile(source, fresh)
        os.replace(fresh, build / source.name)
    fresh, old = build / "root.new", build / "root.old"
    for folder in (fresh, old):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root, fresh, copy_function=link, ignore=shutil.ignore_patterns(IDENTITY))
    if (build / "root").exists():
        (build / "root").rename(old)
    fresh.rename(build / "root")
    shutil.rmtree(old, ignore_errors=True)
    stamp.write_text(made)
    say("build/core.so, build/core.wasm and build/root are in place")


def package(args):
    """What the Python package carries of the guest: core.so, and the image that `--brumate` makes of it."""
    os.environ.pop("PYTHONPATH", None)    # of pip's isolated build: not for what is started here
    debian.install_needs(say)
    so, root = Cache().get("core-so", "root")
    args.into.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(so / "core.so", args.into / "core.so")
    subprocess.run([args.brumate, "image", "build", "--guest", args.into / "core.so", "--root", root,
                    "-o", args.into / "core.bru"], check=True)


def pgo(args):
    """Trains an instrumented guest and stores the profile that core-so is then compiled with."""
    debian.install_needs(say)
    host = REPO / "build" / "brumate"
    instrumented, root = Cache().get("core-so-instrumented", "root")
    store = REPO / "guest" / "build" / "profile" / "core.proftext.xz"
    with tempfile.TemporaryDirectory(prefix="brumate-pgo-") as folder:
        env = dict(os.environ, LLVM_PROFILE_FILE=folder + "/%p.profraw")
        so, image, text = instrumented / "core.so", folder + "/core.bru", folder + "/core.proftext"
        for what, command in (
                ("booting the instrumented guest", [host, "image", "build", "--guest", so, "--root", root, "-o", image]),
                ("training", [host, "--image", image, "--guest", so, "--timeout", "none", "--memory", "1G",
                              REPO / "guest" / "build" / "train.py"])):
            say("pgo: " + what)
            if subprocess.run([str(c) for c in command], env=env, stdout=subprocess.DEVNULL).returncode:
                raise BuildError("pgo: %s failed" % what)
        raw = [str(p) for p in Path(folder).glob("*.profraw")]
        if not raw:
            raise BuildError("pgo: the guest wrote no profile")
        subprocess.run([settings.PROFDATA, "merge", "-text", "-o", text] + raw, check=True)
        store.parent.mkdir(exist_ok=True)
        fresh = store.with_suffix(".new")
        fresh.write_bytes(lzma.compress(Path(text).read_bytes(), preset=9 | lzma.PRESET_EXTREME))
        os.replace(fresh, store)
    say("pgo: %s, %d kB; commit it" % (store.relative_to(REPO), store.stat().st_size >> 10))


def link(source, target):
    try:
        os.link(source, target)
    except OSError:                       # the cache lies on another file system
        shutil.copy2(source, target)


def clean_cache(args):
    """Lists artifacts; removes those that nothing used for --days, or all."""
    root = cache_root()
    now = time.time()
    kept = freed = 0
    for path in sorted(root.glob("*-*")):
        size = sum(p.lstat().st_size for p in path.rglob("*"))
        age = (now - path.stat().st_mtime) / 86400
        drop = args.all or age >= args.days
        print("%-7s %7.1f MB  last used %5.1f days ago  %s" % ("removed" if drop else "kept", size / 1e6, age, path.name))
        if drop:
            shutil.rmtree(path)
        freed, kept = freed + size * drop, kept + size * (not drop)
    for path in root.glob("tmp/*"):       # of builds that were killed
        if now - path.stat().st_mtime > 86400:
            shutil.rmtree(path, ignore_errors=True)
    if args.all:
        for name in ("tmp", "logs", "locks"):
            shutil.rmtree(root / name, ignore_errors=True)
    print("%s: %.0f MB freed, %.0f MB kept" % (root, freed / 1e6, kept / 1e6))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("setup", help="install what the machine lacks")
    p.set_defaults(run=setup)
    p = commands.add_parser("path", help="make steps, print their folders")
    p.add_argument("steps", nargs="+")
    p.set_defaults(run=path)
    p = commands.add_parser("guest", help="make the guest and its tree, put them into build/")
    p.set_defaults(run=guest)
    p = commands.add_parser("package", help="make core.so and core.bru for the Python package")
    p.add_argument("--brumate", type=Path, required=True, help="the command that builds the image")
    p.add_argument("--into", type=Path, required=True, metavar="FOLDER")
    p.set_defaults(run=package)
    p = commands.add_parser("pgo", help="train an instrumented guest, store the profile")
    p.set_defaults(run=pgo)
    p = commands.add_parser("clean-cache", help="list the cache, remove what is no longer used")
    p.add_argument("--days", type=float, default=14)
    p.add_argument("--all", action="store_true")
    p.set_defaults(run=clean_cache)
    args = parser.parse_args()
    try:
        args.run(args)
    except BuildError as e:
        sys.exit("guest/build: %s" % e)
    except KeyboardInterrupt:
        os._exit(130)


if __name__ == "__main__":
    main()
