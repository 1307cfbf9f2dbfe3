"""What the person sees before they decide in a conversation, and what their answer does (P4)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.cli.chatting.conftest import Room

from ferrule.core.model import ToolResults
from ferrule.testing import call, say


def asked_of(room: Room) -> str:
    return room.said().split("Run it?")[0]


async def test_an_edit_is_shown_as_a_diff_before_it_is_made(room: Room) -> None:
    file = room.workspace / "a.txt"
    file.write_text("one\ntwo\n")
    edit = call("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "2"})
    async with room.open(say("", call("Read", {"file_path": "a.txt"}), edit), "Done.") as chat:
        room.typed.append("n")
        await chat._turn("go")
    assert file.read_text() == "one\ntwo\n"
    shown = asked_of(room).replace(str(room.workspace), "WORK").replace(str(room.workspace.parent), "ABOVE")
    assert re.sub(r"\d+\.\d s", "0.0 s", shown) == snapshot("""\

[done] Read a.txt — read 2 lines (0.0 s)

a tool that writes asks first:
  Edit WORK/a.txt
    --- a/a.txt
    +++ b/a.txt
    @@ -1,2 +1,2 @@
     one
    -two
    +2
"Always" would mean: Edit(/WORK/**)
  it covers:         WORK/another-file
  it does not cover: ABOVE/another-folder/file
""")


async def test_a_change_that_must_fail_fails_without_asking(room: Room) -> None:
    (room.workspace / "a.txt").write_text("one\n")
    edit = call("Edit", {"file_path": "a.txt", "old_string": "x", "new_string": "y"})
    async with room.open(say("", edit), "Done.") as chat:
        await chat._turn("go")
    assert "`a.txt` has not been read yet." in room.said()
    assert "Run it?" not in room.said()


async def test_a_command_is_shown_exactly_with_what_hides_in_it(room: Room) -> None:
    async with room.open(say("", call("Bash", {"command": "touch a\u202eb\nrm x"})), "Done.") as chat:
        await chat._turn("go")
    shown = room.said()
    assert "  Bash touch a\\u{202e}b\n  rm x\n" in shown
    assert "Warning: it contains invisible characters" in shown


async def test_a_reason_goes_to_the_model(room: Room) -> None:
    async with room.open(say("", call("Bash", {"command": "touch x"})), "Done.") as chat:
        room.typed.append("n use the other one")
        await chat._turn("go")
        results = chat.assistant.agent.conversation.messages[2]
        assert isinstance(results, ToolResults)
        assert "They said: use the other one" in results.results[0].llm_content
    assert "[refused] Bash touch x — refused by you: use the other one" in room.said()


async def test_an_always_can_be_saved(room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "person.toml"
    file.write_text("")
    monkeypatch.setenv("FERRULE_CONFIG", str(file))
    touch = [say("", call("Bash", {"command": f"touch {name}"})) for name in "xy"]
    async with room.open(*touch, "Done.") as chat:
        room.typed.append("s")
        await chat._turn("go")
    assert (room.workspace / "y").exists()
    assert tomllib.loads(file.read_text()) == {"permissions": {"allow": ["Bash(touch *)"]}}
    assert "Saved in" in room.said()


async def test_ctrl_c_at_a_question_stops_the_turn(room: Room) -> None:
    async with room.open(say("", call("Bash", {"command": "touch x"})), "unused") as chat:
        room.typed.append(KeyboardInterrupt())
        await chat._turn("go")
    assert "Stopped." in room.said()
    assert not (room.workspace / "x").exists()


async def test_a_pipe_is_nobody_to_ask(room: Room) -> None:
    room.by_person = False
    async with room.open(say("", call("Bash", {"command": "touch x"})), "Done.") as chat:
        room.typed.append("y")
        await chat._turn("go")
    assert room.typed == ["y"]
    assert "approval isn't available here" in room.said()
    assert "denied" not in room.said()
