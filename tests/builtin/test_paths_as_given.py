"""Results show a path as the caller gave it, so that it can be given again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.says_yes import SaysYes

from ferrule import Runtime, Session
from ferrule.tools import builtin_tools


@pytest.mark.parametrize(
    ("tool", "key", "given"),
    [
        ("Read", "file_path", {"file_path": "PLACE/docs/a.txt"}),
        ("readFile", "filePath", {"filePath": "PLACE/docs/a.txt"}),
        ("Write", "file_path", {"file_path": "PLACE/docs/new.txt", "content": "x"}),
        ("Glob", "path", {"pattern": "*", "path": "PLACE/docs"}),
        ("Grep", "path", {"pattern": "one", "path": "PLACE/docs"}),
        ("LS", "path", {"path": "PLACE/docs"}),
        ("listFiles", "path", {"directoryPath": "PLACE/docs"}),
        ("FileSearch", "path", {"pattern": "one", "path": "PLACE/docs"}),
    ],
)
@pytest.mark.parametrize("start", ["", ".", "sub/..", "WORKSPACE"])
def test_a_path_is_shown_as_it_was_given(
    tmp_path: Path, tool: str, key: str, given: dict[str, Any], start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    workspace = tmp_path / "ws"
    for folder in ("docs", "sub"):
        (workspace / folder).mkdir(parents=True)
    (workspace / "docs" / "a.txt").write_text("one\n")
    place = start.replace("WORKSPACE", str(workspace))
    arguments = {name: value.replace("PLACE/", f"{place}/" if place else "") for name, value in given.items()}
    named = next(value for value in arguments.values() if "docs" in value)
    runtime = Runtime(builtin_tools(family="all"), session=Session(workspace=workspace), policy=SaysYes())
    result = runtime.run_sync(tool, arguments)
    assert result.success, result.llm_content
    assert result.data[key] == named


@pytest.mark.parametrize("given", ["./nowhere.txt", "docs/../nowhere.txt", "nowhere.txt"])
def test_an_error_names_it_as_well(tmp_path: Path, given: str) -> None:
    runtime = Runtime(builtin_tools(family="all"), session=Session(workspace=tmp_path))
    assert runtime.run_sync("Read", {"file_path": given}).display_content == f"There is no file at `{given}`."
