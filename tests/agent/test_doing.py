"""What a call does, in words for the person (M2)."""

from __future__ import annotations

import pytest

from ferrule import RawCall
from ferrule.agent.calling import doing
from ferrule.builtin.all_tools import builtin_tools

TOOLS = {tool.name: tool for tool in builtin_tools(family="all")}


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("Read", '{"file_path": "a.py"}', "reading `a.py`"),
        ("Bash", {"command": "make\n  test"}, "running `make test`"),
        ("Grep", {"pattern": "x{2}"}, "searching for `x{2}`"),
        ("LS", None, "listing `.`"),
        ("LS", "{}", "listing `.`"),
        ("BashOutput", {}, "reading what a background command wrote"),
        ("Read", "{broken", "calling `Read`"),
        ("Read", "[1]", "calling `Read`"),
        ("Read", {}, "calling `Read`"),
        ("Nothing", {}, "calling `Nothing`"),
        ("Write", {"file_path": "x" * 500}, f"writing `{'x' * 119}…`"),
    ],
)
def test_words_for_a_call(name: str, arguments: object, words: str) -> None:
    assert doing(TOOLS.get(name), RawCall(name, arguments))[0] == words  # type: ignore[arg-type]


def test_every_built_in_says_what_it_does() -> None:
    assert [name for name, tool in TOOLS.items() if not tool.doing] == []


def test_the_pattern_and_the_values_make_the_words_again() -> None:
    words, pattern, values = doing(TOOLS["Read"], RawCall("Read", {"file_path": "{a}"}))
    assert pattern == "reading `{file_path}`"
    assert pattern.format(**values) == words == "reading `{a}`"
