"""Finds tools without wiring (R6): what cannot be loaded is reported and skipped, and the others work."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

from ferrule import DefinitionError, NameTakenError, Plugin, Tool
from ferrule.extension.hosting import run_step
from ferrule.plugins.plugin import BrokenModule, Offered, ToolMaker, is_tool_class, plugin_from, reason_of
from ferrule.plugins.tools_folder import KEPT, FileTools, ToolsFolder

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ferrule import Registry
    from ferrule.plugins.tools_index import Sources


# Registers the tools of folders, and keeps the registry up to date while a program runs (R6, R8).


logger = logging.getLogger("ferrule.plugins")

ORIGIN = "plugin"
_PAUSE = 1.0
_SETTLE = 0.2
"""How long files must stay unchanged before they are loaded: a file may be saved in several writes."""
_MOST_LOOKS = 10
_SHARE = 20
"""Pauses are at least this many times as long as a look takes, so that watching stays cheap."""
_SECONDS_TO_END = 1.0

_Key = tuple[str, str]


class WatchedFolder(Protocol):
    """A folder of files that are tools, and what was made of them: their code loaded, or held in boxes."""

    path: str
    files: list[FileTools]
    broken: list[BrokenModule]
    sources: Sources | None

    def look(self) -> Sources | None:
        """All files that matter, as they are now. None: there is no such folder. OSError: it cannot be listed."""
        ...

    def refresh(self, sources: Sources | None) -> None:
        """Bring `files` and `broken` up to date with these."""
        ...


class FolderTools:
    """The tools of some folders in a registry. `watch` keeps them up to date until `close`."""

    def __init__(
        self,
        folders: Iterable[Path],
        registry: Registry,
        *,
        drafts: WatchedFolder | None = None,
        pause: float = _PAUSE,
    ) -> None:
        """`drafts` are those of a workspace, unless its folder is among the others."""
        once: dict[Path, Path] = {}
        for folder in folders:
            once.setdefault(folder.resolve(), folder)
        self.folders: list[WatchedFolder] = [ToolsFolder(folder, indexed=True) for folder in once.values()]
        if drafts is not None and Path(drafts.path).resolve() not in once:
            self.folders.append(drafts)
        self.broken: list[BrokenModule] = []
        """What currently cannot be loaded."""
        self._registry = registry
        self._pause = pause
        self._mine: dict[_Key, Tool[Any]] = {}
        self._start: Callable[[Plugin], str] | None = None
        self._end: Callable[[Plugin], None] | None = None
        self._started: dict[int, Plugin] = {}
        self._unstarted: dict[int, tuple[Plugin, BrokenModule]] = {}
        self._unlisted: dict[str, BrokenModule] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def load(self) -> None:
        """Load or reload every folder now, and register its tools."""
        for folder in self.folders:
            folder.refresh(self._look(folder))
        self._join()

    def start_plugins(self, start: Callable[[Plugin], str], end: Callable[[Plugin], None]) -> None:
        """Start the plugins that the files bring, now and whenever a file changes, and end those that go.

        `start` gives why a plugin could not start, if so: then its tools are left out.
        """
        self._start, self._end = start, end
        self._join()

    @property
    def started(self) -> list[Plugin]:
        return list(self._started.values())

    # Watching

    def watch(self) -> None:
        self._thread = threading.Thread(target=self._follow, name="ferrule-tools-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching. An import that still runs is not waited for, and no longer changes the registry."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_SECONDS_TO_END)

    def _follow(self) -> None:
        pause = self._pause
        while not self._ended.wait(pause):
            began, unlisted, known = time.monotonic(), dict(self._unlisted), set(self.broken)
            try:
                changed = [folder for folder in self.folders if self._look(folder) != folder.sources]
                pause = max(self._pause, _SHARE * (time.monotonic() - began))
                for folder in changed:
                    sources = self._settled(folder)
                    if self._ended.is_set():
                        return
                    folder.refresh(sources)
                if changed or self._unlisted != unlisted:
                    self._join()
                    for one in self.broken:
                        if one not in known:
                            logger.warning("%s: %s", one.source, one.reason)
            except Exception:
                logger.exception("Watching the tools folders failed; trying again")

    def _settled(self, folder: WatchedFolder) -> Sources | None:
        """The files once they have stopped changing, or after a while."""
        sources = self._look(folder)
        for _ in range(_MOST_LOOKS):
            if self._ended.wait(_SETTLE):
                break
            before, sources = sources, self._look(folder)
            if sources == before:
                break
        return sources

    def _look(self, folder: WatchedFolder) -> Sources | None:
        """The files now; if they cannot be listed, the ones from before: a disk can be away for a moment."""
        try:
            found = folder.look()
        except OSError as error:
            why = f"it cannot be read: {error.strerror or error}"
            kept = f"; {KEPT}" if folder.sources else ""
            self._unlisted[folder.path] = BrokenModule(folder.path, f"{why}{kept}")
            return folder.sources
        self._unlisted.pop(folder.path, None)
        return found

    # The registry

    def _join(self) -> None:
        """Bring the registry in line with the files. A tool whose file did not change stays the same object."""
        if self._ended.is_set():
            return
        broken: list[BrokenModule] = []
        files: list[FileTools] = []
        for folder in self.folders:
            unlisted = self._unlisted.get(folder.path)
            broken += [unlisted] if unlisted is not None else folder.broken
            files += folder.files
        plugins = {id(plugin): plugin for file in files for plugin in file.plugins}
        left_out = self._start_new(files, broken)
        if self._ended.is_set():
            return
        wanted: dict[_Key, tuple[Tool[Any], str]] = {}
        for file in files:
            broken += file.broken
            for tool in file.tools:
                if id(tool) in left_out:
                    continue
                first = wanted.setdefault((tool.name, tool.version), (tool, file.path))
                if first[0] is not tool:
                    broken.append(name_taken(tool, file.path, first[1]))
        for key, (tool, path) in wanted.items():
            if self._mine.get(key) is tool:
                continue
            try:
                self._register(key, tool)
            except NameTakenError:
                broken.append(name_taken(tool, path, holder_of(tool.name, self._registry)))
        for name, version in self._mine.keys() - wanted.keys():
            gone = self._mine.pop((name, version))
            if self._registry.unregister(gone):
                logger.info("Tool %s removed", name)
        self.broken = broken
        for gone in [key for key in self._started if key not in plugins]:
            plugin = self._started.pop(gone)
            if self._end is not None:
                self._end(plugin)

    def _start_new(self, files: list[FileTools], broken: list[BrokenModule]) -> set[int]:
        """Start the plugins that are new. Those that can't start join `broken`; gives the ids of their tools."""
        if self._start is None:
            return set()
        unstarted: dict[int, tuple[Plugin, BrokenModule]] = {}
        for path, plugin in [(file.path, plugin) for file in files for plugin in file.plugins]:
            if id(plugin) in self._started:
                continue
            if (known := self._unstarted.get(id(plugin))) is None:
                if not (why := self._start(plugin)):
                    self._started[id(plugin)] = plugin
                    continue
                known = plugin, BrokenModule(path, why)
            unstarted[id(plugin)] = known
        self._unstarted = unstarted
        broken += [finding for _, finding in unstarted.values()]
        return {id(tool) for plugin, _ in unstarted.values() for tool in plugin.tools}

    def _register(self, key: _Key, tool: Tool[Any]) -> None:
        before = self._mine.pop(key, None)
        mine = before is not None and self._registry.get(*key) is before
        self._registry.register(tool, replace=mine, origin=ORIGIN)
        self._mine[key] = tool
        logger.info("Tool %s %s", tool.name, "changed" if mine else "added")


