"""Stage one: which tool is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.core.errors import ErrorKind, Stage, Stopped
from ferrule.core.nearest import nearest
from ferrule.core.problems import show

if TYPE_CHECKING:
    from ferrule.core.call import RawCall
    from ferrule.core.tool import Tool
    from ferrule.registry.source import ToolSource


def lookup(source: ToolSource, call: RawCall) -> Tool[Any]:
    """The tool a call names; an unknown name is answered with the nearest known ones."""
    if not isinstance(call.name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - models send anything
        raise _unknown(source, call.name)
    entry = source.entry(call.name, call.version)
    if entry is not None and entry.enabled:
        return entry.tool
    if entry is not None:
        raise Stopped(
            Stage.LOOKUP,
            ErrorKind.NOT_FOUND,
            f"The tool `{call.name}` is switched off.",
            "Use another tool, or go on without it.",
        )
    if call.version is not None and (current := source.get(call.name)) is not None:
        raise Stopped(
            Stage.LOOKUP,
            ErrorKind.NOT_FOUND,
            f"The tool `{call.name}` has no version {show(call.version)}.",
            f"Its current version is {current.version}.",
        )
    raise _unknown(source, call.name)


def _unknown(source: ToolSource, name: Any) -> Stopped:
    message = f"There is no tool {_quoted(name)}."
    names = source.names()
    close = nearest(name, names) if isinstance(name, str) else []
    if close:
        suggestion = "Did you mean " + " or ".join(f"`{one}`" for one in close) + "?"
    elif not names:
        suggestion = "No tools are available."
    elif len(names) <= 20:
        suggestion = "The tools are: " + ", ".join(f"`{one}`" for one in names) + "."
    else:
        suggestion = f"Choose one of the {len(names)} tools you were given."
    return Stopped(Stage.LOOKUP, ErrorKind.NOT_FOUND, message, suggestion, {"nearest": close})


def _quoted(name: Any) -> str:
    return f"`{name}`" if isinstance(name, str) and name.isprintable() and len(name) <= 80 else show(name)
