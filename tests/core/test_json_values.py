"""Values are counted without being made, and what stands in texts is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.json_values import has_too_many_values

VALUES = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('a,["\\\\')),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.sampled_from(",[a"), max_size=2), inner),
)


@given(VALUES, st.integers(0, 20))
def test_values_are_counted_and_what_stands_in_texts_is_not(value: Any, most: int) -> None:
    def signs(one: Any) -> int:
        inner = list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else None
        if inner is None:
            return 0
        return isinstance(one, list) + max(0, len(inner) - 1) + sum(map(signs, inner))

    for indent in (None, 1):
        assert has_too_many_values(json.dumps(value, indent=indent).encode(), most) == (signs(value) > most)


def test_long_texts_are_passed_over_and_one_without_an_end_ends_the_count() -> None:
    long = json.dumps(["," * 200_000, [], "," * 10]).encode()
    assert not has_too_many_values(long, 4)
    assert has_too_many_values(long, 3)
    assert not has_too_many_values(b'["' + b"," * 200_000, 4)


@pytest.mark.parametrize("quote", [b'"', b'"x', b'"\\', b'"\\"', b'""" "'])
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_quote_hides_nothing_past_its_line(quote: bytes, end: bytes) -> None:
    for filling in (b"", b"x" * 200_000):
        assert has_too_many_values(quote + filling + end + b"[]," * 10, 10)
