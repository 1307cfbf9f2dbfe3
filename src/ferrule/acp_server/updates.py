"""What an editor is shown, in the protocol's forms: calls with their diffs, questions, and a conversation again."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from acp.helpers import (
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_plan,
    update_tool_call,
    update_user_message_text,
)
from acp.schema import FileEditToolCallContent, PermissionOption, PlanEntry, ToolCallLocation, ToolCallUpdate

from ferrule.agent.agent_events import TODO
from ferrule.agent.conversation import said_by_user
from ferrule.core.model import AssistantMessage, ToolResults
from ferrule.core.phrases import joined, phrase
from ferrule.core.shown_text import cut_counted, shown, shown_row, visible
from ferrule.core.tool import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from acp.schema import AgentPlanUpdate, ToolCallProgress, ToolCallStart, ToolKind

    from ferrule.agent.todo_tool import Todo
    from ferrule.core.call import RawCall
    from ferrule.core.events import Question
    from ferrule.core.model import Message
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool

ONCE, ALWAYS, NO = "once", "always", "no"
_FILES = ("file_path", "filePath", "path", "directoryPath")
_MOST = 20_000
"""Characters of a result that are shown; the model reads what it reads."""
_FILE = re.compile(r"(?:---|\+\+\+) (?:[ab]/(?P<name>.+)|/dev/null)")


def kind_of(tool: Tool[Any] | None) -> ToolKind:
    """Which picture an editor shows for a call."""
    if tool is None or tool.category == "agent":
        return "think" if tool is not None else "other"
    if tool.category == "web":
        return "fetch"
    if "search" in tool.tags:
        return "search"
    kinds: dict[object, ToolKind] = {Kind.READONLY: "read", Kind.WRITE: "edit", Kind.EXECUTE: "execute"}
    return kinds.get(tool.kind, "other")


def arguments_of(call: RawCall) -> dict[str, Any]:
    """The arguments as far as they can be read."""
    given = call.arguments
    if isinstance(given, str | bytes):
        try:
            given = json.loads(given)
        except ValueError:
            return {}
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}


def started(call: RawCall, title: str, tool: Tool[Any] | None, workspace: Path) -> ToolCallStart:
    """A call that the model asked for."""
    arguments = arguments_of(call)
    return start_tool_call(
        call.id,
        shown_row(title, 200),
        kind=kind_of(tool),
        status="pending",
        locations=_places(arguments, workspace),
        raw_input=arguments,
    )


def _places(arguments: dict[str, Any], workspace: Path) -> list[ToolCallLocation]:
    named = next((arguments[key] for key in _FILES if isinstance(arguments.get(key), str)), None)
    return [ToolCallLocation(path=str(workspace / named))] if named else []


def ended(result: ToolResult, workspace: Path, said: str) -> ToolCallProgress:
    """How a call ended: what it changed, or what came of it; `said` is its error in the user's language."""
    diff = result.metadata.get("diff")
    content: list[Any] = diff_contents(diff, workspace) if isinstance(diff, str) and result.success else []
    if not content:
        content = [code_content(cut_counted(said + result.after_error, _MOST))]
    return update_tool_call(result.call_id, status="completed" if result.success else "failed", content=content)


def plan_of(todos: Sequence[Todo]) -> AgentPlanUpdate:
    """The model's list of steps."""
    return update_plan([PlanEntry(content=visible(one.content), priority="medium", status=one.status) for one in todos])


