"""To whoever calls, nothing changes: the same stages, results, events and records (O6, P1, P6, P9)."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from ferrule import Runtime, Session, ToolContext, tool
from ferrule.core.call import RawCall
from ferrule.core.context import Caller
from ferrule.core.elicitation import Elicited, current_elicitor, set_elicitor
from ferrule.core.errors import ToolError
from ferrule.core.events import Done, PartialOutput, Progress
from ferrule.core.result import Attachment, Output
from ferrule.records.spans import SpanTracer
from ferrule.remote.job import RemoteJob
from ferrule.remote.link import NatsLink, NotReachedError
from ferrule.remote.wire import claims_bucket
from ferrule.remote.worker import HERE
from tests.remote.places import Server, calling, calls_to, listening, working


class Point(BaseModel):
    x: int
    label: str = "p"


@tool(kind="readonly")
def add(first: int, second: int = 2) -> int:
    """Add two numbers. Use this for sums."""
    return first + second


@tool(kind="readonly")
def make_point(x: int) -> Point:
    """Make a point. Use this for points."""
    return Point(x=x)


@tool(kind="readonly")
def fail(how: str) -> str:
    """Fail. Use this to see how that looks."""
    if how == "kind":
        raise ToolError("Nothing there.", kind="not_found_error", suggestion="Look elsewhere.", details={"at": 1})
    raise ValueError("boom at /home/someone/private/file.py")


@tool(kind="readonly")
def attach() -> Output[str]:
    """Attach bytes. Use this for pictures."""
    return Output("seen", attachments=[Attachment("image/png", b"\x89PNG\x00", name="a.png")], metadata={"box": "look"})


@tool(kind="readonly")
async def stream(count: int, context: ToolContext) -> Any:
    """Stream pieces. Use this to see them come."""
    for number in range(count):
        context.progress(number + 1, count, "counting")
        yield f"{number} "


TOOLS = [add, make_point, fail, attach, stream]


async def test_results_are_those_of_a_call_in_process(server: Server, pool: str) -> None:
    here = Runtime(TOOLS)
    asked: list[tuple[str, Any]] = [
        ("add", {"first": 1}),
        ("add", {"first": "5", "second": 2}),
        ("add", {"frist": 1}),
        ("make_point", {"x": 3}),
        ("fail", {"how": "kind"}),
        ("fail", {"how": "else"}),
        ("attach", {}),
        ("stream", {"count": 3}),
        ("nothing", {}),
    ]
    async with working(server, pool, TOOLS), calling(server, pool, TOOLS) as there:
        for name, arguments in asked:
            expected = await here.run(RawCall(name, arguments, id="one"))
            got = await there.run(RawCall(name, arguments, id="one"))
            assert got == expected, name
            assert type(got.data) is type(expected.data)


async def test_events_and_records_are_those_of_the_caller(server: Server, pool: str) -> None:
    records: list[Any] = []

    class Keep:
        def record(self, record: Any) -> None:
            records.append(record)

    async with working(server, pool, TOOLS), calling(server, pool, TOOLS, recorders=[Keep()]) as runtime:
        events = [event async for event in runtime.stream(RawCall("stream", {"count": 3}, id="mine"))]
    assert [event.message for event in events if isinstance(event, Progress)] == ["counting"] * 3
    assert [event.content for event in events if isinstance(event, PartialOutput)] == ["0 ", "1 ", "2 "]
    assert isinstance(events[-1], Done)
    assert {event.call_id for event in events} == {"mine"}
    assert [(one.tool, one.outcome, one.call_id) for one in records] == [("stream", "success", "mine")]


async def test_what_a_tool_calls_runs_where_its_call_was_made(server: Server, pool: str) -> None:
    @tool(kind="readonly")
    def secret_word() -> str:
        """Give the word. Use this for the word."""
        return "xyzzy"

    @tool(kind="readonly")
    async def ask_around(context: ToolContext) -> str:
        """Ask other tools. Use this to gather."""
        one = await context.call("secret_word")
        both = await context.batch([RawCall("secret_word", {}), RawCall("missing", {})])
        context.state["asked"] = 3
        return " ".join([one.llm_content, *(str(each.success) for each in both)])

    @tool(kind="readonly")
    def ask_sync(context: ToolContext) -> str:
        """Ask in a thread. Use this to gather."""
        return context.call_sync("secret_word").llm_content

    records: list[Any] = []

    class Keep:
        def record(self, record: Any) -> None:
            records.append((record.tool, record.parent_id))

    session = Session()
    async with (
        working(server, pool, [ask_around, ask_sync]),
        calling(server, pool, [ask_around, ask_sync, secret_word], pools={pool: ["ask_*"]}, recorders=[Keep()],
                session=session) as runtime,
    ):  # fmt: skip
        assert (await runtime.run(RawCall("ask_around", {}, id="outer"))).llm_content == "xyzzy True False"
        assert (await runtime.run(RawCall("ask_sync", {}, id="sync"))).llm_content == "xyzzy"
    assert sorted(records[:3]) == [("missing", "outer"), ("secret_word", "outer"), ("secret_word", "outer")]
    assert records[3:] == [("ask_around", None), ("secret_word", "sync"), ("ask_sync", None)]
    assert session.state == {"asked": 3}


async def test_cancelling_stops_the_tool_on_its_worker(server: Server, pool: str, tmp_path: Path) -> None:
    ended = asyncio.Event()
    began = asyncio.Event()

    @tool
    async def wait_long() -> str:
        """Wait. Use this to wait."""
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "done"

    async with working(server, pool, [wait_long]), calling(server, pool, [wait_long]) as runtime:
        call = asyncio.create_task(runtime.run(RawCall("wait_long", {}, id="w")))
        await began.wait()
        assert runtime.cancel("w")
        result = await call
        assert ended.is_set()
        assert result.error is not None
        assert result.error.kind == "cancelled_error"
        began.clear()
        ended.clear()
        task = asyncio.create_task(runtime.run("wait_long", {}))
        await began.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert ended.is_set()


async def test_a_time_limit_holds_there(server: Server, pool: str) -> None:
    @tool
    async def wait_long() -> str:
        """Wait. Use this to wait."""
        await asyncio.sleep(60)
        return "done"

    async with working(server, pool, [wait_long]), calling(server, pool, [wait_long]) as runtime:
        result = await runtime.run("wait_long", {}, timeout=0.1)
    assert result.llm_content.startswith(
        "Error (timeout_error): `wait_long` ran longer than its time limit of 0.1 s and was stopped."
    )


@pytest.mark.slow
async def test_large_arguments_and_results_arrive_whole(server: Server, pool: str) -> None:
    @tool(kind="readonly", max_result=10_000_000)
    def double(text: str) -> str:
        """Double a text. Use this for long texts."""
        return text + text

    text = os.urandom(1_000_000).hex()
    async with working(server, pool, [double]), calling(server, pool, [double]) as runtime:
        result = await runtime.run("double", {"text": text})
    assert result.data == text + text


async def test_the_caller_is_known_there(server: Server, pool: str) -> None:
    @tool(kind="readonly", needs=("tenant",))
    def who(context: ToolContext) -> list[str | None]:
        """Say who calls. Use this to see."""
        return [context.caller.tenant, context.caller.user, context.caller.role, context.call_id]

    session = Session(caller=Caller("Ümläut & co.", "ada", "boss"))
    async with working(server, pool, [who]), calling(server, pool, [who], session=session) as runtime:
        result = await runtime.run(RawCall("who", {}, id="c1"))
    assert result.data == ["Ümläut & co.", "ada", "boss", "c1"]


async def test_the_trace_goes_on_at_the_worker(server: Server, pool: str) -> None:
    """O1: the span of the tool there is below the span of its call here, and so is what the tool does."""
    here, there = InMemorySpanExporter(), InMemorySpanExporter()

    def tracing(exporter: InMemorySpanExporter) -> TracerProvider:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        return provider

    at_worker = tracing(there)

    @tool(kind="readonly")
    def inside() -> str:
        """Do something in a span. Use this to be seen."""
        with at_worker.get_tracer("test").start_as_current_span("inner"):
            return ""

    worker = Runtime([inside], remote=HERE, tracer=SpanTracer(at_worker))
    remote = calls_to(server, pool)
    runtime = Runtime([inside], remote=remote, tracer=SpanTracer(tracing(here)))
    async with working(server, pool, [inside], runtime=worker):
        assert (await runtime.run("inside", {})).success
        await remote.close()
    (outer,), (inner, span) = here.get_finished_spans(), there.get_finished_spans()
    assert (outer.name, span.name, inner.name) == ("execute_tool inside", "execute_tool inside", "inner")
    for below, above in ((span, outer), (inner, span)):
        assert below.parent is not None
        assert above.context is not None
        assert below.parent.span_id == above.context.span_id
        assert below.parent.trace_id == above.context.trace_id
    assert span.parent is not None
    assert span.parent.is_remote, "it came over the wire"


class Form:
    """Somebody at the caller who fills in what is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    async def elicit(self, message: str, schema: Any, *, server: str = "", url: str = "") -> Elicited:
        self.asked.append((message, schema))
        return Elicited("accept", {"name": "Ada"})


