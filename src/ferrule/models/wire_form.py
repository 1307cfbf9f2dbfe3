"""What an adapter must know of a provider's form: how to ask, how to read what comes back, and what all forms share."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ferrule.core.call import RawCall, new_call_id
from ferrule.core.errors import ErrorKind
from ferrule.core.model import (
    AssistantMessage,
    CallDelta,
    CallStarted,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolResults,
    Usage,
    UserMessage,
)
from ferrule.core.phrases import phrase
from ferrule.core.result import ErrorInfo, ToolResult
from ferrule.core.shown_text import cut, well_formed
from ferrule.dialects.exporter import Exporter
from ferrule.dialects.payload import an_item, attachment_line, items, words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferrule.core.model import Message, ModelEvent, ModelRequest, ModelSettings, StopReason
    from ferrule.core.result import Attachment
    from ferrule.core.tool import Tool
    from ferrule.dialects.dialect import Dialect
    from ferrule.models.faults import Endpoint, Faults


CHOICES = frozenset({"auto", "none", "required"})
"""The values of `tool_choice` that name no tool."""


@dataclass(slots=True, frozen=True)
class Frame:
    """One message of a stream, or a whole body (`event` is then "whole"). `data` is None for the end mark."""

    event: str
    data: Any


class WireForm(ABC):
    """One provider's form of requests and answers."""

    dialect: ClassVar[str]
    optional_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields of a request that may be left out when a server refuses them by name. No setting is one."""
    lacks: frozenset[str] = frozenset()
    """Settings that the provider doesn't have."""
    caches: frozenset[str] = frozenset()
    """The values of `prompt_cache` that it has."""
    models_path = "models"
    """Where the provider lists its models."""

    def __init__(self, provider: str, **options: Any) -> None:
        self._provider = provider
        self._exporter = Exporter(self.dialect, **options)
        self._outputs = Exporter(self.dialect, strict=True)  # `WritesOutput`

    @abstractmethod
    def path(self, model: str) -> str:
        """Where to ask, under the endpoint's base address."""

    def headers(self, endpoint: Endpoint) -> Mapping[str, str]:
        """The headers that carry the key."""
        return {"authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}

    @abstractmethod
    def body(self, request: ModelRequest, model: str) -> dict[str, Any]:
        """The request."""

    def unfit(self, settings: ModelSettings, model: str) -> str:
        """Why the provider can't answer by these settings; empty if it can."""
        given = settings.given()
        missing = next((name for name in given if name in self.lacks), "")
        if missing:
            return phrase("It has no `{setting}` setting.", setting=missing)
        if settings.prompt_cache is not None and settings.prompt_cache not in self.caches:
            setting = f"prompt_cache={settings.prompt_cache!r}"
            return phrase("It has no `{setting}` setting.", setting=setting)
        return ""

    def writes_output(self, model: str, output: Tool[Any], tools: Sequence[Tool[Any]]) -> bool:
        """Whether the provider can hold the model's words to the parameters of `output`, with these tools beside it."""
        return False

    @abstractmethod
    def reader(self, faults: Faults, model: str) -> AnswerReader:
        """A reader for one answer."""

    def model_names(self, body: Any) -> list[str]:
        """The names in a list of models that can chat."""
        return chat_names(an_item(body).get("data"), "id")


def given_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a request's fields whose setting was given."""
    return {name: value for name, value in fields.items() if value is not None}


def with_extra(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The request with the caller's own fields; an object is merged into one of the same name.

    Raises `KeyError` with the field's name if Ferrule itself writes one of them.
    """
    if not extra:
        return body
    merged = dict(body)
    for name, value in extra.items():
        there = merged.get(name)
        if name not in merged:
            merged[name] = value
        elif isinstance(there, dict) and isinstance(value, Mapping):
            merged[name] = with_extra(cast("dict[str, Any]", there), cast("Mapping[str, Any]", value))
        else:
            raise KeyError(name)
    return merged


# Reads the lists of models that providers give, and leaves out those that cannot chat.


_NO_CHAT = re.compile(
    r"embed|whisper|transcribe|(?:^|[-/])tts|[-/]tts|dall-e|image|moderation|realtime|[-/]audio|^sora|^veo|^imagen"
    r"|^lyria|babbage|davinci|rerank|guard|-live|ocr|^aqa$|robotics",
    re.IGNORECASE,
)


def chat_names(listed: Any, key: str) -> list[str]:
    """The names under `key`, in order of the alphabet, but for embeddings, pictures, sounds and the like."""
    names = {words(one.get(key)) for one in items(listed)}
    return sorted(name for name in names if name and not _NO_CHAT.search(name))


# A conversation as every provider insists on it: each call answered once, under an id that the provider takes.


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
            text = well_formed(cut(text, _MOST_UNREADABLE))
            arguments = json.dumps({"unreadable_arguments": text}, ensure_ascii=False)
        elif not loaded:
            arguments = "{}"
    return RawCall(call.name, arguments, id=wire_id, version=call.version)


def attached(dialect: Dialect, message: UserMessage) -> list[tuple[str, dict[str, Any] | None]]:
    """What the person attached: text to show, or a part in the dialect's own form."""
    return [_attached(dialect, one) for one in message.attachments]


def _attached(dialect: Dialect, attachment: Attachment) -> tuple[str, dict[str, Any] | None]:
    if attachment.media_type.startswith("text/") and attachment.data is not None:
        named = f"{attachment.name}:\n" if attachment.name else ""
        return well_formed(named + attachment.data.decode("utf-8", "replace")), None
    part = dialect.write_attachment(attachment)
    return ("", part) if part is not None else (attachment_line(attachment), None)


# Puts an answer together from the pieces it comes in: words, thoughts, and calls whose arguments arrive bit by bit.


_NEVER_BEGUN = "{"  # arguments of a call that was cut off before they began: the pipeline refuses them in words


class CallPieces:
    """One call while it comes in. The first id and the first name count; a repeated name is no second one."""

    __slots__ = ("announced", "id", "name", "pieces", "told", "wire_id")

    def __init__(self) -> None:
        self.wire_id = ""  # as the server wrote it; `id` is the one this answer uses, which no other call has
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.announced = False
        self.told = 0  # how many pieces `CallDelta` has given; the whole that replaces them at the end is no new one

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def called(self, name: str) -> None:
        if name and name != self.name and not self.announced:
            self.name += name

    def add(self, arguments: Any) -> None:
        """A piece of JSON text, or the whole as an object."""
        if isinstance(arguments, str):
            self.pieces.append(arguments)
        elif arguments is not None:
            self.pieces = [json.dumps(arguments, ensure_ascii=False)]

    def replace(self, arguments: Any) -> None:
        self.pieces = []
        self.add(arguments)

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are JSON, to which nothing could be added."""
        try:
            json.loads(self.arguments)
        except (ValueError, RecursionError):
            return False
        return True


class AnswerBuilder:
    """One answer. Readers of the wire forms put pieces in; `take` gives the events that follow from them."""

    def __init__(
        self, resolve: Callable[[str], str] = lambda name: name, new_id: Callable[[], str] = new_call_id
    ) -> None:
        self.calls: list[CallPieces] = []
        self._resolve = resolve
        self._new_id = new_id
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._events: list[ModelEvent] = []

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def thinking(self) -> str:
        return "".join(self._thinking)

    def say(self, text: str) -> None:
        if text:
            self._text.append(text)
            self._events.append(TextDelta(text))

    def think(self, text: str) -> None:
        if text:
            self._thinking.append(text)
            self._events.append(ThinkingDelta(text))

    def begin_call(self, wire_id: str = "", name: str = "") -> CallPieces:
        """A new call; the one before is whole then."""
        for earlier in self.calls:
            self.announce(earlier)
        call = CallPieces()
        call.wire_id = wire_id
        call.called(name)
        self.calls.append(call)
        return call

    def announce(self, call: CallPieces) -> None:
        """Say that the call has begun, once its name cannot grow any more."""
        if call.announced:
            return
        taken = {other.id for other in self.calls}
        call.id = call.wire_id if call.wire_id and call.wire_id not in taken else self._new_id()
        call.announced = True
        self._events.append(CallStarted(call.id, self._resolve(call.name)))

    def take(self) -> list[ModelEvent]:
        for call in self.calls:
            if call.announced and len(call.pieces) > call.told:
                self._events.append(CallDelta(call.id, self._resolve(call.name), "".join(call.pieces[call.told :])))
                call.told = len(call.pieces)
        events, self._events = self._events, []
        return events

    def finish(self, stop: StopReason, usage: Usage, kept: Mapping[str, Any] | None = None) -> list[ModelEvent]:
        """The last events: what was not said yet, then `Finished`.

        A call that was cut off keeps its broken arguments: they are not JSON, so it cannot run and the model reads why.
        """
        for call in self.calls:
            self.announce(call)
        if self.calls and stop == "end":
            stop = "calls"
        elif stop == "calls" and not self.calls:
            stop = "end"
        calls = tuple(self._raw(call, cut=stop != "calls" and call is self.calls[-1]) for call in self.calls)
        message = AssistantMessage(self.text, calls, self.thinking, kept or {})
        return [*self.take(), Finished(message, usage, stop)]

    def _raw(self, call: CallPieces, *, cut: bool) -> RawCall:
        arguments = call.arguments
        if not arguments.strip():
            arguments = _NEVER_BEGUN if cut else "{}"
        return RawCall(self._resolve(call.name), arguments, id=call.id)


class AnswerReader(ABC):
    """Reads one answer. Whatever a server sends, it raises nothing but what `Faults` makes."""

    def __init__(
        self, provider: str, model: str, exporter: Exporter, faults: Faults, new_id: Callable[[], str] = new_call_id
    ) -> None:
        self._provider = provider
        self._model = model
        self._faults = faults
        self._answer = AnswerBuilder(exporter.resolve, new_id)
        self._stop: StopReason | None = None
        self._refused = False
        self._usage = Usage()
        self.is_over = False
        """Whether nothing more is to come."""

    @property
    def is_complete(self) -> bool:
        """Whether the model has said why it stopped: what follows is accounting at most."""
        return self._stop is not None

    @abstractmethod
    def read(self, frame: Frame) -> list[ModelEvent]:
        """The events that follow from a frame."""

    def finish(self) -> list[ModelEvent]:
        """The last events, `Finished` at the end; only after `is_complete`."""
        stop: StopReason = "refused" if self._refused else self._stop or "other"
        return self._answer.finish(stop, self._usage, keep(self._provider, self._model, self._kept()))

    @abstractmethod
    def _kept(self) -> list[dict[str, Any]]:
        """What the provider wants to see again with the next request."""
