"""`ferrule undo`: takes back what tools changed, and refuses where a file changed since (P11)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Command


def write(ferrule: Command, name: str, content: str) -> None:
    arguments = f'{{"file_path": "{name}", "content": "{content}"}}'
    assert ferrule("call", "Write", arguments, "--yes").code == 0


def test_the_newest_change_is_taken_back_first(ferrule: Command) -> None:
    write(ferrule, "a.txt", "one")
    write(ferrule, "b/c.txt", "two")
    assert ferrule("undo").out == "Change 2 undone:\n  b/c.txt — removed\n"
    assert not (ferrule.workspace / "b").exists()
    assert (ferrule.workspace / "a.txt").read_text() == "one"
    assert ferrule("undo", "--to", "0").code == 0
    assert not (ferrule.workspace / "a.txt").exists()
    assert ferrule("undo").out == "Nothing to undo.\n"


def test_a_file_that_changed_since_is_left_alone_and_shown(ferrule: Command) -> None:
    write(ferrule, "a.txt", "one")
    (ferrule.workspace / "a.txt").write_text("mine")
    done = ferrule("undo", "--json")
    assert done.code == 1
    assert done.json["refused"]["conflicts"][0]["path"] == "a.txt"
    assert "+mine" in done.json["refused"]["conflicts"][0]["diff"]
    assert (ferrule.workspace / "a.txt").read_text() == "mine"


def test_an_edit_from_the_shell_needs_no_reading_before(ferrule: Command) -> None:
    (ferrule.workspace / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    edit = '{"file_path": "a.txt", "old_string": "two", "new_string": "2"}'
    assert ferrule("call", "Edit", edit, "--yes").code == 0
    assert (ferrule.workspace / "a.txt").read_bytes() == b"one\r\n2\r\n"
    assert "-two" in ferrule("diff").out
    ferrule("undo")
    assert (ferrule.workspace / "a.txt").read_bytes() == b"one\r\ntwo\r\n"


def test_a_replacement_over_many_files_is_taken_back_at_once(ferrule: Command) -> None:
    for name in ("a.txt", "b.txt"):
        (ferrule.workspace / name).write_bytes(b"old\r\n")
    preview = ferrule("call", "FileSearch", '{"pattern": "o(l)d", "replace_with": "${1}"}')
    assert (preview.code, preview.out.splitlines()[0]) == (0, "Would replace 2 matches in 2 files.")
    arguments = '{"pattern": "o(l)d", "replace_with": "${1}", "preview_only": false}'
    assert ferrule("call", "FileSearch", arguments).code != 0
    assert ferrule("call", "FileSearch", arguments, "--yes").code == 0
    assert (ferrule.workspace / "b.txt").read_bytes() == b"l\r\n"
    assert ferrule("undo").out == "Change 1 undone:\n  a.txt — as before\n  b.txt — as before\n"
    assert {(ferrule.workspace / name).read_bytes() for name in ("a.txt", "b.txt")} == {b"old\r\n"}


@pytest.mark.parametrize("command", ["undo", "redo"])
def test_a_number_that_no_change_has_is_a_slip(ferrule: Command, command: str) -> None:
    assert "There is no change 7; none is on record." in ferrule(command, "--to", "7").err
    write(ferrule, "a.txt", "one")
    done = ferrule(command, "--to", "7")
    assert (done.code, done.out) == (2, "")
    assert "There is no change 7; the newest is 1." in done.err
    assert (ferrule.workspace / "a.txt").read_text() == "one"


def test_a_change_in_an_added_folder_is_undone_too(ferrule: Command) -> None:
    added = ferrule.folder / "added"
    added.mkdir()
    ferrule.environment["FERRULE_FILES_FOLDERS"] = str(added)
    write(ferrule, f"{added}/a.txt", "one")
    assert (added / "a.txt").read_text() == "one"
    assert ferrule("undo").code == 0
    assert not (added / "a.txt").exists()


def test_ferrules_own_folder_in_the_workspace_is_no_commands_to_read_change_or_undo(ferrule: Command) -> None:
    """As where a home is the workspace: records and history are out of a command's reach (S3, O3)."""
    here = ["--workspace", str(ferrule.folder)]
    ferrule("call", "echo_text", '{"text": "x"}', *here)
    assert (ferrule.folder / "data/audit.db").exists()
    reach = "ls -A data; rm -rf data/*; echo mine > a"
    done = ferrule("call", "Bash", json.dumps({"command": reach}), "--yes", *here)
    assert "audit.db" not in done.out
    assert (ferrule.folder / "a").read_text() == "mine\n"
    assert ferrule("undo", *here).out == "Change 1 undone:\n  a — removed\n"
    assert not (ferrule.folder / "a").exists()
    assert ferrule("audit", "verify").code == 0


def test_a_count_undoes_and_redoes_so_many_changes(ferrule: Command) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        write(ferrule, name, "one")
    assert ferrule("undo", "2").out == "2 changes undone:\n  c.txt — removed\n  b.txt — removed\n"
    assert ferrule("redo", "2").out == "2 changes redone:\n  b.txt — restored\n  c.txt — restored\n"
    assert len(ferrule("undo", "9", "--json").json["done"]) == 3
    assert list(ferrule.workspace.glob("*.txt")) == []


@pytest.mark.parametrize("command", ["undo", "redo"])
def test_a_count_is_at_least_one_and_goes_with_no_other_choice(ferrule: Command, command: str) -> None:
    write(ferrule, "a.txt", "one")
    assert "Invalid value for '[COUNT]'" in ferrule(command, "0").err
    done = ferrule(command, "1", "--to", "1")
    assert (done.code, done.out) == (2, "")
    assert "Use only one of COUNT, --to and --call." in done.err
    assert (ferrule.workspace / "a.txt").exists()


def test_a_count_stops_at_the_first_change_that_cannot_be_undone(ferrule: Command) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        write(ferrule, name, "one")
    (ferrule.workspace / "b.txt").write_text("mine")
    done = ferrule("undo", "3", "--json")
    assert done.code == 1
    assert [one["number"] for one in done.json["done"]] == [3]
    assert done.json["refused"]["group"]["number"] == 2
    assert (ferrule.workspace / "a.txt").exists()
