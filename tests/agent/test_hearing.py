"""An answer is heard while it is given, and its stream is closed whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ferrule.agent.agent_events import AgentEvent
from ferrule.agent.conversation import Hearing
from ferrule.core.model import CallDelta, ModelError, ModelEvent, ModelRequest, TextDelta, ThinkingDelta, UserMessage
from ferrule.testing import ScriptedModel, call, say

REQUEST = ModelRequest([UserMessage("x")])


async def test_words_thinking_and_the_arguments_of_calls_are_shown_as_they_come() -> None:
    events: list[AgentEvent] = []
    hearing = Hearing(events.append)
    model = ScriptedModel([say("word", call("t", {"a": "b"}), thinking="hm")])
    finished = await hearing.listen(model, REQUEST)
    assert events == [
        ThinkingDelta("hm"),
        TextDelta("word"),
        CallDelta("call_1", "t", '{"a": "b'),
        CallDelta("call_1", "t", '"}'),
    ]
    assert (hearing.text, finished.stop) == ("word", "calls")


async def test_a_stream_without_an_end_names_the_model() -> None:
    async def torn(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("half")

    with pytest.raises(ModelError, match="The answer from `scripted/test` ended early"):
        await Hearing(lambda event: None).listen(ScriptedModel([torn]), REQUEST)


async def test_being_cancelled_closes_the_stream() -> None:
    begun = asyncio.Event()

    async def hang(request: ModelRequest) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    model = ScriptedModel([hang])
    listening = asyncio.ensure_future(Hearing(lambda event: None).listen(model, REQUEST))
    await begun.wait()
    assert model.streaming == 1
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert model.streaming == 0
