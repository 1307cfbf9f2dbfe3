"""X5: of many tools a model is shown few, and those that it finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import Caller, Registry, RulePolicy, Runtime, Session, Tool, raw_tool
from ferrule.agent.agent import Agent
from ferrule.agent.conversation import Conversation
from ferrule.agent.turn_store import TurnStore
from ferrule.core.model import ModelError, ModelSettings
from ferrule.registry.search_tools import ToolSearch
from ferrule.testing import ScriptedModel, call

from .room import add, keep, shown, turn


def report(subject: str, **options: Any) -> Tool[Any]:
    schema = {
        "type": "object",
        "properties": {"day": {"type": "string"}, "unit": {"type": "string"}},
        "required": ["day"],
    }
    description = f"Get the numbers of {subject} for a day. They are from the night before."
    return raw_tool(
        f"{subject}_report", schema, lambda _: f"{subject}: 7", description=description, kind="readonly", **options
    )


def fillers(count: int) -> list[Tool[Any]]:
    return [raw_tool(f"filler_{number}", {"type": "object"}, str, kind="readonly") for number in range(count)]


MANY = [add, report("sales"), report("weather"), report("stock"), *fillers(40)]


def names(model: ScriptedModel) -> list[list[str]]:
    return [[one.name for one in request.tools] for request in model.requests]


def search(*queries: str) -> Any:
    return call("search_tools", {"queries": list(queries)})


async def test_of_many_tools_the_model_is_shown_what_it_finds_after_what_it_was_shown_before() -> None:
    model = ScriptedModel(
        [search("sales numbers"), search("how was the weather?"), call("weather_report", {"day": "today"}), "7"]
    )
    agent = Agent(model, MANY, search=ToolSearch(pinned=["add"], most=1))
    await turn(agent)
    await turn(agent)
    first = ["add", "search_tools"]
    sales = [*first, "sales_report"]
    both = [*sales, "weather_report"]
    assert names(model) == [first, sales, both, both, both]
    assert "result: weather: 7" in shown(agent.conversation.messages)


async def test_the_definitions_that_were_sent_stay_word_for_word() -> None:
    model = ScriptedModel([search("sales"), search("stock"), "done"])
    await turn(Agent(model, MANY))
    sent = [[(one.name, one.description.text, one.input_schema) for one in request.tools] for request in model.requests]
    assert sent[1][: len(sent[0])] == sent[0]
    assert sent[2][: len(sent[1])] == sent[1]


async def test_what_the_model_reads() -> None:
    registry = Registry(MANY)
    for one in (report("mail", category="office"), report("fax", category="office")):
        registry.register(one)
    model = ScriptedModel([search("sales", "stock"), search("zebra"), "done"])
    agent = Agent(model, registry, search=ToolSearch(most=1))
    await turn(agent)
    assert model.requests[0].tools[0].description.text == snapshot("""\
Find tools by what they do. Most of your tools are not shown until you search for them.

Search before you say that something cannot be done. Found tools stay available; do not search for them again.

There are tools of these kinds:
- general: add, sales_report, weather_report, stock_report, filler_0, …
- office: mail_report, fax_report\
""")
    assert shown(agent.conversation.messages)[2] == snapshot("""\
