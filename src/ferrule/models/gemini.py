"""Google Gemini: generateContent, streamed, with the signatures that its thinking models want back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.call import new_call_id
from ferrule.core.model import StopReason, ToolResults, Usage, UserMessage
from ferrule.core.phrases import phrase
from ferrule.dialects.payload import an_item, count, items, words
from ferrule.models.wire_form import AnswerReader, CallIds, WireForm, attached, chat_names, given_of, recall, transcript

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule.core.model import AssistantMessage, ModelEvent, ModelRequest, ModelSettings
    from ferrule.core.tool import Tool
    from ferrule.models.faults import Endpoint, Faults
    from ferrule.models.wire_form import Frame

_IDS = CallIds(re.compile(r".{1,128}", re.DOTALL))
_STOPS: dict[str, StopReason] = {
    "STOP": "end", "MAX_TOKENS": "length", "SAFETY": "refused", "RECITATION": "refused", "BLOCKLIST": "refused",
    "PROHIBITED_CONTENT": "refused", "SPII": "refused", "LANGUAGE": "refused",
}  # fmt: skip
# The model began a call and got it wrong; another try is the cure that Google itself applies.
_BOTCHED = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"})
_CHOICES = {"none": "NONE", "required": "ANY"}
# https://ai.google.dev/gemini-api/docs/thought-signatures: for calls that another model made.
_FOREIGN_CALL = "skip_thought_signature_validator"
_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384}
# https://ai.google.dev/gemini-api/docs/structured-output
_WRITES_OUTPUT = re.compile(r"gemini-(?:2\.5|[3-9]|\d\d)")
_WANTS_SIGNATURES = re.compile(r"gemini-(?:[3-9]|\d\d)")


class GeminiForm(WireForm):
    """`POST models/NAME:streamGenerateContent?alt=sse`."""

    dialect = "gemini"
    lacks = frozenset({"parallel_calls"})
    models_path = "models?pageSize=1000"

    def path(self, model: str) -> str:
        return f"models/{model}:streamGenerateContent?alt=sse"

    def headers(self, endpoint: Endpoint) -> Mapping[str, str]:
        return {"x-goog-api-key": endpoint.key} if endpoint.key else {}

    def model_names(self, body: Any) -> list[str]:
        able = [
            one
            for one in items(an_item(body).get("models"))
            if "generateContent" in cast("list[Any]", one.get("supportedGenerationMethods") or ["generateContent"])
        ]
        return [name.removeprefix("models/") for name in chat_names(able, "name")]

    def unfit(self, settings: ModelSettings, model: str) -> str:
        if settings.effort is not None and not (_WANTS_SIGNATURES.match(model) or model.startswith("gemini-2.5")):
            return phrase("It has no `{setting}` setting.", setting="effort")
        return super().unfit(settings, model)

    def body(self, request: ModelRequest, model: str) -> dict[str, Any]:
        settings = request.settings
        body: dict[str, Any] = {"contents": self._contents(request, model)}
        if request.system:
            body["systemInstruction"] = {"parts": [{"text": request.system}]}
        if request.tools:
            body["tools"] = [{"functionDeclarations": self._exporter.definitions(request.tools)}]
            if (choice := settings.tool_choice or "auto") in _CHOICES:
                body["toolConfig"] = {"functionCallingConfig": {"mode": _CHOICES[choice]}}
            elif choice != "auto":
                named = [self._exporter.names.external(choice)]
                body["toolConfig"] = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": named}}
        chosen = given_of({
            "maxOutputTokens": settings.max_output_tokens, "temperature": settings.temperature,
            "seed": settings.seed, "stopSequences": list(settings.stop) or None,
        })  # fmt: skip
        if settings.effort is not None and _WANTS_SIGNATURES.match(model):
            chosen["thinkingConfig"] = {"thinkingLevel": settings.effort, "includeThoughts": True}
        elif settings.effort is not None:
            chosen["thinkingConfig"] = {"thinkingBudget": _BUDGETS[settings.effort], "includeThoughts": True}
        if request.output is not None:
            chosen["responseMimeType"] = "application/json"
            chosen["responseJsonSchema"] = self._outputs.export(request.output).definition["parametersJsonSchema"]
        return {**body, "generationConfig": chosen} if chosen else body

    def writes_output(self, model: str, output: Tool[Any], tools: Sequence[Tool[Any]]) -> bool:
        return (_WANTS_SIGNATURES if tools else _WRITES_OUTPUT).match(model) is not None

    def reader(self, faults: Faults, model: str) -> GeminiReader:
        return GeminiReader(self._provider, model, self._exporter, faults)

    def _contents(self, request: ModelRequest, model: str) -> list[dict[str, Any]]:
        turns: list[dict[str, Any]] = []
        for message in transcript(request.messages, _IDS):
            if isinstance(message, UserMessage):
                role, parts = "user", self._said(message)
            elif isinstance(message, ToolResults):
                role, parts = "user", self._exporter.results(message.results)[0]["parts"]
            else:
                role, parts = "model", self._as_it_was(message, model) or self._model_turn(message, model)
            if turns and turns[-1]["role"] == role:
                turns[-1]["parts"] += parts
            else:
                turns.append({"role": role, "parts": list(parts)})
        return turns

    def _said(self, message: UserMessage) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for text, part in attached(self._exporter.dialect, message):
            # A name is taken in results alone.
            parts.append({"text": text} if part is None else {key: _unnamed(value) for key, value in part.items()})
        return [*parts, {"text": message.text}] if message.text or not parts else parts

    def _model_turn(self, message: AssistantMessage, model: str) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = [{"text": message.text}] if message.text else []
        calls = [self._exporter.write_call(call) for call in message.calls]
        if calls and _WANTS_SIGNATURES.match(model):
            calls[0]["thoughtSignature"] = _FOREIGN_CALL
        return [*parts, *calls]

    def _as_it_was(self, message: AssistantMessage, model: str) -> list[dict[str, Any]]:
        """The parts in the order they came, with their signatures; nothing where they are not this message's."""
        kept = recall(message, self._provider, model)
        said = "".join(words(part.get("text")) for part in kept if not part.get("thought"))
        if said != message.text or sum("functionCall" in part for part in kept) != len(message.calls):
            return []
        calls = iter(message.calls)
        return [{**part, **self._exporter.write_call(next(calls))} if "functionCall" in part else part for part in kept]


