"""Repair: harmless mistakes with one reading only are mended, and it is said what was done."""

from __future__ import annotations

import asyncio
import json
from enum import IntEnum
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ferrule import InvalidParamsError, RawCall, Runtime, StoppedError, raw_tool, tool
from ferrule.core.call import DEFAULT_LIMITS
from ferrule.pipeline.validate import validate


class Inner(BaseModel, extra="forbid"):
    n: int


@tool(kind="readonly")
async def take(
    number: int = 0,
    size: float = 0.0,
    flag: bool = False,
    text: str = "",
    words: list[str] = [],  # noqa: B006
    table: dict[str, int] = {},  # noqa: B006
    inner: Inner = Inner(n=0),  # noqa: B008
    either: int | str = 0,
    limit: int | None = None,
) -> str:
    return "taken"


def mended(arguments: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    ready = validate(take, RawCall("take", arguments), DEFAULT_LIMITS)
    return json.loads(take.params.dump(ready.params)), ready.repairs


@pytest.mark.parametrize(
    ("given_arguments", "field", "value", "note"),
    [
        ({"number": "5"}, "number", 5, '`number`: "5" read as 5'),
        ({"number": " -12 "}, "number", -12, '`number`: " -12 " read as -12'),
        ({"number": 5.0}, "number", 5, "`number`: 5.0 read as 5"),
        ({"size": "1.5e3"}, "size", 1500.0, '`size`: "1.5e3" read as 1500.0'),
        ({"flag": "True"}, "flag", True, '`flag`: "True" read as true'),
        ({"text": 5}, "text", "5", '`text`: 5 read as "5"'),
        ({"words": '["a"]'}, "words", ["a"], "`words`: JSON text read as the array it holds"),
        ({"table": '{"a": 1}'}, "table", {"a": 1}, "`table`: JSON text read as the object it holds"),
        ({"inner": '{"n": 1}'}, "inner", {"n": 1}, "`inner`: JSON text read as the object it holds"),
        ({"number": None}, "number", 0, "`number`: null for an optional field read as not given"),
        ({"words": ["a", 5]}, "words", ["a", "5"], '`words[1]`: 5 read as "5"'),
        ({"limit": "5"}, "limit", 5, '`limit`: "5" read as 5'),
    ],
)
def test_a_mistake_with_one_reading_is_mended_and_noted(
    given_arguments: dict[str, Any], field: str, value: Any, note: str
) -> None:
    params, notes = mended(given_arguments)
    assert params[field] == value
    assert notes == (note,)


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Named(BaseModel):
    kind: Literal["named"]
    name: str


class Numbered(BaseModel):
    kind: Literal["numbered"]
    number: int


@tool(kind="readonly")
async def choose(
    of_three: Literal[1, 2, 3] = 1,
    level: Level = Level.LOW,
    many: list[Literal[1, 2]] = [],  # noqa: B006
    table: dict[str, Literal[1]] = {},  # noqa: B006
    auto: Literal[1, 2] | Literal["auto"] = "auto",
    count: int | Literal["auto"] = "auto",
    maybe: Literal[7] | None = None,
    flag: Literal[True, "x"] = "x",
    text: Literal["1", "2"] = "1",
    exact: Literal[1, "1"] = 1,
    truth: Literal[True, "true"] = True,
    what: Named | Numbered | None = None,
) -> Any:
    return None


@pytest.mark.parametrize(
    ("arguments", "value", "notes"),
    [
        ({"of_three": "2"}, 2, ['`of_three`: "2" read as 2']),
        ({"of_three": " 3 "}, 3, ['`of_three`: " 3 " read as 3']),
        ({"level": "2"}, 2, ['`level`: "2" read as 2']),
        ({"many": ["1", 2, "2"]}, [1, 2, 2], ['`many[0]`: "1" read as 1', '`many[2]`: "2" read as 2']),
        ({"table": {"a": "1"}}, {"a": 1}, ['`table.a`: "1" read as 1']),
        ({"auto": "2"}, 2, ['`auto`: "2" read as 2']),
        ({"count": "5"}, 5, ['`count`: "5" read as 5']),
        ({"maybe": "7"}, 7, ['`maybe`: "7" read as 7']),
        ({"flag": "True"}, True, ['`flag`: "True" read as true']),
        ({"text": 2}, "2", ['`text`: 2 read as "2"']),
        ({"exact": "1"}, "1", []),
        ({"exact": 1}, 1, []),
        ({"truth": "true"}, "true", []),
        (
            {"what": {"kind": "numbered", "number": "5"}},
            {"kind": "numbered", "number": 5},
            ['`what.number`: "5" read as 5'],
        ),
    ],
)
def test_a_choice_in_another_type_is_mended_where_it_has_one_reading(
    arguments: dict[str, Any], value: Any, notes: list[str]
) -> None:
    ready = validate(choose, RawCall("choose", arguments), DEFAULT_LIMITS)
    (field,) = arguments
    assert json.loads(choose.params.dump(ready.params))[field] == value
    assert list(ready.repairs) == notes


@pytest.mark.parametrize(
    "arguments", [{"of_three": "4"}, {"of_three": "2.5"}, {"text": 3}, {"flag": "yes"}, {"auto": "3"}]
)
def test_a_choice_that_is_none_in_any_type_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(StoppedError):
        validate(choose, RawCall("choose", arguments), DEFAULT_LIMITS)


def test_a_format_that_a_raw_schema_only_notes_stops_no_repair() -> None:
    """It is a note to the model: any text is taken there, and so is a number that was meant as text."""
    schema = {"type": "object", "properties": {"year": {"type": "string", "format": "date"}}}
    raw = raw_tool("raw", schema, lambda arguments: arguments, kind="readonly")
    assert Runtime([raw]).run_sync("raw", {"year": 2024}).data == {"year": "2024"}


def test_a_raw_schemas_choices_are_mended_alike() -> None:
    schema = {"type": "object", "properties": {"of_three": {"enum": [1, 2, 3]}, "one": {"const": 1}}}
    raw = raw_tool("raw", schema, lambda arguments: arguments, kind="readonly")
    result = asyncio.run(Runtime([raw]).run("raw", {"of_three": "2", "one": "1"}))
    assert result.data == {"of_three": 2, "one": 1}
    assert sorted(result.metadata["repairs"]) == ['`of_three`: "2" read as 2', '`one`: "1" read as 1']


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("", "empty arguments read as {}"),
        ("  \n", "empty arguments read as {}"),
        ('```json\n{"text": "a"}\n```', "a code fence around the arguments was removed"),
        ('{"text": "a", "words": ["x",],}', "a trailing comma was removed"),
        ('{"text": "a\nb"}', "raw control characters in a string were escaped"),
        (b'{"text": "a",}', "a trailing comma was removed"),
    ],
)
def test_text_that_is_nearly_json_is_mended(text: Any, note: str) -> None:
    assert mended(text)[1] == (note,)


