"""Calls a Ferrule service from Python: `Client`, and `AsyncClient` for code with `await`.

    with Client("http://127.0.0.1:8760", "fk_…") as client:
        print(client.call("getCurrentDateTime").result.llm_content)

A call is sent with an idempotency key of its own, so that one whose connection broke is sent again and still made once.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping
from contextlib import aclosing
from functools import wraps
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

from pydantic import BaseModel, RootModel

from ferrule.core.errors import MissingExtraError, ToolError
from ferrule.service.messages import (
    LONGEST_WAIT,
    ApiKey,
    ApprovalRecord,
    AuditPage,
    AuditVerification,
    Batch,
    CallPage,
    DailyUsage,
    DefinitionList,
    EntityRecord,
    Event,
    FeedEvent,
    Identity,
    IntentRecord,
    NewApiKey,
    ProblemDetails,
    Removed,
    RequestAnswer,
    StoredCall,
    Tenant,
    TenantRole,
    ToolDetail,
    ToolList,
    ToolSummary,
    User,
)
from ferrule.service.vocabulary import FINISHED

try:
    import httpx2
except ModuleNotFoundError:
    raise MissingExtraError("ferrule.client", "client") from None

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence

    from ferrule.service.vocabulary import ApprovalScope

__all__ = ["AsyncClient", "Client", "ServiceError", "UnreachableError"]

_M = TypeVar("_M", bound=BaseModel)
_Answer = TypeVar("_Answer", StoredCall, RequestAnswer)
_P = ParamSpec("_P")
_T = TypeVar("_T")
_TRIES = 3
_TIMEOUT = httpx2.Timeout(10.0, read=LONGEST_WAIT + 15.0)
_WATCHING = httpx2.Timeout(10.0, read=60.0)
"""The service says something every 15 seconds, if only that it is still there."""
_AGAIN_SECONDS = 0.5
_LARGE_PAGES = {"limit": 200}
_EVENTS = {"Accept": "text/event-stream"}


class ServiceError(Exception):
    """The service refused a request; `problem` says why. A tool's own failure is a call and raises nothing."""

    def __init__(self, problem: ProblemDetails, retry_after: float | None, call: str | None) -> None:
        super().__init__(f"{problem.detail} ({problem.status} {problem.code}, request {problem.request_id})")
        self.problem = problem
        self.status = problem.status
        self.code = problem.code
        self.retry_after = retry_after
        self.call = call
        """The call that this is about, where there is one: of the first request with the same key."""


class UnreachableError(Exception):
    """The service did not answer."""


class _NoContent(BaseModel):
    """The body of an answer that has none."""


class _Document(RootModel[dict[str, Any]]):
    """Any object."""


