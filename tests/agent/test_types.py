"""What type checkers know of an agent: its dependencies and its output. An ignored line must be an error to pyright."""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, assert_type

from pydantic import BaseModel

from ferrule import ToolContext
from ferrule.agent import Agent, AgentLimits, ModelSettings, StepContext, TurnEnded
from ferrule.testing import ScriptedModel, call


@dataclass
class Shop:
    name: str


class Refund(BaseModel):
    order: str


class Handover(BaseModel):
    why: str


class Row(TypedDict):
    a: int


def make_ticket(title: str) -> int:
    """Make a ticket."""
    return len(title)


async def make_ticket_later(title: str) -> int:
    """Make a ticket."""
    return len(title)


def test_the_output_has_the_type_that_was_asked_for() -> None:
    model = ScriptedModel(["words", call("final_answer", {"order": "A1"}), call("make_ticket_later", {"title": "abc"})])
    assert assert_type(Agent(model).answer_sync("go").output, str) == "words"
    assert assert_type(Agent(model, output=Refund).answer_sync("go").output, Refund).order == "A1"
    assert assert_type(Agent(model, output=make_ticket_later).answer_sync("go").output, int) == 3


def test_an_agent_names_both_its_types() -> None:
    model = ScriptedModel()
    assert_type(Agent(model), Agent[None, str])
    assert_type(Agent(model, output=Row), Agent[None, Row])
    assert_type(Agent(model, output=list[int]), Agent[None, list[int]])
    assert_type(Agent(model, output=[Refund, Handover]), Agent[None, Refund | Handover])
    assert_type(Agent(model, output=[Refund, str]), Agent[None, Refund | str])
    assert_type(Agent(model, output=make_ticket), Agent[None, int])
    assert_type(Agent(model, output=[make_ticket, Refund]), Agent[None, int | Refund])
    assert_type(Agent(model, output=Refund, deps_type=Shop), Agent[Shop, Refund])


def of_shop(step: StepContext[Shop]) -> list[str]:
    return [step.deps.name]


async def of_any(step: StepContext) -> None:
    assert_type(step.deps, Any)


def test_a_function_that_chooses_tools_says_what_the_agent_works_with() -> None:
    model = ScriptedModel()
    assert_type(Agent(model, prepare=of_shop, deps_type=Shop), Agent[Shop, str])
    assert_type(Agent(model, prepare=of_shop, output=Refund), Agent[Shop, Refund])
    assert_type(Agent(model, prepare=of_any, deps_type=Shop, output=Refund), Agent[Shop, Refund])


if TYPE_CHECKING:

    async def right(agent: Agent[Shop, Refund], context: ToolContext[Shop], bare: ToolContext) -> None:
        assert_type(context.deps, Shop)
        assert_type(bare.deps, object)
        assert_type((await agent.answer("go", deps=Shop("a"))).output, Refund)
        assert_type((await agent.answer("go", deps=Shop("a"), settings=ModelSettings(seed=1))).output, Refund)
        plain = Agent(agent.model, [agent.as_tool("a", "A."), agent.as_handoff("b", "B.")], prepare=of_any)
        assert_type((await plain.answer("go", settings=ModelSettings(seed=1))).output, str)
        async for event in agent.run("go", deps=Shop("a")):
            if isinstance(event, TurnEnded):
                assert_type(event.output, Refund)
        async for prompt, ended in agent.answer_all(["go"], deps=Shop("a")):
            assert_type((prompt, ended.output), tuple[str, Refund])

    def wrong(agent: Agent[Shop, Refund], plain: Agent, context: ToolContext[Shop]) -> None:
        agent.answer_sync("go")  # pyright: ignore[reportCallIssue]
        agent.answer_sync("go", deps="a shop")  # pyright: ignore[reportArgumentType]
        agent.answer_all(["go"])  # pyright: ignore[reportCallIssue]
        agent.answer_all(["go"], deps="a shop")  # pyright: ignore[reportArgumentType]
        Agent(agent.model, budget=AgentLimits(tokens=1))  # pyright: ignore[reportArgumentType]
        plain.answer_sync("go", settings={"seed": 1})  # pyright: ignore[reportArgumentType]
        Agent(agent.model, prepare=of_shop, deps_type=str)  # pyright: ignore[reportArgumentType]
        plain.answer_sync("go", deps=Shop("a"))  # pyright: ignore[reportCallIssue, reportArgumentType]
        print(agent.answer_sync("go", deps=Shop("a")).output.cents)  # pyright: ignore[reportAttributeAccessIssue]
        print(context.deps.owner)  # pyright: ignore[reportAttributeAccessIssue]
