"""The same scripted answer in each provider's wire form, streamed and whole, and models that read them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ferrule.core.model import Finished, ModelEvent, ModelRequest, UserMessage
from ferrule.models.faults import Endpoint, Tries
from ferrule.models.http_model import HttpModel, TimeLimits
from ferrule.models.providers import Provider, form_of

from .server import Reply, Server, sse

KEY = "sk-scripted-0123456789abcdef"
QUICK = TimeLimits(connect=5, first_byte=5, silence=5, usage=0.2, after_the_end=0.2, whole=20)
FORMS = ("chat", "responses", "anthropic", "gemini")
NAMES = {"chat": "scripted", "responses": "openai", "anthropic": "anthropic", "gemini": "gemini"}
PATHS = {"chat": "/v1", "responses": "/v1", "anthropic": "", "gemini": "/v1beta"}


@dataclass
class Call:
    id: str
    name: str
    pieces: list[str]

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


@dataclass
class Says:
    """What the model says, in nobody's form. `stop` is one of ours."""

    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    stop: str = "end"
    read: int = 120
    cached: int = 40
    written: int = 30


def stream_of(form: str, says: Says) -> list[bytes]:
    return _STREAMS[form](says)


def reply(form: str, says: Says, *, stream: bool = True) -> Reply:
    if stream:
        return Reply(stream_of(form, says))
    return Reply([json.dumps(_WHOLES[form](says), ensure_ascii=False).encode()], content_type="application/json")


# Chat

_CHAT_STOPS = {"end": "stop", "calls": "tool_calls", "length": "length", "refused": "content_filter"}


def chat_chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}


def _chat_usage(says: Says) -> dict[str, Any]:
    return {
        "prompt_tokens": says.read,
        "completion_tokens": says.written,
        "total_tokens": says.read + says.written,
        "prompt_tokens_details": {"cached_tokens": says.cached},
    }


def _chat_stream(says: Says) -> list[bytes]:
    events: list[Any] = [chat_chunk({"role": "assistant", "content": ""})]
    events += [chat_chunk({"reasoning_content": piece}) for piece in says.thinking]
    events += [chat_chunk({"content": piece}) for piece in says.text]
    for at, call in enumerate(says.calls):
        function = {"name": call.name, "arguments": ""}
        events.append(
            chat_chunk({"tool_calls": [{"index": at, "id": call.id, "type": "function", "function": function}]})
        )
        events += [
            chat_chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}) for piece in call.pieces
        ]
    events.append(chat_chunk({}, _CHAT_STOPS[says.stop]))
    events.append({**chat_chunk({}), "choices": [], "usage": _chat_usage(says)})
    return sse(*events, "[DONE]")


def _chat_whole(says: Says) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(says.text) or None}
    if says.thinking:
        message["reasoning_content"] = "".join(says.thinking)
    if says.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in says.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _CHAT_STOPS[says.stop]}
    return {"id": "c1", "object": "chat.completion", "choices": [choice], "usage": _chat_usage(says)}


# Responses


def _response(says: Says) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if says.thinking:
        summary = [{"type": "summary_text", "text": "".join(says.thinking)}]
        output.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA"})
    if says.text:
        content = [{"type": "output_text", "text": "".join(says.text), "annotations": []}]
        output.append(
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        )
    for at, call in enumerate(says.calls):
        item = {"type": "function_call", "id": f"fc_{at}", "call_id": call.id, "name": call.name}
        output.append({**item, "arguments": call.arguments, "status": "completed"})
    incomplete = {"length": "max_output_tokens", "refused": "content_filter"}.get(says.stop)
    return {
        "id": "resp_1",
        "object": "response",
        "status": "incomplete" if incomplete else "completed",
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "error": None,
        "output": output,
        "usage": {
            "input_tokens": says.read,
            "input_tokens_details": {"cached_tokens": says.cached},
            "output_tokens": says.written,
            "output_tokens_details": {"reasoning_tokens": 10},
            "total_tokens": says.read + says.written,
        },
    }


def _responses_stream(says: Says) -> list[bytes]:
    whole = _response(says)
    events: list[Any] = [{"type": "response.created", "response": {**whole, "output": [], "status": "in_progress"}}]
    pieces = {"reasoning": says.thinking, "message": says.text}
    calls = iter(says.calls)
    for at, item in enumerate(whole["output"]):
        kind = item["type"]
        begun = {**item, "status": "in_progress"}
        begun |= {"arguments": ""} if kind == "function_call" else {"summary": []} if kind == "reasoning" else {}
        begun |= {"content": []} if kind == "message" else {}
        events.append({"type": "response.output_item.added", "output_index": at, "item": begun})
        if kind == "function_call":
            event = "response.function_call_arguments"
            place = {"output_index": at, "item_id": item["id"]}
            events += [{"type": f"{event}.delta", **place, "delta": piece} for piece in next(calls).pieces]
            events.append({"type": f"{event}.done", **place, "arguments": item["arguments"]})
        else:
            part, event = "response.content_part", "response.output_text"
            if kind == "reasoning":
                part, event = "response.reasoning_summary_part", "response.reasoning_summary_text"
            place = {"output_index": at, "item_id": item["id"]}
            place |= {"content_index": 0} if kind == "message" else {"summary_index": 0}
            whole_part = (item["content"] if kind == "message" else item["summary"])[0]
            events.append({"type": f"{part}.added", **place, "part": {**whole_part, "text": ""}})
            events += [{"type": f"{event}.delta", **place, "delta": piece} for piece in pieces[kind]]
            events.append({"type": f"{event}.done", **place, "text": whole_part["text"]})
            events.append({"type": f"{part}.done", **place, "part": whole_part})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return sse(*((event["type"], {**event, "sequence_number": at}) for at, event in enumerate(events)))


