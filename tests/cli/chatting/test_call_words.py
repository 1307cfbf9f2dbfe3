"""Each tool says what it does and what came of it, in both languages (M2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ferrule.builtin.all_tools import builtin_tools
from ferrule.cli.chatting.call_view import counted, doing, outcome
from ferrule.cli.words import choose_language
from ferrule.core.result import ToolResult


@pytest.fixture
def chinese() -> Iterator[None]:
    choose_language(["--lang", "zh"])
    yield
    choose_language(["--lang", "en"])


def of(tool: str, data: Any, display: str = "", **metadata: Any) -> str:
    return outcome(ToolResult("call_1", tool, True, "", display, data, metadata=metadata))


CASES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("Read", {"encoding": "utf-8", "lines_read": 1}, {}, "read 1 line"),
    (
        "Read",
        {"encoding": "utf-8", "lines_read": 2000, "total_lines": 5432, "has_more": True},
        {},
        "read 2,000 lines of 5,432",
    ),
    ("Read", {"encoding": "utf-8", "media_type": "application/x-ipynb+json", "lines_read": 3}, {}, "read 3 cells"),
    ("Read", {"encoding": None, "lines_read": 0, "size": 1200, "media_type": "image/png"}, {}, "read 1,200 bytes"),
    ("Write", {"is_overwrite": False, "line_count": 1}, {}, "created, 1 line"),
    ("Write", {"is_overwrite": True, "line_count": 12}, {}, "overwritten, 12 lines"),
    ("Edit", {"added": 3, "removed": 1}, {}, "edited (+3 −1)"),
    ("Glob", {"count": 12}, {}, "found 12 files"),
    ("searchFiles", {"count": 1}, {}, "found 1 file"),
    ("Grep", {"total_files": 0, "total_matches": 0}, {}, "found nothing"),
    ("Grep", {"total_files": 2, "total_matches": None}, {}, "found 2 files"),
    ("Grep", {"total_files": 2, "total_matches": 31}, {}, "found 31 matches in 2 files"),
    ("FileSearch", {"applied": None, "total_files": 1, "matches": 1}, {}, "found 1 match in 1 file"),
    ("FileSearch", {"applied": True, "total_files": 2, "matches": 3}, {}, "replaced 3 places in 2 files"),
    ("FileSearch", {"applied": False, "total_files": 2, "matches": 1}, {}, "would replace 1 place in 2 files"),
    ("FileSearch", {"applied": False, "total_files": 0}, {}, "found nothing"),
    ("LS", {"entries": [1, 2]}, {}, "found 2 entries"),
    ("listFiles", {"total": 1}, {}, "found 1 entry"),
    ("Bash", {"stdout": "", "exit_code": 0}, {"changed": 2}, "done, changed 2 files"),
    ("Bash", {"stdout": "", "exit_code": 3}, {}, "ended with code 3"),
    ("Bash", {"timed_out": False, "shell_id": "bash_1"}, {}, "started as bash_1"),
    ("Bash", {"timed_out": True, "shell_id": "bash_1"}, {}, "goes on as bash_1"),
    ("Bash", {"stdout": "", "waiting_for_input": "Name:"}, {}, "waits for input"),
    ("executeCommand", {"exitCode": 0}, {}, "done"),
    ("KillShell", {"shell_id": "bash_1", "status": "stopped"}, {}, "bash_1: stopped"),
]


@pytest.mark.parametrize(("tool", "data", "metadata", "words"), CASES)
def test_what_came_of_a_call(tool: str, data: dict[str, Any], metadata: dict[str, Any], words: str) -> None:
    assert of(tool, data, **metadata) == words


@pytest.mark.parametrize(("tool", "data", "metadata", "words"), CASES)
def test_the_same_in_chinese(
    chinese: None, tool: str, data: dict[str, Any], metadata: dict[str, Any], words: str
) -> None:
    said = of(tool, data, **metadata)
    assert said != words
    assert any("\u4e00" <= one <= "\u9fff" for one in said)


def test_a_tool_of_someone_else_says_it_in_its_own_words_made_safe() -> None:
    assert of("theirs", {"x": 1}, "sent 3\x1b[2J mails\nand more") == "sent 3\\x1b[2J mails"
    assert of("theirs", None) == "done"
    assert of("Read", ["odd"], "odd") == "odd"


def test_every_built_in_says_what_it_does() -> None:
    quick = {"getCurrentDateTime", "getCurrentDirectory", "getGitInfo"}
    assert {tool.name for tool in builtin_tools() if doing(tool.name) == "working…"} == quick
    assert doing("theirs", "asking the oracle") == "asking the oracle…"
    assert doing("theirs", "calling `theirs`") == "working…", "its name stands before it in the row already"


def test_numbers_have_their_plural() -> None:
    assert counted(1, "1 line", "{n} lines") == "1 line"
    assert counted(12_345, "1 line", "{n} lines") == "12,345 lines"
