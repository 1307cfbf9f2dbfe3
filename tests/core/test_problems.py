"""Problems and how values are shown in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic_core import from_json

from ferrule import InvalidParamsError, Problem
from ferrule.core.problems import format_path, got, json_type, not_json, show


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "arguments"),
        (("a",), "a"),
        (("items", 2, "price"), "items[2].price"),
        ((0, 1), "[0][1]"),
        (("a", "b", 0), "a.b[0]"),
    ],
)
def test_a_place_is_written_as_a_model_would_write_it(path: tuple[Any, ...], text: str) -> None:
    assert format_path(path) == text
    assert Problem(path, "type", "x").where == text


@pytest.mark.parametrize(
    ("value", "shown", "said"),
    [
        ("x", '"x"', 'string "x"'),
        ('a"b\\c\nd', '"a\\"b\\\\c\\nd"', 'string "a\\"b\\\\c\\nd"'),
        (5, "5", "integer 5"),
        (1.5, "1.5", "number 1.5"),
        (True, "true", "true"),
        (None, "null", "null"),
        ({}, "an empty object", "an empty object"),
        ({"a": 1}, "an object", "an object"),
        ([], "an empty array", "an empty array"),
        ([1], "an array", "an array"),
        (10**100, "a number of more than 60 digits", "integer a number of more than 60 digits"),
        (object(), "object", "object object"),
    ],
)
def test_values_are_shown_in_json_words(value: Any, shown: str, said: str) -> None:
    assert show(value) == shown
    assert got(value) == said


@given(st.recursive(st.none() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_nothing_shown_is_ever_long(value: Any) -> None:
    assert len(show(value)) <= 130
    assert "\n" not in show(value)


def test_types_have_their_json_names() -> None:
    names = [json_type(value) for value in ("", True, 1, 1.0, {}, [], None, set())]
    assert names == ["string", "boolean", "integer", "number", "object", "array", "null", "set"]


def test_invalid_params_carry_everything_and_read_as_one_line() -> None:
    invalid = InvalidParamsError([Problem(("a",), "type", "bad"), Problem((), "value", "worse")], {"a": 1})
    assert str(invalid) == "a: bad; arguments: worse"
    assert invalid.value == {"a": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": [1', snapshot('they end too early: an array is not closed (after `{"a": […`)')),
        ('{"a": "x', snapshot('they end too early: a string is not closed (after `{"a": …`)')),
        ('{"a":', snapshot('they end too early: a value is not complete (after `{"a":`)')),
        ('{"a" 1}', snapshot("a `:` is missing between a key and its value (after `{…`)")),
        ('{"a": 1 "b": 2}', snapshot('a `,` or `}` is missing (after `{"a": …`)')),
        ("[1 2]", snapshot("a `,` or `]` is missing (after `[…`)")),
        ("{a: 1}", snapshot("a key must be in double quotes (after `{`)")),
        ("{'a': 1}", snapshot("strings and keys must be in double quotes (after `{`)")),
        ("{\"a\": 'x'}", snapshot('strings and keys must be in double quotes (after `{"a":`)')),
        ('{"a": None}', snapshot('JSON uses `null`, not `None` (after `{"a": …`)')),
        ('{"a": True, "b": 1}', snapshot('JSON uses `true`, not `True` (after `{"a":`)')),
        ('{"a": tru}', snapshot('a value is malformed (after `{"a": …`)')),
        ('{"a": }', snapshot('a value is missing (after `{"a":`)')),
        ('{"a": 1} and more', snapshot('there is something after the end of the value (after `{"a": …}`)')),
        ('{"a": 1} // why', snapshot('JSON has no comments (after `{"a": …}`)')),
        (
            '{"a": "\\x"}',
            snapshot('a string contains a `\\` that starts no escape; write `\\\\` for a backslash (after `{"a": ……`)'),
        ),
        (
            '{"a": "\\ud800"}',
            snapshot('a string contains a \\u escape that is half of a surrogate pair (after `{"a": …`)'),
        ),
        ('{"a": 01}', snapshot('a number is malformed (after `{"a": …`)')),
        (
            '{"a": 1, "a longer name than anyone gives a field of a tool": }',
            snapshot('a value is missing (after `{"a": …, "a longer name than anyone gi…":`)'),
        ),
        ("nonsense", snapshot("a value is malformed (line 1, column 2)")),
        (b'{"a": "\xff"}', snapshot('they are not UTF-8 text (after `{"a": …`)')),
    ],
)
def test_text_that_is_no_json_is_told_what_and_where(text: str | bytes, words: str) -> None:
    """P2: the keys and brackets before the place lead to it; values are never quoted."""
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the parser's own
        from_json(text)
    assert not_json(str(error.value), text).message.removeprefix("they are not valid JSON: ") == words


PARSER_WORDS = ("EOF", "ident", "line 1 column", "trailing characters", "hex escape", "expected value", "recursion")


@given(st.text("{}[]\":,0123456789eE+-.truefalsn \\u\n'", max_size=30))
def test_no_words_of_the_parser_are_passed_on(text: str) -> None:
    try:
        from_json(text)
    except ValueError as error:
        message = not_json(str(error), text).message
        assert not any(words in message for words in PARSER_WORDS), message


def test_a_secret_in_broken_text_is_not_quoted() -> None:
    """P10."""
    for text in ('{"password": "hunter2, "x": 1}', '{"pin": 12a4}', '{"password": "hunter2'):
        with pytest.raises(ValueError) as error:  # noqa: PT011
            from_json(text)
        message = not_json(str(error.value), text).message
        assert "hunter2" not in message
        assert "12" not in message
