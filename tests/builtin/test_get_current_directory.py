"""getCurrentDirectory, through the real pipeline."""

from __future__ import annotations

import asyncio
from pathlib import Path

from inline_snapshot import snapshot

from ferrule import Runtime, Session
from ferrule.builtin.surroundings import get_current_directory


def test_it_is_the_workspace_unless_another_directory_was_chosen(tmp_path: Path) -> None:
    runtime = Runtime([get_current_directory], session=Session(workspace=tmp_path))
    inner = Session(workspace=tmp_path, working_directory=tmp_path / "名 x")
    assert asyncio.run(runtime.run("getCurrentDirectory")).data == {"path": str(tmp_path), "basename": tmp_path.name}
    assert asyncio.run(runtime.run("getCurrentDirectory", session=inner)).data["basename"] == "名 x"


def test_what_a_model_reads_of_it() -> None:
    tool = get_current_directory
    assert tool.description.text == snapshot("""\
Get the directory that relative paths start from.

Use this to learn where you are before naming files by relative paths.

Examples:
- which directory is this: {}\
""")
    assert tool.input_schema == snapshot({"additionalProperties": False, "properties": {}, "type": "object"})
