"""One live connection to a server, in a task of its own.

The SDK's client must be left in the task that entered it, so that task waits here until somebody closes the connection
or the server ends it. Calls come from any task of the same event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections import Counter
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import mcp_types as types
from mcp.client import Client
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import to_json

from ferrule._version import __version__
from ferrule.core.phrases import phrase
from ferrule.mcp_client import bounds
from ferrule.mcp_client.answering import Answering
from ferrule.mcp_client.bounds import MESSAGES_PER_SECOND, OPEN_REQUESTS, QUESTIONS, TOOLS, Pace
from ferrule.mcp_client.failures import Failed, Malformed, ServerLog, Trouble, first_problem, reason_of, trouble_of
from ferrule.process.profile import clean_environment

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
    from contextvars import Context

    from mcp.shared.dispatcher import CallOptions, ProgressFnT
    from mcp.shared.message import SessionMessage

    from ferrule.core.context import ToolContext
    from ferrule.mcp_client.server_config import Ports, ServerConfig
    from ferrule.mcp_client.stdio_transport import DirectCalls
    from ferrule.process.references import Variables


# Calls that a newer server answers with questions first: each is put to whoever can answer, and the call repeated.


_MOST_ROUNDS = 10
_SECONDS_BETWEEN_ROUNDS = 0.05


async def with_input(
    session: ClientSession, ask: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]], params: dict[str, Any]
) -> dict[str, Any]:
    """The result of a call once every question has its answer; raises `MCPError` where one is refused."""
    result = await ask(params)
    rounds = 0
    while result.get("resultType") == "input_required":
        rounds += 1
        if rounds > _MOST_ROUNDS:
            raise Malformed(phrase("it asked for more after {count} rounds of questions", count=_MOST_ROUNDS))
        wanted = types.InputRequiredResult.model_validate(result)
        if len(wanted.input_requests or {}) > QUESTIONS:
            raise Malformed(phrase("it asked more than {count} questions in one call", count=QUESTIONS))
        again = dict(params)
        if wanted.request_state is not None:
            again["requestState"] = wanted.request_state
        if wanted.input_requests:
            answers = await asyncio.gather(
                *(_answer(session, key, request) for key, request in wanted.input_requests.items())
            )
            again["inputResponses"] = dict(zip(wanted.input_requests, answers, strict=True))
        else:
            await asyncio.sleep(_SECONDS_BETWEEN_ROUNDS * rounds)
        result = await ask(again)
    return result


async def _answer(session: ClientSession, key: str, request: types.InputRequest) -> dict[str, Any]:
    context = ClientRequestContext(
        session=session, request_id=key, meta=request.params.meta if request.params else None
    )
    answer = await session.dispatch_input_request(context, request)
    if isinstance(answer, types.ErrorData):
        raise MCPError.from_error_data(answer)
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


# What a server sends on its own, measured: it is read no faster than allowed, and few of its requests are open at once.


@asynccontextmanager
async def measured(transport: AbstractAsyncContextManager[Any]) -> AsyncGenerator[tuple[Any, Any]]:
    async with transport as (read, write):
        reading = MeasuredReading(read)
        yield reading, MeasuredWriting(write, reading)


class _Measured:
    """One of a transport's two streams, opened and closed with it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._inner.__aexit__(*error)


