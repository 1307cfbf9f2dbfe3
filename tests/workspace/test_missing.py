"""What is near where nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule.workspace.paths import Paths
from ferrule.workspace.problems import PathError


def words(folder: Path, given: str) -> tuple[str, str | None]:
    with pytest.raises(PathError) as problem:
        Paths([folder]).find(given)
    assert problem.value.code == "missing"
    return problem.value.message, problem.value.suggestion


def test_a_path_as_another_system_writes_it_is_translated(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/app.py").touch()
    assert words(tmp_path, "src\\app.py") == snapshot(
        ("There is no file at `src\\app.py`.", "Did you mean `src/app.py`?")
    )
    assert words(tmp_path, "src\\none.py") == snapshot(("There is no file at `src\\none.py`.", "Did you mean `src`?"))
    assert words(tmp_path, "..\\etc") == snapshot(
        ("There is no file at `..\\etc`.", "No name in `.` is similar; list the folder to see what is there.")
    )


def test_a_missing_name_is_never_left_without_a_next_step(tmp_path: Path) -> None:
    assert words(tmp_path, "qqq") == snapshot(
        ("There is no file at `qqq`.", "No name in `.` is similar; list the folder to see what is there.")
    )
    assert words(tmp_path, "a/b/c") == snapshot(
        ("There is no file at `a/b/c`, and no folder `a/b`.", "The nearest folder that exists is `.`.")
    )
    assert words(tmp_path, "two\nlines") == snapshot(
        ('There is no file at `"two\\nlines"`.', "No name in `.` is similar; list the folder to see what is there.")
    )


def test_what_is_near_is_sought_no_higher_than_the_root(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert words(tmp_path, "file/x/y") == snapshot(
        ("There is no file at `file/x/y`, and no folder `file/x`.", "The nearest folder that exists is `.`.")
    )
