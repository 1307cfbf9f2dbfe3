"""Anthropic Messages, with its prompt cache and its signed thinking."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ferrule.core.model import AssistantMessage, StopReason, ToolResults, Usage, UserMessage
from ferrule.core.phrases import phrase
from ferrule.dialects.payload import an_item, count, items, words
from ferrule.models.known_models import output_limit_of
from ferrule.models.wire_form import AnswerReader, CallIds, CallPieces, WireForm, attached, recall, transcript

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule.core.model import ModelEvent, ModelRequest, ModelSettings
    from ferrule.core.tool import Tool
    from ferrule.models.faults import Endpoint, Faults
    from ferrule.models.wire_form import Frame

_IDS = CallIds(re.compile(r"[A-Za-z0-9_-]{1,64}"), prefix="toolu_")
_STOPS: dict[str, StopReason] = {
    "end_turn": "end", "stop_sequence": "end", "pause_turn": "end", "tool_use": "calls", "max_tokens": "length",
    "model_context_window_exceeded": "length", "refusal": "refused",
}  # fmt: skip
# https://platform.claude.com/docs/en/build-with-claude/structured-outputs
_WRITES_OUTPUT = re.compile(r"claude-[a-z]+-(?:4-[1-9](?!\d)|[5-9](?!\d))")
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_AUTO = {"type": "auto"}
_COUNTED = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_CACHED = {"cache_control": {"type": "ephemeral"}}
_VERSION = "2023-06-01"
_MOST_OUTPUT = 32_000  # also where a model could write more: a runaway answer costs money
_UNKNOWN_OUTPUT = 8_192
_THINKING = {"low": 2_048, "medium": 8_192, "high": 16_384}
_LEAST_THINKING = 1_024
# A conversation with calls is refused without tools, also where none may be called any more.
_NO_TOOL: dict[str, Any] = {
    "name": "no_tool",
    "description": "There is no tool. Never call this; answer in words.",
    "input_schema": {"type": "object", "properties": {}},
}


class AnthropicForm(WireForm):
    """`POST v1/messages`."""

    dialect = "anthropic"
    optional_fields = frozenset({"input_examples", "output_config"})
    lacks = frozenset({"temperature", "seed"})  # models that take a temperature get one as an extra field
    caches = frozenset({"off", "5m", "1h"})
    models_path = "v1/models?limit=1000"

    def path(self, model: str) -> str:
        return "v1/messages"

    def headers(self, endpoint: Endpoint) -> Mapping[str, str]:
        version = {"anthropic-version": _VERSION}
        return {**version, "x-api-key": endpoint.key} if endpoint.key else version

    def unfit(self, settings: ModelSettings, model: str) -> str:
        if settings.effort is not None and self._limit(settings, model) < 2 * _LEAST_THINKING:
            return phrase(
                "It needs `max_output_tokens` of at least {least} to think with `effort`.", least=2 * _LEAST_THINKING
            )
        if settings.effort is not None and settings.tool_choice not in (None, "auto"):
            return phrase("It takes `effort` only with the tool choice `auto`.")
        return super().unfit(settings, model)

    def body(self, request: ModelRequest, model: str) -> dict[str, Any]:
        settings = request.settings
        messages = self._messages(request, model)
        cached = _CACHED
        if settings.prompt_cache is not None:
            ttl = settings.prompt_cache
            cached = {} if ttl == "off" else {"cache_control": {"type": "ephemeral", "ttl": ttl}}
        # Cache up to the last two turns of the person: this request writes what the next one reads.
        for turn in [turn for turn in messages if turn["role"] == "user"][-2:]:
            turn["content"][-1] = {**turn["content"][-1], **cached}
        limit = self._limit(settings, model)
        body: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": limit, "stream": True}
        if request.system:
            body["system"] = [{"type": "text", "text": request.system, **cached}]
        tools = self._exporter.definitions(request.tools)
        choice = settings.tool_choice or "auto"
        if tools:
            body["tools"] = [*tools[:-1], {**tools[-1], **cached}]
            chosen: dict[str, Any] = {"type": "tool", "name": self._exporter.names.external(choice)}
            if choice in _CHOICES:
                chosen = {"type": _CHOICES[choice]}
            if settings.parallel_calls is not None and choice != "none":
                chosen["disable_parallel_tool_use"] = not settings.parallel_calls
            if chosen != _AUTO:
                body["tool_choice"] = chosen
        elif any(isinstance(message, AssistantMessage) and message.calls for message in request.messages):
            body["tools"] = [_NO_TOOL]
            body["tool_choice"] = {"type": "none"}
        if settings.effort is not None and choice == "auto":  # no other choice goes with thinking
            body["thinking"] = {"type": "enabled", "budget_tokens": min(_THINKING[settings.effort], limit // 2)}
        if settings.stop:
            body["stop_sequences"] = list(settings.stop)
        if request.output is not None:
            schema = self._outputs.export(request.output).definition["input_schema"]
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        return body

    def writes_output(self, model: str, output: Tool[Any], tools: Sequence[Tool[Any]]) -> bool:
        return _WRITES_OUTPUT.match(model) is not None and "strict" in self._outputs.export(output).definition

    def _limit(self, settings: ModelSettings, model: str) -> int:
        return settings.max_output_tokens or min(
            _MOST_OUTPUT, output_limit_of(self._provider, model) or _UNKNOWN_OUTPUT
        )

    def reader(self, faults: Faults, model: str) -> AnthropicReader:
        return AnthropicReader(self._provider, model, self._exporter, faults)

    def _messages(self, request: ModelRequest, model: str) -> list[dict[str, Any]]:
        """Turns of the two in alternation; what the person adds while tools run goes into one turn with the results."""
        turns: list[dict[str, Any]] = []
        for message in transcript(request.messages, _IDS):
            if isinstance(message, AssistantMessage):
                role, blocks = "assistant", self._as_it_was(message, model) or self._assistant(message)
            elif isinstance(message, ToolResults):
                role, blocks = "user", self._exporter.results(message.results)[0]["content"]
            else:
                role, blocks = "user", self._content(message)
            if turns and turns[-1]["role"] == role:
                turns[-1]["content"] += blocks
            else:
                turns.append({"role": role, "content": list(blocks)})
        return turns

    def _content(self, message: UserMessage) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        for text, part in attached(self._exporter.dialect, message):
            blocks.append(part or {"type": "text", "text": text})
        # An empty text is refused, and so is a turn without anything.
        said = message.text if message.text.strip() else "" if blocks else "(nothing)"
        return [*blocks, {"type": "text", "text": said}] if said else blocks

    def _assistant(self, message: AssistantMessage) -> list[dict[str, Any]]:
        said = [{"type": "text", "text": message.text}] if message.text.strip() else []
        return [*said, *(self._exporter.write_call(call) for call in message.calls)]

    def _as_it_was(self, message: AssistantMessage, model: str) -> list[dict[str, Any]]:
        """The blocks in the order they came, thinking word for word; nothing where they are not this message's."""
        kept = recall(message, self._provider, model)
        said = "".join(words(block.get("text")) for block in kept if block.get("type") == "text")
        if said != message.text or sum(block.get("type") == "tool_use" for block in kept) != len(message.calls):
            return []
        calls = iter(message.calls)
        blocks = [self._exporter.write_call(next(calls)) if one.get("type") == "tool_use" else one for one in kept]
        return [block for block in blocks if block.get("type") != "text" or words(block.get("text")).strip()]