class MeasuredReading(_Measured):
    """The way in, as the session reads it, and the server's requests that are not answered yet."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._pace = Pace(MESSAGES_PER_SECOND)
        self._open: Counter[Any] = Counter()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def last_context(self) -> Context | None:
        """Whose message the last one is, where the transport tells."""
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        item = await anext(self._inner)
        message = getattr(item, "message", None)
        if not isinstance(message, (JSONRPCResponse, JSONRPCError)):
            await self._pace.spend()
        if isinstance(message, JSONRPCRequest):
            await self._room.wait()
            self._open[message.id] += 1
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._open.pop(cancelled_request_id_from_params(message.params), None)
        self._count()
        return item

    def answered(self, key: Any) -> None:
        self._open -= Counter([key])
        self._count()

    def _count(self) -> None:
        if self._open.total() >= OPEN_REQUESTS:
            self._room.clear()
        else:
            self._room.set()


class MeasuredWriting(_Measured):
    """The way out, as the session writes it."""

    def __init__(self, inner: Any, reading: MeasuredReading) -> None:
        super().__init__(inner)
        self._reading = reading

    async def send(self, item: SessionMessage) -> None:
        try:
            await self._inner.send(item)
        finally:
            if isinstance(item.message, (JSONRPCResponse, JSONRPCError)):
                self._reading.answered(item.message.id)


# Calls that servers of revision 2025-11-25 only take as tasks: begun, waited for, and cancelled when given up.


_KEPT_MILLISECONDS = 3_600_000
_SECONDS_TO_CANCEL = 2.0


async def call_as_task(
    session: ClientSession, tool: str, arguments: dict[str, Any], progress: ProgressFnT | None
) -> types.CallToolResult:
    """The call's result. The server answers the question for it once the task is done."""
    params = {"name": tool, "arguments": arguments, "task": {"ttl": _KEPT_MILLISECONDS}}
    options: CallOptions = {"on_progress": progress} if progress is not None else {}
    # The session itself takes nothing but a tool's result for an answer to `tools/call`.
    raw = await session._dispatcher.send_raw_request("tools/call", params, options)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    task = types.CreateTaskResult.model_validate(raw).task.task_id
    wanted = types.GetTaskPayloadRequest(params=types.GetTaskPayloadRequestParams(task_id=task))
    try:
        return await session.send_request(wanted, types.CallToolResult)
    except asyncio.CancelledError:
        given_up = types.CancelTaskRequest(params=types.CancelTaskRequestParams(task_id=task))
        with suppress(MCPError, TimeoutError):  # nobody waits for it any more
            await session.send_request(given_up, types.CancelTaskResult, _SECONDS_TO_CANCEL)
        raise


# A page of a server's tools of which one that is no tool costs only itself.


_METHOD = "tools/list"
_OF_THE_SDK = re.compile(r"(?<=a valid dictionary) or instance of \w+")


def sift_pages(session: ClientSession, protocol: str, left_out: Callable[[str], None]) -> None:
    """Have the session see of every page only what it will take; `left_out` hears of the rest."""
    dispatcher: Any = session._dispatcher  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    ask = dispatcher.send_raw_request

    async def sifted(method: str, params: Mapping[str, Any] | None, *more: Any) -> Any:
        answer = await ask(method, params, *more)
        return sift(answer, protocol, left_out) if method == _METHOD else answer

    dispatcher.send_raw_request = sifted


def sift(page: Any, protocol: str, left_out: Callable[[str], None]) -> Any:
    """The page with the tools that are tools, and no more than are used; as it came where the fault is another."""
    tools: Any = cast("dict[str, Any]", page).get("tools") if isinstance(page, dict) else None
    if not isinstance(tools, list):
        return cast("Any", page)
    page = {**cast("dict[str, Any]", page), "tools": cast("list[Any]", tools)[: TOOLS + 1]}
    if _problem(page, protocol) is None:
        return page
    kept: list[Any] = []
    for at, tool in enumerate(page["tools"], 1):
        problem = _problem({**page, "tools": [tool]}, protocol)
        if problem is None:
            kept.append(tool)
            continue
        name: Any = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
        named = f"the tool `{name[:100]}`" if isinstance(name, str) else f"number {at} of its tools"
        left_out(f"{named} is left out: {problem}")
    return {**page, "tools": kept}


def _problem(page: Any, protocol: str) -> str | None:
    try:
        validate_server_result(_METHOD, protocol, page)
    except ValidationError as error:
        return _OF_THE_SDK.sub("", first_problem(error)).replace("`tools.0.", "`", 1).removeprefix("`tools.0`: ")
    except KeyError:  # a revision of which the SDK checks nothing here
        return None
    return None


