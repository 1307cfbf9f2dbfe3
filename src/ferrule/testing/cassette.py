"""Cassettes: record what tools answered once, and replay it in tests without running them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import threading
import warnings
from dataclasses import asdict
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_jsonable_python

from ferrule.core.call import DEFAULT_LIMITS
from ferrule.core.errors import StoppedError, ToolError
from ferrule.core.files import write_atomically
from ferrule.core.nearest import nearest
from ferrule.core.result import Attachment, Output, ToolResult
from ferrule.core.secrets import redact_value
from ferrule.core.tool import OPTIONS, Invocation, Style, Tool
from ferrule.pipeline.cleaning import stopped_by
from ferrule.pipeline.format import format_value
from ferrule.pipeline.streaming import Collected
from ferrule.registry.registry import Registry, RegistryEntry, ToolSource, View

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
    from types import TracebackType

    from ferrule.core.context import ToolContext
    from ferrule.core.description import Description
    from ferrule.core.params import Params


# A double: looks like another tool in everything that a model, a person or a policy sees, and does something else.


class Double(Tool[Any]):
    """Subclass it and write `run`, in the style that is given."""

    def __init__(self, original: Tool[Any], style: Style) -> None:
        self.original = original
        options = {key: getattr(original, key) for key in OPTIONS if key != "description"}
        self._settle(original.name, options, style)
        for has in ("kind_given", "has_check", "has_touches", "has_signature", "has_render", "has_words"):
            setattr(self, has, getattr(original, has))
        self.checks_output = False  # what a test makes up, and what was recorded, is not the tool's doing

    def _compile(self) -> Params[Any]:
        return self.original.params

    def _describe(self) -> Description:
        return self.original.description

    @property
    def input_schema(self) -> dict[str, Any] | bool:
        return self.original.input_schema

    @property
    def output_schema(self) -> dict[str, Any] | None:
        return self.original.output_schema


def is_stream(tool: Tool[Any]) -> bool:
    return tool.style in (Style.ASYNC_STREAM, Style.SYNC_STREAM)


# What a cassette holds, and its file: JSON that a person can read and that changes only with its content.


FORMAT = 1
_RECORD_AGAIN = 'Delete it to record again, or open it with mode="record".'


class CassetteError(ValueError):
    """A cassette that cannot be used; says why, and how to get one that can."""


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


class CassetteContent(_Part):
    """The whole file."""

    ferrule_cassette: int = FORMAT
    tools: dict[str, dict[str, str]]
    """Each tool's versions with a digest of its parameters, to notice that a tool has changed since."""
    calls: list[TapedCall]


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
    document = content.model_dump(exclude_defaults=True) | {"ferrule_cassette": FORMAT}
    ordered = {key: document[key] for key in ("ferrule_cassette", "tools", "calls")}
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


