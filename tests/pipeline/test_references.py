"""P8: an argument may be another call's result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import BaseModel, model_validator

from ferrule import RawCall, Runtime, StoppedError, ToolResult, tool
from ferrule.pipeline.batch import check_against_output, find_references, resolve


def put(arguments: Any, values: dict[str, Any]) -> Any:
    return resolve(arguments, find_references(arguments, values), values)


def broken(arguments: Any, values: dict[str, Any]) -> str:
    with pytest.raises(StoppedError) as stopped:
        put(arguments, values)
    return f"{stopped.value.message} {stopped.value.suggestion or ''}".strip()


VALUES: dict[str, Any] = {"call_1": {"items": [{"id": 7}], "name": "n"}, "call_10": 10, "a.b": {"c": "dotted"}}


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("call_1", VALUES["call_1"]),
        ("call_1.items[0].id", 7),
        ("call_1.items", [{"id": 7}]),
        ("call_10", 10),
        ("a.b.c", "dotted"),
    ],
)
def test_a_reference_means_a_result_or_a_part_of_it(reference: str, value: Any) -> None:
    assert put({"x": {"$ref": reference}}, VALUES) == {"x": value}


def test_references_stand_anywhere_in_the_arguments() -> None:
    arguments = {"list": [1, {"$ref": "call_10"}], "deep": {"er": {"$ref": "call_1.name"}}}
    assert put(arguments, VALUES) == {"list": [1, 10], "deep": {"er": "n"}}
    assert arguments["list"] == [1, {"$ref": "call_10"}]  # what came in is not changed


@pytest.mark.parametrize(
    "value",
    [
        {"$ref": "#/$defs/Person"},
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "schemas/person.json"},
        {"$ref": "call_1", "title": "more than a reference"},
        {"$ref": 5},
    ],
)
def test_a_schemas_own_refs_are_left_alone(value: Any) -> None:
    assert put({"schema": value}, VALUES) == {"schema": value}


def test_an_unknown_id_is_answered_with_the_nearest() -> None:
    assert broken({"x": {"$ref": "cal_1.name"}}, VALUES) == snapshot(
        'The reference {"$ref": "cal_1.name"} cannot be used: no earlier call has the id `cal_1`. Did you mean `call_1`?'  # noqa: E501
    )


def test_an_id_that_is_nobodys_is_answered_with_the_rule() -> None:
    assert broken({"x": {"$ref": "zzzzzz"}}, {"call_1": 1}) == snapshot(
        'The reference {"$ref": "zzzzzz"} cannot be used: no earlier call has the id `zzzzzz`. A call can use only the results of calls before it.'  # noqa: E501
    )


def test_a_path_that_leads_nowhere_says_where_it_ends() -> None:
    assert broken({"x": {"$ref": "call_1.items[3]"}}, VALUES) == snapshot(
        'The reference {"$ref": "call_1.items[3]"} cannot be used: the result has no `3` there.'
    )
    assert "no `nope` there" in broken({"x": {"$ref": "call_1.nope"}}, VALUES)
    assert "no `id` there" in broken({"x": {"$ref": "call_10.id"}}, VALUES)


@pytest.mark.parametrize("path", ["call_1.[0]", "call_1[x]", "call_1..a", "call_1[0", "call_1[-1]"])
def test_a_path_that_is_none_says_so(path: str) -> None:
    assert "is not a path like `.field[0]`" in broken({"x": {"$ref": path}}, VALUES)


def test_what_it_takes_does_not_grow_with_the_calls_before() -> None:
    """Or else a batch of ten thousand calls takes the square of that."""

    class NeverWalked(dict[str, None]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError

    known = NeverWalked.fromkeys(["a", "a.b", "a.b[0]"])
    found = find_references([{"$ref": "a.b[0].c"}, {"$ref": "a.bc"}, {"$ref": "a[0]"}, {"$ref": "#/a"}], known)
    assert [(one.source, one.path) for one in found] == [("a.b[0]", ("c",)), ("a", ("bc",)), ("a", (0,))]


class Found(BaseModel):
    path: str
    lines: list[int]


def test_a_field_that_the_typed_result_does_not_have_is_known_before_anything_runs() -> None:
    @tool(kind="readonly")
    def find() -> Found:
        raise NotImplementedError

    def check(text: str) -> str:
        (reference,) = find_references({"x": {"$ref": text}}, ["find"])
        with pytest.raises(StoppedError) as stopped:
            check_against_output(reference, find)
        return f"{stopped.value.message} {stopped.value.suggestion or ''}".strip()

    assert check("find.pth") == snapshot(
        'The reference {"$ref": "find.pth"} cannot be used: the result of `find` has no `pth`. Did you mean `path`?'
    )
    assert check("find.zzzzz") == snapshot(
        'The reference {"$ref": "find.zzzzz"} cannot be used: the result of `find` has no `zzzzz`. It has: `path`, `lines`.'  # noqa: E501
    )
    assert check("find.path.name") == snapshot(
        'The reference {"$ref": "find.path.name"} cannot be used: the result of `find` is a plain string there.'
    )
    (good,) = find_references({"x": {"$ref": "find.lines[0]"}}, ["find"])
    check_against_output(good, find)


class Open(TypedDict):
    known: int


def test_a_result_of_unknown_type_is_not_judged_beforehand() -> None:
    @tool(kind="readonly")
    def anything() -> Any:
        raise NotImplementedError

    (reference,) = find_references({"$ref": "x.y.z"}, ["x"])
    check_against_output(reference, anything)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_arguments_without_references_stay_as_they_are(arguments: Any, value: Any) -> None:
    assert put(arguments, {"call_1": value}) == arguments


@given(json_values)
def test_a_whole_result_arrives_as_it_was(value: Any) -> None:
    assert put({"x": [{"$ref": "call_1"}]}, {"call_1": value}) == {"x": [value]}


# In a batch


@tool(kind="readonly")
def word() -> str:
    """Return a word."""
    return "hello"


@tool(kind="readonly")
def anything():
    """Return a word, of no declared type."""
    return "hello"


@tool(kind="readonly")
def item() -> dict[str, int]:
    """Return a mapping."""
    return {"k": 1}


@tool(kind="readonly")
def take(value: object) -> str:
    """Take anything."""
    return repr(value)


class Keyed(BaseModel):
    data: dict[str, Any]

    @model_validator(mode="after")
    def has_its_key(self) -> Keyed:
        if "k" not in self.data:
            raise ValueError("it has no k")
        return self


@tool(kind="readonly")
def take_keyed(keyed: Keyed) -> str:
    """Take a mapping with a key."""
    return repr(keyed.data)


async def second(first: str, name: str, arguments: Any, first_id: str = "c1") -> ToolResult:
    runtime = Runtime([word, anything, item, take, take_keyed])
    return (await runtime.batch([RawCall(first, {}, id=first_id), RawCall(name, arguments)]))[1]


async def test_a_reference_never_picks_a_letter_out_of_text() -> None:
    result = await second("anything", "take", {"value": {"$ref": "c1[0]"}})
    assert "the result is a plain string there" in result.llm_content


async def test_a_reference_with_an_endless_index_is_refused_and_not_passed_on() -> None:
    result = await second("word", "take", {"value": {"$ref": f"c1[{'9' * 5000}]"}})
    assert "is not a path like `.field[0]`" in result.llm_content


async def test_an_id_may_look_like_a_path() -> None:
    """Callers choose the ids: `req/1`, `a#2`."""
    for id in ("req/1", "a#2"):
        assert (await second("word", "take", {"value": {"$ref": id}}, id)).data == "'hello'"


async def test_a_call_with_references_reports_its_repairs() -> None:
    result = await second("word", "take", '{"value": {"$ref": "c1"},}')
    assert (result.data, result.metadata["repairs"]) == ("'hello'", ["a trailing comma was removed"])


async def test_a_call_with_references_may_not_give_a_key_twice() -> None:
    result = await second("word", "take", '{"value": 5, "value": {"$ref": "c1"}}')
    assert "the key `value` appears twice" in result.llm_content


async def test_a_validator_of_the_whole_object_waits_for_the_result() -> None:
    """What a model's own validator says of `{"$ref": …}` itself means nothing."""
    assert (await second("item", "take_keyed", {"keyed": {"data": {"$ref": "c1"}}})).data == "{'k': 1}"
    result = await second("word", "take_keyed", {"keyed": {"data": {"$ref": "c1"}}})
    assert not result.success


async def test_an_unknown_field_that_holds_a_reference_is_refused_before_anything_runs() -> None:
    result = await second("word", "take", {"value": 1, "other": {"$ref": "c1"}})
    assert not result.success
    assert "other" in result.llm_content
