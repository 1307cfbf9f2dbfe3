"""Answers a tool's calls from a tape, without running it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from ferrule.core.errors import ToolError
from ferrule.core.tool import Style, Tool
from ferrule.testing.double import Double, is_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ferrule.core.context import ToolContext
    from ferrule.core.result import ToolResult
    from ferrule.testing.cassette_file import TapedCall
    from ferrule.testing.tape import Tape


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