def test_several_mistakes_are_mended_together() -> None:
    params, notes = mended('```\n{"number": "5", "inner": "{\\"n\\": \\"7\\"}", "text": "a\tb",}\n```')
    assert (params["number"], params["inner"], params["text"]) == (5, {"n": 7}, "a\tb")
    assert len(notes) == 6


def test_commas_and_fences_inside_strings_are_left_alone() -> None:
    assert mended('{"text": "a,}", "words": ["```json\\n{}\\n```"],}')[0]["text"] == "a,}"


@pytest.mark.parametrize(
    "arguments",
    [
        {"number": "five"},
        {"number": "5.5"},
        {"number": 5.5},
        {"number": "0x10"},
        {"number": "1_000"},
        {"number": "١"},
        {"number": True},
        {"number": "99999999999999999999"},
        {"number": 1e300},
        {"flag": 1},
        {"flag": "yes"},
        {"words": "a, b"},
        {"table": "{bad"},
        {"text": True},
        {"text": ["a"]},
        {"either": []},
        {"unknown": 1},
    ],
)
def test_what_has_no_sure_reading_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(StoppedError):
        mended(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        '```json\n{"text": "a", "text": "b"}\n```',
        '{"text": "a", "text": "b",}',
        {"table": '{"a": 1, "a": 2}'},
        {"inner": '{"n": 1, "n": 2}'},
    ],
)
def test_a_doubled_key_has_two_readings_wherever_it_hides(arguments: Any) -> None:
    with pytest.raises(StoppedError):
        mended(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"words": "[" * 100 + "]" * 100},
        "```json\n" + '{"words": ' + "[" * 100 + "]" * 100 + "}\n```",
        {"table": '{"a": ' + "1" * 500 + "}"},
    ],
)
def test_mended_arguments_are_held_to_the_same_limits(arguments: Any) -> None:
    with pytest.raises(StoppedError):
        mended(arguments)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10)
