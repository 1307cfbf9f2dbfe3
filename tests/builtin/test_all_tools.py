"""The built-ins as a set."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest
from inline_snapshot import snapshot

import ferrule.builtin
from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.lint import lint_tool
from ferrule.core.tool import Style, Tool


def test_every_tool_that_a_module_makes_is_listed_once() -> None:
    modules = [import_module(f"ferrule.builtin.{one.name}") for one in iter_modules(ferrule.builtin.__path__)]
    made = {id(value): value.name for module in modules for value in vars(module).values() if isinstance(value, Tool)}
    assert sorted(made.values()) == sorted(one.name for one in builtin_tools(family="all"))


def test_a_model_gets_one_family_of_names() -> None:
    """C and D name the standard tools, A seven others; both have the three that have no twin."""
    standard, assistant = ([one.name for one in builtin_tools(family=name)] for name in ("standard", "assistant"))
    assert [one.name for one in builtin_tools()] == standard
    assert standard == snapshot(
        [
            "Read",
            "Write",
            "Edit",
            "MultiEdit",
            "Glob",
            "Grep",
            "FileSearch",
            "LS",
            "Bash",
            "BashOutput",
            "BashInput",
            "KillShell",
            "getGitInfo",
            "getCurrentDateTime",
            "getCurrentDirectory",
        ]
    )
    assert assistant == snapshot(
        [
            "readFile",
            "listFiles",
            "searchFiles",
            "executeCommand",
            "getGitInfo",
            "getCurrentDateTime",
            "getCurrentDirectory",
        ]
    )
    assert {one.name for one in builtin_tools(family="all")} == {*standard, *assistant}
    with pytest.raises(ValueError, match="Choose one of standard, assistant, all"):
        builtin_tools(family="asistant")  # type: ignore[arg-type]


def test_each_says_what_holds_for_its_calls() -> None:
    """T1, T2: the titles are those of D; what asks says so, and so does what a batch runs in order."""
    shown = {one.name: (one.display_name, one.requires_permission, one.concurrency_safe) for one in builtin_tools()}
    assert shown == snapshot(
        {
            "Read": ("File Read", False, True),
            "Write": ("File Write", True, True),
            "Edit": ("File Edit", True, True),
            "MultiEdit": ("File Edits", True, True),
            "Glob": ("File Search", False, True),
            "Grep": ("Content Search", False, True),
            "FileSearch": ("Search and Replace", True, True),
            "LS": ("Folder Listing", False, True),
            "Bash": ("Shell Command", True, False),
            "BashOutput": ("Shell Output", False, True),
            "BashInput": ("Shell Input", True, False),
            "KillShell": ("Shell Stop", True, True),
            "getGitInfo": ("Git state", False, True),
            "getCurrentDateTime": ("Current date and time", False, True),
            "getCurrentDirectory": ("Current directory", False, True),
        }
    )


def test_our_own_linter_finds_nothing() -> None:
    """T11."""
    assert [finding for tool in builtin_tools(family="all") for finding in lint_tool(tool)] == []


def test_those_that_are_async_say_that_they_never_block() -> None:
    """They then run on the program's own event loop, where their shells live and no plugin holds them up."""
    assert [tool.name for tool in builtin_tools(family="all") if tool.style is Style.ASYNC and tool.may_block] == []


def test_every_tool_shows_a_call_and_says_what_it_is_for() -> None:
    """T1: examples; the linter has tried each of them against the schema."""
    assert [tool.name for tool in builtin_tools(family="all") if not tool.description.examples] == []
    assert [
        tool.name
        for tool in builtin_tools(family="all")
        if not all(one.description for one in tool.description.examples)
    ] == []