def holder_of(name: str, registry: Registry) -> str:
    """Who has a name, in words."""
    entry = registry.entry(name)
    origins = {"builtin": "a built-in tool", "mcp": "a tool of an MCP server", ORIGIN: "a plugin"}
    return origins.get(entry.origin if entry is not None else "", "another tool")


def name_taken(tool: Tool[Any], source: str, holder: str) -> BrokenModule:
    """The finding for a tool that is left out because its name is taken."""
    return BrokenModule(f"{source}: {tool.name}", f"the name is taken by {holder}; rename one of them")


ENTRY_POINTS = "ferrule.tools"
_POINT = "entry point {0.name} ({0.value})"


@dataclass(slots=True)
class Discovered:
    plugins: list[Plugin] = field(default_factory=list[Plugin])
    broken: list[BrokenModule] = field(default_factory=list[BrokenModule])

    def register(self, registry: Registry) -> None:
        """Add every found tool; one whose name is taken, or that can never run, joins the broken ones."""
        added: dict[str, tuple[Tool[Any], str]] = {}
        for plugin in self.plugins:
            for tool in plugin.tools:
                first, source = added.get(tool.name, (None, ""))
                if first is tool:
                    continue
                try:
                    registry.register(tool, origin=ORIGIN)
                    added.setdefault(tool.name, (tool, plugin.source))
                except ValueError:
                    holder = source or holder_of(tool.name, registry)
                    self.broken.append(name_taken(tool, plugin.source, holder))
                except TypeError as error:
                    self.broken.append(BrokenModule(f"{plugin.source}: {tool.name}", str(error)))


