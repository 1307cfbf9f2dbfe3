"""Builds what a program is started with: its words, its variables, and the option stream of a sandbox.

Options are ours (`LiteralString`, which the type checker enforces). Text from outside (manifests, settings, file names)
is the value of an option or an operand. It never contains a NUL, which ends a word for the kernel and for the
NUL-separated stream of `bwrap --args`, and no operand looks like an option.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, LiteralString

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class BadArgumentError(ToolError):
    """A text that cannot be passed to a program as the one word that it is meant to be."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind=ErrorKind.VALIDATION)


def wrong_text(text: str) -> str | None:
    """Why a text cannot be a word or a variable's value, to come after its name; None for one that can."""
    if "\0" in text:
        return phrase("contains a NUL character")
    if not text.isascii():
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            return phrase("contains half a character (a lone surrogate)")
    return None


def _require(text: str, what: str) -> str:
    if (wrong := wrong_text(text)) is not None:
        raise BadArgumentError(phrase("{what} {wrong}.", what=what, wrong=wrong))
    return text


def wrong_variable(name: str, value: str) -> str | None:
    """Why a variable cannot be set, to come after its name; None for one that can."""
    if not name or "=" in name or wrong_text(name) is not None:
        return phrase("is not a variable's name")
    return wrong_text(value)


def checked_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables as they are; raises `BadArgumentError`, which names the one at fault and never its value."""
    for name, value in environment.items():
        if (wrong := wrong_variable(name, value)) is not None:
            raise BadArgumentError(
                phrase("The variable `{name}` {wrong}.", name=name.replace("\0", "\\0"), wrong=wrong)
            )
    return dict(environment)


class CommandLine(tuple[str, ...]):
    """The words a program is started with, its own name first. Raises `BadArgumentError` for a bad one."""

    __slots__ = ()

    def __new__(cls, words: Iterable[str]) -> CommandLine:
        made = super().__new__(cls, words)
        if not made or not made[0] or made[0].startswith("-"):  # whatever starts it would take it for an option
            raise BadArgumentError(phrase("`{name}` is not a program's name.", name=made[0] if made else ""))
        for at, word in enumerate(made):
            if wrong_text(word) is not None:
                _require(
                    word, phrase("Argument {number} of `{program}`", number=at, program=made[0].replace("\0", "\\0"))
                )
        return made


class ProgramWords:
    """Words in order, options apart from values. `CommandLine` is what comes of it, or a stream for `bwrap --args`."""

    __slots__ = ("_words",)

    def __init__(self, *options: LiteralString) -> None:
        self._words: list[str] = [*options]

    def option(self, name: LiteralString, *values: str | int) -> ProgramWords:
        """One that takes the next words as they are, so that these may look like anything."""
        self._words += (name, *(_require(str(value), f"`{name}`") for value in values))
        return self

    def joined(self, name: LiteralString, value: str) -> ProgramWords:
        """One word: `--name=` and its value."""
        self._words.append(_require(f"{name}{value}", f"`{name}`"))
        return self

    def operand(self, *texts: str) -> ProgramWords:
        """Words that a program tells from its options by their first character."""
        for text in texts:
            if text.startswith("-"):
                raise BadArgumentError(phrase("`{text}` looks like an option, and is refused.", text=text[:200]))
            self._words.append(_require(text, phrase("An argument")))
        return self

    def add(self, others: ProgramWords) -> ProgramWords:
        self._words += others._words
        return self

    def line(self, program: str, starts: CommandLine | tuple[()] = ()) -> CommandLine:
        """The whole line of a program that is given these words, and `starts` another."""
        return CommandLine((program, *self._words, *starts))

    def names(self, start: str | tuple[str, ...]) -> bool:
        """Whether a word begins so."""
        return any(word.startswith(start) for word in self._words)

    def stream(self) -> bytes:
        """Each word with a NUL after it, as `bwrap --args` reads them."""
        return b"".join(os.fsencode(word) + b"\0" for word in self._words)


def rule_text(text: str) -> str:
    """A text in quotes, for the rules of macOS's sandbox, where nothing in it ends the quotes."""
    return '"' + _require(text, phrase("A path")).replace("\\", "\\\\").replace('"', '\\"') + '"'
