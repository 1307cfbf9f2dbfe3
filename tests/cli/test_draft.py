"""`ferrule draft`: from a description to a tool that the user has looked at (M4), with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .test_call import at_a_terminal

if TYPE_CHECKING:
    from .conftest import Command

GOOD = '''\
from ferrule import tool


@tool(kind="readonly")
def count_words(text: str) -> int:
    """Count the words of a text. Use this for questions about its length.

    Args:
        text: Any text.
    """
    return len(text.split())
'''
LYING = GOOD.replace("return", "open('made.txt', 'w').close(); return")


def script(ferrule: Command, *codes: str) -> str:
    """A model that hands these drafts in, one after the other."""
    file = ferrule.folder / "script.json"
    examples = [{"arguments": {"text": "one two"}, "check": "result >= 2"}]
    calls = [{"description": "Counts words.", "code": code, "examples": examples} for code in codes]
    file.write_text(json.dumps([{"calls": [{"name": "draft_tool", "arguments": one}]} for one in calls]))
    return f"scripted:{file}"


def drafts(ferrule: Command) -> list[str]:
    return sorted(str(one.relative_to(ferrule.workspace)) for one in ferrule.workspace.rglob("*.py"))


def test_where_nobody_can_be_asked_a_draft_waits_until_it_is_accepted(ferrule: Command) -> None:
    """M4: not even --yes skips the look of it."""
    new = ferrule("draft", "count the words of a text", "--model", script(ferrule, GOOD))
    assert new.code == 0
    assert "return len(text.split())" in new.out
    assert '- {"text": "one two"} → 2' in new.out
    assert "To accept it: ferrule draft accept count_words" in new.err
    assert drafts(ferrule) == [".ferrule/drafts/count_words.py"]
    assert "There is no tool `count_words`" in ferrule("call", "count_words", '{"text": "a"}').err

    alone = ferrule("draft", "accept", "count_words")
    assert (alone.code, "run this at a terminal" in alone.err) == (2, True)
    assert drafts(ferrule) == [".ferrule/drafts/count_words.py"]

    accepted = ferrule("draft", "accept", "count_words", "--yes")
    assert accepted.code == 0
    assert "return len(text.split())" in accepted.out
    assert drafts(ferrule) == [".ferrule/tools/count_words.py"]
    assert ferrule("call", "count_words", '{"text": "a b c"}').out == "3\n"

    assert ferrule("undo").code == 0
    assert drafts(ferrule) == []
    assert ferrule("redo").code == 0
    assert ferrule("call", "count_words", '{"text": "a b c"}').out == "3\n"


@pytest.mark.slow
def test_at_a_terminal_the_user_may_edit_it_first_and_what_they_agree_to_is_used(ferrule: Command) -> None:
    """M4."""
    editor = ferrule.folder / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/return len/return 10 * len/' \"$1\"\n")
    editor.chmod(0o755)
    ferrule.environment["EDITOR"] = str(editor)
    ferrule.environment.pop("VISUAL", None)
    new = ["draft", "count words", "--model", script(ferrule, GOOD)]
    shown, code = at_a_terminal(ferrule, new, "e\n", "y\n")
    assert code == 0
    assert shown.count("Accept it? Yes (y), edit it first (e)") == 2
    assert "return 10 * len(text.split())" in shown
    assert ferrule("call", "count_words", '{"text": "a b"}').out == "20\n"


@pytest.mark.slow
def test_no_means_no(ferrule: Command) -> None:
    """M4."""
    new = ["draft", "count words", "--model", script(ferrule, GOOD)]
    shown, code = at_a_terminal(ferrule, new, "n too simple\n")
    assert code == 3
    assert "too simple" in shown
    assert drafts(ferrule) == []


@pytest.mark.slow
def test_after_three_bad_drafts_it_says_why_and_keeps_none(ferrule: Command) -> None:
    """M4."""
    new = ferrule("draft", "count words", "--model", script(ferrule, "def broken(", LYING, LYING, GOOD))
    assert new.code == 1
    assert 'It says kind="readonly", but its run changed `made.txt`.' in new.err
    assert drafts(ferrule) == []
    assert not (ferrule.workspace / "made.txt").exists()


@pytest.mark.slow
def test_a_draft_that_leads_out_of_the_workspace_is_not_kept(ferrule: Command, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (ferrule.workspace / ".ferrule").symlink_to(outside)
    new = ferrule("draft", "count words", "--model", script(ferrule, GOOD))
    assert new.code != 0
    assert "outside" in new.err
    assert list(outside.iterdir()) == []


def test_what_cannot_be_is_said_in_a_line(ferrule: Command) -> None:
    assert "The description is empty." in ferrule("draft", " ").err
    assert "No model is chosen." in ferrule("draft", "count words").err
    assert "There is no draft ../mine in .ferrule/drafts." in ferrule("draft", "accept", "../mine", "--yes").err
    off = ferrule("draft", "accept", "x", "--yes", FERRULE_TOOLS_DRAFTS="false")
    assert "Drafts are turned off in your settings" in off.err
    waiting = ferrule.workspace / ".ferrule/drafts/half.py"
    waiting.parent.mkdir(parents=True)
    waiting.write_text(GOOD)
    assert "There is no EXAMPLES list" in ferrule("draft", "accept", "half", "--yes").err


def test_a_new_draft_can_be_accepted_beforehand_and_those_that_wait_are_listed(ferrule: Command) -> None:
    words = ("count the words of a text", "--model", script(ferrule, GOOD))
    assert ferrule("draft", "list").err == "No draft waits here.\n"
    assert ferrule("draft", *words).code == 0
    (ferrule.workspace / ".ferrule/drafts/other.py").write_text("nonsense(")
    waiting, other = ferrule("draft", "list", "--json").json
    assert (waiting["name"], waiting["file"]) == ("count_words", ".ferrule/drafts/count_words.py")
    assert waiting["description"].startswith("Count the words of a text.")
    assert "Line 1" in other["description"]
    assert ferrule("draft", "list").out.splitlines()[0].split() == ["NAME", "DESCRIPTION"]

    accepted = ferrule("draft", *words, "--yes")
    assert accepted.code == 0, accepted.err
    assert "return len(text.split())" in accepted.out
    assert "Accepted: count_words" in accepted.out
