"""Finds tools without wiring (R6): what cannot be loaded is reported and skipped, and the others work."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.tool import Tool
from ferrule.plugins.plugin import Plugin

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import ModuleType

    from ferrule.registry.registry import Registry

ENTRY_POINTS = "ferrule.tools"


@dataclass(slots=True, frozen=True)
class Broken:
    """Something that should have brought tools and did not."""

    source: str
    reason: str


@dataclass(slots=True)
class Discovered:
    """What was found, and what could not be loaded."""

    plugins: list[Plugin] = field(default_factory=list[Plugin])
    broken: list[Broken] = field(default_factory=list[Broken])

    def register(self, registry: Registry) -> None:
        """Add every found tool; one whose name is taken joins the broken ones."""
        for plugin in self.plugins:
            for tool in plugin.tools:
                try:
                    registry.register(tool, origin="plugin")
                except ValueError as error:
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
            found.plugins.append(as_plugin(loaded, point.name, version, source))
        except BaseException as error:  # noqa: BLE001 - a package may fail in any way, and must not take us along
            found.broken.append(_broken(source, error))
    return found


def discover_folder(folder: Path, found: Discovered | None = None) -> Discovered:
    """Tools in the Python files of a folder itself; names that start with `_` or `.` are passed over."""
    found = found or Discovered()
    if not folder.is_dir():
        found.broken.append(Broken(str(folder), "there is no such folder"))
        return found
    for file in sorted(folder.glob("*.py")):
        if not file.name.startswith(("_", ".")):
            discover_file(file, found)
    return found


def discover_file(file: Path, found: Discovered | None = None) -> Discovered:
    """Tools in one Python file."""
    found = found or Discovered()
    try:
        module = _import_file(file)
        found.plugins.append(as_plugin(module, file.stem, "", str(file)))
    except BaseException as error:  # noqa: BLE001 - as above
        found.broken.append(_broken(str(file), error))
    return found


def as_plugin(loaded: Any, name: str, version: str, source: str) -> Plugin:
    """Whatever an entry point or a file holds, as a plugin: a Plugin, a tool, tools, a module, or what makes them."""
    if isinstance(loaded, Plugin):
        loaded.source = source
        return loaded
    if isinstance(loaded, type) and issubclass(loaded, Tool):
        loaded = cast("Any", loaded)()
    elif not isinstance(loaded, Tool) and callable(loaded):
        return as_plugin(loaded(), name, version, source)
    tools = list(_tools_in(loaded))
    if not tools:
        raise LookupError("it holds no tools")
    return Plugin(name, version, tools, source=source)


def _tools_in(loaded: Any) -> Iterable[Tool[Any]]:
    if isinstance(loaded, Tool):
        yield loaded
        return
    if hasattr(loaded, "__spec__") and hasattr(loaded, "__dict__"):
        seen: set[int] = set()
        for value in list(cast("dict[str, Any]", vars(loaded)).values()):
            if isinstance(value, Tool) and id(cast("Any", value)) not in seen:
                seen.add(id(cast("Any", value)))
                yield cast("Tool[Any]", value)
            elif isinstance(value, type) and issubclass(value, Tool) and value.__module__ == loaded.__name__:
                yield cast("Any", value)()
        return
    for item in loaded:
        if not isinstance(item, Tool):
            raise TypeError(f"it holds {item!r}, which is not a tool")
        yield item


def _import_file(file: Path) -> ModuleType:
    name = f"ferrule_tools_{abs(hash(str(file.resolve()))):x}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that pydantic can resolve the annotations of what it defines
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _broken(source: str, error: BaseException) -> Broken:
    if isinstance(error, KeyboardInterrupt):
        raise error
    if isinstance(error, SyntaxError):
        return Broken(source, f"line {error.lineno}: {error.msg}")
    return Broken(source, f"{type(error).__name__}: {error}")
