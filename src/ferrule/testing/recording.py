"""Runs a tool as ever, and keeps each call with its outcome on a tape."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from ferrule.core.call import Invocation
from ferrule.core.errors import Stopped
from ferrule.core.result import Output
from ferrule.core.tool import Style, Tool
from ferrule.pipeline.format import format_value, stopped_by
from ferrule.pipeline.limits import DEFAULT_LIMITS
from ferrule.pipeline.streaming import Collected
from ferrule.testing.cassette_file import TapedCall, TapedError, TapedResult, plain
from ferrule.testing.double import Double, is_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator

    from ferrule.core.context import ToolContext
    from ferrule.testing.tape import Tape


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
        except Stopped as stopped:
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