# Anthropic

_ANTHROPIC_STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refused": "refusal"}


def _anthropic_usage(says: Says) -> dict[str, Any]:
    return {
        "input_tokens": says.read - says.cached,
        "cache_read_input_tokens": says.cached,
        "cache_creation_input_tokens": 0,
    }


def _anthropic_stream(says: Says) -> list[bytes]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m"}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "usage": {**_anthropic_usage(says), "output_tokens": 1}}},
        {"type": "ping"},
    ]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if says.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in says.thinking]
        deltas += [{"type": "signature_delta", "signature": "EqQB"}]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if says.text:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in says.text]))
    for call in says.calls:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in call.pieces]
        blocks.append(({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, deltas))
    for at, (begun, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": at, "content_block": begun})
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": at})
    stopped = {"stop_reason": _ANTHROPIC_STOPS[says.stop], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stopped, "usage": {"output_tokens": says.written}})
    events.append({"type": "message_stop"})
    return sse(*((event["type"], event) for event in events))


def _anthropic_whole(says: Says) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if says.thinking:
        content.append({"type": "thinking", "thinking": "".join(says.thinking), "signature": "EqQB"})
    if says.text:
        content.append({"type": "text", "text": "".join(says.text)})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
        for call in says.calls
    ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": _ANTHROPIC_STOPS[says.stop],
        "usage": {**_anthropic_usage(says), "output_tokens": says.written},
    }


# Gemini

_GEMINI_STOPS = {"end": "STOP", "calls": "STOP", "length": "MAX_TOKENS", "refused": "SAFETY"}


def _gemini_parts(says: Says) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in says.thinking]
    parts += [{"text": piece} for piece in says.text]
    for at, call in enumerate(says.calls):
        part: dict[str, Any] = {"functionCall": {"id": call.id, "name": call.name, "args": json.loads(call.arguments)}}
        parts.append({**part, "thoughtSignature": "c2ln"} if at == 0 and says.thinking else part)
    return parts


def _gemini_usage(says: Says) -> dict[str, Any]:
    return {
        "promptTokenCount": says.read,
        "cachedContentTokenCount": says.cached,
        "candidatesTokenCount": says.written - 10,
        "thoughtsTokenCount": 10,
        "totalTokenCount": says.read + says.written,
    }


def _gemini_chunk(parts: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **more}]}


def _gemini_stream(says: Says) -> list[bytes]:
    events = [_gemini_chunk([part]) for part in _gemini_parts(says)]
    last = _gemini_chunk([], finishReason=_GEMINI_STOPS[says.stop])
    return sse(*events, {**last, "usageMetadata": _gemini_usage(says)})


def _gemini_whole(says: Says) -> dict[str, Any]:
    chunk = _gemini_chunk(_gemini_parts(says), finishReason=_GEMINI_STOPS[says.stop])
    return {**chunk, "usageMetadata": _gemini_usage(says)}


_STREAMS = {
    "chat": _chat_stream, "responses": _responses_stream, "anthropic": _anthropic_stream, "gemini": _gemini_stream,
}  # fmt: skip
_WHOLES = {"chat": _chat_whole, "responses": _response, "anthropic": _anthropic_whole, "gemini": _gemini_whole}


# Models over them


class Waits:
    """Remembers how long a model would have slept between tries, and does not sleep."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def model_at(
    url: str,
    form: str = "chat",
    *,
    name: str = "m",
    provider: str = "",
    tries: Tries = Tries(),  # noqa: B008
    limits: TimeLimits = QUICK,
    waits: Waits | None = None,
    key: str = KEY,
) -> HttpModel:
    known = Provider(provider or NAMES[form], "Scripted", form, url + PATHS[form])  # pyright: ignore[reportArgumentType]
    endpoint = Endpoint(known.name, known.label, known.base_url, key, "SCRIPTED_API_KEY")
    return HttpModel(form_of(known), endpoint, name, tries=tries, limits=limits, sleep=waits or Waits())


@asynccontextmanager
async def serving(
    *replies: Reply, form: str = "chat", **options: Any
) -> AsyncGenerator[tuple[Server, HttpModel], None]:
    async with Server(*replies) as server:
        model = model_at(server.url, form, **options)
        try:
            yield server, model
        finally:
            await model.close()


async def ask(model: HttpModel, request: ModelRequest | None = None) -> list[ModelEvent]:
    return [event async for event in model.stream(request or ModelRequest([UserMessage("hello")]))]


def finished(events: list[ModelEvent]) -> Finished:
    assert isinstance(events[-1], Finished)
    assert sum(isinstance(event, Finished) for event in events) == 1
    return events[-1]
