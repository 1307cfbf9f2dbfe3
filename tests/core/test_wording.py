"""The form a tool expects, in one line that a model can copy from (P2)."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel

from ferrule import tool
from ferrule.core.wording import expected_form


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    name: str


@tool
def every(
    text: str,
    colour: Colour,
    items: list[Item],
    only: Literal["x"],
    either: int | str,
    anything: Any,
    table: dict[str, int],
    maybe: float | None = None,
    words: list[str] = [],  # noqa: B006
    limit: int = 3,
) -> None: ...


def test_the_form_of_every_sort_of_field() -> None:
    assert every.expected_form == snapshot(
        '{"text": string, "colour": "red" | "blue", "items": [{"name": string}, …], "only": "x", "either": integer | string, "anything": any, "table": {string: integer}, "maybe": number | null (optional, default null), "words": [string, …] (optional, default an empty array), "limit": integer (optional, default 3)}'  # noqa: E501
    )


def test_no_arguments_and_no_schema_have_words_too() -> None:
    assert expected_form({"properties": {}}) == "no arguments: {}"
    assert expected_form({}) == "arguments that fit its schema"


def test_many_fields_are_cut_short() -> None:
    form = expected_form({"properties": {f"f{n}": {"type": "string"} for n in range(100)}})
    assert form.endswith('"f29": string (optional), …}')


@pytest.mark.parametrize(
    ("prop", "form"),
    [
        ({"type": ["string", "null"]}, "string | null"),
        ({"properties": {}}, "object"),
        ({}, "any"),
        (True, "any"),
        ({"const": 5}, "5"),
        ({"type": "array"}, "[any, …]"),
        ({"$ref": "#/$defs/Gone"}, "any"),
    ],
)
def test_the_form_of_unusual_fields(prop: Any, form: str) -> None:
    assert expected_form({"properties": {"x": prop}, "required": ["x"]}) == '{"x": ' + form + "}"
