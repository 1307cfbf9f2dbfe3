"""Views: the same tools, fewer of them or under other names."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ferrule.registry.source import RegistryEntry, ToolSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.tool import Tool


class View(ToolSource):
    """A live look at another source; it changes as that changes."""

    def __init__(self, source: ToolSource) -> None:
        super().__init__()
        self.source = source

    @property
    def revision(self) -> int:
        return self.source.revision

    def __len__(self) -> int:
        return len(self.tools())


class Filtered(View):
    """Only the tools that pass a test."""

    def __init__(self, source: ToolSource, keep: Callable[[Tool[Any]], bool]) -> None:
        super().__init__(source)
        self._keep = keep

    def entry(self, name: str, version: str | None = None) -> RegistryEntry | None:
        found = self.source.entry(name, version)
        return found if found is not None and self._keep(found.tool) else None

    def entries(self) -> list[tuple[str, RegistryEntry]]:
        return [(name, entry) for name, entry in self.source.entries() if self._keep(entry.tool)]


class Renamed(View):
    """The same tools under other names; policy, records and models all see the new one."""

    def __init__(
        self,
        source: ToolSource,
        shown: Callable[[str], str],
        original: Callable[[str], str | None],
    ) -> None:
        super().__init__(source)
        self._shown = shown
        self._original = original
        self._copies: WeakKeyDictionary[Tool[Any], Tool[Any]] = WeakKeyDictionary()

    def entry(self, name: str, version: str | None = None) -> RegistryEntry | None:
        original = self._original(name)
        found = self.source.entry(original, version) if original is not None else None
        # Under an alias too a tool has its one shown name, which is what permission rules speak of.
        return self._rename(found, self._shown(found.tool.name)) if found else None

    def entries(self) -> list[tuple[str, RegistryEntry]]:
        return [(self._shown(name), self._rename(entry, self._shown(name))) for name, entry in self.source.entries()]

    def _rename(self, entry: RegistryEntry, name: str) -> RegistryEntry:
        if entry.tool.name == name:
            return entry
        renamed = self._copies.get(entry.tool)
        if renamed is None or renamed.name != name:
            renamed = copy.copy(entry.tool)
            renamed.name = name
            self._copies[entry.tool] = renamed
        return RegistryEntry(renamed, entry.origin, entry.enabled)


def renamed_by(source: ToolSource, names: dict[str, str]) -> Renamed:
    """Rename by a table; refuses two tools under one name, and hides the old name of a renamed tool."""
    back = {new: old for old, new in names.items()}
    if len(back) != len(names):
        raise ValueError("Two tools cannot be shown under one name.")
    for new in back:
        if new not in names and source.has(new):
            raise ValueError(f"`{new}` is the name of another tool already.")

    def original(name: str) -> str | None:
        return back.get(name, None if name in names else name)

    return Renamed(source, lambda name: names.get(name, name), original)
