"""Which words of `find` are actions: never fewer than those that find itself takes for one (S2)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.policy.commands.analyse import analyse
from ferrule.policy.commands.find_words import deletes, started_by_find
from ferrule.policy.commands.parts import Guess

_WORDS = """
    -delete -delete -exec -execdir -ok -okdir ; ; + {} ./said . a -a -o ! ( ) , -name -iname -newer -newermt -newerXY
    -type f -mtime 1 -printf -fprint -fprintf -fls -depth -d 1 -maxdepth -prune -print -L -P -H -D tree -O3 -- -f
    -files0-from -regextype -perm -size -samefile -quit -nonsense -noop --delete delete -not -daystart -anewer -context
"""


def _real_find(arguments: list[str], folder: Path) -> list[str]:
    """The predicates that the real find makes of its words; none where it refuses them."""
    ran = subprocess.run(
        ["find", "-D", "tree", *arguments], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        check=False,
    )  # fmt: skip
    found = re.search(r"^Predicate List:\n(.*)$", ran.stderr, re.MULTILINE)
    return re.findall(r"\[(\S+)\]", found[1]) if found else []


def _tree(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name in ("a", "f", "1", "delete"):
        (folder / name).touch()
    said = folder / "said"
    said.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > ../said.txt\n')
    said.chmod(0o755)
    return folder


@settings(max_examples=600)
@given(st.lists(st.sampled_from(_WORDS.split()), max_size=9))
def test_s2_whatever_find_takes_for_an_action_is_one(
    tmp_path_factory: pytest.TempPathFactory, arguments: list[str]
) -> None:
    predicates = _real_find(arguments, _tree(tmp_path_factory.getbasetemp() / "find"))
    if "-delete" in predicates:
        assert deletes(arguments)
    if {"-exec", "-execdir", "-ok", "-okdir"} & {*predicates}:
        assert started_by_find("find", arguments)


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["a", "+", "{}", "-delete", "-exec", "x{}", "-name"]), max_size=5), st.booleans())
def test_s2_what_find_starts_is_known_word_by_word(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], several: bool
) -> None:
    folder = _tree(tmp_path_factory.getbasetemp() / "find")
    heard = folder.parent / "said.txt"
    heard.unlink(missing_ok=True)
    arguments = ["a", "-exec", "./said", *words, *(["{}", "+"] if several else [";"])]
    _real_find(arguments, folder)
    if heard.exists():
        said = heard.read_text().split("\n")[:-1]
        started = [[word.replace("{}", "a") for word in one[1:]] for one in started_by_find("find", arguments)]
        assert said in started or said == [""]  # what printf makes of nothing


@pytest.mark.parametrize(
    "command",
    [
        "find . -name -delete",
        "find . -newer -exec",
        "find . -newer -exec rm -rf x",
        "find -L . src -type f -iname -delete -print",
        "find . -fprintf out -delete",
        "find . -path -exec -prune -o -print",
        'find . -name "$x" -newermt -delete',
        "find . -exec grep -q -- -delete {} \\;",
        "git log --grep -delete",
        "git log -S -delete --author -exec",
        "git stash push -m drop",
        "git push origin -o --force",
        "git branch --contains -D",
        "grep -rn -e -delete .",
    ],
)
def test_a_name_that_reads_like_an_action_is_no_danger(command: str) -> None:
    assert analyse(command).dangers == ()


@pytest.mark.parametrize(
    "command",
    [
        "find . -delete",
        "find . -name x -delete",
        "find . -name -name -delete",
        "find . -name -delete -delete",
        "find . -exec echo {} + -delete",
        "find . -exec echo + -delete ';'",  # busybox ends it at the plus
        "find . -exec flock + rm -rf {} ';'",  # GNU find does not
        "find . -ok echo {} + -delete ';'",
        "find -D -name -delete .",
        "find -f -name -delete",  # of BSD
        "find . -depth -delete",
        "find . -unheard-of -name -delete",
        "find . -name $x -name -delete",
        "find . $x -delete",
        'find "$x" -name -delete',
        "find *  -name -delete",
        'find . -exec echo "$x" -delete ";"',
        "find . -exec sudo ls {} +",
        "find . -name -exec -exec rm -rf {} +",
        "git stash drop -m drop",
        "git push --repo -o --force",
        "git push -o -o --force",
        "git push -o $x --force",
        "git push $x -o --force",
        "git branch --contains x -D y",
        "fd -x rm",
        "fd . -X rm -rf",
    ],
)
def test_what_could_be_an_action_is_a_danger(command: str) -> None:
    assert analyse(command).dangers


def test_a_word_that_may_become_several_hides_no_action() -> None:
    assert not deletes(["-name", Guess("$x", single=True), "-name", "-delete"])
    assert deletes(["-name", Guess("$x"), "-name", "-delete"])
    assert deletes([Guess("$x", single=True), "-name", "-delete"])
    assert not deletes([Guess("src/$x", "src/", single=True), "-name", "-delete"])
