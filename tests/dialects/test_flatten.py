"""Alternatives at the root become one object (T10)."""

from __future__ import annotations

from typing import Any

from inline_snapshot import snapshot

from ferrule.dialects.flatten import ROOT, Ledger, flatten_root
from tests.dialects.raw import objects


def flattened(schema: dict[str, Any]) -> tuple[dict[str, Any], list[str], list[str]]:
    ledger = Ledger("probe")
    return flatten_root(schema, ROOT, ledger), ledger.notes, [str(loss) for loss in ledger.losses]


def test_closed_alternatives_share_their_properties_and_require_what_all_do() -> None:
    by_id = {**objects(id={"type": "integer"}, kind={"const": "id"}), "required": ["kind", "id"]}
    by_name = {**objects(name={"type": "string"}, kind={"const": "name"}), "required": ["kind", "name"]}
    closed = [{**form, "additionalProperties": False} for form in (by_id, by_name)]
    assert flattened({"oneOf": closed}) == snapshot(
        (
            {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "kind": {"anyOf": [{"const": "id"}, {"const": "name"}]},
                    "name": {"type": "string"},
                },
                "required": ["kind"],
                "additionalProperties": False,
            },
            [('The fields must fit exactly one of these forms: `kind` = "id" and `id`; `kind` = "name" and `name`.')],
            ["probe: oneOf at #: made one object with the properties of all alternatives"],
        )
    )


def test_an_open_alternative_accepts_anything_under_names_it_does_not_know() -> None:
    found, _, losses = flattened({"anyOf": [objects(a={"type": "integer"}), objects(b={"type": "string"})]})
    assert found["properties"]["a"] == {"description": 'Usually {"type": "integer"}.'}
    assert any("#/properties/a" in loss for loss in losses)


def test_alternatives_that_only_require_leave_the_properties_alone() -> None:
    fields = objects(a={"type": "integer"}, b={"type": "string"})
    found, notes, _ = flattened({**fields, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})
    assert found == {**fields, "required": []}
    assert notes == ["The fields must fit at least one of these forms: `a`; `b`."]


def test_all_of_is_merged_without_loss_where_all_are_open() -> None:
    parts = [
        {**objects(a={"type": "number"}), "required": ["a"]},
        {**objects(a={"minimum": 1}), "required": ["b"]},
    ]
    found, notes, losses = flattened({"allOf": parts})
    assert found["properties"] == {"a": {"type": "number", "minimum": 1}}
    assert found["required"] == ["a", "b"]
    assert (notes, losses) == ([], [])


def test_what_no_root_may_hold_goes_into_words() -> None:
    found, notes, losses = flattened({"type": "object", "not": {"required": ["a"]}})
    assert found == {"type": "object", "properties": {}}
    assert notes == ['Must not fit {"required": ["a"]}.']
    assert len(losses) == 1


def test_alternatives_that_cannot_be_arguments_are_passed_over() -> None:
    assert flattened({"anyOf": [{"type": "null"}, objects(a={})]}) == (objects(a={}), [], [])
