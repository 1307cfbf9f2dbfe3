"""The quick way to a provider's schema gives what the long way gives, and is taken only where nothing is lost (T10)."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.dialects.anthropic import Anthropic
from ferrule.dialects.flatten import ROOT, Ledger, flatten_root
from ferrule.dialects.inline import inline
from ferrule.dialects.openai import OPENAI_ABILITIES
from ferrule.dialects.portable import Abilities, plain_tree, reduce
from tests.dialects.strategies import Maker

WHOLE = [Abilities(), OPENAI_ABILITIES, Anthropic.abilities]


def the_long_way(schema: Any, abilities: Abilities) -> tuple[dict[str, Any], Ledger]:
    ledger = Ledger("one")
    return reduce(flatten_root(inline(schema, ledger), ROOT, ledger), ROOT, abilities, ledger), ledger


def agrees(schema: Any) -> bool:
    before = deepcopy(schema)
    taken = False
    for abilities in WHOLE:
        assert abilities.take_all
        quick = plain_tree(schema, abilities.property_name)
        if quick is not None:
            taken = True
            slow, ledger = the_long_way(schema, abilities)
            assert json.dumps(quick) == json.dumps(slow)
            assert not ledger.losses
            assert not ledger.notes
    assert schema == before
    return taken


@given(st.integers(0, 2**32))
def test_both_ways_lead_to_the_same(seed: int) -> None:
    agrees(Maker(seed).schema())


names = st.sampled_from(["name", "kind", "näme", "with space", "-A", "x" * 70])
leaves = st.sampled_from([
    {"type": "string"}, {"type": "integer", "minimum": 1}, {"enum": ["a", "b"], "type": "string"}, {}, {"const": 1},
    {"$ref": "#/$defs/Leaf"}, {"$ref": "#/$defs/Leaf", "description": "Words.", "default": None},
    {"$ref": "#/$defs/Node"}, {"$ref": "#/$defs/Nowhere"}, {"$ref": "#/$defs/Leaf", "minLength": 1}, {"type": "array"},
    {"type": ["string", "null"]}, {"not": {}}, {"type": "made-up"}, True, {"$ref": "https://example.com"},
    {"type": "object", "required": []}, {"type": "object", "required": ["unlisted"]}, {"enum": []},
    {"type": "array", "prefixItems": [{}], "items": {}}, {"oneOf": [{}]}, {"x-own": 1},
    {"format": "date", "title": "T"},
])  # fmt: skip
nodes = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(lambda one: {"type": "array", "items": one}),
        inner.map(lambda one: {"type": "object", "additionalProperties": one}),
        st.lists(inner, min_size=1, max_size=2).map(lambda some: {"anyOf": [*some, {"type": "null"}]}),
        st.dictionaries(names, inner, max_size=3).map(lambda held: {"type": "object", "properties": held}),
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(names, nodes, max_size=4),
    nodes,
    st.sampled_from([{}, {"title": "T"}, {"enum": [{}]}, {"const": {}}, {"anyOf": [{}]}, {"required": ["name"]}]),
)
def test_both_ways_lead_to_the_same_for_what_programs_write(fields: Any, leaf: Any, more: Any) -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "leaf": {"$ref": "#/$defs/Leaf"}}}
    agrees({"type": "object", "properties": fields, **more, "$defs": {"Leaf": leaf, "Node": node}})


def test_what_a_typed_tool_shows_goes_the_quick_way() -> None:
    """Were it to go the long way after all, showing a thousand tools would take twice as long."""
    line = {"type": "object", "properties": {"tags": {"items": {"type": "string"}, "type": "array", "default": []}}}
    assert agrees(
        {
            "$defs": {"Line": line},
            "additionalProperties": False,
            "properties": {
                "lines": {"items": {"$ref": "#/$defs/Line"}, "type": "array"},
                "one": {"anyOf": [{"$ref": "#/$defs/Line"}, {"type": "null"}], "default": None},
                "kind": {"enum": ["a", "b"], "type": "string"},
                "extra": {"additionalProperties": True, "type": "object"},
            },
            "required": ["lines"],
            "type": "object",
        }
    )


@pytest.mark.parametrize(
    "schema",
    [
        True, "text", {"type": "array"}, {"type": "object", "$defs": []}, {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": {"$ref": "#"}}}, {"$ref": "#/$defs/A", "type": "object"},
    ],
)  # fmt: skip
def test_what_is_no_plain_object_goes_the_long_way(schema: Any) -> None:
    assert plain_tree(schema) is None


def test_a_schema_that_grows_without_bounds_goes_the_long_way() -> None:
    doubling: Any = {f"D{n}": {"properties": {"a": {"$ref": f"#/$defs/D{n + 1}"}, "b": {"$ref": f"#/$defs/D{n + 1}"}}}
                for n in range(20)}  # fmt: skip
    doubling["D20"] = {"type": "string"}
    assert plain_tree({"type": "object", "properties": {"a": {"$ref": "#/$defs/D0"}}, "$defs": doubling}) is None
