"""A scripted caller: plays calls against a runtime the way a model would, and keeps what came back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ferrule.core.call import RawCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.context import Session
    from ferrule.core.events import CallEvent
    from ferrule.core.result import ToolResult
    from ferrule.pipeline.run import Runtime


@dataclass(slots=True, frozen=True)
class ScriptedCall:
    """A call of the script. One without an id gets `call_1`, `call_2`, … by its place in the whole script."""

    name: str
    arguments: str | bytes | Mapping[str, Any] | None = None
    id: str | None = None
    version: str | None = None


def call(
    name: str,
    arguments: str | bytes | Mapping[str, Any] | None = None,
    *,
    id: str | None = None,  # noqa: A002 - the providers' word
    version: str | None = None,
) -> ScriptedCall:
    """One call for a script. Arguments are a mapping, or text as a model would send it, broken text included."""
    return ScriptedCall(name, arguments, id, version)


Calls = ScriptedCall | RawCall | Sequence[ScriptedCall | RawCall]
Turn = Calls | Callable[["ScriptedCaller"], Calls]
"""One answer of the pretended model: a call, several calls, or a function of what came back so far."""


class ScriptedCaller:
    """Plays turns one after the other; the calls of one turn run as one batch, as a model's would.

    A turn that depends on earlier results is a function: it gets this caller and gives the turn's calls.
    """

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._script = list(turns)
        self._begin()

    def _begin(self) -> None:
        self.calls: list[RawCall] = []
        self.turns: list[list[ToolResult]] = []
        self.events: list[CallEvent] = []
        """Everything the runtime reported while the script played, calls made by tools included."""

    async def play(self, runtime: Runtime, *, session: Session | None = None) -> list[ToolResult]:
        """Play the whole script from its beginning; gives every result, in the order asked."""
        self._begin()
        unsubscribe = runtime.subscribe(self.events.append)
        try:
            for turn in self._script:
                calls = self._named(turn(self) if callable(turn) else turn)
                self.calls += calls
                self.turns.append(await runtime.batch(calls, session=session))
        finally:
            unsubscribe()
        return self.results

    def run(self, runtime: Runtime, *, session: Session | None = None) -> list[ToolResult]:
        """`play`, for a test that is not async."""
        return asyncio.run(self.play(runtime, session=session))

    # What came back

    @property
    def results(self) -> list[ToolResult]:
        """Every result so far, in the order asked."""
        return [result for turn in self.turns for result in turn]

    def result(self, call_id: str) -> ToolResult:
        """The result of one call."""
        for result in self.results:
            if result.call_id == call_id:
                return result
        known = ", ".join(f"`{result.call_id}`" for result in self.results) or "none"
        raise AssertionError(f"There is no result of a call `{call_id}`. The calls that have one: {known}.")

    @property
    def text(self) -> str:
        """What the model read: the text of every result, separated by empty lines."""
        return "\n\n".join(result.llm_content for result in self.results)

    @property
    def transcript(self) -> str:
        """What the model wrote and read: each call, then its result. Made to be pinned by a snapshot."""
        pairs = zip(self.calls, self.results, strict=True)
        return "\n\n".join(f"[{one.id}] {one.name} {_shown(one)}\n{result.llm_content}" for one, result in pairs)

    def expect_success(self) -> list[ToolResult]:
        """Every result, if all succeeded; otherwise fails the test with what the failed ones said."""
        failed = [f"{result.call_id} {result.tool}: {result.llm_content}" for result in self.results if result.error]
        if failed:
            raise AssertionError(f"{len(failed)} of {len(self.results)} calls failed.\n" + "\n".join(failed))
        return self.results

    def _named(self, calls: Calls) -> list[RawCall]:
        listed = [calls] if isinstance(calls, (ScriptedCall, RawCall)) else list(calls)
        named: list[RawCall] = []
        taken = {one.id for one in self.calls}
        for place, one in enumerate(listed, len(self.calls) + 1):
            if isinstance(one, ScriptedCall):
                one = RawCall(one.name, one.arguments, id=one.id or f"call_{place}", version=one.version)
            if one.id in taken:
                raise ValueError(f"Two calls of the script have the id `{one.id}`; a result could belong to either.")
            taken.add(one.id)
            named.append(one)
        return named


def _shown(call: RawCall) -> str:
    arguments = call.arguments
    if isinstance(arguments, bytes):
        return arguments.decode("utf-8", "backslashreplace")
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False, default=str)