anything = st.recursive(
    scalars | st.sampled_from(["5", "-1", "1.5", "true", "null", "[]", '{"n": "1"}', '["1"]', " 7 "]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(["number", "size", "flag", "text", "words", "table", "inner", "either", "limit", "other"])


@settings(max_examples=300)
@given(st.dictionaries(fields, anything, max_size=5))
def test_repair_is_idempotent_and_leaves_what_was_valid_alone(arguments: dict[str, Any]) -> None:
    """What was mended needs no mending; what was valid is read as it is, with no note."""
    text = json.dumps(arguments)
    try:
        plain: Any = take.params.load(text)
    except InvalidParamsError:
        plain = None
    try:
        ready = validate(take, RawCall("take", text), DEFAULT_LIMITS)
    except StoppedError:
        assert plain is None
        return
    if plain is not None:
        assert ready.params == plain
        assert ready.repairs == ()
    else:
        assert ready.repairs
    again = validate(take, RawCall("take", take.params.dump(ready.params)), DEFAULT_LIMITS)
    assert again.params == ready.params
    assert again.repairs == ()


def test_the_result_says_what_was_mended() -> None:
    result = asyncio.run(Runtime([take]).run("take", '{"number": "5",}'))
    assert result.metadata == {"repairs": ["a trailing comma was removed", '`number`: "5" read as 5']}


@pytest.mark.parametrize(
    "text", ['{"items": [1,,]}', '{"items": [1,2,,,]}', '{"items": [,]}', '{"items": [1],,}', "{,}"]
)
def test_a_comma_where_a_value_may_be_missing_is_not_taken_away(text: str) -> None:
    """P2: only what has one reading is mended."""

    @tool(kind="readonly")
    def take(items: list[int | None]) -> list[int | None]:
        """Take."""
        return items

    assert not asyncio.run(Runtime([take]).run("take", text)).success


class Boxed(BaseModel):
    x: int


def test_a_doubled_key_beside_something_mended_is_still_refused() -> None:
    @tool(kind="readonly")
    def take(inner: Boxed, n: int) -> int:
        """Take."""
        return n

    text = '{"inner": "{\\"x\\"\\u003a1}", "n": 1, "n": 2}'
    result = asyncio.run(Runtime([take]).run("take", text))
    assert result.error is not None
    assert "appears twice" in result.error.message


@pytest.mark.parametrize(
    "declared",
    [{"type": "string", "allOf": [{"type": ["string", "integer"]}]}, {"$ref": "#/$defs/A", "type": "string"}],
)
async def test_a_place_with_two_problems_is_repaired_once(declared: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": declared}, "$defs": {"A": {"type": ["string", "boolean"]}}}
    taking = raw_tool("taking", schema, lambda arguments: arguments, kind="readonly")
    left_out, read = [await Runtime([taking]).run("taking", text) for text in ('{"a": null}', '{"a": 5}')]
    assert (left_out.data, len(left_out.metadata["repairs"])) == ({}, 1)
    assert (read.data, len(read.metadata["repairs"])) == ({"a": "5"}, 1)
