"""Looks for a pattern in lines as they come, without letting a costly regular expression stop everything else.

Plain words are searched here. A regular expression runs in a process of its own that is killed when time is up: some
take longer than anyone lives, and a thread cannot be stopped.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import subprocess
import sys

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase

_LONGEST_LINE = 16_384
_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")
_PROGRAM = (
    "import re,sys\n"
    "wanted=re.compile(sys.argv[1])\n"
    "for line in sys.stdin.buffer:\n"
    " line=line.decode('utf-8','replace').rstrip('\\n')\n"
    " sys.stdout.write('1\\n' if wanted.search(line) else '0\\n');sys.stdout.flush()\n"
)


class LineSearch:
    """Fed with text in pieces; gives back the first line that has the pattern."""

    def __init__(self, pattern: str, *, regex: bool = False) -> None:
        self._pattern = pattern
        self._regex = regex and _SPECIAL.search(pattern) is not None
        self._rest = ""
        self._process: subprocess.Popen[bytes] | None = None
        if self._regex:
            try:
                re.compile(pattern)
            except (re.error, RecursionError) as error:
                raise ToolError(
                    phrase("The pattern is not a regular expression: {error}.", error=error),
                    kind=ErrorKind.VALIDATION,
                    suggestion=phrase("Correct it, or search for plain words."),
                ) from error

    async def feed(self, text: str, seconds: float) -> str | None:
        """Search the lines that are whole by now, and the start of the one that is not."""
        *lines, self._rest = (self._rest + text).split("\n")
        self._rest = self._rest[:_LONGEST_LINE]
        for line in lines:
            if await self._has(line[:_LONGEST_LINE], seconds):
                return line[:_LONGEST_LINE]
        if not self._regex and self._rest and self._pattern in self._rest:
            return self._rest
        return None

    async def rest(self, seconds: float) -> str | None:
        """The last line, if it never ended."""
        return self._rest if self._rest and await self._has(self._rest, seconds) else None

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:  # closes its pipes and waits for it
                pass

    async def _has(self, line: str, seconds: float) -> bool:
        if not self._regex:
            return self._pattern in line
        answer = await asyncio.to_thread(self._ask, line, max(0.01, seconds))
        if answer is None:
            raise ToolError(
                phrase("The pattern took too long to search for."),
                kind=ErrorKind.TIMEOUT,
                suggestion=phrase("Use plain words, or a simpler regular expression."),
            )
        return answer

    def _ask(self, line: str, seconds: float) -> bool | None:
        """Whether the line has it; None when time was up before that was known."""
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                (sys.executable, "-I", "-S", "-c", _PROGRAM, self._pattern),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
            )
        question, answer = self._process.stdin, self._process.stdout
        if question is None or answer is None:
            return None
        os.write(question.fileno(), line.replace("\n", " ").encode(errors="replace") + b"\n")
        ready = select.poll()
        ready.register(answer, select.POLLIN)
        return os.read(answer.fileno(), 8) == b"1\n" if ready.poll(seconds * 1000) else None
