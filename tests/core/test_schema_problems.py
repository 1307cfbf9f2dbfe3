"""What a model reads when arguments do not fit a raw schema (P2). Every text is pinned."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import json
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.core.function_tool import tool
from ferrule.core.problems import InvalidParamsError
from ferrule.core.schema_params import SchemaParams

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "description": "the customer's number", "pattern": "^C[0-9]+$"},
        "colour": {"enum": ["red", "green", "blue"]},
        "amount": {"type": "integer", "minimum": 1, "maximum": 100, "multipleOf": 2},
        "note": {"type": ["string", "null"], "minLength": 2, "maxLength": 10},
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "uniqueItems": True,
            "items": {"$ref": "#/$defs/Item"},
        },
    },
    "required": ["customer", "items"],
    "additionalProperties": False,
    "$defs": {
        "Item": {
            "type": "object",
            "properties": {"price": {"type": "number", "exclusiveMinimum": 0}, "name": {"type": "string"}},
            "required": ["price"],
            "additionalProperties": False,
        }
    },
}


def said(schema: Any, value: Any) -> list[str]:
    with pytest.raises(InvalidParamsError) as caught:
        SchemaParams("do_it", schema).load(json.dumps(value))
    assert caught.value.value == value
    return [f"{problem.where} | {problem.code} | {problem.message}" for problem in caught.value.problems]


def test_every_problem_is_named_at_once():
    """P2: missing, wrong type, unknown, bad enum, bad array element, each at its place."""
    value = {
        "colour": "grene",
        "amount": "5",
        "itmes": [],
        "items": [{"price": 1}, {"price": "free"}, {"prize": 3}],
    }
    assert sorted(said(ORDER, value)) == snapshot(
        [
            'amount | type | expected integer, got string "5"',
            'colour | enum | must be "red", "green" or "blue"; got string "grene"',
            "customer | missing | required, but missing (expected string: the customer's number)",
            'items[1].price | type | expected number, got string "free"',
            "items[2].price | missing | required, but missing (expected number)",
            "items[2].prize | unknown | unknown field. Did you mean `price`?",
            "itmes | unknown | unknown field. Known fields: `customer`, `colour`, `amount`, `note`, `items`",
        ]
    )


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("amount", 0, snapshot(['amount | range | must be at least 1; got integer 0'])),
        ("amount", 102, snapshot(['amount | range | must be at most 100; got integer 102'])),
        ("amount", 3, snapshot(['amount | range | must be a multiple of 2; got integer 3'])),
        ("note", "x", snapshot(['note | length | must have at least 2 characters, not 1'])),
        ("note", "x" * 11, snapshot(['note | length | must have at most 10 characters, not 11'])),
        ("note", 5, snapshot(["note | type | expected null or string, got integer 5"])),
        ("customer", "7", snapshot(['customer | format | must match "^C[0-9]+$"; got string "7"'])),
        ("items", [], snapshot(['items | length | must have at least 1 item, not 0'])),
        ("items", [{"price": 1}, {"price": 2}, {"price": 1}], snapshot(["items | value | items must all be different; [0] and [2] are equal"])),
        ("items", [{"price": 0}], snapshot(['items[0].price | range | must be more than 0; got integer 0'])),
        ("items", {"price": 1}, snapshot(['items | type | expected array [{"price": number, "name": string (optional)}, …], got an object'])),
    ],
)  # fmt: skip
def test_the_words_of_each_problem(field: str, value: Any, words: list[str]):
    good = {"customer": "C1", "items": [{"price": 1}]}
    assert said(ORDER, {**good, field: value}) == words


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        ({"const": 5}, 6, snapshot(["arguments | enum | must be 5; got integer 6"])),
        ({"not": {"enum": ["a", "b"]}}, "a", snapshot(['arguments | value | must not be "a" or "b"'])),
        ({"not": {"required": ["a", "b"]}}, {"a": 1, "b": 2}, snapshot(["arguments | value | must not have `a` together with `b`"])),
        ({"not": {"type": "string"}}, "a", snapshot(['arguments | value | has a form that is ruled out here; got string "a"'])),
        ({"properties": {"a": False}}, {"a": 1}, snapshot(["a | unknown | not allowed here"])),
        ({"additionalProperties": False}, {"a": 1}, snapshot(["a | unknown | unknown field. It takes none"])),
        ({"minProperties": 2}, {"a": 1}, snapshot(['arguments | length | must have at least 2 fields, not 1'])),
        ({"contains": {"type": "string"}}, [1], snapshot(["arguments | value | too few or too many of its items are of the kind it must contain"])),
        ({"propertyNames": {"pattern": "^[a-z]+$"}}, {"A": 1}, snapshot(['arguments | value | the key "A" must match "^[a-z]+$"'])),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, snapshot(["b | missing | required, but missing"])),
        ({"prefixItems": [{}], "items": False}, [1, 2], snapshot(["[1] | length | one item too many; none is allowed here"])),
        ({"prefixItems": [{}], "unevaluatedItems": False}, [1, 2], snapshot(["arguments | length | items not allowed: 2"])),
        ({"properties": {"first": {}}, "unevaluatedProperties": False}, {"frist": 1}, snapshot(["frist | unknown | unknown field. Did you mean `first`?"])),
        ({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 2, snapshot(["arguments | union | fits more than one of the forms allowed here; exactly one must fit"])),
        ({"properties": {"0": {"type": "string"}}}, {"0": 1}, snapshot(["0 | type | expected string, got integer 1"])),
        (False, 1, snapshot(["arguments | unknown | no arguments are allowed"])),
    ],
)  # fmt: skip
def test_the_words_of_rarer_problems(schema: Any, value: Any, words: list[str]):
    assert said(schema, value) == words


SHAPE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "shape": {
            "oneOf": [
                {
                    "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
                    "required": ["kind", "radius"],
                },
                {
                    "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
                    "required": ["kind", "side"],
                },
            ]
        },
        "size": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        "id": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "when": {"anyOf": [{"required": ["date"]}, {"required": ["day", "month"]}]},
        "level": {"anyOf": [{"const": "low"}, {"const": "high"}]},
    },
}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("shape", {"kind": "circle", "side": 1}, snapshot(["shape.radius | missing | required, but missing (expected number)"])),
        ("shape", {"kind": "square", "side": "x"}, snapshot(['shape.side | type | expected number, got string "x"'])),
        ("size", 0, snapshot(['size | range | must be at least 1; got integer 0'])),
        ("size", "big", snapshot(['size | type | expected integer, got string "big"'])),
        ("id", None, snapshot(["id | type | expected integer or string, got null"])),
        ("when", {"day": 1}, snapshot(['when | union | fits none of the forms allowed here: `when.date` required, but missing or `when.month` required, but missing'])),
        ("level", "mid", snapshot(['level | enum | must be "low" or "high"; got string "mid"'])),
    ],
)  # fmt: skip
def test_a_union_speaks_of_the_form_that_was_meant(field: str, value: Any, words: list[str]):
    """P2: not a dump of every branch."""
    assert said(SHAPE, {field: value}) == words


def test_types_of_a_union_are_there_for_the_repair_step():
    with pytest.raises(InvalidParamsError) as caught:
        SchemaParams("do_it", SHAPE).load('{"id": null}')
    assert caught.value.problems[0].expected == ("integer", "string")


def test_after_twenty_problems_only_their_number_is_said():
    with pytest.raises(InvalidParamsError) as caught:
        SchemaParams("do_it", {"items": {"type": "string"}}).load(json.dumps(list(range(50))))
    assert (len(caught.value.problems), caught.value.more) == (20, 30)


def test_many_choices_are_shortened_and_the_nearest_is_offered():
    words = said({"enum": [f"country-{number}" for number in range(300)] + ["norway"]}, "norwya")
    assert words == snapshot(
        [
            'arguments | enum | must be one of "country-0", "country-1", "country-2", "country-3", "country-4", "country-5", "country-6", "country-7", "country-8", "country-9", "country-10", "country-11" and 289 more; got string "norwya". Did you mean "norway"?'
        ]
    )


def test_a_raw_tool_and_a_typed_one_speak_alike():
    """P2: a model need not learn two ways of being told the same thing."""

    @tool
    def order(amount: int, name: str) -> str:
        """Order something."""
        return name

    for bad in (
        '{"amount": "5", "name": "x"}',
        '{"amount": 5}',
        '{"amount": 5, "name": "x", "nmae": 1}',
        '{"amount": 5, "nmae": "x"}',
        "{",
        '{"amount": }',
    ):
        told: list[list[tuple[Any, ...]]] = []
        for params in (order.params, SchemaParams("order", order.input_schema)):
            with pytest.raises(InvalidParamsError) as caught:
                params.load(bad)
            told.append([(p.path, p.code, p.message, p.expected) for p in caught.value.problems])
        assert told[0] == told[1]


def test_text_that_is_no_text_is_words_and_not_a_crash():
    with pytest.raises(InvalidParamsError, match="half of a surrogate pair"):
        SchemaParams("do_it", ORDER).load('{"note": "\ud800"}')
