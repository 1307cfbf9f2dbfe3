"""What a call touches: the one declaration that permission, scheduling, snapshots and the audit line share; and the
modes that say how much of it needs no question.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path


class Touch(NamedTuple):
    """A read or a write of one named resource.

    A resource has a scheme and a name: `path:/home/me/a.txt`, `host:example.org`, `shell:main`. Names of
    `path` resources nest: touching a folder touches what is in it. `*` is everything there is.
    """

    resource: str
    write: bool = False

    def __str__(self) -> str:
        return f"{'write' if self.write else 'read'} {self.resource}"


Touches = tuple[Touch, ...]

NOTHING: Touches = ()
"""What a tool touches that neither reads nor writes anything: `touches=NOTHING`."""
FOR_WRITING = ":write"
"""The end of a granted folder that may be written too."""
READS_ANYTHING: Touches = (Touch("*"),)
WRITES_ANYTHING: Touches = (Touch("*", write=True),)


class Restrictions(Protocol):
    """Rules about real paths. An answer is the rule in words, or None. `roots` are the session's, its own first."""

    def denies_read(self, path: str, roots: tuple[str, ...]) -> str | None: ...

    def denies_write(self, path: str, roots: tuple[str, ...]) -> str | None: ...

    def asks_to_write(self, path: str, start: str, roots: tuple[str, ...]) -> str | None:
        """Who must be asked before a path is written by a call that only named `start`."""
        ...

    def holds_back(self, path: str, start: str, roots: tuple[str, ...]) -> str | None:
        """Who keeps the content of a path out of a search from `start` on."""
        ...

    def held_back(self, paths: Sequence[str], start: str, roots: tuple[str, ...]) -> Sequence[bool]:
        """Of each of many paths whether anyone does."""
        ...

    def may_hold_back(self, start: str, roots: tuple[str, ...]) -> bool:
        """Whether a search from `start` on may have to hold back anything."""
        ...

    def held_in(self, folder: str, listing: str, start: str, roots: tuple[str, ...]) -> Sequence[str]:
        r"""Those of a listing of the paths below a folder, each as `./a/b\0`, that anyone does."""
        ...

    def left_out(self, start: str, roots: tuple[str, ...]) -> Sequence[str]:
        """Globs of names, of files and folders, that it need not even open."""
        ...

    def hides(self, path: str, roots: tuple[str, ...]) -> str | None:
        """Who hides a path from commands: what is denied, and what asks before it is read."""
        ...

    def hidden_among(self, paths: Iterable[str], roots: tuple[str, ...]) -> Sequence[str]:
        """Of a listing those that are hidden, without what lies in a folder that is."""
        ...

    def may_hide(self, folder: str, names: str, roots: tuple[str, ...]) -> Sequence[str]:
        """Of the names in a real folder, each with `/` behind it, those that are hidden, or may be for what they hold:
        to be asked again each time.
        """
        ...

    def hidden_places(self, roots: tuple[str, ...]) -> Sequence[str]:
        """Paths that are hidden from commands whether they are there or not."""
        ...

    def reading_bases(self, roots: tuple[str, ...]) -> Sequence[str]:
        """The fixed beginnings of paths whose reading rules deny or ask about."""
        ...

    def unwritable_places(self, roots: tuple[str, ...]) -> Sequence[str]:
        """Paths that no command may write."""
        ...

    @property
    def denies_reads(self) -> bool:
        """Whether reading anything is denied at all."""
        ...

    @property
    def denied_writes(self) -> Sequence[str]:
        """The rules that deny writing, as they are now."""
        ...

    @property
    def reading_rules(self) -> Sequence[str]:
        """The rules that deny reading or ask about it, as they are now: a session may get more."""
        ...


def reads(scheme: str, name: object) -> Touch:
    """A read of one resource: `reads("path", "/etc/hosts")`."""
    return Touch(f"{scheme}:{name}")


def writes(scheme: str, name: object) -> Touch:
    """A write of one resource: `writes("path", "/tmp/a")`."""
    return Touch(f"{scheme}:{name}", write=True)


def located(
    said: Iterable[Touch] | Touch | None, fill: Callable[[str], str], directory: Path
) -> Iterable[Touch] | Touch | None:
    """Touches that a tool declared as patterns, for one call: parameters put in, relative paths taken from a folder.

    A path is the real one, so that two names of one file are known to be one.
    """
    if said is None or not (isinstance(said, tuple) and any("{" in one.resource for one in _each(said))):
        return said
    return tuple(_located(touch, fill, directory) for touch in _each(said))


def _each(said: Iterable[Touch] | Touch) -> Iterable[Touch]:
    return (said,) if isinstance(said, Touch) else said


def _located(touch: Touch, fill: Callable[[str], str], directory: Path) -> Touch:
    if "{" not in touch.resource:
        return touch
    scheme, _, name = touch.resource.partition(":")
    name = fill(name)
    if scheme == "path":
        path = os.path.join(directory, os.path.expanduser(name))  # noqa: PTH118, PTH111 - pure text
        name = os.path.normpath(path) if "\0" in name else os.path.realpath(path)
    return Touch(f"{scheme}:{name}", touch.write)


class Mode(StrEnum):
    """How much runs without asking."""

    DEFAULT = "default"
    PLAN = "plan"
    ACCEPT_EDITS = "accept-edits"
    DONT_ASK = "dont-ask"
    BYPASS = "bypass"

    @classmethod
    def _missing_(cls, value: object) -> Mode:
        from ferrule.core.nearest import nearest

        close = nearest(value, cls, most=1) if isinstance(value, str) else []
        meant = f" Did you mean '{close[0]}'?" if close else ""
        raise ValueError(f"There is no mode {value!r}.{meant} Modes are {', '.join(cls)}.")


LOOSEST_FIRST = (Mode.BYPASS, Mode.ACCEPT_EDITS, Mode.DEFAULT, Mode.DONT_ASK, Mode.PLAN)
"""The modes from the one in which most runs without asking to the one in which least does."""
