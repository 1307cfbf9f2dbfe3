"""Real LangChain tools and LangGraph graphs, with a scripted model: Ferrule's tools there, and theirs here (X6)."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any

import pytest
from inline_snapshot import snapshot
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, StructuredTool, ToolException
from langchain_core.tools import Tool as SingleInputTool
from langchain_core.tools import tool as langchain_tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send
from pydantic import BaseModel, Field, field_validator

from ferrule import Caller, CallRecord, RulePolicy, Runtime, Session
from ferrule.adapters import from_langchain, langchain_tools
from tests.adapters.notes import ADMIN, NESTED_REFUSED, PNG, Notes, strange_name, tried

pytestmark = pytest.mark.slow
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


def call(tool: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(name=tool, args=arguments, id="_".join(("call", tool, *arguments)), type="tool_call")


def graph(runtime: Runtime, *calls: ToolCall, checkpointer: Any = None, **options: Any) -> Any:
    """A graph whose model makes the calls, each in a task of its own, as LangGraph's agents do."""

    def model(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [AIMessage("", tool_calls=list(calls))]}

    def to_tools(state: MessagesState) -> list[Send]:
        return [Send("tools", {"messages": [AIMessage("", tool_calls=[one])]}) for one in calls]

    built = StateGraph(MessagesState)
    built.add_node("model", model)
    built.add_node("tools", ToolNode(langchain_tools(runtime, **options)))
    built.add_edge(START, "model")
    built.add_conditional_edges("model", to_tools, ["tools"])
    built.add_edge("tools", END)
    return built.compile(checkpointer=checkpointer)


def said(state: dict[str, Any]) -> list[str]:
    return [f"{one.status}: {one.text}" for one in state["messages"] if isinstance(one, ToolMessage)]


async def test_a_graph_calls_tools_and_reads_errors_as_ferrule_says_them() -> None:
    notes = Notes()
    made = graph(notes.runtime(), call("read_note", name="a"), call("read_note", nme="b"))
    state = await made.ainvoke({"messages": []})
    assert sorted(said(state)) == snapshot(
        [
            """\
error: Error (validation_error): The arguments of `read_note` have 2 problems:
- `name`: required, but missing (expected string)
- `nme`: unknown field. Did you mean `name`?

Suggestion: Call `read_note` again with {"name": string, "upper": boolean (optional, default false)}.\
""",
            "success: milk",
        ]
    )
    assert sorted(notes.calls()) == [("read_note", "success", None), ("read_note", "validation_error", None)]
    assert {one.call_id for one in notes.records} == {"call_read_note_name", "call_read_note_nme"}
    artifact: Any = next(one.artifact for one in state["messages"] if getattr(one, "status", "") == "success")
    assert artifact == "milk"


@pytest.mark.parametrize("how", ["async", "sync"])
async def test_a_call_that_asks_interrupts_the_graph_until_it_is_approved(how: str) -> None:
    """Must show 4 (P4)."""
    notes = Notes()
    made = graph(notes.runtime(), call("delete_note", name="a"), checkpointer=InMemorySaver())

    async def run(given: Any) -> dict[str, Any]:
        return (
            await made.ainvoke(given, THREAD) if how == "async" else await asyncio.to_thread(made.invoke, given, THREAD)
        )

    (interrupt,) = (await run({"messages": []}))["__interrupt__"]
    assert interrupt.value == snapshot(
        {
            "call_id": "call_delete_note_name",
            "tool": "delete_note",
            "summary": 'delete_note {"name":"a"}',
            "reason": "a tool that writes asks first",
            "warning": "",
            "preview": "",
            "always": "delete_note",
        }
    )
    assert "a" in notes.kept
    assert said(await run(Command(resume={**interrupt.value, "answer": "once"}))) == ["success: deleted milk"]
    assert notes.calls() == [("delete_note", "permission_error", None), ("delete_note", "success", "once")]


