"""`/commands` are the person's own; what is none goes to the model."""

from __future__ import annotations

import pytest
from tests.cli.chatting.conftest import Room

from ferrule.cli.chatting.commands import commands, run_command
from ferrule.core.errors import ToolError


async def test_help_lists_every_command_and_the_keys(room: Room) -> None:
    async with room.open() as chat:
        assert await run_command(chat, "/help")
    said = room.said()
    for name in commands():
        assert f"/{name}" in said
    assert "Esc stops the turn" in said


@pytest.mark.parametrize("words", ["what is this?", "/etc/hosts is a file", "// comment", "/"])
async def test_what_is_no_command_is_for_the_model(room: Room, words: str) -> None:
    async with room.open() as chat:
        assert await run_command(chat, words) is False


async def test_a_command_that_is_not_there_names_the_nearest(room: Room) -> None:
    async with room.open() as chat:
        assert await run_command(chat, "/udno")
        assert "There is no command `/udno`. Did you mean `/undo`?" in room.said()
        assert await run_command(chat, "/xyzzyx")
        assert "`/help` lists them." in room.said()


async def test_quit_leaves(room: Room) -> None:
    async with room.open() as chat:
        assert await run_command(chat, "/exit")
        assert chat.leaving


async def test_what_goes_wrong_is_said_and_the_conversation_goes_on(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_chat: object, _rest: str) -> None:
        raise ToolError("The disk is full.", suggestion="Make room.")

    monkeypatch.setattr("ferrule.cli.chatting.commands._cost", fail)
    async with room.open() as chat:
        assert await run_command(chat, "/cost")
    assert "The disk is full. Make room." in room.said()
