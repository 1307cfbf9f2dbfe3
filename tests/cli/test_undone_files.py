"""What became of each file is said in the command's own answer, and of many only so much (P11)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conftest import Command


def run(ferrule: Command, command: str) -> None:
    assert ferrule("call", "Bash", json.dumps({"command": command}), "--yes").code == 0


def test_each_file_is_named_with_what_became_of_it(ferrule: Command) -> None:
    (ferrule.workspace / "old").write_text("1")
    (ferrule.workspace / "kept").write_text("1")
    run(ferrule, "rm old; echo 2 > kept; echo 1 > new")
    head, *rows = ferrule("undo").out.splitlines()
    assert (head, sorted(rows)) == (
        "Change 1 undone:",
        ["  kept — as before", "  new — removed", "  old — restored"],
    )
    head, *rows = ferrule("redo").out.splitlines()
    expected = ["  kept — changed again", "  new — restored", "  old — removed"]
    assert (head, sorted(rows)) == ("Change 1 redone:", expected)


def test_a_name_cannot_write_lines_of_its_own(ferrule: Command) -> None:
    run(ferrule, "touch $'a\\nChange 9 undone:\\e[2J'")
    assert ferrule("undo").out.count("\n") == 2


def test_several_changes_are_counted_and_of_many_files_the_first_are_named(ferrule: Command) -> None:
    run(ferrule, "touch one")
    run(ferrule, "touch {10..40}")
    rows = ferrule("undo", "--to", "0").out.splitlines()
    assert rows[0] == "2 changes undone:"
    assert rows[-1] == "  … and 12 more"
    assert len(rows) == 22


def test_where_one_is_refused_what_was_undone_before_it_is_named_once(ferrule: Command) -> None:
    run(ferrule, "echo 1 > a")
    run(ferrule, "echo 1 > b")
    (ferrule.workspace / "a").write_text("mine\n")
    done = ferrule("undo", "--to", "0")
    assert done.code == 1
    assert done.out.startswith("Change 2 undone:\n  b — removed\nChange 1 could not be undone, and nothing of it")
