"""Pieces come in, events and one whole answer come out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.model import CallStarted, Finished, TextDelta, ThinkingDelta, Usage
from ferrule.models.wire_form import AnswerBuilder


def done(answer: AnswerBuilder, stop: str = "end") -> Finished:
    last = answer.finish(stop, Usage())[-1]  # pyright: ignore[reportArgumentType]
    assert isinstance(last, Finished)
    return last


def test_words_and_thoughts_come_out_as_they_go_in() -> None:
    answer = AnswerBuilder()
    answer.think("hm")
    answer.say("a")
    answer.say("")
    answer.say("b")
    assert answer.take() == [ThinkingDelta("hm"), TextDelta("a"), TextDelta("b")]
    assert answer.take() == []
    last = done(answer)
    assert (last.message.text, last.message.thinking, last.stop) == ("ab", "hm", "end")


def test_a_call_is_announced_once_under_the_tools_own_name() -> None:
    answer = AnswerBuilder(resolve={"shown": "own.name"}.__getitem__)
    call = answer.begin_call("id1")
    call.called("sho")
    call.called("wn")
    answer.announce(call)
    answer.announce(call)
    call.called("too late")
    assert answer.take() == [CallStarted("id1", "own.name")]
    assert done(answer).message.calls[0].name == "own.name"


def test_a_repeated_name_is_no_second_half() -> None:
    answer = AnswerBuilder()
    call = answer.begin_call("id1", "look")
    call.called("look")
    assert call.name == "look"


def test_the_stop_follows_from_the_calls() -> None:
    answer = AnswerBuilder()
    assert done(answer, "calls").stop == "end"
    answer.begin_call("id1", "look")
    assert done(answer, "end").stop == "calls"
    assert done(answer, "length").stop == "length"


def test_no_arguments_are_an_empty_object_unless_the_call_was_cut_off() -> None:
    answer = AnswerBuilder()
    answer.begin_call("id1", "look")
    answer.begin_call("id2", "look").add("  ")
    assert [call.arguments for call in done(answer, "calls").message.calls] == ["{}", "{}"]
    assert [call.arguments for call in done(answer, "length").message.calls] == ["{}", "{"]


def test_an_object_is_written_as_text() -> None:
    answer = AnswerBuilder()
    answer.begin_call("id1", "look").add({"city": "北京"})
    assert done(answer).message.calls[0].arguments == '{"city": "北京"}'


@given(st.lists(st.sampled_from(["", "a", "b"]), max_size=6))
def test_no_two_calls_have_one_id(ids: list[str]) -> None:
    answer = AnswerBuilder()
    for wire_id in ids:
        answer.begin_call(wire_id, "look")
    made = [call.id for call in done(answer).message.calls]
    assert len(set(made)) == len(ids)
    assert all(made)
