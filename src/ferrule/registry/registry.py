"""The registry: every tool by name and version, safe under threads and tasks; views of it; and search over it."""

from __future__ import annotations

import copy
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

from ferrule.core.access import Mode
from ferrule.core.nearest import check_names, is_named
from ferrule.core.phrases import phrase
from ferrule.core.plugin import Plugin, run_step
from ferrule.core.tool import Kind, Tool, description_of, refuse_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ferrule.registry.search import ToolIndex

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class RegistryEntry:
    """A registered tool, who brought it, and whether it is switched on."""

    tool: Tool[Any]
    origin: str
    enabled: bool


@dataclass(slots=True, frozen=True, eq=False)
class _Waiting:
    """Tools of which only the names are known until one of them is asked for."""

    names: tuple[str, ...]
    load: Callable[[], Iterable[Tool[Any]]]
    origin: str


@dataclass(slots=True, frozen=True)
class RegistryEvent:
    """A tool came, went, or was switched.

    `change` is `registered`, `replaced`, `unregistered`, `made current`, `enabled` or `disabled`; `origin` says who
    brought the tool: `builtin`, `plugin`, `mcp` or `dynamic`. `tool` is the one that came, went or was switched.
    """

    change: str
    name: str
    version: str
    origin: str
    tool: Tool[Any] = field(repr=False, compare=False)


class ToolSource(ABC):
    """Named tools, of which the enabled ones are shown."""

    def __init__(self) -> None:
        self._derived: dict[str, tuple[int, Any]] = {}
        self._index: ToolIndex | None = None

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
        return self._kept("tools", lambda: [entry.tool for _, entry in self.entries() if entry.enabled])

    def _kept(self, name: str, make: Callable[[], T]) -> T:
        """What was made of the tools before, until something changes."""
        revision = self.revision
        kept = self._derived.get(name)
        if kept is None or kept[0] != revision:
            kept = self._derived[name] = (revision, make())
        return kept[1]

    def names(self) -> list[str]:
        """The names of the enabled tools."""
        return [tool.name for tool in self.tools()]

    def known_names(self) -> list[str]:
        """Every name there is, also of what is switched off or that a view leaves out, and aliases."""
        return [name for name, _ in self.entries()]

    # Finding

    def by_category(self, category: str) -> list[Tool[Any]]:
        return list(self._groups("category").get(category, ()))

    def by_tag(self, tag: str) -> list[Tool[Any]]:
        return list(self._groups("tag").get(tag, ()))

    def categories(self) -> list[str]:
        return sorted(self._groups("category"))

    def tags(self) -> list[str]:
        return sorted(self._groups("tag"))

    def _groups(self, by: Literal["category", "tag"]) -> dict[str, list[Tool[Any]]]:
        def make() -> dict[str, list[Tool[Any]]]:
            groups: dict[str, list[Tool[Any]]] = {}
            for tool in self.tools():
                for name in (tool.category,) if by == "category" else tool.tags:
                    groups.setdefault(name, []).append(tool)
            return groups

        return self._kept(by, make)

    def search(self, query: str | Iterable[str], most: int = 20) -> list[Tool[Any]]:
        """The tools that fit a request, in words or in a sentence, best first; for several, the best of each first.

        Names, descriptions, parameters, tags and categories count. Words may be misspelt, or in Chinese.
        """
        found = self._found((query,) if isinstance(query, str) else tuple(query), most, None)
        return [entry.tool for name in found if (entry := self.entry(name)) is not None]

    def _found(self, queries: tuple[str, ...], most: int, among: frozenset[str] | None) -> list[str]:
        """The names of the tools that fit, `among` these if some are given."""
        return self._up_to_date_index().search(queries, most, among)

    def _up_to_date_index(self) -> ToolIndex:
        return self._kept("index", self._changed_index)

    def _changed_index(self) -> ToolIndex:
        from ferrule.registry.search import ToolIndex

        self._index = self._index or ToolIndex()
        self._index.update({tool.name: tool for tool in self.tools()})
        return self._index

    # Views: each is live and can be viewed again

    def filtered(self, keep: Callable[[Tool[Any]], bool]) -> View:
        """Only the tools that pass a test, which must depend on the tool alone."""
        return Filtered(self, keep)

    def only(self, names: Iterable[str] | str) -> View:
        """Only the named tools, as an agent's filter lists them; `all` means every tool.

        A name may be an alias or contain `*`, and may be of a tool that comes later. One that is nearly a tool's name
        raises `UnknownNameError`.
        """
        wanted = self._checked(names, "all")
        if "all" in wanted:
            return self.filtered(lambda tool: True)
        return self.filtered(lambda tool: self._is_meant(tool, wanted))

    def without(self, names: Iterable[str] | str) -> View:
        """All but the named tools; names are as for `only`."""
        unwanted = self._checked(names)
        return self.filtered(lambda tool: not self._is_meant(tool, unwanted))

    def _checked(self, names: Iterable[str] | str, *others: str) -> frozenset[str]:
        wanted = frozenset((names,) if isinstance(names, str) else names)
        if missing := check_names(sorted(wanted), [*self.known_names(), *others]):
            some = ", ".join(f"`{name[:80]}`" for name in missing[:10]) + (" …" if missing[10:] else "")
            logger.warning("No tool is called %s yet; what was said of it holds once one is.", some)
        return wanted

    def _is_meant(self, tool: Tool[Any], names: frozenset[str]) -> bool:
        """Whether a tool has one of the names; an alias may have come since they were given."""
        return is_named(tool.name, names) or tool.name in {found.name for name in names if (found := self.get(name))}

    def read_only(self) -> View:
        """Only the tools that change nothing: what plan mode shows."""
        return self.filtered(lambda tool: tool.read_only)

    def writing(self) -> View:
        """Only the tools that may change something."""
        return self.filtered(lambda tool: not tool.read_only)

    def for_role(self, role: str | None) -> View:
        """Only the tools that a role may use."""
        return self.filtered(lambda tool: not tool.roles or role in tool.roles)

    def for_mode(self, mode: Mode | str) -> View:
        """What a permission mode shows: `plan` the read-only tools, any other mode all of them."""
        if Mode(mode) is not Mode.PLAN:
            return self.filtered(lambda tool: True)
        return Filtered(self, lambda tool: tool.read_only, phrase("is not available in plan mode, which only reads"))

    def why_left_out(self, name: str) -> str:
        """Why a tool that exists is not shown here, after its name: "is not available …"; empty where that is all."""
        return ""

    def prefixed(self, prefix: str) -> View:
        """The same tools under longer names: `prefixed("fs_")` shows `read` as `fs_read`."""
        return Renamed(
            self,
            lambda name: prefix + name,
            lambda name: name.removeprefix(prefix) if name.startswith(prefix) else None,
        )

    def renamed(self, names: Mapping[str, str]) -> View:
        """Some tools under other names: `renamed({"read": "open_file"})`."""
        return renamed_by(self, dict(names))


