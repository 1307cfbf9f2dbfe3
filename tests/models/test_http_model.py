"""One conversation on every wire form gives the same events; what a server does wrong ends well."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from ferrule import Registry, tool
from ferrule.core.call import RawCall
from ferrule.core.model import (
    AssistantMessage,
    CallDelta,
    CallStarted,
    Finished,
    Model,
    ModelError,
    ModelEvent,
    ModelFault,
    ModelRequest,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolResults,
    Usage,
    UserMessage,
)
from ferrule.dialects import dialect
from ferrule.models.faults import Tries
from ferrule.models.http_model import TimeLimits

from .endpoints.server import CUT, HANG, Reply, body, sse
from .endpoints.wire import (
    FORMS,
    KEY,
    Call,
    Says,
    Waits,
    ask,
    chat_chunk,
    finished,
    model_at,
    reply,
    serving,
    stream_of,
)


@tool(kind="readonly")
def get_weather(city: str, days: int = 1) -> str:
    """Get the weather of a city. Use this when somebody asks for it."""
    return f"{city}: sun for {days} days"


CALLS = Says(
    text=["Let me ", "look."],
    thinking=["Two cities, ", "two calls."],
    calls=[
        Call("call_a", "get_weather", ['{"ci', 'ty": "北京", ', '"days": 2}']),
        Call("call_b", "get_weather", ['{"city": "Ōsaka"}']),
    ],
    stop="calls",
)
ANSWER = Says(text=["Sun in ", "北京 ", "and Ōsaka."])
SUN = Says(text=["Hello ", "there."])


async def converse(model: Model) -> list[ModelEvent]:
    """The loop of an agent in small: ask, run the calls, ask again."""
    registry = Registry([get_weather])
    messages: list[Any] = [UserMessage("How is the weather in 北京 and Ōsaka?")]
    events: list[ModelEvent] = []
    from ferrule import Runtime

    runtime = Runtime(registry)
    while True:
        request = ModelRequest(messages, system="Be brief.", tools=registry.tools())
        events += [event async for event in model.stream(request)]
        last = events[-1]
        assert isinstance(last, Finished)
        messages.append(last.message)
        if last.stop != "calls":
            return events
        messages.append(ToolResults(tuple([await runtime.run(call) for call in last.message.calls])))


def told(events: list[ModelEvent]) -> list[ModelEvent]:
    """The events without what is nobody else's business, and without the pieces of arguments, which are checked."""
    shown: list[ModelEvent] = []
    pieces: dict[str, str] = {}
    for event in events:
        if isinstance(event, CallDelta):
            pieces[event.call_id] = pieces.get(event.call_id, "") + event.text
            continue
        if isinstance(event, Finished):
            assert pieces == {call.id: call.arguments for call in event.message.calls}
            pieces.clear()
            message = AssistantMessage(event.message.text, event.message.calls, event.message.thinking)
            event = Finished(message, Usage(*(getattr(event.usage, name) for name in COUNTS)), event.stop)
        shown.append(event)
    return shown


COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
SAME = [
    ThinkingDelta("Two cities, "),
    ThinkingDelta("two calls."),
    TextDelta("Let me "),
    TextDelta("look."),
    CallStarted("call_a", "get_weather"),
    CallStarted("call_b", "get_weather"),
    Finished(
        AssistantMessage(
            "Let me look.",
            (
                RawCall("get_weather", '{"city": "北京", "days": 2}', id="call_a"),
                RawCall("get_weather", '{"city": "Ōsaka"}', id="call_b"),
            ),
            "Two cities, two calls.",
        ),
        Usage(120, 30, 40, 0),
        "calls",
    ),
    TextDelta("Sun in "),
    TextDelta("北京 "),
    TextDelta("and Ōsaka."),
    Finished(AssistantMessage("Sun in 北京 and Ōsaka."), Usage(120, 30, 40, 0), "end"),
]


# The same on every form: must-show 2 of the assistant, T10


@pytest.mark.parametrize("form", FORMS)
async def test_the_same_conversation_gives_the_same_events_on_every_form(form: str) -> None:
    async with serving(reply(form, CALLS), reply(form, ANSWER), form=form) as (server, model):
        assert told(await converse(model)) == SAME
        assert len(server.requests) == 2
        results = list(_results_in(form, server.requests[1].json))
    assert [result.llm_content for result in results] == ["北京: sun for 2 days", "Ōsaka: sun for 1 days"]
    assert [result.call_id for result in results] == ["call_a", "call_b"]


