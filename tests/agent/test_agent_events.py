"""The one stream of an agent's events."""

from __future__ import annotations

from typing import get_args

from ferrule import Choice, Question, RawCall, Runtime
from ferrule.agent.agent import Agent
from ferrule.agent.agent_events import AgentEvent, CallAsked, Ending
from ferrule.core.events import CallEvent, Done, Pending
from ferrule.testing import ScriptedAsker, ScriptedModel, call

from .room import keep, turn


def test_the_stream_carries_a_call_s_own_events_as_they_are() -> None:
    assert set(get_args(CallEvent)) <= set(get_args(AgentEvent))


async def test_a_question_is_an_event_before_it_is_answered() -> None:
    """Also one of a sub-agent's call, and each question once."""
    asker = ScriptedAsker(Choice.NO, Choice.ONCE)
    lower = ScriptedModel([call("keep", {"text": "inner"}), "Kept."])
    helper = Agent(lower, [keep]).as_tool("helper", "Helps.")
    model = ScriptedModel([call("keep", {"text": "outer"}), call("helper", {"prompt": "Keep it."}), "Done."])
    agent = Agent(model, runtime=Runtime([keep, helper], ask=asker))
    answered_before: list[int] = []

    def hear(event: AgentEvent) -> None:
        if isinstance(event, Question):
            answered_before.append(len(asker.questions))

    happened = await turn(agent, on=hear)
    assert happened.of(Question) == asker.questions
    assert [one.to_dict() for one in happened.of(Question)] == [
        {
            "call_id": called.call_id,
            "tool": "keep",
            "summary": f'keep {{"text":"{text}"}}',
            "reason": "a tool that writes asks first",
            "warning": "",
            "preview": "",
            "always": "keep",
        }
        for called, text in zip(
            (one for one in happened.of(Pending) if one.tool == "keep"), ("outer", "inner"), strict=True
        )
    ]
    order = [type(one) for one in happened.events if isinstance(one, CallAsked | Question | Done)]
    assert order == [CallAsked, Question, Done, CallAsked, Question, Done, Done]


async def test_a_question_is_an_event_of_a_call_without_an_agent() -> None:
    runtime = Runtime([keep], ask=lambda question: "once")
    heard: list[CallEvent] = []
    runtime.subscribe(heard.append)
    events = [one async for one in runtime.stream(RawCall("keep", {"text": "a"}))]
    assert [type(one) for one in events] == [Pending, Question, Done]
    assert heard == events


def test_endings_are_the_words_that_scripts_read() -> None:
    assert [ending.value for ending in Ending] == ["done", "interrupted", "limit", "loop", "denied", "failed", "paused"]