class Tape:
    """Recorded calls. Equal calls are given in the order they were recorded; then the last one is given again."""

    def __init__(self, calls: Iterable[TapedCall], redact: Callable[[Any], Any]) -> None:
        self._redact = redact
        self._lock = threading.Lock()
        self._begun = 0
        self._calls: dict[tuple[str, str, str], list[tuple[int, TapedCall]]] = {}
        self._taken: dict[tuple[str, str, str], int] = {}
        for call in calls:
            self.add(self.begin(), call)

    def begin(self) -> int:
        """The place of a call that starts now; equal calls keep the order of their starts."""
        with self._lock:
            self._begun += 1
            return self._begun

    def add(self, place: int, call: TapedCall) -> None:
        with self._lock:
            same = self._calls.setdefault(call.key, [])
            same.append((place, call))
            same.sort(key=lambda one: one[0])

    def record(self, place: int, call: TapedCall) -> None:
        """Add a call as it happened; what must not be written is taken out first."""
        self.add(place, TapedCall.model_validate(self._redacted(call)))

    def take(self, tool: str, version: str, arguments: Any) -> TapedCall | None:
        """The next recorded outcome of a call; None when no such call was recorded."""
        key = (tool, version, self.shown(arguments))
        with self._lock:
            same = self._calls.get(key)
            if same is None:
                return None
            taken = self._taken.get(key, 0)
            self._taken[key] = taken + 1
            return same[min(taken, len(same) - 1)][1]

    @property
    def calls(self) -> list[TapedCall]:
        """All of them, in the order of the file."""
        with self._lock:
            return [call for key in sorted(self._calls) for _, call in self._calls[key]]

    @property
    def unused(self) -> list[TapedCall]:
        """Those that were never asked for."""
        with self._lock:
            return [call for key in sorted(self._calls) for _, call in self._calls[key][self._taken.get(key, 0) :]]

    def nearest(self, tool: str, arguments: Any) -> TapedCall | None:
        """The recorded call most like one that was not recorded."""
        calls = self.calls
        close = [tool, *nearest(tool, {call.tool for call in calls if call.tool != tool}, most=1)]
        wanted = self.shown(arguments)

        def likeness(call: TapedCall) -> tuple[int, float]:
            return (-close.index(call.tool), SequenceMatcher(None, wanted, canonical(call.arguments)).ratio())

        return max((call for call in calls if call.tool in close), key=likeness, default=None)

    def shown(self, arguments: Any) -> str:
        """Arguments as they would stand on the tape."""
        return canonical(self._redact(arguments))

    def _redacted(self, call: TapedCall) -> dict[str, Any]:
        document = call.model_dump(exclude_defaults=True)
        outcome = {key: document.pop(key) for key in ("pieces", "result", "error") if key in document}
        document["arguments"] = self._redact(document["arguments"])
        return document | {key: self._redact(value) for key, value in outcome.items()}


# Runs a tool as ever, and keeps each call with its outcome on a tape.


class RecordingTool(Double):
    """A tool whose calls are recorded. A call that was cancelled or ran out of time has no outcome to keep."""

    def __init__(self, original: Tool[Any], tape: Tape) -> None:
        super().__init__(original, original.style)
        self._tape = tape
        if not is_stream(original):
            self.max_result = sys.maxsize  # what is passed on was bounded when it was kept

    def start(self, params: Any, context: ToolContext | None) -> Any:
        take = _Take(self._tape, self.original, params, context)
        match self.style:
            case Style.SYNC:
                return self._run(take)
            case Style.ASYNC:
                return self._await(take, None)
            case Style.SYNC_STREAM:
                return self._stream(take)
            case Style.ASYNC_STREAM:
                return self._stream_async(take)

    def _run(self, take: _Take) -> Any:
        try:
            value = take.start()
        except (Exception, SystemExit) as error:
            take.raised(error)
            raise
        return self._await(take, value) if asyncio.iscoroutine(value) else take.gave(value)

    async def _await(self, take: _Take, begun: Awaitable[Any] | None) -> Any:
        try:
            value = await (take.start() if begun is None else begun)
        except (Exception, SystemExit) as error:
            take.raised(error)
            raise
        return take.gave(value)

    def _stream(self, take: _Take) -> Iterator[Any]:
        try:
            for piece in take.start():
                take.piece(piece)
                yield piece
        except (Exception, SystemExit) as error:
            take.raised(error)
            raise
        take.ended()

    async def _stream_async(self, take: _Take) -> AsyncIterator[Any]:
        try:
            async for piece in take.start():
                take.piece(piece)
                yield piece
        except (Exception, SystemExit) as error:
            take.raised(error)
            raise
        take.ended()


