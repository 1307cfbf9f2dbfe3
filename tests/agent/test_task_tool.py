"""A sub-agent works under the same rules and records, with a filter and a budget of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from ferrule import Limits, Registry, RulePolicy, Runtime
from ferrule.agent.agent import Agent
from ferrule.agent.agent_events import Ending
from ferrule.agent.limits import AgentLimits
from ferrule.agent.task_tool import add_task_tool
from ferrule.core.events import Done, Pending, Progress
from ferrule.core.model import ModelEvent, ModelRequest, Usage
from ferrule.testing import ScriptedModel, call, say

from .room import Records, Waiting, add, keep, shown, turn


def with_tasks(
    replies: Any, *tools: Any, budget: AgentLimits | None = None, limits: AgentLimits | None = None, **options: Any
) -> tuple[Agent, ScriptedModel, Records]:
    records = Records()
    registry = Registry([add, keep, *tools])
    where = Runtime(registry, policy=options.pop("policy", RulePolicy(allow=["keep"])), recorders=[records])
    model = ScriptedModel(replies)
    agent = Agent(model, runtime=where, system="Main.", limits=limits or AgentLimits())
    add_task_tool(agent, registry, *([budget] if budget else []))
    return agent, model, records


def task(prompt: str = "Add 1 and 2.", **more: str) -> Any:
    return call("Task", {"description": "adding", "prompt": prompt, **more})


async def test_its_last_words_are_the_result_and_its_calls_are_seen_and_recorded_below_it() -> None:
    agent, model, records = with_tasks([task(), call("add", {"a": 1, "b": 2}), "The sum is 3.", "It is 3."])
    happened = await turn(agent, "1 + 2?")
    assert happened.ended.text == "It is 3."
    assert shown(agent.conversation.messages)[2] == "result: The sum is 3."
    outer, inner = happened.of(Pending)
    assert (inner.tool, inner.parent_id) == ("add", outer.call_id)
    assert [(one.tool, one.parent_id is not None) for one in records.all] == [("add", True), ("Task", False)]
    assert [one.message for one in happened.of(Progress)] == ["adding 1 and 2"]
    assert shown(model.requests[1].messages) == ["person: Add 1 and 2."], "it sees nothing of the conversation"
    assert model.requests[1].system.startswith("Main.\n\n# Your part\n")
    assert happened.of(Done)[-1].result.display_content == "done in 2 steps"


async def test_it_has_read_only_tools_unless_all_are_asked_for_and_never_itself() -> None:
    agent, model, _ = with_tasks(
        [task(), call("keep", {"text": "x"}), "No.", task(tools="all"), call("keep", {"text": "y"}), "Kept.", "Done."]
    )
    await turn(agent)
    assert [tool.name for tool in model.requests[1].tools] == ["add"]
    assert [tool.name for tool in model.requests[4].tools] == ["add", "keep"]
    assert agent.session.state["kept"] == ["y"]


async def test_it_asks_for_nothing_itself_and_its_calls_are_refused_as_any_other() -> None:
    agent, model, _ = with_tasks(
        [task(tools="all"), call("keep", {"text": "x"}), "Refused.", "So be it."], policy=RulePolicy()
    )
    await turn(agent)
    assert "approval isn't available here" in shown(model.requests[2].messages)[-1]
    assert shown(agent.conversation.messages)[2] == "result: Refused."


async def test_what_it_uses_counts_into_the_turn_and_its_own_budget_holds() -> None:
    used = Usage(10, 5)
    more = [say("", call("add", {"a": n, "b": n}), usage=used) for n in range(3)]
    agent, _, _ = with_tasks([say("", task(), usage=used), *more, say("ok", usage=used)], budget=AgentLimits(steps=3))
    happened = await turn(agent)
    assert happened.ended.usage == Usage(50, 25)
    assert happened.ended.steps == 2
    assert "The task was not finished: The turn had 3 steps" in shown(agent.conversation.messages)[2]


async def test_the_limit_of_the_turn_holds_for_it_too() -> None:
    used = Usage(10, 5)
    agent, model, _ = with_tasks(
        [say("", task(), usage=used), say("", call("add", {"a": 1, "b": 1}), usage=used), "never"],
        limits=AgentLimits(tokens=30),
    )
    assert (await turn(agent)).ended.ending is Ending.LIMIT
    assert len(model.requests) == 2


async def test_stopping_the_turn_stops_it() -> None:
    waiting = Waiting()
    agent, model, records = with_tasks([task(), call("wait")], waiting.tool)

    async def stop() -> None:
        await waiting.begun.wait()
        agent.interrupt()

    happened, _ = await asyncio.gather(turn(agent), stop())
    assert happened.ended.ending is Ending.INTERRUPTED
    assert waiting.cancelled
    assert model.streaming == 0
    assert [(one.tool, one.outcome) for one in records.all] == [
        ("wait", "cancelled_error"),
        ("Task", "cancelled_error"),
    ]


class SlowToLetGo(ScriptedModel):
    """A model whose answers to a sub-agent take a while to stop, as one on this machine does."""

    def __init__(self, replies: Any) -> None:
        super().__init__(replies)
        self.asked, self.may_end, self.has_ended = asyncio.Event(), asyncio.Event(), False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if "# Your part" in request.system:
            self.asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                await self.may_end.wait()
                self.has_ended = True
        async for event in super().stream(request):
            yield event


async def test_stopping_the_turn_waits_until_its_model_has_stopped() -> None:
    """P6: it is not given up in the middle of that, however little time other tools have."""
    registry, model, records = Registry(), SlowToLetGo([task()]), Records()
    agent = Agent(model, runtime=Runtime(registry, recorders=[records], limits=Limits(grace=0)))
    add_task_tool(agent, registry)
    running = asyncio.create_task(turn(agent))
    await model.asked.wait()
    agent.interrupt()
    for _ in range(100):
        await asyncio.sleep(0)
    waited_for = not running.done()
    model.may_end.set()
    assert waited_for
    assert (await running).ended.ending is Ending.INTERRUPTED
    assert model.has_ended
    assert [(one.tool, one.outcome, one.abandoned) for one in records.all] == [("Task", "cancelled_error", False)]


async def test_read_only_tasks_run_at_the_same_time_and_others_alone() -> None:
    both = asyncio.Event()
    running: set[str] = set()

    async def meet(request: ModelRequest) -> str:
        running.add(shown(request.messages)[0])
        if len(running) == 2:
            both.set()
        await both.wait()
        return "met"

    one, two = task("one"), task("two")
    agent, _, _ = with_tasks([say("", one, two), meet, meet, "ok"])
    assert (await turn(agent)).ended.text == "ok"

    order: list[str] = []

    def note(request: ModelRequest) -> str:
        order.append(shown(request.messages)[0])
        return "noted"

    agent, _, _ = with_tasks([say("", task("one", tools="all"), task("two", tools="all")), note, note, "ok"])
    assert (await turn(agent)).ended.text == "ok"
    assert order == ["person: one", "person: two"]


async def test_plan_mode_holds_for_it() -> None:
    agent, model, _ = with_tasks(
        [task(tools="all"), call("keep", {"text": "x"}), "No.", "A plan."], policy=RulePolicy(mode="plan")
    )
    await turn(agent)
    assert [tool.name for tool in model.requests[1].tools] == ["add"]
    assert "kept" not in agent.session.state
