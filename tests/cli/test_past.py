"""The history of a workspace on the command line (P11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conftest import Command


def test_the_history_names_each_change_and_its_state(ferrule: Command) -> None:
    assert ferrule("history").err == "No changes are on record.\n"
    ferrule("call", "Write", '{"file_path": "a.txt", "content": "one"}', "--yes")
    ferrule("call", "Write", '{"file_path": "b.txt", "content": "two"}', "--yes")
    ferrule("undo")
    groups = ferrule("history", "--json").json
    assert [(group["number"], group["state"], group["changes"][0]["path"]) for group in groups] == [
        (2, "undone", "b.txt"),
        (1, "done", "a.txt"),
    ]
    assert "create a.txt" in ferrule("history").out


def test_a_change_that_is_not_there_is_said_to_be_none(ferrule: Command) -> None:
    done = ferrule("diff", "9")
    assert done.code == 1
    assert "There is no change 9 in the history." in done.err


def test_another_workspace_has_another_history(ferrule: Command) -> None:
    ferrule("call", "Write", '{"file_path": "a.txt", "content": "one"}', "--yes")
    other = ferrule.folder / "other"
    other.mkdir()
    assert ferrule("history", "--workspace", str(other), "--json").json == []
