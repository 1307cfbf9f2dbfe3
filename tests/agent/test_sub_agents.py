"""Agents that work for others: as a tool, and taking a conversation over (M1, P6)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule import Choice, RawCall, Registry, RulePolicy, Runtime, ToolContext, tool
from ferrule.agent.agent import Agent
from ferrule.agent.agent_events import AgentNotice, Ending
from ferrule.agent.limits import AgentLimits
from ferrule.core.events import Pending
from ferrule.core.model import ModelError, ModelRequest, ModelSettings, Usage
from ferrule.testing import ScriptedAsker, ScriptedModel, call, say

from .room import Records, Waiting, add, keep, shown, turn

CHEAP = Usage(10, 5, cost=0.02)


def ask(prompt: str = "Look.", name: str = "helper", id: str | None = None) -> Any:
    return call(name, {"prompt": prompt}, id=id)


def steps(count: int) -> list[Any]:
    return [say("", call("add", {"a": n, "b": n}), usage=CHEAP) for n in range(count)]


def two(
    above: list[Any], below: list[Any], *, limits: AgentLimits | None = None, **options: Any
) -> tuple[Agent, ScriptedModel, ScriptedModel]:
    """An agent, and another one that is its tool."""
    upper, lower = ScriptedModel(above, name="scripted/upper"), ScriptedModel(below, name="scripted/lower")
    helper = Agent(lower, [add, keep], system="Help.")
    tools = [helper.as_tool("helper", "Looks things up. Use it for every question.")]
    return Agent(upper, tools, limits=limits or AgentLimits(), **options), upper, lower


async def test_its_last_words_are_the_result_and_it_sees_only_its_prompt() -> None:
    agent, _, lower = two([ask("Add 1 and 2."), "It is 3."], [call("add", {"a": 1, "b": 2}), "3"])
    happened = await turn(agent)
    assert shown(agent.conversation.messages)[2:] == ["result: 3", "model: It is 3."]
    assert shown(lower.requests[0].messages) == ["person: Add 1 and 2."]
    assert lower.requests[0].system == "Help."
    outer, inner = happened.of(Pending)
    assert inner.parent_id == outer.call_id
    (definition,) = agent.tools
    assert set((definition.output_schema or {})["properties"]) == {"text", "steps", "input_tokens", "output_tokens"}
    assert definition.description.text == "Looks things up. Use it for every question."


async def test_it_works_under_the_policy_questions_and_records_of_the_agent_above() -> None:
    """Its own runtime would have let `keep` run, and recorded nothing."""
    records, asker = Records(), ScriptedAsker(Choice.NO)
    lower = ScriptedModel([call("keep", {"text": "x"}), "Refused."])
    helper = Agent(lower, runtime=Runtime([keep], policy=RulePolicy(allow=["keep"])))
    where = Runtime([helper.as_tool("helper", "Helps.")], policy=RulePolicy(), ask=asker, recorders=[records])
    agent = Agent(ScriptedModel([ask(), "So be it."]), runtime=where)
    await turn(agent)
    asker.check()
    assert "kept" not in agent.session.state
    assert [(one.tool, one.outcome) for one in records.all] == [("keep", "permission_error"), ("helper", "success")]


async def test_an_agent_made_inside_a_tool_works_in_the_runtime_above() -> None:
    records = Records()
    lower = ScriptedModel([call("add", {"a": 1, "b": 2}), "3"])

    @tool(kind="readonly")
    async def research(question: str, context: ToolContext) -> str:
        """Find something out."""
        return (await Agent(lower, [add], parent=context).answer(question)).text

    agent = Agent(ScriptedModel([call("research", {"question": "1 + 2"}), "ok"]), [research])
    agent.runtime = Runtime([research], recorders=[records])
    await turn(agent)
    assert [one.tool for one in records.all] == ["add", "research"]
    result = await Runtime([research], recorders=[records]).run("research", {"question": "again"})
    # without a turn, the runtime that was called is above
    assert "The script has no reply to request 3" in result.llm_content


# Money


async def test_a_limit_of_five_cents_is_not_exceeded_by_a_sub_agent() -> None:
    agent, upper, lower = two(
        [say("", ask(), usage=CHEAP), say("ok", usage=CHEAP)], [*steps(20), "never"], limits=AgentLimits(cost=0.05)
    )
    happened = await turn(agent)
    assert happened.ended.ending is Ending.LIMIT
    assert happened.ended.usage.cost == pytest.approx(0.06)  # the answer that reached the limit is the last
    assert (len(upper.requests), len(lower.requests)) == (1, 2)
    assert "The turn cost $0.0600; its limit is $0.0500" in shown(agent.conversation.messages)[2]


async def test_a_budget_holds_at_any_depth() -> None:
    deepest = ScriptedModel([*steps(20), "never"])
    levels = [Agent(deepest, [add]).as_tool("level0", "Goes deeper.")]
    for depth in range(1, 4):
        model = ScriptedModel([say("", ask(name=f"level{depth - 1}"), usage=CHEAP), say("ok", usage=CHEAP)])
        levels.append(Agent(model, [levels[-1]]).as_tool(f"level{depth}", "Goes deeper."))
    agent = Agent(
        ScriptedModel([say("", ask(name="level3"), usage=CHEAP), "never"]),
        [levels[-1]],
        limits=AgentLimits(cost=0.15),
    )
    ended = (await turn(agent)).ended
    assert ended.ending is Ending.LIMIT
    assert ended.usage.cost == pytest.approx(0.16)
    assert len(deepest.requests) == 4


@pytest.mark.parametrize("limits", [AgentLimits(cost=0.05), AgentLimits(tokens=37)])
async def test_sub_agents_at_the_same_time_do_not_exceed_a_limit_together(limits: AgentLimits) -> None:
    """Each alone would fit; near the limit they ask one after the other."""
    most = 0

    async def answer(request: ModelRequest) -> Any:
        nonlocal most
        most = max(most, model.streaming)
        await asyncio.sleep(0.01)
        return say("found", usage=CHEAP)

    model = ScriptedModel([answer] * 8, cost_per_token=1)
    look = Agent(model, [add]).as_tool("helper", "Helps.")
    first = say("", *(ask(str(n), id=f"c{n}") for n in range(8)), usage=CHEAP)
    agent = Agent(ScriptedModel([first, "never"]), [look], limits=limits)
    ended = (await turn(agent)).ended
    assert ended.ending is Ending.LIMIT
    assert ended.usage.cost == pytest.approx(0.06)
    assert most == 1


async def test_sub_agents_whose_answers_are_larger_than_any_before_do_not_exceed_it_together_either() -> None:
    """Three deep, at the same time, of an agent that the conversation was handed over to."""

    async def answer(request: ModelRequest) -> Any:
        await asyncio.sleep(0.01)
        return say("found", usage=CHEAP)

    model = ScriptedModel([answer] * 40, cost_per_token=1)
    tools = [Agent(model, [add]).as_tool("level0", "Helps.")]
    small = Usage(1, 1, cost=0.0001)
    for depth in (1, 2):
        asks = say("", *(ask(str(n), f"level{depth - 1}", f"c{n}") for n in range(3)), usage=small)
        middle = ScriptedModel([lambda request, asks=asks: asks] * 20, cost_per_token=1)
        tools = [Agent(middle, tools).as_tool(f"level{depth}", "Helps.")]
    first = say("", *(ask(str(n), "level2", f"c{n}") for n in range(3)), usage=small)
    takes_over = Agent(ScriptedModel([first, "never"], cost_per_token=1), tools).as_handoff(
        "takes_over", "Does it all."
    )
    agent = Agent(
        ScriptedModel([say("", call("takes_over"), usage=small)]), [takes_over], limits=AgentLimits(cost=0.05)
    )
    ended = (await turn(agent)).ended
    assert ended.ending is Ending.LIMIT
    assert 0.05 <= (ended.usage.cost or 0) < 0.05 + 0.02


async def test_far_from_a_limit_they_ask_at_the_same_time() -> None:
    """All but the first, which shows what they take."""
    together = asyncio.Event()

    async def answer(request: ModelRequest) -> Any:
        if len(model.requests) > 1:
            if model.streaming == 3:
                together.set()
            await together.wait()
        return say("found", usage=CHEAP)

    model = ScriptedModel([answer] * 4, cost_per_token=1)
    look = Agent(model, [add]).as_tool("helper", "Helps.")
    first = say("", *(ask(str(n), id=f"c{n}") for n in range(4)), usage=CHEAP)
    agent = Agent(ScriptedModel([first, say("ok", usage=CHEAP)]), [look], limits=AgentLimits(cost=2))
    assert (await turn(agent)).ended.usage.cost == pytest.approx(0.12)


async def test_the_limits_of_its_own_hold_besides() -> None:
    lower = ScriptedModel([*steps(5), "never"])
    helper = Agent(lower, [add]).as_tool("helper", "Helps.", limits=AgentLimits(steps=2))
    agent = Agent(ScriptedModel([ask(), "ok"]), [helper])
    assert (await turn(agent)).ended.ending is Ending.DONE
    assert "The task was not finished: The turn had 2 steps" in shown(agent.conversation.messages)[2]


async def test_a_sub_agent_whose_price_is_unknown_is_not_asked_within_a_cost_limit() -> None:
    agent, _, lower = two(
        [say("", ask(), usage=CHEAP), say("ok", usage=CHEAP)], ["free?"], limits=AgentLimits(cost=0.05)
    )
    assert (await turn(agent)).ended.text == "ok"
    assert "The price of `scripted/lower` is unknown" in shown(agent.conversation.messages)[2]
    assert lower.requests == []


async def test_a_tool_that_asks_the_model_keeps_to_the_budget_too() -> None:
    @tool(kind="readonly", needs=("model",))
    async def summarise(context: ToolContext) -> str:
        """Ask the model three times."""
        return " ".join([await context.model_adapter.complete(str(n)) for n in range(3)])

    model = ScriptedModel([say("", call("summarise"), usage=CHEAP), *[say("s", usage=CHEAP)] * 4])
    agent = Agent(model, [summarise], limits=AgentLimits(cost=0.05))
    ended = (await turn(agent)).ended
    assert (ended.ending, len(model.requests)) == (Ending.LIMIT, 3)
    assert "The model was not asked: The turn cost $0.0600" in shown(agent.conversation.messages)[2]


async def test_an_agent_that_outlives_the_turn_it_was_started_in_has_its_own_budget() -> None:
    kept: list[asyncio.Task[Any]] = []
    go = asyncio.Event()

    async def later() -> Any:
        await go.wait()
        return await Agent(ScriptedModel([say("later", usage=CHEAP)]), [add]).answer("go")

    @tool(kind="readonly")
    async def start() -> str:
        """Start something."""
        kept.append(asyncio.ensure_future(later()))
        return "started"

    model = ScriptedModel([say("", call("start"), usage=CHEAP), say("ok", usage=CHEAP)])
    agent = Agent(model, [start], limits=AgentLimits(tokens=30))
    ended = (await turn(agent)).ended
    go.set()
    assert (await kept[0]).text == "later"
    assert ended.usage == Usage(20, 10, cost=0.04)


async def test_stopping_the_turn_stops_it() -> None:
    waiting = Waiting()
    lower = ScriptedModel([call("wait")])
    agent = Agent(ScriptedModel([ask()]), [Agent(lower, [waiting.tool]).as_tool("helper", "Helps.")])

    async def stop() -> None:
        await waiting.begun.wait()
        agent.interrupt()

    happened, _ = await asyncio.gather(turn(agent), stop())
    assert happened.ended.ending is Ending.INTERRUPTED
    assert waiting.cancelled
    assert lower.streaming == 0


async def test_one_that_may_change_things_runs_alone_in_its_batch() -> None:
    def alone(*tools: Any) -> bool:
        helper = Agent(ScriptedModel(), tools).as_tool("helper", "Helps.")
        return Runtime([helper]).build(RawCall("helper", {"prompt": "x"})).info.runs_alone

    assert not alone(add)
    assert alone(add, keep)


# Handing over


def triage(above: list[Any], below: list[Any], **options: Any) -> tuple[Agent, ScriptedModel, ScriptedModel]:
    upper, lower = ScriptedModel(above, name="scripted/triage"), ScriptedModel(below, name="scripted/billing")
    billing = Agent(lower, [keep], system="You do bills.", settings=ModelSettings(temperature=0))
    handoff = billing.as_handoff("billing", "Questions about bills.")
    return Agent(upper, [add, handoff], system="You sort.", **options), upper, lower


async def test_another_agent_takes_the_conversation_over_and_keeps_it() -> None:
    agent, upper, lower = triage([call("billing", {"reason": "a bill"})], ["Your bill is paid.", "Yes, in May."])
    happened = await turn(agent, "Is my bill paid?")
    assert happened.ended.text == "Your bill is paid."
    assert [one.text for one in happened.of(AgentNotice)] == ["`billing` answers from here on."]
    assert shown(lower.requests[0].messages) == [
        "person: Is my bill paid?",
        "model:  +billing",
        "result: The conversation was handed over to `billing`, which answers from here on.",
    ]
    assert (lower.requests[0].system, lower.requests[0].settings.temperature) == ("You do bills.", 0)
    assert [one.name for one in lower.requests[0].tools] == ["keep"]
    assert (await turn(agent, "In May?")).ended.text == "Yes, in May."
    assert len(upper.requests) == 1
    agent.conversation = type(agent.conversation)()
    assert agent.active is agent  # a new conversation begins with the agent itself


async def test_it_works_under_the_policy_and_within_the_limits_of_the_one_that_was_asked() -> None:
    agent, _, lower = triage(
        [say("", call("billing"), usage=CHEAP)],
        [say("", call("keep", {"text": "x"}), usage=CHEAP), "never"],
        runtime=Runtime([], policy=RulePolicy(mode="plan")),
        limits=AgentLimits(cost=0.04),
    )
    ended = (await turn(agent)).ended
    assert ended.ending is Ending.LIMIT
    assert lower.requests[0].tools == ()  # `keep` writes
    assert "kept" not in agent.session.state


async def test_it_can_hand_back() -> None:
    lower = ScriptedModel([])
    billing = Agent(lower, Registry())
    upper = ScriptedModel([call("billing"), "Back again."])
    agent = Agent(upper, [billing.as_handoff("billing", "Bills.")])
    billing._tools = Agent(lower, [agent.as_handoff("triage", "Anything else.")])._tools
    lower._replies.append(call("triage"))
    assert (await turn(agent)).ended.text == "Back again."
    assert agent.active is agent


async def test_a_conversation_goes_to_one_agent_at_a_time() -> None:
    agent, _, lower = triage([say("", call("billing", id="a"), call("billing", id="b"))], ["Here."])
    assert (await turn(agent)).ended.text == "Here."
    assert shown(lower.requests[0].messages)[-1].count("was handed over to `billing` already") == 1


async def test_one_that_could_not_answer_is_not_handed_to() -> None:
    class Picky(ScriptedModel):
        def check_settings(self, settings: ModelSettings) -> None:
            raise ModelError("refused", "It has no `temperature` setting.")  # type: ignore[arg-type]

    picky = Picky(["never"])
    target = Agent(picky)
    target.settings = ModelSettings(temperature=1)
    agent = Agent(ScriptedModel([call("other"), "I do it myself."]), [target.as_handoff("other", "Others.")])
    assert (await turn(agent)).ended.text == "I do it myself."
    assert "It has no `temperature` setting." in shown(agent.conversation.messages)[2]
    assert picky.requests == []


async def test_only_a_turn_can_be_handed_over() -> None:
    target = Agent(ScriptedModel()).as_handoff("other", "Others.")
    result = await Runtime([target]).run("other")
    assert not result.success
    assert "Only an agent's turn can be handed over." in result.llm_content
