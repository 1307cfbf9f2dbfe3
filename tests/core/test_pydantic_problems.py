"""Pydantic's errors as problems a model can act on (P2): true paths, JSON words, one problem a place."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel, Field, field_validator, model_validator

from ferrule import InvalidParamsError
from ferrule.core.params import ModelParams


class Cat(BaseModel, extra="forbid"):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel, extra="forbid"):
    kind: Literal["dog"]
    name: str


class Pets(BaseModel, extra="forbid"):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    size: int | float | None = None
    either: int | list[int] | None = None
    items: list[dict[str, int]] = []
    short: Annotated[str, Field(max_length=3, min_length=1)] = "x"
    code: Annotated[str, Field(pattern="^[a-z]+$")] = "x"
    many: Annotated[list[int], Field(max_length=2)] = []
    day: dt.date | None = None
    even: Annotated[int, Field(multiple_of=2)] = 2
    loose: Cat | Dog | None = None

    @field_validator("short")
    @classmethod
    def no_bob(cls, value: str) -> str:
        if value == "bob":
            raise ValueError("bob is taken")
        return value

    @model_validator(mode="after")
    def not_both(self) -> Pets:
        if self.many and self.items:
            raise ValueError("give `many` or `items`")
        return self


PETS = ModelParams(Pets)


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidParamsError) as invalid:
        PETS.load(text)
    return [f"{problem.code} {problem.where}: {problem.message}" for problem in invalid.value.problems]


def test_the_words_for_each_sort_of_mistake() -> None:
    assert {
        text: problems(text)
        for text in (
            '{"size": "big"}',
            '{"either": "x"}',
            '{"items": [{"a": 1}, {"a": "x"}]}',
            '{"short": ""}',
            '{"short": "toolong"}',
            '{"short": "bob"}',
            '{"code": "A1"}',
            '{"many": [1, 2, 3]}',
            '{"day": "tomorrow"}',
            '{"even": 3}',
            '{"many": [1], "items": [{}]}',
            '{"pet": {"kind": "fish"}}',
            '{"pet": {"kind": "cat", "lives": "nine"}}',
            '{"pet": {"lives": 9}}',
            '{"itms": []}',
            '{"zzzzzz": 1}',
            "[]",
            "{",
        )
    } == snapshot(
        {
            '{"size": "big"}': ['type size: expected integer or number, got string "big"'],
            '{"either": "x"}': ['type either: expected integer or array [integer, …], got string "x"'],
            '{"items": [{"a": 1}, {"a": "x"}]}': ['type items[1].a: expected integer, got string "x"'],
            '{"short": ""}': ["length short: must have at least 1 character, not 0"],
            '{"short": "toolong"}': ["length short: must have at most 3 characters, not 7"],
            '{"short": "bob"}': ["value short: bob is taken"],
            '{"code": "A1"}': ['format code: must match "^[a-z]+$"; got string "A1"'],
            '{"many": [1, 2, 3]}': ["length many: must have at most 2 items, not 3"],
            '{"day": "tomorrow"}': ['format day: must be a date like "2025-01-31"; got string "tomorrow"'],
            '{"even": 3}': ["range even: must be a multiple of 2; got integer 3"],
            '{"many": [1], "items": [{}]}': ["value arguments: give `many` or `items`"],
            '{"pet": {"kind": "fish"}}': ['enum pet.kind: must be "cat" or "dog"; got string "fish"'],
            '{"pet": {"kind": "cat", "lives": "nine"}}': ['type pet.lives: expected integer, got string "nine"'],
            '{"pet": {"lives": 9}}': ['missing pet.kind: required, but missing (expected one of "cat", "dog")'],
            '{"itms": []}': ["unknown itms: unknown field. Did you mean `items`?"],
            '{"zzzzzz": 1}': [
                "unknown zzzzzz: unknown field. Known fields: `pet`, `size`, `either`, `items`, `short`, `code`, `many`, `day`, `even`, `loose`"  # noqa: E501
            ],
            "[]": ["type arguments: expected object, got an empty array"],
            "{": ["json arguments: they are not valid JSON: they end too early: an object is not closed (after `{`)"],
        }
    )


def test_branches_of_a_union_are_one_problem_with_every_type() -> None:
    with pytest.raises(InvalidParamsError) as invalid:
        PETS.load('{"either": "x"}')
    (problem,) = invalid.value.problems
    assert problem.expected == ("integer", "array")
    assert problem.path == ("either",)


def test_branch_names_of_a_union_never_show_in_a_path() -> None:
    with pytest.raises(InvalidParamsError) as invalid:
        PETS.load('{"loose": {"kind": "cow", "lives": 1}}')
    assert {problem.path[0] for problem in invalid.value.problems} == {"loose"}
    assert all("Cat" not in problem.where and "Dog" not in problem.where for problem in invalid.value.problems)


def test_a_hint_about_a_missing_field_is_made_once() -> None:
    class Needy(BaseModel):
        thing: Literal["a", "b"] = Field(description="Which thing")
        other: int | str
        deep: dict[str, Cat] = {}

    params = ModelParams(Needy)
    for _ in range(2):
        with pytest.raises(InvalidParamsError) as invalid:
            params.load('{"deep": {"x": {"kind": "cat"}}}')
        assert [f"{one.where}: {one.message}" for one in invalid.value.problems] == snapshot(
            [
                'thing: required, but missing (expected one of "a", "b": Which thing)',
                "other: required, but missing (expected integer or string)",
                "deep.x.lives: required, but missing (expected integer)",
            ]
        )


def test_whatever_a_before_validator_does_to_the_value_paths_stay_inside_it() -> None:
    class Moved(BaseModel):
        a: int

        @model_validator(mode="before")
        @classmethod
        def move(cls, value: Any) -> Any:
            return {"a": value.get("b")} if isinstance(value, dict) else value

    with pytest.raises(InvalidParamsError) as invalid:
        ModelParams(Moved).load('{"b": "x"}')
    assert invalid.value.problems[0].path == ()


def test_half_a_surrogate_pair_is_words_and_not_a_crash() -> None:
    assert problems('{"code": "\ud800"}') == [
        "json arguments: a string contains half of a surrogate pair, which is not text"
    ]


@pytest.mark.slow
def test_of_very_many_errors_only_the_first_are_looked_at() -> None:
    class Many(BaseModel):
        pets: list[Cat | Dog]

    with pytest.raises(InvalidParamsError) as invalid:
        ModelParams(Many).load('{"pets": [' + ", ".join(['{"kind": "cow"}'] * 5000) + "]}")
    assert len(invalid.value.problems) < 5000
    assert invalid.value.problems[0].message == 'must be "cat" or "dog"; got string "cow"'
    assert invalid.value.problems[-1].message == "and more problems than the 1,000 that were checked"