def discover_installed() -> Discovered:
    """Tools of installed packages, by the entry points `ferrule.tools`."""
    from importlib.metadata import entry_points

    found = Discovered()
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda one: one.name):
        try:
            found.plugins.append(_of_point(point, found.broken))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a package may fail in any way, and must not take us along
            found.broken.append(BrokenModule(_POINT.format(point), reason_of(error)))
    return found


def _of_point(point: EntryPoint, broken: list[BrokenModule]) -> Plugin:
    version = point.dist.version if point.dist is not None else ""
    return as_plugin(point.load(), point.name, version, _POINT.format(point), broken)


def discover_folder(folder: Path) -> Discovered:
    """Tools in the Python files of a folder itself; names that start with `_` or `.` are passed over."""
    loading = ToolsFolder(folder)
    try:
        loading.refresh(loading.look())
    except OSError as error:
        loading.broken.insert(0, BrokenModule(str(folder), f"it cannot be read: {error.strerror or error}"))
    return _discovered(loading)


def discover_file(file: Path) -> Discovered:
    """Tools in one Python file, which may import others of its folder."""
    if file.suffix != ".py":
        return Discovered(broken=[BrokenModule(str(file), "it is not a Python file")])
    loading = ToolsFolder(file.parent)
    loading.refresh(loading.look(), only=[str(file.absolute())])
    return _discovered(loading)


def _discovered(loading: ToolsFolder) -> Discovered:
    found = Discovered(broken=[*loading.broken])
    for file in loading.files:
        found.broken += file.broken
        if file.tools:
            found.plugins.append(together(Path(file.path).stem, "", file.path, file.tools, file.plugins))
    return found


def together(
    name: str, version: str, source: str, tools: list[Tool[Any]], plugins: list[Plugin], *, skip: bool = False
) -> Plugin:
    """Tools, some of which are those of plugins, as one plugin.

    It starts where all of them do. With `skip`, the tools of one that can't start are left out, and the others work.
    """
    if len(plugins) == 1 and len(plugins[0].tools) == len(tools):
        return plugins[0]
    whole, ends = Plugin(name, version, list(tools), source=source), AsyncExitStack()

    async def initialise() -> None:
        for one in plugins:
            try:
                await run_step(one.initialise)
            except Exception as error:
                if not skip:
                    await ends.aclose()
                    raise
                why = f"{one.name}: it could not start: {type(error).__name__}: {error}"
                logger.warning("%s: %s", source, why)
                whole.problems.append(why)
                left_out = {id(tool) for tool in one.tools}
                whole.tools[:] = [tool for tool in whole.tools if id(tool) not in left_out]
            else:
                ends.push_async_callback(run_step, one.clean_up)

    if plugins:
        whole.initialise, whole.clean_up = initialise, ends.aclose
    return whole


def load_entry(entry: str, name: str, version: str) -> tuple[Plugin, list[BrokenModule]]:
    """The tools that `module` or `module:attribute` names, and what in it could not be made one."""
    from importlib import import_module

    module, _, attribute = entry.partition(":")
    loaded: Any = import_module(module)
    for part in attribute.split(".") if attribute else ():
        loaded = getattr(loaded, part)
    broken: list[BrokenModule] = []
    return as_plugin(loaded, name, version, entry, broken), broken