@pytest.mark.parametrize("form", FORMS)
async def test_a_server_that_does_not_stream_says_the_same(form: str) -> None:
    replies = (reply(form, CALLS, stream=False), reply(form, ANSWER, stream=False))
    async with serving(*replies, form=form) as (_, model):
        events = told(await converse(model))
    assert [one for one in events if isinstance(one, Finished)] == [one for one in SAME if isinstance(one, Finished)]
    assert [one for one in events if isinstance(one, CallStarted)] == [
        one for one in SAME if isinstance(one, CallStarted)
    ]


def _results_in(form: str, sent: Any) -> Any:
    spoken = dialect({"chat": "openai", "responses": "openai-responses"}.get(form, form))
    if form == "chat":
        return [spoken.read_result(one) for one in sent["messages"] if one["role"] == "tool"]
    if form == "responses":
        return [spoken.read_result(one) for one in sent["input"] if one.get("type") == "function_call_output"]
    if form == "anthropic":
        return [spoken.read_result(one) for one in sent["messages"][-1]["content"]]
    return [spoken.read_result(one) for one in sent["contents"][-1]["parts"]]


@pytest.mark.parametrize("form", FORMS)
async def test_what_the_provider_keeps_goes_back_to_it_and_to_nobody_else(form: str) -> None:
    marks = {"chat": "Two cities, two calls.", "responses": "gAAA", "anthropic": "EqQB", "gemini": "c2ln"}
    async with serving(reply(form, CALLS), reply(form, ANSWER), form=form) as (server, model):
        message = finished(await ask(model)).message
        results = ToolResults(tuple([await _run(call) for call in message.calls]))
        again = ModelRequest([UserMessage("hello"), message, results])
        await ask(model, again)
        assert marks[form] in server.requests[1].body.decode()
        for other in FORMS:
            stranger = model_at(server.url, other, name="another", provider="somebody")
            server.replies = [reply(other, SUN)]
            await ask(stranger, again)
            await stranger.close()
            assert marks[form] not in server.requests[-1].body.decode()


async def _run(call: RawCall) -> Any:
    from ferrule import Runtime

    return await Runtime(Registry([get_weather])).run(call)


@pytest.mark.parametrize("form", FORMS)
async def test_bytes_may_be_cut_anywhere(form: str) -> None:
    """Events, lines and characters of several bytes come in any pieces."""
    whole = b"".join(stream_of(form, CALLS))
    pieces = [whole[at : at + 3] for at in range(0, len(whole), 3)]
    async with serving(Reply(pieces), reply(form, ANSWER), form=form) as (_, model):
        assert told(await converse(model)) == SAME


@pytest.mark.parametrize("form", FORMS)
async def test_a_compressed_answer_is_unpacked(form: str) -> None:
    async with serving(Reply(stream_of(form, ANSWER), zipped=True), form=form) as (_, model):
        assert finished(await ask(model)).message.text == "Sun in 北京 and Ōsaka."


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
async def test_a_stream_of_a_wrong_type_and_with_other_line_ends_is_read(form: str, ending: bytes) -> None:
    pieces = [b": keep-alive\n\n", b"".join(stream_of(form, ANSWER)).rstrip(b"\n")]
    pieces = [piece.replace(b"\n", ending) for piece in pieces]
    async with serving(Reply(pieces, content_type="text/plain"), form=form) as (_, model):
        assert finished(await ask(model)).message.text == "Sun in 北京 and Ōsaka."


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("stop", "expected"), [("length", "length"), ("refused", "refused"), ("end", "end")])
async def test_why_the_model_stopped_is_told(form: str, stop: str, expected: str) -> None:
    async with serving(reply(form, Says(text=["So"], stop=stop)), form=form) as (_, model):
        assert finished(await ask(model)).stop == expected


@pytest.mark.parametrize("form", ["chat", "responses", "anthropic"])
@pytest.mark.parametrize("pieces", [['{"city": "Par'], []])
async def test_a_call_that_was_cut_off_never_runs(form: str, pieces: list[str]) -> None:
    cut = Says(text=["Now"], calls=[Call("call_a", "get_weather", pieces)], stop="length")
    async with serving(reply(form, cut), form=form) as (_, model):
        last = finished(await ask(model))
    assert last.stop == "length"
    result = await _run(last.message.calls[0])
    assert not result.success
    assert "JSON" in result.llm_content
    from ferrule import Runtime

    @tool(kind="readonly")
    def get_weather() -> str:
        """Get the weather here. Use this when somebody asks for it."""
        return "sun"

    result = await Runtime(Registry([get_weather])).run(last.message.calls[0])
    assert not result.success  # a tool without parameters would run on arguments that look empty


