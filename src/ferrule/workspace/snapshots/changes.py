"""What can be done to files, and how it is remembered."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.workspace.paths import Place

NO_FILE = ""
"""What a step expects where there must be no file."""


@dataclass(slots=True, frozen=True)
class Origin:
    """Who asked for a change."""

    session: str = ""
    turn: str = ""
    call: str = ""
    tool: str = ""


@dataclass(slots=True, frozen=True)
class Write:
    """Make a file hold `data`. `expect` is the digest it must have now (`NO_FILE`: it must not exist).

    `holds` is the content of that digest, where it is known: what is the same need not be digested again.
    """

    place: Place
    data: bytes = field(repr=False)
    mode: int | None = None
    expect: str | None = None
    through_hard_links: bool = False
    holds: bytes | None = field(default=None, repr=False)


@dataclass(slots=True, frozen=True)
class Delete:
    """Delete a file."""

    place: Place
    expect: str | None = None


@dataclass(slots=True, frozen=True)
class Move:
    """Give a file another path, where nothing may be."""

    place: Place
    to: Place


@dataclass(slots=True, frozen=True)
class SetMode:
    """Change the permission bits of a file."""

    place: Place
    mode: int


Step: TypeAlias = Write | Delete | Move | SetMode


class Operation(StrEnum):
    """What happened to a path."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    MOVE = "move"
    MODE = "mode"


class Phase(StrEnum):
    """Where a group of changes stands. `doing`, `undoing` and `redoing` outlive only a crash."""

    DOING = "doing"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"
    REDOING = "redoing"
    DROPPED = "dropped"
    """Undone, and its files were changed since: it cannot be redone."""


class Side(StrEnum):
    """The two ends of a change."""

    BEFORE = "before"
    AFTER = "after"

    @property
    def opposite(self) -> Side:
        return Side.AFTER if self is Side.BEFORE else Side.BEFORE


_LINK, _FOLDER = "link:", "folder"


class Node(StrEnum):
    """What can stand at a path."""

    FILE = "file"
    LINK = "link"
    FOLDER = "folder"


@dataclass(slots=True, frozen=True)
class State:
    """What stands at a path: a file by the name of its content and its permission bits; or a link, or a folder.

    A mode of None is what a new file gets from the person's umask; an empty digest a content that does not matter.
    """

    digest: str
    mode: int | None
    attributes: str = ""
    """The owner and the extended attributes of a file, as `attributes_of` has them; empty where they do not matter."""

    @classmethod
    def link(cls, target: str) -> State:
        return cls(_LINK + os.fsencode(target).hex(), None)

    @classmethod
    def folder(cls, mode: int) -> State:
        return cls(_FOLDER, mode)

    @property
    def node(self) -> Node:
        if self.digest == _FOLDER:
            return Node.FOLDER
        return Node.LINK if self.digest.startswith(_LINK) else Node.FILE

    @property
    def content(self) -> str:
        """The name of the content that the store must have; empty where there is none."""
        return self.digest if self.node is Node.FILE else ""

    @property
    def target(self) -> str:
        """Where a link leads."""
        return os.fsdecode(bytes.fromhex(self.digest.removeprefix(_LINK)))


@dataclass(slots=True, frozen=True)
class Change:
    """One thing that happened to one path. A state of None is a path without a file."""

    seq: int
    path: Path
    operation: Operation
    other: Path | None
    before: State | None
    after: State | None
    made: int
    """How many folders on the way had to be made."""
    covered: bool
    """Whether it can be undone; what is larger than the caps allow cannot."""
    repository: Path | None = None
    """The git directory that it lies in."""

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path,) if self.other is None else (self.path, self.other)

    @property
    def digest_after(self) -> str:
        """What it left at its path; `NO_FILE` where that is no file."""
        return self.after.digest if self.after else NO_FILE

    @property
    def mode_matters(self) -> bool:
        return self.before is not None and self.after is not None and self.before.mode != self.after.mode

    @property
    def other_attributes(self) -> bool:
        """Whether the owner or the extended attributes of its file changed with it."""
        before, after = self.before, self.after
        return before is None or after is None or before.attributes != after.attributes

    @property
    def of_files(self) -> bool:
        """Whether there is nothing but a file, or no file, at either end."""
        return all(state is None or state.node is Node.FILE for state in (self.before, self.after))

    @property
    def of_folders(self) -> bool:
        """Whether there is nothing but a folder, or no folder, at either end."""
        return all(state is None or state.node is Node.FOLDER for state in (self.before, self.after))

    def at(self, side: Side) -> dict[Path, State | None]:
        """What each path is at one end of the change."""
        if self.other is not None:
            there = self.before
            return {self.path: there, self.other: None} if side is Side.BEFORE else {self.path: None, self.other: there}
        return {self.path: self.before if side is Side.BEFORE else self.after}


@dataclass(slots=True, frozen=True)
class Group:
    """Changes that were made as one and are undone as one.

    People know it by its `number`, as one change: it is the only number that lists, diffs and undo speak of.
    """

    number: int
    time: float
    origin: Origin
    phase: Phase
    changes: tuple[Change, ...]
    others: tuple[Origin, ...] = ()
    """Commands that were under way too when it was seen, and may have made some of it."""
    git: tuple[Change, ...] = ()
    """What is kept of changes in git directories, to put back what was deleted and to say what stays."""

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(path for change in self.changes for path in change.paths)

    @property
    def uncovered(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if not change.covered)

    def __str__(self) -> str:
        return f"change {self.number}"


class Watch(StrEnum):
    """What is known of the workspace as it was before a command."""

    STARTING = "starting"
    """Nothing yet: the workspace is being looked at, or has too many files for that."""
    WATCHED = "watched"
    LOST = "lost"
    """It was known, and the copy of it broke."""


@dataclass(slots=True, frozen=True)
class Running:
    """A command that changes the workspace directly, from its begin until what it changed is in the history."""

    number: int
    process: str
    origin: Origin
    watch: Watch


@dataclass(slots=True, frozen=True)
class Transition:
    """What the history itself left at a path while a command was under way.

    A digest of None is nothing there, an empty one what was there before with another mode, and `UNKNOWN` something
    that was not read. `source` is where a file was moved from.
    """

    at: int
    path: Path
    digest: str | None
    mode: int | None
    source: Path | None


UNKNOWN = "?"
"""The digest of a content that was not read."""


@dataclass(slots=True, frozen=True)
class Caps:
    """How much the history keeps; what is oldest goes first."""

    total: int = 512 * 1024 * 1024
    """Bytes on the disk, the journal included."""
    age: float = 30 * 24 * 3600.0
    """Seconds."""
    changes: int = 20_000
    file: int = 64 * 1024 * 1024
    """The largest file whose contents are kept."""
    tree: int = 256 * 1024 * 1024
    """Bytes of contents that are kept so that what a shell command does can be undone."""
    entries: int = 200_000
    """Files and folders that are looked at for that."""
