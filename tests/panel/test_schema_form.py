"""A form made from a schema gives back the arguments that were written into it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.panel.tools import arguments_of, form_of
from ferrule.tools import builtin_tools

WORDS = {name: f"not {name}" for name in ("number", "whole", "json", "required", "flag")}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "size": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "default": 3},
        "ratio": {"type": ["number", "null"]},
        "sure": {"type": "boolean"},
        "colour": {"$ref": "#/$defs/Colour"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "more": {"type": "object"},
    },
    "required": ["name", "sure"],
    "$defs": {"Colour": {"enum": ["red", "green", 7]}},
}


def test_each_kind_of_argument_has_its_kind_of_field() -> None:
    kinds = {one.field.name: one.field.kind for one in form_of(SCHEMA)}
    assert kinds == {
        "name": "text", "size": "integer", "ratio": "number", "sure": "boolean", "colour": "one", "tags": "lines",
        "more": "json",
    }  # fmt: skip
    assert form_of(SCHEMA)[1].text == "3"


def test_what_does_not_fit_is_said_beside_its_field() -> None:
    given_text = {"argument.size": "1.5", "argument.ratio": "nan", "argument.more": "{", "argument.sure": ""}
    arguments, fields = arguments_of(SCHEMA, given_text, WORDS)
    assert {one.field.name: one.problem for one in fields if one.problem} == {
        "size": "not whole", "ratio": "not number", "sure": "not required", "more": "not json",
    }  # fmt: skip
    assert arguments == {"name": ""}


@given(
    st.fixed_dictionaries(
        {"name": st.text().map(lambda text: text.replace("\r\n", "\n")), "sure": st.booleans()},
        optional={
            "size": st.integers(), "ratio": st.floats(allow_nan=False, allow_infinity=False),
            "colour": st.sampled_from(["red", "green", 7]),
            "tags": st.lists(st.text(st.characters(exclude_characters="\r\n"), min_size=1), min_size=1).filter(
                lambda tags: bool("".join(tags).strip())
            ),
            "more": st.dictionaries(st.text(), st.integers()),
        },
    )
)  # fmt: skip
def test_what_is_written_into_the_form_is_what_the_tool_gets(arguments: dict[str, Any]) -> None:
    def written(name: str, value: Any) -> str:
        if name == "tags":
            return "\n".join(value)
        return value if isinstance(value, str) else json.dumps(value)

    form = {f"argument.{name}": written(name, value) for name, value in arguments.items()}
    assert arguments_of(SCHEMA, form, WORDS)[0] == arguments


@pytest.mark.parametrize(
    ("schema", "text", "kind", "value"),
    [
        ({"type": "array", "items": True}, '["a"]', "json", ["a"]),
        ({"type": "array", "items": [{"type": "string"}]}, '["a"]', "json", ["a"]),
        ({"type": "array", "items": {"type": "string"}, "default": [1]}, "[1]", "json", [1]),
        ({"type": "array", "items": {"type": "string"}, "default": ["a\nb"]}, '["a\\nb"]', "json", ["a\nb"]),
        ({"type": "string", "maxLength": None}, "x", "text", "x"),
        ({"type": "number"}, "9007199254740993", "number", 9007199254740993),
        ({"type": "number"}, "1_0", "number", None),
        ({"type": "integer"}, "1_0", "integer", None),
        ({"type": "object"}, '{"a": NaN}', "json", None),
        ({"type": "object"}, "[" * 100_000, "json", None),
        ({"enum": ["1", 1]}, "1", "one", 1),
        ({"enum": ["1", 1]}, '"1"', "one", "1"),
        ({"enum": ["", " ", "a"]}, '""', "one", ""),
        ({"enum": [True, "true"]}, "true", "one", True),
        ({"const": "a"}, "a", "one", "a"),
        ({"oneOf": [{"const": 1, "title": "One"}, {"const": 2, "title": "Two"}]}, "Two", "one", 2),
        ({"type": "array", "items": {"enum": [1, 2]}}, "2\n1", "many", [2, 1]),
    ],
)
def test_a_schema_of_any_form_sends_what_was_written(schema: dict[str, Any], text: str, kind: str, value: Any) -> None:
    whole = {"$ref": "#/$defs/Whole", "$defs": {"Whole": {"properties": {"one": schema}, "required": ["one"]}}}
    assert [one.field.kind for one in form_of(whole)] == [kind]
    arguments, (field,) = arguments_of(whole, {"argument.one": text}, WORDS)
    assert bool(field.problem) == (value is None)
    assert repr(arguments) == repr({} if value is None else {"one": value})


def test_a_default_among_choices_is_chosen() -> None:
    for choices, default, shown in (([1, 2], 2.0, "2"), (["1", 1], "1", '"1"'), ([True, 1], 1, "1"), (["a"], "b", "")):
        (one,) = form_of({"properties": {"one": {"enum": choices, "default": default}}})
        assert one.text == shown


def test_every_built_in_tool_has_a_form() -> None:
    for tool in builtin_tools(family="all"):
        schema = tool.input_schema
        assert isinstance(schema, dict)
        assert [one.field.name for one in form_of(schema)] == list(schema.get("properties", {}))
