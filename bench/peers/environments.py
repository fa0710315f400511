"""The products, each with an interpreter that can import it."""
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Product:
    label: str
    adapter: str                    # the file of adapters/
    minimum: tuple                  # of Python
    python: str = ""
    environment: dict = field(default_factory=dict)
    missing: str = ""               # why it cannot be measured


PEERS = [("pyeryx", "eryx", (3, 12)), ("pysandbox-wasi", "pysandbox", (3, 12)), ("pydantic-monty", "monty", (3, 10))]


def environment(**more):
    """As an installed package is used: with its bytecode kept, and nothing of the caller's on its path."""
    left_out = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
    return {k: v for k, v in os.environ.items() if k not in left_out} | more


def ours(build):
    """An environment of the interpreter that runs this: `make python` and `make bench-peers` take the same."""
    folder = build / "peers" / "brumate"
    product = Product("brumate", "ours", (3, 11), str(folder / "bin" / "python"),
                      environment(PYTHONPATH=str(build / "python")))
    done = subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", folder], capture_output=True, text=True)
    if not done.returncode:
        done = subprocess.run([product.python, "-c", "import brumate; brumate.Sandbox().execute('')"],
                              env=product.environment, capture_output=True, text=True)
    if done.returncode:
        product.missing = last(done.stderr or done.stdout)
    return product


def peers(folder, install):
    return [peer(Product(*row), folder / row[0], install) for row in PEERS]


def peer(product, folder, install):
    python = folder / "bin" / "python"
    product.python = str(python)
    product.environment = environment()
    if (folder / "installed").exists() and python.exists():  # its interpreter may have gone
        return product
    if not install:
        product.missing = "not installed"
        return product
    suitable = [path for version, path in interpreters() if version >= product.minimum]
    if not suitable:
        product.missing = "needs Python %d.%d, which is not on this machine" % product.minimum
        return product
    print(f"bench: installing {product.label}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    for command in ([suitable[0], "-m", "venv", folder],
                    [python, "-m", "pip", "install", "--quiet", "--no-input", "--only-binary", ":all:", product.label]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            product.missing = "cannot be installed: " + last(done.stderr)
            return product
    (folder / "installed").touch()
    return product


def wheels(folder, names, install):
    """Pure wheels, by name, from where pip finds them; as many as there are."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in names:
        have = sorted(folder.glob(f"{name}-*-none-any.whl"))
        if not have and install:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps",
                            "--only-binary", ":all:", "--platform", "any", "--dest", folder, name], capture_output=True)
            have = sorted(folder.glob(f"{name}-*-none-any.whl"))
        if have:
            found[name] = str(have[-1])
    return found


@functools.cache
def interpreters():
    """(version, path) of what is in PATH and what pyenv keeps, the newest first."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    try:
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True).stdout.strip()
    except OSError:
        root = ""
    if root:
        folders += sorted(Path(root).glob("versions/*/bin"))
    found = {}
    for folder in folders:
        for path in sorted(folder.glob("python3*")):
            if re.fullmatch(r"python3(\.\d+)?", path.name):
                version = ask_version(path)
                if version:
                    found.setdefault(tuple(version), str(path))
    return sorted(found.items(), reverse=True)


def ask_version(python):
    """None for what cannot make environments: a shim of nothing, a Python without venv or pip."""
    code = "import sys, json, venv, ensurepip; print(json.dumps(sys.version_info[:3]))"
    try:
        done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=20)
        return json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def last(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason given"
