"""Typed output together with settings, hooks, steps, sub-agents, handoffs and budgets (M1, P6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import BaseModel

from ferrule import RawCall, Registry, Session, Tool, ToolContext, tool
from ferrule.agent import Agent, AgentLimits, ModelHook, OutputDelta, StepContext
from ferrule.agent.agent_events import AgentNotice, Ending
from ferrule.agent.task_tool import add_task_tool
from ferrule.core.errors import DefinitionError
from ferrule.core.model import (
    AssistantMessage,
    ModelError,
    ModelFault,
    ModelRequest,
    ModelSettings,
    TextDelta,
    Usage,
)
from ferrule.hooks import HookReply
from ferrule.testing import ScriptedModel, call, say

from .room import add, shown, turn


class Refund(BaseModel):
    order: str
    cents: int


class Holding(ScriptedModel):
    """A model whose provider holds its words to a schema."""

    def writes_output(self, output: Tool[Any], tools: Sequence[Tool[Any]]) -> bool:
        return True


class Unforced(ScriptedModel):
    """A model that cannot be made to call a tool."""

    def check_settings(self, settings: ModelSettings) -> None:
        if settings.tool_choice is not None:
            raise ModelError(ModelFault.REFUSED, "There is no such setting.")


GOOD = Refund(order="A1", cents=500)
LESS = Refund(order="A1", cents=400)
BOTH = pytest.mark.parametrize("kind", [ScriptedModel, Holding], ids=["final tool", "schema"])
ADD = call("add", {"a": 1, "b": 2})


def gives(kind: type[ScriptedModel], value: Refund = GOOD, usage: Usage | None = None) -> Any:
    """The answer with which a model of this kind gives its output."""
    if kind is Holding:
        return say(value.model_dump_json(), usage=usage)
    return say("", call("final_answer", value.model_dump()), usage=usage)


# Settings


@pytest.mark.parametrize(
    ("settings", "first", "later"),
    [
        (ModelSettings(), "required", "required"),
        (ModelSettings(temperature=0.2), "required", "required"),
        (ModelSettings(tool_choice="add"), "add", "required"),
        (ModelSettings(tool_choice="auto"), "auto", "auto"),
        (ModelSettings(effort="high"), None, None),
    ],
    ids=["none", "temperature", "a tool", "auto", "effort"],
)
async def test_a_final_tool_is_forced_unless_the_settings_say_otherwise(
    settings: ModelSettings, first: str | None, later: str | None
) -> None:
    model = ScriptedModel([ADD, gives(ScriptedModel)])
    agent = Agent(model, [add], output=Refund)
    assert (await agent.answer("go", settings=settings)).output == GOOD
    assert [one.settings.tool_choice for one in model.requests] == [first, later]
    assert [replace(one.settings, tool_choice=None) for one in model.requests] == [
        replace(settings, tool_choice=None)
    ] * 2
    assert [[one.name for one in request.tools] for request in model.requests] == [["add", "final_answer"]] * 2


async def test_an_agent_that_may_call_no_tool_still_gives_its_output() -> None:
    model = ScriptedModel([gives(ScriptedModel)])
    agent = Agent(model, [add], output=Refund, settings=ModelSettings(tool_choice="none"))
    assert (await agent.answer("go")).output == GOOD
    (request,) = model.requests
    assert [one.name for one in request.tools] == ["final_answer"]
    assert request.settings.tool_choice == "required"


async def test_a_model_that_cannot_be_forced_is_asked_without_that() -> None:
    model = Unforced(["I would say 500.", gives(ScriptedModel)])
    assert (await Agent(model, output=Refund).answer("go")).output == GOOD
    assert [one.settings.tool_choice for one in model.requests] == [None, None]


async def test_settings_go_with_a_schema_as_they_are() -> None:
    model = Holding([ADD, gives(Holding)])
    settings = ModelSettings(seed=7, tool_choice="add")
    assert (await Agent(model, [add], output=Refund, settings=settings).answer("go")).output == GOOD
    assert [one.settings.given() for one in model.requests] == [{"seed": 7, "tool_choice": "add"}, {"seed": 7}]
    assert all(one.output is not None for one in model.requests)


# Hooks


@BOTH
async def test_a_hook_sees_an_output_before_it_is_taken_and_can_have_another(kind: type[ScriptedModel]) -> None:
    seen: list[AssistantMessage] = []

    def check(message: AssistantMessage, session: Session) -> HookReply | None:
        seen.append(message)
        return HookReply(context="At most 400 cents.") if "500" in str(message) else None

    model = kind([gives(kind), gives(kind, LESS)])
    agent = Agent(model, output=Refund, hooks=[ModelHook("amount", after=check)])
    happened = await turn(agent)
    assert happened.ended.output == LESS
    assert len(seen) == 2
    assert [one.partial for one in happened.of(OutputDelta)][-1:] == [LESS.model_dump()]
    assert "500" not in str([one.text for one in happened.of(OutputDelta)])
    assert happened.of(TextDelta) == []


@BOTH
async def test_a_denied_output_is_no_output(kind: type[ScriptedModel]) -> None:
    deny = ModelHook("amount", after=lambda message, session: HookReply(deny="it is too much"))
    agent = Agent(kind([gives(kind)]), output=Refund, hooks=[deny])
    happened = await turn(agent)
    assert (happened.ended.ending, happened.ended.steps) == (Ending.DENIED, 1)
    assert happened.of(OutputDelta) == []
    assert shown(agent.conversation.messages) == ["person: go"]
    with pytest.raises(ModelError, match="too much"):
        _ = happened.ended.output


async def test_a_hook_may_change_the_output_which_is_checked_afterwards() -> None:
    def less(message: AssistantMessage, session: Session) -> AssistantMessage:
        (asked,) = message.calls
        return replace(message, calls=(RawCall(asked.name, LESS.model_dump(), id=asked.id),))

    model = ScriptedModel([gives(ScriptedModel)])
    assert (await Agent(model, output=Refund, hooks=[ModelHook("less", after=less)]).answer("go")).output == LESS
    words = Holding([gives(Holding)])
    hook = ModelHook("less", after=lambda message, session: replace(message, text=LESS.model_dump_json()))
    happened = await turn(Agent(words, output=Refund, hooks=[hook]))
    assert happened.ended.output == LESS
    assert [one.partial for one in happened.of(OutputDelta)] == [LESS.model_dump()]


@BOTH
async def test_the_output_is_asked_for_whatever_a_hook_makes_of_the_request(kind: type[ScriptedModel]) -> None:
    def bare(request: ModelRequest, session: Session) -> ModelRequest:
        return ModelRequest(request.messages, "Be brief.")

    model = kind([gives(kind)])
    assert (
        await Agent(model, [add], output=Refund, hooks=[ModelHook("bare", before=bare)]).answer("go")
    ).output == GOOD
    (request,) = model.requests
    assert (request.system, [one.name for one in request.tools]) == (
        "Be brief.",
        [] if kind is Holding else ["final_answer"],
    )


# Dependencies


@dataclass
class Shop:
    orders: dict[str, int]


SHOP = Shop({"A1": 500})


@tool(kind="readonly")
def paid(order: str, context: ToolContext[Shop]) -> int:
    """Say what was paid for an order."""
    return context.deps.orders[order]


PAID = call("paid", {"order": "A1"})


async def test_prepare_gets_what_was_passed_with_the_turn() -> None:
    def of_shop(step: StepContext[Shop]) -> list[str]:
        return ["paid"] if step.deps.orders else []

    model = ScriptedModel([PAID, "500", "Nothing.", "500"])
    agent = Agent(model, [paid], prepare=of_shop, deps_type=Shop)
    await agent.answer("go", deps=SHOP)
    await agent.answer("go", deps=Shop({}))
    assert [len(one.tools) for one in model.requests] == [1, 1, 0]
    agent.session.deps = SHOP
    assert [one.text async for one in agent.run("go", deps=SHOP) if isinstance(one, TextDelta)] == ["500"]


@pytest.mark.parametrize("where", ["tool", "handoff", "made inside"])
async def test_agents_that_work_for_another_have_its_dependencies(where: str) -> None:
    below = ScriptedModel([PAID, "500 cents"])
    helper = Agent(below, [paid], deps_type=Shop)

    @tool(kind="readonly")
    async def research(context: ToolContext[Shop]) -> str:
        """Find out."""
        return (await Agent(below, [paid], deps_type=Shop, parent=context).answer("go", deps=context.deps)).text

    tools: dict[str, tuple[Tool[Any], Any]] = {
        "tool": (helper.as_tool("helper", "Helps."), call("helper", {"prompt": "go"})),
        "handoff": (helper.as_handoff("helper", "Helps."), call("helper")),
        "made inside": (research, call("research")),
    }
    given, asked = tools[where]
    agent = Agent(ScriptedModel([asked, "500 cents"]), [given], deps_type=Shop)
    assert (await agent.answer("go", deps=SHOP)).output == "500 cents"
    last = below.requests[-1].messages
    assert "result: 500" in shown(last)


async def test_an_agent_whose_dependencies_are_missing_is_not_handed_to() -> None:
    target = Agent(ScriptedModel(["never"]), [paid], deps_type=Shop)
    agent = Agent(ScriptedModel([call("shop"), "I cannot."]), [target.as_handoff("shop", "Orders.")])
    await turn(agent)
    assert agent.active is agent
    assert "`shop` works with a Shop, and the run was given none." in "".join(shown(agent.conversation.messages))


async def test_a_turn_of_an_agent_that_took_over_needs_its_dependencies_too() -> None:
    target = Agent(ScriptedModel(["500", "500"]), [paid], deps_type=Shop)
    agent: Agent[Any, str] = Agent(ScriptedModel([call("shop")]), [target.as_handoff("shop", "Orders.")])
    await agent.answer("go", deps=SHOP)
    with pytest.raises(TypeError, match="work with a Shop"):
        await agent.answer("And now?")
    assert (await agent.answer("And now?", deps=SHOP)).output == "500"


async def test_a_validator_has_the_dependencies_of_the_session() -> None:
    model = ScriptedModel([gives(ScriptedModel)])
    agent = Agent(model, output=Refund)
    agent.session.deps = SHOP

    @agent.output_validator
    def check(context: ToolContext[Shop], refund: Refund) -> Refund:
        return Refund(order="A1", cents=context.deps.orders[refund.order] - 1)

    assert (await agent.answer("go")).output.cents == 499


# Agents that work for others


@BOTH
async def test_a_handoff_keeps_the_output_of_the_agent_that_was_asked(kind: type[ScriptedModel]) -> None:
    target = Agent(kind([gives(kind), gives(kind, LESS)]), [add], output=list[int])
    agent = Agent(ScriptedModel([call("billing")]), [target.as_handoff("billing", "Bills.")], output=Refund)

    @agent.output_validator
    def check(refund: Refund) -> None:
        checked.append(refund.cents)

    checked: list[int] = []
    assert (await agent.answer("go")).output == GOOD
    assert (await agent.answer("less")).output == LESS
    assert checked == [500, 400]
    assert agent.active is not agent
    assert target.output_form is not agent.output_form


async def test_a_handoff_beside_the_output_holds_for_the_next_turn() -> None:
    target = Agent(ScriptedModel([gives(ScriptedModel, LESS)]))
    both = say("", call("billing"), call("final_answer", GOOD.model_dump()))
    agent = Agent(ScriptedModel([both]), [target.as_handoff("billing", "Bills.")], output=Refund)
    happened = await turn(agent)
    assert happened.ended.output == GOOD
    assert [one.text for one in happened.of(AgentNotice)] == ["`billing` answers from here on."]
    assert (await agent.answer("less")).output == LESS


async def test_a_tool_of_the_one_that_takes_over_cannot_have_the_name_of_an_output() -> None:
    @tool
    def final_answer() -> None:
        """Another thing altogether."""

    target = Agent(ScriptedModel(["never"]), [final_answer])
    agent = Agent(ScriptedModel([call("billing")]), [target.as_handoff("billing", "Bills.")], output=Refund)
    with pytest.raises(DefinitionError, match="`final_answer` is a tool and an output of this agent"):
        await agent.answer("go")

    chosen: Agent[None, Refund] = Agent(ScriptedModel(), lambda session: [final_answer], output=Refund)
    with pytest.raises(DefinitionError, match="`final_answer` is a tool and an output of this agent"):
        await chosen.answer("go")


@BOTH
async def test_an_agent_as_a_tool_gives_its_output_as_json(kind: type[ScriptedModel]) -> None:
    helper = Agent(kind([gives(kind)]), output=Refund)
    agent = Agent(ScriptedModel([call("helper", {"prompt": "go"}), "Done."]), [helper.as_tool("helper", "Helps.")])
    await turn(agent)
    assert 'result: {"order": "A1", "cents": 500}' in shown(agent.conversation.messages)


async def test_a_task_is_answered_in_words_whatever_the_agent_is_to_give() -> None:
    registry = Registry([add])
    task = call("Task", {"description": "Look", "prompt": "Look."})
    agent = Agent(ScriptedModel([task, "Seen.", gives(ScriptedModel)]), registry, output=Refund)
    add_task_tool(agent, registry)
    assert (await agent.answer("go")).output == GOOD
    assert "result: Seen." in shown(agent.conversation.messages)


# Budgets


@BOTH
async def test_attempts_count_as_steps(kind: type[ScriptedModel]) -> None:
    bad = say('{"order": "A1"}') if kind is Holding else call("final_answer", {"order": "A1"})
    limits = AgentLimits(steps=2, output_attempts=None)
    ended = await Agent(kind([bad] * 3), output=Refund, limits=limits).answer("go")
    assert (ended.ending, ended.limit, ended.steps) == (Ending.LIMIT, "steps", 2)


async def test_the_attempts_of_a_sub_agent_count_for_the_turn_above() -> None:
    cent = Usage(10, 5, cost=0.01)
    bad = say("", call("final_answer", {"order": "A1"}), usage=cent)
    helper = Agent(ScriptedModel([bad] * 9), output=Refund, limits=AgentLimits(output_attempts=None))
    above = ScriptedModel([say("", call("helper", {"prompt": "go"}), usage=cent), say("never", usage=cent)])
    agent = Agent(above, [helper.as_tool("helper", "Helps.")], limits=AgentLimits(cost=0.04))
    ended = await agent.answer("go")
    assert (ended.ending, ended.limit) == (Ending.LIMIT, "cost")
    assert ended.usage.cost == pytest.approx(0.04)  # pyright: ignore[reportUnknownMemberType]


async def test_a_sub_agent_that_gives_no_valid_output_fails_its_call_alone() -> None:
    helper = Agent(ScriptedModel([call("final_answer", {})] * 3), output=Refund)
    agent = Agent(ScriptedModel([call("helper", {"prompt": "go"}), "It failed."]), [helper.as_tool("helper", "Helps.")])
    assert (await agent.answer("go")).output == "It failed."
    assert "gave no valid output in 3 attempts" in "".join(shown(agent.conversation.messages))
