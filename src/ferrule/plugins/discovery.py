"""Finds tools without wiring (R6): what cannot be loaded is reported and skipped, and the others work."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import DefinitionError
from ferrule.core.tool import Tool, refuse_hidden
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
        """Add every found tool; one whose name is taken, or that can never run, joins the broken ones."""
        for plugin in self.plugins:
            for tool in plugin.tools:
                try:
                    registry.register(tool, origin="plugin")
                except (ValueError, TypeError) as error:
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
        found.plugins.append(as_plugin(module, file.stem, "", str(file), found.broken))
    except BaseException as error:  # noqa: BLE001 - as above
        found.broken.append(_broken(str(file), error))
    return found


def as_plugin(loaded: Any, name: str, version: str, source: str, broken: list[Broken]) -> Plugin:
    """Whatever an entry point or a file holds, as a plugin: a Plugin, a tool, tools, a module, or what makes them.

    Tools among others that cannot be made join `broken`.
    """
    if isinstance(loaded, Plugin):
        loaded.source = source
        return loaded
    if _is_tool_class(loaded):
        loaded = loaded()
    elif callable(loaded) and not isinstance(loaded, Tool):
        return as_plugin(loaded(), name, version, source, broken)
    before = len(broken)
    tools = list(_tools_in(loaded, source, broken))
    if not tools and len(broken) == before:
        raise LookupError("it holds no tools")
    return Plugin(name, version, tools, source=source)


def _tools_in(loaded: Any, source: str, broken: list[Broken]) -> Iterable[Tool[Any]]:
    if isinstance(loaded, Tool):
        yield loaded
    elif hasattr(loaded, "__spec__") and hasattr(loaded, "__dict__"):
        yield from _tools_in_module(loaded, source, broken)
    else:
        for item in loaded:
            if isinstance(item, Tool):
                yield item
            else:
                broken.append(Broken(source, f"it holds {item!r}, which is not a tool"))


def _tools_in_module(module: Any, source: str, broken: list[Broken]) -> Iterable[Tool[Any]]:
    """The tools a module holds, and one of each class of them that it defines and neither makes nor builds on."""
    values: list[Any] = list(cast("dict[str, Any]", vars(module)).values())
    made: dict[int, Tool[Any]] = {id(value): value for value in values if isinstance(cast("object", value), Tool)}
    yield from made.values()
    for value in values:
        try:
            refuse_hidden(value)
        except DefinitionError as error:
            broken.append(_broken(source, error))
    classes = [value for value in dict.fromkeys(filter(_is_tool_class, values)) if value.__module__ == module.__name__]
    used = {type(one) for one in made.values()} | {base for cls in classes for base in cls.__mro__[1:]}
    for cls in classes:
        if cls in used:
            continue
        try:
            yield cls()
        except Exception as error:  # noqa: BLE001 - one class harms no other
            broken.append(_broken(f"{source}: {cls.__name__}", error))


def _is_tool_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Tool)


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
    if isinstance(error.__cause__, DefinitionError):  # Python 3.11 wraps what goes wrong while a class is made
        error = error.__cause__
    if isinstance(error, DefinitionError):
        return Broken(source, str(error))
    return Broken(source, f"{type(error).__name__}: {error}")
