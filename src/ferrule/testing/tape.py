"""What a cassette holds: tool calls and requests to models with their outcomes, in memory and in a JSON file."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_jsonable_python

from ferrule.core.files import write_atomically
from ferrule.core.nearest import nearest
from ferrule.core.result import Attachment, Output, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from ferrule.core.errors import StoppedError


# What a cassette holds, and its file: JSON that a person can read and that changes only with its content.


FORMAT = 2
"""With requests to models; a cassette without them is still written as 1."""
_RECORD_AGAIN = 'Delete it to record again, or open it with mode="record".'


class CassetteError(ValueError):
    """A cassette that cannot be used; says why, and how to get one that can."""


class CassetteMissError(AssertionError):
    """A call or a request came that the cassette does not hold."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TapedAttachment(_Part):
    media_type: str
    data: str | None = None
    """Bytes, in base64."""
    uri: str | None = None
    name: str | None = None
    details: dict[str, Any] | None = None
    after: int | None = None


class TapedResult(_Part):
    """What a call gave back."""

    llm_content: str
    display_content: str
    data: Any = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    attachments: list[TapedAttachment] = Field(default_factory=list[TapedAttachment])

    @classmethod
    def of(cls, result: ToolResult) -> TapedResult:
        return cls(
            llm_content=result.llm_content,
            display_content=result.display_content,
            data=plain(result.data),
            metadata=plain(result.metadata),
            attachments=[TapedAttachment.model_validate(plain(asdict(one))) for one in result.attachments],
        )

    def result(self, call_id: str, tool: str) -> ToolResult:
        """The result again, for another call."""
        return ToolResult(
            call_id, tool, True, self.llm_content, self.display_content, self.data, None, dict(self.metadata),
            self._attachments(),
        )  # fmt: skip

    def output(self) -> Output:
        """The result as the end of a stream. Without data, the words are those that every empty result gets."""
        words = None if self.data is None else self.llm_content
        return Output(self.data, words, self.display_content, self._attachments(), dict(self.metadata))

    def _attachments(self) -> list[Attachment]:
        from base64 import urlsafe_b64decode

        found: list[Attachment] = []
        for one in self.attachments:
            data = None if one.data is None else urlsafe_b64decode(one.data)
            found.append(Attachment(**one.model_dump(exclude={"data"}), data=data))
        return found


class TapedError(_Part):
    """How a call failed."""

    type: str
    message: str
    suggestion: str | None = None
    details: dict[str, Any] | None = None

    @classmethod
    def of(cls, stopped: StoppedError) -> TapedError:
        return cls(
            type=stopped.kind.value,
            message=stopped.message,
            suggestion=stopped.suggestion,
            details=plain(stopped.details),
        )


class TapedCall(_Part):
    """One call and its outcome: a result or an error, for a streaming tool after some pieces."""

    tool: str
    version: str
    arguments: Any
    pieces: list[Any] | None = None
    result: TapedResult | None = None
    error: TapedError | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.tool, self.version, canonical(self.arguments))

    def redacted(self, redact: Callable[[Any], Any]) -> Self:
        """The same without secrets."""
        document = self.model_dump(exclude_defaults=True)
        return self.model_validate({key: redact(one) if key in _CONTENT else one for key, one in document.items()})


_CONTENT = frozenset({"arguments", "pieces", "result", "error"})


class TapedEvent(_Part):
    """One server-sent event. `data` is what it holds as JSON, or its text where that is no JSON."""

    event: str = ""
    data: Any


class TapedRequest(_Part):
    """One HTTP request to a model's provider, and what came back until the connection ended or failed."""

    model: str
    request: str
    """The method, and the path below the provider's address."""
    body: Any = None
    status: int | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    events: list[TapedEvent] | None = None
    answer: Any = None
    """A body that is no stream of events: JSON, or text."""
    failure: list[str] | None = None
    """The kind of transport error that ended it, and its message."""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.model, self.request, canonical(self.body))

    def redacted(self, redact: Callable[[Any], Any]) -> Self:
        """The same without secrets, also without those that came in several pieces."""
        given = {"body": redact(self.body), "request": redact(self.request)}
        if self.events is not None:
            given["events"] = _redacted_events(self.events, redact)
        elif self.answer is not None:
            given["answer"] = _as_empty(self.answer, redact(self.answer))
        return self.model_copy(update=given)


