"""Rows of the store as the JSON that answers hold; `messages` declares the same forms for readers."""

from __future__ import annotations

import base64
import json
import os
import random
from datetime import UTC, datetime
from functools import lru_cache
from time import time_ns
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from ferrule.core.context import Caller
from ferrule.core.errors import ErrorKind
from ferrule.core.result import Attachment, ErrorInfo, ToolResult, finite, plainly
from ferrule.pipeline.stages import CallRecord
from ferrule.records.redact import keep_arguments, redact_value
from ferrule.records.row import CONTENT, unreadable_content

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Row

_MOST_OUTPUT = 65_536
_MOST_COST = 1e9
_SHOWN_OF_CUT = 2_000
_ARGUMENTS, _LEAST = CONTENT.index("arguments"), CONTENT.index("waited")
"""What any row of the audit log has: the columns after it are newer."""
_CHANGED = "This row was changed: it does not have the form of one."


_chances = random.Random(os.urandom(32))  # noqa: S311 - an id is no secret; it must be nobody else's
_last_moment = 0


def new_id() -> str:
    """A UUID of version 7: ids sort by when they were made, also those of one process in the same millisecond."""
    global _last_moment
    now = time_ns()
    moment = (now // 1_000_000 << 12) + now % 1_000_000 * 4096 // 1_000_000
    if moment <= _last_moment:
        moment = _last_moment + 1
    _last_moment = moment
    return f"{moment >> 12:012x}7{moment & 0xFFF:03x}{_VARIANT | _chances.getrandbits(62):016x}"


_VARIANT = 0b10 << 62


def shown_time(moment: float | None) -> str | None:
    return None if moment is None else _second(int(moment)) + _MILLISECONDS[int(moment * 1000) % 1000]


_MILLISECONDS = tuple(f".{number:03d}Z" for number in range(1000))


@lru_cache(maxsize=256)
def _second(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def storable(text: str) -> str:
    """Text that any database takes: PostgreSQL has no place for NUL, and none takes half a surrogate pair."""
    if text.isprintable() and text.isascii():
        return text
    return text.replace("\x00", "\N{SYMBOL FOR NULL}").encode("utf-8", "backslashreplace").decode()


def json_text(value: Any) -> str:
    """Plain values as JSON in ASCII, which no database and no proxy changes."""
    try:
        text = to_json(value)
    except PydanticSerializationError:  # half a surrogate pair
        return json.dumps(value)
    return text.decode() if text.isascii() else json.dumps(value)


def call_json(row: Mapping[str, Any]) -> str:
    """A call as JSON text; its result is JSON text already."""
    return (
        f'{{"id":"{row["id"]}","tool":{_often(row["tool"])},"version":{_often(row["version"])},'
        f'"status":"{row["status"]}","user":{_often(row["user"])},"session":{_often(row["session"])},'
        f'"batch":{_text(row["batch"])},"approval":{_text(row["approval"])},'
        f'"created_at":{_text(shown_time(row["created"]))},"started_at":{_text(shown_time(row["started"]))},'
        f'"finished_at":{_text(shown_time(row["finished"]))},'
        f'"metadata":{row["metadata"]},"result":{row["result"] or "null"}}}'
    )


_often = lru_cache(maxsize=4096)(json_text)
"""For names, which come again and again."""


def _text(plain: str | None) -> str:
    """Ids and times, in which nothing has to be escaped."""
    return "null" if plain is None else f'"{plain}"'


def result_text(result: ToolResult, most: int = 0) -> str:
    """A result as it is stored and sent: ASCII, so that no database and no proxy changes it."""
    text = result.to_json()
    return text if not most or len(text) <= most else _cut(result.to_dict(), len(text), most)


def result_of(document: Mapping[str, Any], call_id: str) -> ToolResult:
    """The result that such a document was made of, for a call that its caller knows under another id."""
    metadata = dict(document["metadata"])
    tool = metadata.pop("tool", "")
    metadata.pop("call_id", None)
    told = document["error"]
    error = ErrorInfo(ErrorKind(told["type"]), told["message"], told["details"], told["suggestion"]) if told else None
    attachments = [
        Attachment(
            one["media_type"],
            base64.urlsafe_b64decode(one["data"]) if one["data"] is not None else None,
            one["uri"],
            one["name"],
            one.get("details"),
            one.get("after"),
        )
        for one in document.get("attachments", ())
    ]
    return ToolResult(
        call_id, tool, document["success"], document["llm_content"], document["display_content"], document["data"],
        error, metadata, attachments,
    )  # fmt: skip


def _cut(document: dict[str, Any], length: int, most: int) -> str:
    """The beginning of a result that is larger than the caller's limit allows."""
    said = document["llm_content"]
    note = f"\n[cut: the result has {length:,} bytes, and this caller may have {most:,}]"
    kept = {
        **document,
        "llm_content": said[: max(0, min(len(said), (most - 1_000) // 2))] + note,
        "display_content": document["display_content"][:_SHOWN_OF_CUT],
        "data": None,
        "metadata": {"call_id": document["metadata"]["call_id"], "tool": document["metadata"]["tool"], "cut": length},
    }
    kept.pop("attachments", None)
    text = json.dumps(kept)
    if len(text) > most:
        kept["llm_content"], kept["display_content"] = note.strip(), ""
        text = json.dumps(kept)
    return text


def cost_of(result: ToolResult) -> float:
    """What a call says that it cost: `Output(…, metadata={"cost": 0.02})`. An answer from a cache cost nothing."""
    said = result.metadata.get("cost")
    if isinstance(said, bool) or not isinstance(said, (int, float)) or result.metadata.get("cached"):
        return 0.0
    return float(said) if 0 <= said < _MOST_COST else 0.0


def error_text(row: Mapping[str, Any], kind: str, message: str, suggestion: str | None) -> str:
    """The result of a call that the pipeline never got to finish."""
    said = f"Error ({kind}): {message}" + (f"\n\nSuggestion: {suggestion}" if suggestion else "")
    return json.dumps(
        {
            "success": False, "llm_content": said, "display_content": message, "data": None,
            "error": {"type": kind, "message": message, "details": None, "suggestion": suggestion},
            "metadata": {"call_id": row["id"], "tool": row["tool"]},
        }
    )  # fmt: skip


CANCELLED = "It was cancelled."


def cancelled_text(row: Mapping[str, Any], why: str = CANCELLED) -> str:
    return error_text(row, ErrorKind.CANCELLED.value, f"`{row['tool']}` did not finish. {why}", None)


def kept_arguments(text: str) -> str:
    """The arguments of a call that has ended, without the secrets that can be recognised; JSON, as they were."""
    kept = keep_arguments(text)
    return stored_arguments(kept.text, kept.length)


def stored_arguments(kept: str, length: int) -> str:
    """The same for arguments that have no secrets any more, and had that length before they were cut."""
    return kept if length == len(kept) and kept[:1] in ("{", '"') else json.dumps(kept)


def without_secrets(arguments: str, question: str) -> dict[str, str]:
    """What an approval was about, as it is kept once that is decided: whole, but for secrets."""
    return {
        "arguments": json.dumps(redact_value(json.loads(arguments))),
        "question": json.dumps(redact_value(json.loads(question))),
    }


def end_record(row: Mapping[str, Any], kind: ErrorKind, message: str, *, stage: str = "execute") -> CallRecord:
    """For the audit log, of a call that the pipeline did not take to its end."""
    return CallRecord(
        row["id"], None, row["session"] or row["id"], Caller(row["tenant"], row["user"]), row["tool"],
        row["version"] or "", "", kept_arguments(row["arguments"]), row["started"] or row["created"], stage=stage,
        outcome=kind.value, error=message,
    )  # fmt: skip


def output_of(content: object) -> dict[str, Any]:
    """A piece of output as an event carries it."""
    plain = finite(to_jsonable_python(content, fallback=plainly, bytes_mode="base64"))
    text = plain if isinstance(plain, str) else json.dumps(plain)
    if len(text) > _MOST_OUTPUT:
        return {"content": text[:_MOST_OUTPUT], "cut": len(text)}
    return {"content": plain}


def stored_event(row: Row[Any]) -> dict[str, Any]:
    return {"id": row.seq, "type": row.type, "call": row.call, "at": shown_time(row.at), "data": json.loads(row.data)}


_MOST_LISTED_FILES = 200


def approval_document(row: Row[Any], *, redacted: bool = False, listed: bool = False) -> dict[str, Any]:
    """`redacted` for everyone but those who decide it: they must see what will run. One of several that are `listed`
    has the first of many files, and says how many more there are.
    """
    question, arguments = json.loads(row.question), json.loads(row.arguments)
    if listed and (effects := question["effects"]) and (more := len(effects["files"]) - _MOST_LISTED_FILES) > 0:
        question["effects"] = {**effects, "files": effects["files"][:_MOST_LISTED_FILES], "more_files": more}
    if redacted:
        question, arguments = redact_value(question), redact_value(arguments)
    return {
        "id": row.id, "call": row.call, "tool": row.tool, "tool_version": row.tool_version, "user": row.user,
        "arguments": arguments, "args_hash": row.args_hash, "summary": question["summary"],
        "reason": question["reason"], "warning": question["warning"], "rule": question["rule"],
        "covers": question.get("covers", ""), "not_covers": question.get("not_covers", ""),
        "preview": question.get("preview", ""), "effects": question["effects"],
        "status": row.status, "scope": row.scope, "decided_by": row.decided_by,
        "decision_reason": row.decision_reason, "created_at": shown_time(row.created),
        "expires_at": shown_time(row.expires), "decided_at": shown_time(row.decided),
    }  # fmt: skip


def audit_content(row: Row[Any]) -> list[Any] | None:
    """What a row of the audit log says, in the order of `CONTENT`; None where somebody wrote something else there."""
    try:
        said = json.loads(row.content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, list) or len(content := cast("list[Any]", said)) < _LEAST:
        return None
    is_flat = not any(isinstance(one, (list, dict)) for one in content)
    return content if is_flat and isinstance(content[_ARGUMENTS], str) else None


def audit_document(row: Row[Any]) -> dict[str, Any]:
    content = audit_content(row)
    said = dict(zip(CONTENT, content or unreadable_content(0.0, _CHANGED), strict=False))
    if content is None:
        said["arguments"] = row.content if isinstance(row.content, str) else str(row.content)
    said["cached"], said["abandoned"] = bool(said["cached"]), bool(said["abandoned"])
    return {"seq": row.seq, **said, "prev_hash": row.prev_hash, "hash": row.hash}
