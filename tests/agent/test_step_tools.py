"""Which tools a step shows: by caller, by `prepare`, never more than the policy lets be seen (R4, T2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from ferrule import Caller, RulePolicy, Runtime, Session, Tool, tool
from ferrule.agent.agent import Agent
from ferrule.agent.agent_events import Ending
from ferrule.agent.step_tools import StepContext
from ferrule.core.model import ModelError, ModelSettings
from ferrule.testing import ScriptedModel, call

from .room import add, agent_with, keep, shown, turn


@tool(kind="readonly", roles=("admin",))
def list_users() -> str:
    """List all users."""
    return "ann, bob"


def names(model: ScriptedModel) -> list[list[str]]:
    return [[one.name for one in request.tools] for request in model.requests]


async def test_a_function_chooses_the_tools_of_each_step() -> None:
    seen: list[StepContext] = []

    async def prepare(step: StepContext) -> Iterable[str | Tool[Any]] | None:
        seen.append(step)
        return ["add"] if step.number == 1 else [keep] if step.number == 2 else None

    replies = [call("keep", {"text": "x"}), call("keep", {"text": "y"}), "ok"]
    agent, model = agent_with(replies, prepare=prepare)
    await turn(agent)
    assert names(model) == [["add"], ["keep"], ["add", "keep", "repeat"]]
    assert agent.session.state["kept"] == ["y"]  # what a step does not show cannot be called in it
    assert "`keep` is not available in this step" in shown(agent.conversation.messages)[2]
    assert [(one.number, len(one.messages)) for one in seen] == [(1, 1), (2, 3), (3, 5)]
    assert {one.session.id for one in seen} == {agent.session.id}


async def test_it_never_shows_more_than_the_mode_and_the_role_allow() -> None:
    where = Runtime([add, keep, list_users], policy=RulePolicy(mode="plan"))
    model = ScriptedModel(["ok"])
    agent = Agent(model, runtime=where, prepare=lambda step: ["add", "keep", "list_users"])
    await turn(agent)
    assert names(model) == [["add"]]


async def test_a_name_that_no_tool_has_ends_the_turn() -> None:
    agent, model = agent_with(["ok"], prepare=lambda step: ["repaet"])
    with pytest.raises(
        ValueError, match=r"`prepare` chose `repaet`, which is not a tool of this agent\. Did you mean `repeat`\?"
    ):
        await agent.answer("go")
    assert model.requests == []


async def test_a_text_is_not_a_list_of_tools() -> None:
    agent, _ = agent_with(["ok"], prepare=lambda step: "add")
    with pytest.raises(TypeError, match="`prepare` returns a list of tools, or None for all of them, not 'add'"):
        await agent.answer("go")
    agent.prepare = lambda step: cast("Any", True)
    with pytest.raises(TypeError, match="`prepare` returns a list of tools, or None for all of them, not True"):
        await agent.answer("go")


@pytest.mark.parametrize(("role", "sees"), [("admin", ["add", "list_users"]), ("guest", ["add"]), (None, ["add"])])
async def test_tools_of_other_roles_are_not_shown(role: str | None, sees: list[str]) -> None:
    model = ScriptedModel([call("list_users"), "ok"])
    session = Session(caller=Caller(role=role))
    agent = Agent(model, runtime=Runtime([add, list_users], session=session))
    await turn(agent)
    assert names(model)[0] == sees
    assert ("ann, bob" in shown(agent.conversation.messages)[2]) == (role == "admin")


async def test_a_caller_has_a_toolset_of_their_own() -> None:
    def toolset(session: Session) -> list[Tool[Any]]:
        return [add, keep] if session.caller.tenant == "acme" else [add]

    for tenant, sees in (("acme", ["add", "keep"]), ("other", ["add"])):
        model = ScriptedModel(["ok"])
        agent = Agent(model, toolset, runtime=Runtime(session=Session(caller=Caller(tenant=tenant))))
        assert agent.tools.names() == sees
        await turn(agent)
        assert names(model) == [sees]


# Settings of the model


async def test_settings_of_the_agent_and_of_a_run_go_with_every_request() -> None:
    agent, model = agent_with([call("add", {"a": 1, "b": 2}), "3", "4"], settings=ModelSettings(temperature=1, seed=2))
    await agent.answer("go", settings=ModelSettings(temperature=0))
    await turn(agent)
    assert [(one.settings.temperature, one.settings.seed) for one in model.requests] == [(0, 2), (0, 2), (1, 2)]


@pytest.mark.parametrize("choice", ["required", "add"])
async def test_a_choice_of_tool_holds_for_the_first_answer(choice: str) -> None:
    agent, model = agent_with([call("add", {"a": 1, "b": 2}), "3"], settings=ModelSettings(tool_choice=choice))
    assert (await turn(agent)).ended.ending is Ending.DONE
    assert [one.settings.tool_choice for one in model.requests] == [choice, None]


async def test_a_tool_that_is_not_there_cannot_be_chosen() -> None:
    agent, model = agent_with(["ok"], settings=ModelSettings(tool_choice="repaet"))
    with pytest.raises(ModelError, match=r"There is no tool `repaet` to choose\. Did you mean `repeat`\?"):
        await agent.answer("go")
    assert model.requests == []


class Picky(ScriptedModel):
    """Has no seed."""

    def check_settings(self, settings: ModelSettings) -> None:
        if settings.seed is not None:
            raise ModelError("refused", "It has no `seed` setting.")  # type: ignore[arg-type]


async def test_a_setting_that_the_model_lacks_is_refused_at_the_start() -> None:
    with pytest.raises(ModelError, match="no `seed` setting"):
        Agent(Picky(), [add], settings=ModelSettings(seed=1))
    model = Picky(["ok"])
    agent = Agent(model, [add])
    with pytest.raises(ModelError, match="no `seed` setting"):
        await agent.answer("go", settings=ModelSettings(seed=1))
    agent.settings = ModelSettings(seed=1)  # or another model was chosen
    assert (await turn(agent)).ended.problem == "It has no `seed` setting."
    assert model.requests == []


async def test_settings_are_of_their_own_type() -> None:
    with pytest.raises(TypeError, match=r"ModelSettings\(temperature=0.2\), not"):
        Agent(ScriptedModel(), [add], settings={"temperature": 0})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ModelSettings"):
        await Agent(ScriptedModel(), [add]).answer("go", settings={"temperature": 0})  # type: ignore[arg-type]
