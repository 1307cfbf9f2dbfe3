"""When a conversation is made shorter, and what becomes of it when the summary cannot be had."""

from __future__ import annotations

from ferrule.agent.compaction import Room
from ferrule.agent.conversation import Conversation, well_formed
from ferrule.core.model import ModelError, ModelFault, Usage, UserMessage
from ferrule.testing import ScriptedModel, say

from .test_compaction import exchange, long_conversation


def counted(usage: Usage) -> None:
    """Nobody asks."""


async def test_long_old_results_go_first_without_asking_a_model() -> None:
    conversation = Conversation([UserMessage("a"), *(one for n in range(8) for one in exchange(n, "x" * 8000))])
    model = ScriptedModel()
    compacted = await Room(conversation).make(model, "", 20_000, counted)
    assert compacted is not None
    assert compacted.summary == ""
    assert compacted.after_tokens < 0.6 * compacted.before_tokens
    assert len(conversation.messages) == 17
    model.check()


async def test_then_the_model_summarises() -> None:
    conversation = Conversation(long_conversation(60))
    used: list[Usage] = []
    model = ScriptedModel([say("## Task\nRead.", usage=Usage(5, 5))])
    compacted = await Room(conversation).make(model, "", 600, used.append)
    assert compacted is not None
    assert compacted.summary == "## Task\nRead."
    assert used == [Usage(5, 5)]
    assert len(conversation.messages) <= 10
    assert model.requests[0].tools == ()
    assert "I read 3." in str(model.requests[0].messages[0])


async def test_without_a_summary_old_messages_are_left_out_all_the_same() -> None:
    for answer in (ModelError(ModelFault.BUSY, "Busy."), "", say("No.", stop="refused")):
        conversation = Conversation(long_conversation(60))
        compacted = await Room(conversation).make(ScriptedModel([answer]), "", 600, counted)
        assert compacted is not None
        assert compacted.summary == ""
        assert well_formed(conversation.messages) is None
        assert "word for word" not in str(conversation.messages[1])
        assert "`0.py`" in str(conversation.messages[1])


async def test_where_nothing_can_be_left_out_nothing_changes() -> None:
    conversation = Conversation([UserMessage("x" * 100_000)])
    assert await Room(conversation).make(ScriptedModel(), "", 1000, counted) is None
    assert len(conversation.messages) == 1


def test_the_limit_leaves_room_for_an_answer() -> None:
    room = Room(Conversation())
    assert room.limit(ScriptedModel(context_tokens=200_000), 1) == 153_600
    assert room.limit(ScriptedModel(context_tokens=4_000), 1) == 2_400
    assert room.limit(ScriptedModel(), 100_000) == 73_600


def test_what_a_model_would_not_read_is_the_limit_from_then_on() -> None:
    conversation = Conversation([UserMessage("x" * 35_000)])
    room = Room(conversation)
    learnt = room.too_long("")
    assert learnt < 10_000
    assert room.limit(ScriptedModel(context_tokens=200_000), 1) == learnt
