"""CPython for this machine: builds the guest's, compiles its library, and is what speed is measured
against (-O3, the optimisation that the guest's CPython gets too; no PGO, no LTO)."""
import os
import shutil

USES = ["python-source"]
TOOLS = ["cc"]


def make(job):
    source = job.use("python-source") / "tree"
    build = job.work / "build"
    build.mkdir()
    jobs = "-j%d" % (os.cpu_count() or 1)
    job.run([source / "configure", "--prefix=%s" % job.final, "--disable-test-modules",
             "--without-ensurepip", "CFLAGS=-O3"], cwd=build, what="configure")
    job.run(["make", jobs, "build_all"], cwd=build, what="make")
    job.run(["make", "altbininstall", "sharedinstall", "DESTDIR=%s" % (job.work / "root")], cwd=build,
            what="install")
    installed = job.work / "root" / str(job.final).lstrip("/")
    library = next((installed / "lib").glob("python3.*"))
    shutil.copytree(source / "Lib", library, dirs_exist_ok=True, ignore=shutil.ignore_patterns(
        "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "__pycache__"))
    for data in build.glob("build/lib.*/_sysconfigdata*.py"):
        shutil.copy(data, library)
    for part in installed.iterdir():
        part.rename(job.out / part.name)
    (job.out / "bin" / "python").symlink_to(library.name)
