"""The grammars that a small model writes under; that llama.cpp reads them is shown with the real model."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.models.guided.grammar import answer_grammar, arguments_grammar, literal
from ferrule.models.guided.slots import Slot

TEXT = {"type": "string"}


def rules(grammar: str) -> dict[str, str]:
    return dict(line.split(" ::= ", 1) for line in grammar.strip().splitlines())


def test_choices_are_the_only_values() -> None:
    grammar = arguments_grammar([Slot("path", TEXT, ("a.py", 'b"c')), Slot("limit", {"type": "integer"}, (5,))], "")
    found = rules(grammar)
    assert found["root"] == snapshot('"{" "\\"path\\": " slot0 ", " "\\"limit\\": " slot1 "}"')
    assert found["slot0"] == snapshot('"\\"a.py\\"" | "\\"b\\\\\\"c\\""')
    assert found["slot1"] == '"5"'


def test_a_copied_value_is_a_run_of_the_request() -> None:
    found = rules(arguments_grammar([Slot("pattern", TEXT, copied=True)], "find foo bar"))
    assert found["slot0"] == snapshot('"\\"" ( slot0p0 | slot0p2 | slot0p4 ) "\\""')
    assert found["slot0p2"] == snapshot('"foo" slot0p3?')


def test_a_free_value_follows_its_schema() -> None:
    edit = {"type": "object", "properties": {"old": TEXT, "all": {"type": "boolean"}}, "required": ["old"]}
    slots = [
        Slot("edits", {"type": "array", "items": edit}),
        Slot("mode", {"enum": ["x", "y"]}),
        Slot("size", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        Slot("other", {}),
    ]
    found = rules(arguments_grammar(slots, ""))
    assert {name: rule for name, rule in found.items() if name.startswith("slot")} == snapshot(
        {
            "slot0i": '"{" "\\"old\\": " text "}"',
            "slot0": '"[" ( slot0i ( ", " slot0i ){0,20} )? "]"',
            "slot1": '"\\"x\\"" | "\\"y\\""',
            "slot2": 'integer | "null"',
            "slot3": "anything",
        }
    )


def test_a_tool_without_arguments_has_an_empty_object() -> None:
    assert rules(arguments_grammar([], "anything"))["root"] == snapshot('"{"  "}"')


def test_an_answer_may_hold_only_numbers_that_were_given() -> None:
    found = rules(answer_grammar(["14 files in v2.py, 3.11"]))
    assert found == snapshot(
        {"root": "( [^0-9\\x00-\\x08\\x0B-\\x1F] | given )+", "given": '"v2.py" | "14" | "3.11" | "14" | "2"'}
    )
    assert "given" not in rules(answer_grammar(["no number"]))


@given(st.text())
def test_a_literal_has_no_quote_or_line_break_of_its_own(text: str) -> None:
    written = literal(text)
    assert "\n" not in written
    assert json.loads(written.replace("\\x", "\\u00")) == text
