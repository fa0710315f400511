"""CPython's source tree, as it comes."""
import os
import shutil
import tarfile

import settings

USES = ["sources"]


def SETTINGS():
    return {"given": os.environ.get("PYTHON313_SOURCE", "")}


def make(job):
    given = os.environ.get("PYTHON313_SOURCE")
    tree = job.work / "tree"
    if given:
        shutil.copytree(given, tree, symlinks=True)
    else:
        tarball = next(job.use("sources").glob("python.*"))
        job.say("unpacking %s" % tarball.name)
        with tarfile.open(tarball) as archive:
            archive.extractall(job.work)
        next(p for p in job.work.iterdir() if p.name.lower().startswith("python")).rename(tree)
    tree.rename(job.out / "tree")