@pytest.mark.parametrize("form", FORMS)
async def test_an_unknown_tool_is_left_to_the_pipeline_which_answers(form: str) -> None:
    says = Says(calls=[Call("call_a", "get_wether", ['{"city": "Paris"}'])], stop="calls")
    async with serving(reply(form, says), form=form) as (_, model):
        call = finished(await ask(model)).message.calls[0]
    result = await _run(call)
    assert "Did you mean `get_weather`?" in result.llm_content


@pytest.mark.parametrize("form", FORMS)
async def test_calls_with_the_same_id_or_none_get_ids_of_their_own(form: str) -> None:
    calls = [
        Call("twice", "get_weather", ["{}"]),
        Call("twice", "get_weather", ["{}"]),
        Call("", "get_weather", ["{}"]),
    ]
    async with serving(reply(form, Says(calls=calls, stop="calls")), form=form) as (_, model):
        events = await ask(model)
    ids = [call.id for call in finished(events).message.calls]
    assert len(set(ids)) == 3
    assert ids[0] == "twice"
    assert all(ids)
    assert [event.call_id for event in events if isinstance(event, CallStarted)] == ids


@pytest.mark.parametrize("form", ["chat", "responses", "anthropic"])  # Gemini's arguments are an object
async def test_arguments_that_are_not_json_are_passed_on_and_sent_back_as_they_were(form: str) -> None:
    says = Says(calls=[Call("call_a", "get_weather", ['{"city": Paris}'])], stop="calls")
    async with serving(reply(form, says), reply(form, ANSWER), form=form) as (server, model):
        message = finished(await ask(model)).message
        result = await _run(message.calls[0])
        assert not result.success
        await ask(model, ModelRequest([UserMessage("hello"), message, ToolResults((result,))]))
        assert '{\\"city\\": Paris}' in server.requests[1].body.decode().replace('\\\\\\"', '\\"')


# Faults


async def failed(*replies: Reply, form: str = "chat", waits: Waits | None = None, **options: Any) -> ModelError:
    async with serving(*replies, form=form, waits=waits, **options) as (_, model):
        with pytest.raises(ModelError) as caught:
            await ask(model)
    assert KEY not in str(caught.value)
    assert "http://" not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_an_overloaded_server_is_asked_again(form: str, status: int) -> None:
    waits = Waits()
    async with serving(body({"error": {"message": "busy"}}, status), reply(form, SUN), form=form, waits=waits) as (
        server,
        model,
    ):
        events = await ask(model)
    assert isinstance(events[0], Retrying)
    assert (events[0].attempt, events[0].restarted) == (1, False)
    assert "busy" in events[0].why
    assert finished(events).message.text == "Hello there."
    assert len(server.requests) == 2
    assert len(waits.seconds) == 1


@pytest.mark.parametrize(
    ("headers", "least"),
    [({"retry_after": "7"}, 7), ({"retry_after_ms": "1500"}, 1.5), ({"retry_after": "0.5"}, 0.5)],
)
async def test_as_long_as_the_server_asks(headers: dict[str, str], least: float) -> None:
    waits = Waits()
    async with serving(body({}, 429, **headers), reply("chat", SUN), waits=waits) as (_, model):
        await ask(model)
    assert least <= waits.seconds[0] <= least * 1.1 + 0.01


async def test_a_wait_that_is_too_long_is_no_wait() -> None:
    waits = Waits()
    error = await failed(body({}, 429, retry_after="3600"), waits=waits)
    assert error.fault is ModelFault.BUSY
    assert "asks to wait 3,600 s" in error.message
    assert waits.seconds == []


async def test_after_all_tries_it_says_so() -> None:
    waits = Waits()
    error = await failed(body({"error": {"message": "overloaded"}}, 529), form="anthropic", waits=waits)
    assert (error.fault, error.status) == (ModelFault.BUSY, 529)
    assert "Tried 5 times." in error.message
    assert len(waits.seconds) == 4


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("status", "said", "fault"),
    [
        (401, "Incorrect API key provided", ModelFault.KEY),
        (402, "Payment required", ModelFault.MONEY),
        (404, "The model does not exist", ModelFault.NOT_FOUND),
        (413, "too large", ModelFault.TOO_LONG),
        (400, "This model's maximum context length is 8192 tokens", ModelFault.TOO_LONG),
        (400, "something odd", ModelFault.REFUSED),
        (429, "You exceeded your current quota, insufficient_quota", ModelFault.MONEY),
        (302, "redirects", ModelFault.REFUSED),
    ],
)
async def test_what_another_try_does_not_mend_is_not_tried(
    form: str, status: int, said: str, fault: ModelFault
) -> None:
    waits = Waits()
    error = await failed(body({"error": {"message": said}}, status), form=form, waits=waits)
    assert (error.fault, error.status, waits.seconds) == (fault, status, [])
    assert error.suggestion


