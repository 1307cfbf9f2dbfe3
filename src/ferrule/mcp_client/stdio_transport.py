"""Speaks to a server that is a program on this machine, within bounds the SDK's own transport does not have.

Every line is bounded, what is no message is passed over, and a server that says too much is read more slowly. An answer
that is too long or cannot be read fails its call at once; other lines that are no messages are noted, for whoever asks
why a call got no answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    RequestId,
    jsonrpc_message_adapter,
)

from ferrule.core.json_values import MESSAGE_VALUES, has_too_many_values
from ferrule.core.phrases import glued, phrase
from ferrule.mcp_client import bounds
from ferrule.mcp_client.broken_answers import OpenQuestions
from ferrule.mcp_client.direct_calls import DirectCalls
from ferrule.mcp_client.failures import NO_MESSAGE
from ferrule.mcp_client.message_lines import CutOff, TooLong, lines, read_line
from ferrule.mcp_client.pace import Pace
from ferrule.mcp_client.server_program import ServerProgram

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from ferrule.mcp_client.server_log import ServerLog

logger = logging.getLogger("ferrule.mcp")

_SECONDS_TO_READ_THE_REST = 0.5
_MUTE_SECONDS_TO_NOTICE = 0.1
"""For a server that has not said a word yet: it has nothing to finish, and somebody may wait for its end."""


class Taken(Enum):
    """A message that was somebody else's than the session's."""

    TAKEN = "taken"


TAKEN = Taken.TAKEN
_SECONDS_TO_HEAR_OF_THE_END = 0.3


class StdioTransport:
    """A program's streams as the SDK wants them. Leaving the block ends the program with all that it started."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        log: ServerLog,
        on_end: Callable[[str], None],
    ) -> None:
        self._command = command
        self._folder = folder
        self._environment = environment
        self._log = log
        self._on_end = on_end
        self._tasks: list[asyncio.Task[None]] = []
        self._pipes: list[asyncio.BaseTransport] = []
        self._pace = Pace(bounds.MESSAGES_PER_SECOND)
        self._has_spoken = False
        self._questions = OpenQuestions()
        self.direct = DirectCalls(lambda line: self._writer.write(line))
        """Calls that need none of the session's services."""

    async def __aenter__(
        self,
    ) -> tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]:
        self._program = await ServerProgram.start(self._command, folder=self._folder, environment=self._environment)
        try:
            out = await self._reader(self._program.take("stdout"))
            err = await self._reader(self._program.take("stderr"))
            self._writer = await _writer(self._program.take("stdin"))
        except BaseException:
            for pipe in self._pipes:
                pipe.close()
            await self._program.end(patience=0)
            raise
        self._to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, self._from_session = anyio.create_memory_object_stream[SessionMessage](0)
        self._ends = (self._to_session, read, write, self._from_session)
        self._hearing = asyncio.create_task(self._hear(err))
        self._reading = asyncio.create_task(self._read(out))
        self._tasks = [
            self._hearing,
            self._reading,
            asyncio.create_task(self._write()),
            asyncio.create_task(self._see_end()),
        ]
        return read, write

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        self.direct.end()
        self._writer.close()
        with anyio.CancelScope(shield=True):  # nothing of the program may be left, whoever is in a hurry
            await self._program.end(to_notice=None if self._has_spoken else _MUTE_SECONDS_TO_NOTICE)
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for pipe in self._pipes:
                pipe.close()
            for end in self._ends:
                end.close()

    async def _reader(self, descriptor: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=1 << 18)
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
        )
        self._pipes.append(pipe)
        return reader

    async def _read(self, stream: asyncio.StreamReader) -> None:
        why, where, heard = phrase("it closed its output"), "", 0
        try:
            async for line in lines(stream, bounds.MESSAGE_BYTES):
                if isinstance(line, CutOff):
                    where = phrase(" in the middle of a message")
                    break
                message = self._understood(line)
                self._has_spoken = self._has_spoken or message is not None
                if message is TAKEN:
                    if self.direct.idle_words > heard:  # progress, and answers that nobody waits for
                        heard = self.direct.idle_words
                        await self._pace.spend()
                    continue
                if message is None:
                    if self._log.garbage_lines > bounds.GARBAGE_LINES:
                        why = phrase(
                            "it wrote more than {count} lines that nobody can read",
                            count=f"{bounds.GARBAGE_LINES:,}",
                        )
                        break
                    await self._pace.spend()
                    continue
                await self._to_session.send(SessionMessage(message))  # which takes them at its own pace
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return  # the session is over
        except OSError as error:
            why = phrase("its output could not be read: {why}", why=error.strerror)
        except Exception as error:
            # Whatever it sent that nobody thought of: calls must not wait for answers that nobody reads any more.
            logger.exception("A message of an MCP server could not be taken")
            why = phrase("it sent what could not be taken ({kind})", kind=type(error).__name__)
        # How it ended, and its last words, say more than that it did.
        await asyncio.wait({self._program.ended, self._hearing}, timeout=_SECONDS_TO_HEAR_OF_THE_END)
        self._on_end(glued(self._exit or why, where))
        self.direct.end()
        self._to_session.close()

    @property
    def _exit(self) -> str:
        """How the program ended, which says more than that its output did."""
        code = self._program.ended.result() if self._program.ended.done() else None
        if code is None:
            return ""
        return (
            phrase("it ended with exit code {code}", code=code)
            if code >= 0
            else phrase("it was ended by signal {number}", number=-code)
        )

    def _understood(self, line: bytes | TooLong) -> JSONRPCMessage | Literal[Taken.TAKEN] | None:
        """The message; a failure of the call that it would have answered; or nothing that is known."""
        if isinstance(line, TooLong):
            why = f"the answer takes {line.size:,} bytes; more than {bounds.MESSAGE_BYTES:,} are not read"
            self._log.add_garbage(line.head)
            return self._failure(line.head, line.tail, why)
        if has_too_many_values(line):
            self._log.add_garbage(line)
            why = f"the answer holds more than {MESSAGE_VALUES:,} values, {bounds.NOT_READ}"
            return self._failure(line, line, why)
        try:
            parsed = read_line(line)
            if isinstance(parsed, dict) and self.direct.take(cast("dict[str, Any]", parsed)):
                return TAKEN
            message = jsonrpc_message_adapter.validate_python(parsed, by_name=False)
        except ValueError:
            if not line.strip():
                return None
            self._log.add_garbage(line)
            sample = self._log.garbage(self._log.garbage_lines - 1)
            return self._failure(line, line, f"{NO_MESSAGE}: {sample!r}")
        if isinstance(message, JSONRPCError) and message.id is None:  # it could not read what it was asked
            only = self._questions.only(self.direct.open)
            return message if only is None else self._as_answer(only, message.error)
        self._questions.came(message)
        return message

    def _failure(self, head: bytes, tail: bytes, why: str) -> JSONRPCMessage | Literal[Taken.TAKEN] | None:
        """An error in place of an answer; nothing for what answers nobody."""
        request = self._questions.answered_by(head, tail, self.direct.open)
        return None if request is None else self._as_answer(request, ErrorData(code=PARSE_ERROR, message=why))

    def _as_answer(self, request: RequestId, error: ErrorData) -> JSONRPCMessage | Literal[Taken.TAKEN]:
        if self.direct.take({"id": request, "error": error.model_dump()}):
            return TAKEN
        failed = JSONRPCError(jsonrpc="2.0", id=request, error=error)
        self._questions.came(failed)
        return failed

    async def _write(self) -> None:
        try:
            async for item in self._from_session:
                self._questions.sent(item.message)
                if isinstance(item.message, JSONRPCRequest):
                    self.direct.note_stamp(item.message.params)
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._writer.write(text.encode() + b"\n")
                await self._writer.drain()
        except (OSError, anyio.ClosedResourceError):
            await asyncio.wait({self._program.ended}, timeout=_SECONDS_TO_HEAR_OF_THE_END)
            self._on_end(self._exit or phrase("it closed its input"))

    async def _hear(self, stream: asyncio.StreamReader) -> None:
        pace = Pace(bounds.STDERR_BYTES_PER_SECOND)
        with contextlib.suppress(OSError):
            while piece := await stream.read(1 << 16):
                self._log.add(piece)
                await pace.spend(len(piece))

    async def _see_end(self) -> None:
        """Notice a program that ended while something it started holds its output open."""
        await asyncio.shield(self._program.ended)
        await asyncio.wait({self._reading}, timeout=_SECONDS_TO_READ_THE_REST)
        self._on_end(self._exit or phrase("it ended"))
        self._reading.cancel()


async def _writer(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
