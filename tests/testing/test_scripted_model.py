"""The scripted model streams as a real one does, and keeps what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ferrule.core.call import RawCall
from ferrule.core.model import (
    CallDelta,
    CallStarted,
    Finished,
    Model,
    ModelError,
    ModelEvent,
    ModelFault,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    Usage,
    UserMessage,
)
from ferrule.testing import ScriptedModel, call, say


def heard(model: Model, text: str = "hello") -> list[ModelEvent]:
    async def listen() -> list[ModelEvent]:
        return [event async for event in model.stream(ModelRequest([UserMessage(text)]))]

    return asyncio.run(listen())


def test_words_come_in_small_pieces_and_then_whole() -> None:
    *deltas, last = heard(ScriptedModel(["It is three, as far as I can tell."]))
    assert len(deltas) > 2
    assert "".join(one.text for one in deltas if isinstance(one, TextDelta)) == "It is three, as far as I can tell."
    assert isinstance(last, Finished)
    assert (last.message.text, last.stop) == ("It is three, as far as I can tell.", "end")
    assert last.usage.input_tokens > 0
    assert last.usage.output_tokens > 0


def test_calls_are_numbered_over_the_whole_script_and_a_raw_call_goes_as_it_is() -> None:
    bare = RawCall("Glob", "{")
    model = ScriptedModel([say("I look.", call("Read", {"file_path": "a"}), call("Read")), say("", bare), call("Grep")])
    first, second, third = (heard(model)[-1] for _ in range(3))
    assert isinstance(first, Finished)
    assert isinstance(second, Finished)
    assert isinstance(third, Finished)
    assert [one.id for one in first.message.calls] == ["call_1", "call_2"]
    assert first.stop == "calls"
    assert second.message.calls[0] is bare
    assert [one.id for one in third.message.calls] == ["call_4"]


def test_thinking_comes_before_words_and_a_call_is_announced() -> None:
    events = heard(ScriptedModel([say("ok", call("Read"), thinking="hm")]))
    assert [type(event) for event in events] == [ThinkingDelta, TextDelta, CallStarted, CallDelta, Finished]


def test_a_reply_may_be_a_function_of_the_request_also_an_async_one_or_a_stream() -> None:
    async def later(request: ModelRequest) -> str:
        await asyncio.sleep(0)
        return f"later {len(request.messages)}"

    async def stream(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("torn")

    model = ScriptedModel([lambda request: request.messages[0].text, later, stream])  # type: ignore[union-attr]
    answers = [heard(model, "said")[-1] for _ in range(3)]
    assert [getattr(one, "message", None) and one.message.text for one in answers] == ["said", "later 1", None]  # type: ignore[union-attr]
    assert answers[2] == TextDelta("torn")


def test_an_error_is_raised_and_a_script_at_its_end_says_so() -> None:
    model = ScriptedModel([ModelError(ModelFault.BUSY, "Busy.")])
    with pytest.raises(ModelError, match="Busy"):
        heard(model)
    model.check()
    with pytest.raises(ModelError, match="Add a reply to the script"):
        heard(model)
    with pytest.raises(AssertionError, match="1 replies, and the model was asked 2 times"):
        model.check()


def test_usage_is_given_or_priced() -> None:
    told = Usage(1000, 20, cost=0.5)
    given = heard(ScriptedModel([say("x", usage=told)]))[-1]
    priced = heard(ScriptedModel(["four"], cost_per_token=0.01), "12345678")[-1]
    assert isinstance(given, Finished)
    assert given.usage == told
    assert isinstance(priced, Finished)
    assert priced.usage.cost == pytest.approx(0.01 * (priced.usage.input_tokens + priced.usage.output_tokens))


def test_leaving_a_stream_early_closes_it() -> None:
    async def leave() -> tuple[int, int]:
        model = ScriptedModel(["a long answer that nobody hears to its end"])
        stream = model.stream(ModelRequest([UserMessage("x")]))
        await anext(stream)
        during = model.streaming
        await stream.aclose()  # type: ignore[attr-defined]
        return during, model.streaming

    assert asyncio.run(leave()) == (1, 0)
