"""Where a command such as `ferrule call` asks: on standard error, with answers from the terminal and from no pipe."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click

from ferrule.cli.options import warn
from ferrule.cli.server_talk.questions import BAR, NO_TERMINAL, ServerQuestions
from ferrule.cli.status_line import StatusLine
from ferrule.cli.words import _, as_warning, persons_language

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from ferrule.cli.ask import AnswerLine
    from ferrule.mcp_client.ports import Ports
    from ferrule.pipeline.confirm import Answer, Asker, Question


class TerminalPlace:
    """One question at a time: our own confirmations and what servers ask take turns, and the status line gives way."""

    def __init__(self, line: StatusLine | None = None) -> None:
        self._turn = asyncio.Lock()
        self._line = line or StatusLine()

    @property
    def shut_because(self) -> str:
        seen = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
        return "" if seen else NO_TERMINAL

    @asynccontextmanager
    async def asking(self) -> AsyncGenerator[TerminalTalk]:
        async with self._turn:
            with self._line.away(), persons_language():
                yield TerminalTalk()

    def note(self, words: str) -> None:
        warn(words)

    def sharing(self, asker: Asker | None) -> Asker | None:
        """An asker that waits until no server's question is open."""
        if asker is None:
            return None

        async def ask(question: Question) -> Answer | str:
            async with self._turn:
                with self._line.away(), persons_language():
                    said = asker(question)
                    return await said if isinstance(said, Awaitable) else said

        return ask


class TerminalTalk:
    """Whole lines; a server's are indented as well, so that none can pass for ours. Ctrl-C ends the command."""

    @property
    def cancelled_by(self) -> str:
        return "Ctrl-D"

    def tell(self, lines: Sequence[AnswerLine]) -> None:
        for line in lines:
            if line.warning:
                click.echo(click.style(f"  {as_warning(line.words)}", bold=True), err=True)
            else:
                click.echo(f"  {line.words}" if line.words.startswith(BAR) else line.words, err=True)

    async def answer(self) -> str:
        from ferrule.cli.chatting.input import PlainInput

        person = PlainInput(sys.stdin, lambda words: click.echo(words, nl=False, err=True))
        while "\x1b" in (said := await person.answer()):  # an arrow or Esc, which a plain line takes for letters
            click.echo(_("Keys such as Esc and the arrows do not work here. Type it again."), err=True)
        return said


def terminal_ports(place: TerminalPlace) -> Ports:
    """For a command: what servers ask is asked at its terminal; where there is none it is declined, and said."""
    return ServerQuestions(place).ports(signs_in=not place.shut_because)
