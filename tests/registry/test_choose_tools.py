"""The few tools that fit a request, for models that cannot read about many."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.function_tool import tool
from ferrule.core.tool import Tool
from ferrule.registry.choose_tools import ToolChooser, same_thing

BUILT_IN = {one.name: one for one in builtin_tools()}
STANDARD = [one for one in builtin_tools() if "standard" in one.tags]


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ("find all Python files", "Glob"),
        ("找出所有 Python 文件", "Glob"),
        ("search for a word in the code", "Grep"),
        ("在代码里搜索一个词", "Grep"),
        ("stop the background command", "KillShell"),
        ("停止后台命令", "KillShell"),
        ('change "a" to "b" in c.py', "Edit"),
        ("list what is in this folder", "LS"),
    ],
)
def test_the_right_tool_is_among_the_few(request_: str, wanted: str) -> None:
    chosen = ToolChooser(STANDARD).choose(request_, 3)
    assert wanted in [one.name for one in chosen]
    assert len(chosen) <= 3


def test_tools_of_others_are_found_by_their_own_words() -> None:
    @tool(name="send_mail", kind="execute")
    def send_mail(to: str, text: str) -> str:
        """Send an e-mail to somebody."""
        return to + text

    @tool(name="forecast", kind="readonly")
    def forecast(town: str) -> str:
        """Tell the weather of the next days."""
        return town

    chooser = ToolChooser([*STANDARD, send_mail, forecast])
    assert chooser.choose("给张三发一封邮件", 1) == [send_mail]
    assert chooser.choose("will it rain tomorrow? what is the weather?", 1) == [forecast]


def test_nothing_is_chosen_for_a_greeting() -> None:
    assert ToolChooser(STANDARD).choose("hello", 3) == []
    assert ToolChooser([]).choose("hello", 3) == []


def test_what_is_named_does_not_count_as_a_word() -> None:
    """A file called `search.py` is no wish to search."""
    plain = ToolChooser(STANDARD).rank("read it")
    named = ToolChooser(STANDARD).rank("read search.py")
    assert plain[0].score == named[0].score


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Read", "readFile", True),
        ("LS", "listFiles", True),
        ("Grep", "searchFiles", False),
        ("Bash", "BashInput", False),
        ("Read", "Write", False),
    ],
)
def test_twins_are_told_from_others(one: str, other: str, same: bool) -> None:
    first: Tool[Any] = BUILT_IN[one]
    assert same_thing(first, BUILT_IN[other]) is same
    assert same_thing(BUILT_IN[other], first) is same


def test_of_twins_one_is_chosen() -> None:
    chosen = [one.name for one in ToolChooser(builtin_tools()).choose("read a file", 5)]
    assert len({"Read", "readFile"} & set(chosen)) == 1
