"""Words, variables and option streams: what cannot be passed as the one text it is, is refused (X1)."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.process.arguments import BadArgumentError, CommandLine, ProgramWords, checked_environment, rule_text

texts = st.text(st.characters(), max_size=12) | st.sampled_from(["\0", "a\0--bind", "--bind", "-", "", "\ud800", "A=B"])


@given(st.lists(st.tuples(texts, texts)))
def test_a_stream_has_as_many_words_as_were_put_in(pairs: list[tuple[str, str]]) -> None:
    words = ProgramWords()
    try:
        for name, value in pairs:
            words.option("--setenv", name, value)
    except BadArgumentError:
        assert any("\0" in one or not _encodes(one) for pair in pairs for one in pair)
        return
    read = words.stream().split(b"\0")[:-1]
    assert read == [os.fsencode(one) for name, value in pairs for one in ("--setenv", name, value)]


def _encodes(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


@given(texts)
def test_an_operand_is_no_option(text: str) -> None:
    try:
        line = ProgramWords("-q").operand(text).line("git")
    except BadArgumentError:
        return
    assert line == ("git", "-q", text)
    assert not text.startswith("-")


@pytest.mark.parametrize("words", [(), ("",), ("-c", "x"), ("a\0b",), ("a", "b\0c")])
def test_a_line_without_a_program_or_with_a_nul_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(BadArgumentError):
        CommandLine(words)


@pytest.mark.parametrize("name", ["", "A=B", "A\0B"])
def test_a_variable_has_a_name(name: str) -> None:
    with pytest.raises(BadArgumentError, match="is not a variable's name"):
        checked_environment({name: "x"})


def test_a_refusal_names_the_variable_and_not_its_value() -> None:
    with pytest.raises(BadArgumentError, match=r"^The variable `TOKEN` contains a NUL character\.$"):
        checked_environment({"TOKEN": "tiger\0"})


@given(texts)
def test_a_text_in_a_rule_does_not_end_its_quotes(text: str) -> None:
    try:
        quoted = rule_text(text)
    except BadArgumentError:
        return
    inside, at = quoted[1:-1], 0
    while at < len(inside):
        assert inside[at] != '"'
        at += 2 if inside[at] == "\\" else 1
    assert at == len(inside)
