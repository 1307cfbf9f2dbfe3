"""Every error that pydantic can find in JSON has words of ours (P2), so that no model reads pydantic's own."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import datetime as dt
import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
import pytest
from inline_snapshot import snapshot
from pydantic import (
    UUID4,
    AliasChoices,
    AwareDatetime,
    BaseModel,
    ByteSize,
    Field,
    FutureDatetime,
    HttpUrl,
    IPvAnyAddress,
    Json,
    NaiveDatetime,
    NewPath,
    PastDate,
    PostgresDsn,
    UrlConstraints,
    create_model,
)
from pydantic_core import PydanticCustomError
from pydantic_core._pydantic_core import list_all_errors
from typing_extensions import TypedDict

from ferrule import InvalidParamsError
from ferrule.core.params import ModelParams
from ferrule.core.validator_errors import WORDED, WORDS

TEMPLATES = {one["type"]: one for one in list_all_errors()}


@pytest.mark.parametrize("kind", sorted(TEMPLATES))
def test_every_error_of_pydantics_core_has_words(kind: str) -> None:
    """A new pydantic that brings a new error fails here."""
    assert kind in WORDED


def test_every_error_that_pydantics_own_types_raise_has_words() -> None:
    """The same for what is raised in Python: found in pydantic's source."""
    raised: set[str] = set()
    for file in Path(pydantic.__file__).parent.rglob("*.py"):
        if "v1" not in file.parts:
            raised |= set(re.findall(r"PydanticCustomError\(\s*f?['\"](\w+)['\"]", file.read_text(encoding="utf-8")))
    assert len(raised) > 20
    assert raised <= WORDED


@pytest.mark.parametrize("kind", sorted(WORDS))
def test_the_words_need_nothing_that_pydantic_does_not_tell(kind: str) -> None:
    _, words = WORDS[kind]
    if kind in TEMPLATES:
        assert set(re.findall(r"\{(\w+)\}", words)) <= set(TEMPLATES[kind].get("example_context") or {})


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Pair(NamedTuple):
    first: int
    second: str = "x"


class Item(TypedDict):
    name: str


@dataclass
class Point:
    x: int


class Address(BaseModel):
    street: str
    floor: int = 0


class Node(BaseModel):
    value: int
    children: list[Node] = []


def told(annotation: Any, text: str) -> str:
    params = ModelParams(create_model("Holder", it=(annotation, ...)))
    with pytest.raises(InvalidParamsError) as invalid:
        params.load('{"it": ' + text + "}" if text else "{}")
    return " | ".join(f"{problem.code} {problem.where}: {problem.message}" for problem in invalid.value.problems)


