"""Pictures whose end is missing are told from whole ones by what their format says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.workspace.pictures import GIF, WHOLE

from ferrule.workspace.media import is_cut_off


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_picture_is_whole_whatever_follows_it(kind: str) -> None:
    assert not is_cut_off(kind, WHOLE[kind])
    assert not is_cut_off(kind, WHOLE[kind] + b"\0" * 20)


@given(st.sampled_from(sorted(WHOLE)), st.data())
def test_any_part_of_a_picture_is_cut_off(kind: str, data: st.DataObject) -> None:
    most = len(WHOLE[kind]) - (2 if kind == "image/gif" else 1)
    length = data.draw(st.integers(12, most))
    assert is_cut_off(kind, WHOLE[kind][:length])


def test_a_gif_may_lack_the_last_byte() -> None:
    assert not is_cut_off("image/gif", GIF[:-1])
    assert is_cut_off("image/gif", GIF[:-2])


@given(st.sampled_from([*sorted(WHOLE), "image/bmp"]), st.binary(max_size=200))
def test_nothing_that_a_file_holds_is_too_strange(kind: str, data: bytes) -> None:
    assert is_cut_off(kind, WHOLE.get(kind, b"")[:20] + data) in (True, False)


def test_what_cannot_be_followed_counts_as_whole() -> None:
    assert not is_cut_off("image/jpeg", b"\xff\xd8\xff\xe0\0\4ab no mark")
    assert not is_cut_off("image/gif", GIF[:19] + b"\x77 and more")
    assert not is_cut_off("application/pdf", b"%PDF-")
