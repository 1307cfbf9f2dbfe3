"""Sums, and conditions that work like sums."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.analyse import analyse


@pytest.mark.parametrize(
    "command",
    [
        "echo $((x))",
        "((x++))",
        "[[ $x -gt 1 ]]",
        "[[ x -gt 1 ]]",
        "[[ -v a[0] ]]",
        "echo ${a[i]}",
        "a[i]=1",
        "((y = x))",
    ],
)
def test_an_unknown_variable_in_a_sum_is_unclear(command: str):
    assert analyse(command).unclear


@pytest.mark.parametrize(
    "command",
    [
        "x=1; echo $((x + 1))",
        "((x = 1)); echo $((x))",
        "for x in 1 2; do ((x > 1)); done",
        "[[ $? -eq 0 ]]",
        "[[ $(ls | wc -l) -gt 1 ]]",
        "[[ -v a ]]",
        "n=$(wc -l < f); ((n + 1))",
    ],
)
def test_a_variable_that_holds_a_number_is_not(command: str):
    assert analyse(command).read_only
