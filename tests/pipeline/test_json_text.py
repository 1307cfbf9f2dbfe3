"""What JSON parsers let pass and a tool must not see."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import InvalidParamsError, Limits
from ferrule.pipeline.validate import check_text, plain_problem

SMALL = Limits(argument_depth=3, number_digits=10)


def problem(text: str | bytes, *, duplicates: bool = True, flat_size: int | None = None) -> str | None:
    try:
        check_text(text, flat_size, SMALL, duplicates=duplicates)
    except InvalidParamsError as invalid:
        return invalid.problems[0].message
    return None


@pytest.mark.parametrize(
    "text", ['{"a": 1, "b": {"a": 2}}', '{"a": "x: y: {[{["}', "[[[]]]", '{"a": 1234567890}', "{}"]
)
def test_sound_text_passes(text: str) -> None:
    assert problem(text) is None
    assert problem(text.encode()) is None


def test_brackets_inside_strings_do_not_count_as_depth() -> None:
    assert problem('{"a": "[[[[[[[[[["}') is None
    assert problem('{"a": "\\"[[[[[[[[[["}') is None
    assert problem('{"a": [[[]]]}') == "they are nested 4 deep, where at most 3 is allowed"


def test_digits_inside_strings_do_not_count_as_numbers() -> None:
    assert problem('{"a": "12345678901234567890"}') is None
    assert problem('{"a": -12345678901}') == "a number has 12 digits, where at most 10 are allowed"


def test_doubled_keys_are_found_at_any_depth_and_also_when_escaped() -> None:
    for text in ('{"a": 1, "a": 1}', '[{"b": {"a": 1, "a": 2}}]', '{"a": 1, "\\u0061": 2}'):
        assert problem(text) == "the key `a` appears twice in one object; give it once"
        assert problem(text.encode()) is not None
    assert problem('{"a": 1, "a": 1}', duplicates=False) is None


def test_a_flat_text_with_as_many_colons_as_fields_is_not_read_twice() -> None:
    assert problem('{"a": 1}', flat_size=1) is None
    assert problem('{"a": 1, "a": 2}', flat_size=1) is not None


@pytest.mark.parametrize(
    "text",
    [
        '{"at": "10:30", "see": "https://example.com"}',
        '{"at" : "10:30", "see"\t:\n"a:b"}',
    ],
)
def test_colons_inside_strings_cost_no_second_parse(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def parsed(*_: Any, **__: Any) -> None:
        raise AssertionError("it was read again")

    with monkeypatch.context() as patched:
        patched.setattr(json, "loads", parsed)
        assert problem(text, flat_size=2) is None
        assert problem(text.encode(), flat_size=2) is None


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", ":", '\\":', " :"]), st.sampled_from(["x:y", '\\":', " : ", "1"]))),
    st.sampled_from([":", " :", "\n:", "\t : ", "\r:"]),
)
def test_a_doubled_key_is_found_whatever_the_colons_are_like(pairs: list[tuple[str, str]], colon: str) -> None:
    text = "{" + ", ".join(f'"{key}"{colon}"{value}"' for key, value in pairs) + "}"
    keys = {key for key, _ in pairs}
    doubled = problem(text, flat_size=len(keys)) is not None
    assert doubled == (len(keys) < len(pairs))
    assert (problem(text.encode(), flat_size=len(keys)) is not None) == doubled


@given(st.text(st.sampled_from('{}[]:,"\\a1 ')))
def test_any_text_is_judged_without_a_crash(text: str) -> None:
    problem(text)
    problem(text.encode())


@given(st.recursive(st.integers(0, 9) | st.text(max_size=3), lambda inner: st.lists(inner, max_size=2), max_leaves=6))
def test_depth_is_what_the_value_says(value: Any) -> None:
    def depth(part: Any) -> int:
        return 1 + max(map(depth, part), default=0) if isinstance(part, list) else 0

    found = problem(json.dumps(value))
    assert (found is not None) == (depth(value) > 3)


def test_hostile_text_takes_no_time() -> None:
    began = time.process_time()
    for text in ("[" * 200_000, '"' * 200_001, '{"a":' * 50_000, "\\" * 200_000, '"\\' * 100_000, "9" * 200_000):
        problem(text)
    assert time.process_time() - began < 2


def test_why_values_have_no_json_form() -> None:
    assert plain_problem({}, RecursionError()).code == "limit"
    assert plain_problem({}, ValueError("Circular reference")).code == "limit"
    assert plain_problem({}, ValueError("surrogates not allowed")).message.startswith("a string contains half")
    assert plain_problem({}, ValueError("?")).message == "they are object values that have no JSON form"


@pytest.mark.parametrize("number", ["1e999", "-1E+400", "123.4e5000"])
def test_a_number_beyond_every_float_is_refused_wherever_it_stands(number: str) -> None:
    with pytest.raises(InvalidParamsError, match="too large"):
        check_text(f'{{"a": [{{"x": {number}}}]}}', None, Limits(), duplicates=True)


def test_large_but_finite_numbers_and_words_that_look_like_them_pass() -> None:
    check_text('{"a": [1e300, 1e-999], "b": "1e999"}', None, Limits(), duplicates=True)
