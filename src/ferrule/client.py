"""Calls a Ferrule service from Python: `Client`, and `AsyncClient` for code with `await`.

    with Client("http://127.0.0.1:8760", "fk_…") as client:
        print(client.call("getCurrentDateTime").result.llm_content)

A call is sent with an idempotency key of its own, so that one whose connection broke is sent again and still made once.
"""

from __future__ import annotations

import asyncio
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from pydantic import BaseModel

from ferrule.core.errors import MissingExtra
from ferrule.service.client_requests import (
    ApiRequest,
    EventLines,
    NoContent,
    ServiceError,
    Unreachable,
    batch_request,
    call_request,
    decision_request,
    error_of,
    given,
    key_request,
    resumed,
    role_request,
    seconds_left,
    stream_of,
    words_request,
)
from ferrule.service.messages import (
    LONGEST_WAIT,
    ApiKey,
    ApprovalPage,
    ApprovalRecord,
    AuditPage,
    AuditVerification,
    Batch,
    CallPage,
    DailyUsage,
    DefinitionList,
    EntityList,
    EntityRecord,
    Event,
    FeedEvent,
    Identity,
    IntentList,
    IntentRecord,
    KeyList,
    NewApiKey,
    Removed,
    RequestAnswer,
    RoleList,
    StoredCall,
    Tenant,
    TenantList,
    TenantRole,
    ToolDetail,
    ToolList,
    ToolSummary,
    User,
    UserList,
)

try:
    import httpx2
except ModuleNotFoundError:
    raise MissingExtra("ferrule.client", "client") from None

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

__all__ = ["AsyncClient", "Client", "ServiceError", "Unreachable"]

_M = TypeVar("_M", bound=BaseModel)
_TRIES = 3
_FINISHED = frozenset({"call.succeeded", "call.failed", "call.cancelled", "call.expired", "call.lost"})
_TIMEOUT = httpx2.Timeout(10.0, read=LONGEST_WAIT + 15.0)
_WATCHING = httpx2.Timeout(10.0, read=60.0)
"""The service says something every 15 seconds, if only that it is still there."""
_AGAIN_SECONDS = 0.5


