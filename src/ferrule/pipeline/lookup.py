"""Stage one: which tool is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.core.errors import ErrorKind, Stage, Stopped
from ferrule.core.nearest import nearest
from ferrule.core.phrases import joined, phrase
from ferrule.core.problems import show

if TYPE_CHECKING:
    from ferrule.core.call import RawCall
    from ferrule.core.tool import Tool
    from ferrule.registry.registry import ToolSource


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
            phrase("The tool `{name}` is switched off.", name=call.name),
            phrase("Use another tool, or go on without it."),
        )
    if call.version is not None and (current := source.get(call.name)) is not None:
        raise Stopped(
            Stage.LOOKUP,
            ErrorKind.NOT_FOUND,
            phrase("The tool `{name}` has no version {version}.", name=call.name, version=show(call.version)),
            phrase("Its current version is {version}.", version=current.version),
        )
    raise _unknown(source, call.name)


def _unknown(source: ToolSource, name: Any) -> Stopped:
    message = phrase("There is no tool {name}.", name=_quoted(name))
    names = source.names()
    close = nearest(name, names) if isinstance(name, str) else []
    if close:
        suggestion = phrase("Did you mean {names}?", names=joined(" or ", [f"`{one}`" for one in close]))
    elif not names:
        suggestion = phrase("No tools are available.")
    elif len(names) <= 20:
        suggestion = phrase("The tools are: {names}.", names=", ".join(f"`{one}`" for one in names))
    else:
        suggestion = phrase("Choose one of the {count} tools you were given.", count=len(names))
    return Stopped(Stage.LOOKUP, ErrorKind.NOT_FOUND, message, suggestion, {"nearest": close})


def _quoted(name: Any) -> str:
    return f"`{name}`" if isinstance(name, str) and name.isprintable() and len(name) <= 80 else show(name)