class AnthropicReader(AnswerReader):
    """Reads the events of a message, or the whole message of a server that does not stream."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._blocks: dict[Any, dict[str, Any]] = {}  # as they will be sent back, in the order they came
        self._calls: dict[Any, CallPieces] = {}
        self._counts: dict[str, int] = {}

    def read(self, frame: Frame) -> list[ModelEvent]:
        data = an_item(frame.data)
        kind = words(data.get("type")) or frame.event
        if kind == "error" or (data.get("error") and "type" not in data):
            raise self._faults.from_body(data)
        if frame.event == "whole":
            if not isinstance(data.get("content"), list):
                raise self._faults.garbled(phrase("it is not a message"))
            self._whole(data)
        elif kind == "message_start":
            self._count(an_item(data.get("message")).get("usage"))
        elif kind == "content_block_start":
            self._begin(data.get("index"), an_item(data.get("content_block")))
        elif kind == "content_block_delta":
            self._delta(data.get("index"), an_item(data.get("delta")))
        elif kind == "message_delta":
            self._count(data.get("usage"))
            self._ended(an_item(data.get("delta")))
        elif kind == "message_stop":
            self.is_over = True
            self._stop = self._stop or "end"
        return self._answer.take()

    def _kept(self) -> list[dict[str, Any]]:
        parts = list(self._blocks.values())
        return parts if any(part["type"] in ("thinking", "redacted_thinking") for part in parts) else []

    def _whole(self, message: dict[str, Any]) -> None:
        for at, block in enumerate(items(message.get("content"))):
            self._begin(at, block)
        self._count(message.get("usage"))
        self._ended({"stop_reason": "end_turn", **message})
        self.is_over = True

    def _begin(self, index: Any, block: dict[str, Any]) -> None:
        kind = block.get("type")
        place = index if isinstance(index, int) else len(self._blocks)
        if kind == "text":
            self._blocks[place] = {"type": "text", "text": words(block.get("text"))}
            self._answer.say(words(block.get("text")))
        elif kind == "thinking":
            self._blocks[place] = {
                "type": "thinking",
                "thinking": words(block.get("thinking")),
                "signature": words(block.get("signature")),
            }
            self._answer.think(words(block.get("thinking")))
        elif kind == "redacted_thinking":
            self._blocks[place] = {"type": "redacted_thinking", "data": words(block.get("data"))}
        elif kind == "tool_use":
            self._blocks[place] = {"type": "tool_use"}
            call = self._calls[place] = self._answer.begin_call(words(block.get("id")), words(block.get("name")))
            self._answer.announce(call)
            if block.get("input"):
                call.replace(block["input"])

    def _delta(self, index: Any, delta: dict[str, Any]) -> None:
        place = index if isinstance(index, int) else len(self._blocks) - 1
        kind = delta.get("type")
        if kind == "input_json_delta":
            if place in self._calls:
                self._calls[place].add(words(delta.get("partial_json")))
            return
        field = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}.get(words(kind))
        if field is None:
            return
        block = self._blocks.setdefault(place, {"type": "text" if field == "text" else "thinking"})
        piece = words(delta.get(field))
        block[field] = words(block.get(field)) + piece
        if field == "text":
            self._answer.say(piece)
        elif field == "thinking":
            self._answer.think(piece)

    def _ended(self, delta: dict[str, Any]) -> None:
        if reason := words(delta.get("stop_reason")):
            self._stop = _STOPS.get(reason, "other")
        if self._stop == "refused" and not self._answer.text:
            self._answer.say(words(an_item(delta.get("stop_details")).get("explanation")))

    def _count(self, usage: Any) -> None:
        """Counts are totals; a later one replaces an earlier one, but nothing does not."""
        self._counts |= {key: found for key in _COUNTED if (found := count(an_item(usage).get(key)))}
        plain, given, read, written = (self._counts.get(key, 0) for key in _COUNTED)
        self._usage = Usage(plain + read + written, given, read, written)
