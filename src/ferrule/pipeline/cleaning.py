"""Cleans error messages: no secrets, no paths of this machine, no tracebacks (P10)."""

from __future__ import annotations

import os
import re
from asyncio import CancelledError, current_task
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from ferrule.core.errors import ErrorKind, Stage, StoppedError, ToolError
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.phrases import Phrase, joined, phrase
from ferrule.core.secrets import redact_text, redact_value
from ferrule.core.shown_text import cut

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MOST = 2000
_MOST_INNER = 5
_KEPT = lazy_pattern("\ue000(\\d+)_")
_ABSOLUTE = lazy_pattern(
    r"(?<![\w/.~-])(?:file://|[A-Za-z]:)?(?:/[\w.@+~-]+){2,}/?"
    r"|(?<!\w)(?:[A-Za-z]:\\+|\\\\+[\w.@+~-]+\\+)(?:[\w.@+~ -]+\\+)+[\w.@+~-]*"  # drives and shares; repr doubles \
)


def clean_exception(error: BaseException, workspace: Path | None = None, added: Sequence[Path] = ()) -> str:
    """An unexpected exception as text for a model: its type and its cleaned message."""
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001 - its own code may fail in any way
        message = ""
    name = type(error).__name__
    if isinstance(error, BaseExceptionGroup):
        inner = [clean_exception(one, workspace, added) for one in error.exceptions[:_MOST_INNER]]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]
        message = f"{message}: " + "; ".join(inner)
    return clean_text(f"{name}: {message}" if message else name, workspace, added)


def ends_from_outside(error: BaseException) -> bool:
    """Whether the call's caller was cancelled or the program ends, rather than some code of the call having raised."""
    if isinstance(error, CancelledError):
        task = current_task()
        return task is None or task.cancelling() > 0
    return isinstance(error, (KeyboardInterrupt, GeneratorExit))


def clean_text(text: str, workspace: Path | None = None, added: Sequence[Path] = ()) -> str:
    """Text without secrets, tracebacks, and paths outside the workspace and the `added` folders; bounded.

    A phrase stays one if cleaning the values in it gives the same text.
    """
    cleaned = _clean(str(text), workspace, added)
    if isinstance(text, Phrase) and (same := text.mapped(lambda one: _clean(one, workspace, added))) == cleaned:
        return same
    return cleaned


def relative_paths(text: str, workspace: Path) -> str:
    """Text with paths inside the workspace made relative. Nothing else changes, so users can decide by what it says."""
    for root in _names_of(workspace) if workspace.name else ():
        inside = rf"(?<![\w/.~-])(?:file://)?{re.escape(root)}(?:[/\\](?=[\w.@+~-])|([/\\]?)(?![\w.@+~/\\-]))"
        text = re.sub(inside, lambda found: "" if found[1] is None else ".", text)
    return text


def _clean(text: str, workspace: Path | None, added: Sequence[Path]) -> str:
    text = _without_traceback(text[: 20 * _MOST])
    text = redact_text(text)
    if workspace is not None:
        text = relative_paths(text, workspace)
    roots = [root for folder in added for root in _names_of(folder)]
    for number, root in enumerate(roots):
        # Tools are given paths in added folders as they are, so those stay. The marks are replaced below.
        text = re.sub(rf"(?<![\w/.~-]){re.escape(root)}(?![\w.@+~-])", f"\ue000{number}_", text)
    text = _ABSOLUTE.sub(lambda found: "…/" + re.split(r"[/\\]", found[0].rstrip("/\\"))[-1], text)
    if roots:
        text = _KEPT.sub(lambda found: roots[int(found[1])] if int(found[1]) < len(roots) else found[0], text)
    return cut(text, _MOST)


def _names_of(folder: Path) -> list[str]:
    """A folder's path as it was given, and its real path."""
    return list(dict.fromkeys((str(folder), os.path.realpath(folder))))


def clean_value(value: Any, workspace: Path | None = None, added: Sequence[Path] = ()) -> Any:
    """A copy of a value with all its text cleaned and all secrets redacted."""
    value = redact_value(value)

    def clean(part: Any) -> Any:
        if isinstance(part, str):
            return clean_text(part, workspace, added)
        if isinstance(part, dict):
            items = cast("dict[Any, Any]", part).items()
            return {clean_text(str(key), workspace, added): clean(item) for key, item in items}
        return [clean(item) for item in cast("list[Any]", part)] if isinstance(part, list) else part

    return clean(value)


def _without_traceback(text: str) -> str:
    """The text before a traceback, and the line with the exception after it."""
    head, mark, rest = text.partition("Traceback (most recent call last):")
    if not mark:
        return text
    for line in rest.splitlines():
        if line and not line.startswith((" ", "\t")):
            return (head.rstrip() + " " + line).strip()
    return head.rstrip()


def stopped_by(
    tool: str,
    cause: BaseException,
    workspace: Path | None,
    added: Sequence[Path] = (),
    stage: Stage = Stage.EXECUTE,
) -> StoppedError:
    """What a tool raised, as an early exit. Its message is cleaned, and introduced unless it is a `ToolError`."""
    cause = _unwrapped(cause)
    if isinstance(cause, ToolError):
        suggestion = clean_text(cause.suggestion, workspace, added) if cause.suggestion else None
        said: Any = cause.details
        details = (
            clean_value(said if isinstance(said, Mapping) else {"details": said}, workspace, added) if said else None
        )
        return StoppedError(stage, cause.kind, clean_text(cause.message, workspace, added), suggestion, details)
    if isinstance(cause, CancelledError):
        said = joined(" ", [phrase("`{name}` did not finish.", name=tool), phrase("It was cancelled from inside.")])
        return StoppedError(stage, ErrorKind.CANCELLED, said)
    kind = ErrorKind.EXECUTION if isinstance(cause, Exception) else ErrorKind.UNKNOWN
    kind = ErrorKind.TIMEOUT if isinstance(cause, TimeoutError) else kind
    said = phrase("`{tool}` failed. {error}", tool=tool, error=clean_exception(cause, workspace, added))
    stopped = StoppedError(stage, kind, said)
    stopped.crash = cause
    return stopped


ShowCrashes = Literal["message", "type", "nothing"]
"""What a result says of an exception that a tool did not mean for the model."""


def shown_crash(stopped: StoppedError, show: ShowCrashes) -> str:
    """The message of an early exit, with as much as may be shown of the crash that caused it."""
    if stopped.crash is None or show == "message" or not isinstance(stopped.message, Phrase):
        return stopped.message
    whole = stopped.message.values["error"]
    less = type(stopped.crash).__name__ if show == "type" else phrase("Its error message is not shown.")
    return stopped.message.mapped(lambda one: less if one == whole else one)


def _unwrapped(cause: BaseException) -> BaseException:
    """The only exception of a group, as of a task group in which one task failed."""
    while isinstance(cause, BaseExceptionGroup):
        inner: Sequence[BaseException] = cast("Any", cause).exceptions
        if len(inner) != 1:
            return cast("BaseException", cause)
        cause = inner[0]
    return cause
