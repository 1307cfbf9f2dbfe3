"""Cassettes: record once what tools and models answered, and replay it in tests without asking them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from ferrule.core.call import DEFAULT_LIMITS
from ferrule.core.errors import StoppedError, ToolError
from ferrule.core.result import Output, ToolResult
from ferrule.core.secrets import redact_value
from ferrule.core.tool import OPTIONS, Invocation, Style, Tool
from ferrule.pipeline.cleaning import stopped_by
from ferrule.pipeline.format import format_value
from ferrule.pipeline.streaming import Collected
from ferrule.registry.registry import Registry, RegistryEntry, ToolSource, View
from ferrule.testing.tape import (
    CassetteContent,
    CassetteMissError,
    Tape,
    TapedCall,
    TapedError,
    TapedRequest,
    TapedResult,
    canonical,
    plain,
    read_cassette,
    write_cassette,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
    from types import TracebackType

    from ferrule.core.context import ToolContext
    from ferrule.core.description import Description
    from ferrule.core.model import Model
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
    def input_schema(self) -> dict[str, Any]:
        return self.original.input_schema

    @property
    def output_schema(self) -> dict[str, Any] | None:
        return self.original.output_schema


def is_stream(tool: Tool[Any]) -> bool:
    return tool.style in (Style.ASYNC_STREAM, Style.SYNC_STREAM)


# Runs a tool as ever, and keeps each call with its outcome on a tape.


class RecordingTool(Double):
    """A tool whose calls are recorded. A call that was cancelled or ran out of time has no outcome to keep."""

    def __init__(self, original: Tool[Any], tape: Tape[TapedCall]) -> None:
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

    def __init__(self, tape: Tape[TapedCall], tool: Tool[Any], params: Any, context: ToolContext | None) -> None:
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

    def __init__(
        self, original: Tool[Any], tape: Tape[TapedCall], version: str, missed: Callable[[str, Any], str]
    ) -> None:
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


class ToolChangedWarning(UserWarning):
    """A tool is not the one that was recorded: its version or its parameters differ."""


class Cassette:
    """Recorded calls of tools and requests to models in a file: `with Cassette("tests/weather.json") as cassette: …`.

    `mode` is `record` (run the tools, ask the models, and overwrite the file), `replay` (answer from the file alone) or
    `auto` (replay when the file exists, else record). Equal calls replay in the order recorded, then the last one
    again. Leaving the `with` block writes a recording, unless the test failed, and raises `CassetteMissError` for what
    was not recorded: a runtime turns what a tool raises into a result, so it cannot be raised earlier.

    `redact` gets every JSON value before it is written, and arguments and requests before they are looked up; it must
    give equal values for equal values.
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
        requests: list[TapedRequest] = []
        if not self.recording:
            content = read_cassette(self.path)
            self._recorded, calls, requests = content.tools, content.calls, content.requests
        self._redact = redact
        self._tape = Tape(calls, redact)
        self._traffic = Tape(requests, redact)

    def tools(self, tools: ToolSource | Iterable[Tool[Any]]) -> ToolSource:
        """The same tools, recording or replaying; for a runtime, or to be registered among others.

        Warns with `ToolChangedWarning` of each that is not what it was when it was recorded.
        """
        source = tools if isinstance(tools, ToolSource) else Registry(tools)
        for _, entry in source.entries():
            if change := self._change(entry.tool):
                warnings.warn(change, ToolChangedWarning, stacklevel=2)
        return _Taped(source, self._double)

    def model(self, model: Model | str) -> Model:
        """The same model, recording or replaying what is sent to its provider and what comes back.

        It is one that is asked over HTTP, or its name as `open_model` takes it; a name needs no key to be replayed.
        """
        from ferrule.testing.model_traffic import taped_model

        return taped_model(model, self._traffic, self._redact, None if self.recording else self._missed_request)

    @property
    def calls(self) -> list[TapedCall]:
        """Every call on the cassette, sorted by tool and arguments."""
        return self._tape.calls

    @property
    def requests(self) -> list[TapedRequest]:
        """Every request to a model on the cassette, sorted by model, path and body."""
        return self._traffic.calls

    @property
    def unused(self) -> list[TapedCall | TapedRequest]:
        """Calls and requests that were recorded and, in this replay, not made."""
        return [] if self.recording else [*self._tape.unused, *self._traffic.unused]

    def save(self) -> None:
        """Write what was recorded; leaving a `with` block does this."""
        calls = self._tape.calls
        tools: dict[str, dict[str, str]] = {}
        for call in calls:
            tools.setdefault(call.tool, {})[call.version] = self._digests[call.tool, call.version]
        write_cassette(self.path, CassetteContent(tools=tools, calls=calls, requests=self._traffic.calls))

    def check(self) -> None:
        """Fail the test if a call or a request was not on the cassette."""
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
        return self._miss(f"{tool} {self._tape.shown(arguments)}\n{told}")

    def _missed_request(self, said: str) -> CassetteMissError:
        return CassetteMissError(self._miss(said))

    def _miss(self, said: str) -> str:
        miss = f"Not recorded in {self.path}: {said}\n{self._again}"
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
