"""Several schemas that all hold, as one (T10)."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.dialects.flatten import Ledger, merge, merge_all_of


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ({"type": "number"}, {"type": "integer"}, {"type": "integer"}),
        ({"type": ["string", "null"]}, {"type": ["null", "string", "array"]}, {"type": ["string", "null"]}),
        ({"minimum": 1, "maximum": 9}, {"minimum": 3, "maximum": 5}, {"minimum": 3, "maximum": 5}),
        ({"enum": [1, 2, 3]}, {"enum": [3, 2]}, {"enum": [2, 3]}),
        ({"not": {"const": 1}}, {"not": {"const": 2}}, {"not": {"anyOf": [{"const": 1}, {"const": 2}]}}),
        ({"uniqueItems": False}, {"uniqueItems": True}, {"uniqueItems": True}),
        (
            {"items": {"type": "string"}},
            {"items": {"minLength": 1}},
            {"items": {"type": "string", "minLength": 1}},
        ),
        ({"description": "One."}, {"description": "Two."}, {"description": "One. Two."}),
    ],
)
def test_what_fits_together_is_merged_without_loss(first: Any, second: Any, both: Any) -> None:
    ledger = Ledger("probe")
    assert merge([first, second], "#/x", ledger) == both
    assert ledger.losses == []


def test_what_does_not_is_kept_once_and_said() -> None:
    ledger = Ledger("probe")
    found = merge_all_of({"allOf": [{"pattern": "^a"}, {"pattern": "b$"}]}, "#/x", ledger)
    assert found == {"pattern": "^a", "description": "Must match the regular expression `b$`."}
    assert [loss.keyword for loss in ledger.losses] == ["pattern"]


def test_closing_counts_the_fields_of_all() -> None:
    ledger = Ledger("probe")
    closed = {"properties": {"a": {}}, "additionalProperties": False}
    found = merge([closed, {"properties": {"b": {}}}], "#/x", ledger)
    assert found == {"properties": {"a": {}, "b": {}}, "additionalProperties": False}
    assert [loss.keyword for loss in ledger.losses] == ["additionalProperties"]
