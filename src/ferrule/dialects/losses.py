"""What an export could not say in a provider's form, and the words that took its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ROOT = "#"


@dataclass(slots=True, frozen=True)
class Loss:
    """One thing that did not survive, where it was, and what was done about it.

    `path` is a JSON Pointer into the tool's schema (`#/properties/tags`), or the field of a result
    (`attachments[0]`).
    """

    tool: str
    path: str
    keyword: str
    what: str

    def __str__(self) -> str:
        return f"{self.tool}: {self.keyword} at {self.path}: {self.what}"


@dataclass(slots=True, frozen=True)
class Exported:
    """A definition in a provider's form, with everything that form could not express."""

    definition: dict[str, Any]
    losses: tuple[Loss, ...] = ()


class Ledger:
    """Keeps account of one export: each loss, and the notes that belong in the tool's own description."""

    __slots__ = ("losses", "notes", "tool")

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.losses: list[Loss] = []
        self.notes: list[str] = []

    def fork(self) -> Ledger:
        """A copy to try something on that may have to be given up."""
        copy = Ledger(self.tool)
        copy.losses = list(self.losses)
        copy.notes = list(self.notes)
        return copy

    def lose(self, path: str, keyword: str, what: str) -> None:
        self.losses.append(Loss(self.tool, path, keyword, what))

    def say(self, path: str, node: dict[str, Any], words: str) -> None:
        """Put words where a model will read them: the node's description, or the tool's for the root."""
        if path == ROOT:
            if words not in self.notes:
                self.notes.append(words)
            return
        described = node.get("description")
        if not isinstance(described, str) or not described:
            node["description"] = words
        elif words not in described:
            node["description"] = f"{described} {words}"


def step(path: str, *parts: str | int) -> str:
    """A longer JSON Pointer."""
    for part in parts:
        text = str(part)
        if "~" in text or "/" in text:
            text = text.replace("~", "~0").replace("/", "~1")
        path = f"{path}/{text}"
    return path
