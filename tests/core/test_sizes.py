"""Sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.sizes import read_size, size_words


@pytest.mark.parametrize(
    ("text", "size"),
    [("6 GB", 6 * 10**9), ("500MB", 5 * 10**8), (" 1.5 kb ", 1_500), ("0 B", 0), ("7b", 7), ("2 TB", 2 * 10**12)],
)
def test_a_size_is_read(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "6", "GB", "-1 GB", "1e9 GB", "6 GiB", "6 G", "1,5 GB", "\u0666 GB x", "9999999 TB", "9" * 15 + "TB"],
)
def test_what_is_no_size_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a size such as|is more than"):
        read_size(text)


@given(st.integers(0, 10**18))
def test_what_is_shown_is_read_as_nearly_the_same(size: int) -> None:
    assert abs(read_size(size_words(size).replace(",", "")) - size) <= max(1, size * 0.06)
