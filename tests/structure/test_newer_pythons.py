"""X9: nothing that newer Pythons remove or change, and no warning that a test could miss."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import WARNINGS

ROOT = Path(__file__).parents[2]
PLACES = ("src", "benchmarks", "scripts")
GONE = re.compile(
    r"""
    ( ast\.(Num|Str|Bytes|NameConstant|Ellipsis)
    | asyncio\.(get_event_loop|iscoroutinefunction|\w*EventLoopPolicy|\w+_event_loop_policy|\w*[Cc]hild_?[Ww]atcher)
    | codecs\.open | os\.popen | logging\.warn | platform\.java_ver | ctypes\.SetPointerType | shutil\.ExecError
    | (collections\.abc|typing)\.ByteString
    | http\.server\.CGIHTTPRequestHandler
    | importlib\.abc\.(ResourceReader|Traversable\w*|Finder)
    | locale\.(getdefaultlocale|resetlocale)
    | multiprocessing(\.(?!get_context$)\w+)? # another way of starting in 3.14, unless a context names it
    | concurrent\.futures\.ProcessPoolExecutor
    | pkgutil\.(find_loader|get_loader|Imp\w+)
    | pty\.(master|slave)_open
    | sqlite3\.(version|version_info|enable_shared_cache|OptimizedUnicode)
    | ssl\.(wrap_socket|match_hostname|PROTOCOL_(TLS|SSLv\d+|TLSv\w+)|OP_NO_(SSL|TLS)\w+)
    | sys\.(_clear_type_cache|_enablelegacywindowsfsencoding|last_(type|value|traceback))
    | threading\.(currentThread|activeCount)
    | typing\.(Text|no_type_check_decorator|_UnionGenericAlias|re|io)
    | urllib\.parse\.(Quoter|split(attr|host|nport|passwd|port|query|tag|type|user|value)|to_bytes)
    | urllib\.request\.(URLopener|FancyURLopener)
    | zipimport\.\w+
    | (aifc|asynchat|asyncore|audioop|cgi|cgitb|chunk|crypt|distutils|imghdr|imp|lib2to3|mailcap|msilib|nis|nntplib
      |ossaudiodev|pipes|smtpd|sndhdr|spwd|sunau|telnetlib|uu|xdrlib)(\.\w+)*
    )$
    """,
    re.VERBOSE,
)
"""What Python 3.12 to 3.17 remove, deprecate or give another meaning, beyond what ruff knows."""
METHODS = frozenset({"load_module", "co_lnotab", "notifyAll", "isSet", "isDaemon", "setDaemon"})
NUMBERED = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE)\b.*\?\d", re.DOTALL)
BY_POSITION = {"throw": 1, "athrow": 1, "relative_to": 1, "is_relative_to": 1, "connect": 1, "RLock": 0}
BY_NAME = {"rmtree": "onerror", "BooleanOptionalAction": "type", "localtime": "isdst", "create_function": "func"}


def findings(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a module that would fail, warn or mean something else, each with what does."""
    nodes = list(ast.walk(ast.parse(text)))
    known: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            known |= {one.asname or one.name.partition(".")[0]: one.name for one in node.names}
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            known |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
            names = [f"{node.module}.{one.name}" for one in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if GONE.match(name))

    def name_of(node: ast.AST) -> str:
        if isinstance(node, ast.Attribute):
            return f"{name_of(node.value)}.{node.attr}"
        return known.get(node.id, "") if isinstance(node, ast.Name) else ""

    for node in nodes:
        if isinstance(node, ast.Attribute):
            name = name_of(node)
            if node.attr in METHODS or (name[0] != "." and GONE.match(name)):
                yield node.lineno, name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and NUMBERED.search(node.value):
            yield node.lineno, "a numbered placeholder"
        elif isinstance(node, ast.With) and any(
            isinstance(one.context_expr, ast.Call) and name_of(one.context_expr.func) == "sqlite3.connect"
            for one in node.items
        ):
            yield node.lineno, "`with` does not close a database"
        elif isinstance(node, ast.Call):
            name = name_of(node.func)
            last = name.rpartition(".")[2]
            if len(node.args) > BY_POSITION.get(last, 99) and (last != "connect" or name == "sqlite3.connect"):
                yield node.lineno, f"{name} with arguments by position"
            if last in BY_NAME and any(one.arg == BY_NAME[last] for one in node.keywords):
                yield node.lineno, f"{name}({BY_NAME[last]}=)"


def test_nothing_is_used_that_newer_pythons_remove_or_change() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for place in PLACES
        for path in (ROOT / place).rglob("*.py")
        for line, what in findings(path.read_text(encoding="utf-8"))
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio\nasyncio.get_event_loop()",
        "from asyncio import iscoroutinefunction",
        "import ast as a\nisinstance(x, a.Str)",
        "import imp",
        "from multiprocessing import Pool",
        "run('SELECT 1 FROM t WHERE a = ?1', 2)",
        "import shutil\nshutil.rmtree(x, onerror=y)",
        "import sqlite3\nwith sqlite3.connect(p) as c: pass",
        "import sqlite3\nsqlite3.connect(p, 5)",
        "import threading\nthreading.RLock(1)",
        "waiting.throw(ValueError, error)",
    ],
)
def test_what_would_be_found(text: str) -> None:
    assert list(findings(text)) != []


@pytest.mark.parametrize("category", WARNINGS)
def test_a_program_that_a_test_starts_fails_on_a_warning(category: str) -> None:
    text = f"import warnings; warnings.warn('soon', {category})"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"{category}: soon")


def test_a_test_fails_on_what_warns_when_it_is_dropped(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        textwrap.dedent("""
            def test_it():
                loop = [open(__file__)]
                loop.append(loop)
        """)
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-q", "-p", "no:xdist", test],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "ResourceWarning: unclosed file" in done.stdout + done.stderr
