"""Speaks to a server that is a program on this machine, within bounds the SDK's own transport does not have.

Every line is bounded, what is no message is passed over, and a server that says too much is read more slowly. An answer
that is too long or cannot be read fails its call at once; other lines that are no messages are noted, for whoever asks
why a call got no answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
from dataclasses import dataclass
from enum import Enum
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
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
from ferrule.mcp_client.bounds import Pace
from ferrule.mcp_client.failures import NO_MESSAGE, Malformed
from ferrule.mcp_client.message_lines import CutOff, OpenQuestions, TooLong, lines, read_line
from ferrule.process import launcher
from ferrule.process.box import BoxFailed, start_box
from ferrule.process.sandbox.sandbox import Launch, Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from types import TracebackType

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.dispatcher import ProgressFnT

    from ferrule.mcp_client.remote_server import ServerLog
    from ferrule.process.box import Box


# An MCP server that is a program: spoken to over its standard streams, and nothing of it is left behind.


class CannotStart(Exception):  # noqa: N818 - reads as what it says
    """The program could not be started; says why."""


class ServerProgram:
    """A running program. `stdin`, `stdout` and `stderr` are our ends of its streams; whoever takes one closes it."""

    def __init__(self, box: Box, stdin: int, stdout: int, stderr: int) -> None:
        self._box = box
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr

    @property
    def pid(self) -> int:
        """The process that everything of it is below."""
        return self._box.pid

    @property
    def ended(self) -> asyncio.Future[int]:
        """The exit code, or the negative number of a signal, once it has ended with all that it started."""
        return self._box.ended

    @classmethod
    async def start(cls, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> ServerProgram:
        """Start it; raises `CannotStart`."""
        executable = _must_find(arguments[0], folder, environment)
        (reading, stdin), (stdout, writing), (stderr, complaining) = os.pipe(), os.pipe(), os.pipe()
        launch = Launch((executable, *arguments[1:]), environment, str(folder))
        try:
            box = await start_box(Prepared(launch), (reading, writing, complaining))
        except BaseException as error:
            for ours in (stdin, stdout, stderr):
                os.close(ours)
            if isinstance(error, BoxFailed):
                raise CannotStart(error.why) from None
            if isinstance(error, (OSError, ValueError)):
                raise CannotStart(str(error)) from None
            raise
        finally:
            for theirs in (reading, writing, complaining):
                os.close(theirs)
        return cls(box, stdin, stdout, stderr)

    async def end(self, patience: float = 1.0, *, to_notice: float | None = None) -> None:
        """End it with all that it started: its input is closed, then it is asked to, then all is killed.

        It has `patience` seconds for each, or `to_notice` for the first: to see that its input has ended.
        """
        for name in ("stdin", "stdout", "stderr"):
            if (descriptor := self.take(name)) >= 0:
                os.close(descriptor)
        for number, seconds in ((0, patience if to_notice is None else to_notice), (signal.SIGTERM, patience)):
            if not self.ended.done() and patience > 0:
                if number:
                    launcher.signal_all(self._box.processes()[:1], number)
                await asyncio.wait({self.ended}, timeout=seconds)
        await self._box.end(patience=0)
        self._box.close()

    def take(self, name: str) -> int:
        """Our end of a stream, for whoever will close it."""
        descriptor = getattr(self, name)
        setattr(self, name, -1)
        return descriptor


def _must_find(command: str, folder: Path, environment: Mapping[str, str]) -> str:
    executable = find_executable(command, folder, environment)
    if executable is None:
        raise CannotStart(_why_not(command, folder))
    if not folder.is_dir():
        raise CannotStart(phrase("there is no folder `{folder}`", folder=folder))
    return executable


def _why_not(command: str, folder: Path) -> str:
    """What is the matter with a command that is no program."""
    if os.sep in command:
        path = folder / Path(command).expanduser()
        if path.is_dir():
            return phrase("`{command}` is a folder, and no program", command=command)
        if path.exists():
            return phrase("`{command}` may not be executed; if it is a program: chmod +x", command=command)
    if " " in command.strip():
        return phrase(
            "there is no program `{command}`; a command's arguments are given one by one, and not in its name",
            command=command,
        )
    return phrase("there is no program `{command}`", command=command)


def find_executable(command: str, folder: Path, environment: Mapping[str, str]) -> str | None:
    """Where a command lies: a path as seen from the folder, a name as the environment's `PATH` has it."""
    if os.sep in command:
        path = folder / Path(command).expanduser()
        return str(path) if os.access(path, os.X_OK) and path.is_file() else None
    found = shutil.which(command, path=environment.get("PATH", os.defpath))
    return str(folder / found) if found else None


