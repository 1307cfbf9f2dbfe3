"""The calls of one answer: run as one batch, shown while they run, and read by the model within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from string import Formatter
from typing import TYPE_CHECKING, Any, cast

from ferrule.agent.agent_events import CALLING, CallAsked, parsed
from ferrule.agent.conversation import Hearing, cancelled
from ferrule.core.errors import ErrorKind, StoppedError, ToolError
from ferrule.core.events import Done, Pending
from ferrule.core.model import (
    ModelError,
    ModelRequest,
    UserMessage,
)
from ferrule.core.phrases import phrase
from ferrule.core.shown_text import flattened, head_and_tail

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from ferrule.agent.agent_events import AgentEvent
    from ferrule.core.call import RawCall
    from ferrule.core.context import Session, ToolContext
    from ferrule.core.events import CallEvent
    from ferrule.core.model import Model, Usage
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool
    from ferrule.pipeline.run import Runtime


# Results as the model reads them: bounded, with how much was left out and how to get it.


_PAGES = (("offset", "limit"), ("head_limit",), ("limit",))


def bounded(result: ToolResult, most: int, tool: Tool[Any] | None = None) -> ToolResult:
    """The result as it stands in the conversation. Its typed data is for programs, and would only fill the memory."""
    text = result.llm_content
    if len(text) > most:
        text, left_out = head_and_tail(text, most)
        text += f"\n[{left_out:,} characters were left out, because the result was too long. {_how_to_get_it(tool)}]"
    return replace(result, llm_content=text, data=None, metadata={})


def _how_to_get_it(tool: Tool[Any] | None) -> str:
    if tool is not None and tool.fault is None:
        schema = tool.input_schema
        known: Any = schema.get("properties", {}) if isinstance(schema, dict) else {}
        for names in _PAGES:
            if all(name in known for name in names):
                listed = " and ".join(f"`{name}`" for name in names)
                return f"Call `{tool.name}` again with {listed} for the part you need."
    return "Ask for less at once for the part you need."


# Notices when a model makes the same call again and again and gets the same result each time.


NOTED = 3
ENDED = 5


class Repeats:
    """Counts calls of one turn that were made before with the same arguments and gave the same.

    A tool that may change things and does something new begins the count anew: tests that are run again after an edit
    are no loop, however they end. A command's exit code is a result like any other.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, int], int] = {}

    def count(self, call: RawCall, result: ToolResult, tool: Tool[Any] | None) -> int:
        """How often this call has come to this result by now."""
        key = call.name, str(call.arguments), hash(result.llm_content)
        ran = result.success or result.metadata.get("exit_code") is not None
        if key not in self._seen and ran and tool is not None and not tool.read_only:
            self._seen.clear()
        self._seen[key] = times = self._seen.get(key, 0) + 1
        return times


def note(times: int) -> str:
    """What the model reads below a result that it had before."""
    return (
        f"\n\n[This call was made {times} times with the same arguments and the same result. Making it again changes "
        "nothing: try another approach, or say what is blocking you.]"
    )


# The agent's model as a tool may ask it (T8): one prompt, one answer, counted into the turn.


class TurnModel:
    """What a session's `model_adapter` is while an agent's turn runs."""

    def __init__(self, model: Model, count: Callable[[Usage], None]) -> None:
        self._model = model
        self._count = count

    async def complete(self, prompt: str) -> str:
        """The model's words; its failures are the tool's, in words that the model above reads."""
        try:
            finished = await Hearing(lambda event: None).listen(self._model, ModelRequest([UserMessage(prompt)]))
        except ModelError as error:
            raise ToolError(
                phrase("The request to the model failed: {message}", message=error.message),
                suggestion=error.suggestion or None,
            ) from None
        self._count(finished.usage)
        return finished.message.text


# The calls of one answer: through the runtime as one batch, each event shown, exactly one result for each call.


class Calling:
    """Runs the calls of one answer, and shows what happens to them and to the calls that they make in turn."""

    def __init__(
        self,
        calls: Sequence[RawCall],
        runtime: Runtime,
        session: Session,
        parent: ToolContext | None,
        show: Callable[[AgentEvent], None],
    ) -> None:
        self._calls = calls
        self._runtime = runtime
        self._session = session
        self._parent = parent
        self._show = show
        self._watched: set[str] = {call.id for call in calls}
        self._done: dict[str, ToolResult] = {}

    async def run(self) -> list[ToolResult]:
        """A result for each call, in order. When this is cancelled, `interrupted` has the results."""
        with self._watching():
            return await self._runtime.batch(self._calls, session=self._session, parent=self._parent)

    async def refuse(self, why: StoppedError) -> list[ToolResult]:
        """Run none of them, on the record."""
        with self._watching():
            return [
                await self._runtime.refuse(call, why, session=self._session, parent=self._parent)
                for call in self._calls
            ]

    def interrupted(self, why: str) -> list[ToolResult]:
        """The results of calls that were cancelled: a call that had come to its end keeps its own."""
        ended = {
            call_id: result
            for call_id, result in self._done.items()
            if result.error is None or result.error.kind != ErrorKind.CANCELLED
        }
        return [ended.get(call.id) or cancelled(call, why) for call in self._calls]

    @contextmanager
    def _watching(self) -> Generator[None]:
        for call in self._calls:
            self._show(CallAsked(call, *doing(self._runtime.tools.get(call.name), call)))
        unsubscribe = self._runtime.subscribe(self._hear)
        try:
            yield
        finally:
            unsubscribe()

    def _hear(self, event: CallEvent) -> None:
        if event.call_id in self._watched:
            if isinstance(event, Done):
                self._watched.discard(event.call_id)
                self._done[event.call_id] = event.result
        elif isinstance(event, Pending) and event.parent_id in self._watched:
            self._watched.add(event.call_id)
        else:
            return
        self._show(event)


# What a call does, said to the person while it runs: «reading `a.py`».


_MOST_SHOWN = 120


def doing(tool: Tool[Any] | None, call: RawCall) -> tuple[str, str, Mapping[str, str]]:
    """The words in English, their pattern, and the values that belong into it."""
    values = {"tool": flattened(call.name, _MOST_SHOWN)}
    if tool is not None and (pattern := tool.doing):
        named = [name for _, name, _, _ in Formatter().parse(pattern) if name]
        read = parsed(call.arguments)  # this is shown, never run
        given: Mapping[str, Any] = cast("Mapping[str, Any]", read) if isinstance(read, Mapping) else {}
        if not given.keys() >= set(named):
            given = {**_defaults(tool), **given}
        if given.keys() >= set(named):
            values |= {name: flattened(str(given[name]), _MOST_SHOWN) for name in named}
            return pattern.format(**values), pattern, values
    return CALLING.format(**values), CALLING, values


def _defaults(tool: Tool[Any]) -> dict[str, Any]:
    schema = tool.input_schema if tool.fault is None else {}
    known: dict[str, Any] = schema.get("properties", {}) if isinstance(schema, dict) else {}
    return {name: one["default"] for name, one in known.items() if one.get("default") is not None}