class GeminiReader(AnswerReader):
    """Reads the chunks of a stream, or all of them at once."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about, new_id=lambda: "made_" + new_call_id())
        self._parts: list[dict[str, Any]] = []

    def read(self, frame: Frame) -> list[ModelEvent]:
        # A list is a stream to which `alt=sse` did not get through.
        for chunk in items(frame.data) or [an_item(frame.data)]:
            self._chunk(chunk)
        self.is_over = frame.event == "whole"
        return self._answer.take()

    def _kept(self) -> list[dict[str, Any]]:
        return self._parts if any(part.get("thoughtSignature") for part in self._parts) else []

    def _chunk(self, chunk: dict[str, Any]) -> None:
        if chunk.get("error"):
            raise self._faults.from_body(chunk)
        if not chunk.keys() & {"candidates", "usageMetadata", "promptFeedback"}:
            raise self._faults.garbled(phrase("it is not an answer of generateContent"))
        if blocked := words(an_item(chunk.get("promptFeedback")).get("blockReason")):
            self._stop = "refused"
            self._answer.say(f"The request was blocked ({blocked}).")
        for candidate in items(chunk.get("candidates"))[:1]:
            for part in items(an_item(candidate.get("content")).get("parts")):
                text, call = words(part.get("text")), part.get("functionCall")
                if isinstance(call, dict):
                    asked = an_item(call)
                    begun = self._answer.begin_call(words(asked.get("id")), words(asked.get("name")))
                    begun.replace(an_item(asked.get("args")))
                    self._answer.announce(begun)
                elif part.get("thought"):
                    self._answer.think(text)
                else:
                    self._answer.say(text)
                self._keep(
                    {key: part[key] for key in ("text", "thought", "functionCall", "thoughtSignature") if key in part}
                )
            if reason := words(candidate.get("finishReason")):
                if reason in _BOTCHED and not self._answer.calls:
                    raise self._faults.garbled(phrase("the model made a malformed call ({reason})", reason=reason))
                self._stop = _STOPS.get(reason, "other")
        self._count(an_item(chunk.get("usageMetadata")))

    def _keep(self, part: dict[str, Any]) -> None:
        """Text of one kind in one part, until a signature closes it."""
        last = self._parts[-1] if self._parts else {}
        if (
            "text" in part
            and "text" in last
            and last.get("thought") == part.get("thought")
            and "thoughtSignature" not in last
        ):
            part = {**part, "text": words(last["text"]) + words(part["text"])}
            self._parts[-1] = part
        elif part:
            self._parts.append(part)

    def _count(self, usage: dict[str, Any]) -> None:
        if usage:
            self._usage = Usage(
                count(usage.get("promptTokenCount")) + count(usage.get("toolUsePromptTokenCount")),
                count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount")),
                count(usage.get("cachedContentTokenCount")),
            )


def _unnamed(part: Any) -> Any:
    return {key: value for key, value in an_item(part).items() if key != "displayName"}