# Calls that go past the SDK's session, on the same stream: a gateway makes many, and the session costs more than
# they.


logger = logging.getLogger("ferrule.mcp")

_FIRST_ID = 1_000_000_000
_STAMP = "io.modelcontextprotocol/"


@dataclass(slots=True)
class _WaitingCall:
    answer: asyncio.Future[dict[str, Any]]
    progress: ProgressFnT | None


class DirectCalls:
    """Requests of our own beside the session's. `write` takes one line at a time."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._ids = count(_FIRST_ID)
        self._waiting: dict[int, _WaitingCall] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._over = False
        self.stamp: dict[str, Any] = {}
        self.idle_words = 0
        """How many messages came that answered nothing."""

    @property
    def open(self) -> Collection[int]:
        """The ids of those that wait for an answer."""
        return self._waiting.keys()

    def note_stamp(self, params: Mapping[str, Any] | None) -> None:
        """What the session says of us in a request of its own."""
        told: Any = (params or {}).get("_meta")
        if isinstance(told, dict):
            found = {key: value for key, value in cast("dict[str, Any]", told).items() if key.startswith(_STAMP)}
            if found:
                self.stamp = found

    async def request(self, method: str, params: dict[str, Any], progress: ProgressFnT | None = None) -> dict[str, Any]:
        """The result; raises `MCPError` for the server's error or the connection's end, `Malformed` for neither."""
        if self._over:
            raise _closed()
        number = next(self._ids)
        meta = dict(self.stamp)
        if progress is not None:
            meta["progressToken"] = number
        if meta:
            params = {**params, "_meta": meta}
        waiting = _WaitingCall(asyncio.get_running_loop().create_future(), progress)
        self._waiting[number] = waiting
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return await waiting.answer
        except asyncio.CancelledError:
            cancelled = {"requestId": number, "reason": "nobody waits for it any more"}
            self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
            raise
        finally:
            del self._waiting[number]

    def take(self, message: dict[str, Any]) -> bool:
        """Whether a message is an answer to one of these requests, or its progress; the session gets the others."""
        if message.get("method") == "notifications/progress":
            return self._take_progress(message.get("params"))
        number = message.get("id")
        if type(number) is not int or number < _FIRST_ID or "method" in message:
            return False
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.answer.done():
            self._settle(waiting.answer, message)
        else:
            self.idle_words += 1
        return True  # late, or to nobody; not the session's either way

    def end(self) -> None:
        """The connection is over, and so are its calls."""
        self._over = True
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(_closed())

    def _settle(self, answer: asyncio.Future[dict[str, Any]], message: dict[str, Any]) -> None:
        result, error = message.get("result"), message.get("error")
        if isinstance(result, dict):
            answer.set_result(cast("dict[str, Any]", result))
            return
        if not isinstance(error, dict):
            answer.set_exception(Malformed(phrase("the answer holds neither an object as its result nor an error")))
            return
        told = cast("dict[str, Any]", error)
        code, words = told.get("code"), str(told.get("message") or "")
        answer.set_exception(
            MCPError(code=code if isinstance(code, int) else INTERNAL_ERROR, message=words, data=told.get("data"))
        )

    def _take_progress(self, params: Any) -> bool:
        told = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
        token, done, total, words = (told.get(key) for key in ("progressToken", "progress", "total", "message"))
        if type(token) is not int or token < _FIRST_ID:
            return False
        self.idle_words += 1
        waiting, reached = self._waiting.get(token), _number(done)
        if waiting is not None and waiting.progress is not None and reached is not None:
            task = asyncio.ensure_future(_tell(waiting.progress, reached, _number(total), str(words or "") or None))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
        return True

    def _send(self, message: dict[str, Any]) -> None:
        if not self._over:
            self._write(
                json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
            )


def _number(given: Any) -> float | None:
    """A number as the protocol has it; none where it is something else, or larger than any."""
    if not isinstance(given, (int, float)):
        return None
    try:
        return float(given)
    except OverflowError:
        return None


async def _tell(progress: ProgressFnT, done: float, total: float | None, words: str | None) -> None:
    try:
        await progress(done, total, words)
    except Exception:
        logger.exception("Progress could not be passed on")


def _closed() -> MCPError:
    return MCPError(code=CONNECTION_CLOSED, message="Connection closed")


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
