"""Telling options from operands the way programs do: clusters, attached values, abbreviations, `--`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from .expansion import Loose


@dataclass(slots=True, frozen=True)
class Grammar:
    """Which options a program takes; `short` and `long` say how each takes a value: `""` not, `:` yes, `?` if glued."""

    short: dict[str, str]
    long: dict[str, str]
    permute: bool
    """Whether options may follow operands."""
    digits: bool
    """Whether `-5` is a number rather than an option."""
    single: bool
    """Whether long options have a single dash."""


@lru_cache(maxsize=512)
def grammar(
    short: str = "", long: str = "", *, permute: bool = True, digits: bool = False, single: bool = False
) -> Grammar:
    """A grammar from a getopt-like line: `"nk:i?"` and `"reverse key= color?"`."""
    letters: dict[str, str] = {}
    for letter in short:
        if letter in ":?" and letters:
            letters[next(reversed(letters))] = letter
        else:
            letters[letter] = ""
    names = {
        name.rstrip("=?"): ":" if name.endswith("=") else "?" if name.endswith("?") else "" for name in long.split()
    }
    return Grammar(letters, names, permute, digits, single)


@dataclass(slots=True)
class Parsed:
    """Arguments, told apart. `options` are spelled in full: `-n`, `--reverse`."""

    options: list[tuple[str, str | None]]
    operands: list[str]
    unknown: list[str]
    """Options that the grammar does not have."""
    loose: str
    """The first word that may turn out to be an option."""
    first: int
    """Where the first operand stands."""

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(name in names for name, _ in self.options)

    def value(self, *names: str) -> str | None:
        """The value of the last of these options that is given."""
        return next((value for name, value in reversed(self.options) if name in names), None)

    def values(self, *names: str) -> list[str]:
        """All values of these options."""
        return [value for name, value in self.options if name in names and value is not None]


def parse(rules: Grammar, arguments: list[str]) -> Parsed:
    """Tell the options in `arguments` from the operands."""
    found = Parsed([], [], [], "", len(arguments))
    at, count = 0, len(arguments)
    while at < count:
        word = arguments[at]
        if type(word) is Loose and word.option:
            if (after := _half_known(rules, word, at, found)) is not None:
                at = after
                continue
            found.loose = found.loose or word
        if not word.startswith("-") or word == "-" or (type(word) is Loose and not word.option):
            found.first = min(found.first, at)
            if not rules.permute:
                found.operands += arguments[at:]
                return found
            found.operands.append(word)
            at += 1
            continue
        at += 1
        if word == "--":
            found.first = min(found.first, at)
            found.operands += arguments[at:]
            return found
        if word.startswith("--") or rules.single:
            at = _long(rules, word, arguments, at, found)
        elif rules.digits and word[1:2].isdigit():
            found.options.append(("-digit", word[1:]))
        else:
            at = _cluster(rules, word, arguments, at, found)
    return found


def _half_known(rules: Grammar, word: Loose, at: int, found: Parsed) -> int | None:
    """`--format=$x` and `-n$x`: the option is known, and only its value is not."""
    if word.many:
        return None
    if word.start.startswith("--") and "=" in word.start:
        name = word.start[2:].partition("=")[0]
        if rules.long.get(name):
            found.options.append(("--" + name, word))
            return at + 1
    elif len(word.start) > 1 and rules.short.get(word.start[1]):
        found.options.append((word.start[:2], word))
        return at + 1
    return None


def _taken(arguments: list[str], at: int, found: Parsed) -> str | None:
    if at >= len(arguments):
        return None
    value = arguments[at]
    if type(value) is Loose and value.many and not value.known:
        found.loose = found.loose or value  # no word, or several: what follows may shift
    return value


def _long(rules: Grammar, word: str, arguments: list[str], at: int, found: Parsed) -> int:
    written, equals, attached = word.lstrip("-").partition("=")
    name = written
    if name not in rules.long:
        starting = [one for one in rules.long if one.startswith(written)] if not rules.single else []
        if len(starting) != 1:
            found.unknown.append(word)
            return at
        name = starting[0]
    takes = rules.long[name]
    if takes == ":" and not equals:
        found.options.append(("--" + name, _taken(arguments, at, found)))
        return at + 1
    if equals and not takes:
        found.unknown.append(word)
    found.options.append(("--" + name, attached if equals else None))
    return at


def _cluster(rules: Grammar, word: str, arguments: list[str], at: int, found: Parsed) -> int:
    for index in range(1, len(word)):
        letter = word[index]
        takes = rules.short.get(letter)
        if takes is None:
            found.unknown.append(word)
            return at
        if takes == "":
            found.options.append(("-" + letter, None))
            continue
        attached = word[index + 1 :]
        if attached or takes == "?":
            found.options.append(("-" + letter, attached or None))
            return at
        found.options.append(("-" + letter, _taken(arguments, at, found)))
        return at + 1
    return at