@tool(kind="readonly")
async def ask_name() -> str:
    """Ask for a name. Use this to know it."""
    elicitor = current_elicitor()
    assert elicitor is not None
    told = await elicitor.elicit("Who are you?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return f"{told.action}: {told.content.get('name', told.why)}"


@tool(kind="readonly")
async def ask_model(context: ToolContext) -> str:
    """Ask the model. Use this to be told."""
    return await context.model_adapter.complete("How are you?")


async def test_what_a_tool_asks_is_asked_where_its_call_was_made(server: Server, pool: str) -> None:
    class Model:
        async def complete(self, prompt: str) -> str:
            return f"{prompt} Fine."

    form, session = Form(), Session()
    asks = [ask_name, ask_model]
    async with working(server, pool, asks), calling(server, pool, asks, session=session) as runtime:
        assert (await runtime.run("ask_name", {})).llm_content == "decline: approval isn't available here"
        told = await runtime.run("ask_model", {})
        assert told.llm_content == "Error (execution_error): This tool asks a model, and the session has none."
        set_elicitor(form)
        try:
            assert (await runtime.run("ask_name", {})).llm_content == "accept: Ada"
        finally:
            set_elicitor(None)
        session.model_adapter = Model()  # from now on there is one
        assert (await runtime.run("ask_model", {})).llm_content == "How are you? Fine."
    assert form.asked == [("Who are you?", {"type": "object", "properties": {"name": {"type": "string"}}})]


async def test_a_tool_calls_one_of_another_pool(server: Server, pool: str) -> None:
    @tool(kind="readonly")
    async def relay(context: ToolContext) -> str:
        """Have another machine add. Use this to pass it on."""
        context.progress(1, 2, "asking")
        told = await context.call("add", {"first": 40})
        return f"{told.llm_content} by way of {context.call_id}"

    routes = {pool: ["relay"], f"{pool}-2": ["add"]}
    async with (
        working(server, pool, [relay]),
        working(server, f"{pool}-2", TOOLS),
        calling(server, pool, [relay, *TOOLS], pools=routes) as runtime,
    ):
        events = [event async for event in runtime.stream(RawCall("relay", {}, id="outer"))]
    assert [(one.call_id, one.message) for one in events if isinstance(one, Progress)] == [("outer", "asking")]
    ended = events[-1]
    assert isinstance(ended, Done)
    assert ended.result.llm_content == "42 by way of outer"


async def test_a_call_that_got_lost_on_its_way_is_sent_again(
    server: Server, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[str] = []
    tell = NatsLink.tell

    async def forgetful(self: NatsLink, subject: str, *more: Any, **named: Any) -> None:
        if subject.startswith("call.") and not dropped:
            dropped.append(subject)
        else:
            await tell(self, subject, *more, **named)

    monkeypatch.setattr(NatsLink, "tell", forgetful)
    async with working(server, pool, TOOLS), calling(server, pool, TOOLS) as runtime:
        assert (await runtime.run("add", {"first": 1})).data == 3
    assert dropped == [f"call.{pool}._.add"]


@pytest.mark.slow
async def test_a_caller_that_stood_still_reads_the_answer_before_it_gives_up(server: Server, pool: str) -> None:
    async with working(server, pool, TOOLS, lease=1.0), calling(server, pool, TOOLS, lease=1.0) as runtime:
        assert (await runtime.run("add", {"first": 1})).success
        calls = [asyncio.create_task(runtime.run("add", {"first": number})) for number in range(5)]
        await asyncio.sleep(0)
        time.sleep(2.5)  # longer than it waits for the server
        assert [one.data for one in await asyncio.gather(*calls)] == [2, 3, 4, 5, 6]


def nested(depth: int) -> Any:
    value: Any = "core"
    for _ in range(depth):
        value = [value]
    return value


ODD: dict[str, Any] = {
    "half a pair": {"name": "caf\udce9.txt"},
    "deep": nested(230),
    "too deep": Output("seen", metadata={"at": nested(254)}),
    "too long a number": 10**5000,
}


@tool(kind="readonly")
async def give(what: str, context: ToolContext) -> Any:
    """Give something odd. Use this to see it come."""
    context.partial(ODD["half a pair"]["name"])
    return ODD[what]


async def test_odd_values_arrive_or_are_said_not_to(server: Server, pool: str) -> None:
    here = Runtime([give])
    async with working(server, pool, [give], lease=1.0), calling(server, pool, [give], lease=1.0) as there:
        for what in ("half a pair", "deep"):
            expected = await here.run(RawCall("give", {"what": what}, id="one"))
            assert await there.run(RawCall("give", {"what": what}, id="one")) == expected, what
        events = [event async for event in there.stream(RawCall("give", {"what": "half a pair"}))]
        assert [one.content for one in events if isinstance(one, PartialOutput)] == ["caf\udce9.txt"]
        told = await asyncio.wait_for(there.run("give", {"what": "too deep"}), 10)
        assert "`give` ran, but its result could not be sent back." in told.llm_content
        told = await asyncio.wait_for(there.run("give", {"what": "too long a number"}), 10)
        assert "`give` is lost" in told.llm_content


@tool(kind="readonly")
def push(what: str, context: ToolContext) -> Any:
    """Add to a list in the state, and show the state. Use this to keep things."""
    context.state.setdefault("list", []).append(what)
    return dict(context.state)


async def test_what_changes_in_the_state_is_the_same_on_both_sides(server: Server, pool: str) -> None:
    session = Session()
    async with working(server, pool, [push]), calling(server, pool, [push], session=session) as runtime:
        for what in ("a", "b", "c"):
            await runtime.run("push", {"what": what})
        assert session.state == {"list": ["a", "b", "c"]}
        session.state |= {"mine": 1, "open": asyncio.Event()}  # this one cannot travel
        assert (await runtime.run("push", {"what": "d"})).data == {"list": ["a", "b", "c", "d"], "mine": 1}
        del session.state["mine"]
        assert (await runtime.run("push", {"what": "e"})).data == {"list": ["a", "b", "c", "d", "e"]}
        del session.state["list"]
        assert (await runtime.run("push", {"what": "f"})).data == {"list": ["f"]}
        session.state["long"] = "x" * 100_000
        assert (await runtime.run("push", {"what": "g"})).data == {"list": ["f", "g"]}


async def test_a_call_that_is_run_again_is_given_the_same_and_asks_anew(
    server: Server, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first worker dies after the tool has read long arguments and has asked for something."""
    starts: list[int] = []

    @tool(kind="readonly", idempotent=True, max_result=10_000_000)
    async def relay(text: str, context: ToolContext) -> str:
        """Add and pass on. Use this to be run again."""
        starts.append(len(text))
        return (await context.call("add", {"first": len(starts)})).llm_content + text

    run = RemoteJob.run

    async def dying(job: RemoteJob) -> None:
        async def unreported(_: Any) -> None: ...

        if not starts:
            job._finish = unreported  # type: ignore[method-assign]
        await run(job)

    monkeypatch.setattr(RemoteJob, "run", dying)
    text = "x" * 500_000
    async with (
        working(server, pool, [relay], lease=1.0),
        working(server, pool, [relay], lease=1.0),
        calling(server, pool, [relay, add], pools={pool: ["relay"]}, lease=1.0) as runtime,
        listening(server, f"$KV.{claims_bucket(pool)}.>") as (_, seen),
    ):
        result = await runtime.run("relay", {"text": text})
        assert starts == [len(text)] * 2
        assert result.data == "4" + text
        left: set[str] = set()
        for _ in range(200):
            written = {one.subject: len(one.data) for one in list(seen) if len(one.subject.split(".")) > 6}
            left = {subject for subject, size in written.items() if size}
            if written and not left:
                break
            await asyncio.sleep(0.01)
        assert left == set(), "what was parked is removed"


async def test_a_call_whose_first_copy_is_still_being_stored_is_sent_again(
    server: Server, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a cluster answers after the server that led it has died: the call is neither there nor refused."""
    ask, refused = NatsLink.ask, list[str]()

    @tool(kind="readonly")
    def echo(text: str) -> str:
        """Give a text back. Use this to see what arrives."""
        return text

    async def ask_a_cluster(self: NatsLink, subject: str, payload: bytes = b"", *rest: Any, **named: Any) -> Any:
        answer = await ask(self, subject, payload, *rest, **named)
        if rest and "Nats-Msg-Id" in rest[0] and len(refused) < 2:
            refused.append(subject)
            answer.data = b'{"error": {"err_code": 10158, "description": "duplicate message id is in process"}}'
        return answer

    monkeypatch.setattr(NatsLink, "ask", ask_a_cluster)
    async with working(server, pool, [echo]), calling(server, pool, [echo]) as runtime:
        several = [runtime.run("echo", {"text": text}) for text in "abc"]  # the first asks for no answer
        assert [one.data for one in await asyncio.gather(*several)] == ["a", "b", "c"]
    assert len(refused) == 2


async def test_a_call_that_is_cancelled_while_it_is_handed_over_does_not_start_later(
    server: Server, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has it, but says so too late; it is cancelled before it is sent once more."""
    ran: list[str] = []
    handed, send = asyncio.Event(), NatsLink.send_call

    @tool(kind="readonly")
    async def note(name: str) -> str:
        """Note a start, and take a while. Use this to count."""
        ran.append(name)
        await asyncio.sleep(0.5)
        return name

    async def unanswered(self: NatsLink, subject: str, uid: str, payload: bytes) -> None:
        await send(self, subject, uid, payload)
        if b"cancelled" in payload:
            handed.set()
            raise NotReachedError("no answer")

    monkeypatch.setattr(NatsLink, "send_call", unanswered)
    async with working(server, pool, [note], concurrency=1), calling(server, pool, [note]) as runtime:
        first = asyncio.create_task(runtime.run("note", {"name": "first"}))
        while not ran:
            await asyncio.sleep(0.01)
        others = [asyncio.create_task(runtime.run("note", {"name": name})) for name in ("second", "cancelled")]
        await handed.wait()
        others[1].cancel()
        await asyncio.wait([first, *others])
        assert others[1].cancelled()
        assert (await runtime.run("note", {"name": "last"})).success
    assert ran == ["first", "second", "last"]
