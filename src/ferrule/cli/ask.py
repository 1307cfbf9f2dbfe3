"""Asks the person at the terminal before something runs."""

from __future__ import annotations

import asyncio
import signal
import unicodedata
from typing import TYPE_CHECKING

import click

from ferrule.cli.words import _
from ferrule.pipeline.confirm import Answer, Choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.pipeline.confirm import Question

_MOST = 4000


async def say_yes(question: Question) -> Answer:
    """The answer of `--yes`."""
    return Answer(Choice.ONCE)


class TerminalAsker:
    """Shows exactly what will run and takes yes or no; Ctrl-C, SIGTERM and end of input mean no."""

    def __init__(self, on_sigterm: Callable[[], None] = lambda: None) -> None:
        self._on_sigterm = on_sigterm

    async def __call__(self, question: Question) -> Answer:
        # asyncio keeps both for itself until it runs again; at a prompt they must end the prompt.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        before_term = signal.signal(signal.SIGTERM, self._terminated)
        try:
            click.echo(f"{_(question.reason)}:", err=True)
            click.echo(f"  {visible(question.summary)}", err=True)
            if question.warning:
                click.echo(click.style(f"  {_('Warning')}: {_(question.warning)}", bold=True), err=True)
            click.echo(_("Run it? [y/N] "), nl=False, err=True)
            said = input()  # noqa: ASYNC250 - nothing else should go on while the person thinks
        except EOFError:
            said = ""
        except KeyboardInterrupt:
            click.echo(err=True)
            raise asyncio.CancelledError from None
        finally:
            signal.signal(signal.SIGINT, before)
            signal.signal(signal.SIGTERM, before_term)
        return Answer(Choice.ONCE if said.strip().lower() in ("y", "yes", "是") else Choice.NO)

    def _terminated(self, _number: int, _frame: object) -> None:
        self._on_sigterm()
        raise KeyboardInterrupt


def visible(text: str) -> str:
    """Text as it is, with what could hide or disguise something made visible."""
    shown = "".join(
        character if character == "\n" or not _hides(character) else f"\\u{{{ord(character):x}}}" for character in text
    )
    return shown if len(shown) <= _MOST else f"{shown[:_MOST]}… ({len(shown) - _MOST:,} more characters)"


def _hides(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Co", "Cn", "Zl", "Zp")
