"""What a provider cannot express goes into words and into the report (T10)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ferrule.dialects.flatten import ROOT, Ledger
from ferrule.dialects.portable import Abilities, reduce
from tests.dialects.raw import objects

PLAIN = Abilities(
    keywords=frozenset({"additionalProperties", "anyOf", "description", "items", "properties", "required", "type"})
)


def reduced(schema: dict[str, Any], abilities: Abilities = PLAIN) -> tuple[dict[str, Any], list[str]]:
    ledger = Ledger("probe")
    found = reduce(objects(x=schema), ROOT, abilities, ledger)
    return found["properties"]["x"], [loss.keyword for loss in ledger.losses]


@pytest.mark.parametrize(
    ("schema", "left", "lost"),
    [
        (
            {"type": "string", "format": "uuid"},
            {"type": "string", "description": "Format: `uuid`."},
            ["format"],
        ),
        (
            {"type": "array", "prefixItems": [{"type": "string"}], "maxItems": 1},
            {
                "type": "array",
                "items": {"type": "string"},
                "description": 'Items in this order: [{"type": "string"}]. At most 1 item.',
            },
            ["prefixItems", "maxItems"],
        ),
        (
            {"type": "array", "prefixItems": [{"type": "string"}]},
            {"type": "array", "description": 'Items in this order: [{"type": "string"}].'},
            ["prefixItems"],
        ),
        (
            {"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False},
            {"type": "object", "description": 'Fields whose names match a pattern: {"^x": {}}.'},
            ["patternProperties", "additionalProperties"],
        ),
        (
            {"type": "object", "required": ["a"]},
            {"type": "object", "description": 'Required: "a".'},
            ["required"],
        ),
        (
            {"if": {"type": "string"}, "then": {"minLength": 1}, "type": "string"},
            {
                "type": "string",
                "description": 'If it fits {"type": "string"}, further rules apply. then: {"minLength": 1}.',
            },
            ["if", "then"],
        ),
        ({"not": {}}, {"description": "Must be left out."}, ["not"]),
        ({"type": "string", "x-order": 3, "title": "X"}, {"type": "string"}, ["x-order", "title"]),
        ({"type": "string", "enum": []}, {"type": "string", "description": "One of: ."}, ["enum"]),
    ],
)
def test_each_keyword_leaves_words(schema: dict[str, Any], left: dict[str, Any], lost: list[str]) -> None:
    assert reduced(schema) == (left, lost)


def test_an_object_with_alternatives_becomes_one_object() -> None:
    schema = {**objects(a={"type": "string"}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    found, lost = reduced(schema)
    assert found["properties"] == {"a": {"type": "string"}}
    assert "anyOf" not in found
    assert lost == ["anyOf"]


def test_hard_patterns_are_beyond_simple_matchers() -> None:
    simple = Abilities(keywords=frozenset({"pattern", "properties", "type"}), simple_patterns=True)
    assert reduced({"pattern": "^[a-z]+$"}, simple) == ({"pattern": "^[a-z]+$"}, [])
    for hard in (r"(?=a)", r"\bword", r"(a)\1", "a{2,3}"):
        assert reduced({"pattern": hard}, simple)[1] == ["pattern"]


def test_a_field_that_cannot_be_named_opens_its_object() -> None:
    names = Abilities(property_name=re.compile("[a-z]+"))
    schema = {**objects(ok={}, Nope={"type": "string"}), "additionalProperties": False}
    found, lost = reduced(schema, names)
    assert found == {
        **objects(ok={}),
        "description": 'Also takes an optional field "Nope": {"type": "string"}.',
    }
    assert lost == ["properties/Nope", "additionalProperties"]


def test_nothing_is_changed_for_a_provider_that_takes_everything() -> None:
    schema = {"oneOf": [{"const": 1}, {"not": {"type": "string"}}], "if": {}, "then": {"minLength": 1}}
    assert reduced(schema, Abilities()) == (schema, [])


def test_the_schema_itself_is_left_alone() -> None:
    schema = objects(a={"type": "string", "format": "uuid", "description": "An id."})
    copy = objects(a={"type": "string", "format": "uuid", "description": "An id."})
    reduced(schema)
    assert schema == copy