class Client:
    """A service at a URL, as one API key sees it. Safe from several threads."""

    def __init__(
        self, url: str, key: str, *, transport: httpx2.BaseTransport | None = None, tries: int = _TRIES
    ) -> None:
        """`tries` is how often a request is sent that can be sent again."""
        self._tries = tries
        self._http = httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=_TIMEOUT, transport=transport
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _send(self, request: ApiRequest[_M]) -> _M:
        for attempt in range(self._tries):
            last = attempt == self._tries - 1 or not request.can_be_repeated
            try:
                return request.read(self._http.request(request.method, request.path, **request.sent))
            except httpx2.TransportError as error:
                if last:
                    raise Unreachable(f"The service did not answer: {error or type(error).__name__}") from error
                sleep(0.1 * 2**attempt)
            except ServiceError as error:
                if last or error.status != 503:
                    raise
                sleep(min(error.retry_after or 1.0, 5.0))
        raise Unreachable("The service did not answer.")

    # Tools and calls

    def me(self) -> Identity:
        return self._send(ApiRequest("GET", "/v1/me", Identity))

    def tools(self, *, query: str | None = None, category: str | None = None) -> list[ToolSummary]:
        """The tools that this key may use."""
        return self._send(ApiRequest("GET", "/v1/tools", ToolList, query={"q": query, "category": category})).tools

    def tool(self, name: str) -> ToolDetail:
        return self._send(ApiRequest("GET", f"/v1/tools/{name}", ToolDetail))

    def definitions(self, dialect: str) -> list[dict[str, Any]]:
        """Their definitions as a provider's SDK takes them: `openai`, `anthropic`, `gemini`, `mcp` …"""
        return self._send(ApiRequest("GET", "/v1/tools", DefinitionList, query={"dialect": dialect})).tools

    def switch_tool(self, name: str, *, enabled: bool) -> ToolDetail:
        return self._send(ApiRequest("PATCH", f"/v1/tools/{name}", ToolDetail, {"enabled": enabled}))

    def call(
        self, tool: str, arguments: Mapping[str, Any] | str | None = None, *, version: str | None = None,
        session: str | None = None, timeout: float | None = None, metadata: Mapping[str, str] | None = None,
        key: str | None = None, wait: float | None = None,
    ) -> StoredCall:  # fmt: skip
        """Call a tool and wait for its end, for `wait` seconds at most where given."""
        until = None if wait is None else monotonic() + wait
        request = call_request(
            tool, arguments, version=version, session=session, timeout=timeout, metadata=metadata, key=key, wait=wait
        )
        try:
            call = self._send(request)
        except ServiceError as error:
            if error.code != "key_in_flight" or error.call is None:
                raise
            call = self.get_call(error.call)
        while not call.finished and (until is None or monotonic() < until):
            call = self.get_call(call.id, wait=seconds_left(until))
        return call

    def batch(
        self, calls: Sequence[Mapping[str, Any]], *, session: str | None = None, key: str | None = None,
        wait: float | None = None,
    ) -> Batch:  # fmt: skip
        """Make many calls, each as `{"tool": …, "arguments": …, "id": …}`, and wait for all of them."""
        until = None if wait is None else monotonic() + wait
        batch = self._send(batch_request(calls, session, key, wait))
        while not all(call.finished for call in batch.calls) and (until is None or monotonic() < until):
            query = {"wait": int(seconds_left(until))}
            batch = self._send(ApiRequest("GET", f"/v1/batches/{batch.id}", Batch, query=query))
        return batch

    def get_call(self, call: str, *, wait: float = 0.0) -> StoredCall:
        return self._send(ApiRequest("GET", f"/v1/calls/{call}", StoredCall, query={"wait": int(wait)}))

    def calls(self, *, cursor: str | None = None, limit: int | None = None, **filters: str) -> CallPage:
        """A page of calls, newest first: by `status`, `tool`, `session`, `user`, `batch`."""
        return self._send(ApiRequest("GET", "/v1/calls", CallPage, query={"cursor": cursor, "limit": limit, **filters}))

    def cancel(self, call: str) -> StoredCall:
        return self._send(ApiRequest("POST", f"/v1/calls/{call}/cancel", StoredCall))

    def stream(
        self, tool: str, arguments: Mapping[str, Any] | str | None = None, *, version: str | None = None,
        session: str | None = None, timeout: float | None = None, key: str | None = None,
    ) -> Iterator[Event]:  # fmt: skip
        """Call a tool and give its events as they happen; a connection that breaks is taken up again."""
        request = call_request(
            tool, arguments, version=version, session=session, timeout=timeout, metadata=None, key=key, wait=None
        )
        call, last, tries = "", 0, self._tries
        while tries:
            try:
                for event in self._events(request if not call else None, call, last):
                    call, last, tries = event.call, event.id, self._tries
                    yield event
                    if event.type in _FINISHED:
                        return
            except httpx2.TransportError as error:
                if tries == 1:
                    raise Unreachable(f"The stream broke: {error or type(error).__name__}") from error
            tries -= 1
            sleep(0.1)
        raise Unreachable("The stream ended before the call did.")

    def events(self, call: str, *, after: int = 0) -> Iterator[Event]:
        """Events of a call after a number, until its end."""
        return self._events(None, call, after)

    def _events(self, request: ApiRequest[StoredCall] | None, call: str, after: int) -> Iterator[Event]:
        method, path, sent = stream_of(request, call, after)
        lines = EventLines(Event)
        with self._http.stream(method, path, **sent) as response:
            if response.status_code >= 400:
                raise error_of(response.status_code, response.read(), response.headers)
            for line in response.iter_lines():
                if (event := lines.add(line)) is not None:
                    yield event

    def watch(self, after: str = "") -> Iterator[FeedEvent]:
        """What happens in the tenant from now on, or after an event; a connection that breaks is taken up again.

        After a `reset` something may have been missed: fetch again what you keep.
        """
        lines, tries = EventLines(FeedEvent, after), self._tries
        while True:
            try:
                with self._http.stream("GET", "/v1/events", headers=resumed(lines.last), timeout=_WATCHING) as response:
                    if response.status_code >= 400:
                        raise error_of(response.status_code, response.read(), response.headers)
                    for line in response.iter_lines():
                        tries = self._tries
                        if (event := lines.add(line)) is not None:
                            yield event
            except httpx2.TransportError as error:
                tries -= 1
                if not tries:
                    raise Unreachable(f"The stream broke: {error or type(error).__name__}") from error
            except ServiceError as error:
                tries -= 1
                if not tries or error.status != 503:
                    raise
            sleep(_AGAIN_SECONDS)

    # Requests, intents and entities

    def ask(
        self, text: str, *, session: str | None = None, locale: str = "", time_zone: str | None = None,
        cache: bool = True, key: str | None = None, wait: float | None = None,
    ) -> RequestAnswer:  # fmt: skip
        """Make a request in words and wait for its answer; `cache=False` wants a new one."""
        made = words_request(
            text, None, session=session, locale=locale, time_zone=time_zone, cache=cache, key=key, wait=wait
        )
        return self._answered(made, wait)

    def run_intent(
        self, intent: str, inputs: Mapping[str, Any] | None = None, *, session: str | None = None,
        key: str | None = None, wait: float | None = None,
    ) -> RequestAnswer:  # fmt: skip
        """Make a request by the code of an intent. A form that needs more says what, with `needs_input`."""
        made = words_request(None, intent, inputs, session=session, key=key, wait=wait)
        return self._answered(made, wait)

    def _answered(self, request: ApiRequest[RequestAnswer], wait: float | None) -> RequestAnswer:
        until = None if wait is None else monotonic() + wait
        try:
            answer = self._send(request)
        except ServiceError as error:
            if error.code != "key_in_flight" or error.call is None:
                raise
            answer = self.get_request(error.call)
        while not answer.finished and (until is None or monotonic() < until):
            answer = self.get_request(answer.id, wait=seconds_left(until))
        return answer

    def get_request(self, request: str, *, wait: float = 0.0) -> RequestAnswer:
        return self._send(ApiRequest("GET", f"/v1/requests/{request}", RequestAnswer, query={"wait": int(wait)}))

    def intents(self) -> list[IntentRecord]:
        return self._send(ApiRequest("GET", "/v1/intents", IntentList)).intents

    def intent(self, code: str, *, version: int | None = None) -> IntentRecord:
        return self._send(ApiRequest("GET", f"/v1/intents/{code}", IntentRecord, query={"version": version}))

    def put_intent(self, code: str, **intent: Any) -> IntentRecord:
        """Make an intent, or a new version of it: `description`, `parameters`, `handler`, `examples`, `roles` …"""
        return self._send(ApiRequest("PUT", f"/v1/intents/{code}", IntentRecord, intent))

    def change_intent(self, code: str, *, enabled: bool | None = None, version: int | None = None) -> IntentRecord:
        """Switch an intent off or on, or go back to another version."""
        body = given(enabled=enabled, version=version)
        return self._send(ApiRequest("PATCH", f"/v1/intents/{code}", IntentRecord, body))

    def delete_intent(self, code: str) -> None:
        self._send(ApiRequest("DELETE", f"/v1/intents/{code}", NoContent))

    def entities(self) -> list[EntityRecord]:
        return self._send(ApiRequest("GET", "/v1/entities", EntityList)).entities

    def entity(self, name: str) -> EntityRecord:
        return self._send(ApiRequest("GET", f"/v1/entities/{name}", EntityRecord))

    def clear_cache(self, *, everyone: bool = False) -> int:
        """Forget the cached answers of this user, or of all users of the tenant; gives how many there were."""
        query = {"everyone": "true" if everyone else None}
        return self._send(ApiRequest("DELETE", "/v1/cache", Removed, query=query)).removed

    # Approvals

    def approvals(self, *, status: str = "pending") -> list[ApprovalRecord]:
        return self._send(ApiRequest("GET", "/v1/approvals", ApprovalPage, query={"status": status})).approvals

    def approval(self, approval: str) -> ApprovalRecord:
        return self._send(ApiRequest("GET", f"/v1/approvals/{approval}", ApprovalRecord))

    def approve(
        self, approval: ApprovalRecord, *, scope: Literal["once", "always"] = "once", reason: str = ""
    ) -> ApprovalRecord:
        """Let a call run with the arguments that were shown, and no others."""
        return self._send(decision_request(approval, "approve", scope, reason))

    def deny(self, approval: ApprovalRecord, *, reason: str = "") -> ApprovalRecord:
        return self._send(decision_request(approval, "deny", "once", reason))

    # Administration

    def tenants(self) -> list[Tenant]:
        return self._send(ApiRequest("GET", "/v1/tenants", TenantList)).tenants

    def create_tenant(self, name: str, *, display_name: str = "", limits: Mapping[str, Any] | None = None) -> Tenant:
        body = given(name=name, display_name=display_name, limits=dict(limits) if limits else None)
        return self._send(ApiRequest("POST", "/v1/tenants", Tenant, body))

    def change_tenant(self, name: str, **changes: Any) -> Tenant:
        return self._send(ApiRequest("PATCH", f"/v1/tenants/{name}", Tenant, changes))

    def users(self) -> list[User]:
        return self._send(ApiRequest("GET", "/v1/users", UserList)).users

    def create_user(
        self, name: str, *, roles: Sequence[str] = ("member",), limits: Mapping[str, Any] | None = None
    ) -> User:
        body = given(name=name, roles=list(roles), limits=dict(limits) if limits else None)
        return self._send(ApiRequest("POST", "/v1/users", User, body))

    def change_user(self, name: str, **changes: Any) -> User:
        return self._send(ApiRequest("PATCH", f"/v1/users/{name}", User, changes))

    def delete_user(self, name: str) -> None:
        self._send(ApiRequest("DELETE", f"/v1/users/{name}", NoContent))

    def roles(self) -> list[TenantRole]:
        return self._send(ApiRequest("GET", "/v1/roles", RoleList)).roles

    def put_role(
        self, name: str, *, mode: str | None = None, allow: Sequence[str] = (), ask: Sequence[str] = (),
        deny: Sequence[str] = (),
    ) -> TenantRole:  # fmt: skip
        return self._send(role_request(name, mode, allow, ask, deny))

    def delete_role(self, name: str) -> None:
        self._send(ApiRequest("DELETE", f"/v1/roles/{name}", NoContent))

    def keys(self) -> list[ApiKey]:
        return self._send(ApiRequest("GET", "/v1/keys", KeyList)).keys

    def create_key(
        self, user: str, *, name: str = "", scopes: Sequence[str] | None = None, expires_in: float | None = None,
        limits: Mapping[str, Any] | None = None, tenant: str | None = None,
    ) -> NewApiKey:  # fmt: skip
        """A key of a user; `secret` is in this answer and in no other."""
        return self._send(key_request(user, name, scopes, expires_in, limits, tenant))

    def rotate_key(self, key: str, *, overlap: float = 0.0) -> NewApiKey:
        return self._send(ApiRequest("POST", f"/v1/keys/{key}/rotate", NewApiKey, {"overlap": overlap}))

    def revoke_key(self, key: str) -> ApiKey:
        return self._send(ApiRequest("DELETE", f"/v1/keys/{key}", ApiKey))

    def audit(self, *, after: int = 0, limit: int = 100) -> AuditPage:
        return self._send(ApiRequest("GET", "/v1/audit", AuditPage, query={"after": after, "limit": limit}))

    def verify_audit(self) -> AuditVerification:
        return self._send(ApiRequest("GET", "/v1/audit/verify", AuditVerification))

    def usage(self, day: str | None = None) -> DailyUsage:
        return self._send(ApiRequest("GET", "/v1/usage", DailyUsage, query={"day": day}))


