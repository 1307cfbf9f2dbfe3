"""A schema read as a graph: what is applied to the same value, and what to the values inside it (P6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema_rs import Draft7, Draft202012, Registry

from ferrule.core import schema_compile as schema_graph
from ferrule.core.errors import DefinitionError
from ferrule.core.schema_compile import (
    BACKTRACKING_COST,
    LENGTH_COST,
    UNEVALUATED_FACTOR,
    SchemaGraph,
    SchemaNode,
    cost_per_character,
)

BASE = "json-schema:///"


def graph(schema: Any, draft: int = Draft202012, **others: Any) -> SchemaGraph:
    documents = {**{f"urn:{name}": document for name, document in others.items()}, BASE: schema}
    return SchemaGraph(schema, documents, Registry(list(documents.items()), draft), BASE)


def root(schema: Any, draft: int = Draft202012, **others: Any) -> SchemaNode:
    return graph(schema, draft, **others).nodes[0]


def reached(node: SchemaNode) -> set[int]:
    found: dict[int, SchemaNode] = {}
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if id(one) not in found:
            found[id(one)] = one
            waiting += [*one.in_place, *(inner for inner, _ in one.inner())]
    return set(found)


@pytest.mark.parametrize(
    ("schema", "parts"),
    [
        ({"allOf": [{}, True]}, 2),
        ({"anyOf": [{}, {}, {}]}, 3),
        ({"oneOf": [{}]}, 1),
        ({"not": {}}, 1),
        ({"if": {}, "then": {}, "else": False}, 3),
        ({"dependentSchemas": {"a": {}, "b": {}}}, 2),
        ({"dependencies": {"a": {}, "b": ["c"]}}, 1),
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, 1),
        ({"$defs": {"a": {}}, "definitions": {"b": {}}}, 0),
        ({"enum": [{"allOf": [{}]}], "const": {"not": {}}, "default": {"if": {}}}, 0),
        (True, 0),
        (False, 0),
    ],
)
def test_what_is_applied_to_the_same_value(schema: Any, parts: int) -> None:
    node = root(schema)
    assert len(node.in_place) == parts
    assert not node.looks_inside


@pytest.mark.parametrize(
    ("schema", "parts"),
    [
        ({"properties": {"a": {}, "b": True}}, 2),
        ({"patternProperties": {"^a": {}}}, 1),
        ({"additionalProperties": {}}, 1),
        ({"additionalProperties": False}, 1),
        ({"propertyNames": {"maxLength": 3}}, 1),
        ({"unevaluatedProperties": False}, 1),
        ({"items": {}}, 1),
        ({"prefixItems": [{}, {}], "items": {}}, 3),
        ({"contains": {}}, 1),
        ({"unevaluatedItems": {}}, 1),
    ],
)
def test_what_is_applied_to_the_values_inside(schema: Any, parts: int) -> None:
    node = root(schema)
    assert node.in_place == []
    assert node.looks_inside
    assert len(list(node.inner())) == parts


def test_tuples_are_read_as_each_draft_writes_them() -> None:
    new = root({"prefixItems": [{"type": "string"}], "items": {}})
    old = root({"items": [{"type": "string"}], "additionalItems": {}}, Draft7)
    for node in (new, old):
        assert len(node.prefix) == 1
        assert node.items is not None


def test_many_references_to_one_place_are_one_node() -> None:
    """P6: or a schema of references would be as large as what they spell out."""
    schema = {"properties": {name: {"$ref": "#/$defs/a"} for name in "abcdef"}, "$defs": {"a": {"type": "string"}}}
    found = graph(schema)
    targets = {id(part.in_place[0]) for part in found.nodes[0].properties.values()}
    assert len(targets) == 1
    assert len(found.nodes) == 1 + 6 + 1


def test_a_schema_that_holds_itself_ends() -> None:
    node = root({"properties": {"children": {"items": {"$ref": "#"}}}})
    items = node.properties["children"].items
    assert items is not None
    (again,) = items.in_place
    inner = again.properties["children"].items
    assert inner is not None
    assert inner.in_place == [again]


def test_a_reference_starts_from_the_address_it_stands_in() -> None:
    schema = {
        "$id": "https://example.org/root",
        "$ref": "inner#/$defs/a",
        "$defs": {"inner": {"$id": "inner", "$defs": {"a": {"minLength": 1}}}, "a": {"maxItems": 1}},
    }
    documents = {"https://example.org/root": schema}
    found = SchemaGraph(schema, documents, Registry(list(documents.items()), Draft202012), "https://example.org/root")
    (target,) = found.nodes[0].in_place
    assert target.chars == LENGTH_COST


def test_references_go_to_other_documents() -> None:
    node = root({"$ref": "urn:city"}, city={"properties": {"name": {"$ref": "urn:name"}}}, name={"minLength": 1})
    (city,) = node.in_place
    (name,) = city.properties["name"].in_place
    assert name.chars == LENGTH_COST


def test_a_dynamic_reference_may_lead_to_any_anchor_of_its_name() -> None:
    """An upper bound must count each of them."""
    schema = {
        "$dynamicRef": "#node",
        "$defs": {
            "one": {"$dynamicAnchor": "node", "type": "object"},
            "two": {"$id": "urn:two", "$dynamicAnchor": "node", "properties": {"a": {}}},
            "other": {"$dynamicAnchor": "leaf", "items": {}},
        },
    }
    targets = root(schema).in_place
    assert any(target.properties for target in targets)
    assert not any(target.items for target in targets)
    assert len(targets) >= 2


def test_a_reference_that_leads_nowhere_is_said() -> None:
    with pytest.raises(DefinitionError, match=r"the reference '#/\$defs/gone' leads nowhere"):
        graph({"$ref": "#/$defs/gone"})


def test_a_meta_schema_looks_at_the_whole_value() -> None:
    """The validator knows it without a registry, so it is not read here but counted for every part of the value."""
    (target,) = root({"$ref": "http://json-schema.org/draft-07/schema#"}).in_place
    assert target.whole
    assert target.looks_inside


@pytest.mark.parametrize(
    ("schema", "unions"),
    [
        ({"anyOf": [{}]}, True),
        ({"items": {"oneOf": [{}]}}, True),
        ({"allOf": [{}]}, False),
        ({"enum": ["anyOf"]}, False),
    ],
)
def test_whether_there_are_unions_anywhere(schema: Any, unions: bool) -> None:
    assert graph(schema).has_unions is unions


def test_patterns_that_go_back_are_listed_once() -> None:
    schema = {
        "pattern": "(?=b)",
        "items": {"pattern": "^a+$"},
        "patternProperties": {"(?=a)": {"pattern": "(?=b)"}},
    }
    assert graph(schema).backtracking == {"(?=a)", "(?=b)"}


def test_what_each_character_costs() -> None:
    assert root({"type": "string"}).chars == 0
    assert root({"maxLength": 3}).chars == LENGTH_COST
    assert root({"pattern": "abc", "minLength": 1}).chars == cost_per_character("abc") + LENGTH_COST
    names = root({"patternProperties": {"^a": {}, "(?=b)": {}}})
    assert (names.chars, names.key_chars) == (0, cost_per_character("^a") + BACKTRACKING_COST)


def test_looking_for_what_was_not_evaluated_looks_again() -> None:
    assert root({"allOf": [{}]}).again == 1
    assert root({"allOf": [{}], "unevaluatedProperties": False}).again == UNEVALUATED_FACTOR
    ((_, times), (_, once)) = root({"contains": {}, "unevaluatedItems": False}).any_item
    assert (times, once) == (UNEVALUATED_FACTOR, 1)


def test_a_heavier_schema_weighs_more() -> None:
    light = root({"type": "object"}).weight
    assert root({"type": "object", "required": list("abcdefgh")}).weight > light
    assert root({"enum": list(range(1000))}).weight == root({"enum": [1]}).weight, "plain choices are looked up at once"
    assert root({"enum": [{"a": n} for n in range(10)]}).weight >= 10 * light, "others are compared one by one"


def test_a_schema_of_too_many_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_graph, "MAX_NODES", 10)
    assert len(graph({"allOf": [{}] * 9}).nodes) <= 10
    with pytest.raises(DefinitionError, match="the schema has more than 10 parts"):
        graph({"allOf": [{"title": str(n)} for n in range(10)]})


PARTS = st.recursive(
    st.sampled_from([{}, True, {"type": "string"}, {"$ref": "#/$defs/d"}, {"$ref": "#"}]),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)}),
        st.fixed_dictionaries({"items": inner, "contains": inner}),
        st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner, "additionalProperties": inner}),
    ),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(PARTS)
def test_every_node_is_reached_from_the_first_and_none_is_missing(schema: Any) -> None:
    found = graph({"allOf": [schema], "$defs": {"d": {"items": {"$ref": "#"}}}})
    assert reached(found.nodes[0]) == {id(node) for node in found.nodes}
