"""The words of `find`: which are actions, and which are only operands of the words before them.

`-delete` in `find . -name -delete` is a name. A word counts as an operand only where every `find` takes it for one: all
words before it are known, and so is how many operands each has. Behind anything else, each word that could be an action
counts as one, so what is said here is never less than what `find` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.policy.commands.parts import Guess, names

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_RUNS_OF_FD = frozenset({"-x", "-X", "--exec", "--exec-batch"})
_ALONE = names("""
    -- -H -L -P -E -X -d -s -x -a -and -o -or -not -daystart -depth -empty -executable -false -follow
    -ignore_readdir_race -ls -mount -nogroup -noignore_readdir_race -noleaf -nouser -nowarn -print -print0 -prune -quit
    -readable -true -warn -writable -xdev
""")
_WITH_ONE = lazy_pattern(
    r"-(?:[acm]min|[acm]time|[ac]?newer|newer[aBcm][aBcmt]|i?(?:name|path|wholename|lname|regex)|context|files0-from|fls"
    r"|fprint0?|fstype|[ug]id|group|user|inum|links|m(?:ax|in)depth|perm|printf|regextype|samefile|size|x?type|used)"
)


def deletes(arguments: list[str]) -> bool:
    """Whether `find` with these arguments may remove what it finds by itself."""
    return any(action == "-delete" for action, _ in _actions(arguments))


def started_by_find(name: str, arguments: list[str]) -> list[list[str]]:
    """The commands that `find` or `fd` starts."""
    if name.startswith("fd"):
        flags = [at for at, word in enumerate(arguments, 1) if word in _RUNS_OF_FD]
        found = [arguments[at : _end(arguments, at)] for at in flags]
    else:
        found = [words for action, words in _actions(arguments) if action != "-delete"]
    return [words for at, words in enumerate(found) if words and words not in found[:at]]


def _actions(arguments: list[str]) -> Iterator[tuple[str, list[str]]]:
    # Some end a command at any `+`, others only at one behind `{}`, and `-ok` at none.
    yield from _read(arguments, any_plus=True)
    yield from _read(arguments, any_plus=False)


def _read(arguments: list[str], *, any_plus: bool) -> Iterator[tuple[str, list[str]]]:
    at, surely = 0, True
    while at < len(arguments):
        word = arguments[at]
        at += 1
        operands: list[str] = []
        if isinstance(word, Guess):
            surely = surely and _is_one_path(word)
        elif word in _RUNS:
            behind = None if any_plus else "" if word.startswith("-ok") else "{}"
            operands = arguments[at : _end(arguments, at, behind) + 1]
            surely = surely and not any(isinstance(one, Guess) and not _is_one_path(one) for one in operands)
            yield word, operands[:-1] if operands[-1:] in ([";"], ["+"]) else operands
        elif word == "-delete":
            yield word, []
        elif word == "-fprintf" or _WITH_ONE.fullmatch(word):
            operands = arguments[at : at + (2 if word == "-fprintf" else 1)]
            surely = surely and all(not isinstance(one, Guess) or one.single for one in operands)
        elif word.startswith("-") and word not in _ALONE:
            surely = False
        if surely:
            at += len(operands)


def _end(arguments: list[str], at: int, behind: str | None = None) -> int:
    """Where the command that begins here ends: at a `;`, or at a `+` behind that word, or behind any."""
    for end in range(at, len(arguments)):
        if arguments[end] == ";" or (arguments[end] == "+" and behind in (None, arguments[end - 1])):
            return end
    return len(arguments)


def _is_one_path(word: Guess) -> bool:
    """Whether it surely is one word that is no part of an expression."""
    return word.single and word.start[:1] not in ("", *"-(),!;+")
