"""Whatever a validator refuses is explained, at a place that exists, in the same words for typed and raw tools (P2)."""

from __future__ import annotations

import datetime as dt
from json import dumps
from typing import Annotated, Any, Literal
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import ValidationErrorKind
from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator

from ferrule import InvalidParamsError, Problem
from ferrule.core.explain import Explainer
from ferrule.core.params import ModelParams
from ferrule.core.schema_params import SchemaParams


class Cat(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=0, le=9)] = 9


class Dog(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["dog"]
    name: Annotated[str, Field(min_length=2, pattern="^[a-z]+$")]
    friends: list[Cat] = []


NAMES = ["kind", "lives", "name", "friends", "it", "x"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.sampled_from(["cat", "dog", "x", "5", "A", "", 0.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)
# No 0 and 1 among literals: pydantic takes false and true for them, as Python does.
LEAVES = st.sampled_from([
    int, str, bool, float, None, Literal["a", "b"], Literal[2, 5], Cat, Dog, list, dict[str, int],
    Annotated[int, Field(gt=2, multiple_of=3)], Annotated[str, Field(min_length=2, max_length=3, pattern="^[a-z]*$")],
    Annotated[list[Any], Field(min_length=1, max_length=2)], Annotated[dict[str, Any], Field(min_length=1)],
    Annotated[Cat | Dog, Field(discriminator="kind")],
])  # fmt: skip
ANNOTATIONS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda one: list[one], inner)
        | st.builds(lambda one: dict[str, one], inner)
        | st.builds(lambda one, other: tuple[one, other], inner, inner)
        | st.builds(lambda one, other: one | other if one and other else one, inner, inner)
    ),
    max_leaves=4,
)


def problems(params: Any, value: Any) -> list[Problem] | None:
    try:
        params.load(dumps(value))
    except InvalidParamsError as invalid:
        return invalid.problems
    return None


def assert_explained(found: list[Problem], value: Any) -> None:
    assert found
    for problem in found:
        assert problem.message.strip()
        here = value
        for part in problem.path[:-1]:
            here = here[part]
        if problem.path and problem.code == "missing":
            last = problem.path[-1]
            assert last not in (here if isinstance(here, dict) else range(len(here)))
        elif problem.path:
            assert here[problem.path[-1]] is not NotImplemented


@given(ANNOTATIONS, JSON, st.sampled_from(["it", "x"]))
def test_a_typed_tool_and_its_own_schema_are_explained_alike(annotation: Any, value: Any, name: str) -> None:
    config = ConfigDict(extra="forbid")
    typed = ModelParams(create_model("Holder", __config__=config, it=(annotation, ...), more=(int, 1)))
    arguments = {name: value}
    said = problems(typed, arguments)
    raw = problems(SchemaParams("do_it", typed.schema), arguments)
    if said is not None:
        assert_explained(said, arguments)
    if raw is not None:
        assert_explained(raw, arguments)
    # Pydantic does not look into an array that is too long, so it finds less there.
    if said is not None and raw is not None and not any("item" in one.message for one in said + raw):
        assert sorted(map(repr, said)) == sorted(map(repr, raw))


@given(st.dictionaries(st.sampled_from(NAMES), LEAVES, min_size=1), st.dictionaries(st.sampled_from(NAMES), JSON))
def test_the_commonest_mistakes_are_explained_as_the_walk_does(fields: dict[str, Any], value: Any) -> None:
    members: dict[str, Any] = {one: (fields[one], ...) for one in fields}
    model: Any = create_model("Many", __config__=ConfigDict(extra="forbid"), **members)
    with patch.object(Explainer, "_commonest", lambda *_: []):
        by_walk = problems(ModelParams(model), value)
    assert problems(ModelParams(model), value) == by_walk