# Views: the same tools, fewer of them or under other names.


class View(ToolSource):
    """A live look at another source; it changes as that changes."""

    def __init__(self, source: ToolSource) -> None:
        super().__init__()
        self.source = source

    @property
    def revision(self) -> int:
        return self.source.revision

    def known_names(self) -> list[str]:
        return self.source.known_names()

    def __len__(self) -> int:
        return len(self.tools())


class Filtered(View):
    """Only the tools that pass a test. A tool that shows others itself, such as `run_code`, shows those that pass
    `within`, which is the same test unless given.
    """

    def __init__(
        self,
        source: ToolSource,
        keep: Callable[[Tool[Any]], bool],
        why: str = "",
        within: Callable[[Tool[Any]], bool] | None = None,
    ) -> None:
        super().__init__(source)
        self._keep = keep
        self._why = why
        self._within = within or keep

    def why_left_out(self, name: str) -> str:
        found = self.source.entry(name) if self._why else None
        left_out = found is not None and not self._keep(found.tool)
        return self._why if left_out else self.source.why_left_out(name)

    def entry(self, name: str, version: str | None = None) -> RegistryEntry | None:
        found = self.source.entry(name, version)
        return self._seen(found) if found is not None and self._keep(found.tool) else None

    def entries(self) -> list[tuple[str, RegistryEntry]]:
        return [(name, self._seen(entry)) for name, entry in self.source.entries() if self._keep(entry.tool)]

    def _seen(self, entry: RegistryEntry) -> RegistryEntry:
        within = getattr(entry.tool, "within", None)
        return entry if within is None else RegistryEntry(within(self._within), entry.origin, entry.enabled)

    def _found(self, queries: tuple[str, ...], most: int, among: frozenset[str] | None) -> list[str]:
        # The source's index serves all that show fewer of its tools.
        shown = among if among is not None else self._kept("shown", lambda: frozenset(self.names()))
        return self.source._found(queries, most, shown)  # noqa: SLF001 - one view of another


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

    def known_names(self) -> list[str]:
        return [self._shown(name) for name in self.source.known_names()]

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


logger = logging.getLogger("ferrule.registry")


