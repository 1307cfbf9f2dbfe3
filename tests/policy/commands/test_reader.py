"""Whole commands: how they hang together."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from tests.policy.commands.commands_to_try import commands

from ferrule.policy.commands.reader import read
from ferrule.policy.commands.syntax import Compound, Unreadable


def starts(text: str) -> list[str]:
    """The first word of every command in the text itself."""
    reading = read(text)[0]
    return [text[start:].split()[0] for start in sorted(reading.starts)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a; b && c || d | e & f", ["a;", "b", "c", "d", "e", "f"]),
        ("{ a; }; (b )", ["a;", "b"]),
        ("if a; then b; elif c; then d; else e; fi", ["a;", "b;", "c;", "d;", "e;"]),
        ("while a; do b; done; until c; do d; done", ["a;", "b;", "c;", "d;"]),
        ("for x in 1 2; do a; done; for ((i=0;i<2;i++)); do b; done", ["a;", "b;"]),
        ("case x in a) b;; (c|d) e;& *) f; esac", ["b;;", "e;&", "f;"]),
        ("f() { a; }; function g { b; }", ["a;", "b;"]),
        ('a $(b `c`) <(d) >(e) "$(f)"', ["a", "b", "d)", "e)", 'f)"']),
        ("a # b\nc", ["a", "c"]),
        ("! a; time -p b", ["a;", "b"]),
        ("a \\\n b", ["a"]),
        ("select x in a; do b; done", ["b;"]),
        ("coproc a; coproc N { b; }", ["a;", "b;"]),
    ],
)
def test_every_command_is_found(text: str, found: list[str]):
    assert starts(text) == found


def test_what_stands_in_backticks_is_a_reading_of_its_own():
    assert [reading.source for reading in read("echo `a \\`b\\``")] == ["echo `a \\`b\\``", "a `b`", "b"]


def test_a_function_keeps_its_name():
    command = read(":() { a; }")[0].script.chains[0].links[0][1].commands[0]
    assert isinstance(command, Compound)
    assert (command.kind, command.name) == ("function", ":")


@pytest.mark.parametrize(
    "text",
    [
        "if a",
        "a |",
        "a &&",
        ")",
        "a )",
        "fi",
        "done",
        "{ a",
        "( a",
        "case x in a",
        "; a",
        "a ;;",
        "! ",
        "f() a",
        "[[ a",
    ],
)
def test_what_bash_would_not_read_is_not_read(text: str):
    with pytest.raises(Unreadable):
        read(text)


@pytest.mark.parametrize("text", ["a\x00b", "a\x1b[2K", "a\r\nb", "a\u202eb", "l\u200bs"])
def test_invisible_characters_are_not_read(text: str):
    with pytest.raises(Unreadable, match="invisible character U"):
        read(text)


@settings(max_examples=60, deadline=None)
@given(command=commands)
def test_what_is_read_is_a_command_to_bash_too(command: str):
    bash = shutil.which("bash")
    assert bash is not None
    try:
        read(command)
    except Unreadable:
        return
    assert subprocess.run([bash, "-n", "-c", command], capture_output=True, check=False).returncode == 0
