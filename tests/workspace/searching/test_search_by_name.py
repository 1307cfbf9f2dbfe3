"""A search by name, as both tools that do it make it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from ferrule import Session, ToolContext
from ferrule.workspace.problems import PathError
from ferrule.workspace.searching import find_files as module
from ferrule.workspace.searching.find_files import search_by_name


def search(root: Path, pattern: str, folder: str = ".") -> tuple[list[str], int, list[Any]]:
    shown: list[Any] = []
    context = ToolContext(Session(workspace=root), "c", "t", shown.append)
    _, names, found = asyncio.run(search_by_name(context, pattern, folder, "baseDir"))
    return [names.show(name) for name in found.names], found.total, [event.content for event in shown]


def test_the_newest_come_first_and_all_are_shown_as_they_come(tmp_path: Path) -> None:
    for second, name in enumerate(("old.py", "new.py", "other.txt")):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (second, second))
    names, total, shown = search(tmp_path, "*.py")
    assert (names, total) == (["new.py", "old.py"], 2)
    assert sorted("\n".join(shown).split("\n")) == ["new.py", "old.py"]


def test_no_more_is_shown_than_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    for number in range(10):
        (tmp_path / f"{number}.py").write_text("")
    names, total, shown = search(tmp_path, "*.py")
    assert (len(names), total) == (3, 10)
    assert len("\n".join(shown).split("\n")) == 3


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    with pytest.raises(PathError) as raised:
        search(tmp_path, "*", "a.py")
    assert raised.value.suggestion == "Give a folder as `baseDir`."
