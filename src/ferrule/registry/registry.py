"""The registry: every tool by name and version, safe under threads and tasks."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ferrule.core.events import RegistryEvent
from ferrule.core.tool import Kind, Tool, description_of, refuse_hidden
from ferrule.registry.source import RegistryEntry, ToolSource

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("ferrule.registry")


class NameTaken(ValueError):  # noqa: N818 - reads as what it says
    """Another tool has this name; nothing was changed."""


class ToolInfo(NamedTuple):
    """A tool as a list shows it."""

    name: str
    display_name: str
    kind: Kind
    version: str
    category: str
    tags: tuple[str, ...]
    short: str
    origin: str
    enabled: bool


class Registry(ToolSource):
    """Tools by name. Looking one up takes no lock and the same time however many there are."""

    def __init__(self, tools: Iterable[Tool[Any]] = (), *, replace: bool = False) -> None:
        super().__init__()
        self._replace = replace
        self._lock = threading.RLock()
        self._revision = 0
        self._versions: dict[str, dict[str, RegistryEntry]] = {}
        self._shown: dict[str, RegistryEntry] = {}  # the current version under its name, and under each alias
        self._aliases: dict[str, str] = {}
        self._listeners: list[Callable[[RegistryEvent], None]] = []
        self._news: deque[RegistryEvent] = deque()
        self._announcing = False
        if isinstance(tools, Tool):
            raise TypeError(f"Tools come in a list, also where there is one: write [{tools.name}].")
        if not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise TypeError(f"Tools come in a list, not as {tools!r}.")
        for tool in tools:
            self.register(tool)

    # Changing

    def register(
        self,
        tool: Tool[Any],
        *,
        replace: bool | None = None,
        origin: str = "dynamic",
        aliases: Iterable[str] = (),
        current: bool = False,
    ) -> None:
        """Add a tool.

        A name and version that are taken are refused (`NameTaken`) unless `replace` says otherwise. Another version
        of a known tool is added beside it and becomes the current one only when `current` says so: nobody takes
        over a name by accident.
        """
        _must_be_tool(tool)
        aliases = tuple(alias for alias in aliases if alias != tool.name)
        may_replace = self._replace if replace is None else replace
        with self._lock:
            known = self._versions.get(tool.name, {})
            taken = tool.version in known
            if taken and not may_replace:
                raise NameTaken(
                    f"A tool `{tool.name}` {tool.version} is registered already. Pass replace=True to put this one "
                    f"in its place, or give it another name or version."
                )
            self._refuse_taken(tool.name, aliases)
            # Replacing a tool that somebody switched off does not switch it on again.
            switched_off = known and not any(one.enabled for one in known.values())
            enabled = tool.enabled and not switched_off
            entry = RegistryEntry(tool, origin, enabled)
            was_current = not known or (taken and self._shown[tool.name] is known[tool.version])
            self._versions.setdefault(tool.name, {})[tool.version] = entry
            for alias in aliases:
                self._aliases[alias] = tool.name
            if was_current or current:
                self._show(tool.name, entry)
            else:
                self._show(tool.name, self._shown[tool.name])
            self._announce("replaced" if taken else "registered", entry)

    def register_many(
        self, tools: Iterable[Tool[Any]], *, replace: bool | None = None, origin: str = "dynamic"
    ) -> None:
        """Add several tools, or none: a refused one leaves the registry as it was."""
        tools = list(tools)
        may_replace = self._replace if replace is None else replace
        with self._lock:
            seen: set[tuple[str, str]] = set()
            for tool in tools:
                _must_be_tool(tool)
                key = (tool.name, tool.version)
                if not may_replace and (key in seen or self.get(*key) is not None):
                    raise NameTaken(f"A tool `{tool.name}` {tool.version} is registered already; none was added.")
                self._refuse_taken(tool.name, ())
                seen.add(key)
            for tool in tools:
                self.register(tool, replace=may_replace, origin=origin)

    def unregister(self, name: str, version: str | None = None) -> bool:
        """Remove a tool, or one version of it; False when there was none."""
        with self._lock:
            versions = self._versions.get(name)
            if not versions or (version is not None and version not in versions):
                return False
            gone = [versions.pop(version)] if version is not None else [versions.pop(key) for key in list(versions)]
            if not versions:
                del self._versions[name]
                self._shown.pop(name, None)
                for alias in [alias for alias, target in self._aliases.items() if target == name]:
                    del self._aliases[alias]
                    self._shown.pop(alias, None)
            elif self._shown[name] in gone:
                self._show(name, next(reversed(versions.values())))
            for entry in gone:
                self._announce("unregistered", entry)
            return True

    def make_current(self, name: str, version: str) -> None:
        """Choose which version runs when a call pins none."""
        with self._lock:
            name = self._aliases.get(name, name)
            entry = self._versions.get(name, {}).get(version)
            if entry is None:
                raise KeyError(f"There is no `{name}` {version}.")
            self._show(name, entry)
            self._announce("made current", entry)

    def enable(self, name: str) -> None:
        """Show a tool again, in every version."""
        self._switch(name, enabled=True)

    def disable(self, name: str) -> None:
        """Hide a tool while keeping it: calls are refused and no view shows it."""
        self._switch(name, enabled=False)

    def subscribe(self, listener: Callable[[RegistryEvent], None]) -> Callable[[], None]:
        """Hear of every change, in order; returns what ends the subscription.

        A listener is called while the change is made: it should be quick and never wait for another thread.
        """
        with self._lock:
            self._listeners = [*self._listeners, listener]

        def unsubscribe() -> None:
            with self._lock:
                self._listeners = [one for one in self._listeners if one is not listener]

        return unsubscribe

    # Looking

    @property
    def revision(self) -> int:
        return self._revision

    def entry(self, name: str, version: str | None = None) -> RegistryEntry | None:
        if version is None:
            return self._shown.get(name)
        versions = self._versions.get(self._aliases.get(name, name))
        return versions.get(version) if versions else None

    def entries(self) -> list[tuple[str, RegistryEntry]]:
        with self._lock:
            return [(name, self._shown[name]) for name in self._versions]

    def versions(self, name: str) -> list[str]:
        """Every registered version of a tool, oldest registration first."""
        with self._lock:
            return list(self._versions.get(name, ()))

    def list(self) -> list[ToolInfo]:
        """What there is, disabled tools included, for people and programs that manage tools."""
        return [
            ToolInfo(
                name,
                tool.display_name,
                tool.kind,
                tool.version,
                tool.category,
                tuple(sorted(tool.tags)),
                description_of(tool).short,
                entry.origin,
                entry.enabled,
            )
            for name, entry in self.entries()
            for tool in (entry.tool,)
        ]

    def __len__(self) -> int:
        return len(self._versions)

    @property
    def size(self) -> int:
        return len(self._versions)

    # Inside; the lock is held

    def _refuse_taken(self, name: str, aliases: tuple[str, ...]) -> None:
        if name in self._aliases:
            raise NameTaken(f"`{name}` is an alias of `{self._aliases[name]}` already.")
        for alias in aliases:
            if alias in self._versions or self._aliases.get(alias, name) != name:
                raise NameTaken(f"The alias `{alias}` is the name of another tool already.")

    def _show(self, name: str, entry: RegistryEntry) -> None:
        self._shown[name] = entry
        for alias, target in self._aliases.items():
            if target == name:
                self._shown[alias] = entry

    def _switch(self, name: str, *, enabled: bool) -> None:
        with self._lock:
            name = self._aliases.get(name, name)
            if name not in self._versions:
                raise KeyError(f"There is no tool `{name}`.")
            for entry in self._versions[name].values():
                entry.enabled = enabled
            self._announce("enabled" if enabled else "disabled", self._shown[name])

    def _announce(self, change: str, entry: RegistryEntry) -> None:
        self._revision += 1
        self._news.append(RegistryEvent(change, entry.tool.name, entry.tool.version, entry.origin))
        if self._announcing:
            return  # a listener made this change: everyone hears of the one before it first
        self._announcing = True
        try:
            while self._news:
                event = self._news.popleft()
                for listener in self._listeners:
                    try:
                        listener(event)
                    except Exception:
                        logger.exception("A registry listener failed on %s", event)
        finally:
            self._announcing = False


def _must_be_tool(tool: object) -> None:
    if isinstance(tool, type) and issubclass(tool, Tool):
        raise TypeError(f"A registry holds tools, not classes of them: write {tool.__name__}().")
    refuse_hidden(tool)
    if not isinstance(tool, Tool):
        raise TypeError(
            f"A registry holds tools, not {tool!r}. Make one with @tool, a Tool subclass or raw_tool(); tools_of(obj) "
            f"gives those of an object."
        )
    cast("Tool[Any]", tool).require_ready()
