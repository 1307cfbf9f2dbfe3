"""The agent between turns: its model, its conversation and its tools may change."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.agent import Agent
from ferrule.agent.agent_events import TurnEnded
from ferrule.agent.conversation import Conversation
from ferrule.core.model import ModelError, UserMessage
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
    with pytest.raises(RuntimeError, match="use `steer` to add a message"):
        await anext(agent.run("two"))
    with pytest.raises(RuntimeError, match="cannot be changed now"):
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


def test_an_answer_that_no_model_gave_is_raised_and_never_empty_text() -> None:
    """M1: a script that prints `.text` must not print an empty line where there is no key, no network or no model."""
    agent, _ = agent_with(["One."])
    assert agent.answer_sync("go").text == "One."
    with pytest.raises(ModelError, match="The script has no reply to request 2"):
        agent.answer_sync("go")
    agent.model = ScriptedModel(["Back."])
    assert agent.answer_sync("go").text == "Back."


async def test_an_answer_that_broke_is_raised_as_what_broke() -> None:
    class Broken(ScriptedModel):
        def stream(self, request: Any) -> Any:
            raise ZeroDivisionError

    agent, _ = agent_with([])
    agent.model = Broken([])
    with pytest.raises(ZeroDivisionError):
        await agent.answer("go")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("openai/gpt-5", "An Agent takes a model, not 'openai/gpt-5': write open_model('openai/gpt-5')."),
        (None, "An Agent takes a model, not None."),
    ],
)
def test_a_name_in_place_of_a_model_is_refused_when_the_agent_is_made(given: Any, said: str) -> None:
    with pytest.raises(TypeError) as caught:
        Agent(given, [])
    assert str(caught.value) == said
