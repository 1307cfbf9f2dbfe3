"""Reads what a provider or a client sent, and writes what it reads: results in words, attachments as text."""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote_to_bytes

from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.problems import got
from ferrule.core.result import SUGGESTION, ErrorInfo, ToolResult, finite, plainly
from ferrule.core.shown_text import well_formed
from ferrule.dialects.flatten import Loss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ferrule.core.result import Attachment


Item = dict[str, Any]


class DialectError(ValueError):
    """A payload that is not in the form its dialect prescribes."""


def plain(payload: Any, where: str) -> Any:
    """Dicts and lists as they are; SDK objects (anything with `model_dump`) as dicts."""
    dump: Callable[[], Any] | None = getattr(payload, "model_dump", None)
    if dump is not None:
        return dump()
    if isinstance(payload, (dict, list)):
        return cast("Any", payload)
    if isinstance(payload, tuple):
        return list(cast("tuple[Any, ...]", payload))
    raise DialectError(f"{where}: expected an object or a list, got {got(payload)}.")


def an_object(value: Any, where: str) -> Item:
    value = plain(value, where)
    if not isinstance(value, dict):
        raise DialectError(f"{where}: expected an object, got {got(value)}.")
    return cast("Item", value)


def a_list(value: Any, where: str) -> list[Any]:
    value = plain(value, where)
    if not isinstance(value, list):
        raise DialectError(f"{where}: expected a list, got {got(value)}.")
    return cast("list[Any]", value)


def field(item: Item, *spellings: str) -> Any:
    """A field under the first spelling that is there; SDK objects may write `file_uri` for `fileUri`."""
    for key in spellings:
        if item.get(key) is not None:
            return item[key]
    return None


def a_name(item: Item, where: str, key: str = "name") -> str:
    value = item.get(key)
    if value is None:
        raise DialectError(f"{where}: `{key}` is missing.")
    if not isinstance(value, str) or not value:
        raise DialectError(f"{where}.{key}: expected a non-empty string, got {got(value)}.")
    return value


def some_text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise DialectError(f"{where}: expected a string, got {got(value)}.")


def some_arguments(value: Any, where: str) -> str | Mapping[str, Any] | None:
    """Arguments pass through untouched, broken JSON text included: who validates the call reports that."""
    if value is None or isinstance(value, (str, dict)):
        return cast("Any", value)
    raise DialectError(f"{where}: expected an object or JSON text, got {got(value)}.")


def call_among(payload: Any, where: str, kind: str, arguments: str, call_id: str) -> RawCall | None:
    """A call from these fields, or None for what stands between calls: text, thinking, a provider's own tools."""
    item = an_object(payload, where)
    if a_name(item, where, "type") != kind:
        return None
    given = some_arguments(item.get(arguments), f"{where}.{arguments}")
    return RawCall(a_name(item, where), given, id=some_text(item.get(call_id), f"{where}.{call_id}"))


def arguments_as_text(arguments: Any) -> str:
    """A call's arguments as the JSON text that OpenAI sends."""
    if isinstance(arguments, bytes):
        return arguments.decode("utf-8", "replace")
    if isinstance(arguments, str):
        return arguments
    return json.dumps(dict(arguments or {}), ensure_ascii=False, default=str)


def arguments_as_object(arguments: Any, name: str) -> Item:
    """A call's arguments as an object; text that is not one cannot be written in this dialect."""
    if isinstance(arguments, (str, bytes)):
        try:
            arguments = json.loads(arguments) if arguments else {}
        except (ValueError, RecursionError):
            what = f"The arguments of `{name}` are not JSON, and this dialect has no place for text."
            raise DialectError(what) from None
        if not isinstance(arguments, dict):
            raise DialectError(f"The arguments of `{name}` are {got(arguments)}; this dialect takes an object.")
    return dict(cast("Mapping[str, Any]", arguments or {}))


# Reads JSON that a server sent without trusting its shape: what is not as expected counts as not there.


def an_item(value: Any) -> Item:
    return cast("Item", value) if isinstance(value, dict) else {}


def items(value: Any) -> list[Item]:
    """The objects in a list."""
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("Item", one) for one in listed if isinstance(one, dict)]