class AsyncClient:
    """The same for code with `await`."""

    def __init__(
        self, url: str, key: str, *, transport: httpx2.AsyncBaseTransport | None = None, tries: int = _TRIES
    ) -> None:
        """`tries` is how often a request is sent that can be sent again."""
        self._tries = tries
        self._http = httpx2.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=_TIMEOUT, transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def _send(self, request: ApiRequest[_M]) -> _M:
        for attempt in range(self._tries):
            last = attempt == self._tries - 1 or not request.can_be_repeated
            try:
                return request.read(await self._http.request(request.method, request.path, **request.sent))
            except httpx2.TransportError as error:
                if last:
                    raise Unreachable(f"The service did not answer: {error or type(error).__name__}") from error
                await asyncio.sleep(0.1 * 2**attempt)
            except ServiceError as error:
                if last or error.status != 503:
                    raise
                await asyncio.sleep(min(error.retry_after or 1.0, 5.0))
        raise Unreachable("The service did not answer.")

    # Tools and calls

    async def me(self) -> Identity:
        return await self._send(ApiRequest("GET", "/v1/me", Identity))

    async def tools(self, *, query: str | None = None, category: str | None = None) -> list[ToolSummary]:
        """The tools that this key may use."""
        return (
            await self._send(ApiRequest("GET", "/v1/tools", ToolList, query={"q": query, "category": category}))
        ).tools

    async def tool(self, name: str) -> ToolDetail:
        return await self._send(ApiRequest("GET", f"/v1/tools/{name}", ToolDetail))

    async def definitions(self, dialect: str) -> list[dict[str, Any]]:
        """Their definitions as a provider's SDK takes them: `openai`, `anthropic`, `gemini`, `mcp` …"""
        return (await self._send(ApiRequest("GET", "/v1/tools", DefinitionList, query={"dialect": dialect}))).tools

    async def switch_tool(self, name: str, *, enabled: bool) -> ToolDetail:
        return await self._send(ApiRequest("PATCH", f"/v1/tools/{name}", ToolDetail, {"enabled": enabled}))

    async def call(
        self, tool: str, arguments: Mapping[str, Any] | str | None = None, *, version: str | None = None,
        session: str | None = None, timeout: float | None = None, metadata: Mapping[str, str] | None = None,
        key: str | None = None, wait: float | None = None,
    ) -> StoredCall:  # fmt: skip
        """Call a tool and wait for its end, for `wait` seconds at most where given."""
        until = None if wait is None else monotonic() + wait
        request = call_request(
            tool, arguments, version=version, session=session, timeout=timeout, metadata=metadata, key=key, wait=wait
        )
        try:
            call = await self._send(request)
        except ServiceError as error:
            if error.code != "key_in_flight" or error.call is None:
                raise
            call = await self.get_call(error.call)
        while not call.finished and (until is None or monotonic() < until):
            call = await self.get_call(call.id, wait=seconds_left(until))
        return call

    async def batch(
        self, calls: Sequence[Mapping[str, Any]], *, session: str | None = None, key: str | None = None,
        wait: float | None = None,
    ) -> Batch:  # fmt: skip
        """Make many calls, each as `{"tool": …, "arguments": …, "id": …}`, and wait for all of them."""
        until = None if wait is None else monotonic() + wait
        batch = await self._send(batch_request(calls, session, key, wait))
        while not all(call.finished for call in batch.calls) and (until is None or monotonic() < until):
            query = {"wait": int(seconds_left(until))}
            batch = await self._send(ApiRequest("GET", f"/v1/batches/{batch.id}", Batch, query=query))
        return batch

    async def get_call(self, call: str, *, wait: float = 0.0) -> StoredCall:
        return await self._send(ApiRequest("GET", f"/v1/calls/{call}", StoredCall, query={"wait": int(wait)}))

    async def calls(self, *, cursor: str | None = None, limit: int | None = None, **filters: str) -> CallPage:
        """A page of calls, newest first: by `status`, `tool`, `session`, `user`, `batch`."""
        return await self._send(
            ApiRequest("GET", "/v1/calls", CallPage, query={"cursor": cursor, "limit": limit, **filters})
        )

    async def cancel(self, call: str) -> StoredCall:
        return await self._send(ApiRequest("POST", f"/v1/calls/{call}/cancel", StoredCall))

    async def stream(
        self, tool: str, arguments: Mapping[str, Any] | str | None = None, *, version: str | None = None,
        session: str | None = None, timeout: float | None = None, key: str | None = None,
    ) -> AsyncIterator[Event]:  # fmt: skip
        """Call a tool and give its events as they happen; a connection that breaks is taken up again."""
        request = call_request(
            tool, arguments, version=version, session=session, timeout=timeout, metadata=None, key=key, wait=None
        )
        call, last, tries = "", 0, self._tries
        while tries:
            try:
                async for event in self._events(request if not call else None, call, last):
                    call, last, tries = event.call, event.id, self._tries
                    yield event
                    if event.type in _FINISHED:
                        return
            except httpx2.TransportError as error:
                if tries == 1:
                    raise Unreachable(f"The stream broke: {error or type(error).__name__}") from error
            tries -= 1
            await asyncio.sleep(0.1)
        raise Unreachable("The stream ended before the call did.")

    def events(self, call: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Events of a call after a number, until its end."""
        return self._events(None, call, after)

    async def _events(self, request: ApiRequest[StoredCall] | None, call: str, after: int) -> AsyncIterator[Event]:
        method, path, sent = stream_of(request, call, after)
        lines = EventLines(Event)
        async with self._http.stream(method, path, **sent) as response:
            if response.status_code >= 400:
                raise error_of(response.status_code, await response.aread(), response.headers)
            async for line in response.aiter_lines():
                if (event := lines.add(line)) is not None:
                    yield event

    async def watch(self, after: str = "") -> AsyncIterator[FeedEvent]:
        """What happens in the tenant from now on, or after an event; a connection that breaks is taken up again.

        After a `reset` something may have been missed: fetch again what you keep.
        """
        lines, tries = EventLines(FeedEvent, after), self._tries
        while True:
            try:
                async with self._http.stream(
                    "GET", "/v1/events", headers=resumed(lines.last), timeout=_WATCHING
                ) as response:
                    if response.status_code >= 400:
                        raise error_of(response.status_code, await response.aread(), response.headers)
                    async for line in response.aiter_lines():
                        tries = self._tries
                        if (event := lines.add(line)) is not None:
                            yield event
            except httpx2.TransportError as error:
                tries -= 1
                if not tries:
                    raise Unreachable(f"The stream broke: {error or type(error).__name__}") from error
            except ServiceError as error:
                tries -= 1
                if not tries or error.status != 503:
                    raise
            await asyncio.sleep(_AGAIN_SECONDS)

    # Requests, intents and entities

    async def ask(
        self, text: str, *, session: str | None = None, locale: str = "", time_zone: str | None = None,
        cache: bool = True, key: str | None = None, wait: float | None = None,
    ) -> RequestAnswer:  # fmt: skip
        """Make a request in words and wait for its answer; `cache=False` wants a new one."""
        made = words_request(
            text, None, session=session, locale=locale, time_zone=time_zone, cache=cache, key=key, wait=wait
        )
        return await self._answered(made, wait)

    async def run_intent(
        self, intent: str, inputs: Mapping[str, Any] | None = None, *, session: str | None = None,
        key: str | None = None, wait: float | None = None,
    ) -> RequestAnswer:  # fmt: skip
        """Make a request by the code of an intent. A form that needs more says what, with `needs_input`."""
        made = words_request(None, intent, inputs, session=session, key=key, wait=wait)
        return await self._answered(made, wait)

    async def _answered(self, request: ApiRequest[RequestAnswer], wait: float | None) -> RequestAnswer:
        until = None if wait is None else monotonic() + wait
        try:
            answer = await self._send(request)
        except ServiceError as error:
            if error.code != "key_in_flight" or error.call is None:
                raise
            answer = await self.get_request(error.call)
        while not answer.finished and (until is None or monotonic() < until):
            answer = await self.get_request(answer.id, wait=seconds_left(until))
        return answer

    async def get_request(self, request: str, *, wait: float = 0.0) -> RequestAnswer:
        return await self._send(ApiRequest("GET", f"/v1/requests/{request}", RequestAnswer, query={"wait": int(wait)}))

    async def intents(self) -> list[IntentRecord]:
        return (await self._send(ApiRequest("GET", "/v1/intents", IntentList))).intents

    async def intent(self, code: str, *, version: int | None = None) -> IntentRecord:
        return await self._send(ApiRequest("GET", f"/v1/intents/{code}", IntentRecord, query={"version": version}))

    async def put_intent(self, code: str, **intent: Any) -> IntentRecord:
        """Make an intent, or a new version of it: `description`, `parameters`, `handler`, `examples`, `roles` …"""
        return await self._send(ApiRequest("PUT", f"/v1/intents/{code}", IntentRecord, intent))

    async def change_intent(
        self, code: str, *, enabled: bool | None = None, version: int | None = None
    ) -> IntentRecord:
        """Switch an intent off or on, or go back to another version."""
        body = given(enabled=enabled, version=version)
        return await self._send(ApiRequest("PATCH", f"/v1/intents/{code}", IntentRecord, body))

    async def delete_intent(self, code: str) -> None:
        await self._send(ApiRequest("DELETE", f"/v1/intents/{code}", NoContent))

    async def entities(self) -> list[EntityRecord]:
        return (await self._send(ApiRequest("GET", "/v1/entities", EntityList))).entities

    async def entity(self, name: str) -> EntityRecord:
        return await self._send(ApiRequest("GET", f"/v1/entities/{name}", EntityRecord))

    async def clear_cache(self, *, everyone: bool = False) -> int:
        """Forget the cached answers of this user, or of all users of the tenant; gives how many there were."""
        query = {"everyone": "true" if everyone else None}
        return (await self._send(ApiRequest("DELETE", "/v1/cache", Removed, query=query))).removed

    # Approvals

    async def approvals(self, *, status: str = "pending") -> list[ApprovalRecord]:
        return (await self._send(ApiRequest("GET", "/v1/approvals", ApprovalPage, query={"status": status}))).approvals

    async def approval(self, approval: str) -> ApprovalRecord:
        return await self._send(ApiRequest("GET", f"/v1/approvals/{approval}", ApprovalRecord))

    async def approve(
        self, approval: ApprovalRecord, *, scope: Literal["once", "always"] = "once", reason: str = ""
    ) -> ApprovalRecord:
        """Let a call run with the arguments that were shown, and no others."""
        return await self._send(decision_request(approval, "approve", scope, reason))

    async def deny(self, approval: ApprovalRecord, *, reason: str = "") -> ApprovalRecord:
        return await self._send(decision_request(approval, "deny", "once", reason))

    # Administration

    async def tenants(self) -> list[Tenant]:
        return (await self._send(ApiRequest("GET", "/v1/tenants", TenantList))).tenants

    async def create_tenant(
        self, name: str, *, display_name: str = "", limits: Mapping[str, Any] | None = None
    ) -> Tenant:
        body = given(name=name, display_name=display_name, limits=dict(limits) if limits else None)
        return await self._send(ApiRequest("POST", "/v1/tenants", Tenant, body))

    async def change_tenant(self, name: str, **changes: Any) -> Tenant:
        return await self._send(ApiRequest("PATCH", f"/v1/tenants/{name}", Tenant, changes))

    async def users(self) -> list[User]:
        return (await self._send(ApiRequest("GET", "/v1/users", UserList))).users

    async def create_user(
        self, name: str, *, roles: Sequence[str] = ("member",), limits: Mapping[str, Any] | None = None
    ) -> User:
        body = given(name=name, roles=list(roles), limits=dict(limits) if limits else None)
        return await self._send(ApiRequest("POST", "/v1/users", User, body))

    async def change_user(self, name: str, **changes: Any) -> User:
        return await self._send(ApiRequest("PATCH", f"/v1/users/{name}", User, changes))

    async def delete_user(self, name: str) -> None:
        await self._send(ApiRequest("DELETE", f"/v1/users/{name}", NoContent))

    async def roles(self) -> list[TenantRole]:
        return (await self._send(ApiRequest("GET", "/v1/roles", RoleList))).roles

    async def put_role(
        self, name: str, *, mode: str | None = None, allow: Sequence[str] = (), ask: Sequence[str] = (),
        deny: Sequence[str] = (),
    ) -> TenantRole:  # fmt: skip
        return await self._send(role_request(name, mode, allow, ask, deny))

    async def delete_role(self, name: str) -> None:
        await self._send(ApiRequest("DELETE", f"/v1/roles/{name}", NoContent))

    async def keys(self) -> list[ApiKey]:
        return (await self._send(ApiRequest("GET", "/v1/keys", KeyList))).keys

    async def create_key(
        self, user: str, *, name: str = "", scopes: Sequence[str] | None = None, expires_in: float | None = None,
        limits: Mapping[str, Any] | None = None, tenant: str | None = None,
    ) -> NewApiKey:  # fmt: skip
        """A key of a user; `secret` is in this answer and in no other."""
        return await self._send(key_request(user, name, scopes, expires_in, limits, tenant))

    async def rotate_key(self, key: str, *, overlap: float = 0.0) -> NewApiKey:
        return await self._send(ApiRequest("POST", f"/v1/keys/{key}/rotate", NewApiKey, {"overlap": overlap}))

    async def revoke_key(self, key: str) -> ApiKey:
        return await self._send(ApiRequest("DELETE", f"/v1/keys/{key}", ApiKey))

    async def audit(self, *, after: int = 0, limit: int = 100) -> AuditPage:
        return await self._send(ApiRequest("GET", "/v1/audit", AuditPage, query={"after": after, "limit": limit}))

    async def verify_audit(self) -> AuditVerification:
        return await self._send(ApiRequest("GET", "/v1/audit/verify", AuditVerification))

    async def usage(self, day: str | None = None) -> DailyUsage:
        return await self._send(ApiRequest("GET", "/v1/usage", DailyUsage, query={"day": day}))
