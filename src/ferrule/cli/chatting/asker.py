"""Asks the person in the middle of a conversation: the call, what it would change, and what an «always» would mean."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ferrule.cli.ask import DIFF_LINES, choices_of, lines_of, understood
from ferrule.cli.chatting.call_view import diff_rows
from ferrule.cli.chatting.text_rows import kept, one_line, visible, wrapped
from ferrule.cli.words import _, as_warning, localised
from ferrule.pipeline.confirm import Answer, Choice

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ferrule.builtin.change_preview import Preview
    from ferrule.cli.chatting.event_printer import EventPrinter
    from ferrule.cli.chatting.person_input import PersonInput
    from ferrule.cli.chatting.screen import Screen
    from ferrule.pipeline.confirm import Question

_INDENT = "  "


class ChatAsker:
    """Shows a question below what was said before it and waits for the person's answer.

    Ctrl-C stops the whole turn; the end of the input means no. A pipe is nobody to ask. `turn` is held while a question
    is open, whoever asks it.
    """

    def __init__(
        self,
        screen: Screen,
        printer: EventPrinter,
        person: PersonInput,
        *,
        paused: Callable[[], AbstractContextManager[None]],
        interrupt: Callable[[], None],
        turn: asyncio.Lock,
    ) -> None:
        self._screen = screen
        self._printer = printer
        self._person = person
        self._paused = paused
        self._interrupt = interrupt
        self._turn = turn

    async def __call__(self, question: Question) -> Answer:
        if not self._person.by_person:
            return Answer(Choice.NO, "there is no terminal to ask them at")
        from ferrule.builtin.change_preview import preview_of

        invocation = question.invocation
        preview = await preview_of(question)
        await self._printer.reached(invocation.call_id)
        async with self._turn, AsyncExitStack() as alone:
            view = alone.enter_context(self._printer.held(invocation.call_id))
            alone.enter_context(self._paused())
            self._screen.write([*self._rows(question, preview)])
            answer = await self._answered(question)
            if view is not None:
                view.shown_diff = preview is not None
                view.refused_because = one_line(answer.reason) if answer.choice is Choice.NO else None
        return answer

    async def _answered(self, question: Question) -> Answer:
        try:
            typed = await self._person.answer()
        except EOFError:
            typed = ""
        except KeyboardInterrupt:
            self._interrupt()
            return Answer(Choice.NO, "they stopped the turn")
        return understood(typed, question, tell=lambda words: self._screen.write(wrapped(words, self._screen.width)))

    def _rows(self, question: Question, preview: Preview | None) -> list[str]:
        screen, paint = self._screen, self._screen.paint
        rows: list[str] = []
        told = False
        for line in lines_of(question):
            if told and not line.of_the_call:
                rows += self._change(preview)
                told = False
            if line.warning:
                words = as_warning(line.words)
                rows += [paint("warned", row) for row in wrapped(words, screen.width, _INDENT)]
            elif line.of_the_call:
                told = True
                rows += [paint("strong", row) for row in kept(line.words, screen.width, _INDENT)]
            else:
                rows += wrapped(line.words, screen.width, "", _INDENT)
        if told:
            rows += self._change(preview)
        return [*rows, *wrapped(choices_of(question).strip(), screen.width)]

    def _change(self, preview: Preview | None) -> list[str]:
        if preview is None:
            return []
        if preview.problem:
            words = _("It would fail now: {why}").format(why=visible(localised(preview.problem)))
            return [self._screen.paint("warned", row) for row in wrapped(words, self._screen.width, _INDENT)]
        return diff_rows(preview.diff, self._screen, DIFF_LINES)
