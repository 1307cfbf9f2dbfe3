"""One server: started when it is first needed, kept warm, and started again when it fails.

One that hangs or dies harms nobody else: its calls fail within their time and say why, and the more often it fails the
longer it is left alone.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext
from contextvars import copy_context
from time import monotonic
from typing import TYPE_CHECKING, Any

from ferrule.core.elicitation import set_elicitor
from ferrule.core.errors import MissingExtraError, ToolError
from ferrule.core.loops import elsewhere
from ferrule.core.phrases import phrase, said_by
from ferrule.mcp_client import bounds, failures
from ferrule.mcp_client.failures import Failed, ServerLog, Trouble
from ferrule.mcp_client.remote_tool import Definition, RemoteTool, ToolListing, read_listing
from ferrule.process.references import Variables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from mcp.shared.dispatcher import ProgressFnT

    from ferrule.core.context import ToolContext
    from ferrule.mcp_client.connection import Connection, ServerOffer
    from ferrule.mcp_client.server_config import Ports, ServerConfig

_STEADY_SECONDS = 30.0
_FIRST_WAIT = 1.0
_SECONDS_TO_SIGN_IN = 300.0
"""A user's time, beside the server's."""
_LONGEST_REST = 2.0
_CLOSED = "Connection closed"
"""What the SDK tells every call when the connection itself has ended."""
_ALONE = "SSE stream "
"""How the error begins of a call over HTTP whose own stream ended; the others' go on."""


async def list_tools(config: ServerConfig, *, workspace: Path, tokens: Path, seconds: float) -> list[Definition]:
    """Start a server only to learn what it offers. Raises `ToolError`, in the server's own last words if it has any."""
    from ferrule.mcp_client.server_config import Ports

    heard: list[ToolListing] = []
    server = RemoteServer(
        config,
        folders=(workspace,),
        tokens=tokens,
        ports=Ports(),
        on_listing=heard.append,
        before_call=lambda tool: None,
    )
    try:
        try:
            async with asyncio.timeout(seconds):
                await server.start()
        finally:
            await server.close()
    except (Failed, TimeoutError) as failed:
        problem = failed.reason if isinstance(failed, Failed) else phrase("it did not answer")
        if said := server.log.last_line:
            problem = f"{problem} ({said})"
        raise ToolError(problem) from None
    return heard[-1].definitions


