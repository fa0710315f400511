"""Build steps and the cache that keeps what they made.

A step is a file in recipes/. Its key is the hash of all that could change its result: the recipe's
own text, the files it names, the versions of the tools it runs and the contents of what the steps it
uses made (so a change that ends in the same bytes goes no further). The result is a folder in the user's cache, made beside its final place and renamed there under
a lock: two builds at once share the work, and a killed build or a full disk leaves nothing half-written.
"""
import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = HERE.parent.parent
IDENTITY = ".identity"     # in each artifact: the hash of the rest of it
TAIL = 25          # lines of a log shown when a step fails
# no clock, no language of the user's in what is built
FIXED = {"SOURCE_DATE_EPOCH": "1735689600", "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1",
         "PYTHONHASHSEED": "0"}
_start = time.monotonic()
_print_lock = threading.Lock()


class BuildError(Exception):
    """Something the user must know; the text is complete."""


def say(text):
    with _print_lock:
        print("[%5.1f s] %s" % (time.monotonic() - _start, text), file=sys.stderr, flush=True)


def cache_root():
    base = os.environ.get("BRUMATE_CACHE")
    if base:
        return Path(base).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "brumate"


def file_hash(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            h.update(block)
    return h.hexdigest()


def tree_hash(folder):
    """The hash of a folder's names, kinds and contents."""
    h = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        what = ("link " + os.readlink(path) if path.is_symlink() else "folder" if path.is_dir() else
                "%s %s" % ("program" if os.access(path, os.X_OK) else "file", file_hash(path)))
        h.update(("%s\0%s\n" % (path.relative_to(folder), what)).encode())
    return h.hexdigest()


def expand(patterns):
    """The files that the patterns (relative to the repository) name, sorted; no bytecode."""
    found = set()
    for pattern in patterns:
        found.update(p for p in REPO.glob(pattern) if p.is_file() and "__pycache__" not in p.parts)
    return sorted(found)


def tool_version(command):
    """The first line that `command --version` prints: what a compiler is known by in a key."""
    done = subprocess.run([command, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout.decode(errors="replace").split("\n", 1)[0]


class Recipe:
    """A file in recipes/: USES, FILES (patterns), TOOLS (commands), SETTINGS() and make(job)."""

    def __init__(self, name):
        self.path = HERE / "recipes" / (name.replace("-", "_") + ".py")
        if not self.path.exists():
            raise BuildError("there is no step named '%s'" % name)
        spec = importlib.util.spec_from_file_location("recipe_" + name.replace("-", "_"), self.path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.name, self.module, self.make = name, module, module.make
        self.uses = list(getattr(module, "USES", []))
        self.files = list(getattr(module, "FILES", []))
        self.tools = list(getattr(module, "TOOLS", []))
        self.settings = getattr(module, "SETTINGS", dict)


class Job:
    """What a recipe's make() gets: where to put things, and a way to run commands."""

    def __init__(self, recipe, key, used, root):
        self.name, self.key, self.root = recipe.name, key, root
        self.final = root / ("%s-%s" % (recipe.name, key[:16]))
        self.temp = root / "tmp" / ("%s-%s-%d" % (recipe.name, key[:16], os.getpid()))
        self.out, self.work = self.temp / "out", self.temp / "work"
        self.log = root / "logs" / ("%s-%s.log" % (recipe.name, key[:16]))
        self._used = used

    def use(self, name):
        """The finished folder of a step named in USES."""
        return self._used[name]

    def say(self, text):
        say("%s: %s" % (self.name, text))

    def run(self, command, cwd=None, env=None, what=None):
        """Runs a command, its output into the log; a failure ends the step."""
        command = [str(c) for c in command]
        if what:
            self.say(what)
        with open(self.log, "ab") as log:
            log.write(("\n$ " + " ".join(command) + "\n").encode())
            log.flush()
            done = subprocess.run(command, cwd=cwd or self.work, env=dict(os.environ, **dict(FIXED, **(env or {}))),
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if done.returncode:
            shown = " ".join(command)
            raise BuildError("%s: `%s` ended with %d" % (
                self.name, shown if len(shown) < 160 else shown[:157] + "...", done.returncode))

    def run_all(self, commands, jobs=None):
        """Runs many commands, a few at a time, in their order; the first failure ends the step."""
        with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
            for done in [pool.submit(self.run, c) for c in commands]:
                done.result()


class Cache:
    """Finds or makes the artifacts of steps."""

    def __init__(self):
        self.root = cache_root()
        self._recipes, self._results, self._versions = {}, {}, {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(32)

    def recipe(self, name):
        if name not in self._recipes:
            self._recipes[name] = Recipe(name)
        return self._recipes[name]

    def want(self, name):
        """A future of the step's (folder, identity)."""
        with self._lock:
            if name not in self._results:
                self._results[name] = self._pool.submit(self._ensure, name)
            return self._results[name]

    def get(self, *names):
        """Makes the steps if need be; answers their folders."""
        futures = [self.want(name) for name in names]
        return [future.result()[0] for future in futures]

    def _version(self, tool):
        if tool not in self._versions:
            self._versions[tool] = tool_version(tool)
        return self._versions[tool]

    def _key(self, recipe, identities):
        h = hashlib.sha256()

        def add(*parts):
            h.update(("\0".join(parts) + "\n").encode())
        add("recipe", file_hash(recipe.path))
        for item in sorted(recipe.settings().items()):
            add("setting", *map(str, item))
        for path in expand(recipe.files):
            add("file", str(path.relative_to(REPO)), file_hash(path))
        for tool in recipe.tools:
            add("tool", tool, self._version(tool))
        for name in recipe.uses:
            add("uses", name, identities[name])
        return h.hexdigest()

    def _ensure(self, name):
        with self._lock:
            recipe = self.recipe(name)
        futures = {use: self.want(use) for use in recipe.uses}
        done = {use: future.result() for use, future in futures.items()}
        key = self._key(recipe, {use: d[1] for use, d in done.items()})
        job = Job(recipe, key, {use: d[0] for use, d in done.items()}, self.root)
        if not (job.final / IDENTITY).exists():
            self._make(recipe, job)
        with contextlib.suppress(OSError):      # when it was last used, for clean-cache
            os.utime(job.final)
        return job.final, (job.final / IDENTITY).read_text()

    def _make(self, recipe, job):
        try:
            for folder in ("tmp", "logs", "locks"):
                (self.root / folder).mkdir(parents=True, exist_ok=True)
            with open(self.root / "locks" / job.final.name, "w") as lock:
                self._take(lock, job)
                if (job.final / IDENTITY).exists():
                    return
                shutil.rmtree(job.final, ignore_errors=True)      # of a user who removed a part of it
                for stale in (self.root / "tmp").glob(job.final.name + "-*"):
                    shutil.rmtree(stale, ignore_errors=True)
                job.out.mkdir(parents=True)
                job.work.mkdir()
                job.log.write_bytes(b"")
                began = time.monotonic()
                job.say("begins")
                recipe.make(job)
                (job.out / IDENTITY).write_text(tree_hash(job.out))
                os.rename(job.out, job.final)
                job.say("done in %.1f s" % (time.monotonic() - began))
        except BuildError as e:
            raise BuildError(self._explain(str(e), job)) from None
        except OSError as e:
            text = "%s: %s" % (job.name, e)
            if e.errno == errno.ENOSPC:
                text += "; free space in %s, or set BRUMATE_CACHE to a larger place" % self.root
            raise BuildError(self._explain(text, job)) from None
        finally:
            shutil.rmtree(job.temp, ignore_errors=True)

    @staticmethod
    def _take(lock, job):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            job.say("another build is making it: waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)

    @staticmethod
    def _explain(text, job):
        if "\n" in text or not job.log.exists():
            return text
        tail = job.log.read_text(errors="replace").rstrip().split("\n")[-TAIL:]
        return "%s\n  the end of %s:\n    %s\n  steps that were finished are kept: mend it and run the same again" % (
            text, job.log, "\n    ".join(line[:300] for line in tail))
