"""The tools, the model and the mode can be seen and changed in the middle of a conversation."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.chatting.conftest import Room

from ferrule.cli.chatting.commands import modes, run_command
from ferrule.testing import call, say


async def test_tools_are_those_that_the_mode_leaves(room: Room) -> None:
    async with room.open() as chat:
        await run_command(chat, "/tools")
        assert "\n  Write " in room.said()
        await run_command(chat, "/mode plan")
        room.said()
        await run_command(chat, "/tools")
        said = room.said()
        assert "\n  Write " not in said
        assert "Read " in said


async def test_a_mode_counts_from_the_next_call_on(room: Room) -> None:
    write = say("", call("Write", {"file_path": "a.txt", "content": "x"}))
    async with room.open(write, "No.", write, "Yes.") as chat:
        await chat._turn("try")
        assert not (room.workspace / "a.txt").exists()
        await run_command(chat, "/mode accept-edits")
        assert "› accept-edits" in room.said()
        await chat._turn("again")
        assert (room.workspace / "a.txt").exists()
        await run_command(chat, "/mode wild")
        assert "There is no mode `wild`." in room.said()
        assert "accept-edits" in modes()


async def test_another_model_goes_on(room: Room, tmp_path: Path) -> None:
    script = tmp_path / "other.json"
    script.write_text(json.dumps(["From the other."]))
    async with room.open("From the first.") as chat:
        await chat._turn("hello")
        await run_command(chat, "/model")
        assert "The model is scripted" in room.said()
        await run_command(chat, f"/model scripted:{script}")
        assert "The model is scripted/other." in room.said()
        await chat._turn("and now")
        assert "From the other." in room.said()
        await run_command(chat, "/model nowhere/none")
        assert "There is no provider `nowhere`" in room.said()
        assert chat.assistant.agent.model.name == "scripted/other"
