"""Results in words: what a model reads, and how those words are read back."""

from __future__ import annotations

import re
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import ErrorKind
from ferrule.core.result import SUGGESTION, ErrorInfo, ToolResult, plainly
from ferrule.dialects.losses import Loss

if TYPE_CHECKING:
    from ferrule.core.call import RawCall
    from ferrule.core.result import Attachment

_ERROR = re.compile(rf"\AError \(({'|'.join(kind.value for kind in ErrorKind)})\): ")
_SURROGATE = re.compile("[\ud800-\udfff]")


def text_of(result: ToolResult, losses: list[Loss]) -> str:
    """What the model reads: its content, and for a failure always the kind and the suggestion too."""
    text = clean(result.llm_content)
    if text != result.llm_content:
        losses.append(Loss(result.tool, "llm_content", "text", "characters that are not Unicode text were replaced"))
    if result.success:
        return text
    error = result.error or ErrorInfo(ErrorKind.UNKNOWN, text or "The call failed.")
    text = text or clean(error.message)
    suggestion = clean(error.suggestion or "")
    if suggestion and suggestion not in text:
        text += SUGGESTION + suggestion
    found = _ERROR.match(text)
    return text if found and found[1] == error.kind.value else f"Error ({error.kind.value}): {text}"


def reads_as_error(text: str) -> bool:
    return _ERROR.match(text) is not None


def result_from(
    text: str,
    *,
    failed: bool,
    call: RawCall | None,
    call_id: str = "",
    tool: str = "",
    data: Any = None,
    attachments: list[Attachment] | None = None,
) -> ToolResult:
    """A result from the words in it. The payload's own id and name win over those of the call it answers."""
    return ToolResult(
        call_id=call_id or (call.id if call else ""),
        tool=tool or (call.name if call else ""),
        success=not failed,
        llm_content=text,
        display_content=text,
        data=data,
        error=_error_from(text) if failed else None,
        attachments=attachments or [],
    )


def _error_from(text: str) -> ErrorInfo:
    kind, rest = ErrorKind.UNKNOWN, text
    if found := _ERROR.match(text):
        kind, rest = ErrorKind(found[1]), text[found.end() :]
    message, _, suggestion = rest.partition(SUGGESTION)
    return ErrorInfo(kind, message, suggestion=suggestion or None)


def attachment_line(attachment: Attachment) -> str:
    """A line in place of an attachment that a provider cannot carry."""
    named = f" {clean(attachment.name)}" if attachment.name else ""
    media = clean(attachment.media_type)
    if attachment.uri:
        return f"[attachment{named} ({media}): {clean(attachment.uri)}]"
    return f"[attachment{named} ({media}), {len(attachment.data or b'')} bytes, not shown]"


def attachment_lost(result: ToolResult, at: int, losses: list[Loss]) -> str:
    """Report an attachment as lost; gives the line to show instead."""
    losses.append(
        Loss(result.tool, f"attachments[{at}]", "attachment", "cannot be carried; a line of text stands for it")
    )
    return attachment_line(result.attachments[at])


def details_lost(result: ToolResult, at: int, losses: list[Loss], *, name: bool = True) -> None:
    """Report what is left out of an attachment that is carried: its name, and the type of a link."""
    one = result.attachments[at]
    if name and one.name:
        losses.append(Loss(result.tool, f"attachments[{at}].name", "name", "cannot be carried; left out"))
    if one.data is None:
        losses.append(Loss(result.tool, f"attachments[{at}].media_type", "media_type", "a link does not say it"))


def order_lost(result: ToolResult, at: int, losses: list[Loss]) -> None:
    """Report that an attachment between words comes after all of them."""
    if result.attachments[at].after is not None:
        losses.append(Loss(result.tool, f"attachments[{at}].after", "order", "cannot be carried; it follows the words"))


def clean(text: str) -> str:
    """Text that every encoder takes: half of a surrogate pair alone is no character."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def jsonable(data: Any) -> Any:
    """Plain JSON values for anything a tool returned; `ValueError` for what has no end."""
    from pydantic_core import to_jsonable_python

    try:
        plain = to_jsonable_python(data, fallback=_shown, bytes_mode="base64")
        return _clean_all(plain)
    except (TypeError, UnicodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _shown(value: object) -> Any:
    try:
        return plainly(value)
    except Exception:  # noqa: BLE001 - a stranger's __str__ may raise anything
        return f"({type(value).__name__})"


def _clean_all(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_clean_all(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {clean(str(key)): _clean_all(one) for key, one in cast("dict[Any, Any]", value).items()}
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
