"""Words as bash makes them, and the narrow reading that allow rules rest on."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule.policy.commands.parts import Guess
from ferrule.policy.commands.words import fields, plain_commands, split


@pytest.mark.parametrize(
    ("word", "becomes"),
    [
        ("ls", ["ls"]),
        ("r\\m", ["rm"]),
        ("r''m", ["rm"]),
        ("'a b'", ["a b"]),
        ('"a\\$b"', ["a$b"]),
        ("$'\\x72\\155'", ["rm"]),
        ('$"a"', ["a"]),
        ("a{b,c}d", ["abd", "acd"]),
        ("{rm,-rf}", ["rm", "-rf"]),
        ("{,rm}", ["rm"]),
        ("a{b}", ["a{b}"]),
        ("'{a,b}'", ["{a,b}"]),
        ("~/x", ["~/x"]),
        ("''", [""]),
    ],
)
def test_a_word_without_expansions_is_known(word: str, becomes: list[str]):
    found = fields(word, {})
    assert found == becomes
    assert not any(isinstance(one, Guess) for one in found)


@pytest.mark.parametrize(
    ("word", "guesses", "start"),
    [
        ("$x", ["rm", "-rf", "y"], ""),
        ('"$x"', ["rm -rf y"], ""),
        ("${x}", ["rm", "-rf", "y"], ""),
        ("${z:-ls}", ["ls"], ""),
        ("a$z", ["a$z"], "a"),
        ("$(echo rm)", ["rm"], ""),
        ("`date`", ["`date`"], ""),
        ("a*.py", ["a*.py"], "a"),
        ("<(id)", ["<(id)"], ""),
    ],
)
def test_a_word_that_only_the_run_shows_is_a_guess(word: str, guesses: list[str], start: str):
    found = fields(word, {"x": "rm -rf y"})
    assert found == guesses
    assert all(isinstance(one, Guess) and one.start == start for one in found)


def test_words_are_told_apart_as_they_are_written():
    assert split("a 'b c' \"d $(e f)\" g\\ h ${i j} \\\n k") == [
        "a", "'b c'", '"d $(e f)"', "g\\ h", "${i j}", "k",
    ]  # fmt: skip


PIECES = [
    "foo", "bar", " ", " ", "-x", "'a b'", '"c"', ";", "&&", "||", "|", "&", "\n", "'", '"', "\\", "$x", "$(foo)", "`",
    ">", "<", "2>&1", ">/dev/null", "&>", "#", "*", "?", "[", "]", "{", "}", "(", ")", "!", "~", "=", "a=1", "é",
    "\t", "a/*", "in", "do", "time ", "function ", "\r", "\u00a0", "<<E\n", "E\n", "$'", "\x01", "&>/dev/null", "|&",
    ";;", "coproc ",
]  # fmt: skip
BASH = shutil.which("bash")


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map(lambda pieces: "foo " + "".join(pieces)))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_what_is_plain_is_just_what_bash_runs(text: str):
    """No word that bash runs is missing from the reading that allow rules go by."""
    commands = plain_commands(text)
    if commands is None or not all(words[0] in ("foo", "bar") for words in commands):
        return
    assert BASH is not None
    shows = 'foo() { printf "%s\\0" foo "$@" end-of-call >&9; }; bar() { printf "%s\\0" bar "$@" end-of-call >&9; }\n'
    ran = subprocess.run(
        [BASH, "--norc", "-c", f"exec 9>&1\n{shows}{text}\nwait"],
        capture_output=True,
        env={"PATH": "/nonexistent", "LC_ALL": "C.UTF-8", "HOME": "~"},
        cwd="/dev/fd",  # no pattern finds a file here
        stdin=subprocess.DEVNULL,
        timeout=20,
        check=False,
    )
    found = [call.split("\0")[:-1] for call in ran.stdout.decode().split("end-of-call\0") if call]
    for words in found:
        assert words in commands, (text, ran.stderr)


def test_the_narrow_reading_knows_the_usual_lists():
    assert plain_commands("cd 'a b' && npm test 2>&1 | tail -5; ls src/*.py > /dev/null &") == [
        ["cd", "a b"],
        ["npm", "test"],
        ["tail", "-5"],
        ["ls", "src/*.py"],
    ]
    for text in (
        "ls $x",
        "ls > a",
        "(ls)",
        "ls \\x",
        "ls *.py",
        "ls {a,b}",
        "time ls",
        "[[ a ]]",
        "ls #",
        "a && ",
        "&& a",
    ):
        found = plain_commands(text)
        assert found is None or text == "a && ", text
