"""Hooks around the model check requests and answers, as those of calls do (M1, P4)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ferrule import Session
from ferrule.agent.agent import Agent
from ferrule.agent.agent_events import Ending
from ferrule.agent.model_hooks import ModelHook
from ferrule.core.model import AssistantMessage, ModelRequest, TextDelta, UserMessage
from ferrule.hooks import Hook, HookReply
from ferrule.testing import ScriptedModel, call, say

from .room import add, agent_with, shown, turn


async def test_a_request_is_denied_before_it_is_sent() -> None:
    def no_secrets(request: ModelRequest, session: Session) -> HookReply | None:
        return HookReply(deny="it has a card number") if "4111" in str(request.messages[-1]) else None

    agent, model = agent_with(["never", "Hello."], hooks=[ModelHook("cards", before=no_secrets)])
    ended = (await turn(agent, "My card is 4111 1111.")).ended
    assert (ended.ending, ended.text) == (Ending.DENIED, "")
    assert ended.problem == "The hook `cards` refused the request: it has a card number."
    assert model.requests == []


async def test_a_request_can_be_changed_and_added_to() -> None:
    async def redact(request: ModelRequest, session: Session) -> ModelRequest:
        first = UserMessage("My card is [card].")
        return replace(request, messages=(first, *request.messages[1:]))

    def remind(request: ModelRequest, session: Session) -> HookReply:
        return HookReply(context="Answer in German.")

    agent, model = agent_with(["Ja."], hooks=[ModelHook("cards", before=redact), ModelHook("german", before=remind)])
    await turn(agent, "My card is 4111.")
    assert shown(model.requests[0].messages) == ["person: My card is [card].", "person: Answer in German."]
    assert shown(agent.conversation.messages) == ["person: My card is 4111.", "model: Ja."]


async def test_nothing_of_a_denied_answer_is_shown_kept_or_run() -> None:
    def check(message: AssistantMessage, session: Session) -> HookReply | None:
        return HookReply(deny="it is rude") if "idiot" in message.text else None

    agent, _ = agent_with(
        [say("You idiot.", call("keep", {"text": "x"})), "Hello."], hooks=[ModelHook("manners", after=check)]
    )
    happened = await turn(agent)
    assert happened.ended.ending is Ending.DENIED
    assert happened.ended.problem == "The hook `manners` refused the answer: it is rude."
    assert happened.of(TextDelta) == []
    assert happened.ended.steps == 1  # it was paid for
    assert "kept" not in agent.session.state
    assert shown(agent.conversation.messages) == ["person: go"]
    again = await turn(agent, "Please.")
    assert "".join(one.text for one in again.of(TextDelta)) == again.ended.text == "Hello."


async def test_an_answer_can_be_replaced() -> None:
    def redact(message: AssistantMessage, session: Session) -> AssistantMessage:
        return AssistantMessage("Your number is [number].")

    agent, _ = agent_with([say("It is 42.", call("keep", {"text": "x"}))], hooks=[ModelHook("pii", after=redact)])
    happened = await turn(agent)
    assert (happened.ended.ending, happened.ended.text) == (Ending.DONE, "Your number is [number].")
    assert [one.text for one in happened.of(TextDelta)] == ["Your number is [number]."]
    assert "kept" not in agent.session.state


async def test_the_model_can_be_asked_to_answer_again() -> None:
    def short(message: AssistantMessage, session: Session) -> HookReply | None:
        return HookReply(context="Use at most three words.") if len(message.text.split()) > 3 else None

    agent, model = agent_with(["One two three four.", "One two."], hooks=[ModelHook("short", after=short)])
    happened = await turn(agent)
    assert happened.ended.text == "".join(one.text for one in happened.of(TextDelta)) == "One two."
    assert shown(model.requests[1].messages)[1:] == ["model: One two three four.", "person: Use at most three words."]


async def test_a_model_that_never_satisfies_a_hook_is_not_asked_for_ever() -> None:
    hook = ModelHook("never", after=lambda message, session: HookReply(context="Again."))
    agent, model = agent_with([f"try {n}" for n in range(9)], hooks=[hook])
    ended = (await turn(agent)).ended
    assert (ended.ending, ended.problem) == (Ending.DENIED, "The model's hooks refused 4 answers.")
    assert len(model.requests) == 4


async def fail(*_: Any) -> None:
    raise OSError("the service is down")


async def hang(*_: Any) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        (ModelHook("x", before=fail), "The hook `x` failed (OSError: the service is down)"),
        (ModelHook("x", after=fail), "The hook `x` failed (OSError: the service is down)"),
        (ModelHook("x", before=hang, timeout=0.01), "The hook `x` gave no answer within 0.01 s"),
        (ModelHook("x", after=lambda *_: True), "The hook `x` answered with bool"),  # type: ignore[arg-type, return-value]
        (ModelHook("x", before=lambda *_: HookReply(arguments={})), "The hook `x` answered with `arguments`"),
    ],
)
async def test_a_hook_that_fails_ends_the_turn(hook: ModelHook, says: str) -> None:
    agent, _ = agent_with(["Hello."], hooks=[hook])
    ended = (await turn(agent)).ended
    assert (ended.ending, ended.text) == (Ending.DENIED, "")
    assert says in ended.problem
    assert ended.problem.endswith("and a failing hook ends the turn.")


async def test_hooks_see_every_request_of_a_turn_and_the_session() -> None:
    seen: list[tuple[int, str]] = []

    def watch(request: ModelRequest, session: Session) -> None:
        seen.append((len(request.messages), session.id))

    agent, _ = agent_with([call("add", {"a": 1, "b": 2}), "3"], hooks=[ModelHook("watch", before=watch)])
    await turn(agent)
    assert seen == [(1, agent.session.id), (3, agent.session.id)]


def test_a_hook_of_calls_is_not_one_of_the_model() -> None:
    with pytest.raises(TypeError, match="Hooks of calls go to a Runtime"):
        Agent(ScriptedModel(), [add], hooks=[Hook("x")])  # type: ignore[list-item]
