"""`${…}` and sums: what they name, and what they leave in doubt."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.quoting import WordReader
from ferrule.policy.commands.syntax import Arithmetic, Kind, Unreadable


def sums(text: str) -> list[Arithmetic]:
    reader = WordReader(text)
    reader.word()
    return [inner for inner in reader.inner if isinstance(inner, Arithmetic)]


@pytest.mark.parametrize(
    "text",
    [
        "${x}",
        "${x:-a}",
        "${x##*/}",
        "${x%.*}",
        "${x//a/b}",
        "${x^^}",
        "${#x}",
        "${x@Q}",
        "${a[@]}",
        "${!x*}",
        "${x:+b}",
    ],
)
def test_these_only_read_a_variable(text: str):
    assert all(not one.names and one.doubt is None for one in sums(text))


@pytest.mark.parametrize("text", ["${x@P}", "${!x}", "${x:=a}", "${x=a}"])
def test_these_do_more_than_read(text: str):
    assert any(one.doubt for one in sums(text))


def test_a_sum_names_what_it_works_out():
    assert sums("$((a + b[c] * 2 + 0xff))")[0].names == ["a", "b", "c"]
    assert sums("${a[i]}")[0].names == ["i"]
    assert sums("${x:y:2}")[0].names == ["y"]


def test_what_a_sum_sets_is_told_apart():
    assert sums("$((i = 0, i == 1, j += i))")[0].names == ["=i", "i", "j", "i"]


def test_a_length_is_a_number():
    word = WordReader("${#x}").word()
    assert word.pieces is not None
    assert (word.pieces[0].kind, word.pieces[0].text) == (Kind.UNKNOWN, "${#x}")


@pytest.mark.parametrize("text", ["${", "${x", "${x!y}", "${(e)x}", "${ ls; }", "$((1", "$((a'b'))", "${x:1"])
def test_what_bash_reads_otherwise_is_not_read(text: str):
    with pytest.raises((Unreadable, NotImplementedError)):
        sums(text)
