"""A conversation as every provider insists on it: each call answered once, under an id that the provider takes.

Conversations come from anywhere: another provider's model, a session that was interrupted, a summary. What one provider
lets pass another refuses, so the differences are taken out here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.model import ToolResults, UserMessage
from ferrule.core.result import ErrorInfo, ToolResult
from ferrule.dialects.wording import attachment_line, clean
from ferrule.models.loose_json import an_item, items, words

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from ferrule.core.model import AssistantMessage, Message
    from ferrule.core.result import Attachment
    from ferrule.dialects.dialect import Dialect


# What a provider wants to see again, kept with a message: signed thinking, encrypted reasoning.


def keep(provider: str, model: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """For `AssistantMessage.kept`; nothing where there is nothing to keep."""
    return {provider: {"model": model, "parts": parts}} if parts else {}


def recall(message: AssistantMessage, provider: str, model: str) -> list[dict[str, Any]]:
    """What was kept for this model, in the order it came."""
    kept = an_item(message.kept.get(provider))
    return items(kept.get("parts")) if words(kept.get("model")) == model else []


_MOST_UNREADABLE = 2000
_INTERRUPTED = "The call was interrupted. It is not known whether it did anything; check before you repeat it."


@dataclass(slots=True, frozen=True)
class CallIds:
    """The ids of calls that a provider takes; others are replaced by `prefix` and `digits` of a hash."""

    allowed: re.Pattern[str]
    prefix: str = "call_"
    digits: int = 24

    def fit(self, wanted: str, taken: set[str]) -> str:
        """The id itself, or one made of it: the same in every request, so that a cached prompt stays one."""
        fitting, round_ = wanted, 0
        while not self.allowed.fullmatch(fitting) or fitting in taken:
            digest = sha256(f"{wanted}\0{round_}".encode("utf-8", "replace")).hexdigest()
            fitting, round_ = self.prefix + digest[: self.digits], round_ + 1
        taken.add(fitting)
        return fitting


def transcript(messages: Sequence[Message], ids: CallIds) -> list[Message]:
    """The messages in a form that every provider takes."""
    taken: set[str] = set()
    out: list[Message] = []
    open_calls: list[tuple[str, RawCall]] = []  # the id as it was, the call as it is sent
    for message in messages:
        if isinstance(message, ToolResults):
            if open_calls:  # results without calls have nothing to answer
                out.append(_answers(open_calls, message))
                open_calls = []
            continue
        if open_calls:
            out.append(_answers(open_calls, ToolResults(())))
            open_calls = []
        if isinstance(message, UserMessage):
            out.append(message)
        elif message.calls or message.text.strip():
            calls = tuple(_sendable(call, ids.fit(call.id, taken)) for call in message.calls)
            open_calls = [(old.id, new) for old, new in zip(message.calls, calls, strict=True)]
            out.append(replace(message, calls=calls))
    if open_calls:
        out.append(_answers(open_calls, ToolResults(())))
    return out


def _answers(calls: list[tuple[str, RawCall]], given: ToolResults) -> ToolResults:
    """One result for each call, in the order of the calls."""
    left = list(given.results)
    answers: list[ToolResult] = []
    for old, call in calls:
        found = next((result for result in left if result.call_id == old), None)
        if found is None:
            error = ErrorInfo(ErrorKind.CANCELLED, _INTERRUPTED)
            answers.append(ToolResult(call.id, call.name, False, _INTERRUPTED, _INTERRUPTED, error=error))
        else:
            left.remove(found)
            answers.append(replace(found, call_id=call.id))
    return ToolResults(tuple(answers))


def _sendable(call: RawCall, wire_id: str) -> RawCall:
    """The call with arguments that are a JSON object; broken ones, which never ran, are shown as what they were."""
    arguments: Any = call.arguments
    if isinstance(arguments, (str, bytes)):
        try:
            loaded: Any = json.loads(arguments.strip() or "{}")
        except (ValueError, RecursionError):
            loaded = None
        if not isinstance(loaded, dict):
            text = arguments.decode("utf-8", "replace") if isinstance(arguments, bytes) else arguments
            text = text if len(text) <= _MOST_UNREADABLE else text[:_MOST_UNREADABLE] + "…"
            arguments = json.dumps({"unreadable_arguments": clean(text)}, ensure_ascii=False)
        elif not loaded:
            arguments = "{}"
    return RawCall(call.name, arguments, id=wire_id, version=call.version)


def attached(dialect: Dialect, message: UserMessage) -> list[tuple[str, dict[str, Any] | None]]:
    """What the person attached: text to show, or a part in the dialect's own form."""
    return [_attached(dialect, one) for one in message.attachments]


def _attached(dialect: Dialect, attachment: Attachment) -> tuple[str, dict[str, Any] | None]:
    if attachment.media_type.startswith("text/") and attachment.data is not None:
        named = f"{attachment.name}:\n" if attachment.name else ""
        return clean(named + attachment.data.decode("utf-8", "replace")), None
    part = dialect.write_attachment(attachment)
    return ("", part) if part is not None else (attachment_line(attachment), None)
