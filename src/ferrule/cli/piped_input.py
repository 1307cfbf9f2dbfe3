"""What is piped into a command: as context, which is never waited for, or as its request or arguments."""

from __future__ import annotations

import os
import select
import stat
import sys

import click

from ferrule.cli.options import warn
from ferrule.cli.words import _
from ferrule.pipeline.format import head_and_tail

MOST_BYTES = 10_000_000
MOST_CHARACTERS = 200_000
_PATIENCE = 3.0


def piped_context() -> str:
    """The text on standard input if it is a pipe or a file, else nothing; of a long one both ends."""
    if not _is_piped() or not _something_comes():
        return ""
    text = _read()
    if len(text) > MOST_CHARACTERS:
        text, left_out = head_and_tail(text, MOST_CHARACTERS)
        warn(_("Standard input was too long: {count} characters in its middle are left out.").format(count=left_out))
    return text


def whole_input() -> str:
    """All of standard input, as the request itself."""
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - the caller closed it
        raise click.UsageError(_("Standard input is closed, so nothing can be read from it."))
    text = _read()
    if len(text) > MOST_CHARACTERS:
        raise click.UsageError(
            _("Standard input holds more than {most} characters; name a file instead.").format(most=MOST_CHARACTERS)
        )
    return text


def given_arguments(typed: str | None, most: int) -> str | None:
    """The JSON arguments of a call: as they were typed, or from standard input where that is `-`."""
    if typed != "-":
        return typed
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - the caller closed it
        raise click.UsageError(_("Standard input is closed, so no arguments can be read from it."))
    given = sys.stdin.buffer.read(most + 1)
    if len(given) > most:
        raise click.UsageError(
            _(
                "Standard input holds more than {most} bytes of arguments. "
                "To take more, raise the setting `limits.argument_bytes` (FERRULE_LIMITS_ARGUMENT_BYTES)."
            ).format(most=most)
        )
    try:
        return given.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(
            _("Standard input is not UTF-8: byte {position} is {byte}.").format(
                position=error.start + 1, byte=f"0x{given[error.start]:02x}"
            )
        ) from None


def with_context(request: str, context: str) -> str:
    """A request, and the text that it is about."""
    if not context.strip():
        return request
    inside = context.replace("</stdin", "<\\/stdin")
    return f"{request}\n\n<stdin>\n{inside}\n</stdin>"


def _is_piped() -> bool:
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - the caller closed it
        return False
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _something_comes() -> bool:
    """Whether there is anything to read, or the other end has closed. Whoever left a pipe open gets no hang for it."""
    try:
        ready = select.select([sys.stdin], [], [], _PATIENCE)[0]
    except (OSError, ValueError):  # not on every system for every kind of file
        return True
    if not ready:
        words = _("Nothing came from standard input for {seconds} s, so it is not read; `< /dev/null` spares the wait.")
        warn(words.format(seconds=f"{_PATIENCE:g}"))
    return bool(ready)


def _read() -> str:
    given = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(given) > MOST_BYTES:
        raise click.UsageError(
            _("Standard input holds more than {most} bytes; name a file instead.").format(most=MOST_BYTES)
        )
    return given.decode("utf-8-sig", "replace")
