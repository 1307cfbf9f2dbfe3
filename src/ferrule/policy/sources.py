"""Where a rule comes from: it decides what its paths start from, and what a refusal names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ferrule.core.phrases import joined, phrase

if TYPE_CHECKING:
    from pathlib import Path


# What a rule that cannot work says of itself.


class RuleError(ValueError):
    """A rule that could never do what its author meant; says why, and what to write instead."""


class SourceKind(StrEnum):
    ORGANISATION = "organisation"
    USER = "user"
    PROJECT = "project"
    ENVIRONMENT = "environment"
    FLAG = "flag"
    PROGRAM = "program"
    SESSION = "session"
    BUILT_IN = "built-in"


_WITHOUT_FILE = {
    SourceKind.ORGANISATION: phrase("the organisation's settings"),
    SourceKind.USER: phrase("the person's settings"),
    SourceKind.PROJECT: phrase("the project's settings"),
    SourceKind.ENVIRONMENT: phrase("the environment"),
    SourceKind.FLAG: phrase("the command line"),
    SourceKind.PROGRAM: phrase("the program"),
    SourceKind.SESSION: phrase("an earlier «always» of this session"),
    SourceKind.BUILT_IN: phrase("Ferrule itself"),
}


@dataclass(slots=True, frozen=True)
class Source:
    """Who made a rule, and in which file."""

    kind: SourceKind = SourceKind.PROGRAM
    file: Path | None = None

    @property
    def root(self) -> Path | None:
        """What `/x` in a path rule starts from: the folder of a project's file; None for the workspace."""
        return self.file.parent if self.kind is SourceKind.PROJECT and self.file is not None else None

    @property
    def words(self) -> str:
        """For a model, who need not know where a person keeps their settings."""
        if self.file is None:
            return _WITHOUT_FILE[self.kind]
        name = self.file.name
        if self.kind is SourceKind.PROJECT:
            return phrase("the project's `{file}`", file=name)
        if self.kind is SourceKind.ORGANISATION:
            return phrase("the organisation's `{file}`", file=name)
        if self.kind is SourceKind.USER:
            return phrase("the person's `{file}`", file=name)
        return joined(" ", [_WITHOUT_FILE[self.kind], f"`{name}`"])

    @property
    def place(self) -> str:
        """For a person: the file itself where there is one."""
        return str(self.file) if self.file is not None else _WITHOUT_FILE[self.kind]


BUILT_IN = Source(SourceKind.BUILT_IN)
SESSION = Source(SourceKind.SESSION)
