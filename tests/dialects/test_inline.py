"""References written out, with a guard (T10)."""

from __future__ import annotations

import json
import time
from typing import Any

from inline_snapshot import snapshot

from ferrule.dialects.flatten import Ledger
from ferrule.dialects.inline import MAX_DEPTH, MAX_NODES, inline


def inlined(schema: Any) -> tuple[dict[str, Any], list[str]]:
    ledger = Ledger("probe")
    return inline(schema, ledger), [str(loss) for loss in ledger.losses]


def test_a_reference_is_written_out_and_its_own_description_wins() -> None:
    schema = {
        "properties": {"at": {"$ref": "#/$defs/P~1oint%20x", "description": "Where."}},
        "$defs": {"P/oint x": {"type": "object", "description": "A point."}},
    }
    assert inlined(schema) == ({"properties": {"at": {"type": "object", "description": "Where."}}}, [])


def test_rules_beside_a_reference_hold_too() -> None:
    schema = {"$ref": "#/$defs/A", "minProperties": 1, "$defs": {"A": {"type": "object"}}}
    assert inlined(schema) == ({"allOf": [{"type": "object"}, {"minProperties": 1}]}, [])


def test_rules_beside_a_reference_never_held_before_2019() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/A",
        "minProperties": 1,
        "definitions": {"A": {"type": "object"}},
    }
    assert inlined(schema) == ({"type": "object"}, [])


def test_recursion_is_cut_and_named() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node", "description": "The next."}}}
    assert inlined({"$ref": "#/$defs/Node", "$defs": {"Node": node}}) == snapshot(
        (
            {
                "type": "object",
                "properties": {
                    "next": {
                        "type": "object",
                        "properties": {"next": {"type": "object", "description": "The next. Again: `Node`."}},
                        "description": "The next.",
                    }
                },
            },
            ["probe: $ref at #/properties/next/properties/next: `Node` contains itself; cut here"],
        )
    )


def test_what_is_not_here_is_never_fetched() -> None:
    schema = {
        "properties": {
            "a": {"$ref": "https://example.org/s.json"},
            "b": {"$ref": "#/nowhere"},
            "c": {"$ref": 5},
        }
    }
    found, losses = inlined(schema)
    assert found == {"properties": {"a": {}, "b": {}, "c": {}}}
    assert [loss.split(":")[1] for loss in losses] == [f" $ref at #/properties/{key}" for key in "abc"]


def test_a_cut_below_not_takes_the_not_with_it() -> None:
    """Wider inside `not` is narrower outside."""
    found, losses = inlined({"properties": {"a": {"not": {"$ref": "#/nowhere"}}}})
    assert found == {"properties": {"a": {"description": 'Must not fit {"$ref": "#/nowhere"}.'}}}
    assert len(losses) == 2


def test_a_cut_below_one_of_makes_it_any_of() -> None:
    found, _ = inlined({"oneOf": [{"$ref": "#/nowhere"}, {"type": "object"}]})
    assert found == {"anyOf": [{}, {"type": "object"}]}


def test_values_are_not_mistaken_for_schemas() -> None:
    schema = {"properties": {"$ref": {"const": {"$ref": "#/nowhere"}}, "e": {"enum": [{"$ref": "x"}]}}}
    assert inlined(schema) == (schema, [])


def test_old_spellings_are_brought_up_to_date() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "items": [{"type": "string"}],
        "additionalItems": False,
        "minimum": 3,
        "exclusiveMinimum": True,
        "dependencies": {"a": ["b"]},
    }
    assert inlined(schema)[0] == {
        "prefixItems": [{"type": "string"}],
        "items": False,
        "exclusiveMinimum": 3,
        "dependentRequired": {"a": ["b"]},
    }


def test_anchors_and_embedded_resources_are_followed() -> None:
    schema = {
        "properties": {
            "a": {"$ref": "#here"},
            "b": {"$id": "https://example.org/b", "$ref": "#/$defs/X", "$defs": {"X": {"type": "string"}}},
        },
        "$defs": {"H": {"$anchor": "here", "type": "integer"}, "X": {"type": "null"}},
    }
    assert inlined(schema)[0] == {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}


def test_hostile_schemas_are_quick_and_small() -> None:
    bomb = {f"L{i}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/L{i + 1}"}] * 10} for i in range(30)}
    crowd = {name: {"properties": {other: {"$ref": f"#/$defs/{other}"} for other in "abcdefgh"}} for name in "abcdefgh"}
    deep: Any = {"type": "string"}
    for _ in range(5_000):
        deep = {"type": "object", "properties": {"a": deep}}
    itself: dict[str, Any] = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}
    hostile: list[Any] = [
        {"$ref": "#/$defs/L0", "$defs": {**bomb, "L30": {}}},
        {"$ref": "#/$defs/a", "$defs": crowd},
        deep,
        itself,
        {"properties": {f"p{i}": {"type": "string"} for i in range(20_000)}},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        "not a schema",
        {"properties": [], "anyOf": {}, "items": 5},
    ]
    for schema in hostile:
        started = time.process_time()
        found, losses = inlined(schema)
        assert time.process_time() - started < 1.0
        assert losses or "properties" in schema
        assert len(json.dumps(found)) < 2_000_000
    assert MAX_DEPTH < 100
    assert MAX_NODES <= 10_000