_PLACES = ("index", "item_id")
"""How the names end of what says which of several parts a piece belongs to."""


def _redacted_events(events: list[TapedEvent], redact: Callable[[Any], Any]) -> list[TapedEvent]:
    """Streamed text without secrets. Text that came in pieces is redacted as a whole, which is then in the first."""
    pieces: dict[tuple[Any, ...], list[tuple[Any, Any]]] = {}

    def collect(held: Any, path: tuple[Any, ...]) -> None:
        for key, value in items_of(held):
            if isinstance(value, str):
                pieces.setdefault((*path, key), []).append((held, key))
            else:
                collect(value, (*path, key))

    kept = [one.model_copy(deep=True) for one in events]
    for one in kept:
        collect(one.data, (one.event, *_places(one.data)))
    for found in pieces.values():
        texts = [held[key] for held, key in found]
        whole = "".join(texts)
        if len(set(texts)) > 1 and (clean := redact(whole)) != whole:
            for number, (held, key) in enumerate(found):
                held[key] = "" if number else clean
    for one in kept:
        one.data = _as_empty(one.data, redact(one.data))
    return kept


def items_of(data: Any) -> list[tuple[Any, Any]]:
    """What a JSON object or list holds, with the keys to it."""
    if isinstance(data, dict):
        return list(cast("dict[str, Any]", data).items())
    return list(enumerate(cast("list[Any]", data))) if isinstance(data, list) else []


def _places(data: Any) -> list[Any]:
    """Which part of an answer an event is about: the numbers and ids in it that say so, wherever they are."""
    found: list[Any] = []
    for name, value in items_of(data):
        if str(name).endswith(_PLACES):
            found.append((name, str(value)))
        else:
            found += _places(value)
    return found


def _as_empty(was: Any, now: Any) -> Any:
    """What was redacted, but null is still null: no secret is in it, and a reader may need it."""
    if was is None:
        return None
    before, after = dict(items_of(was)), dict(items_of(now))
    if type(was) is not type(now) or before.keys() != after.keys():
        return now
    if isinstance(was, dict):
        return {name: _as_empty(one, after[name]) for name, one in before.items()}
    return [_as_empty(one, after[place]) for place, one in before.items()] if isinstance(was, list) else now


class CassetteContent(_Part):
    """The whole file."""

    ferrule_cassette: int = FORMAT
    tools: dict[str, dict[str, str]]
    """Each tool's versions with a digest of its parameters, to notice that a tool has changed since."""
    calls: list[TapedCall]
    requests: list[TapedRequest] = Field(default_factory=list[TapedRequest])