result: You can call these tools now:
- sales_report(day, unit?): Get the numbers of sales for a day. They are from the night before.
- stock_report(day, unit?): Get the numbers of stock for a day. They are from the night before.\
""")
    assert shown(agent.conversation.messages)[4] == snapshot(
        "result: No tool was found. Use other words for what it should do, or go on without it."
    )


@pytest.mark.parametrize(("count", "searches"), [(40, False), (41, True)])
async def test_few_tools_are_all_shown(count: int, searches: bool) -> None:
    model = ScriptedModel(["ok"])
    await turn(Agent(model, fillers(count)))
    assert (names(model)[0] == ["search_tools"]) == searches
    assert len(names(model)[0]) == (1 if searches else count)


async def test_a_program_can_do_without() -> None:
    model = ScriptedModel(["ok"])
    await turn(Agent(model, MANY, search=None))
    assert len(names(model)[0]) == len(MANY)


async def test_a_tool_of_the_programs_own_with_that_name_is_left_alone() -> None:
    own = raw_tool("search_tools", {"type": "object"}, str, kind="readonly")
    model = ScriptedModel(["ok"])
    await turn(Agent(model, [own, *MANY]))
    assert len(names(model)[0]) == len(MANY) + 1


async def test_forbidden_tools_are_neither_counted_nor_found_nor_named() -> None:
    """By a rule, a role, a switch, `prepare`, or for the lack of what they need."""
    hidden = [
        report("secret"),
        report("secret_admin", roles=("admin",)),
        report("secret_off"),
        report("secret_user", needs=("user",)),
    ]
    registry = Registry([*MANY, *hidden])
    registry.disable("secret_off_report")
    model = ScriptedModel(
        [search("secret report", "secret_report", "secrte"), call("search_tools", {"queries": ["admin"]}), "done"]
    )
    where = Runtime(registry, policy=RulePolicy(deny=["secret_report"]), session=Session(caller=Caller(role="guest")))
    agent = Agent(model, runtime=where, search=ToolSearch(above=len(MANY) - 1))
    await turn(agent)
    told = "\n".join(
        [*shown(agent.conversation.messages)[2::2], *(one.description.text for one in model.requests[-1].tools)]
    )
    assert "secret" not in told
    few = Agent(model := ScriptedModel(["ok"]), runtime=where, search=ToolSearch(above=len(MANY)))
    await turn(few)
    assert "search_tools" not in names(model)[0]


async def test_prepare_still_chooses() -> None:
    model = ScriptedModel([search("weather", "filler"), "done"])
    agent = Agent(model, MANY, prepare=lambda step: [one for one in step.tools if one.name != "weather_report"])
    await turn(agent)
    assert "weather_report" not in names(model)[1]
    assert "filler_1" in names(model)[1]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("weather_report", ["search_tools", "weather_report"]), ("search_tools", ["search_tools"])],
)
async def test_a_tool_that_is_chosen_is_among_those_that_are_sent(choice: str, sent: list[str]) -> None:
    model = ScriptedModel(["ok", "ok"])
    agent = Agent(model, MANY, settings=ModelSettings(tool_choice=choice))
    await turn(agent)
    await turn(agent)
    assert [one.settings.tool_choice for one in model.requests] == [choice, choice]
    assert names(model) == [sent, sent]
    with pytest.raises(ModelError, match="There is no tool `search_tools` to choose"):
        await Agent(model, [add], settings=ModelSettings(tool_choice="search_tools")).answer("go")


async def test_a_session_of_another_role_finds_none_that_are_not_for_it() -> None:
    """One runtime runs the calls of several."""
    registry = Registry([*MANY, report("admin_weather", roles=("admin",))])
    where = Runtime(registry, session=Session(caller=Caller(role="admin"))).with_search()
    guest = Session(caller=Caller(role="guest"))
    for run in (where.for_session(guest).run, where.run):
        found = await run("search_tools", {"queries": ["weather"]}, session=guest)
        assert "admin" not in found.llm_content
    assert "admin_weather_report" in (await where.run("search_tools", {"queries": ["weather"]})).data


async def test_a_call_is_under_the_same_policy_and_on_the_same_record() -> None:
    asked: list[str] = []
    model = ScriptedModel([search("keep a text"), call("keep", {"text": "x"}), "done"])
    where = Runtime(
        [*MANY, keep], policy=RulePolicy(), ask=lambda question: asked.append(question.invocation.tool.name) or "no"
    )
    await turn(Agent(model, runtime=where))
    assert asked == ["keep"]


async def test_the_tools_that_were_found_are_kept_with_the_conversation(tmp_path: Path) -> None:
    """X4: in a dump, and in the log of a turn that another process resumes."""
    agent = Agent(ScriptedModel([search("sales"), "ok"]), MANY, search=ToolSearch(most=1))
    await turn(agent)
    again = Conversation.load(agent.conversation.dump())
    model = ScriptedModel(["ok"])
    await turn(Agent(model, MANY, conversation=again, search=ToolSearch(most=1)))
    assert names(model) == [["search_tools", "sales_report"]]

    wait = raw_tool("approve_report", {"type": "object"}, str, kind="readonly", deferred=True)
    store = TurnStore(tmp_path / "turns.db", key=b"k" * 32)
    paused = await Agent(
        ScriptedModel([search("sales"), search("approve"), call("approve_report", {})]),
        [*MANY, wait],
        turns=store,
        search=ToolSearch(most=1),
    ).answer("go")
    model = ScriptedModel(["ok"])
    other = Agent(model, [*MANY, wait], turns=store, search=ToolSearch(most=1))
    await other.resume(paused.state, results={paused.waiting[0].id: "yes"})
    assert names(model) == [["search_tools", "sales_report", "approve_report"]]


async def test_a_runtime_for_a_model_of_ones_own() -> None:
    runtime = Runtime(MANY).with_search(ToolSearch(pinned=["add"], most=1))
    assert runtime.tools.names() == ["add", "search_tools"]
    result = await runtime.run("search_tools", {"queries": ["weather"]})
    assert result.data == ["weather_report"]
    assert runtime.tools.names() == ["add", "search_tools", "weather_report"]
    assert (await runtime.run("weather_report", {"day": "today"})).llm_content == "weather: 7"
    assert Runtime([add]).with_search().tools.names() == ["add"]


def test_wrong_options_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Write \['add'\]"):
        ToolSearch(pinned="add")
    with pytest.raises(ValueError, match="`most` 1 or more"):
        ToolSearch(most=0)
