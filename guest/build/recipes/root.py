"""The tree that the guest sees at /lib: the standard library with the modules that guest code imports, and
the agent, which is on no path."""
import os
import shutil

import settings
from recipes import library
from steps import IDENTITY, REPO, expand

USES = ["library", "python-native"]
FILES = ["guest/python/**/*.py"]


def SETTINGS():
    return {"python": settings.PYTHON}


def make(job):
    library_name = "python" + settings.PYTHON
    tree = job.work / "tree"
    for path in expand(FILES):
        inside = path.relative_to(REPO / "guest" / "python")
        place = tree / ("brumate" if len(inside.parts) > 1 else library_name) / inside
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    library.compile_tree(job, tree)
    shutil.copytree(job.use("library"), job.out, copy_function=os.link, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns(IDENTITY))
    shutil.copytree(tree, job.out, dirs_exist_ok=True)
