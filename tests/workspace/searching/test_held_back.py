"""Counting what a search holds back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ferrule import Session
from ferrule.policy.decide import RulePolicy
from ferrule.policy.restrictions import RuleRestrictions
from ferrule.workspace.files import files_of
from ferrule.workspace.searching.ripgrep import find_ripgrep
from ferrule.workspace.searching.search import count_held_back, exclusions


def count(root: Path, *deny: str, start: str = ".") -> int:
    session = Session(workspace=root, restrictions=RuleRestrictions(RulePolicy(deny=deny)))
    paths = files_of(session).paths
    return asyncio.run(count_held_back(find_ripgrep(paths), paths, paths.find(start)))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a.key", "sub/b.key", "sub/deep/c.key", "sub/d.txt", ".env", "include:x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    return tmp_path


@pytest.mark.parametrize(
    ("deny", "expected"),
    [
        ((), 1),
        (("Read(*.key)",), 4),
        (("Read(*.key)", "Read(a.key)"), 4),
        (("Read(./sub/**)",), 4),
        (("Read(sub)",), 4),
        (("Read(**/deep/**)",), 2),
        (("Read(./nowhere/**)",), 1),
        (("Read(//**)",), 6),
        (("Read(include:x)",), 2),
    ],
)
def test_each_file_is_counted_once(root: Path, deny: tuple[str, ...], expected: int) -> None:
    assert count(root, *deny) == expected


def test_only_what_the_search_comes_to_is_counted(root: Path) -> None:
    assert count(root, "Read(*.key)", start="sub") == 2
    assert count(root, "Read(*.key)", start="a.key") == 0, "it was named, and decided by name"


def test_ripgrep_is_told_not_to_open_what_is_held_back(root: Path) -> None:
    session = Session(workspace=root, restrictions=RuleRestrictions(RulePolicy(deny=["Read(*.key)"])))
    paths = files_of(session).paths
    assert {"--glob=!*.key", "--glob=!.env"} <= set(exclusions(paths, paths.find(".")))
