"""Examples of a call reach every model: in the provider's own field, else at the end of the description (T1)."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import tool
from ferrule.dialects import Exporter
from ferrule.dialects.dialect import KNOWN


@tool(kind="readonly")
def find_notes(words: str, most: int = 5) -> list[str]:
    """Find notes by their words. Use this before writing a new one.

    Important:
        - Only the newest are found.

    Examples:
        - notes about milk: {"words": "milk"}
        - just one: {"words": "eggs", "most": 1}
        - does not fit: {"word": "eggs"}
    """
    return [words] * most


def written(dialect: str) -> tuple[dict[str, Any], list[str]]:
    exporter = Exporter(dialect)
    (definition,) = exporter.definitions([find_notes])
    return definition.get("function", definition), [str(loss) for loss in exporter.losses]


def test_anthropic_has_a_field_for_them() -> None:
    """One that does not fit would have every request refused, so it is left out and reported."""
    definition, losses = written("anthropic")
    assert definition["input_examples"] == [{"words": "milk"}, {"words": "eggs", "most": 1}]
    assert definition["description"].endswith("IMPORTANT:\n- Only the newest are found.")
    (loss,) = losses
    assert loss.startswith("find_notes: examples at #: example 3 does not fit: words: required, but missing")


@pytest.mark.parametrize("dialect", sorted({*KNOWN} - {"anthropic"}))
def test_other_models_read_them_after_the_notes(dialect: str) -> None:
    definition, losses = written(dialect)
    assert definition["description"] == snapshot("""\
Find notes by their words. Use this before writing a new one.

IMPORTANT:
- Only the newest are found.

Examples:
- notes about milk: {"words": "milk"}
- just one: {"words": "eggs", "most": 1}
- does not fit: {"word": "eggs"}\
""")
    assert "input_examples" not in definition
    assert [loss for loss in losses if "example" in loss] == []
