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
import re
import shutil
import signal
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from ferrule.core.json_lines import LineReader, TooLong, parse_line
from ferrule.core.json_values import MESSAGE_VALUES, has_too_many_values
from ferrule.core.phrases import glued, phrase, said_by
from ferrule.mcp_client import bounds
from ferrule.mcp_client.bounds import Pace
from ferrule.mcp_client.failures import NO_MESSAGE, Malformed, ServerLog
from ferrule.process import launcher
from ferrule.process.arguments import BadArgumentError, CommandLine, checked_environment
from ferrule.process.box import Box, BoxFailed, open_box, start_box
from ferrule.process.profile import Bounds, Profile
from ferrule.process.sandbox.denials import SandboxRefused
from ferrule.process.sandbox.sandbox import Launch, Prepared, Sandbox
from ferrule.workspace.data_folder import own_places

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.dispatcher import ProgressFnT

    from ferrule.mcp_client.server_config import ServerBox

logger = logging.getLogger("ferrule.mcp")


# Messages on a stream: one a line, none longer than allowed, and what is too long still told by its id.


_END_KEPT = 512
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*[,}]')
_ANSWER = re.compile(rb"""["']jsonrpc["']\s*:|^\s*(?:["']id["']\s*:\s*\d+\s*,\s*)?["']result["']\s*:""")
_REQUEST = re.compile(rb"""["']method["']\s*:""")
_MEMORY, _PROCESSES = 2 << 30, 128
"""What a program that is confined may use."""


def answered_id(head: bytes, tail: bytes) -> int | None:
    """The id in the first or last few bytes of a message. Not from between: there a result's own ids stand."""
    found = _ID.search(head[:_END_KEPT]) or next(iter(reversed(list(_ID.finditer(tail[-_END_KEPT:])))), None)
    return int(found[1]) if found else None


def looks_like_answer(head: bytes) -> bool:
    """Whether the beginning of a line is that of an answer, whatever became of the rest."""
    head = head[:_END_KEPT].lstrip()
    own_keys = head[1:].partition(b"{")[0]  # further in stands what an answer holds, or what a record quotes
    return head.startswith(b"{") and _ANSWER.search(own_keys) is not None and _REQUEST.search(own_keys) is None


# An MCP server that is a program: spoken to over its standard streams, and nothing of it is left behind.


class CannotStart(Exception):  # noqa: N818 - reads as what it says
    """The program could not be started; says why."""


async def start_program(
    arguments: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    confinement: ServerBox | None = None,
) -> tuple[Box, tuple[int, int, int]]:
    """Start it; our ends of its standard streams are the caller's to close. Raises `CannotStart`."""
    executable = _must_find(arguments[0], folder, environment)
    try:
        words, environment = CommandLine((executable, *arguments[1:])), checked_environment(environment)
    except BadArgumentError as error:
        raise CannotStart(said_by(error)) from None
    (reading, stdin), (stdout, writing), (stderr, complaining) = os.pipe(), os.pipe(), os.pipe()
    try:
        if confinement is None:
            launch = Launch(words, environment, str(folder))
            box = await start_box(Prepared(launch), (reading, writing, complaining))
        else:
            sandbox = _confining_sandbox()
            profile = Profile(
                writable=(folder, *map(Path, confinement.writable)),
                folder=folder,
                readable=tuple(map(Path, confinement.readable)),
                hosts=confinement.hosts or None,
                environment=environment,
                bounds=Bounds(memory=_MEMORY, processes=_PROCESSES),
                closed=True,
                home=folder,
                emptied=(*own_places(), *map(Path, confinement.emptied)),
            )
            box = await open_box(sandbox, profile, words, stdin=reading, stdout=writing, stderr=complaining)
    except BaseException as error:
        for ours in (stdin, stdout, stderr):
            os.close(ours)
        if isinstance(error, BoxFailed):
            raise CannotStart(error.why) from None
        if isinstance(error, (SandboxRefused, BadArgumentError)):
            raise CannotStart(said_by(error)) from None
        if isinstance(error, (OSError, ValueError)):
            raise CannotStart(str(error)) from None
        raise
    finally:
        for theirs in (reading, writing, complaining):
            os.close(theirs)
    return box, (stdin, stdout, stderr)


def _confining_sandbox() -> Sandbox:
    """One that holds what it promises; a program that must be confined is not started without."""
    from ferrule.process.sandbox.choose import best_sandbox

    found = best_sandbox()
    if not found.confines:
        raise CannotStart(phrase("it may only run in a sandbox, and none works here; `ferrule doctor` says why"))
    return found


