"""What the text of a command says: its parts with their words, what is dangerous about it, and what it would reach.

Nothing here says what a command may do: that is decided by the box it runs in. The words are for rules, for questions,
and for what must not even be tried.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferrule.core.phrases import joined, phrase

if TYPE_CHECKING:
    from collections.abc import Iterable


def names(text: str) -> frozenset[str]:
    """Many names, written as running text."""
    return frozenset(text.split())


PRINTERS = names("""
    echo printf cat tac tee head tail nl rev wc sort uniq cut tr paste comm column fold fmt grep egrep fgrep zgrep rg
    ag ack jq yq less more diff cmp git gh glab hub man info whatis apropos which whereis type hash help ls stat file
    touch mkdir cd test [ [[ : true false read unset export declare typeset local readonly notify-send say patch base64
    base32 xxd od hexdump sha256sum sha1sum md5sum cksum gzip gunzip bzip2 xz iconv code open xdg-open
""")
"""These show, compare or keep the texts that they are given; only an option can name a program for them to run."""


class Guess(str):
    """A word that is only known once the command runs; as text, what it most likely is."""

    __slots__ = ("single", "start")

    start: str
    """The literal text that it surely begins with."""
    single: bool
    """Whether it is one word for certain, as in quotes."""

    def __new__(cls, text: str, start: str = "", *, single: bool = False) -> Guess:
        word = super().__new__(cls, text)
        word.start, word.single = start, single
        return word


@dataclass(slots=True, frozen=True)
class Part:
    """One simple command, wrappers taken off: `env X=1 nice rm -rf a` has the part `rm -rf a`."""

    text: str
    words: tuple[str, ...]
    """Quotes removed; one that is only known once it runs is a `Guess`."""
    typed: tuple[str, ...] = ()
    """All words as they were typed, with assignments and wrappers; an allow rule must fit these."""
    wrappers: tuple[str, ...] = ()
    """The names of what it is wrapped in, outermost first: `("env", "nice")`."""
    literal: bool = True
    """Whether it is nothing but its literal words: no expansion, and no redirection to or from a file."""
    fed: bool = False
    """Whether its input is the output of another part."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """The files that its redirections name."""
    carries: tuple[str, ...] = ()
    """Texts that it hands to its program, which may run them."""

    @property
    def program(self) -> str:
        """The program's name without its folder; empty for a bare assignment or redirect, or where it is not known."""
        if not self.words or isinstance(self.words[0], Guess):
            return ""
        return self.words[0].rpartition("/")[2]

    @property
    def known(self) -> bool:
        """Whether its words are known before it runs."""
        return not any(isinstance(word, Guess) for word in self.words)

    @property
    def plain(self) -> bool:
        """Whether it is typed just as it runs: literal words, no assignment before it, and no wrapper."""
        return self.literal and self.typed == self.words and not self.wrappers


def likely_name(words: list[str]) -> str:
    """The same, and where it is not known, what it most likely is: `rm` for `x=rm; $x`."""
    name = words[0].rpartition("/")[2] if words else ""
    return "" if re.search(r"[$`)}*?…]|\[\w|\w\[", name) else name


@dataclass(slots=True, frozen=True)
class Danger:
    """Something that asks before it runs, whatever is allowed (S2), and why."""

    part: str
    why: str


STARTS_SHELL = phrase("it changes what runs when a shell or program starts")
OF_GIT_ITSELF = phrase("it changes what git runs by itself")
STARTS_WITH_GIT = phrase("it sets a program that git starts by itself")
RUNS_ITSELF = phrase("it changes what runs by itself")
SETTINGS = phrase("it changes settings that decide what runs")
OF_GUARDED = frozenset({STARTS_SHELL, OF_GIT_ITSELF, STARTS_WITH_GIT, RUNS_ITSELF, SETTINGS})
"""Why it is dangerous to write the guarded places of a workspace. A box holds such a change back, to be asked about."""


def warning_about(dangers: Iterable[Danger], reason: str = "") -> str:
    """What a user is told about a dangerous command besides the reason of the question; empty where there is none."""
    why = dict.fromkeys(danger.why for danger in dangers)
    if not why:
        return ""
    unsaid = [one for one in why if one not in reason]
    return phrase("Dangerous: {why}.", why=joined("; ", unsaid)) if unsaid else phrase("This command is dangerous.")


@dataclass(slots=True, frozen=True)
class Analysis:
    """A whole command. What could not be read is said in `unclear`."""

    command: str
    parts: tuple[Part, ...] = ()
    dangers: tuple[Danger, ...] = ()
    unclear: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """The hosts that it names."""
    network: str = ""
    """The part that is certain to need the network, if one is."""
