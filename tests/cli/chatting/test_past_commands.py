"""What a conversation changed can be seen, undone and redone, by turns (P11)."""

from __future__ import annotations

from tests.cli.chatting.conftest import Room

from ferrule.cli.chatting.chat_session import Chat
from ferrule.cli.chatting.commands import run_command
from ferrule.core.model import UserMessage
from ferrule.testing import ScriptedCall, call, say


def write(name: str, text: str) -> ScriptedCall:
    return call("Write", {"file_path": name, "content": text})


async def turn(room: Room, chat: Chat, said: str) -> None:
    room.typed += ["y"] * 9
    await chat._turn(said)
    room.typed.clear()


async def test_undo_takes_back_a_turn_and_the_model_hears_of_it(room: Room) -> None:
    replies = [
        say("", write("a.txt", "1\n"), write("b.txt", "2\n")),
        "Done.",
        say("", write("c.txt", "3\n")),
        "Done.",
        "I see.",
    ]
    async with room.open(*replies) as chat:
        await turn(room, chat, "first")
        await turn(room, chat, "second")
        room.said()
        await run_command(chat, "/undo")
        assert room.said() == "  1 change undone:\n    c.txt — removed\n"
        await run_command(chat, "/undo")
        assert "2 changes undone:" in room.said()
        assert list(room.workspace.iterdir()) == []
        await run_command(chat, "/undo")
        assert "Nothing to undo." in room.said()
        await run_command(chat, "/redo")
        assert (room.workspace / "a.txt").exists()
        assert not (room.workspace / "c.txt").exists()
        await turn(room, chat, "third")
        told = chat.assistant.agent.conversation.messages[-2]
        assert isinstance(told, UserMessage)
        said = told.text
        assert said.startswith("[The user undid your changes to `c.txt`.")
        assert said.endswith("third")


async def test_undo_takes_a_number_of_turns_or_one_call(room: Room) -> None:
    replies = [say("", write("a.txt", "1\n"), write("b.txt", "2\n")), "Done.", say("", write("c.txt", "3\n")), "Done."]
    async with room.open(*replies) as chat:
        await turn(room, chat, "first")
        await turn(room, chat, "second")
        await run_command(chat, "/undo call")
        assert sorted(path.name for path in room.workspace.iterdir()) == ["a.txt", "b.txt"]
        await run_command(chat, "/redo")
        await run_command(chat, "/undo 7")
        assert list(room.workspace.iterdir()) == []
        room.said()
        await run_command(chat, "/undo much")
        assert "/undo takes a number of turns" in room.said()


async def test_a_file_that_was_changed_since_is_left_and_said(room: Room) -> None:
    async with room.open(say("", write("a.txt", "1\n")), "Done.") as chat:
        await turn(room, chat, "first")
        (room.workspace / "a.txt").write_text("mine\n")
        room.said()
        await run_command(chat, "/undo")
        assert "could not be undone" in room.said()
        assert (room.workspace / "a.txt").read_text() == "mine\n"


async def test_diff_shows_what_still_stands(room: Room) -> None:
    async with room.open(say("", write("a.txt", "one\n")), "Done.") as chat:
        await run_command(chat, "/diff")
        assert "Nothing was changed" in room.said()
        await turn(room, chat, "first")
        room.said()
        await run_command(chat, "/diff")
        whole = room.said()
        assert "+one" in whole
        await run_command(chat, "/diff 1")
        assert room.said() == whole
        await run_command(chat, "/diff 99")
        assert "There is no change 99" in room.said()
        await run_command(chat, "/undo")
        room.said()
        await run_command(chat, "/diff")
        assert "Nothing was changed" in room.said()
