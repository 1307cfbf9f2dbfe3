"""Failures of the kinds that the toolbox reports most, each with what would help."""

from __future__ import annotations

from ferrule import ErrorKind, ToolError


def invalid(message: str, suggestion: str | None = None) -> ToolError:
    """An argument that can never work."""
    return ToolError(message, kind=ErrorKind.VALIDATION, suggestion=suggestion)


def not_found(message: str, suggestion: str | None = None) -> ToolError:
    return ToolError(message, kind=ErrorKind.NOT_FOUND, suggestion=suggestion)


def forbidden(message: str, suggestion: str | None = None) -> ToolError:
    """What a rule, an account or an engine does not allow."""
    return ToolError(message, kind=ErrorKind.PERMISSION, suggestion=suggestion)
