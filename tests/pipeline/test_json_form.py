"""Values as JSON text, in both directions."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.core.params import NO_JSON_FORM, to_text, to_words

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(), values, max_size=4))
def test_arguments_survive_the_way_to_text_and_back(arguments: dict[str, object]) -> None:
    assert json.loads(to_text(arguments)) == arguments
    assert json.loads(to_words(arguments)) == arguments


def test_any_mapping_counts_as_an_object() -> None:
    assert to_text(MappingProxyType({"a": MappingProxyType({"b": 1})})) == b'{"a":{"b":1}}'


def test_what_has_no_json_form_is_refused_as_an_argument() -> None:
    with pytest.raises(NO_JSON_FORM):
        to_text({"a": object()})


def test_not_a_number_stays_visible_in_arguments_and_becomes_a_word_in_results() -> None:
    assert to_text({"a": float("nan")}) == b'{"a":NaN}'
    assert to_words({"a": float("inf")}) == '{"a":"Infinity"}'


def test_a_name_that_is_not_utf_8_still_has_words() -> None:
    assert to_words({"name": "caf\udce9"}) == '{"name":"caf\udce9"}'


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(NO_JSON_FORM):
        to_words(loop)
