"""X3: strict type checkers accept the examples of the docs, the programs and every right use, and reject wrong ones."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.test_examples import FILE, ROOT, examples, name, of_language

HERE = Path(__file__).parent
BUILDERS = ROOT / "benchmarks" / "builders"
WRONG = re.compile(r"# wrong: (\w+), ([\w-]+)$")
"""A wrong line ends with the rule of pyright and the error code of mypy that reject it."""

Complaints = dict[str, dict[int, set[str]]]
"""The lines of each file that a checker rejects, with the rules that each breaks."""


def assemble(folder: Path) -> None:
    """One file for the program of each page, at the lines of the page, and one for each file that the page shows.

    The programs of `benchmarks/builders/` are checked beside them.
    """
    (folder / "checked").mkdir()
    (folder / "importable").mkdir()
    for page in of_language("python"):
        stem = re.sub(r"\W", "_", name(page).removesuffix(".md"))
        program: list[str] = []
        for example in examples(page):
            if example.language != "python":
                continue
            if page in of_language("console") and (file := FILE.match(example.text)):
                (folder / "importable" / Path(file[1]).name).write_text(example.text, encoding="utf-8")
                shown = f"{stem}__{re.sub(r'[^a-zA-Z]', '_', file[1].removesuffix('.py'))}.py"
                (folder / "checked" / shown).write_text("\n" * example.line + example.text, encoding="utf-8")
                continue
            program += [""] * (example.line - len(program)) + example.text.splitlines()
        if program:
            (folder / "checked" / f"{stem}.py").write_text("\n".join(program) + "\n", encoding="utf-8")
    for uses in (HERE / "right_uses.py", HERE / "wrong_uses.py"):
        (folder / "checked" / uses.name).write_text(uses.read_text(encoding="utf-8"), encoding="utf-8")
    for built in BUILDERS.glob("*/with_ferrule.py"):
        (folder / "checked" / f"{built.parent.name}.py").write_text(built.read_text("utf-8"), encoding="utf-8")


def ask_pyright(folder: Path) -> Complaints:
    paths = [str(ROOT / "src"), str(folder / "importable")]
    # LangGraph has no types of its own.
    settings = {
        "typeCheckingMode": "strict",
        "reportMissingTypeStubs": False,
        "include": ["checked"],
        "extraPaths": paths,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "-p", str(folder), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr + done.stdout
    found: Complaints = {}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        line = one["range"]["start"]["line"] + 1
        lines = found.setdefault(Path(one["file"]).name, {})
        lines.setdefault(line, set()).add(one.get("rule") or one["message"])
    return found


def ask_mypy(folder: Path) -> Complaints:
    command = [
        sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--output=json", "--config-file=",
        "--cache-dir", str(folder / "cache"), *map(str, sorted((folder / "checked").glob("*.py"))),
    ]  # fmt: skip
    environment = {**os.environ, "MYPYPATH": os.pathsep.join([str(ROOT / "src"), str(folder / "importable")])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode in (0, 1), done.stderr + done.stdout
    found: Complaints = {}
    for one in map(json.loads, done.stdout.splitlines()):
        if one["severity"] == "error" and one["code"] != "import-untyped":
            lines = found.setdefault(Path(one["file"]).name, {})
            lines.setdefault(one["line"], set()).add(one["code"] or one["message"])
    return found


@pytest.mark.slow  # each checker takes ten seconds
@pytest.mark.parametrize(("ask", "mark"), [(ask_pyright, 1), (ask_mypy, 2)], ids=["pyright", "mypy"])
def test_a_strict_checker_rejects_the_wrong_uses_and_nothing_else(
    ask: Callable[[Path], Complaints], mark: int, tmp_path: Path
) -> None:
    assemble(tmp_path)
    lines = (HERE / "wrong_uses.py").read_text(encoding="utf-8").splitlines()
    marked = {number: found[mark] for number, line in enumerate(lines, 1) if (found := WRONG.search(line))}
    complaints = ask(tmp_path)
    rejected = complaints.pop("wrong_uses.py")
    assert complaints == {}
    assert rejected.keys() == marked.keys()
    assert {line: rules for line, rules in rejected.items() if marked[line] not in rules} == {}
