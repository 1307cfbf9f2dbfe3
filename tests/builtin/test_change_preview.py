"""What a call would change is told before it does, and telling changes nothing (P4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ferrule import Environment, RulePolicy
from ferrule.builtin.all_tools import builtin_tools
from ferrule.builtin.edit import Preview, preview_change
from ferrule.core.call import RawCall
from ferrule.core.context import Session
from ferrule.core.function_tool import tool
from ferrule.pipeline.run import Runtime


class Desk:
    def __init__(self, folder: Path) -> None:
        self.session = Session(workspace=folder, environment=Environment(history_folder=folder.parent / "history"))
        self.runtime = Runtime(builtin_tools(), policy=RulePolicy(mode="bypass"), session=self.session)

    async def preview(self, name: str, **arguments: Any) -> Preview | None:
        invocation = self.runtime.build(RawCall(name, arguments))
        invocation.session = self.session  # as it is when somebody is asked
        return await preview_change(invocation)

    async def run(self, name: str, **arguments: Any) -> Any:
        return await self.runtime.run(name, arguments)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    folder = tmp_path / "work"
    folder.mkdir()
    return Desk(folder)


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "2"}),
    ("MultiEdit", {"file_path": "a.txt", "edits": [{"old_string": "one", "new_string": "1"}]}),
    ("Write", {"file_path": "a.txt", "content": "other\n"}),
    ("Write", {"file_path": "new/b.txt", "content": "fresh\n"}),
    ("FileSearch", {"pattern": "t(wo)", "replace_with": "T$1", "preview_only": False}),
]


@pytest.mark.parametrize(("name", "arguments"), CHANGES)
async def test_the_preview_is_the_diff_of_what_the_call_then_does(
    desk: Desk, name: str, arguments: dict[str, Any]
) -> None:
    file = desk.session.workspace / "a.txt"
    file.write_text("one\ntwo\n")
    await desk.run("Read", file_path="a.txt")
    before = sorted(desk.session.workspace.rglob("*")), file.read_bytes()
    shown = await desk.preview(name, **arguments)
    assert (sorted(desk.session.workspace.rglob("*")), file.read_bytes()) == before
    done = await desk.run(name, **arguments)
    assert done.success
    assert shown == Preview(done.metadata["diff"])
    assert shown is not None
    assert shown.diff


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("Edit", {"file_path": "none.txt", "old_string": "a", "new_string": "b"}, "no file at `none.txt`"),
        ("Edit", {"file_path": "a.txt", "old_string": "a", "new_string": "b"}, "has not been read yet"),
        ("Write", {"file_path": "../out.txt", "content": ""}, "outside"),
    ],
)
async def test_a_call_that_would_fail_says_why(desk: Desk, name: str, arguments: dict[str, Any], why: str) -> None:
    (desk.session.workspace / "a.txt").write_text("one\n")
    shown = await desk.preview(name, **arguments)
    assert shown is not None
    assert why in shown.problem


async def test_of_commands_searches_and_other_peoples_tools_nothing_is_foretold(desk: Desk) -> None:
    @tool(name="Edit2", kind="write")
    def theirs(file_path: str) -> str:
        """Edit in another way. Use this to test."""
        return file_path

    theirs.name = "Edit"  # another tool of this name is not ours
    runtime = Runtime([theirs], session=desk.session)
    invocation = runtime.build(RawCall("Edit", {"file_path": "a.txt"}))
    invocation.session = desk.session
    assert await preview_change(invocation) is None
    assert await desk.preview("Bash", command="rm a.txt") is None
    assert await desk.preview("FileSearch", pattern="a") is None
    assert await desk.preview("FileSearch", pattern="a", replace_with="b") is None
