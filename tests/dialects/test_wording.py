"""Results in words, and the words read back (T9, T10)."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.result import SUGGESTION, Attachment, ErrorInfo, ToolResult
from ferrule.core.shown_text import well_formed
from ferrule.dialects import Loss
from ferrule.dialects.payload import (
    attachment_line,
    attachment_lost,
    details_lost,
    jsonable,
    reads_as_error,
    result_from,
    text_of,
)
from tests.dialects.raw import success

# Halves of surrogate pairs are rare among all characters, and what this is about.
ANY_TEXT = st.text(st.characters() | st.characters(categories=["Cs"]))


def failure(text: str, error: ErrorInfo | None = None) -> ToolResult:
    return ToolResult("call_a", "probe", False, text, "", error=error)


def said(result: ToolResult) -> str:
    return text_of(result, [])


def test_what_a_model_reads_of_a_failure() -> None:
    """T9: always the kind, and the suggestion where there is one, whoever wrote the words."""
    slow = ErrorInfo(ErrorKind.TIMEOUT, "Too slow.", suggestion="Ask for less.")
    assert [
        said(failure("Too slow.", slow)),
        said(failure("", slow)),
        said(failure(slow.words, slow)),
        said(failure("Too slow. Ask for less.", slow)),
        said(failure("Error (execution_error): disk", slow)),
        said(failure("It broke.")),
        said(failure("")),
    ] == snapshot(
        [
            """\
Error (timeout_error): Too slow.

Suggestion: Ask for less.\
""",
            """\
Error (timeout_error): Too slow.

Suggestion: Ask for less.\
""",
            """\
Error (timeout_error): Too slow.

Suggestion: Ask for less.\
""",
            "Error (timeout_error): Too slow. Ask for less.",
            """\
Error (timeout_error): Error (execution_error): disk

