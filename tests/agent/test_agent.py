"""The agent between turns: its model, its conversation and its tools may change."""

from __future__ import annotations

import pytest

from ferrule.agent.agent_events import TurnEnded
from ferrule.agent.conversation import Conversation
from ferrule.core.conversation import UserMessage
from ferrule.core.result import Attachment
from ferrule.testing import ScriptedModel

from .room import Waiting, agent_with, shown, turn


async def test_another_model_takes_over_the_conversation() -> None:
    agent, _ = agent_with(["One."])
    await turn(agent)
    agent.model = other = ScriptedModel(["Two."], name="scripted/other")
    await turn(agent, "And?")
    assert shown(other.requests[0].messages) == ["person: go", "model: One.", "person: And?"]
    assert agent.session.model == "scripted/other"


async def test_the_system_words_are_asked_for_once_a_turn() -> None:
    words = iter(["first", "second"])
    agent, model = agent_with(["a", "b"], system=lambda: next(words))
    await turn(agent)
    await turn(agent)
    assert [request.system for request in model.requests] == ["first", "second"]


async def test_a_new_conversation_may_take_the_old_one_s_place() -> None:
    agent, model = agent_with(["a", "b"])
    await turn(agent)
    agent.conversation = Conversation()
    await turn(agent, "Anew.")
    assert shown(model.requests[1].messages) == ["person: Anew."]


async def test_pictures_go_with_the_words() -> None:
    agent, model = agent_with(["Nice."])
    picture = Attachment("image/png", b"x")
    _ = [event async for event in agent.run("Look.", [picture])]
    assert model.requests[0].messages == (UserMessage("Look.", (picture,)),)


async def test_one_turn_at_a_time() -> None:
    waiting = Waiting()
    agent, _ = agent_with([], waiting.tool)
    first = agent.run("one")
    await anext(first)
    assert agent.working
    with pytest.raises(RuntimeError, match="`steer` says something more"):
        await anext(agent.run("two"))
    with pytest.raises(RuntimeError, match="cannot change under it"):
        await agent.compact()
    await first.aclose()
    assert not agent.working
    agent.interrupt()


async def test_whoever_stops_reading_at_the_end_can_begin_the_next_turn() -> None:
    agent, _ = agent_with(["a", "b"])
    async for event in agent.run("one"):
        if isinstance(event, TurnEnded):
            break
    assert (await turn(agent, "two")).ended.text == "b"


async def test_there_may_be_nothing_to_compact() -> None:
    agent, model = agent_with(["a"])
    assert await agent.compact() is None
    await turn(agent)
    assert await agent.compact() is None
    model.check()
