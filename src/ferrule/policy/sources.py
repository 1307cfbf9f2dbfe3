"""Where a rule comes from: it decides what its paths start from, and what a refusal names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


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
    SourceKind.ORGANISATION: "the organisation's settings",
    SourceKind.USER: "the person's settings",
    SourceKind.PROJECT: "the project's settings",
    SourceKind.ENVIRONMENT: "the environment",
    SourceKind.FLAG: "the command line",
    SourceKind.PROGRAM: "the program",
    SourceKind.SESSION: "an earlier «always» of this session",
    SourceKind.BUILT_IN: "Ferrule itself",
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
        if self.file is None or self.kind is SourceKind.PROJECT:
            return f"the project's `{self.file.name}`" if self.file is not None else _WITHOUT_FILE[self.kind]
        return f"{_WITHOUT_FILE[self.kind].removesuffix(' settings')} `{self.file.name}`"

    @property
    def place(self) -> str:
        """For a person: the file itself where there is one."""
        return str(self.file) if self.file is not None else _WITHOUT_FILE[self.kind]


BUILT_IN = Source(SourceKind.BUILT_IN)
SESSION = Source(SourceKind.SESSION)
