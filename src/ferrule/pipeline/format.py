"""Stage six: a value becomes words for the model and words for the person, both bounded."""

from __future__ import annotations

from asyncio import CancelledError
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import ErrorKind, Stage, Stopped, ToolError
from ferrule.core.result import Attachment, ErrorInfo, Output, ToolResult, words_for_attached
from ferrule.pipeline.cleaning import clean_exception, clean_text, clean_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ferrule.core.call import Invocation
    from ferrule.core.tool import Tool
    from ferrule.pipeline.limits import Limits

_DISPLAY = 200
_ERROR = 20_000
_LARGE = 10**400
_PLAIN = frozenset({str, int, float, bool, dict, list, type(None)})


def format_value(invocation: Invocation, value: Any, limits: Limits) -> ToolResult:
    """The result of a call that ran."""
    tool = invocation.tool
    if type(value) in _PLAIN:  # nearly every value: nothing to take apart
        text, display = _own_words(tool, value) if tool.has_words else (None, None)
        if text is None:
            text = value if type(value) is str else _words_for(tool.name, value, [])
        return _bounded(invocation, text, display, value, {}, [], limits)
    if isinstance(value, ToolResult):  # a tool that passes on what another tool said
        passed_on = _bounded(
            invocation, value.llm_content, value.display_content, value.data, dict(value.metadata),
            value.attachments, limits,
        )  # fmt: skip
        passed_on.success, passed_on.error = value.success, value.error
        return passed_on
    text = None
    display: str | None = None
    metadata: dict[str, Any] = {}
    attachments: list[Attachment] = []
    if isinstance(value, Output):
        text, display, metadata, attachments = (
            value.llm_content,
            value.display_content,
            dict(value.metadata),
            value.attachments,
        )
        value = value.data if value.data is not None else text
    elif isinstance(value, Attachment):
        attachments, value = [value], None
    elif isinstance(value, (bytes, bytearray)):
        attachments, value = [Attachment("application/octet-stream", bytes(value))], None
    if tool.has_words and (text is None or display is None):
        own_text, own_display = _own_words(tool, value)
        text, display = text if text is not None else own_text, display if display is not None else own_display
    if text is None:
        text = _words_for(tool.name, value, attachments)
    return _bounded(invocation, text, display, value, metadata, attachments, limits)


def _bounded(
    invocation: Invocation,
    text: str,
    display: str | None,
    value: Any,
    metadata: dict[str, Any],
    attachments: list[Attachment],
    limits: Limits,
) -> ToolResult:
    """The finished result: text that every encoder takes, no longer than allowed, and what was done on the way."""
    tool = invocation.tool
    if not text.isascii():
        text = well_formed(text)
    most = tool.max_result or limits.result_chars
    if len(text) > most:
        metadata["characters"] = len(text)
        text, left_out = head_and_tail(text, most)
        metadata["characters_left_out"] = metadata.get("characters_left_out", 0) + left_out
        attachments = [replace(one, after=None) for one in attachments]  # the words they stood between are not there
    display = _first_line(text) if display is None else _shortened(well_formed(display), most)
    if invocation.repairs:
        metadata["repairs"] = list(invocation.repairs)
    return ToolResult(invocation.call_id, tool.name, True, text, display, value, None, metadata, attachments)


def format_stopped(call_id: str, tool: str, stopped: Stopped) -> ToolResult:
    """The result of a call that ended early."""
    message = _shortened(well_formed(stopped.message), _ERROR)
    suggestion = _shortened(well_formed(stopped.suggestion), _ERROR) if stopped.suggestion else None
    error = ErrorInfo(stopped.kind, message, stopped.details, suggestion)
    return ToolResult(
        call_id, tool, False, error.words, _first_line(message), None, error, {"stage": str(stopped.stage)}
    )


def stopped_by(tool: str, cause: BaseException, workspace: Path | None, added: Sequence[Path] = ()) -> Stopped:
    """What a tool raised, as an early exit: its own words if it meant them for a model, cleaned ones if not."""
    cause = _unwrapped(cause)
    if isinstance(cause, ToolError):
        suggestion = clean_text(str(cause.suggestion), workspace, added) if cause.suggestion else None
        details = clean_value(dict(cause.details), workspace, added) if cause.details else None
        message = clean_text(str(cause.message), workspace, added)
        return Stopped(Stage.EXECUTE, cause.kind, message, suggestion, details)
    if isinstance(cause, TimeoutError):
        return Stopped(Stage.EXECUTE, ErrorKind.TIMEOUT, f"`{tool}` failed. {clean_exception(cause, workspace, added)}")
    if isinstance(cause, CancelledError):
        return Stopped(Stage.EXECUTE, ErrorKind.CANCELLED, f"`{tool}` did not finish. It was cancelled from inside.")
    kind = ErrorKind.EXECUTION if isinstance(cause, Exception) else ErrorKind.UNKNOWN
    return Stopped(Stage.EXECUTE, kind, f"`{tool}` failed. {clean_exception(cause, workspace, added)}")


def _unwrapped(cause: BaseException) -> BaseException:
    """What a task group wrapped, where one of its tasks alone raised."""
    while isinstance(cause, BaseExceptionGroup):
        inner: Sequence[BaseException] = cast("Any", cause).exceptions
        if len(inner) != 1:
            return cast("BaseException", cause)
        cause = inner[0]
    return cause


def _own_words(tool: Tool[Any], value: Any) -> tuple[str | None, str | None]:
    try:
        return tool.render(value), tool.display(value)
    except Exception as error:
        raise unformattable(tool.name, error) from error


def unformattable(tool: str, error: Exception) -> Stopped:
    """The early exit of a call that ran, and whose result then broke the formatting."""
    return Stopped(
        Stage.FORMAT,
        ErrorKind.EXECUTION,
        f"`{tool}` ran, but its result could not be put into words. {clean_exception(error)}",
        "What it did is done; calling it again would do it again.",
    )


def _words_for(tool: str, value: Any, attachments: list[Attachment]) -> str:
    if isinstance(value, str):
        return value
    if type(value) is int and -_LARGE < value < _LARGE:
        return str(value)
    if value is None:
        if not attachments:
            return "Done. There is no output."
        return words_for_attached(attachments)
    from ferrule.pipeline.json_form import NO_JSON_FORM, to_words

    try:
        return to_words(value)
    except NO_JSON_FORM as error:
        raise Stopped(
            Stage.FORMAT,
            ErrorKind.EXECUTION,
            f"`{tool}` ran, but gave a {type(value).__name__} that has no JSON form.",
            "What it did is done; calling it again would do it again.",
            {"reason": clean_text(str(error))},
        ) from None


def well_formed(text: str) -> str:
    """Text that every encoder takes: half surrogate pairs become U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def head_and_tail(text: str, most: int) -> tuple[str, int]:
    """Both ends of a long text with the exact number of characters left out between them."""
    half = most // 2
    slack = min(200, half // 4)  # an end may give up so much for a cut between lines
    head, tail = text[:half], text[len(text) - (most - half) :]
    if (cut := head.rfind("\n")) > half - slack:
        head = head[: cut + 1]
    if 0 <= (cut := tail.find("\n")) < slack:
        tail = tail[cut + 1 :]
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[… {left_out:,} of {len(text):,} characters left out …]\n{tail}", left_out


def _first_line(text: str) -> str:
    if len(text) <= _DISPLAY and "\n" not in text:
        return text.strip()
    return _shortened(text[: 4 * _DISPLAY].lstrip().partition("\n")[0].rstrip(), _DISPLAY)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
