"""Where an MCP server's question stands in a conversation: below what was said, alone, and only while a turn runs."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ferrule.cli.chatting.text_rows import wrapped
from ferrule.cli.server_talk.form import BAR
from ferrule.cli.server_talk.questions import NO_TERMINAL
from ferrule.cli.words import _, as_warning

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from contextlib import AbstractContextManager

    from ferrule.cli.ask import AnswerLine
    from ferrule.cli.chatting.event_printer import EventPrinter
    from ferrule.cli.chatting.person_input import PersonInput
    from ferrule.cli.chatting.screen import Screen

_INDENT = "  "


class QuestionPlace:
    """One question at a time: `turn` is held by whoever asks, a server or we ourselves."""

    def __init__(
        self,
        screen: Screen,
        printer: EventPrinter,
        person: PersonInput,
        *,
        paused: Callable[[], AbstractContextManager[None]],
        working: Callable[[], bool],
    ) -> None:
        self._screen = screen
        self._printer = printer
        self._person = person
        self._paused = paused
        self._working = working
        self.turn = asyncio.Lock()
        self.is_open = False
        """Whether a server's question is on the screen; Ctrl-C is for it then, and not for the turn."""

    @property
    def shut_because(self) -> str:
        if not self._person.by_person:
            return NO_TERMINAL
        return "" if self._working() else "the person was not waiting for anything"

    @asynccontextmanager
    async def asking(self) -> AsyncGenerator[ChatTalk]:
        async with self.turn:
            with self._printer.held(""), self._paused():
                self.is_open = True
                try:
                    yield ChatTalk(self._screen, self._person)
                finally:
                    self.is_open = False

    def note(self, words: str) -> None:
        self._printer.note(words, "warned")


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
        return await self._person.answer(escapes=True)

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
