"""Finds tools without wiring (R6): what cannot be loaded is reported and skipped, and the others work."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ferrule.core.tool import Tool
from ferrule.plugins.folder_tools import ORIGIN, holder_of, name_taken
from ferrule.plugins.module_tools import Broken, is_tool_class, reason_of, tools_in
from ferrule.plugins.plugin import Plugin
from ferrule.plugins.tools_folder import ToolsFolder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.registry.registry import Registry

ENTRY_POINTS = "ferrule.tools"


@dataclass(slots=True)
class Discovered:
    """What was found, and what could not be loaded."""

    plugins: list[Plugin] = field(default_factory=list[Plugin])
    broken: list[Broken] = field(default_factory=list[Broken])

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
                    self.broken.append(Broken(f"{plugin.source}: {tool.name}", str(error)))


def discover_installed(found: Discovered | None = None) -> Discovered:
    """Tools of installed packages, by the entry points `ferrule.tools`."""
    from importlib.metadata import entry_points

    found = found or Discovered()
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda one: one.name):
        source = f"entry point {point.name} ({point.value})"
        try:
            loaded = point.load()
            version = point.dist.version if point.dist is not None else ""
            found.plugins.append(as_plugin(loaded, point.name, version, source, found.broken))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a package may fail in any way, and must not take us along
            found.broken.append(Broken(source, reason_of(error)))
    return found


def discover_folder(folder: Path, found: Discovered | None = None) -> Discovered:
    """Tools in the Python files of a folder itself; names that start with `_` or `.` are passed over."""
    found = found or Discovered()
    loading = ToolsFolder(folder)
    try:
        loading.refresh(loading.look())
    except OSError as error:
        found.broken.append(Broken(str(folder), f"it cannot be read: {error.strerror or error}"))
    return _add(loading, found)


def discover_file(file: Path, found: Discovered | None = None) -> Discovered:
    """Tools in one Python file, which may import others of its folder."""
    if file.suffix != ".py":
        return Discovered(broken=[Broken(str(file), "it is not a Python file")])
    loading = ToolsFolder(file.parent)
    loading.refresh(loading.look(), only=[str(file.absolute())])
    return _add(loading, found or Discovered())


def _add(loading: ToolsFolder, found: Discovered) -> Discovered:
    found.broken += loading.broken
    for file in loading.files:
        found.broken += file.broken
        if file.tools:
            found.plugins.append(Plugin(Path(file.path).stem, "", file.tools, source=file.path))
    return found


def as_plugin(loaded: Any, name: str, version: str, source: str, broken: list[Broken]) -> Plugin:
    """Whatever an entry point names, as a plugin: a Plugin, a tool, tools, a module, or a function that makes them.

    What is among them that cannot be a tool is added to `broken`, and the rest is used.
    """
    if isinstance(loaded, Plugin):
        loaded.source = source
        return loaded
    if is_tool_class(loaded):
        loaded = loaded()
    elif callable(loaded) and not isinstance(loaded, Tool):
        return as_plugin(loaded(), name, version, source, broken)
    before = len(broken)
    if isinstance(loaded, ModuleType):
        offered = tools_in(loaded, source)
        tools = offered.tools
        broken += offered.broken
    else:
        tools = list(_tools_among(loaded, source, broken))
    if not tools and len(broken) == before:
        raise LookupError("it holds no tools")
    return Plugin(name, version, tools, source=source)


def _tools_among(loaded: Any, source: str, broken: list[Broken]) -> Iterable[Tool[Any]]:
    if isinstance(loaded, Tool):
        yield loaded
        return
    for item in loaded:
        if isinstance(item, Tool):
            yield item
        else:
            broken.append(Broken(source, f"it holds {item!r}, which is not a tool"))