def as_plugin(loaded: Any, name: str, version: str, source: str, broken: list[BrokenModule]) -> Plugin:
    """Whatever an entry point names, as a plugin: a plugin, a tool, tools, a module, or a function that makes one.

    What is among them that cannot be a tool is added to `broken`, and the rest is used.
    """
    if is_tool_class(loaded):
        loaded = loaded()
    elif isinstance(loaded, (Plugin, Mapping)) or (hasattr(loaded, "tools") and not isinstance(loaded, ModuleType)):
        return plugin_from(loaded() if isinstance(loaded, type) else loaded, name, source)
    elif callable(loaded) and not isinstance(loaded, Tool):
        return as_plugin(loaded(), name, version, source, broken)
    if isinstance(loaded, ModuleType):
        offered = ToolMaker(loaded, source).offered()
    else:
        offered = Offered()
        items: list[Any] = [loaded] if isinstance(loaded, Tool) else list(loaded)
        for item in items:
            if isinstance(item, Tool):
                offered.tools.append(cast("Tool[Any]", item))
            else:
                offered.broken.append(BrokenModule(source, f"it contains {item!r}, which is not a tool"))
    broken += offered.broken
    if not offered.tools and not offered.broken:
        raise LookupError("it contains no tools")
    return together(name, version, source, offered.tools, offered.plugins)


# One plugin, for a program that knows which.


def load_plugin(source: Plugin | Mapping[str, Any] | str | Path) -> Plugin:
    """Load the tools of a folder, a Python file or an installed package as a plugin, without starting it.

    A folder or file is a `Path`, or a text with a `/` or with `.py` at its end. Any other text is an entry point of the
    group `ferrule.tools`, a package that has some, a module or `module:name`, or else a folder. What can't be loaded is
    in the plugin's `problems` and in the log, and the rest works; with nothing to use, it raises `DefinitionError`.
    """
    if isinstance(source, (Plugin, Mapping)):
        return plugin_from(source, "plugin", "")
    broken: list[BrokenModule] = []
    path, plugin = Path(source).expanduser(), None
    is_path = isinstance(source, Path) or os.sep in source or source.endswith(".py")
    try:
        plugin = None if is_path else _installed(str(source), broken)
    except Exception as error:
        raise DefinitionError(f"`{source}` is no plugin: {reason_of(error)}") from error
    if plugin is None:
        if not source or not path.exists():
            why = "there is no such file or folder" if is_path else "nothing installed has this name, and no folder"
            raise DefinitionError(f"`{source}` is no plugin: {why}.")
        found = discover_file(path) if path.suffix == ".py" else discover_folder(path)
        broken += found.broken
        tools = [tool for one in found.plugins for tool in one.tools]
        plugin = together(path.resolve().stem, "", str(path), tools, found.plugins, skip=True)
    plugin.problems += [f"{one.source}: {one.reason}" for one in broken]
    if not plugin.tools:
        raise DefinitionError(f"`{source}` is no plugin: {'; '.join(plugin.problems) or 'it contains no tools'}.")
    for problem in plugin.problems:
        logger.warning("Left out of plugin %s: %s", plugin.name, problem)
    return plugin


def _installed(name: str, broken: list[BrokenModule]) -> Plugin | None:
    """What an entry point, a package with entry points, a module or `module:name` offers; None where there is none."""
    from importlib.metadata import PackageNotFoundError, distribution, entry_points
    from importlib.util import find_spec

    points = list(entry_points(group=ENTRY_POINTS, name=name))
    if not points:
        with suppress(PackageNotFoundError, ValueError):
            points = list(distribution(name).entry_points.select(group=ENTRY_POINTS))
    if points:
        plugins = [_of_point(point, broken) for point in points]
        tools = [tool for one in plugins for tool in one.tools]
        return together(name, plugins[0].version, plugins[0].source, tools, plugins)
    module = name.partition(":")[0]
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):  # it is in a package that there is not, or no name at all
        spec = None
    if spec is None or spec.origin is None:  # a folder passes for a package without a file
        return None
    plugin, more = load_entry(name, module.rpartition(".")[2], "")
    broken += more
    return plugin
