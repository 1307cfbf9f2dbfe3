"""Where tools are looked up: a registry, or a view of one. Both answer the same questions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ferrule.core.tool import Tool
    from ferrule.registry.views import View


@dataclass(slots=True, eq=False)
class RegistryEntry:
    """A registered tool, who brought it, and whether it is switched on."""

    tool: Tool[Any]
    origin: str
    enabled: bool


class ToolSource(ABC):
    """Named tools, of which the enabled ones are shown."""

    def __init__(self) -> None:
        self._cached: tuple[int, list[Tool[Any]]] = (-1, [])
        self._cached_groups: tuple[int, tuple[dict[str, list[Tool[Any]]], dict[str, list[Tool[Any]]]]] = (
            -1,
            ({}, {}),
        )
        self._cached_search: tuple[int, list[tuple[Tool[Any], str, str]]] = (-1, [])

    @property
    @abstractmethod
    def revision(self) -> int:
        """Grows with every change, so that what was derived from the tools can be kept until then."""

    @abstractmethod
    def entry(self, name: str, version: str | None = None) -> RegistryEntry | None:
        """The entry under a name or alias; the current version unless one is pinned."""

    @abstractmethod
    def entries(self) -> list[tuple[str, RegistryEntry]]:
        """Every name with its current entry, disabled ones included, in order of registration."""

    def get(self, name: str, version: str | None = None) -> Tool[Any] | None:
        """The tool under a name or alias, or None."""
        found = self.entry(name, version)
        return found.tool if found else None

    def has(self, name: str) -> bool:
        return self.entry(name) is not None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.entry(name) is not None

    def __iter__(self) -> Iterator[Tool[Any]]:
        return iter(self.tools())

    def tools(self) -> list[Tool[Any]]:
        """The enabled tools. Kept until something changes; do not change the list."""
        revision = self.revision
        if self._cached[0] != revision:
            self._cached = (revision, [entry.tool for _, entry in self.entries() if entry.enabled])
        return self._cached[1]

    def names(self) -> list[str]:
        """The names of the enabled tools."""
        return [tool.name for tool in self.tools()]

    # Finding

    def by_category(self, category: str) -> list[Tool[Any]]:
        return list(self._groups()[0].get(category, ()))

    def by_tag(self, tag: str) -> list[Tool[Any]]:
        return list(self._groups()[1].get(tag, ()))

    def categories(self) -> list[str]:
        return sorted(self._groups()[0])

    def tags(self) -> list[str]:
        return sorted(self._groups()[1])

    def _groups(self) -> tuple[dict[str, list[Tool[Any]]], dict[str, list[Tool[Any]]]]:
        revision = self.revision
        if self._cached_groups[0] != revision:
            categories: dict[str, list[Tool[Any]]] = {}
            tags: dict[str, list[Tool[Any]]] = {}
            for tool in self.tools():
                categories.setdefault(tool.category, []).append(tool)
                for tag in tool.tags:
                    tags.setdefault(tag, []).append(tool)
            self._cached_groups = (revision, (categories, tags))
        return self._cached_groups[1]

    def search(self, query: str, most: int = 20) -> list[Tool[Any]]:
        """Tools whose name, display name or description holds every word of the query, best first."""
        from ferrule.registry.search import index, search

        revision = self.revision
        if self._cached_search[0] != revision:
            self._cached_search = (revision, index(self.tools()))
        return search(self._cached_search[1], query, most)

    # Views: each is live and can be viewed again

    def filtered(self, keep: Callable[[Tool[Any]], bool]) -> View:
        """Only the tools that pass a test, which must depend on the tool alone."""
        from ferrule.registry.views import Filtered

        return Filtered(self, keep)

    def only(self, names: Iterable[str] | str) -> View:
        """Only the named tools, as an agent's filter lists them; `all` means every tool."""
        wanted = frozenset((names,) if isinstance(names, str) else names)
        if "all" in wanted:
            return self.filtered(lambda tool: True)
        wanted = wanted | self._meant(wanted)
        return self.filtered(lambda tool: tool.name in wanted)

    def _meant(self, names: frozenset[str]) -> frozenset[str]:
        """The names of the tools that aliases stand for."""
        return frozenset(found.name for name in names if (found := self.get(name)) is not None)

    def without(self, names: Iterable[str]) -> View:
        """All but the named tools."""
        unwanted = frozenset(names)
        unwanted = unwanted | self._meant(unwanted)
        return self.filtered(lambda tool: tool.name not in unwanted)

    def read_only(self) -> View:
        """Only the tools that change nothing: what plan mode shows."""
        return self.filtered(lambda tool: tool.read_only)

    def writing(self) -> View:
        """Only the tools that may change something."""
        return self.filtered(lambda tool: not tool.read_only)

    def for_role(self, role: str | None) -> View:
        """Only the tools that a role may use."""
        return self.filtered(lambda tool: not tool.roles or role in tool.roles)

    def for_mode(self, mode: str) -> View:
        """What a permission mode shows: `plan` the read-only tools, any other mode all of them."""
        return self.read_only() if mode == "plan" else self.filtered(lambda tool: True)

    def prefixed(self, prefix: str) -> View:
        """The same tools under longer names: `prefixed("fs_")` shows `read` as `fs_read`."""
        from ferrule.registry.views import Renamed

        return Renamed(self, lambda name: prefix + name, lambda name: _without_prefix(prefix, name))

    def renamed(self, names: Mapping[str, str]) -> View:
        """Some tools under other names: `renamed({"read": "open_file"})`."""
        from ferrule.registry.views import renamed_by

        return renamed_by(self, dict(names))


def _without_prefix(prefix: str, name: str) -> str | None:
    return name[len(prefix) :] if name.startswith(prefix) else None
