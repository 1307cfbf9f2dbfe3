"""A call that runs here and now: what it has said so far, and who waits for it."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from ferrule.core.errors import ErrorKind
from ferrule.core.events import Done, PartialOutput, Progress
from ferrule.core.function_tool import FunctionTool
from ferrule.service.documents import CANCELLED, cancelled_text, cost_of, error_text, output_of, result_text, shown_time
from ferrule.service.vocabulary import FINISHED
from ferrule.service.writer import AddEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from ferrule.agent.agent_events import WaitingCall
    from ferrule.agent.turn_log import ConversationJournal
    from ferrule.core.events import CallEvent
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool
    from ferrule.pipeline.confirm import Answer
    from ferrule.pipeline.run import Runtime
    from ferrule.service.limits import GateTurn
    from ferrule.service.writer import GroupWriter

logger = logging.getLogger("ferrule.service")

MOST_EVENTS = 2_000
"""Pieces of output and progress of one call that are kept; the result has all of it anyway."""
MOST_EVENT_CHARS = 8_000_000
"""And how much they hold together."""
_PROGRESS_SECONDS = 0.02


@dataclass(slots=True, frozen=True)
class Pause:
    """What a turn waits for from now on. `questions` are approvals that it asked for, by what each is bound to."""

    waiting: Sequence[WaitingCall]
    questions: Mapping[str, Mapping[str, Any]]


class LiveCall:
    """One call of this instance, until its end is stored."""

    # What a call nearly always leaves as it is stands here: one is made for every call.
    runtime: Runtime | None = None
    task: asyncio.Task[None] | None = None
    subjects: tuple[Any, ...] = ()
    turn: GateTurn | None = None
    answer: Answer | None = None
    """What somebody decided about it, for the arguments with the hash `answer_for`."""
    answer_for = ""
    cancelled = False
    why_stopped = CANCELLED
    ending = False
    """Whether it has run: all that is left is to store its end, which nothing may stop."""
    attached = 0
    """Requests that wait for it."""
    outlived = False
    """Whether it has gone on after its request was answered, or without one: others may wait elsewhere."""
    stored = False
    resumed = False
    """Whether it goes on after it waited, or after its instance ended."""
    pause: Pause | None = None
    """What it waits for, where it leaves this instance's memory without having ended."""
    paused = False
    """Whether that is stored."""
    journal: ConversationJournal | None = None
    """What keeps the steps of its turn."""
    left = False
    """Whether its turn goes on elsewhere, because this instance stops."""
    spent = 0.0
    """What the calls that it made cost; its own cost is known at its end."""
    _progress_at = 0.0
    _room = MOST_EVENT_CHARS
    _is_full = False
    _start_stored = False

    def __init__(self, row: dict[str, Any], writer: GroupWriter, most_bytes: int = 0) -> None:
        self.row = row
        self.id: str = row["id"]
        self.tenant: str = row["tenant"]
        self.writer = writer
        self.most_bytes = most_bytes
        """How large its result may be; 0 is no limit."""
        self.events: list[dict[str, Any]] = []
        self._waiting: list[asyncio.Future[bool]] = []

    def take_up(self, events: list[dict[str, Any]]) -> None:
        """Go on after the events that are stored."""
        self.resumed = self.outlived = True
        self.events = events
        self.spent = self.row["cost"]
        self.row["last_seq"] = max(self.row["last_seq"], *(event["id"] for event in events), 0)
        self._start_stored = any(event["type"] == "call.started" for event in events)

    # What it says

    def begin(self) -> None:
        """Note that the tool is about to start; a call that waited for an approval starts after that."""
        self.row["status"] = "running"
        if self.row["started"] is None:
            self.row["started"] = time()
            self.row["last_seq"] += 1
            self.row["started_seq"] = self.row["last_seq"]
            if self._waiting:
                self.tell()

    def say(self, kind: str, data: Mapping[str, Any]) -> None:
        """An event that others may ask for later, also on another instance while the call runs."""
        if self.row["started_seq"] and not self._start_stored:
            self._start_stored = True
            self._store(self.row["started_seq"], "call.started", {}, self.row["started"])
        self.row["last_seq"] += 1
        self._store(self.row["last_seq"], kind, data, time())
        self.tell()

    def _store(self, seq: int, kind: str, data: Mapping[str, Any], at: float) -> None:
        self.events.append({"id": seq, "type": kind, "call": self.id, "at": shown_time(at), "data": data})
        row = {"tenant": self.tenant, "call": self.id, "seq": seq, "type": kind, "data": json.dumps(data), "at": at}
        self.writer.put(AddEvent(self.tenant, row))

    def hear(self, event: CallEvent) -> None:
        """Pass on progress and output of the call itself, as far as there is room."""
        if isinstance(event, Done) and event.call_id != self.id:
            self.spent += cost_of(event.result)
        if event.call_id != self.id or not isinstance(event, (Progress, PartialOutput)):
            return
        if self._is_full or self._room <= 0 or len(self.events) >= MOST_EVENTS:
            if not self._is_full:
                self._is_full = True
                self.say("reset", {"detail": "There is more than is kept as events; the result has all of it."})
            return
        if isinstance(event, PartialOutput):
            output = output_of(event.content)
            self._room -= len(output["content"]) if isinstance(output["content"], str) else 100
            self.say("call.output", output)
            return
        now = monotonic()
        if now - self._progress_at >= _PROGRESS_SECONDS or event.done == event.total:
            self._progress_at = now
            self.say("call.progress", {"done": event.done, "total": event.total, "message": event.message})

    def leave(self) -> None:
        """Let the next call be worked on."""
        if self.turn is not None:
            self.turn.release()

    def stored_form(self, result: ToolResult) -> tuple[str, str]:
        """What is stored of a result, and the status that it gives the call; its cost goes to the row."""
        text = result_text(result, self.most_bytes)
        self.row["cost"] = cost_of(result) + self.spent
        if result.success:
            return text, "succeeded"
        kind = result.error.kind if result.error is not None else None
        if self.cancelled and self.why_stopped is not CANCELLED and kind in (ErrorKind.CANCELLED, ErrorKind.PERMISSION):
            return cancelled_text(self.row, self.why_stopped), "cancelled"
        return text, "cancelled" if self.cancelled and kind == ErrorKind.CANCELLED else "failed"

    def without_result(self, error: Exception) -> tuple[str, str]:
        """The same for a call whose result cannot be stored."""
        logger.error("Call %s of %s has no result that can be stored", self.id, self.row["tool"], exc_info=error)
        said = f"`{self.row['tool']}` ran, but its result has no form that can be stored."
        text = error_text(self.row, ErrorKind.UNKNOWN.value, said, "Its author has to fix what it returns.")
        return text, "failed"

    # Who waits

    def tell(self) -> None:
        """Wake everybody who waits for news."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(True)

    async def news(self, seconds: float | None = None) -> bool:
        """Wait until there is something new; False when nothing came in time."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(future)

        def give_up() -> None:
            if not future.done():
                future.set_result(False)

        timer = loop.call_later(seconds, give_up) if seconds is not None else None
        try:
            return await future
        finally:
            if timer is not None:
                timer.cancel()

    async def ended(self, seconds: float) -> bool:
        """Wait until its end is stored, or that it waits elsewhere; False when it takes longer."""
        until = monotonic() + seconds
        while not (self.stored or self.paused):
            left = until - monotonic()
            if left <= 0 or not await self.news(left):
                return self.stored or self.paused
        return True

    async def follow(self, after: int) -> AsyncIterator[dict[str, Any]]:
        """Its events after that number, until its end; what was said before is said again."""
        told = 0
        while True:
            stored, begun, said = self.stored or self.paused, self.row["started_seq"], self.events[told:]
            told += len(said)
            for event in events_of(self.row, said, after):
                after = event["id"]
                yield event
            if stored:
                return
            if (self.stored or self.paused, self.row["started_seq"], len(self.events)) == (stored, begun, told):
                await self.news()  # nothing has come while the others were read


