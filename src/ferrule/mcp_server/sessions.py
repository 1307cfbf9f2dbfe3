"""Who is served: each client with a session of its own, whose shells and memory end with it.

A connection with a handshake is a client. In the stateless era a request says nothing of the ones before, so all of
them on one server (one stdio pipe, or everybody who holds the one token) share a session.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import uuid
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ferrule.core.call import RawCall
from ferrule.core.elicitation import set_elicitor
from ferrule.core.loops import start_task
from ferrule.mcp_server.asking import HandshakePeer, StatelessPeer, ask_through_client, set_peer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext

    from ferrule.core.context import Session
    from ferrule.core.result import ToolResult
    from ferrule.pipeline.run import Runtime


# One call in a task of its own, which can outlive the request that began it.


_ROUNDS_TO_GATHER = 5


class OpenQuestion:
    """A request to the client that waits for its answer; `read` turns the answer into what the asker wants."""

    def __init__(self, request: dict[str, Any], read: Callable[[Any], Any]) -> None:
        self.request = request
        self.read = read
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class RunningCall:
    """A call, the questions that it has open, and the request that waits for it now, if one does."""

    def __init__(self, call: RawCall, answers: Mapping[str, Any] | None = None) -> None:
        self.call = call
        self.questions: dict[str, OpenQuestion] = {}
        self.attended_by: ServerRequestContext[Any, Any] | None = None
        self.fits: Callable[[Any], str | None] | None = None
        """What its structured content must fit, if its tool promised any."""
        self._given = dict(answers or {})
        self._numbered = 0
        self._used: set[str] = set()
        self._task: asyncio.Task[ToolResult] | None = None
        self._news: asyncio.Future[None] | None = None
        self._giving_up: asyncio.TimerHandle | None = None

    @cached_property
    def id(self) -> str:
        """What nobody can guess; few calls ever need it."""
        return secrets.token_urlsafe(18)

    # Running

    def start(
        self, work: Coroutine[Any, Any, ToolResult], ended: Callable[[RunningCall], None], *, at_once: bool = False
    ) -> None:
        """Begin it. `at_once` runs it up to its first wait, before anybody can listen to what it reports."""
        loop = asyncio.get_running_loop()
        self._task = start_task(work, loop) if at_once else loop.create_task(work)
        self._task.add_done_callback(lambda _: (ended(self), self._wake()))

    @property
    def done(self) -> bool:
        return self._task is not None and self._task.done()

    @property
    def result(self) -> ToolResult | None:
        """What it gave; None where it was stopped. Only when done."""
        task = self._task
        return task.result() if task is not None and task.done() and not task.cancelled() else None

    async def wait(self, seconds: float | None = None) -> None:
        """Until it is done or has a question open, at most so long."""
        loop = asyncio.get_running_loop()
        ends = None if seconds is None else loop.time() + seconds
        while not self.done and not self.questions:
            self._news = loop.create_future()
            if ends is not None and loop.time() >= ends:
                return
            timer = None if ends is None else loop.call_at(ends, self._wake)
            try:
                await self._news
            finally:
                if timer is not None:
                    timer.cancel()
        for _ in range(_ROUNDS_TO_GATHER if self.questions else 0):
            await asyncio.sleep(0)  # what is asked together goes to the client together

    async def stop(self) -> None:
        """Cancel it, and wait until it has stopped."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))

    # Questions

    async def ask(self, request: dict[str, Any], read: Callable[[Any], Any], key: str | None = None) -> Any:
        """Open a question and wait for its answer. No key ever stands for two questions of one call."""
        if key is None or key in self._used:
            self._numbered += 1
            key = f"{key or 'question'}_{self._numbered}"
        elif key in self._given:  # a client that kept nothing sends what it was asked along with the call
            with suppress(ValueError):  # what is no answer to this is as if it had not been sent: it is asked
                return read(self._given.pop(key))
        self._used.add(key)
        question = self.questions[key] = OpenQuestion(request, read)
        self._wake()
        try:
            return await question.answer
        finally:
            self.questions.pop(key, None)

    def answer(self, answers: Mapping[str, Any]) -> None:
        """Take what the client sent. What answers nothing that is open is ignored; what cannot be read stays open."""
        for key, given in answers.items():
            question = self.questions.get(key)
            if question is None or question.answer.done():
                continue
            try:
                question.answer.set_result(question.read(given))
            except ValueError:
                continue
            del self.questions[key]

    def give_up_after(self, seconds: float) -> None:
        """Stop it unless somebody takes it up again within that time."""
        self.keep()
        if self._task is not None:
            self._giving_up = asyncio.get_running_loop().call_later(seconds, self._task.cancel)

    def keep(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


logger = logging.getLogger("ferrule.mcp")

_KEY = "ferrule.session"


def is_stateless(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether the request is of the era without sessions."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def connection_of(context: ServerRequestContext[Any, Any]) -> Connection:
    """The connection that a request came on, which the SDK has no public way to."""
    return context.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def wants_progress(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client wants to be told how far a request is."""
    return context.meta is not None and context.meta.get("progress_token") is not None


class ClientSession:
    """One client's runtime, and the calls that it has running."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.calls: set[RunningCall] = set()
        self.closed = False

    def begin(
        self,
        context: ServerRequestContext[Any, Any],
        name: str,
        arguments: Mapping[str, Any] | None,
        answers: Mapping[str, Any] | None = None,
    ) -> RunningCall:
        """Start a call; the client can be asked while it runs, and be told of its progress where it wants to."""
        running = RunningCall(RawCall(name, arguments or {}), answers)
        peer = StatelessPeer(context, running) if is_stateless(context) else HandshakePeer(context)

        async def work() -> ToolResult:
            set_peer(peer)
            if peer.can_elicit:
                set_elicitor(peer)
            return await self.runtime.run(running.call)

        self.calls.add(running)
        running.start(work(), self.calls.discard, at_once=not wants_progress(context))
        return running

    async def close(self, close: Callable[[Session], Awaitable[None]]) -> None:
        """Stop its calls, then whatever they left running."""
        self.closed = True
        await asyncio.gather(*(running.stop() for running in list(self.calls)))
        try:
            await close(self.runtime.session)
        except Exception:
            logger.exception("A session could not be closed")


class Sessions:
    """Finds the session of a request, and closes each with its connection."""

    def __init__(self, template: Runtime, close: Callable[[Session], Awaitable[None]]) -> None:
        self._template = template
        self._close = close
        self._shared: ClientSession | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.idle_seconds: float | None = None
        """How long the shared session may be unused before it is closed; None for as long as the server runs."""
        self.connections: set[Connection] = set()
        """Those with a handshake, which can be told of changes."""

    def of(self, context: ServerRequestContext[Any, Any]) -> ClientSession:
        if is_stateless(context):
            return self._the_shared()
        connection = self.greet(context)
        session: ClientSession | None = connection.state.get(_KEY)
        if session is None:
            session = connection.state[_KEY] = self._open()
            connection.exit_stack.push_async_callback(session.close, self._close)
        return session

    def greet(self, context: ServerRequestContext[Any, Any]) -> Connection:
        """Remember a connection for as long as it lasts."""
        connection = connection_of(context)
        if connection not in self.connections:
            self.connections.add(connection)
            connection.exit_stack.callback(self.connections.discard, connection)
        return connection

    async def close(self) -> None:
        """End the shared session; the others have ended with their connections."""
        if self._idle is not None:
            self._idle.cancel()
        shared, self._shared = self._shared, None
        if shared is not None:
            await shared.close(self._close)
        await asyncio.gather(*self._closing)

    def _open(self) -> ClientSession:
        model = self._template.session
        own = replace(model, id=uuid.uuid4().hex, state={})
        return ClientSession(self._template.for_session(own, ask=ask_through_client))

    def _the_shared(self) -> ClientSession:
        if self._shared is None:
            self._shared = self._open()
        if self.idle_seconds is not None:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = asyncio.get_running_loop().call_later(self.idle_seconds, self._close_unused)
        return self._shared

    def _close_unused(self) -> None:
        shared = self._shared
        if shared is None:
            return
        if shared.calls:
            self._the_shared()  # still at work: look again later
            return
        self._shared = None
        closing = asyncio.get_running_loop().create_task(shared.close(self._close))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
