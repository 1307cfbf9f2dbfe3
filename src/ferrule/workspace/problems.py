"""What can be wrong with a path, in words a model can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import advice, phrase

if TYPE_CHECKING:
    from collections.abc import Mapping


class PathError(ToolError):
    """A path cannot be used. `code` is a stable word: `outside`, `missing`, `directory`, `special`, `name`, …"""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        kind: ErrorKind = ErrorKind.EXECUTION,
        suggestion: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, kind=kind, suggestion=suggestion, details={"code": code, **(details or {})})
        self.code = code


def outside(path: str, suggestion: str) -> PathError:
    return PathError(
        "outside",
        phrase("`{path}` is outside the workspace.", path=path),
        kind=ErrorKind.PERMISSION,
        suggestion=suggestion,
    )


def only_read(path: str) -> PathError:
    return PathError(
        "outside",
        phrase("`{path}` can be read but not changed.", path=path),
        kind=ErrorKind.PERMISSION,
        suggestion=phrase("Write to a path inside the workspace."),
    )


def workspace_gone(why: str) -> PathError:
    return PathError(
        "workspace",
        phrase("The folder of the workspace cannot be used: {why}.", why=why),
        suggestion=advice(
            "No path will work until the user has restored it and started a new session; tell them.",
            "Restore it, and start a new session.",
        ),
    )


def failed(path: str, error: OSError) -> PathError:
    """What the system refused, in its own words."""
    why = (error.strerror or type(error).__name__).lower()
    if isinstance(error, PermissionError):
        return PathError(
            "permission",
            phrase("`{path}` cannot be opened: {why}.", path=path, why=why),
            kind=ErrorKind.PERMISSION,
            suggestion=advice("Go on without it, or ask the user to make it readable.", "Make it readable."),
        )
    return PathError(
        "failed",
        phrase("`{path}` cannot be used: {why}.", path=path, why=why),
        suggestion=advice("Go on without it, or tell the user.", "Look at the file and its disk."),
    )
