"""What a word becomes."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from ferrule.policy.commands.expansion import Loose, expand, holds_number, is_number
from ferrule.policy.commands.reader import read
from ferrule.policy.commands.syntax import Simple, Unreadable


def expanded(text: str, **variables: str) -> list[str]:
    command = read(f"echo {text}")[0].script.chains[0].links[0][1].commands[0]
    assert isinstance(command, Simple)
    return [value for word in command.words[1:] for value in expand(word, variables, command.source)]


@pytest.mark.parametrize(
    "text",
    [
        "a{b,c}d",
        "{a,b}{1,2}",
        "{1..4}",
        "{c..a}",
        "{a,{b,c}}",
        "{a}",
        "{a,b",
        "a{,b}",
        "{,}",
        "{rm,-rf,/}",
        "x{1..3}y",
        "'{a,b}'",
        "\\{a,b}",
        '"a"{b,c}',
        "a\\ b",
        "$'\\t'x",
        "{a..}",
        "{1..x}",
        "a,b",
        "}{",
        "{a,b}{",
        "{-1..1}",
    ],
)
def test_what_is_known_is_what_bash_makes_of_it(text: str):
    bash = shutil.which("bash")
    assert bash is not None
    printed = subprocess.run([bash, "-c", f"printf '%s\\n' {text}"], capture_output=True, text=True, check=True).stdout
    made = expanded(text)
    if text == "{c..a}":  # bash counts down; which words come is what matters
        made = made[::-1]
    assert made == (printed.splitlines() if printed != "\n" else [])


def test_a_known_variable_is_filled_in_and_split():
    assert expanded("$x", x="rm -rf") == ["rm", "-rf"]
    assert expanded('"$x"', x="rm -rf") == ["rm -rf"]
    assert expanded("a${x}b", x="-") == ["a-b"]
    assert expanded("$x", x="") == []


def test_an_unknown_variable_may_be_an_option_unless_its_start_is_known():
    def only(text: str, **variables: str) -> Loose:
        [word] = expanded(text, **variables)
        assert isinstance(word, Loose)
        return word

    assert only('"$x"').option
    assert not only('"./$x"').option
    assert only("./$x").option  # it may be split
    assert only('"-o$x"').start == "-o"
    assert not only("$USER").option
    assert not only("*.py").option
    assert only("*").option
    assert only("*.py").globs == ("*.py",)
    assert only("$(git rev-parse HEAD)").option is False
    assert only('"${n}p"').shape == ""
    assert only('"$((1+2))p"').shape == "1p"


def test_numbers_are_numbers_whatever_happens():
    assert is_number("-5")
    assert not is_number("5x")
    assert holds_number("RANDOM", {})
    assert holds_number("n", {"n": "7"})
    assert not holds_number("n", {"n": "a[0]"})
    [count] = expanded("$(ls | wc -l)")
    assert isinstance(count, Loose)
    assert count.number


def test_home_is_where_it_is_said_to_be():
    assert expanded("~/a ~", HOME="/h") == ["/h/a", "/h"]
    assert [type(word) for word in expanded("~root/a ~+", HOME="/h")] == [Loose, Loose]


@pytest.mark.parametrize("text", ["{a,b}" * 9, "{1..1000000}"])
def test_a_word_that_becomes_too_many_is_not_read(text: str):
    with pytest.raises(Unreadable):
        expanded(text)
