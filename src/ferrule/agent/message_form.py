"""Messages as JSON and back: how a conversation is kept, without the secrets that can be recognised in it."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from ferrule.core.call import RawCall
from ferrule.core.conversation import AssistantMessage, ToolResults, UserMessage
from ferrule.core.errors import ErrorKind
from ferrule.core.result import Attachment, ErrorInfo, ToolResult
from ferrule.core.secrets import redact_text, redact_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.conversation import Message


def to_form(message: Message) -> dict[str, Any]:
    """Plain JSON values. What a provider wants back word for word stays as it is: it would not take it otherwise."""
    if isinstance(message, UserMessage):
        form: dict[str, Any] = {"type": "user", "text": redact_text(message.text)}
        return _with(form, attachments=[_attachment_form(one) for one in message.attachments])
    if isinstance(message, AssistantMessage):
        form = {"type": "assistant", "text": redact_text(message.text)}
        calls = [_call_form(call) for call in message.calls]
        return _with(form, calls=calls, thinking=redact_text(message.thinking), kept=_plain(dict(message.kept)))
    return {"type": "results", "results": [_result_form(one) for one in message.results]}


def from_form(form: Mapping[str, Any]) -> Message:
    """The message again; raises `KeyError`, `TypeError` or `ValueError` where the form is none."""
    match form["type"]:
        case "user":
            return UserMessage(str(form["text"]), tuple(_attachment(one) for one in form.get("attachments", ())))
        case "assistant":
            calls = tuple(
                RawCall(str(one["name"]), one["arguments"], id=str(one["id"]), version=one.get("version"))
                for one in form.get("calls", ())
            )
            return AssistantMessage(str(form["text"]), calls, str(form.get("thinking", "")), form.get("kept", {}))
        case "results":
            return ToolResults(tuple(_result(one) for one in form["results"]))
        case other:
            raise ValueError(f"`{other}` is no kind of message")


def _with(form: dict[str, Any], **more: Any) -> dict[str, Any]:
    return form | {key: value for key, value in more.items() if value}


def _call_form(call: RawCall) -> dict[str, Any]:
    form = {"id": call.id, "name": call.name, "arguments": _plain(redact_value(call.arguments))}
    return _with(form, version=call.version)


def _result_form(result: ToolResult) -> dict[str, Any]:
    form = {
        "call_id": result.call_id,
        "tool": result.tool,
        "success": result.success,
        "llm_content": redact_text(result.llm_content),
        "display_content": redact_text(result.display_content),
    }
    error = {"type": result.error.kind.value, "message": redact_text(result.error.message)} if result.error else None
    return _with(form, error=error, attachments=[_attachment_form(one) for one in result.attachments])


def _result(form: Mapping[str, Any]) -> ToolResult:
    error = form.get("error")
    return ToolResult(
        call_id=str(form["call_id"]),
        tool=str(form["tool"]),
        success=bool(form["success"]),
        llm_content=str(form["llm_content"]),
        display_content=str(form["display_content"]),
        error=ErrorInfo(ErrorKind(error["type"]), str(error["message"])) if error else None,
        attachments=[_attachment(one) for one in form.get("attachments", ())],
    )


def _attachment_form(one: Attachment) -> dict[str, Any]:
    data = b64encode(one.data).decode() if one.data is not None else None
    form = _with({"media_type": one.media_type}, data=data, uri=one.uri, name=one.name)
    return form if one.after is None else form | {"after": one.after}


def _attachment(form: Mapping[str, Any]) -> Attachment:
    data = b64decode(form["data"]) if "data" in form else None
    return Attachment(str(form["media_type"]), data, form.get("uri"), form.get("name"), after=form.get("after"))


def _plain(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=str, bytes_mode="base64")