async def test_a_call_that_the_user_denies_is_never_run() -> None:
    notes = Notes()
    made = graph(notes.runtime(), call("delete_note", name="a"), checkpointer=InMemorySaver())
    (interrupt,) = (await made.ainvoke({"messages": []}, THREAD))["__interrupt__"]
    no = Command(resume={**interrupt.value, "answer": "no", "why": "Leave it."})
    assert said(await made.ainvoke(no, THREAD)) == snapshot(
        [
            """\
error: Error (permission_error): `delete_note` was not run: the user denied it. They said: Leave it.

Suggestion: Do not try the same call again; try another approach, or ask the user.\
"""
        ]
    )
    assert notes.calls()[1:] == [("delete_note", "permission_error", "no")]


async def test_an_answer_to_another_call_approves_nothing() -> None:
    notes = Notes()
    made = graph(notes.runtime(), call("delete_note", name="a"), checkpointer=InMemorySaver())
    (interrupt,) = (await made.ainvoke({"messages": []}, THREAD))["__interrupt__"]
    others = ({"answer": "once", "call_id": "another"}, {"answer": "sure"}, {"answer": ["once"]})
    for other in ("once", True, *({**interrupt.value, **one} for one in others)):
        (interrupt,) = (await made.ainvoke(Command(resume=other), THREAD))["__interrupt__"]
    assert "a" in notes.kept


async def test_a_call_that_is_tried_asks_about_what_it_would_change_and_again_if_that_changes() -> None:
    """X2: the question has the effects, and approves these and no others."""
    records = list[CallRecord]()
    made = graph(tried(records, ["a", "b", "b"]), call("run_command"), checkpointer=InMemorySaver())
    state = await made.ainvoke({"messages": []}, THREAD)
    for name in ("a", "b"):
        (interrupt,) = state["__interrupt__"]
        assert interrupt.value["preview"] == f"+++ {name}\n"
        state = await made.ainvoke(Command(resume={**interrupt.value, "answer": "once"}), THREAD)
    assert said(state) == ["success: created b"]
    assert [(one.outcome, one.answer) for one in records][-1] == ("success", "once")


async def test_two_calls_are_approved_each_for_itself() -> None:
    notes = Notes()
    calls = [
        call("delete_note", name="a"),
        ToolCall(name="delete_note", args={"name": "b"}, id="call_2", type="tool_call"),
    ]
    made = graph(notes.runtime(), *calls, checkpointer=InMemorySaver())
    asked = (await made.ainvoke({"messages": []}, THREAD))["__interrupt__"]
    answers = {one.id: {**one.value, "answer": "once" if one.value["call_id"] == "call_2" else "no"} for one in asked}
    state = await made.ainvoke(Command(resume=answers), THREAD)
    assert sorted(one.split(":")[0] for one in said(state)) == ["error", "success"]
    assert notes.kept == {"a": "milk"}


@pytest.mark.parametrize("sync", [False, True])
async def test_an_approved_call_runs_once_where_the_next_call_of_its_task_asks_too(*, sync: bool) -> None:
    """LangGraph starts a task again from its beginning, with all answers that it has had."""
    notes = Notes()
    made = StateGraph(MessagesState)
    made.add_node("tools", ToolNode(langchain_tools(notes.runtime())))
    made.add_edge(START, "tools")
    app: Any = made.compile(checkpointer=InMemorySaver())
    calls = [call("delete_note", name="a"), call("delete_note", name="b") | {"id": "call_2"}]
    given: Any = {"messages": [AIMessage("", tool_calls=calls)]}
    for _ in calls:
        state = app.invoke(given, THREAD) if sync else await app.ainvoke(given, THREAD)
        given = Command(resume={one.id: {**one.value, "answer": "once"} for one in state["__interrupt__"]})
    state = app.invoke(given, THREAD) if sync else await app.ainvoke(given, THREAD)
    assert said(state) == ["success: deleted milk", "success: deleted bread"]
    assert [outcome for _, outcome, _ in notes.calls()].count("success") == len(calls)