def events_of(row: Mapping[str, Any], said: list[dict[str, Any]], after: int) -> list[dict[str, Any]]:
    """All events of a call after a number. Its beginning and its end are told by its row."""
    found = [event for event in said if event["id"] > after]
    if after < 1:
        found.append(_event(row, 1, "call.created", row["created"], {"tool": row["tool"]}))
    if row["started_seq"] > after and not any(event["id"] == row["started_seq"] for event in found):
        found.append(_event(row, row["started_seq"], "call.started", row["started"], {}))
    if row["status"] in FINISHED and row["finished"] is not None and row["last_seq"] > after:
        result = json.loads(row["result"]) if row["result"] else None
        found.append(_event(row, row["last_seq"], f"call.{row['status']}", row["finished"], {"result": result}))
    found.sort(key=lambda event: event["id"])
    return found


def _event(row: Mapping[str, Any], seq: int, kind: str, at: float, data: dict[str, Any]) -> dict[str, Any]:
    return {"id": seq, "type": kind, "call": row["id"], "at": shown_time(at), "data": data}


def can_speak(tool: Tool[Any]) -> bool:
    """Whether its calls can report progress, stream output, call tools or ask; a plain function can do none of it."""
    if tool.wants_context or not isinstance(tool, FunctionTool):
        return True
    code: Any = getattr(tool.function, "__code__", None)  # pyright: ignore[reportUnknownMemberType]
    return code is None or bool(code.co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR)) or tool.has_touches
