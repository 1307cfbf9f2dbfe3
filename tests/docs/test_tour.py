"""The tour of the file tools shows what they really say, and leaves none of them out (must-show 5)."""

from __future__ import annotations

import re

import pytest
from tests.docs import tour

from ferrule.builtin.all_tools import builtin_tools

PAGE = tour.PAGE.read_text(encoding="utf-8")
SECTIONS = [section for section in tour.sections(PAGE) if "```call\n" in section]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.splitlines()[0])
def test_a_section_shows_what_the_tools_answer(section: str) -> None:
    assert tour.renewed(section) == section, "run scripts/tour, and look at what has changed"


def test_every_call_in_it_is_answered() -> None:
    blocks = PAGE.count("```call\n")
    assert blocks == len(re.findall(r"^```call\n.*?^```\n\n```text\n", PAGE, re.MULTILINE | re.DOTALL))
    assert blocks > 50


def test_every_file_tool_is_in_it_in_a_good_and_a_bad_case() -> None:
    called = dict[str, list[bool]]()
    for calls, shown in re.findall(r"^```call\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        lines = [line for line in calls.splitlines() if not line.startswith("# ")]
        if lines:
            called.setdefault(lines[-1].split()[0], []).append("Error (" not in shown)
    tools = {tool.name for tool in builtin_tools() if tool.category in ("files", "git")}
    assert tools <= set(called)
    for tool in tools - {"getCurrentDirectory", "getGitInfo"}:  # neither takes a path, so little can be wrong
        assert set(called[tool]) == {True, False}, tool


def test_what_is_wrong_on_the_page_is_put_right() -> None:
    section = '## Read\n\n```call\nRead {"file_path": "notes.txt"}\n```\n\n```text\nstale\n```\n'
    assert tour.renewed(section) == section.replace("stale", "     1\tbuy milk\n     2\tcall Ada")


def test_a_step_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(KeyError):
        tour.renewed("## X\n\n```call\n# the moon rises\n```\n\n```text\n```\n")
