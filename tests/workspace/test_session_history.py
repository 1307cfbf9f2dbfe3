"""A session's own changes, listed, shown, undone and redone in Python (P11, X1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule import Environment, RulePolicy, Runtime, Session, ToolError
from ferrule.agent import Agent
from ferrule.testing import ScriptedModel, call, say
from ferrule.tools import builtin_tools


def opened(place: Path, name: str = "first") -> Runtime:
    """A runtime in the workspace, in a session of that id."""
    (place / "app").mkdir(exist_ok=True)
    environment = Environment(history_folder=place / "history")
    session = Session(workspace=place / "app", environment=environment, id=name)
    return Runtime(builtin_tools(), session=session, policy=RulePolicy(mode="accept-edits"))


def write(runtime: Runtime, name: str, content: str) -> str:
    """Write a file; gives the id of the call."""
    result = runtime.run_sync("Write", {"file_path": name, "content": content})
    assert result.success, result.llm_content
    return result.call_id


def content(place: Path, name: str) -> str | None:
    file = place / "app" / name
    return file.read_text() if file.exists() else None


def test_a_session_that_changed_nothing_has_an_empty_history(tmp_path: Path) -> None:
    history = opened(tmp_path).session.history
    assert (history.recent(), history.diff()) == ([], "")
    assert (str(history.undo()), str(history.redo())) == ("Nothing to undo.", "Nothing to redo.")
    assert history.undo(turn=True).groups == ()
    with pytest.raises(ToolError, match="There is no change 7 in the history"):
        history.diff(7)


def test_the_newest_change_is_undone_first_and_redone_last(tmp_path: Path) -> None:
    runtime = opened(tmp_path)
    history = runtime.session.history
    write(runtime, "a.txt", "one\n")
    write(runtime, "a.txt", "two\n")
    assert [(one.number, one.origin.tool, str(one.phase)) for one in history.recent()] == [
        (2, "Write", "done"),
        (1, "Write", "done"),
    ]
    assert history.diff(2) == snapshot("""\
--- a/a.txt
+++ b/a.txt
@@ -1 +1 @@
-one
+two
""")
    assert str(history.undo()) == "1 change undone."
    assert content(tmp_path, "a.txt") == "one\n"
    assert "+one" in history.diff()
    assert "two" not in history.diff()
    assert str(history.redo()) == "1 change redone."
    assert len(history.undo(to=0).groups) == 2
    assert content(tmp_path, "a.txt") is None
    assert history.diff() == ""
    assert len(history.redo(to=2).groups) == 2
    assert content(tmp_path, "a.txt") == "two\n"


def test_one_call_is_undone_by_its_id(tmp_path: Path) -> None:
    runtime = opened(tmp_path)
    first = write(runtime, "a.txt", "one\n")
    write(runtime, "b.txt", "two\n")
    assert runtime.session.history.undo(call=first).refused is None
    assert (content(tmp_path, "a.txt"), content(tmp_path, "b.txt")) == (None, "two\n")
    with pytest.raises(ToolError, match="No call `nothing` is in the history"):
        runtime.session.history.undo(call="nothing")


def test_the_changes_of_another_session_are_left_alone(tmp_path: Path) -> None:
    mine, other = opened(tmp_path), opened(tmp_path, "second")
    write(mine, "a.txt", "one\n")
    write(other, "b.txt", "two\n")
    assert [one.number for one in mine.session.history.recent()] == [1]
    mine.session.history.undo()
    assert str(mine.session.history.undo(to=0)) == "Nothing to undo."
    assert (content(tmp_path, "a.txt"), content(tmp_path, "b.txt")) == (None, "two\n")


def test_a_session_with_the_same_id_has_the_same_history(tmp_path: Path) -> None:
    """A program can keep the id, and undo later what it did."""
    write(opened(tmp_path), "a.txt", "one\n")
    assert str(opened(tmp_path).session.history.undo()) == "1 change undone."
    assert content(tmp_path, "a.txt") is None


def test_a_file_that_changed_since_is_not_undone(tmp_path: Path) -> None:
    runtime = opened(tmp_path)
    write(runtime, "a.txt", "one\n")
    (tmp_path / "app/a.txt").write_text("mine\n")
    report = runtime.session.history.undo()
    assert report.refused is not None
    assert "`a.txt` was changed since." in str(report)
    assert content(tmp_path, "a.txt") == "mine\n"


def test_a_turn_of_an_agent_is_undone_as_one(tmp_path: Path) -> None:
    runtime = opened(tmp_path)
    two = [call("Write", {"file_path": name, "content": "1"}) for name in ("a.txt", "b.txt")]
    steps = [say("", *two), "Done.", call("Write", {"file_path": "c.txt", "content": "2"}), "Done too."]
    agent = Agent(ScriptedModel(steps), runtime=runtime)
    agent.answer_sync("Write two.")
    agent.answer_sync("Write one more.")
    history = runtime.session.history
    history.undo(turn=True)
    assert sorted(one.name for one in (tmp_path / "app").iterdir()) == ["a.txt", "b.txt"]
    history.undo(turn=True)
    assert list((tmp_path / "app").iterdir()) == []
    history.redo(turn=True)
    assert sorted(one.name for one in (tmp_path / "app").iterdir()) == ["a.txt", "b.txt"]
