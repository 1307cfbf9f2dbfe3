"""What is typed becomes the value that the schema wants, or words about what would."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from ferrule.cli.server_talk.form import asks_secret, default_of, fields_of, read, shown_value
from ferrule.core.forms import FormError, FormField

MOMENT = "2026-01-31T18:30:00Z"
COLOURS = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]


def field(**schema: Any) -> FormField:
    return fields_of({"properties": {"it": schema}})[0]


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({"type": "string"}, " Ada ", "Ada"),
        ({"type": "integer"}, "1,024", 1024),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "3", 3),
        ({"type": "boolean"}, "Y", True),
        ({"type": "boolean"}, "否", False),
        ({"type": "string", "enum": ["a", "b"]}, "2", "b"),
        ({"type": "integer", "enum": [10, 20]}, "20", 20),
        ({"type": ["string", "null"]}, "Ada", "Ada"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["One", "Two"]}, "two", "b"),
        ({"type": "string", "oneOf": COLOURS}, "green", "g"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "2, 1 2", ["b", "a"]),
        ({"type": "array", "items": {"anyOf": COLOURS}}, "1、2", ["r", "g"]),
        ({"type": "string", "format": "email"}, "a@b.example", "a@b.example"),
        ({"type": "string", "format": "date"}, "2026-01-31", "2026-01-31"),
        ({"type": "string", "format": "date-time"}, "2026-01-31T18:30:00Z", "2026-01-31T18:30:00Z"),
        ({"type": "string", "format": "uri"}, "https://example.org/", "https://example.org/"),
    ],
)
def test_an_answer_is_read(schema: dict[str, Any], typed: str, value: Any) -> None:
    assert read(field(**schema), typed) == value


@pytest.mark.parametrize(
    ("schema", "typed", "words"),
    [
        ({"type": "string", "minLength": 3}, "ab", "At least 3 characters are required."),
        ({"type": "string", "maxLength": 1}, "ab", "At most 1 characters are allowed."),
        ({"type": "integer"}, "2.5", "That is not a whole number."),
        ({"type": "integer"}, "9" * 200, "That is not a whole number."),
        ({"type": "number"}, "nan", "That is not a number."),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "10", "That is out of range: a whole number, 1 to 9."),
        ({"type": "number", "minimum": 1}, "0", "That is out of range: a number, at least 1."),
        ({"type": "number", "maximum": 1}, "2", "That is out of range: a number, at most 1."),
        ({"type": "boolean"}, "perhaps", "Type y for yes or n for no."),
        ({"type": "string", "enum": ["a"]}, "2", "`2` is not in the list: type a number from 1 to 1."),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2}, "1", "Choose at least 2."),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}, "1 2", "Choose at most 1."),
        ({"type": "string", "format": "email"}, "ada", "That is not an e-mail address."),
        ({"type": "string", "format": "date"}, "31.1.2026", "That is not a date, such as 2026-01-31."),
        ({"format": "date-time", "type": "string"}, "noon", f"That is not a date and time, such as {MOMENT}."),
        ({"type": "string", "format": "uri"}, "example", "That is not an address, such as https://example.org/."),
        ({"type": "string"}, "x" * 30_000, "That is too long."),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_told_in_words(schema: dict[str, Any], typed: str, words: str) -> None:
    with pytest.raises(FormError) as refused:
        read(field(**schema), typed)
    assert str(refused.value) == words


def test_a_pattern_is_kept_to() -> None:
    with pytest.raises(FormError, match="The server does not accept that: "):
        read(field(type="string", pattern="^[a-z]+$"), "A1")


def test_a_default_that_does_not_fit_is_none() -> None:
    assert default_of(field(type="integer", default=5, maximum=9)) == 5
    assert default_of(field(type="integer", default=50, maximum=9)) is None
    assert default_of(field(type="boolean", default="yes")) is None
    assert default_of(field(type="string", enum=["a"], default="b")) is None


def test_values_are_shown_by_their_titles() -> None:
    assert shown_value(field(type="string", oneOf=COLOURS), "g") == "Green"
    assert shown_value(field(type="array", items={"anyOf": COLOURS}), ["r", "g"]) == "Red, Green"
    assert shown_value(field(type="boolean"), True) == "yes"


@pytest.mark.parametrize("name", ["password", "api_key", "accessToken", "密码"])
def test_what_wants_a_secret_is_known(name: str) -> None:
    assert asks_secret(fields_of({"properties": {name: {"type": "string"}}})[0])


def test_a_title_or_a_format_gives_a_secret_away() -> None:
    assert asks_secret(field(type="string", title="Your password"))
    assert asks_secret(field(type="string", format="password"))
    assert not asks_secret(field(type="string", title="Your name"))
    assert not asks_secret(fields_of({"properties": {"password": {"type": "boolean"}}})[0])


KINDS = [
    field(type="integer", minimum=-5, maximum=5),
    field(type="number"),
    field(type="boolean"),
    field(type="string", maxLength=4),
    field(type="array", items={"enum": ["a", "b"]}),
]


@given(st.sampled_from(KINDS), st.text() | st.from_regex(r"-?[0-9.eyn ]{1,5}"))
def test_whatever_is_typed_is_either_a_fitting_value_or_words(one: FormField, typed: str) -> None:
    try:
        value = read(one, typed)
    except FormError:
        return
    one.checked_by.load(to_json({"it": value}))
