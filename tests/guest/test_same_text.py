"""What the agent prints at an execution's end is what `python script.py` prints."""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

PROGRAMS = {
    "division": "def f(n):\n    return [1, 2 / n][0]\n\nf(0)\n",
    "nested call": "def f(x): return x['a']['b']\ndata = {'a': {}}\nprint(f(data) + 1)\n",
    "chain": "try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('v') from e\n",
    "context": "try:\n    {}['k']\nfinally:\n    int('x')\n",
    "suppressed": "try:\n    {}['k']\nexcept KeyError:\n    raise ValueError('v') from None\n",
    "note": "e = ValueError('v')\ne.add_note('first\\nsecond')\nraise e\n",
    "group": "def f():\n    raise ExceptionGroup('g', [ValueError(1), ExceptionGroup('h', [OSError(2)])])\nf()\n",
    "own type": "class Bad(Exception):\n    pass\nraise Bad('x')\n",
    "library type": "import json\njson.loads('{')\n",
    "name with a hint": "alpha = 1\nalpah\n",
    "attribute with a hint": "import collections\ncollections.dequeue\n",
    "forgotten import": "json.dumps(1)\n",
    "syntax": "x = [1, 2\nprint(x)\n",
    "syntax in a line": "def f():\n    return 1 +\n",
    "indentation": "def f():\nreturn 1\n",
    "tab": "if True:\n        x = 1\n\ty = 2\n",
    "null byte": "x = '\\0'\nint(x)\n",
    "unicode": "größe = 'ä' * 3\nraise ValueError(größe)\n",
    "multi-line expression": "x = dict(\n    a=1,\n    b=1 / 0,\n)\n",
    "recursion": "def f(n):\n    return f(n + 1)\nf(0)\n",
    "lambda": "list(map(lambda x: 1 / x, [1, 0]))\n",
    "generator": "def g():\n    yield 1\n    raise LookupError\nlist(g())\n",
    "no text": "raise AssertionError\n",
    "assert": "x = 1\nassert x == 2, 'not two'\n",
    "keyboard": "raise KeyboardInterrupt\n",
    "generator exit": "raise GeneratorExit\n",
    "exit text": "import sys\nsys.exit('bad thing')\n",
    "exit code": "import sys\nsys.exit(3)\n",
    "broken str": "class E(Exception):\n    def __str__(self): raise TypeError\nraise E\n",
    "exec": "exec('1 / 0')\n",
    "never awaited": "async def f(): pass\nf()\n",
    "warning": "import warnings\nwarnings.warn('careful')\n",
    "deprecated": "'\\d'\n",
    "unraisable": "class D:\n    def __del__(self): 1 / 0\nD()\n",
    "hook": "import sys\nsys.excepthook = lambda t, e, tb: print('hook', t.__name__, file=sys.stderr)\n1 / 0\n",
    "broken hook": "import sys\nsys.excepthook = None\n1 / 0\n",
    "traceback limit": "import sys\nsys.tracebacklimit = 1\ndef f(): 1 / 0\nf()\n",
    "atexit": "import atexit\natexit.register(print, 'last')\nprint('first')\n",
    "destructors": "class D:\n    def __del__(self): print('del')\nd = D()\nprint('end')\n",
}


class SameText(unittest.TestCase):
    maxDiff = None

    def test_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, source in PROGRAMS.items():
                with self.subTest(name):
                    self.compare(os.path.join(folder, "program.py"), textwrap.dedent(source))

    def compare(self, path, source):
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        # From a file: Python keeps the lines of -c under "<string>", where exec('...') looks too.
        driver = path + ".driver"
        with open(driver, "w", encoding="utf-8") as file:
            file.write(f"import sys; sys.path.insert(0, {HERE!r}); import door\n"
                       f"sys.path.pop(0); door.program({path!r})\n")
        want, got = start_python(path), start_python(driver)
        for here, there in zip(got.communicate(timeout=60), want.communicate(timeout=60)):
            self.assertEqual(same(here), same(there))
        # A program that dies of KeyboardInterrupt dies of a signal; the guest has none.
        self.assertEqual(got.returncode, want.returncode if want.returncode >= 0 else 1)


def start_python(*args):
    return subprocess.Popen([sys.executable, "-I", "-X", "utf8", *args], encoding="utf-8",
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def same(text):
    """Without addresses, and without how many frames were the caller's."""
    return re.sub(r"0x[0-9a-f]+|\d+ more times", "...", text)


if __name__ == "__main__":
    unittest.main()
