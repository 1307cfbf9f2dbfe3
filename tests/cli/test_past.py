"""The history of a workspace on the command line (P11)."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

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


def test_a_call_that_is_not_in_the_history_is_said_to_be_none(ferrule: Command) -> None:
    assert ferrule("undo", "--call", "typo").out == "Nothing to undo.\n"
    ferrule("call", "Write", '{"file_path": "a.txt", "content": "one"}', "--yes")
    (call,) = [group["call_id"] for group in ferrule("history", "--json").json]
    slip = call.replace("call_", "cal_")
    for command in ("undo", "redo"):
        done = ferrule(command, "--call", slip)
        assert (done.code, done.out) == (1, "")
        assert done.err == (
            f"Error: No call `{slip}` is in the history: it changed nothing that is kept. Did you mean `{call}`? "
            "`ferrule history --json` lists the calls.\n"
        )
        far = ferrule(command, "--call", "toolu_01ABC").err
        assert f"The only call that changed something is `{call}`." in far
    assert ferrule("undo", "--call", call).code == 0
    assert ferrule("undo", "--call", call).out == "Nothing to undo.\n"
    assert ferrule("redo", "--call", call).code == 0
    assert (ferrule.workspace / "a.txt").read_text() == "one"


def test_the_numbers_of_the_history_are_those_of_diff_and_undo(ferrule: Command) -> None:
    ferrule("call", "Bash", '{"command": "mkdir d && echo 1 > d/a && echo 1 > d/b"}', "--yes")
    for name in ("a", "b"):
        ferrule("call", "Write", f'{{"file_path": "d/{name}", "content": "2"}}', "--yes")
    assert [group["number"] for group in ferrule("history", "--json").json] == [3, 2, 1]
    assert "+++ b/d/b\n" in ferrule("diff").out
    assert "+++ b/d/a\n" in ferrule("diff", "2").out
    assert ferrule("undo", "--to", "2").code == 0
    assert [(ferrule.workspace / "d" / name).read_text() for name in ("a", "b")] == ["2", "1\n"]


def test_from_a_folder_within_it_is_said_where_the_changes_are(ferrule: Command) -> None:
    assert ferrule("undo").err == ""
    ferrule("call", "Write", '{"file_path": "my src/deep/a.txt", "content": "one"}', "--yes")
    inside = ("--workspace", str(ferrule.workspace / "my src" / "deep"))
    folder = ferrule.workspace.resolve()
    hint = f"There are changes on record for {folder}; go there, or add: --workspace {shlex.quote(str(folder))}\n"
    assert ferrule("history", *inside).err == f"No changes are on record.\n{hint}"
    assert ferrule("diff", *inside).err == f"No changes are on record.\n{hint}"
    for command in ("undo", "redo"):
        assert ferrule(command, *inside).err == hint
    assert (ferrule.workspace / "my src/deep/a.txt").exists()


def test_another_workspace_has_another_history(ferrule: Command) -> None:
    ferrule("call", "Write", '{"file_path": "a.txt", "content": "one"}', "--yes")
    other = ferrule.folder / "other"
    other.mkdir()
    assert ferrule("history", "--workspace", str(other), "--json").json == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("history",),
        ("history", "--json"),
        ("diff",),
        ("diff", "1"),
        ("undo",),
        ("redo",),
        ("call", "Write", '{"file_path": "b.txt", "content": "two"}', "--yes"),
        ("call", "Bash", '{"command": "echo 2 > b.txt"}', "--yes"),
    ],
)
def test_a_broken_history_is_told_by_the_command_that_meets_it_and_by_no_other(
    ferrule: Command, arguments: tuple[str, ...]
) -> None:
    ferrule.process("call", "Write", '{"file_path": "a.txt", "content": "one"}', "--yes")
    (journal,) = ferrule.folder.glob("data/history/*/journal.db")
    journal.write_bytes(b"garbage" * 1000)
    done = ferrule.process(*arguments)
    said = f"set aside as `{journal.parent}/set-aside/journal.db`"
    assert (done.out + done.err).count(said) == 1
    assert "Traceback" not in done.err
    again = ferrule.process(*arguments)
    assert "set aside" not in again.out + again.err
