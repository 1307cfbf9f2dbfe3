"""OpenAI: Chat Completions, as most other servers speak them too, and Responses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ferrule.core.model import NO_SETTINGS, StopReason, ToolResults, Usage, UserMessage
from ferrule.core.phrases import phrase
from ferrule.dialects.payload import an_item, count, items, words
from ferrule.models.wire_form import (
    CHOICES,
    AnswerReader,
    CallIds,
    CallPieces,
    WireForm,
    attached,
    given_of,
    recall,
    transcript,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule.core.model import AssistantMessage, ModelEvent, ModelRequest
    from ferrule.core.tool import Tool
    from ferrule.dialects.exporter import Exporter
    from ferrule.models.faults import Faults
    from ferrule.models.wire_form import Frame


_STOPS: dict[str, StopReason] = {
    "stop": "end", "eos": "end", "end_turn": "end", "stop_sequence": "end", "tool_calls": "calls", "tool_call": "calls",
    "tool_use": "calls", "function_call": "calls", "length": "length", "max_tokens": "length", "model_length": "length",
    "content_filter": "refused", "refusal": "refused", "safety": "refused",
}  # fmt: skip
OPENAI_IDS = CallIds(re.compile(r"[A-Za-z0-9_-]{1,40}"))
# https://developers.openai.com/api/docs/guides/structured-outputs
_WRITES_OUTPUT = re.compile(r"(?:ft:)?(?:gpt-(?:4o|4\.1|[5-9])|o[1-9])(?!.*(?:audio|search))")
MISTRAL_IDS = CallIds(re.compile(r"[A-Za-z0-9]{9}"), prefix="", digits=9)


@dataclass(slots=True, frozen=True)
class Accent:
    """Where a server differs from OpenAI: its ids, its names of fields, whether it knows strict tools and schemas, the
    settings that it lacks, the prompt caches that it has, and fields that make it refuse what it would else ignore.
    """

    ids: CallIds = OPENAI_IDS
    limit_field: str = "max_tokens"
    seed_field: str = "seed"
    strict: bool | None = False
    usage_asked: bool = True
    writes_output: bool = False
    lacks: frozenset[str] = frozenset()
    caches: frozenset[str] = frozenset()
    exacting: Mapping[str, Any] = field(default_factory=dict[str, Any])


PLAIN = Accent()


class OpenAIChatForm(WireForm):
    """`POST chat/completions`."""

    dialect = "openai"
    optional_fields = frozenset({"stream_options"})

    def __init__(self, provider: str, accent: Accent = PLAIN) -> None:
        super().__init__(provider, strict=accent.strict)
        self._accent = accent
        self.lacks, self.caches = accent.lacks, accent.caches

    def path(self, model: str) -> str:
        return "chat/completions"

    def body(self, request: ModelRequest, model: str) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "system", "content": request.system}] if request.system else []
        for message in transcript(request.messages, self._accent.ids):
            if isinstance(message, UserMessage):
                messages.append({"role": "user", "content": self._content(message)})
            elif isinstance(message, ToolResults):
                messages += self._exporter.results(message.results)
            else:
                messages.append(self._assistant(message, model))
        body: dict[str, Any] = {"model": model, "messages": messages, "stream": True}
        if self._accent.usage_asked:
            body["stream_options"] = {"include_usage": True}
        settings = request.settings
        if request.tools:
            body["tools"] = self._exporter.definitions(request.tools)
            if (choice := settings.tool_choice or "auto") in CHOICES:
                body |= {"tool_choice": choice} if choice != "auto" else {}
            else:
                body["tool_choice"] = {"type": "function", "function": {"name": self._exporter.names.external(choice)}}
            if settings.parallel_calls is not None:
                body["parallel_tool_calls"] = settings.parallel_calls
        if request.output is not None:
            held_to = _held_to(self._outputs, request.output)
            body["response_format"] = {"type": "json_schema", "json_schema": held_to}
        if settings is NO_SETTINGS:
            return body
        chosen: dict[str, Any] = {
            self._accent.limit_field: settings.max_output_tokens, "temperature": settings.temperature,
            self._accent.seed_field: settings.seed, "stop": list(settings.stop) or None,
            "reasoning_effort": settings.effort, "prompt_cache_retention": settings.prompt_cache,
        }  # fmt: skip
        return {**body, **given_of(chosen), **self._accent.exacting}

    def writes_output(self, model: str, output: Tool[Any], tools: Sequence[Tool[Any]]) -> bool:
        return self._accent.writes_output and _can_hold(self._outputs, model, output)

    def reader(self, faults: Faults, model: str) -> ChatReader:
        return ChatReader(self._provider, model, self._exporter, faults)

    def _content(self, message: UserMessage) -> str | list[dict[str, Any]]:
        parts: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
        for text, part in attached(self._exporter.dialect, message):
            parts.append(part or {"type": "text", "text": text})
        if all(part["type"] == "text" for part in parts):  # servers without eyes take a string alone
            return "\n\n".join(part["text"] for part in parts)
        return parts

    def _assistant(self, message: AssistantMessage, model: str) -> dict[str, Any]:
        # An empty string, not null: some servers ask for the field, and none refuses it empty beside calls.
        written: dict[str, Any] = {"role": "assistant", "content": message.text}
        for part in recall(message, self._provider, model):
            written |= part
        if message.calls:
            written["tool_calls"] = [self._exporter.write_call(call) for call in message.calls]
        return written


# The same of both forms: a schema that the answer is held to.


def _can_hold(outputs: Exporter, model: str, output: Tool[Any]) -> bool:
    return _WRITES_OUTPUT.match(model) is not None and _held_to(outputs, output)["strict"]


def _held_to(outputs: Exporter, output: Tool[Any]) -> dict[str, Any]:
    written = outputs.export(output).definition
    function = written.get("function", written)
    named = {key: function[key] for key in ("name", "description") if function[key]}
    return {**named, "schema": function["parameters"], "strict": function["strict"]}


class ChatReader(AnswerReader):
    """Reads chunks of a stream, or the one body of a server that does not stream."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._slots: dict[Any, CallPieces] = {}
        self._reasoning: list[str] = []  # under the name that servers want back
        self._details: list[dict[str, Any]] = []

    def read(self, frame: Frame) -> list[ModelEvent]:
        self.is_over = frame.event in ("done", "whole")
        if frame.event == "done":
            if self._stop is None and (self._answer.text or self._answer.calls):  # some never say why they stop
                self._stop = "end"
            return []
        chunk = an_item(frame.data)
        if chunk.get("error"):
            raise self._faults.from_body(chunk)
        if not chunk or (frame.event == "whole" and not items(chunk.get("choices"))):
            raise self._faults.garbled(phrase("it is not a chat completion"))
        for choice in items(chunk.get("choices"))[:1]:
            self._choice(choice)
        self._count(chunk.get("usage") or an_item(chunk.get("x_groq")).get("usage"))
        return self._answer.take()

    def _kept(self) -> list[dict[str, Any]]:
        if self._details:
            return [{"reasoning_details": self._details}]
        return [{"reasoning_content": "".join(self._reasoning)}] if self._reasoning else []

    def _choice(self, choice: dict[str, Any]) -> None:
        said = an_item(choice.get("delta")) or an_item(choice.get("message"))
        if choice.get("error"):
            raise self._faults.from_body(choice)
        text = words(said.get("reasoning_content"))
        if text:
            self._reasoning.append(text)
        text = text or words(said.get("reasoning")) or words(said.get("thinking"))
        for detail in items(said.get("reasoning_details")):
            self._detail(detail)
            text = text or words(detail.get("text")) or words(detail.get("summary"))
        self._answer.think(text)
        self._content(said.get("content"))
        if refusal := words(said.get("refusal")):
            self._refused = True
            self._answer.say(refusal)
        pieces = items(said.get("tool_calls"))
        if not pieces and isinstance(said.get("function_call"), dict):  # the older form of a single call
            pieces = [{"index": 0, "function": said["function_call"]}]
        for piece in pieces:
            self._call(piece)
        self._count(choice.get("usage"))
        if reason := words(choice.get("finish_reason")):
            if reason in ("error", "insufficient_system_resource", "network_error"):
                raise self._faults.broken(phrase("the answer ended with {reason}", reason=f"{reason!r}"))
            self._stop = _STOPS.get(reason.lower(), "other")

    def _detail(self, piece: dict[str, Any]) -> None:
        """A piece of OpenRouter's reasoning; pieces of one detail are joined."""
        last = self._details[-1] if self._details else {}
        if not last or (last.get("type"), last.get("index")) != (piece.get("type"), piece.get("index")):
            self._details.append(dict(piece))
            return
        for key, value in piece.items():
            growing = key in ("text", "summary", "data", "signature") and isinstance(value, str)
            last[key] = words(last.get(key)) + value if growing else value if value is not None else last.get(key)

    def _content(self, content: Any) -> None:
        self._answer.say(words(content))
        for part in items(content):  # Mistral's thinking models write parts
            if part.get("type") == "thinking":
                self._answer.think("".join(words(one.get("text")) for one in items(part.get("thinking"))))
            else:
                self._answer.say(words(part.get("text")))

    def _call(self, piece: dict[str, Any]) -> None:
        function = an_item(piece.get("function"))
        name, arguments = words(function.get("name")), function.get("arguments")
        call = self._place(piece.get("index"), words(piece.get("id")), name, bool(arguments))
        call.wire_id = call.wire_id or words(piece.get("id"))
        call.called(name)
        if isinstance(arguments, str):
            call.add(arguments)
        elif arguments is not None:
            call.replace(arguments)
        if call.name and call.arguments:
            self._answer.announce(call)

    def _place(self, index: Any, wire_id: str, name: str, has_arguments: bool) -> CallPieces:
        """The call that a piece belongs to: by its index, its id, or as the one that is still open.

        Some servers leave the index out, some give every call the index 0, and some repeat name or id in every piece.
        """
        calls, indexed = self._answer.calls, isinstance(index, int)
        if indexed:
            open_one = self._slots.get(index)
        else:
            same_id = (call for call in calls if wire_id and call.wire_id == wire_id)
            open_one = next(same_id, None)
            if open_one is None and calls and not (wire_id and calls[-1].wire_id):
                open_one = calls[-1]
        if open_one is None or self._begins_another(open_one, wire_id, name, has_arguments):
            open_one = self._answer.begin_call(wire_id)
            if indexed:
                self._slots[index] = open_one
        return open_one

    @staticmethod
    def _begins_another(open_one: CallPieces, wire_id: str, name: str, has_arguments: bool) -> bool:
        if not name or not open_one.name:
            return False
        if wire_id and open_one.wire_id:
            repeated = name == open_one.name and bool(open_one.arguments) and not open_one.is_whole
            return wire_id != open_one.wire_id and not repeated
        if wire_id or not open_one.arguments:
            return False
        return name != open_one.name or (has_arguments and open_one.is_whole)

    def _count(self, usage: Any) -> None:
        found = an_item(usage)
        if not found:
            return
        details = an_item(found.get("prompt_tokens_details"))
        cost = found.get("cost")
        self._usage = Usage(
            count(found.get("prompt_tokens")),
            count(found.get("completion_tokens")),
            count(details.get("cached_tokens"))
            or count(found.get("prompt_cache_hit_tokens"))
            or count(found.get("cached_tokens")),
            count(details.get("cache_write_tokens")),
            float(cost) if isinstance(cost, (int, float)) and not isinstance(cost, bool) and cost >= 0 else None,
        )


