"""Errors as they may leave: no secrets, no paths of this machine, no tracebacks (P10)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.core.secrets import redact_text

if TYPE_CHECKING:
    from pathlib import Path

_MOST = 2000
_ABSOLUTE = re.compile(r"(?<![\w:/.~-])(?:/[\w.@+~-]+){2,}/?|(?<![\w])[A-Za-z]:\\(?:[\w.@+~ -]+\\)+[\w.@+~-]*")


def clean_exception(error: BaseException, workspace: Path | None = None) -> str:
    """What a tool's unexpected exception says, fit for a model: its type and its cleaned message."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - an exception whose own text fails still has a type
        message = ""
    name = type(error).__name__
    return clean_text(f"{name}: {message}" if message else name, workspace)


def clean_text(text: str, workspace: Path | None = None) -> str:
    """Text without secrets, tracebacks and paths outside the workspace; bounded."""
    text = _without_traceback(text[: 20 * _MOST])
    text = redact_text(text)
    root = str(workspace) if workspace is not None else ""

    def shorten(found: re.Match[str]) -> str:
        path = found[0]
        if root and (path == root or path.startswith(root + "/")):
            return path[len(root) + 1 :] or "."
        parts = re.split(r"[/\\]", path.rstrip("/\\"))
        return f"…/{parts[-1]}"

    text = _ABSOLUTE.sub(shorten, text)
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


def _without_traceback(text: str) -> str:
    """Keep what stands before a traceback and the exception line after it."""
    head, mark, rest = text.partition("Traceback (most recent call last):")
    if not mark:
        return text
    for line in rest.splitlines():
        if line and not line.startswith((" ", "\t")):
            return (head.rstrip() + " " + line).strip()
    return head.rstrip()
