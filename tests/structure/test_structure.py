"""The rules of the house that no linter knows."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ferrule"
MODULES = sorted(path for path in SOURCE.rglob("*.py"))
MOST_LINES = 800
HALVES = [{"ferrule.pipeline.batch", "ferrule.pipeline.run"}]
"""Modules that may import each other, because they are two halves of one idea: one call, and many."""
HOUSE = run_path(str(ROOT / "scripts" / "house"))
VAGUE = re.compile(r"(^|_)(utils?|helpers?|managers?|base|common|misc)($|_)")


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_a_module_is_small(module: Path) -> None:
    lines = len(module.read_text(encoding="utf-8").splitlines())
    assert lines < MOST_LINES, f"{name(module)} has {lines} lines: which idea can move out?"


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_a_module_says_what_it_is_for(module: Path) -> None:
    assert module.read_text(encoding="utf-8").startswith(('"""', 'r"""')), f"{name(module)} does not open with its idea"


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [name(module) for module in MODULES if VAGUE.search(module.stem)] == []


def test_no_modules_import_each_other() -> None:
    modules = {HOUSE["name_of"](path, SOURCE): path for path in MODULES}
    imports = {name: HOUSE["imported"](name, HOUSE["parsed"](path), modules) for name, path in modules.items()}
    assert [circle for circle in HOUSE["circles_of"](imports) if circle not in HALVES] == []


def test_no_class_name_occurs_twice() -> None:
    assert HOUSE["classes_twice"]({name(path): HOUSE["parsed"](path) for path in MODULES}) == {}
