"""No regular expression of a schema can hold a call up (P2, P6)."""

from __future__ import annotations

import json
import random
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.errors import DefinitionError
from ferrule.core.problems import InvalidParamsError
from ferrule.core.schema_compile import BACKTRACKING_COST, LINEAR_COST, cost_per_character, is_linear, states
from ferrule.core.schema_params import SchemaParams

SECONDS = 3.0


def answer(schema: Any, text: str) -> str:
    """`ok`, `definition`, or the codes of the problems; fails when it takes long."""
    started = time.process_time()
    try:
        SchemaParams("do_it", schema).load(text)
        outcome = "ok"
    except DefinitionError:
        outcome = "definition"
    except InvalidParamsError as invalid:
        outcome = " ".join(sorted({problem.code for problem in invalid.problems}))
    assert time.process_time() - started < SECONDS
    return outcome


BITS = format(random.Random(7).getrandbits(300_000), "0300000b")


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("^(a+)+$", "a" * 50_000 + "b", "format"),
        ("^(a|aa)+$", "a" * 50_000, "ok"),
        ("^(?=a)[a-z]+$", "a" * 500, "ok"),
        (r"^(?=a)(a|aa)+\1$", "a" * 60 + "b", "limit"),
        ("(?=a.*b)c", "a" * 200_000, "limit"),
        ("1[01]{1000}z?2", BITS, "limit"),
        ("1[01]{1000}z?2", BITS[:5000], "format"),
        ("^[a-z]+$", "a" * 2_000_000, "ok"),
        ("^\\p{L}{1,100}$", "é" * 100, "ok"),
        ("(a{1000}){1000}", "a", "definition"),
    ],
)
def test_no_pattern_takes_long(pattern: str, text: str, expected: str):
    assert answer({"pattern": pattern}, json.dumps(text)) == expected


def test_a_pattern_that_gives_up_is_never_taken_for_no_match():
    """`not` would turn «no match» into a pass."""
    hard = r"^(?=a)(a|aa)+\1$"
    assert answer({"not": {"pattern": hard}}, json.dumps("a" * 60 + "b")) == "limit"
    assert answer({"patternProperties": {hard: False}}, json.dumps({"a" * 60 + "b": 1})) == "limit"
    assert answer({"not": {"pattern": hard}}, '"b"') == "ok"


def test_counted_repeats_are_written_out():
    assert states("abc") == 3
    assert states("[a-z]{1,20}") == 20
    assert states("(ab{3}){10}") == 40
    assert states(r"\d{4}-\d{2}") == 7
    assert is_linear("^(a+)+$")
    assert not is_linear("(?=a)b")


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("", 1),
        ("^$", 2),
        ("a*b+c?", 3),
        ("a|b", 2),
        ("[a-z]", 1),
        ("[]a]", 1),
        (r"[\]a]{3}", 3),
        ("[{5}]", 1),
        (r"\{5}", 3),
        ("a{5,}", 5),
        ("a{2,5}", 5),
        ("a{0}", 1),
        ("(?:ab){3}", 6),
        ("(?<year>ab){3}", 6),
        ("(?=ab)c", 3),
        ("((a{10}){10}){10}", 1000),
        (r"\p{L}", 25),
        (r"\P{Lu}{2}", 50),
        ("a{x}", 4),
        (")(", 1),
    ],
)
def test_how_many_places_a_match_can_be_at(pattern: str, count: int) -> None:
    assert states(pattern) == count


@given(st.text())
def test_any_text_has_a_count(pattern: str) -> None:
    assert 1 <= states(pattern) <= max(1, 25 * len(pattern)) or "{" in pattern


@given(st.from_regex(r"\A[abc]{0,12}\Z"), st.integers(1, 50))
def test_a_counted_repeat_counts_as_if_written_out(text: str, times: int) -> None:
    assert states(f"(?:{text}){{{times}}}") == states(text * times)


@pytest.mark.parametrize(
    ("piece", "times"),
    [
        ("[", 300_000),
        (r"\p{", 300_000),
        ("[\\", 200_000),
        ("(", 200_000),
        ("(?<a", 100_000),
        ("{1", 100_000),
        ("(a|)", 100_000),
        ("(?:a{999999999})", 20_000),
    ],
)
def test_counting_takes_no_longer_than_reading(piece: str, times: int) -> None:
    """P6: what is left open must not be searched for its end again and again."""
    started = time.process_time()
    states(piece * times)
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize(
    "pattern", ["a{" + "9" * 5_000 + "}", "(" * 3_000 + "a" + "){999999999}" * 3_000], ids=["digits", "groups"]
)
def test_a_count_beyond_all_bounds_is_only_too_large(pattern: str) -> None:
    """P2: Python itself refuses to read a number of 5,000 digits."""
    assert answer({"pattern": pattern}, '"a"') == "definition"


def test_a_class_too_long_to_compile_is_refused_although_it_is_one_place() -> None:
    assert states("[" + "a" * 1_000_000 + "]") == 1
    assert answer({"pattern": "[" + "a" * 1_000_000 + "]"}, '"a"') == "definition"


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|aa)*b", r"\d{3}-\d{4}", r"^\p{L}+$", "[^/]+", ""])
def test_what_is_matched_in_one_pass(pattern: str) -> None:
    assert is_linear(pattern)
    assert cost_per_character(pattern) == states(pattern) * LINEAR_COST


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", r"(a)\1", "(?>a+)b"])
def test_what_may_have_to_go_back(pattern: str) -> None:
    """However short, it costs what its limit on steps back allows."""
    assert not is_linear(pattern)
    assert cost_per_character(pattern) == BACKTRACKING_COST


LITERALS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=6)


@given(LITERALS, st.text(max_size=12))
def test_a_pattern_matches_what_it_matches_elsewhere(literal: str, text: str) -> None:
    params = SchemaParams("do_it", {"pattern": f"{literal}[0-9]*$"})
    for value in (text, text + literal, literal + text):
        expected = re.search(f"{literal}[0-9]*\\Z", value) is not None
        try:
            params.load(json.dumps(value))
            found = True
        except InvalidParamsError:
            found = False
        assert found == expected
