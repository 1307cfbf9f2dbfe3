"""A conversation from anywhere becomes one that every provider takes."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.call import RawCall
from ferrule.core.model import AssistantMessage, Message, ToolResults, UserMessage
from ferrule.core.result import Attachment, ToolResult
from ferrule.dialects import dialect
from ferrule.models.wire_form import CallIds, attached, transcript

IDS = CallIds(re.compile(r"[a-z0-9_]{1,40}"))


def result(call_id: str, text: str = "ok") -> ToolResult:
    return ToolResult(call_id, "look", True, text, text)


MESSAGES = st.lists(
    st.one_of(
        st.builds(UserMessage, st.text(max_size=3)),
        st.builds(
            lambda text, ids: AssistantMessage(text, tuple(RawCall("look", "{}", id=one) for one in ids)),
            st.text(max_size=3),
            st.lists(st.text(min_size=1, max_size=3), max_size=3),
        ),
        st.builds(
            lambda ids: ToolResults(tuple(result(one) for one in ids)), st.lists(st.text(max_size=3), max_size=3)
        ),
    ),
    max_size=8,
)


@given(MESSAGES)
def test_every_call_is_answered_once_under_an_id_that_is_taken(messages: list[Message]) -> None:
    seen: set[str] = set()
    prepared = transcript(messages, IDS)
    for at, message in enumerate(prepared):
        if isinstance(message, AssistantMessage):
            assert message.calls or message.text.strip()
            for call in message.calls:
                assert IDS.allowed.fullmatch(call.id)
                assert call.id not in seen
                seen.add(call.id)
            if message.calls:
                answers = prepared[at + 1]
                assert isinstance(answers, ToolResults)
                assert [one.call_id for one in answers.results] == [call.id for call in message.calls]
        elif isinstance(message, ToolResults):
            assert isinstance(prepared[at - 1], AssistantMessage)
    assert prepared == transcript(messages, IDS)  # the same in every request, or no cache would hold


@given(MESSAGES)
def test_what_is_in_order_stays_as_it_is(messages: list[Message]) -> None:
    once = transcript(messages, IDS)
    assert transcript(once, IDS) == once


def test_results_follow_the_order_of_the_calls() -> None:
    calls = (RawCall("look", "{}", id="a"), RawCall("look", "{}", id="b"))
    answered = transcript([AssistantMessage("", calls), ToolResults((result("b", "B"), result("a", "A")))], IDS)[1]
    assert isinstance(answered, ToolResults)
    assert [one.llm_content for one in answered.results] == ["A", "B"]


def test_a_call_that_nobody_answered_is_said_to_be_interrupted() -> None:
    answered = transcript([AssistantMessage("", (RawCall("look", "{}", id="a"),)), UserMessage("hello?")], IDS)[1]
    assert isinstance(answered, ToolResults)
    assert not answered.results[0].success
    assert "interrupted" in answered.results[0].llm_content


def test_broken_arguments_are_shown_as_what_they_were() -> None:
    for broken in ('{"a": ', "[1]", "no JSON", b"\xff", '"text"'):
        message = transcript([AssistantMessage("", (RawCall("look", broken, id="a"),))], IDS)[0]
        assert isinstance(message, AssistantMessage)
        sent = json.loads(message.calls[0].arguments)
        assert list(sent) == ["unreadable_arguments"]
    long = transcript([AssistantMessage("", (RawCall("look", "{" + "x" * 9000, id="a"),))], IDS)[0]
    assert isinstance(long, AssistantMessage)
    assert len(long.calls[0].arguments) < 2100


def test_attachments_become_parts_text_or_a_line() -> None:
    message = UserMessage(
        "see",
        (
            Attachment("image/png", b"PNG"),
            Attachment("text/markdown", "# 你好".encode(), name="a.md"),
            Attachment("application/zip", b"PK", name="a.zip"),
        ),
    )
    image, text, line = attached(dialect("anthropic"), message)
    assert image[1] is not None
    assert image[1]["type"] == "image"
    assert text == ("a.md:\n# 你好", None)
    assert line == ("[attachment a.zip (application/zip), 2 bytes, not shown]", None)