async def test_a_key_that_the_server_repeats_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    error = await failed(body({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401))
    assert "SCRIPTED_API_KEY" in error.message
    assert KEY not in repr(error)
    assert KEY not in caplog.text


@pytest.mark.parametrize("form", FORMS)
async def test_a_stream_that_is_cut_before_anything_was_shown_is_asked_for_again(form: str) -> None:
    async with serving(Reply([CUT]), Reply([]), reply(form, SUN), form=form) as (_, model):
        events = await ask(model)
    assert [event.restarted for event in events if isinstance(event, Retrying)] == [False, False]
    assert finished(events).message.text == "Hello there."


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("clean", [True, False])
async def test_a_stream_that_is_cut_after_something_was_shown_starts_again(form: str, clean: bool) -> None:
    begun = [piece for piece in stream_of(form, SUN) if b"there" not in piece]
    shown = begun[: next(at for at, piece in enumerate(begun) if b"Hello" in piece) + 1]
    async with serving(Reply(shown if clean else [*shown, CUT]), reply(form, SUN), form=form) as (_, model):
        events = await ask(model)
    assert events[0] == TextDelta("Hello ")
    assert isinstance(events[1], Retrying)
    assert events[1].restarted
    assert finished(events).message.text == "Hello there."


@pytest.mark.parametrize("form", FORMS)
async def test_a_stream_that_is_always_cut_ends(form: str) -> None:
    error = await failed(Reply([stream_of(form, SUN)[0], CUT]), form=form)
    assert error.fault is ModelFault.UNREACHABLE
    assert "Tried 5 times." in error.message


@pytest.mark.parametrize("form", FORMS)
async def test_a_cut_after_the_end_does_no_harm(form: str) -> None:
    async with serving(Reply([*stream_of(form, SUN), CUT]), form=form) as (server, model):
        assert finished(await ask(model)).message.text == "Hello there."
    assert len(server.requests) == 1


@pytest.mark.parametrize("form", FORMS)
async def test_a_connection_that_stays_open_after_the_end_is_not_waited_for(form: str) -> None:
    async with serving(Reply([*stream_of(form, SUN), HANG]), form=form) as (server, model):
        assert finished(await ask(model)).message.text == "Hello there."
        await asyncio.wait_for(server.closed.wait(), 10)


@pytest.mark.parametrize("form", FORMS)
async def test_a_piece_that_is_not_json_is_another_try(form: str) -> None:
    async with serving(Reply([b'data: {"broken\n\n']), reply(form, SUN), form=form) as (_, model):
        events = await ask(model)
    assert isinstance(events[0], Retrying)
    assert "not JSON" in events[0].why
    error = await failed(Reply([b'data: {"broken\n\n']), form=form)
    assert error.fault is ModelFault.GARBLED


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("status", [200, 404, 502])
async def test_a_web_page_is_no_answer(form: str, status: int) -> None:
    page = Reply([b"<!DOCTYPE html><html><body>Sign in to the hotel</body></html>"], status, content_type="text/html")
    error = await failed(page, form=form)
    assert "hotel" not in str(error)
    assert error.fault is {200: ModelFault.GARBLED, 404: ModelFault.NOT_FOUND, 502: ModelFault.UNREACHABLE}[status]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("whole", [{}, [], {"hello": 1}, {"choices": 5, "output": 5, "content": 5, "candidates": 5}])
async def test_a_body_of_another_kind_is_garbled(form: str, whole: Any) -> None:
    error = await failed(body(whole), form=form)
    assert error.fault in (ModelFault.GARBLED, ModelFault.UNREACHABLE)


@pytest.mark.parametrize("form", FORMS)
async def test_an_empty_body_is_another_try_and_then_an_error(form: str) -> None:
    error = await failed(Reply([]), form=form)
    assert error.fault is ModelFault.UNREACHABLE
    assert "ended in the middle" in error.message


@pytest.mark.parametrize("form", FORMS)
async def test_a_silent_server_is_given_up(form: str) -> None:
    limits = TimeLimits(connect=5, first_byte=5, silence=0.05, whole=20)
    error = await failed(Reply([stream_of(form, SUN)[0], HANG]), form=form, limits=limits, tries=Tries(most=2))
    assert error.fault is ModelFault.UNREACHABLE
    assert "silent for 0.05 s" in error.message


async def test_a_server_that_never_answers_is_given_up() -> None:
    error = await failed(Reply(deaf=True), limits=TimeLimits(connect=5, first_byte=0.05), tries=Tries(most=2))
    assert error.fault is ModelFault.UNREACHABLE
    assert "no answer within 0.05 s" in error.message


async def test_an_answer_without_end_ends() -> None:
    limits = TimeLimits(connect=5, first_byte=5, silence=5, whole=0.2)
    error = await failed(Reply([b": ping\n\n", HANG]), limits=limits, tries=Tries(most=1))
    assert "never ended" in error.message


async def test_nobody_there_is_said_at_once() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    waits = Waits()
    model = model_at(f"http://127.0.0.1:{port}", waits=waits)
    with pytest.raises(ModelError) as caught:
        await ask(model)
    await model.close()
    assert caught.value.fault is ModelFault.UNREACHABLE
    assert "Start Scripted" in caught.value.suggestion
    assert waits.seconds == []


async def test_an_address_that_is_none_is_said() -> None:
    for address in ("scripted", "ftp://127.0.0.1", "http://[::1"):
        model = model_at(address)
        with pytest.raises(ModelError) as caught:
            await ask(model)
        assert "base_url" in caught.value.suggestion
        await model.close()


@pytest.mark.parametrize("form", FORMS)
async def test_a_line_of_megabytes_is_read(form: str) -> None:
    long = "word " * 400_000
    async with serving(reply(form, Says(text=[long])), form=form) as (_, model):
        assert finished(await ask(model)).message.text == long


async def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from ferrule.models import http_model as transport

    monkeypatch.setattr(transport, "_MOST_BYTES", 10_000)
    error = await failed(Reply([b"data: " + b"x" * 20_000, HANG]), tries=Tries(most=1))
    assert error.fault is ModelFault.GARBLED
    assert "larger than 10,000 bytes" in error.message
    error = await failed(Reply([b"{" + b" " * 20_000, HANG], content_type="application/json"), tries=Tries(most=1))
    assert "larger than 10,000 bytes" in error.message


async def test_broken_compression_is_said() -> None:
    error = await failed(Reply([b"no gzip at all"], headers={"content-encoding": "gzip"}), tries=Tries(most=1))
    assert error.fault is ModelFault.GARBLED


@pytest.mark.parametrize(
    ("form", "event"),
    [
        ("chat", {"error": {"message": "Provider returned error", "code": 502}}),
        ("chat", {"choices": [{"delta": {}, "finish_reason": "error"}]}),
        ("responses", {"type": "error", "code": "server_error", "message": "oops"}),
        ("responses", {"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error"}}}),
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        ("gemini", {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}),
        ("gemini", {"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL"}]}),
    ],
)
async def test_an_error_in_the_middle_of_a_stream_is_another_try(form: str, event: Any) -> None:
    async with serving(Reply(sse(event)), reply(form, SUN), form=form) as (_, model):
        events = await ask(model)
    assert isinstance(events[0], Retrying)
    assert finished(events).message.text == "Hello there."


