"""The architecture page leads a newcomer to the right place: what it names is there."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/ferrule"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def paths(text: str) -> list[str]:
    """What stands in code and looks like a package or a module."""
    return [one for one in re.findall(r"`([\w/]+(?:\.py)?)`", text) if "/" in one or (SOURCE / one).is_dir()]


def test_twelve_questions_are_answered_by_paths_that_exist() -> None:
    rows = re.findall(r"^\| (.+\?) \| (.+) \|$", section("Where is it decided?"), re.MULTILINE)
    assert len(rows) == 12
    answers = {question: re.findall(r"`([^`]+)`", places) for question, places in rows}
    assert [question for question, places in answers.items() if not 1 <= len(places) <= 2] == []
    assert [place for places in answers.values() for place in places if not (SOURCE / place).exists()] == []


def test_where_to_add_something_exists() -> None:
    named = paths(section("Where to add something"))
    assert len(named) > 8
    assert [one for one in named if not (SOURCE / one).exists() and not (ROOT / one).exists()] == []


def test_what_a_first_change_touches_exists() -> None:
    named = re.findall(
        r"\b(?:src|tests|docs|scripts)/[\w/.-]+\w", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    )
    assert len(named) > 3
    assert [one for one in named if not (ROOT / one).exists()] == []


def test_the_picture_shows_the_layers_as_they_are() -> None:
    loader = importlib.machinery.SourceFileLoader("pictures", str(ROOT / "scripts/pictures"))
    spec = importlib.util.spec_from_loader("pictures", loader)
    assert spec is not None
    pictures: Any = importlib.util.module_from_spec(spec)
    loader.exec_module(pictures)
    assert pictures.PICTURE.read_text(encoding="utf-8") == pictures.drawn(), "run scripts/pictures"
    packages = {folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").exists()}
    assert {name for row in pictures.layers() for name in row} == packages