def diff_contents(diff: str, workspace: Path) -> list[Any]:
    """A unified diff as the protocol has it: each hunk with the old and the new lines; what is no hunk stays text."""
    content: list[Any] = []
    old: list[str] | None = None
    new: list[str] = []
    names: list[str | None] = [None, None]
    rest: list[str] = []

    def finish() -> None:
        nonlocal old
        path = names[1] or names[0]
        if old is not None and path is not None:
            before = "".join(old) if names[0] is not None else None
            content.append(
                FileEditToolCallContent(type="diff", path=str(workspace / path), old_text=before, new_text="".join(new))
            )
        old = None
        new.clear()

    for line in visible(diff).splitlines():
        if old is None and (found := _FILE.fullmatch(line)):
            names[line.startswith("+")] = found["name"]
        elif line.startswith("@@"):
            finish()
            old = []
        elif old is not None and line[:1] in (" ", "-", "+", ""):
            if line[:1] != "+":
                old.append(f"{line[1:]}\n")
            if line[:1] != "-":
                new.append(f"{line[1:]}\n")
        elif old is not None and line.startswith("\\"):
            _without_last_end(old)
            _without_last_end(new)
        else:
            finish()
            if found := _FILE.fullmatch(line):
                names[line.startswith("+")] = found["name"]
            else:
                rest.append(line)
    finish()
    return [*content, *([code_content("\n".join(rest))] if rest else [])]


def _without_last_end(lines: list[str]) -> None:
    if lines:
        lines[-1] = lines[-1].removesuffix("\n")


def code_content(text: str) -> Any:
    """Text that is not ours, safe to show."""
    return tool_content(text_block(_indented(shown(text))))


def _indented(text: str) -> str:
    """As code, line by line: nothing in it can pass for words of ours."""
    return "\n".join(f"    {line}" for line in text.split("\n"))


def asked(
    question: Question, workspace: Path, say: Callable[[str], str]
) -> tuple[ToolCallUpdate, list[PermissionOption]]:
    """A question with everything that the user needs to decide, and the answers they can give."""
    invocation = question.invocation
    parts = [say(question.reason), _indented(shown(question.summary))]
    if question.effects is not None:
        parts.append(_listed(question.effects.lines(), say))
    if found := question.disguises:
        parts.append(
            say(phrase("Warning: {text}", text=joined(", ", [phrase("it contains {what}", what=one) for one in found])))
        )
    if question.warning:
        parts.append(say(phrase("Warning: {text}", text=question.warning)))
    content: list[Any] = [tool_content(text_block("\n\n".join(parts)))]
    if question.preview:
        content += diff_contents(question.preview, workspace)
    if question.effects is not None and question.effects.folded():
        every = (say(phrase("Every file:")), _listed(question.effects.every_line, say))
        content.append(tool_content(text_block("\n\n".join(every))))
    options = [PermissionOption(option_id=ONCE, name=say(phrase("Allow once")), kind="allow_once")]
    if question.rule:
        name = say(phrase("Always in this session: {rule}", rule=shown_row(question.rule)))
        options.append(PermissionOption(option_id=ALWAYS, name=name, kind="allow_always"))
    options.append(PermissionOption(option_id=NO, name=say(phrase("Deny")), kind="reject_once"))
    update = ToolCallUpdate(
        tool_call_id=invocation.call_id,
        title=shown_row(question.summary, 500),
        kind=kind_of(invocation.tool),
        status="pending",
        content=content,
        raw_output=question.effects.as_data() if question.effects is not None else None,
    )
    return update, options


def _listed(lines: Sequence[str], say: Callable[[str], str]) -> str:
    return _indented("\n".join(shown_row(say(line)) for line in lines))


def told_again(
    messages: Sequence[Message], tool_of: Callable[[str], Tool[Any] | None], workspace: Path
) -> Iterator[Any]:
    """A saved conversation, for an editor that opens it: what was said, and the calls with how they ended."""
    for message in messages:
        if isinstance(message, ToolResults):
            for result in message.results:
                yield ended(result, workspace, result.error.message if result.error is not None else "")
        elif isinstance(message, AssistantMessage):
            if message.text:
                yield update_agent_message_text(visible(message.text))
            for call in message.calls:
                yield started(call, _label(call), tool_of(call.name), workspace)
        elif said := said_by_user(message):
            yield update_user_message_text(said)


def _label(call: RawCall) -> str:
    arguments = arguments_of(call)
    telling = next(
        (arguments[key] for key in ("command", *_FILES, "pattern") if isinstance(arguments.get(key), str)), ""
    )
    return f"{call.name} {telling}".strip()


def is_todo(tool: str) -> bool:
    return tool == TODO
