"""A model behind an HTTP endpoint: asks in its provider's form, tries again where that helps, reports as it goes.

A server may answer with server-sent events or, whatever was asked, with one JSON body; what it is shows in its first
bytes, not in its content type, which proxies get wrong. Redirects are not followed: a key would go along.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from ferrule.core.errors import MissingExtraError
from ferrule.core.http_fetch import FetchError, fetch
from ferrule.core.model import Finished, ModelError, ModelFault, ModelRequest, Retrying, Usage, UserMessage
from ferrule.core.nearest import nearest
from ferrule.core.phrases import joined, phrase
from ferrule.dialects.payload import an_item, count, items, jsonable, words
from ferrule.models.faults import PATIENT, Faults, Tries, TryAgain
from ferrule.models.known_models import context_of
from ferrule.models.prices import PROVIDERS, cost_of, load_prices
from ferrule.models.wire_form import Frame, with_extra

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from types import ModuleType

    from ferrule.core.model import ModelEvent, ModelPrice, ModelSettings
    from ferrule.core.tool import Tool
    from ferrule.models.faults import Endpoint
    from ferrule.models.wire_form import WireForm


_MOST_BYTES = 64 * 1024 * 1024  # of one body or one event; an answer of a model is far smaller
_MOST_ERROR_BYTES = 1024 * 1024
_BLANK = b" \t\r\n\xef\xbb\xbf"


@dataclass(slots=True, frozen=True)
class TimeLimits:
    """Seconds to wait: for a connection, for the first byte (a local server may load a model first), between two
    pieces, for the usage once the answer is whole, for the connection to end after that, and for an answer in all.
    """

    connect: float = 10.0
    first_byte: float = 600.0
    silence: float = 300.0
    usage: float = 10.0
    after_the_end: float = 0.25
    whole: float = 3600.0


USUAL = TimeLimits()


def http() -> ModuleType:
    """`httpx2`, imported when a model is first asked."""
    try:
        import httpx2
    except ImportError:
        raise _missing() from None
    return httpx2


def require_http() -> None:
    """Raise `MissingExtraError` where no model can be asked over HTTP; nothing is imported yet."""
    if find_spec("httpx2") is None:
        raise _missing()


def _missing() -> MissingExtraError:
    return MissingExtraError(phrase("Asking a model over HTTP"), "models")


class UnusableEnvironment(Exception):  # noqa: N818 - reads as what it says
    """The proxy or the certificates that the environment names cannot be used."""


class Transport:
    """Connections to one endpoint, kept between requests. `around` puts another client around each that is made."""

    def __init__(
        self, endpoint: Endpoint, limits: TimeLimits = USUAL, around: Callable[[Any], Any] = lambda client: client
    ) -> None:
        self.endpoint = endpoint
        self.limits = limits
        self._around = around
        # Connections belong to the loop they were made in.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    def exchange(self, faults: Faults) -> Exchange:
        return Exchange(self._client, self.endpoint, self.limits, faults)

    async def get(self, path: str, headers: Mapping[str, str], seconds: float) -> tuple[int, Any]:
        """A small JSON document and its status; 0 and None when nothing came in time, None for what is not JSON."""
        httpx2 = http()
        given = {**self.endpoint.headers, **headers}
        try:
            url = self.endpoint.url(path)
            found = await fetch(self._client(), "GET", url, most=_MOST_BYTES, seconds=seconds, headers=given)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, UnicodeError, FetchError, UnusableEnvironment):
            return 0, None
        try:
            return found.status, json.loads(found.body)
        except (ValueError, RecursionError):
            return found.status, None

    async def close(self) -> None:
        """Let go of the connections that were made in this loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def _client(self) -> Any:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            httpx2 = http()
            wait = httpx2.Timeout(None, connect=self.limits.connect, pool=self.limits.connect)
            # Certificates take longer to load than a local server to answer; without TLS nobody looks at them.
            checked = not self.endpoint.base_url.startswith("http://")
            try:
                client = httpx2.AsyncClient(timeout=wait, verify=checked, trust_env=not self.endpoint.is_local)
            except (ImportError, ValueError, OSError, httpx2.InvalidURL) as error:
                raise UnusableEnvironment(str(error)) from None
            client = self._clients[loop] = self._around(client)
        return client