def words(value: Any) -> str:
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """A number of tokens; never below zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) > 1e15:
        return 0
    return max(0, int(value))


# Results in words: what a model reads, and how those words are read back.


_ERROR = re.compile(rf"\AError \(({'|'.join(kind.value for kind in ErrorKind)})\): ")


def text_of(result: ToolResult, losses: list[Loss]) -> str:
    """What the model reads: its content, and for a failure always the kind and the suggestion too."""
    text = well_formed(result.llm_content)
    if text != result.llm_content:
        losses.append(Loss(result.tool, "llm_content", "text", "characters that are not Unicode text were replaced"))
    if result.success:
        return text
    error = result.error or ErrorInfo(ErrorKind.UNKNOWN, text or "The call failed.")
    text = text or well_formed(error.message)
    suggestion = well_formed(error.suggestion or "")
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
    named = f" {well_formed(attachment.name)}" if attachment.name else ""
    media = well_formed(attachment.media_type)
    if attachment.uri:
        return f"[attachment{named} ({media}): {well_formed(attachment.uri)}]"
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
        return well_formed(value)
    if isinstance(value, list):
        return [_clean_all(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {well_formed(str(key)): _clean_all(one) for key, one in cast("dict[Any, Any]", value).items()}
    return finite(value)


# Attachments as text on the wire: base64, data URLs, and back.


IMAGES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
"""The image types that every vision model reads."""


def to_base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def from_base64(text: Any, where: str) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise DialectError(f"{where}: expected base64 text.") from None


def data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{to_base64(data)}"


def from_data_url(url: str, where: str) -> tuple[str, bytes]:
    head, comma, body = url.removeprefix("data:").partition(",")
    if not url.startswith("data:") or not comma:
        raise DialectError(f"{where}: expected a data URL, such as data:image/png;base64,….")
    if not head.endswith(";base64"):
        return head or "text/plain", unquote_to_bytes(body)
    return head.removesuffix(";base64"), from_base64(body, where)


def is_web(uri: str | None) -> bool:
    """Whether a provider could fetch it."""
    return uri is not None and uri.startswith(("https://", "http://"))


# Where attachments stand among the words: as a provider's blocks of content say it, and as blocks again.


class Blocks:
    """Takes blocks one after the other. Their texts become one, with a line end between them."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._length = 0
        self._attachments: list[Attachment] = []

    def add_text(self, text: str) -> int:
        """Where in all the words these begin."""
        start = self._length + (1 if self._texts else 0)
        self._length = start + len(text)
        self._texts.append(text)
        return start

    def add(self, attachment: Attachment) -> None:
        self._attachments.append(replace(attachment, after=self._length))

    @classmethod
    def read(
        cls, content: Any, where: str, text_kind: str, read_attachment: Callable[[Item, str], Attachment]
    ) -> Blocks:
        """Those of a result's content: a list of blocks, or text alone."""
        blocks = cls()
        if not isinstance(content, list):
            blocks.add_text(some_text(content, where) or "")
            return blocks
        for at, one in enumerate(cast("list[Any]", content)):
            here = f"{where}[{at}]"
            block = an_object(one, here)
            if block.get("type") == text_kind:
                blocks.add_text(some_text(block.get("text"), f"{here}.text") or "")
            else:
                blocks.add(read_attachment(block, here))
        return blocks

    @property
    def text(self) -> str:
        return "\n".join(self._texts)

    @property
    def attachments(self) -> list[Attachment]:
        return [replace(one, after=None) if one.after == self._length else one for one in self._attachments]


def in_order(text: str, attachments: Sequence[Attachment]) -> Iterator[str | int]:
    """Pieces of the text, none of them empty, and the numbers of the attachments between them.

    A place that is not at the end of a line is not to be trusted: somebody changed the words since.
    """
    place, last = 0, 0  # where the rest of the words begins, and after how many the last attachment stood
    at = 0
    while at < len(attachments):
        after = attachments[at].after
        if after is None or after < last or not (after == 0 or text[after : after + 1] == "\n"):
            break
        if after > place:
            yield text[place:after]
        if after > 0:
            place = after + 1
        last = after
        yield at
        at += 1
    if rest := text[place:]:
        yield rest
    yield from range(at, len(attachments))


def written_blocks(
    write: Callable[[Attachment], dict[str, Any] | None],
    result: ToolResult,
    text: str,
    losses: list[Loss],
    *,
    text_kind: str,
    name_key: str,
) -> list[dict[str, Any]]:
    """Words and attachments as a provider's blocks, with a line of words for an attachment that it cannot carry."""
    blocks: list[dict[str, Any]] = []
    for one in in_order(text, result.attachments):
        block = None if isinstance(one, str) else write(result.attachments[one])
        if block is None:
            words = one if isinstance(one, str) else attachment_lost(result, one, losses)
            block = {"type": text_kind, "text": words}
        elif isinstance(one, int):
            details_lost(result, one, losses, name=name_key not in block)
        blocks.append(block)
    return blocks


def out_of_order(attachments: Sequence[Attachment]) -> list[Attachment]:
    """The same attachments, all of them after the words."""
    return [one if one.after is None else replace(one, after=None) for one in attachments]