class NameTakenError(ValueError):
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

    def __init__(
        self, tools: Iterable[Tool[Any]] = (), *, replace: bool = False, disabled: Iterable[str] | str = ()
    ) -> None:
        """Tools that are called as `disabled` says are switched off, whenever they come; names are as for `only`."""
        super().__init__()
        self._disabled = frozenset((disabled,) if isinstance(disabled, str) else disabled)
        self._replace = replace
        self._lock = threading.RLock()
        self._revision = 0
        self._versions: dict[str, dict[str, RegistryEntry]] = {}
        self._shown: dict[str, RegistryEntry] = {}  # the current version under its name, and under each alias
        self._aliases: dict[str, str] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._plugins: dict[str, Plugin | None] = {}  # None while it starts
        self._listeners: list[Callable[[RegistryEvent], None]] = []
        self._unindexed: set[str] = set()
        self._news: deque[RegistryEvent] = deque()
        self._announcing = False
        if isinstance(tools, Tool):
            raise TypeError(f"Tools come in a list, also where there is one: write [{tools.name}].")
        if not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise TypeError(f"Tools come in a list, not as {tools!r}.")
        for tool in tools:
            self.register(tool)
        if self._shown:  # or else all of them are still to come
            self._checked(self._disabled)

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

        A name and version that are taken are refused (`NameTakenError`) unless `replace` says otherwise. Another
        version of a known tool is added beside it and becomes the current one only when `current` says so: nobody takes
        over a name by accident.
        """
        _must_be_tool(tool)
        aliases = tuple(alias for alias in aliases if alias != tool.name)
        may_replace = self._replace if replace is None else replace
        self._arrive([tool.name, *aliases])
        with self._lock:
            if tool.version in self._versions.get(tool.name, {}) and not may_replace:
                raise NameTakenError(
                    f"A tool `{tool.name}` {tool.version} is registered already. Pass replace=True to put this one "
                    f"in its place, or give it another name or version."
                )
            self._refuse_taken(tool.name, aliases)
            self._add(tool, origin, aliases, current=current)

    def _add(
        self, tool: Tool[Any], origin: str, aliases: tuple[str, ...] = (), *, current: bool = False, news: bool = True
    ) -> None:
        known = self._versions.get(tool.name, {})
        taken = tool.version in known
        # A tool that was disabled stays disabled when it is replaced.
        switched_off = (
            not any(one.enabled for one in known.values())
            if known
            else any(is_named(name, self._disabled) for name in (tool.name, *aliases))
        )
        entry = RegistryEntry(tool, origin, tool.enabled and not switched_off)
        self._unindexed.add(tool.name)
        was_current = not known or (taken and self._shown[tool.name] is known[tool.version])
        self._versions.setdefault(tool.name, {})[tool.version] = entry
        for alias in aliases:
            self._aliases[alias] = tool.name
        self._show(tool.name, entry if was_current or current else self._shown[tool.name])
        self._waiting.pop(tool.name, None)
        if news:
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
                    raise NameTakenError(f"A tool `{tool.name}` {tool.version} is registered already; none was added.")
                self._refuse_taken(tool.name, ())
                seen.add(key)
            for tool in tools:
                self.register(tool, replace=may_replace, origin=origin)

    def register_later(
        self, names: Iterable[str], load: Callable[[], Iterable[Tool[Any]]], *, origin: str = "dynamic"
    ) -> None:
        """Add tools by their names alone. `load` gives them when one is looked up, or when all tools are listed.

        Listeners are not called for them. Raises `NameTakenError` if a name is taken.
        """
        waiting = _Waiting(tuple(names), load, origin)
        with self._lock:
            for name in waiting.names:
                self._refuse_taken(name, ())
                if name in self._versions:
                    raise NameTakenError(f"A tool `{name}` is registered already; none was added.")
            for name in waiting.names:
                self._versions[name] = {}
                self._waiting[name] = waiting
            self._revision += 1

    def _arrive(self, names: Iterable[str]) -> None:
        """Load the tools that have these names, if they are still to be loaded."""
        for waiting in dict.fromkeys(self._waiting[name] for name in names if name in self._waiting):
            tools = {tool.name: tool for tool in waiting.load()}  # not under the lock: it imports modules
            with self._lock:
                for name in waiting.names:
                    if name in self._waiting:
                        self._add(tools[name], waiting.origin, news=False)

    def unregister(self, name: str | Tool[Any], version: str | None = None) -> bool:
        """Remove what has a name, or one version of it, or just this tool; False when it was not there."""
        self._arrive([name.name if isinstance(name, Tool) else name])
        with self._lock:
            if isinstance(name, Tool):
                if self.get(name.name, name.version) is not name:
                    return False
                name, version = name.name, name.version
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

    async def add_plugin(self, plugin: Plugin) -> None:
        """Run a plugin's `initialise`, then add its tools, all or none.

        Raises what `initialise` raises, and `NameTakenError` where the plugin or one of its tools has a name that is
        taken. `remove_plugin` removes it again.
        """
        if not isinstance(plugin, Plugin):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise TypeError(f"A registry takes a Plugin, not {plugin!r}. `ferrule.tools.load_plugin` makes one of it.")
        with self._lock:
            if plugin.name in self._plugins:
                raise NameTakenError(f"A plugin `{plugin.name}` is in the registry already. Remove it first.")
            self._plugins[plugin.name] = None
        try:
            await run_step(plugin.initialise)
            try:
                self.register_many(plugin.tools, origin="plugin")
            except (TypeError, ValueError):
                await run_step(plugin.clean_up)
                raise
        except BaseException:
            del self._plugins[plugin.name]
            raise
        self._plugins[plugin.name] = plugin

    async def remove_plugin(self, name: str) -> bool:
        """Remove a plugin's tools, then run its `clean_up`; False when there is no such plugin."""
        with self._lock:
            plugin = self._plugins.get(name)
            if plugin is None:
                return False
            del self._plugins[name]
            for tool in plugin.tools:
                self.unregister(tool)
        await run_step(plugin.clean_up)
        return True

    def make_current(self, name: str, version: str) -> None:
        """Choose which version runs when a call pins none."""
        self._arrive([name])
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
        if name in self._waiting:
            self._arrive([name])
        if version is None:
            return self._shown.get(name)
        versions = self._versions.get(self._aliases.get(name, name))
        return versions.get(version) if versions else None

    def has(self, name: str) -> bool:
        return name in self._waiting or name in self._shown

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.has(name)

    def entries(self) -> list[tuple[str, RegistryEntry]]:
        if self._waiting:
            self._arrive(list(self._waiting))
        with self._lock:
            return [(name, self._shown[name]) for name in self._versions if name in self._shown]

    def known_names(self) -> list[str]:
        with self._lock:
            return list(dict.fromkeys((*self._versions, *self._shown)))

    def versions(self, name: str) -> list[str]:
        """Every registered version of a tool, oldest registration first."""
        self._arrive([name])
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

    def _up_to_date_index(self) -> ToolIndex:
        from ferrule.registry.search import ToolIndex

        self._arrive(list(self._waiting))
        with self._lock:
            index = self._index = self._index or ToolIndex()
            while self._unindexed:
                name = self._unindexed.pop()
                entry = self._shown.get(name) if name in self._versions else None
                index.put(name, entry.tool if entry is not None and entry.enabled else None)
        return index

    def __len__(self) -> int:
        return len(self._versions)

    @property
    def size(self) -> int:
        return len(self._versions)

    # Inside; the lock is held

    def _refuse_taken(self, name: str, aliases: tuple[str, ...]) -> None:
        if name in self._aliases:
            raise NameTakenError(f"`{name}` is an alias of `{self._aliases[name]}` already.")
        for alias in aliases:
            if alias in self._versions or self._aliases.get(alias, name) != name:
                raise NameTakenError(f"The alias `{alias}` is the name of another tool already.")

    def _show(self, name: str, entry: RegistryEntry) -> None:
        self._shown[name] = entry
        for alias, target in self._aliases.items():
            if target == name:
                self._shown[alias] = entry

    def _switch(self, name: str, *, enabled: bool) -> None:
        self._arrive([name])
        with self._lock:
            name = self._aliases.get(name, name)
            if name not in self._versions:
                raise KeyError(f"There is no tool `{name}`.")
            for entry in self._versions[name].values():
                entry.enabled = enabled
            self._announce("enabled" if enabled else "disabled", self._shown[name])

    def _announce(self, change: str, entry: RegistryEntry) -> None:
        self._revision += 1
        self._unindexed.add(entry.tool.name)
        self._news.append(RegistryEvent(change, entry.tool.name, entry.tool.version, entry.origin, entry.tool))
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
        raise TypeError(_how_to_make_one(tool))
    cast("Tool[Any]", tool).require_ready()


def _how_to_make_one(given: Any) -> str:
    name = getattr(given, "__name__", "")
    if name and callable(given) and not isinstance(given, type):
        return f"`{name}` is a function, not a tool: write @tool above it, or tool({name})."
    return (
        f"A registry holds tools, not {given!r}. Make one with @tool, a Tool subclass or raw_tool(); tools_of(obj) "
        f"gives those of an object, and agent.as_tool(name, description) makes one of an agent."
    )
