"""OpenAI Responses, asked without being stored: reasoning travels with the conversation, encrypted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ferrule.core.model import StopReason, ToolResults, Usage, UserMessage
from ferrule.core.phrases import phrase
from ferrule.dialects.exporter import Exporter
from ferrule.models.answer import AnswerBuilder, CallPieces
from ferrule.models.loose_json import an_item, chat_names, count, items, words
from ferrule.models.transcript import CallIds, attached, keep, recall, transcript

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.model import AssistantMessage, ModelEvent, ModelRequest
    from ferrule.models.endpoint import Endpoint
    from ferrule.models.faults import Faults
    from ferrule.models.transport import Frame

_IDS = CallIds(re.compile(r"[A-Za-z0-9_-]{1,64}"))
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


class OpenAIResponsesForm:
    """`POST responses`."""

    optional_fields = frozenset({"temperature"})

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._exporter = Exporter("openai-responses")

    def path(self, model: str) -> str:
        return "responses"

    def headers(self, endpoint: Endpoint) -> Mapping[str, str]:
        return {"authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}

    def models_path(self) -> str:
        return "models"

    def model_names(self, body: Any) -> list[str]:
        return chat_names(an_item(body).get("data"), "id")

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
        if request.tools:
            body["tools"] = self._exporter.definitions(request.tools)
            if request.tool_choice != "auto":
                body["tool_choice"] = request.tool_choice
        if request.max_output_tokens is not None:
            body["max_output_tokens"] = max(16, request.max_output_tokens)  # fewer are refused
        if request.temperature is not None:
            body["temperature"] = request.temperature
        return body

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


class ResponsesReader:
    """Reads the events of a response, or the whole response of a server that does not stream."""

    def __init__(self, provider: str, model: str, exporter: Exporter, faults: Faults) -> None:
        self._provider = provider
        self._model = model
        self._faults = faults
        self._answer = AnswerBuilder(exporter.resolve)
        self._calls: dict[Any, CallPieces] = {}
        self._items: dict[Any, dict[str, Any]] = {}  # whole, by place; in the order they came
        self._places: set[Any] = set()
        self._said: set[Any] = set()
        self._stop: StopReason | None = None
        self._refused = False
        self._usage = Usage()

    @property
    def is_complete(self) -> bool:
        return self._stop is not None

    @property
    def is_over(self) -> bool:
        return self._stop is not None

    def read(self, frame: Frame) -> list[ModelEvent]:
        if frame.event == "done":
            return []
        data = an_item(frame.data)
        if frame.event == "whole":
            if data.get("error"):
                raise self._faults.from_body(data)
            if not isinstance(data.get("output"), list):
                raise self._faults.garbled(phrase("it is no response"))
            self._end(data)
        elif data.get("error") and "type" not in data:
            raise self._faults.from_body(data)
        else:
            self._event(words(data.get("type")) or frame.event, data)
        return self._answer.take()

    def finish(self) -> list[ModelEvent]:
        parts = list(self._items.values())
        if not any(part.get("type") == "reasoning" or part.get("phase") for part in parts):
            parts = []
        stop: StopReason = "refused" if self._refused else self._stop or "other"
        return self._answer.finish(stop, self._usage, keep(self._provider, self._model, parts))

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


def _text(item: dict[str, Any]) -> str:
    parts = items(item.get("content")) if item.get("type") == "message" else []
    return "".join(words(part.get("text")) or words(part.get("refusal")) for part in parts)