@pytest.mark.parametrize(
    ("annotation", "text", "words"),
    [
        (dt.date, '"tomorrow"', snapshot('format it: must be a date like "2025-01-31"; got string "tomorrow"')),
        (dt.date, "5", snapshot('format it: must be a date like "2025-01-31"; got integer 5')),
        (dt.date, "", snapshot('missing it: required, but missing (expected a date like "2025-01-31")')),
        (PastDate, '"2999-01-01"', snapshot('range it: must be a date in the past; got string "2999-01-01"')),
        (
            dt.datetime,
            '"noon"',
            snapshot('format it: must be a date and time like "2025-01-31T14:30:00Z"; got string "noon"'),
        ),
        (
            AwareDatetime,
            '"2025-01-31T14:30:00"',
            snapshot(
                'format it: must have a time zone, as in "2025-01-31T14:30:00Z" or "2025-01-31T14:30:00+02:00"; got string "2025-01-31T14:30:00"'
            ),
        ),
        (
            NaiveDatetime,
            '"2025-01-31T14:30:00Z"',
            snapshot(
                'format it: must have no time zone, as in "2025-01-31T14:30:00"; got string "2025-01-31T14:30:00Z"'
            ),
        ),
        (
            FutureDatetime,
            '"2005-01-31T14:30:00Z"',
            snapshot('range it: must be a date and time in the future; got string "2005-01-31T14:30:00Z"'),
        ),
        (dt.time, '"25:00"', snapshot('format it: must be a time like "14:30:00"; got string "25:00"')),
        (dt.timedelta, '"5 minutes"', snapshot('format it: must be a duration like "PT1H30M"; got string "5 minutes"')),
        (
            Annotated[dt.date, Field(ge=dt.date(2025, 1, 1))],
            '"2020-01-01"',
            snapshot('range it: must be at least "2025-01-01"; got string "2020-01-01"'),
        ),
        (
            UUID,
            '"x"',
            snapshot('format it: must be a UUID like "123e4567-e89b-42d3-a456-426614174000"; got string "x"'),
        ),
        (
            UUID4,
            '"00000000-0000-1000-8000-000000000000"',
            snapshot('format it: must be a version 4 UUID; got string "00000000-0000-1000-8000-000000000000"'),
        ),
        (
            HttpUrl,
            '"example"',
            snapshot('format it: must be a URL like "https://example.org/page"; got string "example"'),
        ),
        (
            HttpUrl,
            '"ftp://example.org"',
            snapshot(
                'format it: must be a URL that starts with "http://" or "https://"; got string "ftp://example.org"'
            ),
        ),
        (
            Annotated[HttpUrl, UrlConstraints(max_length=10)],
            '"https://example.org"',
            snapshot('length it: must have at most 10 characters; got string "https://example.org"'),
        ),
        (
            PostgresDsn,
            "",
            snapshot('missing it: required, but missing (expected a URL like "postgresql://host:5432/name")'),
        ),
        (Decimal, '"much"', snapshot('format it: must be a decimal number like "12.50"; got string "much"')),
        (Decimal, "true", snapshot("type it: expected number, got true")),
        (
            Annotated[Decimal, Field(max_digits=3, decimal_places=1)],
            "1.25",
            snapshot("range it: must have at most 1 digit after the decimal point; got number 1.25"),
        ),
        (Fraction, '"x"', snapshot('format it: must be a fraction like "3/4"; got string "x"')),
        (complex, '"x"', snapshot('format it: must be a complex number like "1+2j"; got string "x"')),
        (bytes, "5", snapshot("type it: expected string, got integer 5")),
        (Annotated[bytes, Field(max_length=2)], '"abc"', snapshot("length it: must have at most 2 bytes, not 3")),
        (IPv4Address, '"x"', snapshot('format it: must be an IPv4 address like "192.0.2.1"; got string "x"')),
        (IPv6Address, '"x"', snapshot('format it: must be an IPv6 address like "2001:db8::1"; got string "x"')),
        (IPv4Network, '"x"', snapshot('format it: must be an IPv4 network like "192.0.2.0/24"; got string "x"')),
        (IPvAnyAddress, '"x"', snapshot('format it: must be an IP address like "192.0.2.1"; got string "x"')),
        (Path, "5", snapshot("type it: expected string, got integer 5")),
        (NewPath, '"/"', snapshot('value it: must be a path where nothing exists yet; got string "/"')),
        (ZoneInfo, '"Nowhere"', snapshot('format it: must be a time zone like "Europe/Oslo"; got string "Nowhere"')),
        (ByteSize, '"big"', snapshot('format it: must be a size like "10 MB" or a number of bytes; got string "big"')),
        (re.Pattern[str], '"("', snapshot('format it: must be a regular expression like "^[a-z]+$"; got string "("')),
        (
            Json[list[int]],
            '"[1"',
            snapshot("format it: must hold valid JSON as text: an array is not closed (after `[…`)"),
        ),
        (set[int], '["a"]', snapshot('type it[0]: expected integer, got string "a"')),
        (
            Annotated[set[int], Field(min_length=2)],
            "[1, 1]",
            snapshot("length it: must have at least 2 different items, not 1"),
        ),
        (frozenset[str], "5", snapshot("type it: expected array [string, …], got integer 5")),
        (deque[int], "5", snapshot("type it: expected array [integer, …], got integer 5")),
        (Sequence[int], '"abc"', snapshot('type it: expected array [integer, …], got string "abc"')),
        (Iterable[int], "5", snapshot("type it: expected array [integer, …], got integer 5")),
        (tuple[int, str], "[1]", snapshot("missing it[1]: required, but missing (expected string)")),
        (tuple[int, str], '[1, "a", 2]', snapshot("length it: must have at most 2 items, not 3")),
        (tuple[int, str], "5", snapshot("type it: expected array [integer, string], got integer 5")),
        (Pair, "{}", snapshot("missing it.first: required, but missing")),
        (Pair, '["x"]', snapshot('type it[0]: expected integer, got string "x"')),
        (Pair, "5", snapshot('type it: expected array [integer, string (optional, default "x")], got integer 5')),
        (Item, "{}", snapshot("missing it.name: required, but missing (expected string)")),
        (Item, '"x"', snapshot('type it: expected object {"name": string}, got string "x"')),
        (
            Point,
            '{"x": "a", "y": 1}',
            snapshot('type it.x: expected integer, got string "a" | unknown it.y: unknown field. Known fields: `x`'),
        ),
        (Point, "5", snapshot('type it: expected object {"x": integer}, got integer 5')),
        (
            Address,
            "",
            snapshot(
                'missing it: required, but missing (expected object {"street": string, "floor": integer (optional, default 0)})'
            ),
        ),
        (
            Address,
            '"Main Street 1"',
            snapshot(
                'type it: expected object {"street": string, "floor": integer (optional, default 0)}, got string "Main Street 1"'
            ),
        ),
        (list[Address], '[{"floor": 1}]', snapshot("missing it[0].street: required, but missing (expected string)")),
        (
            Node,
            "",
            snapshot(
                'missing it: required, but missing (expected object {"value": integer, "children": [{"value": integer, "children": [object, …] (optional, default an empty array)}, …] (optional, default an empty array)})'
            ),
        ),
        (
            Node,
            '{"value": 1, "children": [{"value": "x"}]}',
            snapshot('type it.children[0].value: expected integer, got string "x"'),
        ),
        (dict[int, str], '{"a": "x"}', snapshot('value it: the key "a" must hold an integer')),
        (dict[dt.date, int], '{"x": 1}', snapshot('value it: the key "x" must be a date like "2025-01-31"')),
        (dict[Colour, int], '{"green": 1}', snapshot('value it: the key "green" must be "red" or "blue"')),
        (Mapping[str, int], "5", snapshot("type it: expected object {string: integer}, got integer 5")),
        (OrderedDict[str, int], '{"a": "x"}', snapshot('type it.a: expected integer, got string "x"')),
        (Literal[1, 2, 3], '"four"', snapshot('enum it: must be 1, 2 or 3; got string "four"')),
        (Literal[Colour.RED], '"x"', snapshot('enum it: must be "red"; got string "x"')),
        (Level, "5", snapshot("enum it: must be 1 or 2; got integer 5")),
        (Colour, '"green"', snapshot('enum it: must be "red" or "blue"; got string "green"')),
        (Annotated[str, Field(min_length=2)], '"a"', snapshot("length it: must have at least 2 characters, not 1")),
        (Annotated[list[int], Field(max_length=1)], "[1, 2]", snapshot("length it: must have at most 1 item, not 2")),
        (
            Annotated[dict[str, int], Field(min_length=1)],
            "{}",
            snapshot("length it: must have at least 1 field, not 0"),
        ),
        (Annotated[float, Field(gt=0)], "0", snapshot("range it: must be more than 0; got integer 0")),
        (Annotated[int, Field(ge=1, le=5)], "9", snapshot("range it: must be at most 5; got integer 9")),
        (None, "5", snapshot("type it: expected null, got integer 5")),
        (type[int], "5", snapshot("value it: cannot be given as JSON. Leave it out; got integer 5")),
    ],
)
def test_the_words_for_each_type(annotation: Any, text: str, words: str) -> None:
    assert told(annotation, text) == words


