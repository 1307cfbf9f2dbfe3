"""What goes over the wire to a model's provider, on a cassette: recorded below the model, and replayed to it there.

The model itself is real in both: its requests, its tries and its reading of what comes back.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from typing import TYPE_CHECKING, Any, cast

import httpx2

from ferrule.core.secrets import REDACTED, is_secret_name
from ferrule.models.http_model import HttpModel
from ferrule.models.providers import all_providers, open_model, split_name
from ferrule.testing.tape import CassetteMissError, TapedEvent, TapedRequest, canonical, items_of, same_beginning

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ferrule.core.model import Model
    from ferrule.models.faults import Endpoint
    from ferrule.testing.tape import Tape

_KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-should-retry")
"""Headers of an answer that a model reads. No others are written, and none of a request."""
_SHORTEST_KEY = 12  # shorter ones, as servers on one's own machine take, stand in ordinary words
_MADE_HERE = re.compile(r"\bcall_(?:[0-9a-f]{12}|[0-9a-f]{6}_\d+)\b")
"""Ids that Ferrule gives to calls that came without one: they are other ones in each run."""
_MOST_SHOWN = 60


def taped_model(
    model: Model | str,
    tape: Tape[TapedRequest],
    redact: Callable[[Any], Any],
    missed: Callable[[str], CassetteMissError] | None,
) -> Model:
    """The model, recording; with `missed`, replaying, which makes the error for what is not on the tape."""
    opened = _opened(model, replaying=missed is not None)

    def around(client: Any, endpoint: Endpoint) -> httpx2.AsyncClient:
        wire = _Wire(opened.name, endpoint, redact)
        transport = _Recording(client, tape, wire) if missed is None else _Replaying(client, tape, wire, missed)
        return httpx2.AsyncClient(transport=transport, timeout=client.timeout, trust_env=False)

    return opened.through(around, sleep=None if missed is None else lambda seconds: asyncio.sleep(0))


def _opened(model: Model | str, *, replaying: bool) -> HttpModel:
    opened = model
    if isinstance(model, str):
        environment = dict(os.environ)
        provider = all_providers().get(split_name(model)[0])
        if replaying and provider is not None:
            environment |= dict.fromkeys(provider.key_variables, "replayed")
        opened = open_model(model, environment=environment)
    if not isinstance(opened, HttpModel):
        raise TypeError(f"A cassette records models that are asked over HTTP, which {model!r} is not.")
    return opened


class _Wire:
    """What identifies a request, and what of it and its answer may be written."""

    def __init__(self, model: str, endpoint: Endpoint, redact: Callable[[Any], Any]) -> None:
        self.model = model
        self._base = endpoint.base_url.rstrip("/") + "/"
        self._redact = redact
        headers = [value for name, value in endpoint.headers.items() if is_secret_name(name)]
        secrets = [endpoint.key, *headers, *(value.split(" ")[-1] for value in headers)]
        self._secrets = sorted({one for one in secrets if len(one) >= _SHORTEST_KEY}, key=len, reverse=True)

    def request(self, request: httpx2.Request) -> tuple[str, Any]:
        """The method and path, and the body, as they are looked up: without the endpoint's own secrets."""
        url = str(request.url)
        path = url.removeprefix(self._base) if url.startswith(self._base) else request.url.raw_path.decode()
        body = _json_or_text(request.content.decode("utf-8", "replace"))
        return self._without_keys(f"{request.method} {path}"), self._without_keys(_with_steady_ids(body))

    def redact(self, value: Any) -> Any:
        return self._redact(self._without_keys(value))

    def _without_keys(self, value: Any) -> Any:
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, REDACTED)
            return value
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {self._without_keys(name): self._without_keys(one) for name, one in items}
        return [self._without_keys(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value


def _with_steady_ids(body: Any) -> Any:
    """The ids that Ferrule made are numbered in the order they come."""
    numbers: dict[str, str] = {}
    text = json.dumps(body)
    steady = _MADE_HERE.sub(lambda found: numbers.setdefault(found[0], f"call_{len(numbers) + 1}"), text)
    return json.loads(steady) if numbers else body


def _json_or_text(text: str) -> Any:
    """Objects and lists as they are, whatever else as text."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text or None


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self, client: httpx2.AsyncClient, tape: Tape[TapedRequest], wire: _Wire) -> None:
        self._client = client
        self._tape = tape
        self._wire = wire

    async def aclose(self) -> None:
        await self._client.aclose()


class _Recording(_Transport):
    """Sends requests with the model's own client, and keeps what comes back once it is over."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        path, body = self._wire.request(request)
        place, taped = self._tape.begin(), TapedRequest(model=self._wire.model, request=path, body=body)

        def keep(**came: Any) -> None:
            self._tape.add(place, taped.model_copy(update=came).redacted(self._wire.redact))

        request.headers["connection"] = "close"  # a test may never close its model
        try:
            response = await self._client.send(request, stream=True)
        except httpx2.TransportError as error:
            keep(failure=_failure(error))
            raise
        body_of_answer = _Heard(response, keep)
        return httpx2.Response(response.status_code, headers=response.headers, stream=body_of_answer)


class _Heard(httpx2.AsyncByteStream):
    """A body on its way to the model. One that is left before anything came has no outcome to keep."""

    def __init__(self, response: httpx2.Response, keep: Callable[..., None]) -> None:
        self._response = response
        self._keep = keep
        self._bytes = bytearray()
        self._is_kept = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in cast("httpx2.AsyncByteStream", self._response.stream):
                self._bytes += piece
                yield piece
        except httpx2.TransportError as error:
            self._take(_failure(error))
            raise
        self._take(whole=True)

    async def aclose(self) -> None:
        try:
            await self._response.aclose()
        finally:
            if self._bytes:
                self._take()

    def _take(self, failure: list[str] | None = None, *, whole: bool = False) -> None:
        if self._is_kept:
            return
        self._is_kept = True
        headers = {name: self._response.headers[name] for name in _KEPT_HEADERS if name in self._response.headers}
        content = _unpacked(self._response, bytes(self._bytes))
        answer = _json_or_text(content.decode("utf-8", "replace"))
        came: dict[str, Any] = {"answer": answer}
        # Some servers do not end their last event; one that was torn was never read.
        if isinstance(answer, str) and (events := _events(content + b"\n\n" if whole else content)):
            came = {"events": events}
        self._keep(status=self._response.status_code, headers=headers, failure=failure, **came)


def _unpacked(response: httpx2.Response, content: bytes) -> bytes:
    """The body as the model reads it; one whose compression is broken stays as it came."""
    headers = {"content-encoding": response.headers.get("content-encoding", "identity")}
    try:
        return httpx2.Response(200, headers=headers, content=content).content
    except httpx2.DecodingError:
        return content


def _events(content: bytes) -> list[TapedEvent]:
    response = httpx2.Response(
        200,
        headers={"content-type": "text/event-stream"},
        content=content.lstrip(b" \t\r\n\xef\xbb\xbf"),
        request=httpx2.Request("POST", "http://recorded"),
    )
    found = httpx2.EventSource(response, max_event_size=len(content) + 1)
    return [
        TapedEvent(event="" if one.event == "message" else one.event, data=_json_or_text(one.data))
        for one in found
        if one.data
    ]


def _failure(error: httpx2.TransportError) -> list[str]:
    return [type(error).__name__, str(error)]


class _Replaying(_Transport):
    """Answers from the tape, and refuses what is not on it. Nothing is sent."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        tape: Tape[TapedRequest],
        wire: _Wire,
        missed: Callable[[str], CassetteMissError],
    ) -> None:
        super().__init__(client, tape, wire)
        self._missed = missed

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        path, body = self._wire.request(request)
        shown_path = self._wire.redact(path)
        found = self._tape.take(self._wire.model, shown_path, body)
        if found is None:
            raise self._missed(self._words(shown_path, body))
        if found.status is None:
            raise _as_raised(found, request)
        return httpx2.Response(found.status, headers=found.headers, stream=_Replayed(found, request))

    def _words(self, path: str, body: Any) -> str:
        said = f"{path} to {self._wire.model}"
        near = self._tape.nearest(self._wire.model, body)
        if near is None:
            return f"{said}\nNo request to `{self._wire.model}` was, nor to a model with a name like it."
        if (near.model, near.request) != (self._wire.model, path):
            return f"{said}\nThe nearest that was: {near.request} to {near.model}"
        where, was, now = _difference(near.body, json.loads(self._tape.shown(body)))
        return f"{said}\nThe nearest that was differs at `{where}`:\n  recorded: {was}\n  now:      {now}"


def _difference(was: Any, now: Any, where: str = "") -> tuple[str, str, str]:
    """The first place where two JSON values differ, and what is there."""
    if type(was) is type(now) and isinstance(was, (dict, list)):
        before, after = dict(items_of(was)), dict(items_of(now))
        for key in [*before, *(key for key in after if key not in before)]:
            one, other = before.get(key, _NOTHING), after.get(key, _NOTHING)
            if one is _NOTHING or other is _NOTHING or one != other:
                return _difference(one, other, f"{where}[{key}]" if isinstance(key, int) else f"{where}.{key}")
    one, other = (canonical(side) if side is not _NOTHING else "nothing" for side in (was, now))  # pyright: ignore[reportUnknownVariableType]
    start = max(0, same_beginning(one, other) - _MOST_SHOWN // 2)
    return where.removeprefix("."), _cut(one, start), _cut(other, start)


_NOTHING = object()


def _cut(text: str, start: int) -> str:
    end = start + 2 * _MOST_SHOWN
    return f"{'…' if start else ''}{text[start:end]}{'…' if len(text) > end else ''}"


class _Replayed(httpx2.AsyncByteStream):
    """A recorded body, one event at a time, with the failure at its end if it had one."""

    def __init__(self, taped: TapedRequest, request: httpx2.Request) -> None:
        self._taped = taped
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taped = self._taped
        for one in taped.events or ():
            head = f"event: {one.event}\n" if one.event else ""
            lines = "".join(f"data: {line}\n" for line in _text(one.data).split("\n"))
            yield f"{head}{lines}\n".encode()
        if taped.answer is not None:
            yield _text(taped.answer).encode()
        if taped.failure is not None:
            raise _as_raised(taped, self._request)

    async def aclose(self) -> None:
        """Nothing is open."""


def _text(data: Any) -> str:
    # Half a surrogate pair, which UTF-8 cannot hold, stays the escape that JSON has for it.
    return data if isinstance(data, str) else json.dumps(data)


def _as_raised(taped: TapedRequest, request: httpx2.Request) -> httpx2.TransportError:
    kind, message = taped.failure or ["ReadError", "The recorded request has no outcome."]
    error: Any = getattr(httpx2, kind, None)
    known = isinstance(error, type) and issubclass(error, httpx2.TransportError)
    return error(message, request=request) if known else httpx2.ReadError(message, request=request)