class _Take:
    """The recording of one call while it runs."""

    def __init__(self, tape: Tape, tool: Tool[Any], params: Any, context: ToolContext | None) -> None:
        self._tape = tape
        self._tool = tool
        self._params = params
        self._context = context
        self._place = tape.begin()
        self._arguments = json.loads(tool.params.dump(params))  # now: a tool may change what it was given
        self._pieces: list[Any] | None = None
        self._collected = Collected(DEFAULT_LIMITS)

    def start(self) -> Any:
        return self._tool.start(self._params, self._context)

    def piece(self, piece: Any) -> None:
        if self._pieces is None:
            self._pieces = []
        if not isinstance(piece, Output):
            self._pieces.append(plain(piece))
        self._collected.add(piece)

    def gave(self, value: Any) -> Any:
        """Keep a value, and pass on the result made of it: replaying passes on the same."""
        call_id = self._context.call_id if self._context is not None else ""
        try:
            result = format_value(Invocation(self._tool, self._params, call_id), value, DEFAULT_LIMITS)
        except StoppedError as stopped:
            self._keep(error=TapedError.of(stopped))
            return value  # the pipeline will find the same fault with it
        if result.error is not None:
            error = result.error
            self._keep(error=TapedError(type=error.kind, message=error.message, suggestion=error.suggestion))
        else:
            self._keep(result=TapedResult.of(result))
        return result

    def ended(self) -> None:
        self._pieces = self._pieces or []
        self.gave(self._collected.result())

    def raised(self, error: BaseException) -> None:
        workspace = self._context.workspace if self._context is not None else None
        self._keep(error=TapedError.of(stopped_by(self._tool.name, error, workspace)))

    def _keep(self, result: TapedResult | None = None, error: TapedError | None = None) -> None:
        self._tape.record(
            self._place,
            TapedCall(
                tool=self._tool.name, version=self._tool.version, arguments=self._arguments, pieces=self._pieces,
                result=result, error=error,
            ),
        )  # fmt: skip


# Answers a tool's calls from a tape, without running it.


class ReplayingTool(Double):
    """A tool whose calls were recorded, under `version`. A call that was not is passed to `missed` and fails."""

    def __init__(self, original: Tool[Any], tape: Tape, version: str, missed: Callable[[str, Any], str]) -> None:
        super().__init__(original, Style.ASYNC_STREAM if is_stream(original) else Style.ASYNC)
        self._tape = tape
        self._version = version
        self._missed = missed
        self.max_result = sys.maxsize  # what was recorded was bounded then

    def start(self, params: Any, context: ToolContext | None) -> Any:
        call_id = context.call_id if context is not None else ""
        return self._stream(params) if self.style is Style.ASYNC_STREAM else self._result(params, call_id)

    async def _result(self, params: Any, call_id: str) -> ToolResult:
        call = self._find(params)
        if call.result is None:
            raise _error(call)
        return call.result.result(call_id, self.name)

    async def _stream(self, params: Any) -> AsyncIterator[Any]:
        call = self._find(params)
        for piece in call.pieces or ():
            yield piece
        if call.result is None:
            raise _error(call)
        yield call.result.output()

    def _find(self, params: Any) -> TapedCall:
        arguments = json.loads(self.params.dump(params))
        found = self._tape.take(self.name, self._version, arguments)
        if found is None:
            raise ToolError(self._missed(self.name, arguments))
        return found


def _error(call: TapedCall) -> ToolError:
    """The failure again, as an error whose words are kept as they are."""
    error = call.error
    if error is None:  # written by hand: neither a result nor an error
        return ToolError(f"The recorded call of `{call.tool}` has no outcome.")
    return ToolError(error.message, kind=error.type, suggestion=error.suggestion, details=error.details)


Mode = Literal["auto", "record", "replay"]


class CassetteMissError(AssertionError):
    """A call came that the cassette does not hold."""


class ToolChangedWarning(UserWarning):
    """A tool is not the one that was recorded: its version or its parameters differ."""


