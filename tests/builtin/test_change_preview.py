"""What a call would change is told before it does, and telling changes nothing (P4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ferrule import Environment, Question, RulePolicy, ToolError, ToolResult
from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.call import RawCall
from ferrule.core.context import Session
from ferrule.core.function_tool import tool
from ferrule.pipeline.run import Runtime


class Desk:
    def __init__(self, folder: Path) -> None:
        self.session = Session(workspace=folder, environment=Environment(history_folder=folder.parent / "history"))
        self.runtime = Runtime(
            builtin_tools(), policy=RulePolicy(mode="bypass"), session=self.session, ask=self._answer
        )
        self.questions: list[Question] = []

    def _answer(self, question: Question) -> str:
        self.questions.append(question)
        return "once"

    async def preview(self, name: str, **arguments: Any) -> str:
        invocation = self.runtime.build(RawCall(name, arguments))
        return await invocation.tool.preview(invocation.params, self.session)

    async def asked(self, name: str, **arguments: Any) -> ToolResult:
        """Run it where the user is asked about everything that may change something."""
        self.runtime.policy = RulePolicy()
        return await self.runtime.run(name, arguments)

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
    assert shown == done.metadata["diff"] != ""


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "why"),
    [
        ("Edit", {"file_path": "none.txt", "old_string": "a", "new_string": "b"}, "not_found_error", "no file at"),
        ("Edit", {"file_path": "a.txt", "old_string": "a", "new_string": "b"}, "validation_error", "has not been read"),
        ("Write", {"file_path": "a.txt", "content": ""}, "validation_error", "has not been read yet"),
        ("MultiEdit", {"file_path": "b.txt", "edits": [{"old_string": "x", "new_string": "y"}]}, "", "b.txt"),
        ("FileSearch", {"pattern": "(", "replace_with": "b", "preview_only": False}, "validation_error", "pattern"),
    ],
)
async def test_a_call_that_must_fail_fails_without_asking(
    desk: Desk, name: str, arguments: dict[str, Any], kind: str, why: str
) -> None:
    (desk.session.workspace / "a.txt").write_text("one\n")
    result = await desk.asked(name, **arguments)
    assert not desk.questions
    assert result.error is not None
    assert why in result.error.message
    assert not kind or result.error.kind == kind


async def test_of_commands_and_searches_nothing_is_foretold(desk: Desk) -> None:
    assert await desk.preview("Bash", command="rm a.txt") == ""
    assert await desk.preview("FileSearch", pattern="a") == ""
    assert await desk.preview("FileSearch", pattern="a", replace_with="b") == ""


async def test_a_tool_of_ones_own_may_have_one_and_a_broken_one_harms_nobody(desk: Desk) -> None:
    async def preview(params: Any, session: Session) -> str:
        if params.text == "fail":
            raise ToolError("It is full.", suggestion="Remove something.")
        return f"It would keep {params.text}." if params.text else str(1 / 0)

    @tool(kind="write", preview=preview)
    def keep(text: str) -> str:
        """Keep a text. Use this to test."""
        return text

    desk.runtime = Runtime([keep], session=desk.session, ask=desk._answer)
    assert (await desk.asked("keep", text="a note")).success
    assert [one.preview for one in desk.questions] == ["It would keep a note."]
    assert (await desk.asked("keep", text="fail")).llm_content == (
        "Error (execution_error): It is full.\n\nSuggestion: Remove something."
    )
    assert (await desk.asked("keep", text="")).success
    assert [one.preview for one in desk.questions] == ["It would keep a note.", ""]
