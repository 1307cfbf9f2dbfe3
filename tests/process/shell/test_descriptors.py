"""Descriptors: each has one owner, and none is left open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ferrule.process.shell.descriptors import Descriptors


def opened() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("size", [None, (80, 24)])
def test_all_are_closed_in_the_end(size: tuple[int, int] | None) -> None:
    before = opened()
    made = Descriptors(size)
    most = opened()
    made.close_handed_over()
    assert opened() < most - 40, "Ferrule keeps few of them"
    made.close()
    made.close()
    assert opened() == before


def test_what_is_written_for_good_cannot_be_changed_by_anyone() -> None:
    made = Descriptors()
    library = made.numbers.places[0].library
    made.write_for_good(library, "text")
    with pytest.raises(PermissionError):
        os.open(f"/proc/self/fd/{library}", os.O_WRONLY | os.O_TRUNC)
    with pytest.raises(PermissionError):
        os.pwrite(library, b"evil", 0)
    assert os.pread(library, 10, 0) == b"text"
    made.close()


def test_the_rest_of_an_earlier_text_is_gone() -> None:
    made = Descriptors()
    text = made.numbers.places[0].text
    made.write(text, "a long text")
    made.write(text, b"short")
    assert os.pread(text, 100, 0) == b"short"
    made.close()


def test_unread_bytes_are_counted() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"abc")
    assert Descriptors.unread(reading) == 3
    os.close(reading)
    os.close(writing)