# What the SDK logs of a server's faults is said once, by us; without a handler it would go to standard error.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

_QUIET_SECONDS = 0.2
_SECONDS_TO_CLOSE = 10.0
_SECONDS_TO_LISTEN_AGAIN = 1.0
_SECONDS_TO_HEAR_OF_THE_END = 2.0
_INFO = types.Implementation(name="ferrule", version=__version__)


@dataclass(slots=True)
class ServerOffer:
    """What a connection offers: who the server says it is, and how it is spoken to."""

    server: str
    version: str
    protocol: str
    instructions: str


class Connection:
    """A server that answers. `on_change` hears that its tools are not what they were."""

    def __init__(
        self,
        transport: Callable[[Callable[[str], None]], Any],
        answering: Answering,
        *,
        samples: bool,
        on_change: Callable[[], None],
        mode: str = "auto",
    ) -> None:
        self._on_change = on_change
        self._answering = answering
        self._over = asyncio.Event()
        self.ended_because = ""
        """Why there is no connection any more; empty while there is one."""
        self._trouble = Trouble.OTHER
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        made = transport(self._end)
        self._direct: DirectCalls | None = getattr(made, "direct", None)
        self._undone: Callable[[], Awaitable[tuple[str, ...]]] | None = getattr(made, "undone", None)
        self._hurry: Callable[[], None] = getattr(made, "hurry", lambda: None)
        self._client = Client(
            measured(made),
            mode=mode,
            client_info=_INFO,
            cache=None,
            message_handler=self._hear,
            elicitation_callback=answering.elicit,
            sampling_callback=answering.sample if samples else None,
            list_roots_callback=answering.roots if answering.tells_roots else None,
        )
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._left_out: list[str] = []

    async def open(self, seconds: float, whole: float | None = None) -> None:
        """Connect; raises `Failed` when the server does not answer in time, or not in the protocol's words.

        Where the `seconds` are what is left of a time that somebody chose, the whole of it is what they are told.
        """
        self._task = asyncio.create_task(self._run())
        try:
            await asyncio.wait_for(asyncio.shield(self._ready), seconds)
        except TimeoutError:
            await self.close()
            raise Failed(
                phrase("it did not answer within {seconds} s", seconds=f"{seconds if whole is None else whole:g}")
            ) from None
        except asyncio.CancelledError:
            await self.close()
            raise

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done() and not self._over.is_set()

    @property
    def offered(self) -> ServerOffer:
        client, info = self._client, self._client.server_info
        return ServerOffer(
            info.name if info else "", info.version if info else "", client.protocol_version, client.instructions or ""
        )

    async def close(self, *, at_once: bool = False) -> None:
        """End it; what the server is gets the time that its transport gives it. `at_once` is for one that is mute, or
        that the user does not want any more.
        """
        if at_once:
            self._hurry()
        self._end(phrase("it was closed"))
        if self._task is None:
            return
        if not at_once:
            await asyncio.wait({self._task}, timeout=_SECONDS_TO_CLOSE)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_SECONDS_TO_CLOSE)

    async def end_reason(self) -> str:
        """Why it ended; its calls are told a moment before that is known."""
        over = asyncio.ensure_future(self._over.wait())
        await asyncio.wait({over, *([self._task] if self._task else [])}, timeout=_SECONDS_TO_HEAR_OF_THE_END,
                           return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
        over.cancel()
        await self.close()
        return self.ended_because

    async def tools(self) -> tuple[list[dict[str, Any]], list[str]]:
        """What the server lists, as far as is allowed, and what was left out."""
        found: list[dict[str, Any]] = []
        self._left_out.clear()
        cursor: str | None = None
        size = 0
        for _ in range(bounds.PAGES):
            page = await self._client.list_tools(cursor=cursor)
            listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
            size += len(to_json(listed))
            if size > bounds.LISTING_BYTES:
                more = f"its list of tools takes more than {bounds.LISTING_BYTES:,} bytes; the first are used"
                return found, [*self._left_out, more]
            found += listed
            if len(found) > bounds.TOOLS:
                more = f"it offers more than {bounds.TOOLS:,} tools; the first are used"
                return found[: bounds.TOOLS], [*self._left_out, more]
            if page.next_cursor is None:
                return found, [*self._left_out]
            if page.next_cursor == cursor:
                return found, [*self._left_out, "its list of tools leads back to the same page"]
            cursor = page.next_cursor
        return found, [*self._left_out, f"its list of tools has more than {bounds.PAGES} pages; the first are used"]

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        progress: ProgressFnT | None,
        *,
        as_task: bool = False,
        context: ToolContext | None = None,
    ) -> dict[str, Any]:
        """The result in the protocol's form, with a note where a question was declined; raises what the SDK raises."""
        with self._answering.on_behalf(context) as call:
            try:
                result = await self._call(tool, dict(arguments), progress, as_task=as_task)
            except MCPError as error:
                if error.code == types.URL_ELICITATION_REQUIRED:
                    raise await self._answering.sent_elsewhere(error) from None
                if call.notes:
                    raise MCPError(error.code, " ".join((str(error), *call.notes)), error.data) from None
                raise
        kind = result.get("resultType", "complete")
        if kind != "complete" and self._client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise Malformed(
                phrase("it answered with `{kind}`, which was not asked for, instead of a result", kind=str(kind)[:50])
            )
        if call.notes and isinstance(content := result.get("content"), list):
            cast("list[Any]", content).extend({"type": "text", "text": note} for note in call.notes)
        return result

    async def _call(
        self, tool: str, arguments: dict[str, Any], progress: ProgressFnT | None, *, as_task: bool
    ) -> dict[str, Any]:
        session, direct = self._client.session, self._direct
        if direct is not None and not as_task:
            return await with_input(
                session,
                lambda params: direct.request("tools/call", params, progress),
                {"name": tool, "arguments": arguments},
            )
        if as_task:
            result = await call_as_task(session, tool, arguments, progress)
        else:
            result = await self._client.call_tool(tool, arguments, progress_callback=progress)
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def undone(self) -> tuple[str, ...]:
        """What a program did since the last time to places that make other programs run commands, in words: it is
        undone by now.
        """
        return await self._undone() if self._undone is not None else ()

    async def answers(self) -> bool:
        """Whether anybody is still there; an error is an answer too."""
        if not self.alive:
            return False
        session = self._client.session
        try:
            if self._client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                await asyncio.wait_for(session.send_discover(self._client.protocol_version), bounds.PING_SECONDS)
            else:
                await asyncio.wait_for(session.send_ping(), bounds.PING_SECONDS)
        except TimeoutError:
            return False
        except MCPError as error:
            return error.code not in (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT)
        return True

    # In the connection's own task

    async def _run(self) -> None:
        watching: asyncio.Task[None] | None = None
        try:
            async with self._client as client:
                # Results are checked by our own validator, which has bounds; the SDK's has none.
                client.session.validate_tool_result = _not_checked_here
                sift_pages(client.session, client.protocol_version, self._left_out.append)
                if not self._ready.done():
                    self._ready.set_result(client)
                watching = asyncio.create_task(self._watch(client))
                telling = asyncio.create_task(self._tell_changes())
                try:
                    await self._over.wait()
                finally:
                    watching.cancel()
                    telling.cancel()
                    await asyncio.gather(watching, telling, return_exceptions=True)
        except BaseException as error:
            if not self.ended_because:
                self.ended_because, self._trouble = reason_of(error), trouble_of(error)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._over.set()
            if not self._ready.done():
                self._ready.set_exception(Failed(self.ended_because or phrase("it ended"), self._trouble))
                self._ready.exception()  # perhaps nobody waits any more

    def _end(self, why: str) -> None:
        self.ended_because = self.ended_because or why
        self._over.set()
        if not self._ready.done() and self._task is not None:
            self._task.cancel()

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed.set()

    async def _watch(self, client: Client) -> None:
        """Newer servers tell of changes to those that listen alone."""
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (tools and tools.list_changed):
            return
        with suppress(ListenNotSupportedError, MCPError):
            while True:
                try:
                    async with client.listen(tools_list_changed=True) as subscription:
                        async for _ in subscription:
                            self._changed.set()
                except SubscriptionLost:
                    await asyncio.sleep(_SECONDS_TO_LISTEN_AGAIN)
                    self._changed.set()  # what was said meanwhile is lost too
                else:
                    return  # the server closed it, and will say nothing more

    async def _tell_changes(self) -> None:
        """Many changes at once are told once."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(_QUIET_SECONDS)
            self._changed.clear()
            self._on_change()


async def _not_checked_here(name: str, result: types.CallToolResult) -> None:
    """In place of the SDK's check."""


