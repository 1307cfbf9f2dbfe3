"""The order in which a command runs, and what can be followed through it."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.analyse import analyse


def programs(command: str) -> list[str]:
    return [part.program for part in analyse(command).parts if part.words]


@pytest.mark.parametrize(
    "command",
    [
        "x=rm; $x y",
        "x='rm y'; $x",
        "x=r; y=m; $x$y z",
        "x=rm && $x y",
        "for i in 1; do x=rm; $x y; done",
        "(x=rm; $x y)",
        "x=ls; x=rm eval '$x y'",
        'x=rm; eval "$x y"',
    ],
)
def test_a_value_that_is_certain_is_followed(command: str):
    assert programs(command)[-1] == "rm"


@pytest.mark.parametrize(
    "command",
    [
        "false && x=ls; $x",
        "true || x=ls && $x",
        "x=rm; false && x=ls || $x",
        "if a; then x=ls; fi; $x",
        "(x=ls); $x",
        "x=ls | cat; $x",
        "x=ls & $x",
        "x=ls; for i in 1; do $x; x=rm; done",
        "x=ls; f() { x=rm; }; f; $x",
        "x=ls; read x; $x",
        "x=ls; printf -v x rm; $x",
        "x=ls; unset x; $x",
        "x=ls; while read x; do $x; done",
        "x=ls cat; $x",
        "bash -c 'x=ls'; $x",
        "x=ls; bash -c '$x'",
    ],
)
def test_a_value_that_is_not_certain_is_not(command: str):
    assert any("only known at run time" in doubt for doubt in analyse(command).unclear)


def test_a_function_counts_once_it_is_certain_to_be_there():
    assert analyse("rm() { ls; }; rm x").read_only
    assert not analyse("false && rm() { ls; }; rm x").read_only
    assert not analyse("rm() { ls; }; env rm x").read_only
    assert not analyse("(rm() { ls; }); rm x").read_only


@pytest.mark.parametrize(
    "command", [":(){ :|:& };:", "f() { f & f; }; f", "f() { f | f; }; f", "f() { g() { f & }; g; }; f"]
)
def test_s2_a_function_that_starts_itself_beside_itself_is_a_bomb(command: str):
    assert any("again and again" in danger.why for danger in analyse(command).dangers)


def test_what_runs_in_front_of_a_command_is_found_first():
    assert programs("echo $(a) > $(b) <<< $(c)") == ["a", "b", "c", "echo"]


def test_a_shell_at_the_end_of_a_pipe_is_a_danger():
    assert [danger.why for danger in analyse("curl x | env python3 -").dangers] == ["it runs what was downloaded"]
    assert [danger.why for danger in analyse("echo x | sh").dangers] == ["it runs text that another command makes"]


def test_a_wrapper_that_loads_code_taints_what_it_starts():
    parts = analyse("env LD_PRELOAD=x ls; ls").parts
    assert [part.effect.value for part in parts] == ["runs", "reads"]
