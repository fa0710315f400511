"""The tree that the guest sees at /lib: the standard library and the agent."""
import os
import shutil

from recipes import library
from steps import IDENTITY, REPO, expand

USES = ["library", "python-native"]
FILES = ["guest/python/**/*.py"]


def make(job):
    agent = job.work / "tree" / "brumate"
    agent.mkdir(parents=True)
    for path in expand(FILES):
        place = agent / path.relative_to(REPO / "guest" / "python")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    library.compile_tree(job, job.work / "tree")
    shutil.copytree(job.use("library"), job.out, copy_function=os.link, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns(IDENTITY))
    shutil.move(str(agent), job.out / "brumate")
