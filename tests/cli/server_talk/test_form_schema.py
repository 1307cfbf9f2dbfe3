"""A server's form is read as far as it is flat; anything else is not asked."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.cli.server_talk.form import MOST_CHOICES, MOST_FIELDS, CannotAsk, fields_of


def test_fields_keep_their_order_and_say_whether_they_are_needed() -> None:
    found = fields_of(
        {"properties": {"b": {"type": "string"}, "a": {"type": "boolean"}}, "required": ["a"], "type": "object"}
    )
    assert [(one.name, one.kind, one.required) for one in found] == [("b", "text", False), ("a", "boolean", True)]


@pytest.mark.parametrize("properties", [None, {}])
def test_no_fields_are_a_form_too(properties: Any) -> None:
    assert fields_of({"type": "object", "properties": properties}) == []


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"a": {"type": "object", "properties": {}}}, "the field `a` of its form is not a text, number, yes-or-no"),
        ({"a": {"type": "array", "items": {"type": "object"}}}, "the field `a` of its form is not a text"),
        ({"a": "text"}, "the field `a` of its form cannot be read"),
        ({"a": {"type": "string", "minLength": "x"}}, "the field `a` of its form cannot be read: "),
        ({"a": {"type": "string", "$ref": "https://example.org/x"}}, "the field `a` of its form cannot be read: "),
        ([1], "its form has no fields that can be read"),
        ({f"f{at}": {"type": "string"} for at in range(MOST_FIELDS + 1)}, "its form has more than 50 fields"),
        ({"a": {"type": "string", "enum": [str(at) for at in range(MOST_CHOICES + 1)]}}, "more than 200 choices"),
    ],
)
def test_what_is_not_flat_cannot_be_asked(properties: Any, why: str) -> None:
    with pytest.raises(CannotAsk) as cannot:
        fields_of({"properties": properties})
    assert why in str(cannot.value)
