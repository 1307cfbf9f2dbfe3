"""What comes next in a turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.model import AssistantMessage, Message, ToolResults, UserMessage
from ferrule.core.result import ErrorInfo, ToolResult
from ferrule.models.local.local_model import parts_of, turn_so_far


def worked(call: RawCall) -> list[Message]:
    return [AssistantMessage(calls=(call,)), ToolResults((ToolResult(call.id, call.name, True, "fine", "fine"),))]


def unread(call: RawCall) -> list[Message]:
    error = ErrorInfo(ErrorKind.EXECUTION, "`a.py` has not been read yet.", suggestion="Read it first, then change it.")
    return [AssistantMessage(calls=(call,)), ToolResults((ToolResult(call.id, call.name, False, "", "", error=error),))]


@pytest.mark.parametrize(
    ("request_", "parts"),
    [
        ("read a.py", ["read a.py"]),
        ("find all files, then show README.md", ["find all files", "show README.md"]),
        ("列出文件，然后读 a.py", ["列出文件", "读 a.py"]),
        ('write "now and then" to a.txt', ['write "now and then" to a.txt']),
        ("strengthen it", ["strengthen it"]),
        ("then read a.py", ["then read a.py"]),
        ("", []),
    ],
)
def test_a_request_is_split_where_it_says_then(request_: str, parts: list[str]) -> None:
    assert parts_of(request_) == parts


@given(st.text(max_size=100))
def test_no_part_is_empty(text: str) -> None:
    assert all(part.strip() for part in parts_of(text))


def test_one_part_after_the_other() -> None:
    said: list[Message] = [UserMessage("earlier"), AssistantMessage("yes"), UserMessage("find x.py, then read y.py")]
    assert turn_so_far(said).part == "find x.py"
    said += worked(RawCall("Glob", {"pattern": "x.py"}))
    assert turn_so_far(said).part == "read y.py"
    said += worked(RawCall("Read", {"file_path": "y.py"}))
    turn = turn_so_far(said)
    assert (turn.part, [one.call.name for one in turn.outcomes]) == ("", ["Glob", "Read"])


def test_a_file_that_was_not_read_is_read_and_the_change_made_again() -> None:
    said: list[Message] = [UserMessage('change "a" to "b" in a.py')]
    edit = RawCall("Edit", '{"file_path": "a.py"}')
    said += unread(edit)
    assert turn_so_far(said).remedy == "read the file a.py"
    assert turn_so_far(said).again is None
    said += worked(RawCall("Read", '{"file_path": "a.py"}'))
    assert turn_so_far(said).again is edit
    said += worked(RawCall("Edit", edit.arguments))
    turn = turn_so_far(said)
    assert (turn.again, turn.remedy, turn.part) == (None, "", "")
    assert [one.result.success for one in turn.outcomes] == [True]


def test_an_empty_conversation_asks_for_nothing() -> None:
    assert turn_so_far([]).part == ""