# Makes a connection from what is known of a server: the values filled in, the transport chosen, the doors closed.


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"(?:[!-~](?:[ -~\t]*[!-~])?)?")


def connect(
    config: ServerConfig,
    variables: Variables,
    *,
    folders: Sequence[Path],
    tokens: Path,
    ports: Ports,
    log: ServerLog,
    on_change: Callable[[], None],
) -> Connection:
    """A connection that is not open yet; raises `MissingValueError` where a variable is not set."""
    return Connection(
        _program(config, variables, folders, log) if config.command else _address(config, variables, tokens, ports),
        Answering(config.name, ports, folders if config.roots else ()),
        samples=ports.sample is not None,
        mode="legacy" if config.protocol else "auto",
        on_change=on_change,
    )


def _program(
    config: ServerConfig, variables: Variables, folders: Sequence[Path], log: ServerLog
) -> Callable[[Callable[[str], None]], Any]:
    from ferrule.mcp_client.stdio_transport import StdioTransport

    command = [variables.fill(word) for word in config.command]
    closed = config.confinement is not None
    environment = clean_environment(os.environ, variables.fill_table(config.env), closed=closed)
    folder = folders[0] / Path(variables.fill(config.folder)).expanduser() if config.folder else folders[0]
    return lambda on_end: StdioTransport(
        command, folder=folder, environment=environment, log=log, on_end=on_end, confinement=config.confinement
    )


