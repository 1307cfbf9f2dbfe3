"""Which form of a union was meant (P2): its problems are told, and no other form's."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import datetime as dt
from json import dumps
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import AfterValidator, BaseModel, Discriminator, Field, Tag, create_model

from ferrule import InvalidParamsError
from ferrule.core.params import ModelParams
from ferrule.core.schema_params import SchemaParams


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Day(BaseModel):
    day: int
    month: int


class Stamp(BaseModel):
    date: str


class Home(BaseModel):
    pet: Cat | Dog
    others: list[Cat | Dog | None] = []


class Number(BaseModel):
    x: int


class Flag(BaseModel):
    x: bool


def even(value: int) -> int:
    if value % 2:
        raise ValueError("odd numbers are taken")
    return value


def _which(value: Any) -> str | None:
    return value.get("which") if isinstance(value, dict) else None


ByFunction: Any = Annotated[Annotated[Cat, Tag("c")] | Annotated[Dog, Tag("d")], Discriminator(_which)]


def problems(annotation: Any, text: str) -> list[str]:
    params = ModelParams(create_model("Holder", it=(annotation, ...)))
    with pytest.raises(InvalidParamsError) as invalid:
        params.load('{"it": ' + text + "}")
    return [f"{problem.code} {problem.where}: {problem.message}" for problem in invalid.value.problems]


TAGGED = [Cat | Dog, Annotated[Cat | Dog, Field(discriminator="kind")], Cat | Dog | None]


@pytest.mark.parametrize("union", TAGGED)
def test_a_tag_names_the_form_whether_it_is_declared_or_not(union: Any) -> None:
    assert problems(union, '{"kind": "cat", "lives": "many"}') == snapshot(
        ['type it.lives: expected integer, got string "many"']
    )
    assert problems(union, '{"kind": "dog", "lives": 9}') == snapshot(
        [
            "missing it.name: required, but missing (expected string)",
            "unknown it.lives: unknown field. Known fields: `kind`, `name`",
        ]
    )


def test_a_form_that_a_function_chose_is_told_alone() -> None:
    assert problems(ByFunction, '{"which": "c", "kind": "cat"}') == snapshot(
        [
            "missing it.lives: required, but missing (expected integer)",
            "unknown it.which: unknown field. Known fields: `kind`, `lives`",
        ]
    )


@pytest.mark.parametrize("union", TAGGED)
def test_an_unknown_tag_is_answered_with_the_tags(union: Any) -> None:
    assert problems(union, '{"kind": "cow", "lives": 9}') == snapshot(
        ['enum it.kind: must be "cat" or "dog"; got string "cow"']
    )
    assert problems(union, '{"kind": 5}') == snapshot(['enum it.kind: must be "cat" or "dog"; got integer 5'])


@pytest.mark.parametrize("union", TAGGED)
def test_a_missing_tag_is_said_to_be_missing(union: Any) -> None:
    assert problems(union, '{"lives": 9}') == snapshot(
        ['missing it.kind: required, but missing (expected one of "cat", "dog")']
    )


@pytest.mark.parametrize("union", TAGGED)
def test_what_is_no_object_at_all_is_shown_the_forms(union: Any) -> None:
    assert problems(union, "5") == snapshot(
        [
            'type it: expected object {"kind": "cat", "lives": integer} or object {"kind": "dog", "name": string}, got integer 5'
        ]
    )


def test_a_form_wrapped_into_its_own_name_is_not_taken_for_a_field() -> None:
    """Models do this; the branch that pydantic names in its path is then a key of the value too."""
    assert problems(Cat | Dog, '{"Cat": {"kind": "cat", "lives": 9}}') == snapshot(
        ['missing it.kind: required, but missing (expected one of "cat", "dog")']
    )


def test_unions_in_unions_and_lists_are_told_at_their_own_places() -> None:
    assert problems(
        Home | Day, '{"pet": {"kind": "cat"}, "others": [{"kind": "dog"}, {"kind": "cow"}, null, 5]}'
    ) == snapshot(
        [
            "missing it.pet.lives: required, but missing (expected integer)",
            "missing it.others[0].name: required, but missing (expected string)",
            'enum it.others[1].kind: must be "cat" or "dog"; got string "cow"',
            'type it.others[3]: expected object {"kind": "cat", "lives": integer} or object {"kind": "dog", "name": string}, got integer 5',
        ]
    )


@pytest.mark.parametrize(
    ("union", "text", "told"),
    [
        (Stamp | Day, '{"day": 1}', snapshot(["missing it.month: required, but missing (expected integer)"])),
        (Stamp | Day, '{"date": 5}', snapshot(["type it.date: expected string, got integer 5"])),
        (
            Stamp | Day,
            '{"date": "x", "day": 1, "month": 2}',
            snapshot(["unknown it.date: unknown field. Known fields: `day`, `month`"]),
        ),
        (
            Stamp | Day,
            "[]",
            snapshot(
                [
                    'type it: expected object {"date": string} or object {"day": integer, "month": integer}, got an empty array'
                ]
            ),
        ),
        (Number | Flag, '{"x": "q"}', snapshot(['type it.x: expected integer or boolean, got string "q"'])),
        (
            Number | Flag,
            '{"x": "q", "y": 1}',
            snapshot(['union it: fits none of the forms allowed here: {"x": integer} or {"x": boolean}']),
        ),
        (int | Literal["auto"], '"high"', snapshot(['union it: expected integer or "auto", got string "high"'])),
        (
            int | dt.date | Literal["today"] | list[int],
            '"soon"',
            snapshot(
                [
                    'union it: expected integer, a date like "2025-01-31", "today" or array [integer, …], got string "soon"'
                ]
            ),
        ),
        (int | list[int], '["a"]', snapshot(['type it[0]: expected integer, got string "a"'])),
        (Annotated[int, Field(ge=1)] | Literal["auto"], "0", snapshot(["range it: must be at least 1; got integer 0"])),
        (Annotated[int, AfterValidator(even)] | str, "3", snapshot(["value it: odd numbers are taken"])),
        (
            Annotated[int, AfterValidator(even)] | str,
            "[]",
            snapshot(["type it: expected integer or string, got an empty array"]),
        ),
        (dict[str, int] | str, '{"a": "x"}', snapshot(['type it.a: expected integer, got string "x"'])),
        (
            ByFunction,
            '{"which": "z"}',
            snapshot(
                [
                    'union it: fits none of the forms allowed here: {"kind": "cat", "lives": integer} or {"kind": "dog", "name": string}'
                ]
            ),
        ),
        (
            ByFunction,
            "{}",
            snapshot(
                [
                    'union it: fits none of the forms allowed here: {"kind": "cat", "lives": integer} or {"kind": "dog", "name": string}'
                ]
            ),
        ),
    ],
)
def test_unions_without_a_tag_give_one_readable_answer(union: Any, text: str, told: list[str]) -> None:
    assert problems(union, text) == told


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["cat", "dog", "x", "5", "2025-01-31"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "lives", "name", "pet", "others", "Cat", "x", "date", "day"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)
Even: Any = Annotated[int, AfterValidator(even)]
EVERY: Any = Home | Cat | Dog | Number | Even | list[Cat | dt.date] | None
ANY = ModelParams(create_model("Any", it=(EVERY, ...)))


@given(JSON)
def test_a_path_never_leads_outside_the_value_by_more_than_a_missing_field(value: Any) -> None:
    """No branch, tag or validator that pydantic names is ever shown as a field."""
    try:
        ANY.load(dumps({"it": value}))
    except InvalidParamsError as invalid:
        for problem in invalid.problems:
            here: Any = {"it": value}
            for part in problem.path[:-1]:
                here = here[part]
            last = problem.path[-1]
            if problem.code == "missing":
                assert last in ("kind", "lives", "name", "pet", "x", 0), problem
            else:
                assert here[last] is not NotImplemented
            assert not any(word in problem.message for word in ("function-", "Dog", "Home", "Input should")), problem


@given(JSON)
def test_a_raw_schema_of_the_same_union_stays_within_the_value_too(value: Any) -> None:
    schema = create_model("Raw", it=(Home | Cat | Dog | Number | None, ...)).model_json_schema()
    try:
        SchemaParams("do_it", schema).load(dumps({"it": value}))
    except InvalidParamsError as invalid:
        for problem in invalid.problems:
            here: Any = {"it": value}
            for part in problem.path[:-1]:
                here = here[part]
            assert problem.code == "missing" or here[problem.path[-1]] is not NotImplemented