# OpenAI Responses, asked without being stored: reasoning travels with the conversation, encrypted.


_IDS = CallIds(re.compile(r"[A-Za-z0-9_-]{1,64}"))
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


class OpenAIResponsesForm(WireForm):
    """`POST responses`."""

    dialect = "openai-responses"
    lacks = frozenset({"seed", "stop"})
    caches = frozenset({"24h"})

    def path(self, model: str) -> str:
        return "responses"

    def body(self, request: ModelRequest, model: str) -> dict[str, Any]:
        written: list[dict[str, Any]] = []
        for message in transcript(request.messages, _IDS):
            if isinstance(message, UserMessage):
                written.append({"role": "user", "content": self._content(message)})
            elif isinstance(message, ToolResults):
                written += self._exporter.results(message.results)
            else:
                written += self._as_it_was(message, model) or self._assistant(message)
        body: dict[str, Any] = {
            "model": model,
            "input": written,
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if request.system:
            body["instructions"] = request.system
        settings = request.settings
        if request.tools:
            body["tools"] = self._exporter.definitions(request.tools)
            if (choice := settings.tool_choice or "auto") in CHOICES:
                body |= {"tool_choice": choice} if choice != "auto" else {}
            else:
                body["tool_choice"] = {"type": "function", "name": self._exporter.names.external(choice)}
            if settings.parallel_calls is not None:
                body["parallel_tool_calls"] = settings.parallel_calls
        if settings.max_output_tokens is not None:
            body["max_output_tokens"] = max(16, settings.max_output_tokens)  # fewer are refused
        if settings.effort is not None:
            body["reasoning"] = {"effort": settings.effort, "summary": "auto"}
        body |= given_of({"temperature": settings.temperature, "prompt_cache_retention": settings.prompt_cache})
        if request.output is not None:
            body["text"] = {"format": {"type": "json_schema", **_held_to(self._outputs, request.output)}}
        return body

    def writes_output(self, model: str, output: Tool[Any], tools: Sequence[Tool[Any]]) -> bool:
        return _can_hold(self._outputs, model, output)

    def reader(self, faults: Faults, model: str) -> ResponsesReader:
        return ResponsesReader(self._provider, model, self._exporter, faults)

    def _content(self, message: UserMessage) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = [{"type": "input_text", "text": message.text}] if message.text else []
        for text, part in attached(self._exporter.dialect, message):
            parts.append(part or {"type": "input_text", "text": text})
        return parts or [{"type": "input_text", "text": ""}]

    def _assistant(self, message: AssistantMessage) -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = [{"role": "assistant", "content": message.text}] if message.text else []
        return [*said, *(self._exporter.write_call(call) for call in message.calls)]

    def _as_it_was(self, message: AssistantMessage, model: str) -> list[dict[str, Any]]:
        """The items word for word, with the calls as they are now; nothing where they are not this message's."""
        kept = recall(message, self._provider, model)
        calls = iter(message.calls)
        said = "".join(_text(item) for item in kept)
        if said != message.text or sum(item.get("type") == "function_call" for item in kept) != len(message.calls):
            return []
        return [
            {**item, **self._exporter.write_call(next(calls))} if item.get("type") == "function_call" else item
            for item in kept
        ]


class ResponsesReader(AnswerReader):
    """Reads the events of a response, or the whole response of a server that does not stream."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._calls: dict[Any, CallPieces] = {}
        self._items: dict[Any, dict[str, Any]] = {}  # whole, by place; in the order they came
        self._places: set[Any] = set()
        self._said: set[Any] = set()

    def read(self, frame: Frame) -> list[ModelEvent]:
        if frame.event == "done":
            return []
        data = an_item(frame.data)
        if frame.event == "whole":
            if data.get("error"):
                raise self._faults.from_body(data)
            if not isinstance(data.get("output"), list):
                raise self._faults.garbled(phrase("it is not a response"))
            self._end(data)
        elif data.get("error") and "type" not in data:
            raise self._faults.from_body(data)
        else:
            self._event(words(data.get("type")) or frame.event, data)
        return self._answer.take()

    def _kept(self) -> list[dict[str, Any]]:
        parts = list(self._items.values())
        return parts if any(part.get("type") == "reasoning" or part.get("phase") for part in parts) else []

    def _event(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "response.output_text.delta":
            self._said.add((self._place(data, {}), count(data.get("content_index"))))
            self._answer.say(words(data.get("delta")))
        elif kind == "response.refusal.delta":
            self._refused = True
            self._said.add((self._place(data, {}), count(data.get("content_index"))))
            self._answer.say(words(data.get("delta")))
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            self._answer.think(words(data.get("delta")))
        elif kind == "response.reasoning_summary_part.added" and self._answer.thinking:
            self._answer.think("\n\n")
        elif kind == "response.output_item.added":
            item = an_item(data.get("item"))
            if item.get("type") == "function_call":
                self._call(data, item)
        elif kind == "response.function_call_arguments.delta":
            call = self._call(data, {})
            call.add(words(data.get("delta")))
            self._announce(call)
        elif kind == "response.output_item.done":
            self._whole_item(data, an_item(data.get("item")))
        elif kind in _ENDS:
            self._end(an_item(data.get("response")))
        elif kind == "error":
            raise self._faults.from_body({"error": an_item(data.get("error")) or data})

    def _place(self, data: dict[str, Any], item: dict[str, Any]) -> Any:
        """Which item it is: by its index, which is surer than its id, where there is one."""
        index = data.get("output_index")
        place = index if isinstance(index, int) else words(data.get("item_id")) or words(item.get("id"))
        self._places.add(place)
        return place

    def _call(self, data: dict[str, Any], item: dict[str, Any]) -> CallPieces:
        place = self._place(data, item)
        call = self._calls.get(place)
        if call is None:
            call = self._calls[place] = self._answer.begin_call()
        call.wire_id = call.wire_id or words(item.get("call_id"))
        call.called(words(item.get("name")))
        self._announce(call)
        return call

    def _announce(self, call: CallPieces) -> None:
        if call.name:
            self._answer.announce(call)

    def _whole_item(self, data: dict[str, Any], item: dict[str, Any]) -> None:
        place = self._place(data, item)
        if not item or place in self._items:
            return
        kind = item.get("type")
        if kind in ("reasoning", "message", "function_call"):
            self._items[place] = {key: value for key, value in item.items() if value is not None}
        if kind == "function_call":
            self._call(data, item).replace(item.get("arguments"))
        elif kind == "message":
            for at, part in enumerate(items(item.get("content"))):
                self._refused = self._refused or part.get("type") == "refusal"
                if (place, at) not in self._said:
                    self._answer.say(words(part.get("text")) or words(part.get("refusal")))
        elif kind == "reasoning" and not self._answer.thinking:
            self._answer.think("\n\n".join(words(part.get("text")) for part in items(item.get("summary"))))

    def _end(self, response: dict[str, Any]) -> None:
        status = words(response.get("status"))
        if response.get("error") or status == "failed":
            raise self._faults.from_body({"error": response.get("error") or {"message": "the response failed"}})
        for at, item in enumerate(items(response.get("output"))):
            if words(item.get("id")) not in self._places:
                self._whole_item({"output_index": at}, item)
        usage = an_item(response.get("usage"))
        details = an_item(usage.get("input_tokens_details"))
        self._usage = Usage(
            count(usage.get("input_tokens")),
            count(usage.get("output_tokens")),
            count(details.get("cached_tokens")),
            count(details.get("cache_write_tokens")),
        )
        reason = words(an_item(response.get("incomplete_details")).get("reason"))
        if status == "incomplete" or reason:
            self._stop = "refused" if reason == "content_filter" else "length"
        else:
            self._stop = "end" if status in ("completed", "") else "other"
        self.is_over = True


def _text(item: dict[str, Any]) -> str:
    parts = items(item.get("content")) if item.get("type") == "message" else []
    return "".join(words(part.get("text")) or words(part.get("refusal")) for part in parts)
