"""Two readings of one text."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.reader import read
from ferrule.policy.commands.syntax import Reading, Script
from ferrule.policy.commands.witness import disagreement


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        "a | b && c",
        "time ls",
        "! time ls",
        "echo é $(ü)",
        "cat <<E\n$(a)\nE\nb",
        "[ -f x ] && [[ -f y ]]",
        "export a=b; unset c",
        "echo `a`",
    ],
)
def test_two_readings_agree_on_ordinary_commands(text: str):
    assert [disagreement(reading) for reading in read(text)] == [None] * len(read(text))


@pytest.mark.parametrize("starts", [[], [0], [0, 4, 9], [0, 5]])
def test_a_command_that_only_one_of_them_finds_is_noticed(starts: list[int]):
    assert disagreement(Reading("ls; rm x", Script([]), starts, [], {})) == "two readings of it find different commands"


def test_an_error_is_noticed():
    assert disagreement(Reading("ls (", Script([]), [0], [], {})) == "the shell grammar finds an error in it"


def test_what_was_read_apart_does_not_count():
    assert disagreement(Reading("ls; rm x", Script([]), [0], [(3, 8)], {})) is None
