"""Commands, what follows them, and files are completed; odd names are quoted."""

from __future__ import annotations

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from tests.cli.chatting.conftest import Room

from ferrule.cli.chatting.chat_session import Chat
from ferrule.cli.chatting.prompt_input import ChatCompleter


async def completed(chat: Chat, text: str) -> list[str]:
    """What the line would be with each completion."""
    found = ChatCompleter(lambda: chat).get_completions_async(Document(text), CompleteEvent())
    return [text[: len(text) + one.start_position] + one.text async for one in found]


async def test_commands_are_completed(room: Room) -> None:
    async with room.open() as chat:
        assert await completed(chat, "/re") == ["/redo", "/resume", "/rewind"]
        assert await completed(chat, "/mode p") == ["/mode plan"]
        assert await completed(chat, "/undo ") == ["/undo call"]
        assert await completed(chat, "/cost ") == []
        assert await completed(chat, "/nothing ") == []
        assert await completed(chat, "say /re") == []


async def test_files_are_completed_and_odd_names_quoted(room: Room) -> None:
    (room.workspace / "notes.txt").touch()
    (room.workspace / "my notes.txt").touch()
    async with room.open() as chat:
        assert await completed(chat, "see @no") == ["see @notes.txt", 'see @"my notes.txt"']
        assert await completed(chat, 'see @"my') == ['see @"my notes.txt"']
        assert await completed(chat, "mail me@no") == []


async def test_before_the_conversation_begins_commands_are_there_and_nothing_fails(room: Room) -> None:
    assert await completed(room.chat, "/qu") == ["/quit"]
    assert await completed(room.chat, "/resume ") == []
    assert await completed(room.chat, "@a") == []
