"""Counting keys instead of parsing twice must never let a doubled key, a deep value or an endless number through."""

import asyncio
import json
import re
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasPath,
    BaseModel,
    Field,
    RootModel,
    create_model,
    field_validator,
    model_validator,
)

from ferrule import Limits, Runtime, tool
from ferrule.core.params import key_counter


class Leaf(BaseModel):
    name: str
    number: int | None = None
    unit: Literal["a", "b"] = "a"


class Branch(BaseModel):
    leaf: Leaf
    leaves: list[Leaf] = Field(default_factory=list[Leaf], max_length=9)
    by_name: dict[str, Leaf] = Field(default_factory=lambda: {"unset": Leaf(name="not from the text")})
    maybe: Leaf | None = None
    words: list[str] = Field(default_factory=list[str])


@tool(kind="readonly")
async def grow(branch: Branch, note: str = "") -> str:
    """Grow."""
    return "grown"


def keys_of(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(keys_of, value.values()))
    return sum(map(keys_of, value)) if isinstance(value, list) else 0


LEAF = st.fixed_dictionaries(
    {"name": st.text(max_size=4)}, optional={"number": st.none() | st.integers(-5, 5), "unit": st.sampled_from("ab")}
)
BRANCH = st.fixed_dictionaries(
    {"leaf": LEAF},
    optional={
        "leaves": st.lists(LEAF, max_size=3),
        "by_name": st.dictionaries(st.text(max_size=3), LEAF, max_size=3),
        "maybe": st.none() | LEAF,
        "words": st.lists(st.text(max_size=3), max_size=3),
    },
)


@given(value=BRANCH)
def test_the_count_is_the_number_of_keys(value: Any):
    counter = key_counter(Branch)
    assert counter is not None
    assert counter(Branch.model_validate(value)) == keys_of(value)


@given(value=BRANCH, data=st.data())
@settings(deadline=None)
def test_a_doubled_key_is_found_wherever_it_is(value: Any, data: st.DataObject):
    text = json.dumps({"branch": value})
    assert asyncio.run(Runtime([grow]).run("grow", text)).success
    if any("{" in name for name in re.findall(r'"((?:[^"\\]|\\.)*)"', text)):
        return  # a brace inside a string begins no object
    objects = [place for place, character in enumerate(text) if character == "{"]
    place = data.draw(st.sampled_from(objects))
    pairs: list[tuple[str, Any]] = json.JSONDecoder(object_pairs_hook=list).raw_decode(text, place)[0]
    if not pairs or any(quote in text for quote in ('"{', '{"{', "\\")):
        return
    key = json.dumps(pairs[0][0])
    original = json.JSONDecoder().raw_decode(text, place)[0]
    doubled = f"{text[: place + 1]}{key}: {json.dumps(original[pairs[0][0]])}, {text[place + 1 :]}"
    result = asyncio.run(Runtime([grow]).run("grow", doubled))
    assert "appears twice" in result.llm_content


class OwnCheck(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def check(cls, name: str) -> str:
        return name


class SetsMore(BaseModel):
    name: str
    other: str = ""

    @model_validator(mode="after")
    def more(self) -> "SetsMore":
        self.other = self.name
        return self


class SetsLater(BaseModel):
    name: str
    other: str = ""

    def model_post_init(self, context: Any) -> None:
        self.other = self.name


class TwoFromOne(BaseModel):
    first: int = Field(validation_alias=AliasPath("pair", 0))
    second: int = Field(validation_alias=AliasPath("pair", 1))


class SameAlias(BaseModel):
    first: int = Field(alias="it")
    second: int = Field(alias="it")


class Itself(BaseModel):
    inside: "Itself | None" = None


def passes(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    "kind",
    [
        Any, object, dict[str, Any], list[Any], dict[int, Leaf], Leaf | Branch, tuple[Leaf, Leaf], OwnCheck, SetsMore,
        SetsLater, TwoFromOne, SameAlias, Itself, RootModel[Leaf], Annotated[Leaf, AfterValidator(passes)],
        list[Annotated[Leaf, AfterValidator(passes)]],
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_not_counted(kind: Any):
    assert key_counter(create_model("Holder", it=(kind, ...))) is None


def test_fields_that_are_passed_over_leave_the_count_short():
    counter = key_counter(Leaf)
    assert counter is not None
    assert counter(Leaf.model_validate({"name": "a", "ignored": {"deep": 1}})) == 1


@pytest.mark.parametrize(
    ("before", "digits", "taken"),
    [(0, 400, True), (0, 401, False), (399, 401, False), (2_000, 401, False), (7, 5_000, False)],
)
def test_an_endless_number_is_found_wherever_it_is(before: int, digits: int, taken: bool):
    @tool(kind="readonly")
    async def weigh(note: str, weight: int) -> str:
        """Weigh."""
        return "weighed"

    text = f'{{"note": "{"x" * before}", "weight": {"9" * digits}}}'
    result = asyncio.run(Runtime([weigh], limits=Limits(number_digits=400)).run("weigh", text))
    assert ("digits, where at most 400 are allowed" not in result.llm_content) is taken


@given(runs=st.lists(st.integers(0, 12), max_size=6), length=st.integers(1, 10))
def test_a_run_of_digits_is_found_exactly(runs: list[int], length: int):
    from ferrule.pipeline.validate import _may_have_run

    text = "x".join("7" * run for run in runs)
    assert _may_have_run(text, length) is any(run >= length for run in runs)