async def test_closing_the_stream_early_closes_the_connection() -> None:
    async with serving(Reply([stream_of("chat", SUN)[1], HANG])) as (server, model):
        stream = model.stream(ModelRequest([UserMessage("hello")]))
        assert await anext(stream) == TextDelta("Hello ")
        await stream.aclose()
        await asyncio.wait_for(server.closed.wait(), 10)


async def test_cancelling_closes_the_connection() -> None:
    async with serving(Reply([stream_of("chat", SUN)[1], HANG])) as (server, model):
        seen = asyncio.Event()

        async def listen() -> None:
            async for _ in model.stream(ModelRequest([UserMessage("hello")])):
                seen.set()

        task = asyncio.create_task(listen())
        await seen.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.closed.wait(), 10)


async def test_a_field_that_a_server_refuses_is_left_out_from_then_on() -> None:
    refused = body({"error": {"message": "Extra inputs are not permitted: stream_options"}}, 422)
    async with serving(refused, reply("chat", SUN)) as (server, model):
        assert finished(await ask(model)).message.text == "Hello there."
        await ask(model)
    assert ["stream_options" in request.json for request in server.requests] == [True, False, False]


async def test_examples_that_a_server_refuses_are_left_out_of_its_tools() -> None:
    """T1: they have a field in Anthropic's form, which other servers that speak it may not know."""

    @tool
    def add(left: int, right: int) -> int:
        """Add two numbers. Use this for every sum.

        Examples:
            - three and four: {"left": 3, "right": 4}
        """
        return left + right

    refused = body({"error": {"message": "tools.0.input_examples: Extra inputs are not permitted"}}, 400)
    async with serving(refused, reply("anthropic", SUN), form="anthropic") as (server, model):
        await ask(model, ModelRequest([UserMessage("hello")], tools=[add]))
    sent = [request.json["tools"][0].get("input_examples") for request in server.requests]
    assert sent == [[{"left": 3, "right": 4}], None]


