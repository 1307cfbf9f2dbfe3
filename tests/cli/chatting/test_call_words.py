"""What a call does and what came of it is what its tool says, in both languages (M2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.says_yes import SaysYes

from ferrule import RawCall, Runtime, Session, tool
from ferrule.agent.agent_events import CallAsked
from ferrule.agent.calling import doing as words_of
from ferrule.builtin.all_tools import builtin_tools
from ferrule.builtin.command_result import display
from ferrule.builtin.shell_run import Told
from ferrule.cli.chatting.call_view import CallView, counted, doing, outcome, shows_output
from ferrule.cli.words import choose_language
from ferrule.core.result import ToolResult


@pytest.fixture
def chinese() -> Iterator[None]:
    choose_language(["--lang", "zh"])
    yield
    choose_language(["--lang", "en"])


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("Write", {"file_path": "a.py", "content": "x = 1\ny = 2\nz = 3\n"}),
    ("Write", {"file_path": "a.py", "content": "x = 1\n"}),
    ("Edit", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2\ny = 3"}),
    ("Read", {"file_path": "a.py"}),
    ("Read", {"file_path": "a.py", "limit": 1}),
    ("Read", {"file_path": "dot.bin"}),
    ("readFile", {"filePath": "a.py"}),
    ("Glob", {"pattern": "*.py"}),
    ("searchFiles", {"pattern": "*"}),
    ("Grep", {"pattern": "="}),
    ("Grep", {"pattern": "=", "output_mode": "content"}),
    ("Grep", {"pattern": "nowhere"}),
    ("FileSearch", {"pattern": "="}),
    ("FileSearch", {"pattern": "=", "replace_with": ":="}),
    ("FileSearch", {"pattern": "=", "replace_with": ":=", "preview_only": False}),
    ("FileSearch", {"pattern": "nowhere"}),
    ("LS", {}),
    ("listFiles", {}),
]


async def results(folder: Path) -> list[tuple[str, ToolResult]]:
    (folder / "dot.bin").write_bytes(bytes(range(256)))
    runtime = Runtime(builtin_tools(family="all"), session=Session(workspace=folder), policy=SaysYes())
    async with runtime:
        return [(name, await runtime.run(RawCall(name, arguments))) for name, arguments in CALLS]


async def test_what_came_of_a_call(tmp_path: Path) -> None:
    said = "\n".join(f"{name}: {outcome(result)}" for name, result in await results(tmp_path))
    assert said == snapshot("""\
Write: created, 3 lines
Write: overwritten, 1 line
Edit: edited (+2 −1)
Read: read 2 lines
Read: read line 1 of 2
Read: binary file, 256 bytes
readFile: read 12 bytes
Glob: found 1 file
searchFiles: found 2 files
Grep: found 1 file
Grep: found 2 matches in 1 file
Grep: found nothing
FileSearch: found 2 matches in 1 file
FileSearch: would replace 2 places in 1 file
FileSearch: replaced 2 places in 1 file
FileSearch: found nothing
LS: found 2 entries
listFiles: found 2 entries\
""")


async def test_the_same_in_chinese(tmp_path: Path, chinese: None) -> None:
    said = "\n".join(f"{name}: {outcome(result)}" for name, result in await results(tmp_path))
    assert said == snapshot("""\
Write: 已创建，3 行
Write: 已覆盖，1 行
Edit: 已编辑（+2 −1）
Read: 读取了 2 行
Read: 读取了第 1 行，共 2 行
Read: 二进制文件，256 字节
readFile: 读取了 12 字节
Glob: 找到 1 个文件
searchFiles: 找到 2 个文件
Grep: 找到 1 个文件
Grep: 找到 2 处匹配，在 1 个文件中
Grep: 没有找到
FileSearch: 找到 2 处匹配，在 1 个文件中
FileSearch: 将替换 2 处，在 1 个文件中
FileSearch: 已替换 2 处，在 1 个文件中
FileSearch: 没有找到
LS: 找到 2 项
listFiles: 找到 2 项\
""")


def ran(**known: Any) -> Any:
    return {"exit_code": None, "timed_out": False, "shell_id": None, "waiting_for_input": None, **known}


@pytest.mark.parametrize(
    ("known", "changed", "english"),
    [
        ({"exit_code": 0}, 0, "done"),
        ({"exit_code": 0}, 1, "done, changed 1 file"),
        ({"exit_code": 3}, 2, "ended with code 3, changed 2 files"),
        ({"shell_id": "bash_1"}, None, "started as bash_1"),
        ({"shell_id": "bash_1", "timed_out": True}, None, "continues as bash_1"),
        ({"waiting_for_input": "Name:"}, None, "waits for input"),
    ],
)
def test_what_came_of_a_command(known: dict[str, Any], changed: int | None, english: str, chinese: None) -> None:
    told = Told()
    told.changed = changed
    said = display(ran(**known), told)
    assert said == english
    in_chinese = outcome(ToolResult("c", "Bash", True, "", said))
    assert in_chinese != english
    assert any("\u4e00" <= one <= "\u9fff" for one in in_chinese)


def test_a_tool_of_someone_else_says_it_in_its_own_words_made_safe() -> None:
    assert outcome(ToolResult("c", "theirs", True, "", "sent 3\x1b[2J mails\nand more")) == "sent 3\\x1b[2J mails"
    assert outcome(ToolResult("c", "theirs", True, "", "")) == "done"


@tool(kind="readonly", doing="asking the oracle about `{topic}`")
def ask_oracle(topic: str) -> str:
    """Ask the oracle. Use this for what nobody knows."""
    return topic


@tool(kind="readonly")
def wait_for_rain(town: str) -> str:
    """Wait for rain. Use this when it is dry."""
    return town


@pytest.mark.parametrize(
    ("one", "arguments", "row"),
    [
        (ask_oracle, {"topic": "rain"}, "[running] asking the oracle about `rain`…"),
        (wait_for_rain, {"town": "York"}, '[running] wait_for_rain {"town": "York"}…'),
        (None, {"town": "York"}, '[running] nothing {"town": "York"}…'),
    ],
)
def test_while_it_runs_a_tool_says_what_it_does_and_else_what_it_was_given(
    one: Any, arguments: dict[str, Any], row: str
) -> None:
    call = RawCall(one.name if one else "nothing", arguments)
    assert CallView(CallAsked(call, *words_of(one, call)), 0.0).running_row() == row


def test_every_built_in_says_what_it_does_in_chinese(chinese: None) -> None:
    for one in builtin_tools(family="all"):
        schema: Any = one.input_schema
        values = dict.fromkeys(schema.get("properties", {}), "x")
        said = doing(CallAsked(RawCall(one.name, {}), "", one.doing, values))
        assert any("\u4e00" <= character <= "\u9fff" for character in said), one.name


def test_what_a_search_streams_is_its_result_again() -> None:
    assert {one.name for one in builtin_tools(family="all") if not shows_output(one)} == {
        "Glob", "Grep", "FileSearch", "searchFiles",
    }  # fmt: skip
    assert shows_output(ask_oracle)
    assert shows_output(None)


def test_numbers_have_their_plural() -> None:
    assert counted(1, "1 line", "{n} lines") == "1 line"
    assert counted(12_345, "1 line", "{n} lines") == "12,345 lines"