Suggestion: Ask for less.\
""",
            "Error (unknown_error): It broke.",
            "Error (unknown_error): The call failed.",
        ]
    )


def test_words_of_a_success_go_out_as_they_are() -> None:
    for text in ("", "12 °C", "Error (timeout_error): in the log", "  \n"):
        assert said(success(text)) == text


MESSAGES = st.text(min_size=1).filter(lambda text: "Suggestion: " not in text and not reads_as_error(text))


@given(st.sampled_from(ErrorKind), MESSAGES, st.none() | MESSAGES)
def test_an_error_comes_back_from_its_words(kind: ErrorKind, message: str, suggestion: str | None) -> None:
    """T9: in every dialect, also those that have no place for an error."""
    error = ErrorInfo(kind, message, suggestion=suggestion)
    text = said(failure("", error))
    if suggestion is not None and suggestion in message:
        error.suggestion = None  # said already
    assert text == error.words
    assert result_from(text, failed=True, call=None).error == error


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_words_go_through_any_encoder(content: str, message: str, suggestion: str) -> None:
    losses: list[Loss] = []
    text = text_of(failure(content, ErrorInfo(ErrorKind.UNKNOWN, message, suggestion=suggestion)), losses)
    text.encode()
    assert bool(losses) == (well_formed(content) != content)


def test_words_in_another_form_are_an_unknown_error() -> None:
    read = result_from("It broke.", failed=True, call=None).error
    assert read == ErrorInfo(ErrorKind.UNKNOWN, "It broke.")
    assert not reads_as_error("Error (made_up): no")
    assert not reads_as_error(" Error (timeout_error): no")
    assert reads_as_error("Error (timeout_error): ")


def test_a_suggestion_is_read_back_from_after_the_first_mark() -> None:
    read = result_from(f"Error (timeout_error): a{SUGGESTION}b{SUGGESTION}c", failed=True, call=None).error
    assert read == ErrorInfo(ErrorKind.TIMEOUT, "a", suggestion=f"b{SUGGESTION}c")


def test_the_payloads_own_id_and_name_win_over_the_calls() -> None:
    call = RawCall("asked", id="call_1")
    answered = result_from("x", failed=False, call=call)
    assert (answered.call_id, answered.tool, answered.success, answered.error) == ("call_1", "asked", True, None)
    named = result_from("x", failed=False, call=call, call_id="call_2", tool="other")
    assert (named.call_id, named.tool) == ("call_2", "other")
    alone = result_from("x", failed=False, call=None)
    assert (alone.call_id, alone.tool) == ("", "")


# Attachments


def test_the_line_that_stands_for_an_attachment() -> None:
    assert [
        attachment_line(Attachment("image/png", b"123", name="plot.png")),
        attachment_line(Attachment("image/png", b"")),
        attachment_line(Attachment("text/html", uri="https://example.org/a", name="a")),
        attachment_line(Attachment("text/html", uri="file:///a")),
    ] == snapshot(
        [
            "[attachment plot.png (image/png), 3 bytes, not shown]",
            "[attachment (image/png), 0 bytes, not shown]",
            "[attachment a (text/html): https://example.org/a]",
            "[attachment (text/html): file:///a]",
        ]
    )


@given(ANY_TEXT, st.none() | ANY_TEXT, st.none() | ANY_TEXT)
def test_the_line_goes_through_any_encoder(media_type: str, uri: str | None, name: str | None) -> None:
    attachment_line(Attachment(media_type, b"", uri, name)).encode()


def test_what_of_an_attachment_is_lost_is_named() -> None:
    losses: list[Loss] = []
    result = success(attachments=[Attachment("image/png", b"1", name="a"), Attachment("image/png", uri="https://a/b")])
    details_lost(result, 0, losses)
    details_lost(result, 0, losses, name=False)
    details_lost(result, 1, losses)
    assert attachment_lost(result, 1, losses) == attachment_line(result.attachments[1])
    assert [str(loss) for loss in losses] == snapshot(
        [
            "probe: name at attachments[0].name: cannot be carried; left out",
            "probe: media_type at attachments[1].media_type: a link does not say it",
            "probe: attachment at attachments[1]: cannot be carried; a line of text stands for it",
        ]
    )


# Text and data


@given(st.text())
def test_clean_text_is_left_alone(text: str) -> None:
    assert well_formed(text) == text


@given(ANY_TEXT)
def test_cleaning_replaces_halves_of_pairs_and_nothing_else(text: str) -> None:
    joined = re.sub("[\ud800-\udbff][\udc00-\udfff]", lambda pair: _character(pair[0]), text)
    assert well_formed(text) == re.sub("[\ud800-\udfff]", "\ufffd", joined)
    assert well_formed(well_formed(text)) == well_formed(text)


def _character(pair: str) -> str:
    return chr(0x10000 + ((ord(pair[0]) - 0xD800) << 10) + (ord(pair[1]) - 0xDC00))


def test_two_halves_of_a_pair_become_the_character_they_mean() -> None:
    assert well_formed("a\ud83d\ude00b") == "a😀b"
    assert well_formed("a\ude00\ud83db") == "a\ufffd\ufffdb"


class Odd:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("data", "plain"),
    [
        ({"a": (1, 2), "b": {3}}, {"a": [1, 2], "b": [3]}),
        (date(2024, 1, 2), "2024-01-02"),
        (b"\xff", "_w=="),
        ([float("nan"), float("inf"), {"a": float("-inf")}], ["NaN", "Infinity", {"a": "-Infinity"}]),
        ({1: PurePosixPath("/a")}, {"1": "/a"}),
        (Odd(), "(Odd)"),
        (["\ud800", {"a": "\ud800b"}], ["\ufffd", {"a": "\ufffdb"}]),
        (
            Attachment("image/png", b"a"),
            {"media_type": "image/png", "data": "YQ==", "uri": None, "name": None, "details": None, "after": None},
        ),
    ],
)
def test_anything_a_tool_returns_has_a_plain_form(data: Any, plain: Any) -> None:
    assert jsonable(data) == plain


def test_what_has_no_end_has_no_plain_form() -> None:
    endless: list[Any] = []
    endless.append(endless)
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    for data in (endless, deep):
        with pytest.raises(ValueError, match=r"."):
            jsonable(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON)
def test_plain_data_stays_as_it_is(data: Any) -> None:
    assert jsonable(data) == data
    json.dumps(jsonable(data), allow_nan=False).encode()