class RemoteServer:
    """A server that may or may not run. `on_listing` hears what it offers, each time that is known anew; `before_call`
    may still refuse a call once the server runs.
    """

    def __init__(
        self,
        config: ServerConfig | Callable[[], ServerConfig],
        *,
        folders: Sequence[Path],
        tokens: Path,
        ports: Ports,
        on_listing: Callable[[ToolListing], None],
        before_call: Callable[[RemoteTool], None],
    ) -> None:
        self._config = self._made_from = config
        self.log = ServerLog()
        self.problem = ""
        """Why it cannot be used at present; empty where nothing is known against it."""
        self.trouble = Trouble.OTHER
        """Of what kind the problem is, where it could not be started."""
        self._folders = folders
        self._tokens = tokens
        self._ports = ports
        self._on_listing = on_listing
        self._before_call = before_call
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._opening_at = 0.0
        self._relisting: asyncio.Task[None] | None = None
        self._outdated = False
        self._checking: asyncio.Task[None] | None = None
        self._endings: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting = 0
        self._failures = 0
        self._not_before = 0.0
        self._opened_at = 0.0

    @property
    def config(self) -> ServerConfig:
        """What it is; raises `ToolError` where that is only found out now, and it cannot be."""
        if callable(self._config):
            self._config = self._config()
        return self._config

    @property
    def offered(self) -> ServerOffer | None:
        """Who it says it is, while it runs."""
        return self._connection.offered if self._connection is not None and self._connection.alive else None

    @property
    def starting(self) -> bool:
        """Whether it is being started just now, up to the moment at which it is known how that went."""
        return self._opening is not None

    @property
    def starting_since(self) -> float | None:
        return self._opening_at if self.starting else None

    # Using it

    async def connected(self) -> Connection:
        """The connection, opened when there is none; raises `Failed`. Many at once open it once."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # what an earlier loop had ended with it
            self._loop, self._connection, self._opening, self._not_before = loop, None, None, 0.0
            self._endings.clear()
        if self._connection is not None:
            if self._connection.alive:
                return self._connection
            # Reconnect at once the first time; a server that keeps ending is left alone for longer each time.
            self.problem = failures.with_garbage(self.log.clean(self._connection.ended_because), self.log)
            self._connection = None
            if loop.time() - self._opened_at > _STEADY_SECONDS:
                self._failures = 0
            self._fail(loop.time())
        if self._opening is None:
            left = self._not_before - loop.time()
            if left > 0:
                raise failures.NotYet(self.problem, left)
            # Not as the caller: what the server asks for later calls must not reach whoever made the first one.
            anyone = copy_context()
            anyone.run(set_elicitor, None)
            self._opening_at = monotonic()
            self._opening = loop.create_task(self._open(), context=anyone)
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        self._waiting += 1
        try:
            return await asyncio.shield(opening)
        finally:
            self._waiting -= 1
            if self._waiting == 0 and self._signs_in and not opening.done():
                opening.cancel()  # nobody wants to sign in any more
                self._opening = None

    async def call(self, tool: RemoteTool, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Run one call; raises `ToolError` whatever the server does."""
        if (home := self._other_loop()) is not None:
            return await elsewhere(self.call(tool, arguments, context), home)
        await self._look_anew()  # what is wrong with it is the call's own error
        try:
            try:
                return await self._harmless_call(await self._ready_for(tool, context), tool, arguments, context)
            except failures.EndedInCall:
                if not tool.may_run_twice:
                    raise
            await self._look_anew()
            return await self._harmless_call(await self._ready_for(tool, context), tool, arguments, context)
        except Failed as failed:
            plugin = callable(self._made_from)
            raise failures.cannot_be_used(self.config.name, failed, self.log, plugin=plugin) from None

    async def _ready_for(self, tool: RemoteTool, context: ToolContext) -> Connection:
        with context.asking_person() if self._signs_in else nullcontext():
            connection = await self.connected()
        self._before_call(tool)
        return connection

    async def start(self) -> None:
        """Have it running with its tools listed; a failure is noted in `problem`, and raised."""
        if (home := self._other_loop()) is not None:
            await elsewhere(self.start(), home)
            return
        try:
            await self._look_anew()
        except ToolError as error:
            self.problem = said_by(error).rstrip(".")
            raise Failed(self.problem) from None
        await self.connected()

    async def _look_anew(self) -> None:
        """Find out how one is started that is about to be, each time; raises `ToolError` where it must not be."""
        running = self._connection is not None and self._connection.alive
        if callable(self._made_from) and not running and self._opening is None:
            self._config = await asyncio.to_thread(self._made_from)

    def _other_loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that its connection belongs to, where that runs beside this one."""
        loop = self._loop
        return loop if loop is not None and loop is not asyncio.get_running_loop() and loop.is_running() else None

    async def close(self, *, at_once: bool = False) -> None:
        """End it, with all that it started; `at_once` without the time that it gets to finish."""
        if (home := self._other_loop()) is not None:
            await elsewhere(self.close(at_once=at_once), home)
            return
        for task in (self._opening, self._relisting, self._checking):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task})
        if self._connection is not None and self._loop is asyncio.get_running_loop():
            await self._connection.close(at_once=at_once)
        self._connection = None
        if self._endings and self._loop is asyncio.get_running_loop():
            await asyncio.wait(self._endings)

    async def _harmless_call(
        self, connection: Connection, tool: RemoteTool, arguments: Mapping[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        """A call of a program that is ended where it made what other programs would run or obey."""
        try:
            result = await self._call(connection, tool, arguments, context)
        except ToolError:
            await self._require_harmless(connection)
            raise
        await self._require_harmless(connection)
        return result

    async def _require_harmless(self, connection: Connection) -> None:
        if undone := await connection.undone():
            await connection.close()  # or it would make it again
            raise failures.was_undone(self.config.name, (*undone, *await connection.undone()))

    async def _call(
        self, connection: Connection, tool: RemoteTool, arguments: Mapping[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED
        from pydantic import ValidationError

        name = tool.definition.name
        log, heard = self.log, self.log.garbage_lines
        try:
            return await connection.call(
                name, arguments, _progress(context), as_task=tool.definition.needs_task, context=context
            )
        except asyncio.CancelledError:
            if garbage := log.garbage(heard):
                context.stopped_words = failures.instead_of_answer(garbage)
            # After a call that was given up: is the server slow, or gone?
            if self._checking is None or self._checking.done():
                self._checking = asyncio.create_task(self._check(connection))
            raise
        except MCPError as error:
            if failures.was_not_read(error):
                raise failures.refused_call(self.config.name, name, error, self.log) from None
            # Servers use the same code for errors of their own.
            if error.code == CONNECTION_CLOSED and (not connection.alive or str(error).startswith((_CLOSED, _ALONE))):
                alone = connection.alive and str(error) != _CLOSED
                reason = self.log.clean(
                    failures.reason_of(Failed(str(error))) if alone else await connection.end_reason()
                )
                raise failures.ended_in_call(self.config.name, reason, log, garbage=log.garbage(heard)) from None
            if error.code == -32600 and str(error) == "Session terminated":
                await connection.close()
                raise failures.ended_in_call(self.config.name, phrase("it ended the session"), self.log) from None
            raise failures.refused_call(self.config.name, name, error, self.log) from None
        except ValidationError as error:
            raise failures.malformed_result(self.config.name, name, failures.first_problem(error)) from None
        except (RuntimeError, ExceptionGroup) as error:
            raise failures.malformed_result(self.config.name, name, failures.reason_of(error)) from None

    # Starting it, and starting it again

    async def _open(self) -> Connection:
        loop = asyncio.get_running_loop()
        began = loop.time()
        variables = Variables(os.environ)
        self.log = ServerLog(variables)
        self._outdated = False
        try:
            if self._endings:  # two of them at once may want the same file or port
                await asyncio.wait(self._endings, timeout=self.config.start_timeout)
            left = max(0.0, self.config.start_timeout - (loop.time() - began))
            await variables.ask_keyring(self.config.written, left)
            left = max(0.0, self.config.start_timeout - (loop.time() - began))
            connection = require_sdk()(
                self.config,
                variables,
                folders=self._folders,
                tokens=self._tokens,
                ports=self._ports,
                log=self.log,
                on_change=self._relist_soon,
            )
            ends = loop.time() + left  # what was imported meanwhile took our time, and not the server's
            for_a_person = _SECONDS_TO_SIGN_IN if self._signs_in else 0.0
            await connection.open(left + for_a_person, self.config.start_timeout + for_a_person)
        except Exception as error:  # noqa: BLE001 - whatever it raised is why the server cannot be used
            raise self._failed(failures.reason_of(error), failures.trouble_of(error)) from None
        try:
            left = self.config.start_timeout if self._signs_in else ends - loop.time()
            listing = asyncio.create_task(self._list(connection))
            listing.add_done_callback(lambda task: task.cancelled() or task.exception())  # perhaps nobody hears it
            try:
                done, _ = await asyncio.wait({listing}, timeout=left)
            finally:
                listing.cancel()
            if not done:
                raise TimeoutError
            listing.result()
        except BaseException as error:
            if isinstance(error, TimeoutError):
                # Close it in the background: the caller has waited long enough.
                ending = asyncio.create_task(connection.close(at_once=True))
                self._endings.add(ending)
                ending.add_done_callback(self._endings.discard)
                seconds = f"{self.config.start_timeout:g}"
                raise self._failed(phrase("it did not list its tools within {seconds} s", seconds=seconds)) from None
            await connection.close()
            if isinstance(error, asyncio.CancelledError):
                raise
            raise self._failed(
                phrase("its tools could not be listed: {error}", error=failures.reason_of(error))
            ) from None
        return connection

    def _failed(self, reason: str, trouble: Trouble = Trouble.OTHER) -> Failed:
        return Failed(failures.with_garbage(self.log.clean(reason), self.log), trouble)

    @property
    def _signs_in(self) -> bool:
        return bool(self.config.url) and self._ports.show_url is not None

    def _opened(self, task: asyncio.Task[Connection]) -> None:
        if self._opening is task:
            self._opening = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._connection = task.result()
            self._opened_at = task.get_loop().time()
            self.problem = ""
            if self._outdated:  # it changed while it was listed
                self._relist_soon()
            return
        self.problem = error.reason if isinstance(error, Failed) else failures.reason_of(error)
        self.trouble = failures.trouble_of(error)
        self._fail(task.get_loop().time())

    def _fail(self, now: float) -> None:
        wait = 0.0 if self._failures == 0 else min(bounds.LONGEST_WAIT, _FIRST_WAIT * 2 ** (self._failures - 1))
        self._failures += 1
        self._not_before = now + wait

    # Watching it

    async def _list(self, connection: Connection) -> None:
        payloads, problems = await connection.tools()
        listing = read_listing(payloads)
        self._on_listing(ToolListing(listing.definitions, [*problems, *listing.problems]))

    def _relist_soon(self) -> None:
        self._outdated = True
        if self._relisting is None or self._relisting.done():
            self._relisting = asyncio.create_task(self._relist())

    async def _relist(self) -> None:
        """Until nothing has changed meanwhile. A server that always changes gets the lesser part of our time."""
        loop = asyncio.get_running_loop()
        while self._outdated and (connection := self._connection) is not None and connection.alive:
            self._outdated, began = False, loop.time()
            try:
                await asyncio.wait_for(self._list(connection), bounds.LIST_SECONDS)
                self.problem = ""
            except Exception as error:  # noqa: BLE001 - the tools stay as they were, and the user can read why
                why = self.log.clean(
                    phrase("its tools could not be listed again: {error}", error=failures.reason_of(error))
                )
                self.problem = failures.with_garbage(why, self.log)
            await asyncio.sleep(min(_LONGEST_REST, 9 * (loop.time() - began)))

    async def _check(self, connection: Connection) -> None:
        if await connection.undone():
            connection.ended_because = connection.ended_because or phrase("it changed what other programs run or obey")
            await connection.close()
        elif connection.alive and not await connection.answers():
            connection.ended_because = connection.ended_because or phrase("it no longer answers")
            await connection.close()


def require_sdk() -> Callable[..., Connection]:
    """What makes connections, which imports the SDK; raises `MissingExtraError`."""
    try:
        from ferrule.mcp_client.connection import connect
    except ModuleNotFoundError as error:
        raise MissingExtraError(phrase("An MCP server"), "mcp") from error
    return connect


def _progress(context: ToolContext) -> ProgressFnT | None:
    if not context.watched:
        return None

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        context.progress(progress, total, (message or "")[:1_000])

    return tell
