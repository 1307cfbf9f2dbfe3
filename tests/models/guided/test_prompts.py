"""The words that a small model reads."""

from __future__ import annotations

from inline_snapshot import snapshot

from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.function_tool import tool
from ferrule.models.guided.guide import (
    arguments_prompt,
    choose_prompt,
    passage_prompt,
    plain_messages,
    result_messages,
    unasked_prompt,
)

TOOLS = {one.name: one for one in builtin_tools()}


@tool(name="greet", kind="readonly")
def greet(name: str) -> str:
    """Greet somebody."""
    return name


def test_a_choice_is_asked_for_with_an_example_of_each_tool() -> None:
    assert choose_prompt("find\nfoo.py", [TOOLS["Grep"], greet]) == snapshot("""\
Pick the tool for each request, or none.

Request: thank you, that was nice
Tool: none

Request: search for "FIXME" in the code
Tool: Grep
Arguments: {"pattern": "FIXME"}

Request: Greet somebody.
Tool: greet
Arguments: {"name": string}

Request: find foo.py
Tool:\
""")


def test_the_same_is_asked_with_nothing_to_do() -> None:
    asked, unasked = choose_prompt("read it", [greet]), unasked_prompt([greet])
    assert asked.replace("read it", "...") == unasked


def test_arguments_are_asked_for_with_all_examples_of_the_tool() -> None:
    assert arguments_prompt("find foo.py", TOOLS["Glob"]) == snapshot("""\
Glob: Find files by their name or path, newest first.

Request: find all Python files
Tool: Glob
Arguments: {"pattern": "*.py"}

Request: find files named setup.cfg in the lib folder
Tool: Glob
Arguments: {"pattern": "setup.cfg", "path": "lib"}

Request: find foo.py
Tool: Glob
Arguments:\
""")


def test_a_passage_is_asked_for() -> None:
    assert passage_prompt("what is it?", ["one", "two"]).endswith("Question: what is it?\nResult:\none\ntwo\nAnswer:\n")


def test_words_are_asked_for() -> None:
    told, asked = result_messages("what?", ["one", "two"])
    assert told["content"] == snapshot(
        "Answer the question in one or two short sentences, with what the result says and nothing else."
    )
    assert asked["content"] == "what?\n\nResult:\none\ntwo"
    told, asked = plain_messages("hello")
    assert told["content"] == snapshot(
        "You are Ferrule, an assistant for the files and programs of a project. Answer in one or two short sentences."
    )
    assert asked["content"] == "hello"