def _address(
    config: ServerConfig, variables: Variables, tokens: Path, ports: Ports
) -> Callable[[Callable[[str], None]], Any]:
    from ferrule.mcp_client.http_transport import SignedRequests, TokenFile, http_transport, oauth

    url = variables.fill(config.url)
    headers = variables.fill_table(config.headers)
    _check_headers(headers)
    auth, show = None, ports.show_url
    if not any(name.lower() == "authorization" for name in headers):
        provider = oauth(
            config.name,
            url,
            TokenFile(tokens, url),
            show=None if show is None else partial(show, config.name),
            client_id=variables.fill(config.client_id),
            client_secret=variables.fill_table({"client_secret": config.client_secret})["client_secret"],
        )
        auth = SignedRequests(provider)
    signs_in = auth is not None and show is not None
    return lambda on_end: http_transport(url, headers=headers, auth=auth, signs_in=signs_in)


def _check_headers(headers: Mapping[str, str]) -> None:
    """Before anybody else finds them wrong, whose words would quote the value: more often than not a secret."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise Failed(phrase("`{name}` is not a valid header name", name=name[:100]))
        if not _HEADER_VALUE.fullmatch(value):
            odd = (
                phrase("a line break")
                if "\n" in value or "\r" in value
                else phrase("a character outside ASCII or a blank at its ends")
            )
            raise Failed(
                phrase(
                    "the value for the header `{name}` contains {odd}, which no header may", name=name[:100], odd=odd
                )
            )
