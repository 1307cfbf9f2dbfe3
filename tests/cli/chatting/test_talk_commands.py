"""The conversation itself: what it cost, a new one, and the ones before."""

from __future__ import annotations

from tests.cli.chatting.conftest import Room

from ferrule.cli.chatting.commands import _session_choices, run_command


async def test_cost_adds_up_all_turns(room: Room) -> None:
    async with room.open("One.", "Two.") as chat:
        await run_command(chat, "/cost")
        assert "Nothing used yet." in room.said()
        await chat._turn("first")
        await chat._turn("second")
        room.said()
        await run_command(chat, "/cost")
        used = chat.assistant.agent.conversation.usage
        assert f"{used.input_tokens:,} tokens read" in room.said()


async def test_a_cleared_conversation_stays_saved_and_can_be_resumed(room: Room) -> None:
    async with room.open("**One.**", "Two.") as chat:
        await chat._turn("the first request")
        first = chat.assistant.id
        await run_command(chat, "/clear")
        assert chat.assistant.id != first
        assert chat.assistant.agent.conversation.messages == []
        room.typed = ["no such words", "first", "1"]
        await run_command(chat, "/resume")
        said = room.said()
        assert "Nothing matches `no such words`." in said
        assert chat.assistant.id == first
        assert "› the first request" in said
        assert "**One.**" in said
        await chat._turn("the second request")
        assert len(chat.assistant.agent.conversation.messages) == 4


async def test_sessions_are_listed_and_named(room: Room) -> None:
    async with room.open("One.", "Two.") as chat:
        await run_command(chat, "/sessions")
        assert "No conversation is saved for this folder." in room.said()
        await run_command(chat, "/resume")
        assert "No other conversation" in room.said()
        await chat._turn("remember me")
        first = chat.assistant.id
        await run_command(chat, "/clear")
        await chat._turn("something else")
        room.said()
        await run_command(chat, "/sessions")
        said = room.said()
        assert f"{first[:8]}" in said
        assert "remember me" in said
        assert first[:8] in _session_choices(chat)
        await run_command(chat, f"/resume {first[:8]}")
        assert chat.assistant.id == first
        await run_command(chat, "/resume nothing")
        assert "No saved session begins with `nothing`." in room.said()


async def test_too_little_is_not_put_together(room: Room) -> None:
    async with room.open() as chat:
        await run_command(chat, "/compact")
        assert "There is too little to summarise." in room.said()
