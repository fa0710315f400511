"""Packages as their authors publish them: each is imported in a sandbox, and does something of what it is for.

Fetched with pip into build/wheels, so these tests need the network once, and run by `make test-packages` alone."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import brumate

WHEELS = Path(__file__).resolve().parents[2] / "build" / "wheels"

PURE = [
    "--only-binary=:all:", "--platform=any", "--implementation=py", "--abi=none",
    "--python-version=3.13",
]  # fmt: skip

# What to fetch ("sdist" before it: its source), what to import, a program, what it prints.
PACKAGES: dict[str, tuple[list[str], str, str]] = {
    "attrs": (["attrs==25.3.0"], "import attr\n@attr.define\nclass P: x: int\nprint(P(1))", "P(x=1)"),
    "jinja2": (
        ["jinja2==3.1.6", "sdist markupsafe==3.0.2"],
        "from jinja2 import Template\nprint(Template('{% for x in xs %}{{ x }},{% endfor %}{{ h|e }}').render(xs=[1, 2], h='<b>'))",
        "1,2,&lt;b&gt;",
    ),
    "pydantic": (
        ["pydantic==1.10.22", "typing_extensions==4.14.0"],
        "from pydantic import BaseModel, ValidationError\nclass M(BaseModel): x: int\nprint(M(x='3'))\n"
        "try: M(x='a')\nexcept ValidationError as e: print(len(e.errors()))",
        "x=3\n1",
    ),
    "typing_extensions": (["typing_extensions==4.14.0"], "from typing_extensions import TypedDict\nprint(TypedDict('T', {'a': int}).__name__)", "T"),
    "sympy": (
        ["sympy==1.14.0", "mpmath==1.3.0"],
        "import sympy\nx = sympy.symbols('x')\nprint(sympy.integrate(x**2 * sympy.sin(x), x))\nprint(sympy.factorint(2**40 - 1))",
        "-x**2*cos(x) + 2*x*sin(x) + 2*cos(x)\n{3: 1, 5: 2, 11: 1, 17: 1, 31: 1, 41: 1, 61681: 1}",
    ),
    "mpmath": (["mpmath==1.3.0"], "import mpmath\nmpmath.mp.dps = 30\nprint(mpmath.pi)", "3.14159265358979323846264338328"),
    "networkx": (["networkx==3.5"], "import networkx\ng = networkx.path_graph(5)\nprint(networkx.shortest_path(g, 0, 4))", "[0, 1, 2, 3, 4]"),
    "beautifulsoup4": (
        ["beautifulsoup4==4.13.4", "soupsieve==2.7", "typing_extensions==4.14.0"],
        "from bs4 import BeautifulSoup\nprint(BeautifulSoup('<p>a<b class=c>d</b>', 'html.parser').select_one('b.c').text)",
        "d",
    ),
    "python-dateutil": (
        ["python-dateutil==2.9.0.post0", "six==1.17.0"],
        "from dateutil import parser, rrule\nprint(parser.parse('3 May 2024 10:00'))\n"
        "print(len(list(rrule.rrule(rrule.DAILY, count=5, dtstart=parser.parse('2024-01-01')))))",
        "2024-05-03 10:00:00\n5",
    ),
    "pyyaml": (["sdist pyyaml==6.0.2"], "import yaml\nprint(yaml.safe_load('a: [1, 2]'))\nprint(yaml.safe_dump({'x': None}), end='')", "{'a': [1, 2]}\nx: null"),
    "tabulate": (["tabulate==0.9.0"], "from tabulate import tabulate\nprint(tabulate([[1, 2]], headers=['a', 'b'], tablefmt='plain'))", "  a    b\n  1    2"),
    "rich": (
        ["rich==14.0.0", "pygments==2.19.1", "markdown-it-py==3.0.0", "mdurl==0.1.2"],
        "from rich.console import Console\nfrom rich.markdown import Markdown\nc = Console(width=20, force_terminal=False)\n"
        "c.print('[bold]hi[/bold]')\nc.print(Markdown('* one'))",
        "hi\n\n • one",
    ),
    "idna": (["idna==3.10"], "import idna\nprint(idna.encode('bücher.example'))", "b'xn--bcher-kva.example'"),
    "requests": (
        ["requests==2.32.4", "urllib3==2.4.0", "certifi==2025.4.26", "charset-normalizer==3.4.2", "idna==3.10"],
        "import requests\nprint(requests.Request('GET', 'http://a.example/', params={'q': 'é'}).prepare().url)",
        "http://a.example/?q=%C3%A9",
    ),
}  # fmt: skip
IMPORTS = {
    "beautifulsoup4": "bs4",
    "python-dateutil": "dateutil",
    "pyyaml": "yaml",
    "attrs": "attr",
}


def normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def fetched(requirement: str) -> Path:
    """The file of a package, fetched unless it is there."""
    sdist = requirement.startswith("sdist ")
    requirement = requirement.removeprefix("sdist ")
    name, version = requirement.split("==")

    def found() -> Path | None:
        start = normal(f"{name}-{version}")
        fits = [
            p
            for p in WHEELS.glob("*")
            if normal(p.name).startswith((start + "_tar_gz" if sdist else start + "_py"))
        ]
        return fits[0] if fits else None

    if found() is None:
        WHEELS.mkdir(parents=True, exist_ok=True)
        how = [f"--no-binary={name}"] if sdist else PURE
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
            "-d",
            str(WHEELS),
            *how,
            requirement,
        ]
        subprocess.run(command, check=True, timeout=600)
    path = found()
    assert path is not None, f"pip fetched no {requirement}"
    return path


@pytest.mark.parametrize("name", PACKAGES)
def test_package(name: str, capsys: pytest.CaptureFixture[str]):
    requirements, program, expected = PACKAGES[name]
    paths = [fetched(requirement) for requirement in requirements]
    started = time.monotonic()
    factory = brumate.SandboxFactory(paths, [IMPORTS.get(name, name)])
    built = time.monotonic() - started
    best = min(timed(factory, program, expected) for _ in range(3))
    with capsys.disabled():
        print(
            f"\n{name:20} factory {built:6.2f} s   {factory.size_bytes / 1e6:6.1f} MB   sandbox and program {best * 1e3:7.2f} ms ",
            end="",
        )
    lazy = brumate.SandboxFactory(paths)
    assert lazy.create_sandbox().execute(program).stdout.rstrip() == expected


def timed(factory: brumate.SandboxFactory, program: str, expected: str) -> float:
    started = time.monotonic()
    result = factory.create_sandbox().execute(program)
    assert result.stdout.rstrip() == expected
    return time.monotonic() - started
