"""Many prompts at once, and one budget for several agents (M1, P6)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import Runtime, Session, ToolContext, tool
from ferrule.agent import Agent, AgentLimits, AgentNotice, Budget, Ending, TurnEnded
from ferrule.models import ModelError, ModelFault, ModelRequest, Usage
from ferrule.testing import ScriptedModel, call, say

from .room import Waiting, add, runtime, turn

CENT = Usage(90, 10, cost=0.01)


def number_of(request: ModelRequest) -> int:
    return int(request.messages[0].text.split()[-1])  # type: ignore[union-attr]


class Sorter:
    """Answers a prompt with its number; every tenth fails."""

    def __init__(self, seconds: float = 0.001) -> None:
        self.running = self.most = self.asked = 0
        self.seconds = seconds
        self.model = ScriptedModel([self.answer] * 1000)

    async def answer(self, request: ModelRequest) -> Any:
        self.asked += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.running -= 1
        number = number_of(request)
        return ModelError(ModelFault.BUSY, "The model is busy.") if number % 10 == 9 else say(str(number), usage=CENT)


PROMPTS = [f"sort {number}" for number in range(40)]


async def everything(agent: Agent[Any, Any], prompts: list[str] = PROMPTS, **options: Any) -> dict[str, TurnEnded]:
    return {prompt: ended async for prompt, ended in agent.answer_all(prompts, **options)}


async def test_each_prompt_has_its_ending_and_a_failure_is_one() -> None:
    sorter = Sorter()
    agent = Agent(sorter.model, [add])
    ended = await everything(agent, at_once=7)
    assert sorted(ended) == sorted(PROMPTS)
    assert sorter.most == 7
    assert {
        number: one.ending for number, one in enumerate(ended[prompt] for prompt in PROMPTS) if one.error
    } == dict.fromkeys(range(9, 40, 10), Ending.FAILED)
    assert [ended[prompt].output for prompt in PROMPTS[:9]] == [str(number) for number in range(9)]
    failure = ended["sort 9"].error
    assert isinstance(failure, ModelError)
    assert failure.fault is ModelFault.BUSY
    with pytest.raises(ModelError, match="The model is busy"):
        _ = ended["sort 9"].output
    assert agent.conversation.messages == []
    assert not agent.working


async def test_they_come_as_they_end() -> None:
    async def slow_first(request: ModelRequest) -> str:
        await asyncio.sleep(0.05 if number_of(request) == 0 else 0)
        return "ok"

    agent = Agent(ScriptedModel([slow_first] * 3), [add])
    assert list(await everything(agent, PROMPTS[:3], at_once=3))[-1] == "sort 0"


async def test_those_that_end_are_followed_by_others_while_one_takes_long() -> None:
    """A prompt that takes long holds up none of the others."""
    released = asyncio.Event()

    async def answer(request: ModelRequest) -> str:
        if number_of(request) == 0:
            await released.wait()
        return "ok"

    seen: list[str] = []
    async for prompt, _ in Agent(ScriptedModel([answer] * 40), [add]).answer_all(PROMPTS, at_once=2):
        seen.append(prompt)
        if len(seen) == 39:
            released.set()
    assert seen[-1] == "sort 0"


async def test_prompts_share_tools_and_deps_and_neither_state_nor_usage() -> None:
    @tool(kind="readonly")
    async def count(context: ToolContext[list[str]]) -> int:
        """Count."""
        context.state["count"] = context.state.get("count", 0) + 1
        context.deps.append(context.session.id)
        await asyncio.sleep(0)
        return context.state["count"]

    @tool(kind="readonly", needs=("model",))
    async def ask_model(context: ToolContext) -> str:
        """Ask."""
        return await context.model_adapter.complete("Well?")

    def answer(request: ModelRequest) -> Any:
        if len(request.messages) == 1 and "Well?" in str(request.messages[0]):
            return say("well", usage=CENT)
        if len(request.messages) == 1:
            return say("", call("count"), call("ask_model"), usage=CENT)
        return say(request.messages[-1].results[0].llm_content, usage=CENT)  # type: ignore[union-attr]

    agent = Agent(
        ScriptedModel([answer] * 200), runtime=Runtime([count, ask_model], session=Session(state={"count": 41}))
    )
    seen: list[str] = []
    ended = await everything(agent, deps=seen)
    assert {one.text for one in ended.values()} == {"42"}
    assert {one.usage.total_tokens for one in ended.values()} == {300}
    assert len(set(seen)) == len(PROMPTS)
    assert agent.runtime.session.state == {"count": 41}


async def test_what_a_prompt_left_open_is_closed_with_it() -> None:
    closed: list[str] = []

    @tool(kind="readonly")
    def begin(context: ToolContext) -> str:
        """Open something."""

        async def close() -> None:
            closed.append(context.session.id)

        context.session.on_close(close)
        return "open"

    def answer(request: ModelRequest) -> Any:
        return call("begin") if len(request.messages) == 1 else "ok"

    await everything(Agent(ScriptedModel([answer] * 10), [begin]), PROMPTS[:5])
    assert len(set(closed)) == 5


async def test_leaving_early_stops_those_that_run() -> None:
    waiting = Waiting()
    agent = Agent(ScriptedModel(["ok", call("wait"), "never"]), runtime=runtime(waiting.tool))
    async with aclosing(agent.answer_all(["first", "second", "third"], at_once=2)) as answers:
        async for prompt, _ in answers:
            assert prompt == "first"
            await waiting.begun.wait()
            break
    assert waiting.cancelled


async def test_cancelling_stops_them_too() -> None:
    waiting = Waiting()
    agent = Agent(ScriptedModel([call("wait"), "never"]), runtime=runtime(waiting.tool))
    task = asyncio.ensure_future(everything(agent, ["one"]))
    await waiting.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert waiting.cancelled


async def test_wrong_arguments_are_refused_before_anything_is_asked() -> None:
    agent = Agent(ScriptedModel([]), [add], deps_type=Waiting)
    with pytest.raises(TypeError, match="pass `deps=…` with each turn"):
        await everything(agent)
    with pytest.raises(TypeError) as caught:
        await everything(agent, "sort 1")  # type: ignore[arg-type]
    assert str(caught.value) == snapshot("`answer_all` takes a list of prompts. Write ['sort 1'].")
    with pytest.raises(ValueError, match="`at_once` must be at least 1, not 0"):
        await everything(agent, deps=Waiting(), at_once=0)


# Budgets


async def test_a_budget_is_of_all_prompts_together() -> None:
    sorter, budget = Sorter(), Budget(tokens=1_000)
    agent = Agent(sorter.model, [add], budget=budget)
    ended = await everything(agent, PROMPTS * 2)
    assert 1_000 <= budget.usage.total_tokens <= 1_100
    refused = [one for one in ended.values() if one.ending is Ending.LIMIT]
    assert {one.limit for one in refused} == {"tokens"}
    assert refused[-1].problem == snapshot("The budget of 1,000 tokens is used up: 1,000 were used.")
    assert isinstance(refused[-1].error, ModelError)
    assert refused[-1].error.fault is ModelFault.STOPPED


async def test_several_agents_share_one_at_the_same_time() -> None:
    budget = Budget(cost=0.05)

    async def answer(request: ModelRequest) -> Any:
        await asyncio.sleep(0.001)
        return say("ok", usage=CENT)

    model = ScriptedModel([answer] * 20, cost_per_token=1)
    agents = [Agent(model, [add], budget=budget, limits=AgentLimits(tokens=1_000)) for _ in range(20)]
    ended = await asyncio.gather(*(one.answer("go") for one in agents))
    assert [one.ending for one in ended].count(Ending.DONE) == 5
    assert budget.usage.cost == pytest.approx(0.05)
    assert ended[-1].problem == snapshot("The budget of $0.0500 is used up: $0.0500 were spent.")


async def test_agents_in_threads_of_their_own_share_one() -> None:
    budget = Budget(tokens=5_000)
    model = ScriptedModel([lambda request: say("ok", usage=CENT)] * 200)
    agents = [Agent(model, [add], budget=budget) for _ in range(80)]
    ended = await asyncio.gather(*(asyncio.to_thread(one.answer_sync, "go") for one in agents))
    assert [one.ending for one in ended].count(Ending.DONE) == 50
    assert budget.usage.total_tokens == 5_000


async def test_sub_agents_with_the_same_budget_count_once_and_those_with_another_in_both() -> None:
    budget, own = Budget(tokens=10_000), Budget(tokens=10_000)
    helpers = [
        Agent(ScriptedModel([say("ok", usage=CENT)]), [add], budget=one).as_tool(name, "Helps.")
        for name, one in (("same", budget), ("other", own))
    ]
    asks = say("", call("same", {"prompt": "go"}), call("other", {"prompt": "go"}), usage=CENT)
    agent = Agent(ScriptedModel([asks, say("ok", usage=CENT)]), helpers, budget=budget)
    assert (await agent.answer("go")).usage.total_tokens == 400
    assert (budget.usage.total_tokens, own.usage.total_tokens) == (400, 100)


async def test_the_budget_of_an_agent_that_takes_over_counts_from_then_on_and_in_later_turns() -> None:
    theirs = Budget(tokens=150)
    other = Agent(ScriptedModel([say("one", usage=CENT), say("two", usage=CENT)]), [add], budget=theirs)
    agent = Agent(ScriptedModel([say("", call("other"), usage=CENT)]), [other.as_handoff("other", "Takes over.")])
    happened = await turn(agent)
    assert happened.of(AgentNotice)
    assert (happened.ended.text, theirs.usage.total_tokens) == ("one", 100)
    assert (await agent.answer("more")).text == "two"
    assert (await agent.answer("more")).limit == "tokens"


async def test_a_cost_that_is_unknown_is_refused_before_anything_is_asked() -> None:
    model = ScriptedModel(["never"])
    with pytest.raises(ModelError, match="The price of `scripted/test` is unknown"):
        await Agent(model, [add], budget=Budget(cost=1)).answer("go")
    assert model.requests == []


async def test_an_agent_that_a_budget_refuses_is_not_handed_to() -> None:
    other = Agent(ScriptedModel(["never"]), [add], budget=Budget(cost=1))
    model = ScriptedModel([call("other"), "So be it."])
    ended = await Agent(model, [other.as_handoff("other", "Takes over.")]).answer("go")
    assert ended.text == "So be it."
    assert "The price of `scripted/test` is unknown" in model.requests[1].messages[-1].results[0].llm_content  # type: ignore[union-attr]


def test_wrong_budgets_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="Budget: tokens must be a number above 0, not 0"):
        Budget(tokens=0)
    with pytest.raises(TypeError) as wrong:
        Agent(ScriptedModel([]), [add], budget=AgentLimits(tokens=5))  # type: ignore[arg-type]
    assert str(wrong.value) == snapshot("`budget` is a Budget, not AgentLimits.")
    with pytest.raises(TypeError) as other:
        Agent(ScriptedModel([]), [add], limits={"tokens": 5})  # type: ignore[arg-type]
    assert str(other.value) == snapshot("`limits` is an AgentLimits, not dict.")
