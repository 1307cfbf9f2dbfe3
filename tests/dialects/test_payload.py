"""What a provider or a client sent is read, or what is wrong with it is said (T10, P2)."""

from __future__ import annotations

import json
from collections import UserDict
from collections.abc import Callable
from datetime import date
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import BaseModel, RootModel

from ferrule.dialects.payload import (
    DialectError,
    a_list,
    a_name,
    an_object,
    arguments_as_object,
    arguments_as_text,
    field,
    plain,
    some_arguments,
    some_text,
)
from tests.dialects.strategies import json_values


class Sent(BaseModel):
    name: str = "get_weather"
    parts: list[int] = [1]


def wrong(read: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(DialectError) as caught:
        read(*arguments)
    return str(caught.value)


def test_objects_of_any_sdk_are_read_like_plain_json() -> None:
    """T10: no SDK is needed to understand one."""
    assert an_object(Sent(), "call") == {"name": "get_weather", "parts": [1]}
    assert a_list(RootModel[list[int]]([1, 2]), "calls") == [1, 2]
    assert a_list((1, 2), "calls") == [1, 2]
    same = {"a": 1}
    assert plain(same, "call") is same


def test_each_complaint_says_what_and_where() -> None:
    assert [
        wrong(plain, "x", "payload"),
        wrong(plain, {1}, "payload"),
        wrong(an_object, [], "choices[0]"),
        wrong(an_object, RootModel[int](5), "choices[0]"),
        wrong(a_list, {"a": 1}, "tool_calls"),
        wrong(a_name, {}, "function"),
        wrong(a_name, {"name": ""}, "function"),
        wrong(a_name, {"type": True}, "block", "type"),
        wrong(some_text, 5, "id"),
        wrong(some_arguments, [1], "input"),
        wrong(arguments_as_object, "{", "now"),
        wrong(arguments_as_object, "5", "now"),
    ] == snapshot(
        [
            'payload: expected an object or a list, got string "x".',
            "payload: expected an object or a list, got set set.",
            "choices[0]: expected an object, got an empty array.",
            "choices[0]: expected an object, got integer 5.",
            "tool_calls: expected a list, got an object.",
            "function: `name` is missing.",
            'function.name: expected a non-empty string, got string "".',
            "block.type: expected a non-empty string, got true.",
            "id: expected a string, got integer 5.",
            "input: expected an object or JSON text, got an array.",
            "The arguments of `now` are not JSON, and this dialect has no place for text.",
            "The arguments of `now` are integer 5; this dialect takes an object.",
        ]
    )


@given(json_values)
def test_a_complaint_is_the_only_way_to_fail(value: Any) -> None:
    """T10: whatever was sent, it is read or refused in words."""
    for read in (plain, an_object, a_list, some_text, some_arguments):
        complaint = ""
        try:
            read(value, "here")
        except DialectError as error:
            complaint = str(error)
        assert not complaint or complaint.startswith("here: expected ")


def test_a_field_is_found_in_either_spelling() -> None:
    assert field({"fileUri": "a", "file_uri": "b"}, "fileUri", "file_uri") == "a"
    assert field({"fileUri": None, "file_uri": "b"}, "fileUri", "file_uri") == "b"
    assert field({"n": 0, "m": 1}, "n", "m") == 0
    assert field({}, "fileUri") is None


def test_broken_arguments_pass_untouched() -> None:
    """P2: who validates the call says what is wrong with them, once."""
    for arguments in (None, '{"a": ', "", {"a": 1}):
        assert some_arguments(arguments, "input") is arguments


@given(st.dictionaries(st.text(), json_values, max_size=3))
def test_arguments_are_the_same_as_text_and_as_an_object(arguments: dict[str, Any]) -> None:
    text = arguments_as_text(arguments)
    assert json.loads(text) == arguments
    assert arguments_as_object(text, "now") == arguments
    assert arguments_as_object(text.encode(), "now") == arguments
    assert arguments_as_object(arguments, "now") == arguments


@pytest.mark.parametrize("arguments", [None, "", b"", {}])
def test_no_arguments_are_an_empty_object(arguments: Any) -> None:
    assert arguments_as_object(arguments, "now") == {}
    assert arguments_as_text(arguments) in ("{}", "")


def test_any_mapping_can_be_written() -> None:
    for mapping in (MappingProxyType({"a": 1}), UserDict({"a": 1})):
        assert arguments_as_text(mapping) == '{"a": 1}'
        assert arguments_as_object(mapping, "now") == {"a": 1}
    assert arguments_as_text({"when": date(2024, 1, 2)}) == '{"when": "2024-01-02"}'
    assert arguments_as_text(b'{"a": "\xff"}') == '{"a": "\ufffd"}'


def test_the_object_that_is_written_is_a_copy() -> None:
    arguments = {"a": 1}
    arguments_as_object(arguments, "now")["b"] = 2
    assert arguments == {"a": 1}


@pytest.mark.parametrize(
    ("text", "times"), [("[", 100_000), ('{"a":', 100_000), (b"\xff", 1), ("1", 5_000), ("nul", 1), ("{'a': 1}", 1)]
)
def test_text_from_a_confused_model_is_refused_in_words(text: str | bytes, times: int) -> None:
    """T10: nesting without end among them."""
    assert wrong(arguments_as_object, text * times, "now") == (
        "The arguments of `now` are not JSON, and this dialect has no place for text."
    )
