"""What can be wrong with a path, in words a model can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.core.errors import ErrorKind, ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping


class PathProblem(ToolError):  # noqa: N818 - reads as what it says
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


def outside(path: str, roots: str) -> PathProblem:
    return PathProblem(
        "outside",
        f"`{path}` is outside the workspace.",
        kind=ErrorKind.PERMISSION,
        suggestion=f"Use a path inside {roots}.",
    )
