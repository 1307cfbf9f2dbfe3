"""One call in a task of its own, which can outlive the request that began it.

In the stateless era a question to the person ends the request: the client answers with another one, and finds the call
where it stopped. So a call never belongs to a request; a request attends it until there is something to say.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ferrule.pipeline.eager import start_task

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from mcp.server.context import ServerRequestContext

    from ferrule.core.call import RawCall
    from ferrule.core.result import ToolResult

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
