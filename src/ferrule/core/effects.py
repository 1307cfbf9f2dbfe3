"""What a call that was tried with its effects held back would change, and what it was kept from.

A tool whose calls can be tried (`CallInfo.tentative`) runs them aside from the real thing, as a shell command runs in a
layer above the workspace, and asks for the outcome with `ToolContext.approve`: the user decides about what the call
did, not about what its text seems to say.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ferrule.core.phrases import joined, phrase

if TYPE_CHECKING:
    from collections.abc import Sequence

Action = Literal["create", "change", "delete", "rename", "mode"]
NodeKind = Literal["file", "folder", "link", "special"]


@dataclass(slots=True, frozen=True)
class FileEffect:
    """What would happen to one path."""

    action: Action
    path: str
    """The real path, absolute."""
    shown: str
    """The same as the user knows it: relative to the workspace where it lies inside."""
    node: NodeKind = "file"
    detail: str = ""
    """What the name does not say: `0644 -> 0755`, a link's target, where it was renamed from, a binary file's size."""
    added: int = 0
    removed: int = 0
    """Lines of a text file."""
    recoverable: bool = True
    """Whether git holds what a deletion or a change would remove; accepted edits never lose what nobody has."""

    @property
    def words(self) -> str:
        """One line: `change src/a.py (+3 -1)`."""
        lines = f" (+{self.added} -{self.removed})" if self.added or self.removed else ""
        what = f"{self.shown}{'/' if self.node == 'folder' else ''}{lines}" + (
            f" ({self.detail})" if self.detail else ""
        )
        match self.action:
            case "create":
                return phrase("create {what}", what=what)
            case "change":
                return phrase("change {what}", what=what)
            case "delete":
                return phrase("delete {what}", what=what)
            case "rename":
                return phrase("rename {what}", what=what)
            case "mode":
                return phrase("change the permissions of {what}", what=what)


@dataclass(slots=True, frozen=True)
class Barrier:
    """Something that a call was kept from while it was tried: the network, a hidden or a guarded place, its time."""

    kind: Literal["network", "read", "write", "guarded", "time", "limit"]
    subject: str
    """The host or path, where that is known."""
    message: str
    """A whole sentence."""


@dataclass(slots=True, frozen=True)
class Effects:
    """All of it. `diff` is bounded; `left_out` counts the files whose changes it does not show."""

    files: tuple[FileEffect, ...] = ()
    diff: str = ""
    left_out: int = 0
    barriers: tuple[Barrier, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.files or self.barriers)

    @property
    def runs_again(self) -> bool:
        """Whether a yes runs the call again for real: it was kept from something, or made what cannot be applied."""
        return bool(self.barriers) or any(one.node == "special" for one in self.files)

    @property
    def counts(self) -> dict[str, int]:
        """How many of each: `{"create": 2, "delete": 1}`."""
        return dict(Counter(one.action for one in self.files))

    @property
    def reason(self) -> str:
        """What it would do and what it was kept from: "it would change 2 files and delete 1 file"."""
        counts = self.counts
        listed = [phrase(said, files=_files(counts[action])) for action, said in _ACTIONS.items() if counts.get(action)]
        done = [phrase("it would {what}", what=_in_words(listed))] if listed else []
        return joined(", ", [*done, *dict.fromkeys(_kept_from(barrier) for barrier in self.barriers)])

    def lines(self, most: int = 20) -> list[str]:
        """One line for each file and each barrier, bounded."""
        named = [one.words for one in self.files[:most]]
        if more := len(self.files) - len(named):
            named.append(phrase("… and {more} more", more=f"{more:,}"))
        return [*named, *(one.message for one in self.barriers)]

    def as_data(self, most: int = 1000) -> dict[str, Any]:
        """The same for JSON and for records."""
        return {
            "counts": self.counts,
            "files": [{"action": one.action, "path": one.shown, "node": one.node} for one in self.files[:most]],
            "kept_from": [{"kind": one.kind, "subject": one.subject} for one in self.barriers],
        }


_ACTIONS = {
    "create": phrase("create {files}"),
    "change": phrase("change {files}"),
    "delete": phrase("delete {files}"),
    "rename": phrase("rename {files}"),
    "mode": phrase("change the mode of {files}"),
}


def _files(count: int) -> str:
    return phrase("1 file") if count == 1 else phrase("{count} files", count=f"{count:,}")


def _in_words(listed: Sequence[str]) -> str:
    if len(listed) < 2:
        return joined(", ", listed)
    return phrase("{first} and {last}", first=joined(", ", listed[:-1]), last=listed[-1])


def _kept_from(barrier: Barrier) -> str:
    subject = barrier.subject
    match barrier.kind:
        case "network":
            return phrase("it tried to reach {host}", host=subject) if subject else phrase("it needs the network")
        case "read":
            return phrase("it tried to read `{path}`, which is hidden", path=subject)
        case "write" | "guarded":
            return phrase("it tried to write `{path}`, which is protected", path=subject)
        case "time":
            return phrase("its trial timed out")
        case _:
            return phrase("it met a limit").because(barrier.message.rstrip("."))


@dataclass(slots=True, frozen=True)
class Approval:
    """Whether the effects of a tried call may be made real."""

    approved: bool
    reason: str = ""
    """Why not, or on whose word: completes "it was not kept: …"."""
    suggestion: str = ""
    refused: bool = True
    """Of what was not approved: whether that is a refusal. In plan mode it is not: the call was only meant to be tried,
    and its result counts."""
