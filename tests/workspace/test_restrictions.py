"""One denial for every file tool: Read refuses, and searches and listings leave out (S1, P4)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.says_yes import SaysYes

from ferrule import Environment, RulePolicy, Runtime, Session, ToolResult
from ferrule.builtin.all_tools import builtin_tools
from ferrule.policy.restrictions import RuleRestrictions
from ferrule.workspace.files import files_of
from ferrule.workspace.problems import PathError
from ferrule.workspace.restrictions import held_back_note


class Room:
    """A workspace with a secret in it, and a runtime under some rules."""

    def __init__(self, folder: Path, *, policy: Any = None, **rules: Any) -> None:
        self.root = folder / "ws"
        (self.root / "sub").mkdir(parents=True)
        (self.root / ".env").write_text("KEY=needle\n")
        (self.root / "sub" / ".env").write_text("KEY=needle\n")
        (self.root / "a.txt").write_text("a needle\n")
        (self.root / "link").symlink_to(".env")
        decided = RulePolicy(**rules)
        self.session = Session(
            workspace=self.root,
            restrictions=RuleRestrictions(decided),
            environment=Environment(history_folder=folder / "history"),
        )
        self.runtime = Runtime(builtin_tools(family="all"), policy=policy or decided, session=self.session)

    def call(self, tool: str, **arguments: Any) -> ToolResult:
        return asyncio.run(self.runtime.run(tool, arguments))

    def words(self, tool: str, **arguments: Any) -> str:
        return self.call(tool, **arguments).llm_content


DENY = {"deny": ["Read(.env)"]}


@pytest.mark.parametrize("path", [".env", "sub/.env", "link", "./sub/../.env"])
@pytest.mark.parametrize("tool", ["Read", "readFile", "Grep", "LS"])
def test_a_denied_file_is_refused_by_every_tool_that_names_it(tmp_path: Path, tool: str, path: str) -> None:
    name = {"Read": "file_path", "readFile": "filePath"}.get(tool, "path")
    pattern = {"pattern": "KEY"} if tool == "Grep" else {}
    result = Room(tmp_path, **DENY).call(tool, **{name: path}, **pattern)
    assert result.error is not None
    assert (result.error.kind, "`Read(.env)`" in result.error.message) == ("permission_error", True)
    assert "needle" not in result.llm_content


def test_a_search_does_not_show_a_denied_files_lines_and_says_so(tmp_path: Path) -> None:
    room = Room(tmp_path, **DENY)
    assert room.words("Grep", pattern="needle", output_mode="content") == snapshot(
        """\
Found 1 matching line in 1 file.
a.txt:1:a needle
[2 files were held back by a rule. To read such a file, name it.]\
"""
    )


def test_what_is_said_of_held_back_files_does_not_tell_whether_they_match(tmp_path: Path) -> None:
    """A note that came with a match alone would let a model guess a secret letter by letter."""
    room = Room(tmp_path, **DENY)
    matching, other = (room.words("Grep", pattern=f"KEY={letter}").splitlines() for letter in ("n", "x"))
    assert matching[1:] == other[1:]
    for mode in ("count", "files_with_matches", "content"):
        assert "1 " not in room.words("Grep", pattern="KEY=needle", output_mode=mode).splitlines()[0]


@pytest.mark.parametrize("pattern", [".env", "*", "**/.env"])
def test_names_of_denied_files_are_left_out(tmp_path: Path, pattern: str) -> None:
    found = Room(tmp_path, **DENY).call("Glob", pattern=pattern)
    assert ".env" not in str(found.data["files"])
    assert any("held back by a rule" in note for note in found.data["notes"])


def test_listings_leave_denied_files_out(tmp_path: Path) -> None:
    room = Room(tmp_path, **DENY)
    assert room.words("LS", depth=2) == snapshot(
        """\
`.` holds 1 folder and 2 files:
  sub/
  a.txt  9 B
  link (link)