async def test_without_a_place_for_the_answer_a_call_that_asks_is_refused() -> None:
    """Outside of a graph, and in one that saves no state."""
    notes = Notes()
    (refused,) = said(await graph(notes.runtime(), call("delete_note", name="a")).ainvoke({"messages": []}))
    delete = next(one for one in langchain_tools(notes.runtime()) if one.name == "delete_note")
    assert refused == f"error: {await delete.ainvoke({'name': 'a'})}"
    assert "approval isn't available here" in refused
    asking = graph(
        notes.runtime(ask=lambda question: "once"), call("delete_note", name="a"), checkpointer=InMemorySaver()
    )
    assert said(await asking.ainvoke({"messages": []}, THREAD)) == ["success: deleted milk"]


async def test_calls_that_a_tool_makes_are_not_approved_with_it() -> None:
    notes = Notes()
    made = graph(notes.runtime(), call("clear_all"), checkpointer=InMemorySaver())
    assert said(await made.ainvoke({"messages": []}, THREAD)) == [f"success: {NESTED_REFUSED}; {NESTED_REFUSED}"]


async def test_cancelling_a_graph_stops_the_work() -> None:
    """Must show 4 (P6)."""
    notes = Notes()
    running = asyncio.create_task(graph(notes.runtime(), call("wait_long")).ainvoke({"messages": []}))
    await asyncio.wait_for(notes.started.wait(), 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert notes.stopped.is_set()
    assert notes.calls() == [("wait_long", "cancelled_error", None)]


async def test_a_runs_config_chooses_its_session() -> None:
    notes = Notes()

    def session(config: RunnableConfig) -> Session:
        return Session(caller=config.get("configurable", {})["caller"])

    made = graph(notes.runtime(), call("count_users"), session=session)
    ann, bob = Caller(user="ann", role="admin"), Caller(user="bob")
    assert said(await made.ainvoke({"messages": []}, {"configurable": {"caller": ann}})) == [
        "success: 3, as ann sees it"
    ]
    (refused,) = said(await made.ainvoke({"messages": []}, {"configurable": {"caller": bob}}))
    assert refused.startswith("error: Error (permission_error): `count_users` is not for a caller without a role.")
    assert [one.caller for one in notes.records] == [ann, bob]


def test_a_model_is_shown_a_schema_that_every_provider_takes() -> None:
    notes = Notes()
    runtime = notes.runtime(policy=RulePolicy(deny=["delete_note"]), session=ADMIN)
    tools = langchain_tools(runtime)
    assert [one.name for one in tools] == ["read_note", "wait_long", "show_picture", "count_users", "clear_all"]
    assert convert_to_openai_tool(tools[0]) == snapshot(
        {
            "type": "function",
            "function": {
                "name": "read_note",
                "description": "Read a note.",
                "parameters": {
                    "properties": {"name": {"type": "string"}, "upper": {"default": False, "type": "boolean"}},
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["name"],
                },
            },
        }
    )
    (strange,) = langchain_tools(Runtime([strange_name()]))
    assert (strange.name, strange.args) == ("ChaXun_distance", {"of": {"enum": ["km", "mi"]}})
    assert strange.invoke({"of": "km"}) == "1 km"


async def test_progress_and_pictures_reach_the_graph() -> None:
    """P9."""
    notes = Notes()
    made = graph(notes.runtime(), call("show_picture"))
    seen = [part async for part in made.astream({"messages": []}, stream_mode="custom")]
    assert seen == snapshot(
        [
            {
                "type": "Progress",
                "call_id": "call_show_picture",
                "tool": "show_picture",
                "done": 1,
                "total": 2,
                "message": "half of it",
            }
        ]
    )
    (tool,) = [one for one in langchain_tools(notes.runtime()) if one.name == "show_picture"]
    events = [event async for event in tool.astream_events({}, version="v2") if event["event"] == "on_custom_event"]
    assert [event["data"] for event in events] == [{**seen[0], "call_id": events[0]["data"]["call_id"]}]  # type: ignore[typeddict-item]
    message = await tool.ainvoke(call("show_picture"))
    assert [block["type"] for block in message.content] == ["text", "image"]
    assert message.content[1]["mime_type"] == "image/png"


# Their tools in Ferrule


class Wanted(BaseModel):
    word: str = Field(description="What to look up.")

    @field_validator("word")
    @classmethod
    def lower(cls, word: str) -> str:
        if word != word.lower():
            raise ValueError("write it in lower case")
        return word


def test_a_tool_of_theirs_has_its_schema_and_its_errors() -> None:
    @langchain_tool(args_schema=Wanted)
    def lookup(word: str) -> str:
        """Look a word up."""
        if word != "hi":
            raise ToolException(f"There is no {word!r}. Try another word.")
        return "a greeting"

    made = from_langchain(lookup, kind="readonly")
    assert (made.name, made.description.text, made.input_schema) == snapshot(
        (
            "lookup",
            "Look a word up.",
            {
                "properties": {"word": {"description": "What to look up.", "title": "Word", "type": "string"}},
                "required": ["word"],
                "type": "object",
            },
        )
    )
    runtime = Runtime([made])
    assert runtime.run_sync("lookup", {"word": "hi"}).data == "a greeting"
    assert runtime.run_sync("lookup", {"word": "ho"}).llm_content == snapshot(
        "Error (execution_error): There is no 'ho'. Try another word."
    )
    assert runtime.run_sync("lookup", {"word": "HI"}).error.message == snapshot(  # pyright: ignore[reportOptionalMemberAccess]
        "The arguments of `lookup` are not valid: `word`: Value error, write it in lower case."
    )
    assert runtime.run_sync("lookup", {"wrd": "ho"}).llm_content == snapshot("""\
Error (validation_error): The arguments of `lookup` have 1 problem:
- `word`: required, but missing (expected string: What to look up.)

Suggestion: Call `lookup` again with {"word": string}.\
""")


def test_theirs_of_a_single_text_has_one_argument() -> None:
    made = from_langchain(SingleInputTool("shout", lambda text: text.upper(), "Shout."))
    assert made.input_schema == {
        "type": "object",
        "properties": {"tool_input": {"type": "string"}},
        "required": ["tool_input"],
    }
    assert Runtime([made]).run_sync("shout", {"tool_input": "hi"}).data == "HI"


def test_theirs_that_handles_its_errors_fails_all_the_same() -> None:
    @langchain_tool
    def lookup(word: str) -> str:
        """Look a word up."""
        raise ToolException("Not today.")

    lookup.handle_tool_error = True
    result = Runtime([from_langchain(lookup)]).run_sync("lookup", {"word": "hi"})
    assert (result.success, result.llm_content) == (False, "Error (execution_error): Not today.")


async def test_theirs_gets_its_calls_id_and_gives_its_artifact_and_its_pictures() -> None:
    @langchain_tool(response_format="content_and_artifact")
    async def draw(colour: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> tuple[Any, dict[str, str]]:
        """Draw."""
        import base64

        picture = {"type": "image", "base64": base64.b64encode(PNG).decode(), "mime_type": "image/png"}
        return [{"type": "text", "text": "It is done."}, picture], {"id": tool_call_id, "colour": colour}

    made = from_langchain(draw)
    assert set(made.input_schema["properties"]) == {"colour"}
    result = await Runtime([made]).run("draw", {"colour": "blue"})
    assert (result.data, result.llm_content) == ({"id": result.call_id, "colour": "blue"}, "It is done.")
    assert [(one.media_type, one.data) for one in result.attachments] == [("image/png", PNG)]


async def test_theirs_is_stopped_like_any_tool() -> None:
    stopped = asyncio.Event()

    async def hang() -> str:
        """Hang."""
        try:
            await asyncio.sleep(600)
        finally:
            stopped.set()
        return "never"

    made = from_langchain(StructuredTool.from_function(coroutine=hang))
    result = await Runtime([made]).run("hang", {}, timeout=0.05)
    assert result.error is not None
    assert (result.error.kind, stopped.is_set()) == ("timeout_error", True)


async def test_theirs_that_is_sync_runs_in_a_thread_of_ferrules() -> None:
    names: list[str] = []

    @langchain_tool
    def where() -> str:
        """Say where it runs."""
        names.append(threading.current_thread().name)
        return "here"

    assert (await Runtime([from_langchain(where)]).run("where", {})).data == "here"
    assert [name.startswith("ferrule") for name in names] == [True]
