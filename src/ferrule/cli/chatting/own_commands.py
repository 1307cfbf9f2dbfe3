"""`!command`: a command of the user's own, which runs as if typed at their shell, outside every rule and sandbox.

The model has no way to it: only a line that was typed at the prompt gets here. What it wrote goes along with the next
message, so that the model knows what the user saw.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ferrule.core.shown_text import head_and_tail
from ferrule.process.output import StreamCleaner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MOST_CHARACTERS = 30_000
"""Of what it wrote, for the model."""
_SECONDS_TO_END = 2.0
_SECONDS_FOR_THE_REST = 0.2


class OwnRun(NamedTuple):
    """How a command ended; `code` is None where the user stopped it."""

    command: str
    code: int | None
    output: str

    @property
    def note(self) -> str:
        """What the model is told."""
        ended = "they stopped it" if self.code is None else f"it ended with code {self.code}"
        output = self.output.strip("\n")
        if len(output) > _MOST_CHARACTERS:
            output, _ = head_and_tail(output, _MOST_CHARACTERS)
        said = f"The user ran `{self.command}` themselves, and {ended}."
        return f"{said} Its output:\n{output}" if output else f"{said} It wrote nothing."


async def run_own(command: str, folder: Path, show: Callable[[str], None]) -> OwnRun:
    """Run it to its end; `show` gets each line as it is whole. When cancelled, what it started ends with it."""
    process = await asyncio.create_subprocess_exec(
        os.environ.get("SHELL") or "/bin/sh", "-c", command,
        cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    lines: list[str] = []

    def take(line: str) -> None:
        lines.append(line)
        show(line)

    reading = asyncio.create_task(_read(process, take))
    code: int | None = None
    try:
        code = await process.wait()
        # Something that it left running may hold the pipe.
        await asyncio.wait({reading}, timeout=_SECONDS_FOR_THE_REST)
    except asyncio.CancelledError:
        _signal(process, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_END):
                await process.wait()
    finally:
        _signal(process, signal.SIGKILL)
        await process.wait()
        await asyncio.wait({reading}, timeout=_SECONDS_FOR_THE_REST)
        reading.cancel()
    return OwnRun(command, code, "\n".join(lines))


async def _read(process: asyncio.subprocess.Process, take: Callable[[str], None]) -> None:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    decoder, cleaner, rest = codecs.getincrementaldecoder("utf-8")("replace"), StreamCleaner(), ""
    while piece := await process.stdout.read(65_536):
        *lines, rest = (rest + cleaner.feed(decoder.decode(piece))).split("\n")
        for line in lines:
            take(line)
    rest += cleaner.feed(decoder.decode(b"", final=True)) + cleaner.rest()
    if rest:
        take(rest)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """To all that it started and that did not leave its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
