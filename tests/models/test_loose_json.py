"""Whatever a server sends, reading it raises nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ferrule.dialects.payload import an_item, count, items, words

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(ANYTHING)
def test_each_gives_its_own_kind(value: Any) -> None:
    assert isinstance(an_item(value), dict)
    assert all(isinstance(one, dict) for one in items(value))
    assert isinstance(words(value), str)
    assert count(value) >= 0


def test_what_is_there_is_given() -> None:
    assert an_item({"a": 1}) == {"a": 1}
    assert items([{"a": 1}, 5, {}]) == [{"a": 1}, {}]
    assert words("x") == "x"
    assert [count(one) for one in (5, 5.9, -1, True, "5", float("nan"), float("inf"))] == [5, 5, 0, 0, 0, 0, 0]