PYDANTIC_WORDS = re.compile(
    r"Input |should |valid(?!\b JSON)|value_error|is_instance|instance of|after validation|parse|'"
)


EVERY_TYPE: list[Any] = [
    dt.date, dt.datetime, dt.time, dt.timedelta, UUID, HttpUrl, PostgresDsn, Decimal, Fraction, complex, bytes,
    IPv4Address, IPv6Address, IPv4Network, IPvAnyAddress, Path, NewPath, ZoneInfo, ByteSize, re.Pattern[str],
    Json[int], set[int], frozenset[int], deque[int], Sequence[int], tuple[int, str], Pair, Item, Point, Address,
    Node, dict[int, int], OrderedDict[str, int], Literal[1], Level, Colour, int, float, bool, str, None,
    int | list[int] | Point, type[int],
]  # fmt: skip


@pytest.mark.parametrize(
    "text", ['"x"', "5", "5.5", "true", "null", "[]", "{}", '[["x"]]', '{"x": "y"}', '"2025-13-99"']
)
def test_no_words_of_pydantic_are_passed_on(text: str) -> None:
    for annotation in EVERY_TYPE:
        params = ModelParams(create_model("Holder", it=(annotation, ...)))
        try:
            params.load('{"it": ' + text + "}")
        except InvalidParamsError as invalid:
            for problem in invalid.problems:
                assert not PYDANTIC_WORDS.search(problem.message), f"{annotation}: {problem.message}"


def test_the_words_of_a_validators_author_are_kept() -> None:
    def refuse(value: str) -> str:
        if value == "assert":
            raise AssertionError
        if value == "own":
            raise PydanticCustomError("too_loud", "do not shout {what}", {"what": value})
        raise ValueError("bob is taken")

    name = Annotated[str, pydantic.AfterValidator(refuse)]
    assert told(name, '"bob"') == "value it: bob is taken"
    assert told(name, '"own"') == "value it: do not shout own"
    assert told(name, '"assert"') == 'value it: is not allowed here; got string "assert"'


class Search(BaseModel):
    glob: str | None = Field(None, validation_alias=AliasChoices("glob", "include"))
    file_type: str | None = Field(None, alias="type")
    around: int = Field(0, alias="-C")
    pattern: str = ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"glob": "a", "include": "b"}',
            snapshot("another name for `glob`, which is already given. Give only one"),
        ),
        ('{"file_type": "py"}', snapshot("unknown field. Did you mean `type`?")),
        ('{"around": 1}', snapshot("unknown field. Did you mean `-C`?")),
        ('{"C": 1}', snapshot("unknown field. Did you mean `-C`?")),
        ('{"c": 1, "-C": 2}', snapshot("unknown field. Known fields: `glob`, `type`, `-C`, `pattern`")),
        ('{"patern": "a"}', snapshot("unknown field. Did you mean `pattern`?")),
        ('{"patern": "a", "pattern": "b"}', snapshot("unknown field. Known fields: `glob`, `type`, `-C`, `pattern`")),
        ('{"context": 1}', snapshot("unknown field. Known fields: `glob`, `type`, `-C`, `pattern`")),
    ],
)
def test_an_unknown_field_is_answered_with_one_that_can_be_meant(text: str, words: str) -> None:
    with pytest.raises(InvalidParamsError) as invalid:
        ModelParams(Search).load(text)
    (problem,) = invalid.value.problems
    assert problem.message == words
