"""The last stage: every call leaves exactly one record, refusals included."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Awaitable, Iterable
    from contextlib import AbstractContextManager

    from ferrule.core.call import RawCall
    from ferrule.core.context import Caller, Session
    from ferrule.core.tool import Invocation


@dataclass(slots=True)
class CallRecord:
    """What happened to one call.

    `arguments` is what came in, untouched; whoever stores or shows it redacts it first. `verdict` is `allow`,
    `ask` or `deny`, or empty when the call never got that far. `stage` is where the call ended (`record` when it
    went all the way) and `outcome` is `success` or an error type such as `timeout_error`.

    `duration` is the call's own time in seconds. What it waited for a user's answer, to a confirmation or to a question
    of its tool, is `waited`, and what it waited for its turn, where its tool runs one call at a time, is `queued`.
    """

    call_id: str
    parent_id: str | None
    session_id: str
    caller: Caller
    tool: str
    version: str
    kind: str
    arguments: Any
    started: float
    duration: float = 0.0
    waited: float = 0.0
    queued: float = 0.0
    verdict: str = ""
    reason: str = ""
    rule: str | None = None
    answer: str | None = None
    box: str | None = None
    """How a command ran: `look` with its effects held back, `work` for real; None for what is no command."""
    effects: dict[str, Any] | None = None
    """What a tried call would have changed, whether or not it was approved (`Effects.as_data`)."""
    stage: str = "record"
    outcome: str = "success"
    error: str | None = None
    result_length: int = 0
    cached: bool = False
    abandoned: bool = False
    repairs: tuple[str, ...] = ()


class Recorder(Protocol):
    """Keeps records. `record` must not block; what it returns, if anything, is awaited before the result is given."""

    def record(self, record: CallRecord) -> Awaitable[None] | None: ...


@runtime_checkable
class Watcher(Protocol):
    """A recorder that also wants to know when a call is looked up and when its tool starts."""

    def looked_up(self, call: RawCall, session: Session, *, found: bool) -> None: ...

    def started(self, invocation: Invocation, session: Session) -> None: ...


@runtime_checkable
class Noting(Protocol):
    """A recorder that may have something to tell: the next result says it, and the oldest is taken away first."""

    notes: deque[str]


class Span(Protocol):
    """One execution while it is traced."""

    def result(self, value: Any) -> None:
        """Note what the tool gave."""
        ...

    def waited(self, user: float, turn: float) -> None:
        """Note how many seconds the call waited so far: for a user's answers, and for its turn."""
        ...


class Tracer(Protocol):
    """Wraps a tool's execution, for spans."""

    def span(self, invocation: Invocation, session: Session) -> AbstractContextManager[Span]: ...


# Hands records to whoever keeps them; one that fails or is slow harms neither the call nor the others.


logger = logging.getLogger("ferrule.calls")


class Recording:
    """The recorders of a runtime, and those of them that also watch calls begin."""

    def __init__(self, recorders: Iterable[Recorder]) -> None:
        self._recorders = tuple(recorders)
        for one in self._recorders:
            if not callable(getattr(one, "record", None)):
                raise TypeError(f"{one!r} is no recorder: it has no method `record`.")
        self.watchers = tuple(one for one in self._recorders if isinstance(one, Watcher))
        self._noting = tuple(one.notes for one in self._recorders if isinstance(one, Noting))
        self._pending: set[asyncio.Future[Any]] = set()

    @property
    def has_notes(self) -> bool:
        return any(self._noting)

    def take_notes(self) -> list[str]:
        """What the recorders have to tell besides, for one result to say."""
        return [notes.popleft() for notes in self._noting for _ in range(len(notes))]

    def tell(self, what: str, *about: Any, **more: Any) -> None:
        """Tell the watchers."""
        for watcher in self.watchers:
            try:
                getattr(watcher, what)(*about, **more)
            except Exception:
                logger.exception("%s failed on %s", type(watcher).__name__, what)

    def record(self, record: CallRecord) -> list[Awaitable[Any]]:
        """Stage seven; what it returns must be settled before the result is given."""
        waiting: list[Awaitable[Any]] = []
        for recorder in self._recorders:
            try:
                pending = recorder.record(record)
            except Exception as error:
                logger.exception("Call %s could not be recorded by %s", record.call_id, type(recorder).__name__)
                waiting.append(_failed(error))
                continue
            if pending is not None:
                waiting.append(pending)
        return waiting

    async def settle(self, waiting: list[Awaitable[Any]], timeout: float | None = None) -> BaseException | None:
        """Wait for recorders that take time, and give the first failure. Cancelling the wait does not cancel them."""
        futures = [asyncio.ensure_future(one) for one in waiting]
        for future in futures:
            self._pending.add(future)
            future.add_done_callback(self._note)
        done, _ = await asyncio.wait(futures, timeout=timeout)
        return next((error for one in done if not one.cancelled() and (error := one.exception()) is not None), None)

    def _note(self, future: asyncio.Future[Any]) -> None:
        self._pending.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            logger.error("A call could not be recorded", exc_info=error)


async def _failed(error: Exception) -> None:
    raise error
