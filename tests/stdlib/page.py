#!/usr/bin/env python3
"""Makes docs/stdlib.md from modules.toml: page.py writes it, page.py --check says whether it is up to date."""
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "stdlib.md"

# sys.stdlib_module_names of CPython 3.13, without those that begin with an underscore
MODULES = """
abc antigravity argparse array ast asyncio atexit base64 bdb binascii bisect builtins bz2 cProfile calendar
cmath cmd code codecs codeop collections colorsys compileall concurrent configparser contextlib contextvars copy
copyreg csv ctypes curses dataclasses datetime dbm decimal difflib dis doctest email encodings ensurepip enum
errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass
gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib imaplib importlib inspect io ipaddress
itertools json keyword linecache locale logging lzma mailbox marshal math mimetypes mmap modulefinder msvcrt
multiprocessing netrc nt ntpath nturl2path numbers opcode operator optparse os pathlib pdb pickle pickletools
pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data
pyexpat queue quopri random re readline reprlib resource rlcompleter runpy sched secrets select selectors shelve
shlex shutil signal site smtplib socket socketserver sqlite3 sre_compile sre_constants sre_parse ssl stat
statistics string stringprep struct subprocess symtable sys sysconfig syslog tabnanny tarfile tempfile termios
textwrap this threading time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty turtle
turtledemo types typing unicodedata unittest urllib uuid venv warnings wave weakref webbrowser winreg winsound
wsgiref xml xmlrpc zipapp zipfile zipimport zlib zoneinfo
""".split()


def rows():
    """module -> its row, for every module."""
    with open(HERE / "modules.toml", "rb") as f:
        known = tomllib.load(f)
    unknown = set(known) - set(MODULES)
    if unknown:
        sys.exit("modules.toml: not in the standard library: " + ", ".join(sorted(unknown)))
    return {name: known.get(name, {"state": "works"}) for name in MODULES}


def text():
    table = rows()
    states = [row["state"] for row in table.values()]
    out = ["# The standard library in the sandbox", "",
           "What the guest's CPython 3.13 offers of the standard library's %d modules: %d work, %d partly, %d are absent."
           % (len(table), *(states.count(s) for s in ("works", "partly", "absent"))),
           "Every row is checked by a test (`tests/stdlib`), from which this page is made.", "",
           "## Absent", "", "| module | why | what the error says |", "|---|---|---|"]
    out += [f"| `{name}` | {row['note']} | `ModuleNotFoundError: {row['error']}` |"
            for name, row in table.items() if row["state"] == "absent"]
    out += ["", "## Partly", "", "| module | what to know |", "|---|---|"]
    out += [f"| `{name}` | {row['note']} |" for name, row in table.items() if row["state"] == "partly"]
    out += ["", "## Works", ""]
    out += [f"- `{name}`: {row['note']}" for name, row in table.items() if row["state"] == "works" and "note" in row]
    out += ["- " + ", ".join(f"`{name}`" for name, row in table.items() if row["state"] == "works" and "note" not in row)]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text() != text())
    PAGE.write_text(text())
