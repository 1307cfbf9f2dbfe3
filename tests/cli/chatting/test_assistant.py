"""One assistant holds one conversation at a time, and what one has read another has not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.cli.chatting.conftest import Room

from ferrule.agent.saved_sessions import SavedConversationError
from ferrule.app.settings import AssistantSettings, Settings
from ferrule.core.model import ModelError, ModelFault
from ferrule.testing import ScriptedModel, call, say


async def test_a_new_conversation_has_read_nothing(room: Room) -> None:
    (room.workspace / "a.txt").write_text("one\n")
    edit = say("", call("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"}))
    async with room.open(say("", call("Read", {"file_path": "a.txt"})), "Read.", edit, "Tried.") as chat:
        await chat._turn("read it")
        chat.assistant.begin()
        room.typed.append("y")
        await chat._turn("edit it")
        assert "has not been read yet" in room.said()
        assert (room.workspace / "a.txt").read_text() == "one\n"


async def test_nothing_is_saved_where_nothing_shall_be(room: Room) -> None:
    async with room.open("One.", settings=Settings(assistant=AssistantSettings(save=False))) as chat:
        await chat._turn("hello")
        chat.assistant.begin()
        assert chat.assistant.saved is None
        assert list(chat.assistant.sessions()) == []
        with pytest.raises(SavedConversationError):
            chat.assistant.resume()


async def test_resuming_the_one_that_is_open_changes_nothing(room: Room) -> None:
    async with room.open("One.") as chat:
        await chat._turn("hello")
        conversation = chat.assistant.agent.conversation
        chat.assistant.resume(chat.assistant.id[:8])
        assert chat.assistant.agent.conversation is conversation


class Slow(ScriptedModel):
    """A model that is loaded first."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__(["Hello."])
        self.loaded, self.fails, self.stopped = asyncio.Event(), fails, False

    async def prepare(self, say: Callable[[str], None]) -> None:
        say("Fetching it (93 MB) …")
        try:
            await self.loaded.wait()
        except asyncio.CancelledError:
            self.stopped = True
            raise
        if self.fails:
            raise ModelError(ModelFault.UNREACHABLE, "No network.")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_model_is_loaded_while_the_person_types(room: Room, fails: bool) -> None:
    told: list[str] = []
    async with room.open("unused") as chat:
        model = Slow(fails)
        chat.assistant.agent.model = model
        chat.assistant.prepare_model(told.append)
        await asyncio.sleep(0)
        assert told == ["loading the model…", "Fetching it (93 MB) …"]
        model.loaded.set()
        while told[-1]:
            await asyncio.sleep(0)


async def test_leaving_stops_the_loading(room: Room) -> None:
    async with room.open("unused") as chat:
        model = Slow()
        chat.assistant.agent.model = model
        chat.assistant.prepare_model(lambda _words: None)
        await asyncio.sleep(0)
    assert model.stopped
