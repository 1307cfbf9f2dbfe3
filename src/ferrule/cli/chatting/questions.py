"""Questions in the middle of a conversation: whether a call may run, and what an MCP server wants to know."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ferrule.cli.ask import change_of, choices_of, head_of, opened, tail_of, understood
from ferrule.cli.chatting.call_view import diff_rows
from ferrule.cli.chatting.screen import kept, wrapped
from ferrule.cli.server_talk.questions import BAR, NO_TERMINAL
from ferrule.cli.words import _, as_warning
from ferrule.core.shown_text import one_line
from ferrule.pipeline.confirm import Answer, Choice

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from ferrule.cli.ask import AnswerLine
    from ferrule.cli.chatting.event_printer import EventPrinter
    from ferrule.cli.chatting.input import PersonInput
    from ferrule.cli.chatting.screen import Screen
    from ferrule.core.events import Question


_INDENT = "  "
_MOST = 200
_STOPPED = "they stopped the turn"  # for the model; the user sees that it stopped


class QuestionPlace:
    """One question at a time: `turn` is held by whoever asks, a server or we ourselves."""

    def __init__(
        self, screen: Screen, printer: EventPrinter, person: PersonInput, *, working: Callable[[], bool]
    ) -> None:
        self.screen = screen
        self.printer = printer
        self.person = person
        self._working = working
        self.turn = asyncio.Lock()
        self.is_open = False
        """Whether a server's question is on the screen; Ctrl-C is for it then, and not for the turn."""

    @property
    def shut_because(self) -> str:
        if not self.person.by_person:
            return NO_TERMINAL
        return "" if self._working() else "the user was not waiting for anything"

    @asynccontextmanager
    async def asking(self) -> AsyncGenerator[ChatTalk]:
        async with self.turn:
            with self.printer.held(""):
                self.is_open = True
                try:
                    yield ChatTalk(self.screen, self.person)
                finally:
                    self.is_open = False

    def note(self, words: str) -> None:
        self.printer.note(words, "warned")


class ChatTalk:
    """Lines laid out for the screen, and answers from the input line."""

    def __init__(self, screen: Screen, person: PersonInput) -> None:
        self._screen = screen
        self._person = person

    @property
    def cancelled_by(self) -> str:
        return _("Esc or Ctrl-C")

    def tell(self, lines: Sequence[AnswerLine]) -> None:
        self._screen.write([row for line in lines for row in self._rows(line)])

    async def answer(self) -> str:
        return await self._person.answer()

    def _rows(self, line: AnswerLine) -> list[str]:
        screen = self._screen
        if line.of_the_call and not line.words.startswith(BAR):
            return [screen.paint("strong", line.words)]  # an address: the terminal wraps it, and can copy it whole
        if line.of_the_call:
            rows = wrapped(line.words.removeprefix(BAR), screen.width, f"{_INDENT}{BAR}")
            return [screen.paint("strong", row) for row in rows]
        if line.warning:
            rows = wrapped(as_warning(line.words), screen.width, _INDENT)
            return [screen.paint("warned", row) for row in rows]
        return wrapped(line.words, screen.width, "", _INDENT)


def chat_asker(place: QuestionPlace, interrupt: Callable[[], None]) -> ChatAsker | None:
    """Whoever can approve a call here; nobody where the input is a pipe, which somebody else may have filled."""
    return ChatAsker(place, interrupt) if place.person.by_person else None


class ChatAsker:
    """Shows a question below what was said before it and waits for the person's answer.

    Ctrl-C stops the whole turn; the end of the input means no.
    """

    def __init__(self, place: QuestionPlace, interrupt: Callable[[], None]) -> None:
        self._place = place
        self._screen = place.screen
        self._interrupt = interrupt

    async def __call__(self, question: Question) -> Answer:
        invocation = question.invocation
        await self._place.printer.reached(invocation.call_id)
        async with self._place.turn:
            with self._place.printer.held(invocation.call_id) as view:
                self._screen.write([*self._rows(question)])
                answer = await self._answered(question)
                if view is not None:
                    view.shown_diff = bool(question.preview)
                    reason = "" if answer.reason == _STOPPED else one_line(answer.reason)
                    view.refused_because = reason if answer.choice is Choice.NO else None
        return answer

    async def _answered(self, question: Question) -> Answer:
        try:
            typed = await self._place.person.answer()
            while whole := opened(typed, question, self._screen.height):
                width = self._screen.width
                rows = diff_rows(whole[0], self._screen, sys.maxsize) if whole[0] else []
                rows += [self._screen.paint("strong", row) for line in whole[1] for row in kept(line, width, _INDENT)]
                self._screen.write([*rows, *wrapped(choices_of(question).strip(), width)])
                typed = await self._place.person.answer()
        except EOFError:
            typed = ""
        except KeyboardInterrupt:
            self._interrupt()
            return Answer(Choice.NO, _STOPPED)
        return understood(typed, question, tell=lambda words: self._screen.write(wrapped(words, self._screen.width)))

    def _rows(self, question: Question) -> list[str]:
        screen = self._screen
        head, tail = head_of(question), tail_of(question, screen.height)
        change, most = change_of(question, screen.height)
        rows = [row for line in head for row in self._laid_out(line)]
        rows += diff_rows(change, screen, most) if change else []
        rows += [row for line in tail for row in self._laid_out(line)]
        choices = wrapped(choices_of(question).strip(), screen.width)
        if screen.live and len(rows) + len(choices) >= screen.height:  # what it is about has left the window
            about = one_line(head[1].words, _MOST)
            rows += [screen.paint("strong", row) for row in kept(about, screen.width, _INDENT)]
        return [*rows, *choices]

    def _laid_out(self, line: AnswerLine) -> list[str]:
        screen = self._screen
        if line.warning:
            return [screen.paint("warned", row) for row in wrapped(as_warning(line.words), screen.width, _INDENT)]
        if line.of_the_call:
            return [screen.paint("strong", row) for row in kept(line.words, screen.width, _INDENT)]
        return wrapped(line.words, screen.width, "", _INDENT)