class Cassette:
    """Recorded calls in a file: `with Cassette("tests/weather.json") as cassette: …`.

    `mode` is `record` (run the tools and overwrite the file), `replay` (answer from the file and run nothing) or
    `auto` (replay when the file exists, else record). Equal calls replay in the order recorded, then the last one
    again. Leaving the `with` block writes a recording, unless the test failed, and raises `CassetteMissError` for calls
    that were not recorded: a runtime turns what a tool raises into a result, so it cannot be raised earlier.

    `redact` gets every JSON value before it is written, and the arguments before they are looked up; it must give
    equal values for equal values.
    """

    def __init__(self, path: str | Path, *, mode: Mode = "auto", redact: Callable[[Any], Any] = redact_value) -> None:
        if mode not in ("auto", "record", "replay"):
            raise ValueError(f'A cassette\'s mode is "auto", "record" or "replay", not {mode!r}.')
        self.path = Path(path)
        self.recording = mode == "record" or (mode == "auto" and not self.path.exists())
        self.misses: list[str] = []
        """What was said of each call that is not on the cassette."""
        self._digests: dict[tuple[str, str], str] = {}
        self._recorded: dict[str, dict[str, str]] = {}
        calls: list[TapedCall] = []
        if not self.recording:
            content = read_cassette(self.path)
            self._recorded, calls = content.tools, content.calls
        self._tape = Tape(calls, redact)

    def tools(self, tools: ToolSource | Iterable[Tool[Any]]) -> ToolSource:
        """The same tools, recording or replaying; for a runtime, or to be registered among others.

        Warns with `ToolChangedWarning` of each that is not what it was when it was recorded.
        """
        source = tools if isinstance(tools, ToolSource) else Registry(tools)
        for _, entry in source.entries():
            if change := self._change(entry.tool):
                warnings.warn(change, ToolChangedWarning, stacklevel=2)
        return _Taped(source, self._double)

    @property
    def calls(self) -> list[TapedCall]:
        """Every call on the cassette, sorted by tool and arguments."""
        return self._tape.calls

    @property
    def unused(self) -> list[TapedCall]:
        """Calls that were recorded and, in this replay, not made."""
        return [] if self.recording else self._tape.unused

    def save(self) -> None:
        """Write what was recorded; leaving a `with` block does this."""
        calls = self._tape.calls
        tools: dict[str, dict[str, str]] = {}
        for call in calls:
            tools.setdefault(call.tool, {})[call.version] = self._digests[call.tool, call.version]
        write_cassette(self.path, CassetteContent(tools=tools, calls=calls))

    def check(self) -> None:
        """Fail the test if a call was not on the cassette."""
        if self.misses:
            raise CassetteMissError("\n".join(self.misses))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for miss in self.misses:
                error.add_note(miss)  # most likely the cause of the failure that is under way
        elif self.recording:
            self.save()
        else:
            self.check()

    def _double(self, tool: Tool[Any]) -> Tool[Any]:
        if self.recording:
            self._digests[tool.name, tool.version] = _digest(tool)
            return RecordingTool(tool, self._tape)
        versions = self._recorded.get(tool.name, {})
        # A tool with a new version number still answers from its old recording; `tools` has warned of it.
        version = tool.version if tool.version in versions or not versions else list(versions)[-1]
        return ReplayingTool(tool, self._tape, version, self._missed)

    def _change(self, tool: Tool[Any]) -> str | None:
        versions = self._recorded.get(tool.name)
        if versions is None:
            return None
        if tool.version not in versions:
            was = ", ".join(versions)
            return f"`{tool.name}` is version {tool.version} now; {self.path} was recorded with {was}. {self._again}"
        if versions[tool.version] != _digest(tool):
            return f"The parameters of `{tool.name}` have changed since {self.path} was recorded. {self._again}"
        return None

    def _missed(self, tool: str, arguments: Any) -> str:
        near = self._tape.nearest(tool, arguments)
        told = (
            f"The nearest that was: {near.tool} {canonical(near.arguments)}"
            if near is not None
            else f"No call of `{tool}` was, nor of a tool with a name like it."
        )
        miss = f"Not recorded in {self.path}: {tool} {self._tape.shown(arguments)}\n{told}\n{self._again}"
        self.misses.append(miss)
        return miss

    @property
    def _again(self) -> str:
        return 'To record again, delete the file or open it with mode="record".'


class _Taped(View):
    """The tools of another source, each in its recording or replaying double."""

    def __init__(self, source: ToolSource, double: Callable[[Tool[Any]], Tool[Any]]) -> None:
        super().__init__(source)
        self._double = double
        self._doubles: dict[Tool[Any], Tool[Any]] = {}

    def entry(self, name: str, version: str | None = None) -> RegistryEntry | None:
        found = self.source.entry(name, version)
        return self._wrap(found) if found is not None else None

    def entries(self) -> list[tuple[str, RegistryEntry]]:
        return [(name, self._wrap(entry)) for name, entry in self.source.entries()]

    def _wrap(self, entry: RegistryEntry) -> RegistryEntry:
        double = self._doubles.get(entry.tool)
        if double is None:
            double = self._doubles.setdefault(entry.tool, self._double(entry.tool))
        return RegistryEntry(double, entry.origin, entry.enabled)


def _digest(tool: Tool[Any]) -> str:
    return hashlib.sha256(canonical(tool.input_schema).encode()).hexdigest()[:16]
