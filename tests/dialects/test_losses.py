"""The account of what an export could not say (T10)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.schemas import step
from ferrule.dialects.flatten import ROOT, Exported, Ledger, Loss


def test_a_loss_reads_as_one_line() -> None:
    ledger = Ledger("get_weather")
    ledger.lose("#/properties/city", "pattern", "moved into the description")
    assert [str(loss) for loss in ledger.losses] == [
        "get_weather: pattern at #/properties/city: moved into the description"
    ]


def test_losses_can_be_compared_and_gathered() -> None:
    losses = [Loss(tool, ROOT, "strict", "why") for tool in ("a", "a", "b")]
    assert set(losses) == {losses[0], losses[2]}
    assert Exported({}).losses == ()


def test_an_attempt_that_is_given_up_leaves_no_trace() -> None:
    ledger = Ledger("probe")
    ledger.lose(ROOT, "a", "kept")
    ledger.say(ROOT, {}, "Kept.")
    trial = ledger.fork()
    trial.lose(ROOT, "b", "tried")
    trial.say(ROOT, {}, "Tried.")
    assert (len(ledger.losses), ledger.notes) == (1, ["Kept."])
    assert ([loss.keyword for loss in trial.losses], trial.notes) == (["a", "b"], ["Kept.", "Tried."])
    assert trial.tool == "probe"


@pytest.mark.parametrize(
    ("described", "after"),
    [
        ({}, "At least 1."),
        ({"description": ""}, "At least 1."),
        ({"description": None}, "At least 1."),
        ({"description": 9}, "At least 1."),
        ({"description": "How many."}, "How many. At least 1."),
        ({"description": "At least 1."}, "At least 1."),
    ],
)
def test_words_go_where_a_model_will_read_them(described: dict[str, Any], after: str) -> None:
    ledger = Ledger("probe")
    ledger.say("#/properties/n", described, "At least 1.")
    assert described["description"] == after
    assert ledger.notes == []


def test_words_for_the_root_are_for_the_tools_own_description() -> None:
    """A description at the root of a schema is read by no provider."""
    ledger, node = Ledger("probe"), dict[str, Any]()
    for words in ("At least 1 field.", "At most 3 fields.", "At least 1 field."):
        ledger.say(ROOT, node, words)
    assert node == {}
    assert ledger.notes == ["At least 1 field.", "At most 3 fields."]


@given(st.lists(st.text() | st.integers(0, 99), max_size=5))
def test_a_path_is_a_json_pointer_that_can_be_read_back(parts: list[str | int]) -> None:
    path = step(ROOT, *parts)
    read = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    assert read == [str(part) for part in parts]


def test_steps_add_up() -> None:
    whole = step(ROOT, "properties", "a/b~c", 0)
    assert whole == step(step(ROOT, "properties"), "a/b~c", 0) == "#/properties/a~1b~0c/0"