async def end_program(box: Box, patience: float = 1.0, *, to_notice: float | None = None) -> tuple[str, ...]:
    """End a program whose input is closed, with all that it started: wait for it, then ask it, then kill all. What it
    did to guarded places is undone, and told.

    It has `patience` seconds for each, or `to_notice` for the first: to see that its input has ended.
    """
    await asyncio.wait({box.ended}, timeout=patience if to_notice is None else to_notice)
    if not box.ended.done():
        launcher.signal_all(box.processes()[:1], signal.SIGTERM)
        await asyncio.wait({box.ended}, timeout=patience)
    await box.end(patience=0)
    undone = await _undone(box)
    box.close()
    return undone


async def _undone(box: Box) -> tuple[str, ...]:
    found = await asyncio.to_thread(box.take_back) if box.guards else ()
    for one in found:
        logger.warning("%s", one.message)
    return tuple(one.message for one in found)


def _must_find(command: str, folder: Path, environment: Mapping[str, str]) -> str:
    executable = find_executable(command, folder, environment)
    if executable is None:
        raise CannotStart(_why_not(command, folder))
    if not folder.is_dir():
        raise CannotStart(phrase("there is no folder `{folder}`", folder=folder))
    return executable


def _why_not(command: str, folder: Path) -> str:
    if os.sep in command:
        path = folder / Path(command).expanduser()
        if path.is_dir():
            return phrase("`{command}` is a folder, not a program", command=command)
        if path.exists():
            return phrase("`{command}` is not executable; if it is a program: chmod +x", command=command)
    if " " in command.strip():
        return phrase(
            "there is no program `{command}`; give its arguments separately, not as part of its name",
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


# Calls that go past the SDK's session, on the same stream: it takes four times as long as all the rest of a call.


_FIRST_ID = 1_000_000_000
_STAMP = "io.modelcontextprotocol/"


class DirectCalls:
    """Requests of our own beside the session's. `write` takes one line at a time."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._ids = count(_FIRST_ID)
        self._waiting: dict[int, tuple[asyncio.Future[dict[str, Any]], ProgressFnT | None]] = {}
        self._telling: set[asyncio.Future[None]] = set()
        self._over = False
        self._stamp: dict[str, Any] = {}
        self.idle_words = 0
        """How many messages came that answered nothing."""

    @property
    def open(self) -> Collection[int]:
        return self._waiting.keys()

    def note_stamp(self, params: Mapping[str, Any] | None) -> None:
        """What the session says of us in a request of its own, and we say too."""
        told: dict[str, Any] = (params or {}).get("_meta") or {}
        self._stamp = {key: value for key, value in told.items() if key.startswith(_STAMP)} or self._stamp

    async def request(self, method: str, params: dict[str, Any], progress: ProgressFnT | None = None) -> dict[str, Any]:
        """The result; raises `MCPError` for the server's error or the connection's end, `Malformed` for neither."""
        if self._over:
            raise _closed()
        number = next(self._ids)
        meta = self._stamp if progress is None else {**self._stamp, "progressToken": number}
        if meta:
            params = {**params, "_meta": meta}
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer, progress
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return await answer
        except asyncio.CancelledError:
            cancelled = {"requestId": number, "reason": "nothing waits for it any more"}
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
        answer, _ = self._waiting.get(number, (None, None))
        if answer is None or answer.done():
            self.idle_words += 1  # late, or to nobody; not the session's either way
        elif isinstance(result := message.get("result"), dict):
            answer.set_result(cast("dict[str, Any]", result))
        elif isinstance(error := message.get("error"), dict):
            told = cast("dict[str, Any]", error)
            code = told["code"] if isinstance(told.get("code"), int) else types.INTERNAL_ERROR
            answer.set_exception(MCPError(code, str(told.get("message") or ""), told.get("data")))
        else:
            answer.set_exception(Malformed(phrase("the answer contains neither an object as its result nor an error")))
        return True

    def end(self) -> None:
        """The connection is over, and so are its calls."""
        self._over = True
        for answer, _ in self._waiting.values():
            if not answer.done():
                answer.set_exception(_closed())

    def _take_progress(self, params: Any) -> bool:
        told = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
        token = told.get("progressToken")
        if type(token) is not int or token < _FIRST_ID:
            return False
        self.idle_words += 1
        _, progress = self._waiting.get(token, (None, None))
        reached = _number(told.get("progress"))
        if progress is not None and reached is not None:
            telling = progress(reached, _number(told.get("total")), str(told.get("message") or "") or None)
            task = asyncio.ensure_future(telling)
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
        return True

    def _send(self, message: dict[str, Any]) -> None:
        if not self._over:
            text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
            self._write(text.encode("utf-8", "replace") + b"\n")


def _number(given: Any) -> float | None:
    """A number as the protocol has it; none where it is something else, or larger than any."""
    try:
        return float(given) if isinstance(given, (int, float)) else None
    except OverflowError:
        return None


def _closed() -> MCPError:
    return MCPError(code=types.CONNECTION_CLOSED, message="Connection closed")


_SECONDS_TO_READ_THE_REST = 0.5
_MUTE_SECONDS_TO_NOTICE = 0.1
"""For a server that has not said a word yet: it has nothing to finish, and somebody may wait for its end."""
_SECONDS_TO_HEAR_OF_THE_END = 0.3
_HURRIED_PATIENCE = 0.1


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
        confinement: ServerBox | None = None,
    ) -> None:
        self._confinement = confinement
        self._command = command
        self._folder = folder
        self._environment = environment
        self._log = log
        self._on_end = on_end
        self._pipes: list[asyncio.BaseTransport] = []
        self._pace = Pace(bounds.MESSAGES_PER_SECOND)
        self._has_spoken = False
        self._patience = 1.0
        self._undone_at_end: tuple[str, ...] = ()
        self._asked: types.RequestId | None = None
        """The session's last request, until it is answered."""
        self.direct = DirectCalls(lambda line: self._writer.write(line))
        """Calls that need none of the session's services."""

    def hurry(self) -> None:
        """Have the program ended without the time that it otherwise gets to finish."""
        self._patience = _HURRIED_PATIENCE

    async def undone(self) -> tuple[str, ...]:
        """What it did to guarded places, in words, which is undone by now."""
        at_end, self._undone_at_end = self._undone_at_end, ()
        return (*at_end, *await _undone(self._box))

    async def __aenter__(
        self,
    ) -> tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]:
        self._box, streams = await start_program(
            self._command, folder=self._folder, environment=self._environment, confinement=self._confinement
        )
        stdin, stdout, stderr = (os.fdopen(one, mode, 0) for one, mode in zip(streams, ("wb", "rb", "rb"), strict=True))
        try:
            out, err = await self._reader(stdout), await self._reader(stderr)
            loop = asyncio.get_running_loop()
            end, protocol = await loop.connect_write_pipe(
                lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), stdin
            )
            self._writer = asyncio.StreamWriter(end, protocol, None, loop)
        except BaseException:
            for pipe in (*self._pipes, stdin, stdout, stderr):
                pipe.close()
            await end_program(self._box, patience=0)
            raise
        self._to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, self._from_session = anyio.create_memory_object_stream[SessionMessage](0)
        self._ends = (self._to_session, read, write, self._from_session)
        self._hearing = asyncio.create_task(self._hear(err))
        self._reading = asyncio.create_task(self._read(out))
        others = (asyncio.create_task(self._write()), asyncio.create_task(self._see_end()))
        self._tasks = (self._hearing, self._reading, *others)
        return read, write

    async def __aexit__(self, *_error: object) -> None:
        for task in self._tasks:
            task.cancel()
        self.direct.end()
        self._writer.close()
        with anyio.CancelScope(shield=True):  # nothing of the program may be left, whoever is in a hurry
            self._undone_at_end = await end_program(
                self._box, self._patience, to_notice=None if self._has_spoken else _MUTE_SECONDS_TO_NOTICE
            )
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for end in (*self._pipes, *self._ends):
                end.close()

    async def _reader(self, stream: Any) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=1 << 18)
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stream)
        self._pipes.append(pipe)
        return reader

    async def _read(self, stream: asyncio.StreamReader) -> None:
        why, where, lines = phrase("it closed its output"), "", LineReader(stream, bounds.MESSAGE_BYTES)
        try:
            while (line := await lines.read()) is not None:
                await self._take(line)
                if self._log.garbage_lines > bounds.GARBAGE_LINES:
                    why = phrase(
                        "it wrote more than {count} lines that are not protocol messages",
                        count=f"{bounds.GARBAGE_LINES:,}",
                    )
                    break
            else:
                where = phrase(" in the middle of a message") if lines.is_inside_line else ""
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return  # the session is over
        except OSError as error:
            why = phrase("its output could not be read: {why}", why=error.strerror)
        except Exception as error:
            # Whatever it sent that nobody thought of: calls must not wait for answers that nobody reads any more.
            logger.exception("A message of an MCP server could not be taken")
            why = phrase("it sent a message that could not be handled ({kind})", kind=type(error).__name__)
        # How it ended, and its last words, say more than that it did.
        await asyncio.wait({self._box.ended, self._hearing}, timeout=_SECONDS_TO_HEAR_OF_THE_END)
        self._on_end(glued(self._exit or why, where))
        self.direct.end()
        self._to_session.close()

    @property
    def _exit(self) -> str:
        """How the program ended, which says more than that its output did."""
        code = self._box.ended.result() if self._box.ended.done() else None
        if code is None:
            return ""
        return (
            phrase("it ended with exit code {code}", code=code)
            if code >= 0
            else phrase("it was ended by signal {number}", number=-code)
        )

    async def _take(self, line: bytes | TooLong) -> None:
        """Pass a line on to whom it is for. After one that answers nobody, the next is read at its pace."""
        idle = self.direct.idle_words + self._log.garbage_lines
        message = self._message_in(line)
        if message is not None:
            await self._to_session.send(SessionMessage(message))  # which takes them at its own pace
        elif self.direct.idle_words + self._log.garbage_lines > idle:
            await self._pace.spend()

    def _message_in(self, line: bytes | TooLong) -> types.JSONRPCMessage | None:
        """What a line holds for the session, if it is for the session: a message, or an error in its place."""
        if isinstance(line, TooLong):
            why = f"the answer takes {line.size:,} bytes; more than {bounds.MESSAGE_BYTES:,} are not read"
            return self._failure(line.head, line.tail, why)
        if has_too_many_values(line):
            return self._failure(
                line, line, f"the answer contains more than {MESSAGE_VALUES:,} values, {bounds.NOT_READ}"
            )
        if not line.strip():
            self.direct.idle_words += 1
            return None
        try:
            found: Any = parse_line(line)
            if isinstance(found, dict) and self.direct.take(cast("dict[str, Any]", found)):
                self._has_spoken = True
                return None
            message = types.jsonrpc_message_adapter.validate_python(found, by_name=False)
        except ValueError:
            return self._failure(line, line, NO_MESSAGE, with_sample=True)
        self._has_spoken = True
        if isinstance(message, types.JSONRPCError) and message.id is None:  # it could not read what it was asked
            only = self._only()
            return message if only is None else self._answer(only, message.error)
        if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)) and message.id == self._asked:
            self._asked = None
        return message

    def _failure(self, head: bytes, tail: bytes, why: str, *, with_sample: bool = False) -> types.JSONRPCMessage | None:
        """An error in place of an answer that cannot be used; nothing for what answers nobody."""
        self._log.add_garbage(head)
        if not looks_like_answer(head):
            return None
        told = answered_id(head, tail)
        request = told if told in self._open() else self._only()
        if request is None:
            return None
        if with_sample:
            why = f"{why}: {self._log.garbage(self._log.garbage_lines - 1)!r}"
        return self._answer(request, types.ErrorData(code=types.PARSE_ERROR, message=why))

    def _answer(self, request: types.RequestId, error: types.ErrorData) -> types.JSONRPCMessage | None:
        """Have a request fail, whoever made it."""
        self._has_spoken = True
        if self.direct.take({"id": request, "error": error.model_dump()}):
            return None
        self._asked = None
        return types.JSONRPCError(jsonrpc="2.0", id=request, error=error)

    def _open(self) -> list[types.RequestId]:
        return [*self.direct.open, *([] if self._asked is None else [self._asked])]

    def _only(self) -> types.RequestId | None:
        """The one that waits, if there is no second."""
        waiting = self._open()
        return waiting[0] if len(waiting) == 1 else None

    async def _write(self) -> None:
        try:
            async for item in self._from_session:
                message = item.message
                if isinstance(message, types.JSONRPCRequest):
                    self.direct.note_stamp(message.params)
                    if message.method != "subscriptions/listen":  # never answered while the connection lasts
                        self._asked = message.id
                self._writer.write(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await self._writer.drain()
        except (OSError, anyio.ClosedResourceError):
            await asyncio.wait({self._box.ended}, timeout=_SECONDS_TO_HEAR_OF_THE_END)
            self._on_end(self._exit or phrase("it closed its input"))

    async def _hear(self, stream: asyncio.StreamReader) -> None:
        pace = Pace(bounds.STDERR_BYTES_PER_SECOND)
        with contextlib.suppress(OSError):
            while piece := await stream.read(1 << 16):
                self._log.add(piece)
                await pace.spend(len(piece))

    async def _see_end(self) -> None:
        """Notice a program that ended while something it started holds its output open."""
        await asyncio.shield(self._box.ended)
        await asyncio.wait({self._reading}, timeout=_SECONDS_TO_READ_THE_REST)
        self._on_end(self._exit or phrase("it ended"))
        self._reading.cancel()