class Exchange:
    """One request and what comes back."""

    def __init__(self, client: Callable[[], Any], endpoint: Endpoint, limits: TimeLimits, faults: Faults) -> None:
        self._client = client
        self._endpoint = endpoint
        self._limits = limits
        self._faults = faults
        self._silence = limits.silence
        self._may_end = False

    def expect_the_end(self, *, is_over: bool) -> None:
        """The answer is whole; `is_over` says that not even its usage is still to come."""
        self._silence, self._may_end = self._limits.after_the_end if is_over else self._limits.usage, True

    async def frames(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> AsyncGenerator[Frame, None]:
        """Ask, and give what comes back piece by piece; raises `ModelError` or `TryAgain`."""
        httpx2 = http()
        deadline = asyncio.get_running_loop().time() + self._limits.whole
        try:
            sent = {
                "content-type": "application/json",
                "accept": "text/event-stream, application/json",
                **self._endpoint.headers,
                **headers,
            }
            client = self._client()
            request = client.build_request("POST", self._endpoint.url(path), headers=sent, content=as_json(body))
            response = await self._send(client, request, deadline)
            try:
                if response.status_code >= 300:
                    raise await self._failure(response, deadline)
                async with aclosing(self._pieces(response, deadline)) as pieces, aclosing(self._read(pieces)) as read:
                    async for frame in read:
                        yield frame
            finally:
                # Closing must not be the thing that hangs, and must not be skipped when the task is cancelled.
                await response.aclose()
        except httpx2.ConnectTimeout:
            raise self._faults.broken(
                phrase("no connection within {seconds} s", seconds=f"{self._limits.connect:g}")
            ) from None
        except httpx2.ConnectError as error:
            raise self._faults.no_connection(str(error)) from None
        except httpx2.ProxyError as error:
            raise self._faults.no_connection(phrase("the proxy refused it: {error}", error=error)) from None
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL):
            raise self._faults.bad_address() from None
        except (UnicodeEncodeError, httpx2.LocalProtocolError):
            raise self._faults.bad_header() from None
        except UnusableEnvironment as error:
            raise self._faults.bad_environment(str(error)) from None
        except httpx2.SSEError:
            raise self._faults.garbled(
                phrase("one piece of it is larger than {most} bytes", most=f"{_MOST_BYTES:,}")
            ) from None
        except httpx2.DecodingError:
            raise self._faults.garbled(phrase("its compression is broken")) from None
        except httpx2.TransportError:
            raise self._faults.broken(phrase("the connection ended in the middle of the answer")) from None

    async def _send(self, client: Any, request: Any, deadline: float) -> Any:
        now = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(min(deadline, now + self._limits.first_byte)):
                return await client.send(request, stream=True)
        except TimeoutError:
            raise self._faults.broken(
                phrase("no answer within {seconds} s", seconds=f"{self._limits.first_byte:g}")
            ) from None

    async def _pieces(self, response: Any, deadline: float) -> AsyncGenerator[bytes, None]:
        """The body's bytes; ends quietly when nothing more is expected."""
        loop = asyncio.get_running_loop()
        async with aclosing(response.aiter_bytes()) as chunks:
            while True:
                try:
                    async with asyncio.timeout_at(min(deadline, loop.time() + self._silence)):
                        chunk = await anext(chunks, None)
                except TimeoutError:
                    if self._may_end:
                        return
                    what = (
                        phrase("silent for {seconds} s", seconds=f"{self._silence:g}")
                        if loop.time() < deadline
                        else phrase("the answer never ended")
                    )
                    raise self._faults.broken(what) from None
                if chunk is None:
                    return
                yield chunk

    async def _read(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[Frame, None]:
        begun = b""
        async for piece in pieces:
            begun = (begun + piece).lstrip(_BLANK)  # servers send blanks to keep a connection alive
            first = begun[:1]
            if not first:
                continue
            if first in b"{[":
                yield Frame("whole", self._json(await self._whole(begun, pieces)))
                return
            if first == b"<":
                raise self._faults.page()
            async with aclosing(self._events(begun, pieces)) as events:
                async for frame in events:
                    yield frame
            return

    async def _whole(self, begun: bytes, pieces: AsyncIterator[bytes]) -> bytes:
        body = bytearray(begun)
        while len(body) <= _MOST_BYTES:
            piece = await anext(pieces, None)
            if piece is None:
                return bytes(body)
            body += piece
        raise self._faults.garbled(phrase("it is larger than {most} bytes", most=f"{_MOST_BYTES:,}"))

    async def _events(self, begun: bytes, pieces: AsyncIterator[bytes]) -> AsyncGenerator[Frame, None]:
        async def content() -> AsyncGenerator[bytes, None]:
            yield begun
            async for piece in pieces:
                yield piece
            yield b"\n\n"  # some servers do not end their last event

        httpx2 = http()
        # The library reads events off a response of that type alone; this one is the same bytes, already unpacked.
        response = httpx2.Response(
            200,
            headers={"content-type": "text/event-stream; charset=utf-8"},
            content=content(),
            request=httpx2.Request("POST", self._endpoint.url("")),
        )
        async with aclosing(httpx2.EventSource(response, max_event_size=_MOST_BYTES).__aiter__()) as events:
            async for event in events:
                if event.data.strip() == "[DONE]":
                    yield Frame("done", None)
                elif event.data:
                    yield Frame(event.event, self._json(event.data))

    def _json(self, text: str | bytes) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise self._faults.garbled(phrase("a piece of it is not JSON")) from None

    async def _failure(self, response: Any, deadline: float) -> Exception:
        body = bytearray()
        self._silence, self._may_end = min(self._silence, self._limits.connect), True
        async with aclosing(self._pieces(response, deadline)) as pieces:
            async for piece in pieces:
                body += piece
                if len(body) > _MOST_ERROR_BYTES:
                    break
        return self._faults.from_status(response.status_code, response.headers, bytes(body))


def as_json(body: dict[str, Any]) -> bytes:
    """A request as bytes; what JSON has no form for (half a surrogate pair, infinity) is replaced."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        return json.dumps(jsonable(body), ensure_ascii=False, separators=(",", ":")).encode()


# How much a model on a local server may read: each server has its own place to say it, and none has it in common.


async def served_context(endpoint: Endpoint, model: str, get: Callable[[str], Awaitable[Any]]) -> int | None:
    """The context in tokens; `get` fetches a path under the endpoint's base address, and may give None."""
    up = "../" * len([part for part in urlsplit(endpoint.base_url).path.split("/") if part])
    if endpoint.provider == "ollama":
        running = items(an_item(await get(f"{up}api/ps")).get("models"))
        return _first(count(one.get("context_length")) for one in running if _is(one, model))
    if endpoint.provider == "llamacpp":
        props = an_item(await get(f"{up}props"))
        return _first([count(an_item(props.get("default_generation_settings")).get("n_ctx"))])
    if endpoint.provider == "lmstudio":
        offered = items(an_item(await get(f"{up}api/v0/models")).get("data"))
        return _first(count(one.get("loaded_context_length")) for one in offered if _is(one, model))
    offered = items(an_item(await get("models")).get("data"))
    return _first(count(one.get("max_model_len")) for one in offered if _is(one, model))


def _is(listed: dict[str, Any], model: str) -> bool:
    names = {words(listed.get("name")), words(listed.get("model")), words(listed.get("id"))}
    return model in names or f"{model}:latest" in names


def _first(sizes: Any) -> int | None:
    return next((size for size in sizes if size), None)


_LIST_SECONDS = 3.0
_TELL_COST = frozenset({"openrouter"})
"""Providers whose answers say what they cost."""


class HttpModel:
    """Implements `Model` for any wire form. `sleep` waits between two tries; tests give their own."""

    def __init__(
        self,
        form: WireForm,
        endpoint: Endpoint,
        model: str,
        *,
        context_tokens: int | None = None,
        price: ModelPrice | None = None,
        tries: Tries = PATIENT,
        limits: TimeLimits = USUAL,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        around: Callable[[Any], Any] = lambda client: client,
    ) -> None:
        self._form = form
        self._endpoint = endpoint
        self._model = model
        self._context = context_tokens or context_of(endpoint.provider, model)
        self._price = price
        self._tries = tries
        self._sleep = sleep
        self._transport = Transport(endpoint, limits, around)
        self._faults = Faults(endpoint, model)
        self._refused_fields: set[str] = set()
        self._asked_context = False

    def __repr__(self) -> str:
        return f"HttpModel({self.name!r})"

    @property
    def name(self) -> str:
        return f"{self._endpoint.provider}/{self._model}"

    @property
    def context_tokens(self) -> int | None:
        return self._context

    def writes_output(self, output: Tool[Any], tools: Sequence[Tool[Any]]) -> bool:
        """`WritesOutput`; no longer once the server has refused the schema."""
        return "output_config" not in self._refused_fields and self._form.writes_output(self._model, output, tools)

    @property
    def is_priced(self) -> bool:
        """Whether its answers come with their cost: from its provider, its own price, or the prices that are known."""
        return self._endpoint.provider in _TELL_COST or self._cost(Usage(1, 1)) is not None

    def _cost(self, usage: Usage) -> float | None:
        if self._price is not None:
            return self._price.cost(usage)
        return cost_of(self._endpoint.provider, self._model, usage)

    def check_settings(self, settings: ModelSettings) -> None:
        """Raise `ModelError` for a setting that its provider doesn't have."""
        if why := self._form.unfit(settings, self._model):
            raise self._unfit(why)
        self._extended(self._form.body(ModelRequest([UserMessage("")], settings=settings), self._model), settings)

    def _extended(self, body: dict[str, Any], settings: ModelSettings) -> dict[str, Any]:
        try:
            return with_extra(body, settings.extra)
        except KeyError as error:
            why = phrase("The field `{field}` of `extra` is one that Ferrule writes itself.", field=error.args[0])
            raise self._unfit(why) from None

    def _unfit(self, why: str) -> ModelError:
        return ModelError(
            ModelFault.REFUSED,
            phrase("`{name}` can't answer by these settings. {why}", name=self.name, why=why),
            suggestion=phrase("Leave the setting out, or send what the provider takes instead in `extra`."),
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if request.settings.given():
            self.check_settings(request.settings)
        attempt = 0
        while True:
            attempt += 1
            shown = False
            try:
                async with aclosing(self._attempt(request)) as events:
                    async for event in events:
                        loaded = isinstance(event, Finished) and self._context is None and not self._asked_context
                        if loaded and self._endpoint.is_local:  # ask this machine's server how much the model may read
                            self._asked_context = True
                            self._context = await served_context(self._endpoint, self._model, self._ask_server)
                        shown = True
                        yield event
                return  # noqa: TRY300 - the loop goes on after a failure alone
            except TryAgain as failed:
                seconds = self._tries.wait(attempt, failed.after)
                if seconds is None:
                    raise self._given_up(failed, attempt) from None
                yield Retrying(attempt, seconds, failed.error.message, restarted=shown)
                await self._sleep(seconds)
            except ModelError as error:
                if not shown and self._can_do_without(error):
                    attempt -= 1  # each field can be refused once, so this ends
                    continue
                raise await self._with_nearest(error) from None

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        body = self._accepted(self._form.body(request, self._model))
        if "tools" in body:
            body["tools"] = [self._accepted(tool) for tool in body["tools"]]
        body = self._extended(body, request.settings)
        loading = None
        if self._price is None and self._endpoint.provider in PROVIDERS:  # meanwhile, as it takes a tenth of a second
            loading = asyncio.get_running_loop().run_in_executor(None, load_prices)
        reader = self._form.reader(self._faults, self._model)
        exchange = self._transport.exchange(self._faults)
        frames = exchange.frames(self._form.path(self._model), self._form.headers(self._endpoint), body)
        try:
            async with aclosing(frames):
                async for frame in frames:
                    for event in reader.read(frame):
                        yield event
                    if reader.is_complete:
                        exchange.expect_the_end(is_over=reader.is_over)
        except TryAgain:
            if not reader.is_complete:
                raise
        if not reader.is_complete:
            raise self._faults.broken(phrase("the answer ended in the middle"))
        for event in reader.finish():
            if isinstance(event, Finished) and event.usage.cost is None:
                if loading is not None:
                    await loading
                yield replace(event, usage=replace(event.usage, cost=self._cost(event.usage)))
            else:
                yield event

    def through(
        self, around: Callable[[Any, Endpoint], Any], *, sleep: Callable[[float], Awaitable[object]] | None = None
    ) -> HttpModel:
        """The same model, asked through another HTTP client: `around` gets the usual one and the endpoint."""
        return HttpModel(
            self._form, self._endpoint, self._model, context_tokens=self._context, price=self._price,
            tries=self._tries, limits=self._transport.limits, sleep=sleep or self._sleep,
            around=lambda client: around(client, self._endpoint),
        )  # fmt: skip

    async def list_models(self, seconds: float = _LIST_SECONDS) -> list[str] | None:
        """The names that its provider offers; None when it does not say in time."""
        headers = self._form.headers(self._endpoint)
        status, found = await self._transport.get(self._form.models_path, headers, seconds)
        return self._form.model_names(found) if status == 200 else None

    async def close(self) -> None:
        await self._transport.close()

    # After a failure

    def _given_up(self, failed: TryAgain, attempt: int) -> ModelError:
        error = failed.error
        if failed.after is not None and attempt < self._tries.most:
            why = phrase("It asks to wait {seconds} s, which is too long.", seconds=f"{failed.after:,.0f}")
        else:
            why = phrase("Tried {count} times.", count=attempt) if attempt > 1 else ""
        message = joined(" ", [error.message, why])
        return ModelError(error.fault, message, suggestion=error.suggestion, status=error.status)

    def _accepted(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in fields.items() if key not in self._refused_fields}

    def _can_do_without(self, error: ModelError) -> bool:
        """Whether the server refused a field that is not essential; it is left out from now on."""
        if error.fault is not ModelFault.REFUSED:
            return False
        named = {field for field in self._form.optional_fields - self._refused_fields if field in error.message}
        self._refused_fields |= named
        return bool(named)

    async def _with_nearest(self, error: ModelError) -> ModelError:
        if error.fault is not ModelFault.NOT_FOUND:
            return error
        close = nearest(self._model, await self.list_models() or [])
        if not close:
            return error
        listed = " or ".join(f"`{self._endpoint.provider}/{name}`" for name in close)
        return ModelError(
            error.fault, error.message, suggestion=phrase("Did you mean {names}?", names=listed), status=error.status
        )

    async def _ask_server(self, path: str) -> Any:
        status, found = await self._transport.get(path, self._form.headers(self._endpoint), _LIST_SECONDS)
        return found if status == 200 else None