def read_cassette(path: Path) -> CassetteContent:
    """The content of a file; raises `CassetteError` for one that is damaged or newer than this Ferrule."""
    try:
        document: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise CassetteError(f'There is no cassette {path}. Record one with mode="record" or mode="auto".') from None
    except ValueError as error:
        raise CassetteError(f"The cassette {path} is damaged: {error}. {_RECORD_AGAIN}") from None
    version: Any = document.get("ferrule_cassette") if isinstance(document, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(version, int):
        raise CassetteError(f"{path} is not a cassette: it does not say `ferrule_cassette`. {_RECORD_AGAIN}")
    if version > FORMAT:
        raise CassetteError(
            f"The cassette {path} was written by a newer Ferrule: its format is {version}, and this one reads up to "
            f"{FORMAT}. Upgrade Ferrule. {_RECORD_AGAIN}"
        )
    try:
        return CassetteContent.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CassetteError(f"The cassette {path} is damaged: {where}: {first['msg']}. {_RECORD_AGAIN}") from None


def write_cassette(path: Path, content: CassetteContent) -> None:
    """Write a whole file or none: a run that dies half-way leaves the cassette as it was."""
    document = content.model_dump(exclude_defaults=True) | {"ferrule_cassette": FORMAT if content.requests else 1}
    ordered = {key: document[key] for key in ("ferrule_cassette", "tools", "calls", "requests") if key in document}
    # Half a surrogate pair, which UTF-8 cannot hold, becomes the escape that JSON has for it.
    text = json.dumps(ordered, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text + b"\n")


def plain(value: Any) -> Any:
    """A value as plain JSON values, in the form that `ToolResult.to_dict` gives it."""
    return to_jsonable_python(value, fallback=str, inf_nan_mode="strings", bytes_mode="base64")


def canonical(value: Any) -> str:
    """JSON text that is equal for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


# The calls of a cassette in memory: added while recording, looked up while replaying. Safe under threads.


class _Keyed(Protocol):
    @property
    def key(self) -> tuple[str, str, str]: ...

    def redacted(self, redact: Callable[[Any], Any]) -> Self: ...


_LONG = 4_000
C = TypeVar("C", bound=_Keyed)


class Tape(Generic[C]):
    """Recorded calls or requests. Equal ones are given in the order recorded; then the last one is given again.

    A key is a name, what else must be the same (a version, a path), and the arguments.
    """

    def __init__(self, calls: Iterable[C], redact: Callable[[Any], Any]) -> None:
        self._redact = redact
        self._lock = threading.Lock()
        self._begun = 0
        self._calls: dict[tuple[str, str, str], list[tuple[int, C]]] = {}
        self._taken: dict[tuple[str, str, str], int] = {}
        for call in calls:
            self.add(self.begin(), call)

    def begin(self) -> int:
        """The place of a call that starts now; equal calls keep the order of their starts."""
        with self._lock:
            self._begun += 1
            return self._begun

    def add(self, place: int, call: C) -> None:
        with self._lock:
            same = self._calls.setdefault(call.key, [])
            same.append((place, call))
            same.sort(key=lambda one: one[0])

    def record(self, place: int, call: C) -> None:
        """Add a call as it happened; what must not be written is taken out first."""
        self.add(place, call.redacted(self._redact))

    def take(self, name: str, variant: str, arguments: Any) -> C | None:
        """The next recorded outcome of a call; None when no such call was recorded."""
        key = (name, variant, self.shown(arguments))
        with self._lock:
            same = self._calls.get(key)
            if same is None:
                return None
            taken = self._taken.get(key, 0)
            self._taken[key] = taken + 1
            return same[min(taken, len(same) - 1)][1]

    @property
    def calls(self) -> list[C]:
        """All of them, in the order of the file."""
        with self._lock:
            return [call for key in sorted(self._calls) for _, call in self._calls[key]]

    @property
    def unused(self) -> list[C]:
        """Those that were never asked for."""
        with self._lock:
            return [call for key in sorted(self._calls) for _, call in self._calls[key][self._taken.get(key, 0) :]]

    def nearest(self, name: str, arguments: Any) -> C | None:
        """The recorded call most like one that was not recorded."""
        calls = self.calls
        close = [name, *nearest(name, {call.key[0] for call in calls if call.key[0] != name}, most=1)]
        wanted = self.shown(arguments)

        def likeness(call: C) -> tuple[int, float]:
            known = call.key
            # Comparing every piece of two long conversations would take minutes, and their beginnings tell as much.
            compare = same_beginning if len(wanted) > _LONG else _ratio
            return (-close.index(known[0]), compare(wanted, known[2]))

        return max((call for call in calls if call.key[0] in close), key=likeness, default=None)

    def shown(self, arguments: Any) -> str:
        """Arguments as they would stand on the tape."""
        return canonical(self._redact(arguments))


def same_beginning(one: str, other: str) -> int:
    """How many characters two texts have in common before they differ."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _ratio(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()