async def test_the_nearest_names_are_told_on_a_miss() -> None:
    async with serving(body({"error": {"message": "no such model"}}, 404), name="qwen3-code") as (server, model):
        server.listed = {"data": [{"id": "qwen3-coder"}, {"id": "llama4"}]}
        with pytest.raises(ModelError) as caught:
            await ask(model)
    assert caught.value.suggestion == "Did you mean `scripted/qwen3-coder`?"


async def test_a_local_server_is_asked_how_much_a_model_reads() -> None:
    async with serving(reply("chat", SUN), provider="ollama", name="qwen3") as (server, model):
        server.listed = {"models": [{"name": "qwen3:latest", "context_length": 4096}]}
        assert model.context_tokens is None
        await ask(model)
        assert model.context_tokens == 4096


async def test_usage_that_never_comes_is_not_waited_for_long() -> None:
    stream = sse(chat_chunk({"content": "Hello"}), chat_chunk({}, "stop"))
    async with serving(Reply([*stream, HANG])) as (_, model):
        last = finished(await ask(model))
    assert (last.message.text, last.usage) == ("Hello", Usage())


async def test_the_price_is_told_where_it_is_known() -> None:
    says = Says(text=["Hi"], read=100_000, cached=0, written=100_000)
    async with serving(reply("anthropic", says), form="anthropic", name="claude-sonnet-4-5-20250929") as (_, model):
        assert finished(await ask(model)).usage.cost == pytest.approx(1.8)
    async with serving(reply("anthropic", says), form="anthropic", name="nobody-knows") as (_, model):
        assert finished(await ask(model)).usage.cost is None


async def test_a_model_works_in_one_loop_after_another() -> None:
    async with serving(reply("chat", SUN)) as (server, model):
        await ask(model)

        async def elsewhere() -> list[ModelEvent]:
            try:
                return await ask(model)
            finally:
                await model.close()

        events = await asyncio.to_thread(asyncio.run, elsewhere())
        await ask(model)
    assert finished(events).message.text == "Hello there."
    assert len(server.requests) == 3


async def test_connections_are_kept_between_requests() -> None:
    async with serving(reply("chat", SUN)) as (server, model):
        for _ in range(3):
            await ask(model)
        assert len(server._tasks) == 1


def test_no_key_is_in_what_can_be_printed() -> None:
    model = model_at("https://example.org")
    assert KEY not in repr(model)
    assert KEY not in repr(vars(model))
    assert json.dumps(model.name) == '"scripted/m"'


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("key", ["密钥-0123456789", "two\nlines-0123456789"])
async def test_a_key_that_cannot_be_one_is_said_without_showing_it(form: str, key: str) -> None:
    async with serving(reply(form, SUN), form=form, key=key) as (server, model):
        with pytest.raises(ModelError) as caught:
            await ask(model)
        assert await model.list_models() is None
    assert caught.value.fault is ModelFault.KEY
    assert "SCRIPTED_API_KEY" in caught.value.message
    assert key not in str(caught.value)
    assert server.requests == []


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:7890"),
        ("HTTPS_PROXY", "nonsense://x"),
        ("HTTPS_PROXY", "http://[::1"),
        ("SSL_CERT_FILE", "/nowhere/at-all.pem"),
    ],
)
async def test_an_environment_that_cannot_be_used_is_said(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv(variable, value)
    with pytest.raises(ModelError) as caught:
        await ask(model_at("https://far.example"))
    assert caught.value.fault is ModelFault.UNREACHABLE
    assert "SSL_CERT_FILE" in caught.value.suggestion