[2 files were held back by a rule. To read such a file, name it.]\
"""
    )
    assert room.call("listFiles", directoryPath=".", recursive=True).data["files"] == ["a.txt", "link"]


def test_a_denied_folder_is_left_out_with_all_in_it(tmp_path: Path) -> None:
    room = Room(tmp_path, deny=["Read(./sub/**)"])
    (room.root / ".env").unlink()
    assert "[1 file was held back by a rule." in room.words("Grep", pattern="needle")
    assert "sub" not in room.words("Glob", pattern="**").split("[")[0]


def test_a_file_that_would_ask_is_held_back_from_a_search_and_its_name_is_not(tmp_path: Path) -> None:
    room = Room(tmp_path)
    assert "held back" in room.words("Grep", pattern="needle")
    assert "KEY" not in room.words("Grep", pattern="needle", output_mode="content")
    assert ".env" in room.call("Glob", pattern=".env").data["files"]


def test_a_file_that_was_asked_about_is_searched(tmp_path: Path) -> None:
    room = Room(tmp_path, policy=SaysYes())
    assert "KEY=needle" in room.words("Grep", pattern="needle", path=".env", output_mode="content")


def test_without_rules_about_what_is_there_nothing_is_said(tmp_path: Path) -> None:
    room = Room(tmp_path, allow=["Read(**)"])
    assert "held back" not in room.words("Grep", pattern="needle")
    (room.root / ".gitignore").write_text(".env\n")
    ignored = Room(tmp_path / "other")
    (ignored.root / ".gitignore").write_text(".env\n")
    assert "held back" not in ignored.words("Grep", pattern="needle"), "what is not searched is not held back"


def test_a_link_that_was_swapped_after_the_decision_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    """S1: the file that is opened is looked at, not only the one that was named."""
    room = Room(tmp_path, policy=SaysYes(), **DENY)  # a decision that is out of date
    for tool, name in (("Read", "file_path"), ("readFile", "filePath")):
        result = room.call(tool, **{name: "link"})
        assert result.error is not None
        assert result.error.message == "`link` is not read: `Read(.env)` from the program denies it."


def test_a_write_that_may_not_be_is_refused_when_it_is_made(tmp_path: Path) -> None:
    room = Room(tmp_path, policy=SaysYes(), deny=["Edit(*.txt)"])
    for name in ("a.txt", "ferrule.toml"):
        result = room.call("Write", file_path=name, content="x")
        assert result.error is not None
        assert f"`{name}` is not written" in result.error.message
    assert (room.root / "a.txt").read_text() == "a needle\n"
    assert not (room.root / "ferrule.toml").exists()


def test_a_session_without_restrictions_keeps_nothing_back(tmp_path: Path) -> None:
    kept = files_of(Session(workspace=tmp_path)).paths.kept
    kept.require_read(tmp_path / ".env", ".env")
    kept.require_write(tmp_path / "ferrule.toml", "ferrule.toml")
    assert not kept
    assert not kept.held_back(tmp_path / "a", tmp_path)
    assert not kept.may_hold_back(tmp_path)
    assert (kept.left_out(tmp_path), kept.count_held_in(tmp_path, "./.env\0", tmp_path)) == ((), 0)


def test_the_note_counts() -> None:
    assert held_back_note(0) == []
    assert held_back_note(1)[0].startswith("1 file was")


def test_a_refusal_is_a_path_problem_with_a_stable_word(tmp_path: Path) -> None:
    paths = files_of(Room(tmp_path, **DENY).session).paths
    with pytest.raises(PathError) as raised:
        paths.kept.require_read(Path(os.path.realpath(tmp_path)) / "ws" / ".env", ".env")
    assert raised.value.code == "denied"


def test_a_replacement_in_a_whole_folder_leaves_out_what_other_programs_obey(tmp_path: Path) -> None:
    """P4: the folder was asked about, `.envrc` in it was not."""
    for mode in ("accept-edits", "bypass"):
        room = Room(tmp_path / mode, mode=mode)
        (room.root / ".envrc").write_text("a needle\n")
        (room.root / ".vscode").mkdir()
        (room.root / ".vscode/tasks.json").write_text("a needle\n")
        words = room.words("FileSearch", pattern="needle", replace_with="pin", preview_only=False)
        assert (room.root / "a.txt").read_text() == "a pin\n"
        assert (room.root / ".envrc").read_text() == "a needle\n"
        assert (room.root / ".vscode/tasks.json").read_text() == "a needle\n"
        assert "what other programs run or obey; to change it, name it as `path`" in words
        assert not room.call(
            "FileSearch", pattern="needle", replace_with="pin", preview_only=False, path=".envrc"
        ).success
    named = Room(tmp_path / "named", mode="accept-edits", allow=["Edit(.envrc)"])
    (named.root / ".envrc").write_text("a needle\n")
    named.call("FileSearch", pattern="needle", replace_with="pin", preview_only=False)
    assert (named.root / ".envrc").read_text() == "a pin\n"


def test_a_replacement_in_a_folder_leaves_alone_what_a_rule_denies_writing(tmp_path: Path) -> None:
    """S1: only the folder was decided about."""
    room = Room(tmp_path, policy=SaysYes(), deny=["Edit(a.txt)"])
    (room.root / "b.txt").write_text("b needle\n")
    words = room.words("FileSearch", pattern="needle", replace_with="pin", preview_only=False)
    assert "denied by `Edit(a.txt)`" in words
    assert (room.root / "a.txt").read_text() == "a needle\n"
    assert (room.root / "b.txt").read_text() == "b pin\n"