class AsyncClient:
    """A service at a URL, as one API key sees it, for code with `await`."""

    def __init__(
        self, url: str, key: str, *, transport: httpx2.AsyncBaseTransport | None = None, tries: int = _TRIES
    ) -> None:
        """`tries` is how often a request is sent that can be sent again."""
        self._tries = tries
        self._http = httpx2.AsyncClient(base_url=url, headers=_bearer(key), timeout=_TIMEOUT, transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._close()

    # What `_BlockingClient` does in its own way

    async def _close(self) -> None:
        await self._http.aclose()

    async def _request(self, method: str, path: str, **sent: Any) -> httpx2.Response:
        return await self._http.request(method, path, **sent)

    async def _lines(self, method: str, path: str, **sent: Any) -> AsyncGenerator[str]:
        async with self._http.stream(method, path, **sent) as response:
            if response.status_code >= 400:
                raise _error_of(response, await response.aread())
            async for line in response.aiter_lines():
                yield line

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # How requests are sent, and sent again

    async def _send(
        self, method: str, path: str, answer: type[_M], body: Mapping[str, Any] | None = None, *,
        query: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None,
    ) -> _M:  # fmt: skip
        can_be_repeated = method in ("GET", "PUT", "DELETE") or "Idempotency-Key" in (headers or {})
        params = _given(**query or {})
        for attempt in range(self._tries):
            last = attempt == self._tries - 1 or not can_be_repeated
            try:
                response = await self._request(method, path, params=params or None, json=body, headers=headers)
                if response.status_code >= 400:
                    raise _error_of(response, response.content)
                return answer.model_validate_json(response.content or b"{}")
            except httpx2.TransportError as error:
                if last:
                    raise UnreachableError(f"The service did not answer: {error or type(error).__name__}") from error
                await self._sleep(0.1 * 2**attempt)
            except ServiceError as error:
                if last or error.status != 503:
                    raise
                await self._sleep(min(error.retry_after or 1.0, 5.0))
        raise UnreachableError("The service did not answer.")

    async def _list(self, what: str, item: type[_M], query: Mapping[str, Any] | None = None) -> list[_M]:
        """Everything of a kind, page after page; the answers hold it under the name of the path."""
        listed: list[_M] = []
        asked: dict[str, Any] = dict(query or {})
        while True:
            found = (await self._send("GET", f"/v1/{what}", _Document, query=asked)).root
            listed += [item.model_validate(one) for one in found[what]]
            if found.get("next") is None:
                return listed
            asked["cursor"] = found["next"]

    async def _send_and_wait(
        self, path: str, answer: type[_Answer], body: Mapping[str, Any], key: str | None, wait: float | None
    ) -> _Answer:
        until = None if wait is None else monotonic() + wait
        try:
            made = await self._send("POST", path, answer, body, headers=_headers(key, wait))
        except ServiceError as error:
            if error.code != "key_in_flight" or error.call is None:
                raise
            made = await self._send("GET", f"{path}/{error.call}", answer)
        return await self._until_finished(path, answer, made, until)

    async def _until_finished(self, path: str, answer: type[_Answer], made: _Answer, until: float | None) -> _Answer:
        """Wait for the end; what waits for results of its caller is answered at once."""
        while not (made.finished or made.status == "awaiting_result") and (until is None or monotonic() < until):
            made = await self._send("GET", f"{path}/{made.id}", answer, query={"wait": _seconds_left(until)})
        return made

    # Tools and calls

    async def me(self) -> Identity:
        return await self._send("GET", "/v1/me", Identity)

    async def tools(self, *, query: str | None = None, category: str | None = None) -> list[ToolSummary]:
        """The tools that this key may use."""
        return (await self._send("GET", "/v1/tools", ToolList, query={"q": query, "category": category})).tools

    async def tool(self, name: str) -> ToolDetail:
        return await self._send("GET", f"/v1/tools/{name}", ToolDetail)

    async def definitions(self, dialect: str) -> list[dict[str, Any]]:
        """Their definitions as a provider's SDK takes them: `openai`, `anthropic`, `gemini`, `mcp` …"""
        return (await self._send("GET", "/v1/tools", DefinitionList, query={"dialect": dialect})).tools

    async def switch_tool(self, name: str, *, enabled: bool) -> ToolDetail:
        return await self._send("PATCH", f"/v1/tools/{name}", ToolDetail, {"enabled": enabled})

    async def call(
        self, tool: str, arguments: Mapping[str, Any] | str | None = None, *, version: str | None = None,
        session: str | None = None, timeout: float | None = None, metadata: Mapping[str, str] | None = None,
        key: str | None = None, wait: float | None = None,
    ) -> StoredCall:  # fmt: skip
        """Call a tool and wait for its end, for `wait` seconds at most where given."""
        body = _given(
            tool=tool, arguments={} if arguments is None else arguments, version=version, session=session,
            timeout=timeout, metadata=metadata,
        )  # fmt: skip
        return await self._send_and_wait("/v1/calls", StoredCall, body, key, wait)

    async def batch(
        self, calls: Sequence[Mapping[str, Any]], *, session: str | None = None, key: str | None = None,
        wait: float | None = None,
    ) -> Batch:  # fmt: skip
        """Make many calls, each as `{"tool": …, "arguments": …, "id": …}`, and wait for all of them."""
        until = None if wait is None else monotonic() + wait
        body = _given(calls=[dict(one) for one in calls], session=session)
        batch = await self._send("POST", "/v1/calls/batch", Batch, body, headers=_headers(key, wait))
        while not all(call.finished for call in batch.calls) and (until is None or monotonic() < until):
            batch = await self._send("GET", f"/v1/batches/{batch.id}", Batch, query={"wait": _seconds_left(until)})
        return batch

    async def get_call(self, call: str, *, wait: float = 0.0) -> StoredCall:
        return await self._send("GET", f"/v1/calls/{call}", StoredCall, query={"wait": int(wait)})

    async def calls(self, *, cursor: str | None = None, limit: int | None = None, **filters: str) -> CallPage:
        """A page of calls, newest first: by `status`, `tool`, `session`, `user`, `batch`."""
        return await self._send("GET", "/v1/calls", CallPage, query={"cursor": cursor, "limit": limit, **filters})

    async def cancel(self, call: str) -> StoredCall:
        return await self._send("POST", f"/v1/calls/{call}/cancel", StoredCall)

    async def stream(
        self, tool: str, arguments: Mapping[str, Any] | str | None = None, *, version: str | None = None,
        session: str | None = None, timeout: float | None = None, key: str | None = None,
    ) -> AsyncIterator[Event]:  # fmt: skip
        """Call a tool and give its events as they happen; a connection that breaks is taken up again."""
        body = _given(
            tool=tool, arguments={} if arguments is None else arguments, version=version, session=session,
            timeout=timeout,
        )  # fmt: skip
        sent: dict[str, Any] = {"json": body, "headers": _headers(key, None) | _EVENTS}
        path, method, tries = "/v1/calls", "POST", self._tries
        while tries:
            try:
                async with aclosing(_read(Event, self._lines(method, path, **sent))) as events:
                    async for event in events:
                        method, path, tries = "GET", f"/v1/calls/{event.call}/events", self._tries
                        sent = {"headers": _EVENTS | {"Last-Event-ID": str(event.id)}}
                        yield event
                        if event.type.removeprefix("call.") in FINISHED:
                            return
            except httpx2.TransportError as error:
                if tries == 1:
                    raise UnreachableError(f"The stream broke: {error or type(error).__name__}") from error
            tries -= 1
            await self._sleep(0.1)
        raise UnreachableError("The stream ended before the call did.")

    def events(self, call: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Events of a call after a number, until its end."""
        headers = _EVENTS | {"Last-Event-ID": str(after)}
        return _read(Event, self._lines("GET", f"/v1/calls/{call}/events", headers=headers))

    async def watch(self, after: str = "") -> AsyncIterator[FeedEvent]:
        """What happens in the tenant from now on, or after an event; a connection that breaks is taken up again.

        After a `reset` something may have been missed: fetch again what you keep.
        """
        tries = self._tries

        async def lines() -> AsyncGenerator[str]:
            nonlocal after, tries
            headers = _EVENTS | ({"Last-Event-ID": after} if after else {})
            last = after
            async with aclosing(self._lines("GET", "/v1/events", headers=headers, timeout=_WATCHING)) as read:
                async for line in read:
                    tries = self._tries
                    if line.startswith("id:"):
                        last = line[3:].strip()
                    elif not line:  # also an id without an event says where to go on
                        after = last
                    yield line

        while True:
            try:
                async with aclosing(_read(FeedEvent, lines())) as events:
                    async for event in events:
                        yield event
            except httpx2.TransportError as error:
                tries -= 1
                if not tries:
                    raise UnreachableError(f"The stream broke: {error or type(error).__name__}") from error
            except ServiceError as error:
                tries -= 1
                if not tries or error.status != 503:
                    raise
            await self._sleep(_AGAIN_SECONDS)

    # Requests, intents and entities

    async def ask(
        self, text: str, *, session: str | None = None, locale: str = "", time_zone: str | None = None,
        cache: bool = True, key: str | None = None, wait: float | None = None,
    ) -> RequestAnswer:  # fmt: skip
        """Make a request in words and wait for its answer; `cache=False` wants a new one."""
        body = _given(
            text=text, session=session, locale=locale or None, time_zone=time_zone, cache=None if cache else False
        )
        return await self._send_and_wait("/v1/requests", RequestAnswer, body, key, wait)

    async def run_intent(
        self, intent: str, inputs: Mapping[str, Any] | None = None, *, session: str | None = None,
        key: str | None = None, wait: float | None = None,
    ) -> RequestAnswer:  # fmt: skip
        """Make a request by the code of an intent. A form that needs more says what, with `needs_input`."""
        body = _given(intent=intent, inputs=inputs, session=session)
        return await self._send_and_wait("/v1/requests", RequestAnswer, body, key, wait)

    async def get_request(self, request: str, *, wait: float = 0.0) -> RequestAnswer:
        return await self._send("GET", f"/v1/requests/{request}", RequestAnswer, query={"wait": int(wait)})

    async def give_results(
        self, request: str, results: Mapping[str, Any], *, wait: float | None = None
    ) -> RequestAnswer:
        """Go on with a request that waits: what its calls gave elsewhere, by the ids of the calls in `waiting`. A
        `ToolError` tells the model why one failed.
        """
        path = f"/v1/requests/{request}"
        until = None if wait is None else monotonic() + wait
        headers = {"Prefer": _headers(None, wait)["Prefer"]}
        body: dict[str, dict[str, Any]] = {"results": {}, "errors": {}}
        for name, given in results.items():
            if isinstance(given, ToolError):
                body["errors"][name] = {"message": given.message, "suggestion": given.suggestion}
            else:
                body["results"][name] = given
        answer = await self._send("POST", f"{path}/results", RequestAnswer, body, headers=headers)
        return await self._until_finished("/v1/requests", RequestAnswer, answer, until)

    async def intents(self) -> list[IntentRecord]:
        return await self._list("intents", IntentRecord)

    async def intent(self, code: str, *, version: int | None = None) -> IntentRecord:
        return await self._send("GET", f"/v1/intents/{code}", IntentRecord, query={"version": version})

    async def put_intent(self, code: str, **intent: Any) -> IntentRecord:
        """Make an intent, or a new version of it: `description`, `parameters`, `handler`, `examples`, `roles` …"""
        return await self._send("PUT", f"/v1/intents/{code}", IntentRecord, intent)

    async def change_intent(
        self, code: str, *, enabled: bool | None = None, version: int | None = None
    ) -> IntentRecord:
        """Switch an intent off or on, or go back to another version."""
        body = _given(enabled=enabled, version=version)
        return await self._send("PATCH", f"/v1/intents/{code}", IntentRecord, body)

    async def delete_intent(self, code: str) -> None:
        await self._send("DELETE", f"/v1/intents/{code}", _NoContent)

    async def entities(self) -> list[EntityRecord]:
        return await self._list("entities", EntityRecord)

    async def entity(self, name: str) -> EntityRecord:
        return await self._send("GET", f"/v1/entities/{name}", EntityRecord)

    async def clear_cache(self, *, everyone: bool = False) -> int:
        """Forget the cached answers of this user, or of all users of the tenant; gives how many there were."""
        query = {"everyone": "true" if everyone else None}
        return (await self._send("DELETE", "/v1/cache", Removed, query=query)).removed

    # Approvals

    async def approvals(self, *, status: str = "pending") -> list[ApprovalRecord]:
        return await self._list("approvals", ApprovalRecord, {"status": status})

    async def approval(self, approval: str) -> ApprovalRecord:
        return await self._send("GET", f"/v1/approvals/{approval}", ApprovalRecord)

    async def approve(
        self, approval: ApprovalRecord, *, scope: ApprovalScope = "once", reason: str = ""
    ) -> ApprovalRecord:
        """Let a call run with the arguments that were shown, and no others."""
        return await self._decide(approval, "approve", scope, reason)

    async def deny(self, approval: ApprovalRecord, *, reason: str = "") -> ApprovalRecord:
        return await self._decide(approval, "deny", "once", reason)

    async def _decide(self, approval: ApprovalRecord, decision: str, scope: str, reason: str) -> ApprovalRecord:
        body = {"decision": decision, "args_hash": approval.args_hash, "scope": scope, "reason": reason}
        return await self._send("POST", f"/v1/approvals/{approval.id}/decision", ApprovalRecord, body)

    # Administration

    async def tenants(self) -> list[Tenant]:
        return await self._list("tenants", Tenant, _LARGE_PAGES)

    async def create_tenant(
        self, name: str, *, display_name: str = "", limits: Mapping[str, Any] | None = None
    ) -> Tenant:
        body = _given(name=name, display_name=display_name, limits=limits)
        return await self._send("POST", "/v1/tenants", Tenant, body)

    async def change_tenant(self, name: str, **changes: Any) -> Tenant:
        return await self._send("PATCH", f"/v1/tenants/{name}", Tenant, changes)

    async def users(self) -> list[User]:
        return await self._list("users", User, _LARGE_PAGES)

    async def create_user(
        self, name: str, *, roles: Sequence[str] = ("member",), limits: Mapping[str, Any] | None = None
    ) -> User:
        body = _given(name=name, roles=list(roles), limits=limits)
        return await self._send("POST", "/v1/users", User, body)

    async def change_user(self, name: str, **changes: Any) -> User:
        return await self._send("PATCH", f"/v1/users/{name}", User, changes)

    async def delete_user(self, name: str) -> None:
        await self._send("DELETE", f"/v1/users/{name}", _NoContent)

    async def roles(self) -> list[TenantRole]:
        return await self._list("roles", TenantRole)

    async def put_role(
        self, name: str, *, mode: str | None = None, allow: Sequence[str] = (), ask: Sequence[str] = (),
        deny: Sequence[str] = (),
    ) -> TenantRole:  # fmt: skip
        body = {"mode": mode, "allow": list(allow), "ask": list(ask), "deny": list(deny)}
        return await self._send("PUT", f"/v1/roles/{name}", TenantRole, body)

    async def delete_role(self, name: str) -> None:
        await self._send("DELETE", f"/v1/roles/{name}", _NoContent)

    async def keys(self) -> list[ApiKey]:
        return await self._list("keys", ApiKey, _LARGE_PAGES)

    async def create_key(
        self, user: str, *, name: str = "", scopes: Sequence[str] | None = None, expires_in: float | None = None,
        limits: Mapping[str, Any] | None = None, tenant: str | None = None,
    ) -> NewApiKey:  # fmt: skip
        """A key of a user; `secret` is in this answer and in no other."""
        chosen = None if scopes is None else list(scopes)
        body = _given(user=user, name=name, scopes=chosen, expires_in=expires_in, limits=limits, tenant=tenant)
        return await self._send("POST", "/v1/keys", NewApiKey, body)

    async def rotate_key(self, key: str, *, overlap: float = 0.0) -> NewApiKey:
        return await self._send("POST", f"/v1/keys/{key}/rotate", NewApiKey, {"overlap": overlap})

    async def revoke_key(self, key: str) -> ApiKey:
        return await self._send("DELETE", f"/v1/keys/{key}", ApiKey)

    async def audit(self, *, after: int = 0, limit: int = 100) -> AuditPage:
        return await self._send("GET", "/v1/audit", AuditPage, query={"after": after, "limit": limit})

    async def verify_audit(self) -> AuditVerification:
        return await self._send("GET", "/v1/audit/verify", AuditVerification)

    async def usage(self, day: str | None = None) -> DailyUsage:
        return await self._send("GET", "/v1/usage", DailyUsage, query={"day": day})


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _headers(key: str | None, wait: float | None) -> dict[str, str]:
    seconds = LONGEST_WAIT if wait is None else min(max(wait, 0.0), LONGEST_WAIT)
    return {"Idempotency-Key": key or uuid.uuid4().hex, "Prefer": f"wait={seconds:g}"}


def _seconds_left(until: float | None) -> int:
    return int(LONGEST_WAIT if until is None else min(LONGEST_WAIT, max(0.0, until - monotonic())))


def _given(**values: Any) -> dict[str, Any]:
    """Those that are not None, as JSON takes them."""
    return {
        name: dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }


def _error_of(response: httpx2.Response, content: bytes) -> ServiceError:
    document: dict[str, Any] = {}
    try:
        document = json.loads(content)
        problem = ProblemDetails.model_validate(document)
    except ValueError:  # something between here and the service answered
        status = response.status_code
        problem = ProblemDetails(
            type="about:blank", title="Error", status=status, detail=f"The answer was {status}.", code="foreign",
            request_id=response.headers.get("x-request-id", "-"),
        )  # fmt: skip
    after = response.headers.get("retry-after", "")
    return ServiceError(problem, float(after) if after.isdigit() else None, document.get("call"))


async def _read(form: type[_M], lines: AsyncGenerator[str]) -> AsyncGenerator[_M]:
    """The events of a stream, put together from its lines."""
    data: list[str] = []
    async with aclosing(lines):
        async for line in lines:
            if line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif not line and data:
                yield form.model_validate_json("\n".join(data))
                data = []


# The same without `await`


class _BlockingClient(AsyncClient):
    """Its requests block, so that none of its coroutines ever suspends and `_finish` can run them without a loop."""

    def __init__(self, http: httpx2.Client, tries: int) -> None:  # pyright: ignore[reportMissingSuperCall]
        self._tries = tries
        self._blocking = http

    async def _close(self) -> None:
        self._blocking.close()

    async def _request(self, method: str, path: str, **sent: Any) -> httpx2.Response:
        return self._blocking.request(method, path, **sent)

    async def _lines(self, method: str, path: str, **sent: Any) -> AsyncGenerator[str]:
        with self._blocking.stream(method, path, **sent) as response:
            if response.status_code >= 400:
                raise _error_of(response, response.read())
            for line in response.iter_lines():
                yield line

    async def _sleep(self, seconds: float) -> None:
        sleep(seconds)  # noqa: ASYNC251 - there is no loop that it could hold up


def _finish(work: Coroutine[Any, Any, _T]) -> _T:
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("A blocking client cannot wait for an event loop.")


def _blocking(
    method: Callable[Concatenate[AsyncClient, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Client, _P], _T]:
    @wraps(method)
    def run(self: Client, /, *args: _P.args, **options: _P.kwargs) -> _T:
        return _finish(method(self._client, *args, **options))  # pyright: ignore[reportPrivateUsage]

    return run


def _iterating(
    method: Callable[Concatenate[AsyncClient, _P], AsyncIterator[_T]],
) -> Callable[Concatenate[Client, _P], Iterator[_T]]:
    @wraps(method)
    def run(self: Client, /, *args: _P.args, **options: _P.kwargs) -> Iterator[_T]:
        made = method(self._client, *args, **options)  # pyright: ignore[reportPrivateUsage]
        events = cast("AsyncGenerator[_T]", made)
        try:
            while True:
                yield _finish(events.__anext__())
        except StopAsyncIteration:
            return
        finally:
            _finish(events.aclose())

    return run


class Client:
    """`AsyncClient` without `await`: every method does the same and is described there. Safe from several threads."""

    def __init__(
        self, url: str, key: str, *, transport: httpx2.BaseTransport | None = None, tries: int = _TRIES
    ) -> None:
        """`tries` is how often a request is sent that can be sent again."""
        http = httpx2.Client(base_url=url, headers=_bearer(key), timeout=_TIMEOUT, transport=transport)
        self._client = _BlockingClient(http, tries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    close = _blocking(AsyncClient.close)
    me = _blocking(AsyncClient.me)
    tools = _blocking(AsyncClient.tools)
    tool = _blocking(AsyncClient.tool)
    definitions = _blocking(AsyncClient.definitions)
    switch_tool = _blocking(AsyncClient.switch_tool)
    call = _blocking(AsyncClient.call)
    batch = _blocking(AsyncClient.batch)
    get_call = _blocking(AsyncClient.get_call)
    calls = _blocking(AsyncClient.calls)
    cancel = _blocking(AsyncClient.cancel)
    stream = _iterating(AsyncClient.stream)
    events = _iterating(AsyncClient.events)
    watch = _iterating(AsyncClient.watch)
    ask = _blocking(AsyncClient.ask)
    run_intent = _blocking(AsyncClient.run_intent)
    get_request = _blocking(AsyncClient.get_request)
    give_results = _blocking(AsyncClient.give_results)
    intents = _blocking(AsyncClient.intents)
    intent = _blocking(AsyncClient.intent)
    put_intent = _blocking(AsyncClient.put_intent)
    change_intent = _blocking(AsyncClient.change_intent)
    delete_intent = _blocking(AsyncClient.delete_intent)
    entities = _blocking(AsyncClient.entities)
    entity = _blocking(AsyncClient.entity)
    clear_cache = _blocking(AsyncClient.clear_cache)
    approvals = _blocking(AsyncClient.approvals)
    approval = _blocking(AsyncClient.approval)
    approve = _blocking(AsyncClient.approve)
    deny = _blocking(AsyncClient.deny)
    tenants = _blocking(AsyncClient.tenants)
    create_tenant = _blocking(AsyncClient.create_tenant)
    change_tenant = _blocking(AsyncClient.change_tenant)
    users = _blocking(AsyncClient.users)
    create_user = _blocking(AsyncClient.create_user)
    change_user = _blocking(AsyncClient.change_user)
    delete_user = _blocking(AsyncClient.delete_user)
    roles = _blocking(AsyncClient.roles)
    put_role = _blocking(AsyncClient.put_role)
    delete_role = _blocking(AsyncClient.delete_role)
    keys = _blocking(AsyncClient.keys)
    create_key = _blocking(AsyncClient.create_key)
    rotate_key = _blocking(AsyncClient.rotate_key)
    revoke_key = _blocking(AsyncClient.revoke_key)
    audit = _blocking(AsyncClient.audit)
    verify_audit = _blocking(AsyncClient.verify_audit)
    usage = _blocking(AsyncClient.usage)