SCHEMAS = st.recursive(
    st.sampled_from([
        True, False, {"type": "integer"}, {"type": ["string", "null"]}, {"minimum": 5}, {"enum": ["cat", 5]},
        {"const": 1}, {"required": ["kind"]}, {"pattern": "^a"}, {"uniqueItems": True}, {"$ref": "#/$defs/Self"},
        {"$ref": "#/$defs/Other"}, {"additionalProperties": False}, {"minLength": 2}, {"multipleOf": 0.3},
        {"dependentRequired": {"kind": ["name"]}}, {"propertyNames": {"maxLength": 3}}, {"maxItems": 1},
    ]),
    lambda inner: (
        st.builds(lambda one: {"properties": {"kind": one}, "required": ["kind"]}, inner)
        | st.builds(lambda one: {"additionalProperties": one, "properties": {"name": True}}, inner)
        | st.builds(lambda one: {"patternProperties": {"^n": one}, "unevaluatedProperties": False}, inner)
        | st.builds(lambda one: {"prefixItems": [one], "items": False, "minItems": 1}, inner)
        | st.builds(lambda one: {"items": one, "contains": {"type": "string"}}, inner)
        | st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner)
        | st.builds(lambda one, two: {"oneOf": [one, two]}, inner, inner)
        | st.builds(lambda one, two: {"allOf": [one, two]}, inner, inner)
        | st.builds(lambda one, two: {"if": one, "then": two, "else": {"type": "object"}}, inner, inner)
        | st.builds(lambda one: {"not": one}, inner)
    ),
    max_leaves=6,
)  # fmt: skip


@given(SCHEMAS, JSON)
def test_whatever_a_raw_schema_refuses_is_explained(schema: Any, value: Any) -> None:
    root: dict[str, Any] = schema if isinstance(schema, dict) else {"allOf": [schema]}
    root["$defs"] = {"Self": {"items": {"$ref": "#"}}, "Other": {"$id": "urn:other", "type": "object"}}
    found = problems(SchemaParams("do_it", root), value)
    if found is not None:
        assert_explained(found, value)


def test_a_rule_in_another_document_is_explained_from_what_the_validator_says() -> None:
    resources: dict[str, Any] = {
        "urn:sizes": {"$id": "urn:sizes", "properties": {"width": {"anyOf": [{"minimum": 5}, {"type": "string"}]}}}
    }
    params = SchemaParams("do_it", {"$ref": "urn:sizes"}, resources)
    assert [str(one.message) for one in problems(params, {"width": 3}) or []] == ["must be at least 5; got integer 3"]


def test_the_words_of_a_tools_own_validators_are_kept_next_to_those_of_its_schema() -> None:
    """T7."""

    class Meeting(BaseModel):
        day: dt.date
        room: Annotated[str, Field(max_length=3)]
        host: str | int

        @field_validator("host")
        @classmethod
        def is_known(cls, host: str | int) -> str | int:
            raise ValueError(f"nobody here is called {host}")

    found = problems(ModelParams(Meeting), {"day": "soon", "room": "large", "host": "Ada"})
    assert [f"{one.where}: {one.message}" for one in found or []] == [
        'day: must be a date like "2025-01-31"; got string "soon"',
        "room: must have at most 3 characters, not 5",
        "host: nobody here is called Ada",
    ]


def test_every_finding_of_the_validator_can_be_read() -> None:
    """A new jsonschema-rs that brings a new kind fails here."""
    assert {name for name in dir(ValidationErrorKind) if name[0].isupper()} == {
        "AdditionalItems", "AdditionalProperties", "AnyOf", "BacktrackLimitExceeded", "Constant", "Contains",
        "ContentEncoding", "ContentMediaType", "Custom", "Enum", "ExclusiveMaximum", "ExclusiveMinimum", "FalseSchema",
        "Format", "FromUtf8", "MaxItems", "MaxLength", "MaxProperties", "Maximum", "MinItems", "MinLength",
        "MinProperties", "Minimum", "MultipleOf", "Not", "OneOfMultipleValid", "OneOfNotValid", "Pattern",
        "PropertyNames", "Referencing", "RegexEngineFailure", "Required", "Type", "UnevaluatedItems",
        "UnevaluatedProperties", "UniqueItems",
    }  # fmt: skip
