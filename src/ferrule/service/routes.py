"""The endpoints for whoever uses tools: tools, calls, batches, events and approvals; and what watches the service."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from ferrule.core.errors import MissingExtraError
from ferrule.core.tool import description_of
from ferrule.dialects import KNOWN, Exporter
from ferrule.records import CONTENT_TYPE
from ferrule.service.administration import ADMINISTRATION
from ferrule.service.database import DatabaseProblem
from ferrule.service.directory import switch_tool
from ferrule.service.documents import approval_document, call_json
from ferrule.service.feed import POSITION
from ferrule.service.http import (
    PREFER,
    RESOURCE_METADATA,
    WAIT,
    ApiRoute,
    Parameter,
    RequestProblem,
    event_stream,
    json_response,
)
from ferrule.service.intent_routes import INTENT_ENDPOINTS
from ferrule.service.messages import (
    ApprovalPage,
    ApprovalRecord,
    Batch,
    BatchRequest,
    CallPage,
    CallRequest,
    DecisionRequest,
    Identity,
    StoredCall,
    ToolDetail,
    ToolList,
    ToolSwitch,
)
from ferrule.service.plugin_routes import PLUGIN_ENDPOINTS
from ferrule.service.reports import REPORTS
from ferrule.service.vocabulary import APPROVAL_STATUSES, AREAS, FINISHED, SCOPES, STATUSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.tool import Tool
    from ferrule.service.directory import Principal
    from ferrule.service.http import ServiceRequest

_MOST_PAGE = 200
_MOST_SEQ = 2**31 - 1


async def list_tools(request: ServiceRequest) -> Response:
    query, tools = request.query, request.allowed.tools.tools()
    if words := query.get("q"):
        tools = request.allowed.tools.search(words, _MOST_PAGE)
    if category := query.get("category"):
        tools = [tool for tool in tools if tool.category == category]
    if (dialect := _dialect(request)) is None:
        document: dict[str, Any] = {"tools": [_summary(tool) for tool in tools]}
        if request.allowed.may("tools"):
            known = request.service.tools
            document["switched_off"] = sorted(one for one in request.principal.disabled_tools if one in known)
    else:
        document = {"dialect": dialect, "tools": Exporter(dialect).definitions(tools)}
    return _with_tag(request, document)


async def show_tool(request: ServiceRequest) -> Response:
    tool, dialect = _tool(request), _dialect(request)
    document = _detail(tool)
    document["versions"] = request.service.tools.versions(tool.name) or [tool.version]
    if dialect is not None:
        document["definition"] = next(iter(Exporter(dialect).definitions([tool])), None)
    return _with_tag(request, document)


async def change_tool(request: ServiceRequest) -> Response:
    name, enabled, tenant = request.path["name"], request.body.enabled, request.principal.tenant
    tool = request.service.tools.get(name)
    if tool is None:
        raise RequestProblem(404, "not_found", f"There is no tool `{name}`.")

    await request.service.change(tenant, lambda connection: switch_tool(connection, tenant, tool.name, enabled=enabled))
    return json_response({**_detail(tool), "enabled": enabled})


def _dialect(request: ServiceRequest) -> str | None:
    dialect = request.query.get("dialect")
    if dialect not in (None, *KNOWN):
        raise RequestProblem(400, "query", f"There is no dialect {dialect!r}. There is {', '.join(KNOWN)}.")
    return dialect


def _tool(request: ServiceRequest) -> Tool[Any]:
    name = request.path["name"]
    found = request.allowed.tools.entry(name, request.query.get("version"))
    if found is None or not found.enabled:
        raise RequestProblem(404, "not_found", f"There is no tool `{name}`.")
    return found.tool


def _summary(tool: Tool[Any]) -> dict[str, Any]:
    return {
        "name": tool.name, "display_name": tool.display_name, "kind": tool.kind.value, "version": tool.version,
        "category": tool.category, "tags": sorted(tool.tags), "description": description_of(tool).short,
        "enabled": True,
    }  # fmt: skip


def _detail(tool: Tool[Any]) -> dict[str, Any]:
    more = {"parameters": tool.input_schema, "long_description": description_of(tool).text}
    return {**_summary(tool), **more, "roles": sorted(tool.roles or ())}


def _with_tag(request: ServiceRequest, document: Any) -> Response:
    """A document with its tag: whoever has it already is told just that."""
    text = json.dumps(document)
    tag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization"}
    if tag in (request.header(b"if-none-match") or ""):
        return Response(status_code=304, headers=headers)
    return json_response(text, headers=headers)


async def create_call(request: ServiceRequest) -> Response:
    calls, principal, key = request.service.calls, request.principal, request.idempotency_key
    streams, wait = request.wants_events, request.wait

    def answer_late(row: dict[str, Any]) -> None:
        request.answer_now(_call_response(row))

    if streams or wait <= 0:
        started = await calls.start(principal, request.body, request_id=request.request_id, key=key)
    else:
        started = await calls.run(
            principal, request.body, request_id=request.request_id, key=key, wait=wait, late=answer_late
        )
    if started.batch is not None:
        raise RequestProblem(422, "key_reused", "This Idempotency-Key was used for a batch.")
    [call] = started.ids
    replayed = {"Idempotent-Replayed": "true"} if started.replayed else {}
    if streams:
        return event_stream(request.call_events(call, 0), {"Location": f"/v1/calls/{call}", **replayed})
    return _call_response(started.row or await calls.find(principal, call, wait), replayed)


async def create_batch(request: ServiceRequest) -> Response:
    calls = request.service.calls
    started = await calls.start_batch(
        request.principal, request.body, request_id=request.request_id, key=request.idempotency_key
    )
    batch = started.batch
    if batch is None:
        raise RequestProblem(422, "key_reused", "This Idempotency-Key was used for a single call.")
    if started.replayed:
        rows = await calls.batch(request.principal, batch, request.wait)
    else:
        rows = await calls.ended(request.principal, started.ids, request.wait)
    return _batch_response(batch, rows, {"Idempotent-Replayed": "true"} if started.replayed else {})


async def show_batch(request: ServiceRequest) -> Response:
    rows = await request.service.calls.batch(request.principal, request.path["id"], request.query_wait)
    return _batch_response(request.path["id"], rows)


async def list_calls(request: ServiceRequest) -> Response:
    query = request.query
    filters = {name: query[name] for name in ("status", "tool", "session", "user", "batch") if name in query}
    if "status" in filters and filters["status"] not in STATUSES:
        raise RequestProblem(400, "query", f"`status` must be one of {', '.join(STATUSES)}.")
    most = request.number("limit", 50, _MOST_PAGE) or 1
    rows, following = await request.service.calls.page(
        request.principal, filters=filters, cursor=query.get("cursor"), most=most
    )
    listed = ", ".join(call_json(row) for row in rows)
    return json_response(f'{{"calls": [{listed}], "next": {json.dumps(following)}}}')


async def show_call(request: ServiceRequest) -> Response:
    row = await request.service.calls.find(request.principal, request.path["id"], request.query_wait)
    return _call_response(row)


async def cancel_call(request: ServiceRequest) -> Response:
    row = await request.service.calls.cancel(request.principal, request.path["id"])
    return json_response(call_json(row), 202 if row["status"] not in FINISHED else 200)


async def show_events(request: ServiceRequest) -> Response:
    last = request.header(b"last-event-id") or request.query.get("after") or "0"
    if not (last.isascii() and last.isdigit() and int(last) <= _MOST_SEQ):
        raise RequestProblem(400, "header", "Last-Event-ID must be the id of an event of this call.")
    calls = request.service.calls
    await calls.find(request.principal, request.path["id"])  # a 404 is an answer, not an event
    return event_stream(request.call_events(request.path["id"], int(last)))


async def watch_tenant(request: ServiceRequest) -> Response:
    last = request.header(b"last-event-id") or request.query.get("after")
    if last is not None and not POSITION.fullmatch(last):
        raise RequestProblem(400, "header", "Last-Event-ID must be the id of an event of this stream.")
    feed = request.service.feed
    feed.check_room(request.principal.tenant)

    async def identify() -> Principal | None:
        try:
            return await request.identify()
        except (RequestProblem, DatabaseProblem):
            return None

    return event_stream(feed.follow(request.principal, request.service.access, last, identify))


def _call_response(row: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    headers = {"Location": f"/v1/calls/{row['id']}", **(headers or {})}
    return json_response(call_json(row), 200 if row["status"] in FINISHED else 202, headers)


def _batch_response(batch: str, rows: list[dict[str, Any]], headers: Mapping[str, str] | None = None) -> Response:
    listed = ", ".join(call_json(row) for row in rows)
    status = 200 if all(row["status"] in FINISHED for row in rows) else 202
    place = {"Location": f"/v1/batches/{batch}", **(headers or {})}
    return json_response(f'{{"id": {json.dumps(batch)}, "calls": [{listed}]}}', status, place)


async def list_approvals(request: ServiceRequest) -> Response:
    status = request.query.get("status", "pending")
    if status not in APPROVAL_STATUSES:
        raise RequestProblem(400, "query", f"`status` must be one of {', '.join(APPROVAL_STATUSES)}.")
    rows = await request.service.approvals.pending(
        request.principal, request.allowed, status=status, most=request.number("limit", 100, _MOST_PAGE) or 1
    )
    return json_response({"approvals": [approval_document(row, listed=True) for row in rows]})


async def show_approval(request: ServiceRequest) -> Response:
    found = await request.service.approvals.find(request.principal, request.allowed, request.path["id"])
    if found is None:
        raise RequestProblem(404, "not_found", f"There is no approval `{request.path['id']}`.")
    return json_response(approval_document(found))


async def decide_approval(request: ServiceRequest) -> Response:
    approval = request.path["id"]
    row = await request.service.approvals.decide(request.principal, request.allowed, approval, request.body)
    request.service.upkeep.look_now()
    return json_response(approval_document(row))


async def serve_mcp(request: ServiceRequest) -> Response:
    try:
        endpoint = await request.service.mcp()
    except MissingExtraError as missing:
        raise RequestProblem(501, "no_mcp", str(missing)) from None
    return await endpoint.answer(request)


async def show_identity(request: ServiceRequest) -> Response:
    who = request.principal
    return json_response(
        {
            "tenant": who.tenant, "user": who.user, "roles": list(who.role_names), "scopes": sorted(who.scopes),
            "key": who.key, "operator": who.operator,
            # Plugins are everyone's, and managed by the operator alone.
            "areas": [area for area in AREAS if request.allowed.may(area) and (area != "plugins" or who.operator)],
        }
    )  # fmt: skip


async def show_health(request: ServiceRequest) -> Response:
    return json_response({"status": "ok"})


async def show_readiness(request: ServiceRequest) -> Response:
    service = request.service
    if service.ready and not service.calls.draining:
        return json_response({"status": "ready"})
    why = "This instance is about to stop." if service.ready else service.not_ready_because
    raise RequestProblem(503, "not_ready", why, headers={"Retry-After": "1"})


async def show_metrics(request: ServiceRequest) -> Response:
    """Of the caller's tenant; for the operator's administrators of all, and of the requests too."""
    request.require("metrics")
    return Response(await request.service.metrics_text(request.principal), 200, media_type=CONTENT_TYPE)


async def show_resource(request: ServiceRequest) -> Response:
    """Who gives out tokens for this service (RFC 9728)."""
    issuer = request.service.settings.oidc.issuer
    if not issuer:
        raise RequestProblem(404, "not_found", "This service takes API keys alone, and no tokens of an issuer.")
    document: dict[str, Any] = {
        "resource": request.own_url, "authorization_servers": [issuer], "bearer_methods_supported": ["header"],
        "resource_name": "Ferrule",
    }  # fmt: skip
    if request.service.settings.oidc.scope_claim:
        document["scopes_supported"] = list(SCOPES)
    return json_response(document)


async def show_openapi(request: ServiceRequest) -> Response:
    return json_response(_openapi())


@cache
def _openapi() -> str:
    from ferrule.service.openapi import openapi_document

    return json.dumps(openapi_document(ENDPOINTS))


_WHOLE = {"type": "integer", "minimum": 0}
_DIALECT = Parameter("dialect", "Give definitions in this provider's form.", {"type": "string", "enum": list(KNOWN)})
_LIMIT = Parameter("limit", "How many at most.", {**_WHOLE, "maximum": _MOST_PAGE})
_KEY_HEADER = Parameter(
    "Idempotency-Key", "The same key and body give the same call, for 24 hours.",
    {"type": "string", "pattern": "^[!-~]{1,255}$"}, "header",
)  # fmt: skip
_LAST = Parameter("Last-Event-ID", "Resume after this event.", where="header")

ENDPOINTS: tuple[ApiRoute, ...] = (
    ApiRoute("POST", "/v1/calls", create_call, "Call a tool.", "calls", None, CallRequest,
             {200: StoredCall, 202: StoredCall}, (_KEY_HEADER, PREFER), (409, 413, 422, 429), streams=True),
    ApiRoute("POST", "/v1/calls/batch", create_batch, "Make many calls that may use each other's results.", "calls",
             None, BatchRequest, {200: Batch, 202: Batch}, (_KEY_HEADER, PREFER), (409, 413, 422, 429)),
    ApiRoute("GET", "/v1/batches/{id}", show_batch, "Show the calls of a batch.", "calls", None, None,
             {200: Batch, 202: Batch}, (WAIT,), (404,)),
    ApiRoute("GET", "/v1/calls", list_calls, "List calls, newest first.", "calls", None, None, {200: CallPage},
             (Parameter("status", "Only with this status.", {"type": "string", "enum": list(STATUSES)}),
              Parameter("tool", "Only of this tool."), Parameter("session", "Only of this session."),
              Parameter("user", "Only of this user."), Parameter("batch", "Only of this batch."),
              Parameter("cursor", "Read on from `next`."), _LIMIT)),
    ApiRoute("GET", "/v1/calls/{id}", show_call, "Show a call, or wait for its end.", "calls", None, None,
             {200: StoredCall, 202: StoredCall}, (WAIT,), (404,)),
    ApiRoute("POST", "/v1/calls/{id}/cancel", cancel_call, "Stop a call.", "calls", None, None,
             {200: StoredCall, 202: StoredCall}, (), (404, 409)),
    ApiRoute("GET", "/v1/calls/{id}/events", show_events, "Follow a call.", "calls", None, None,
             {200: "text/event-stream"}, (_LAST, Parameter("after", "As `Last-Event-ID`.", _WHOLE)), (404,)),
    ApiRoute("GET", "/v1/events", watch_tenant, "Follow what happens in the tenant, as far as the caller may see it.",
             "", None, None, {200: "text/event-stream"}, (_LAST, Parameter("after", "As `Last-Event-ID`.")), (429,)),
    ApiRoute("GET", "/v1/tools", list_tools, "List the tools that the caller may use.", "tools", None, None,
             {200: ToolList, 304: None},
             (_DIALECT, Parameter("q", "Only those that hold all of these words."),
              Parameter("category", "Only of this category."))),
    ApiRoute("GET", "/v1/tools/{name}", show_tool, "Show a tool and its parameters.", "tools", None, None,
             {200: ToolDetail, 304: None}, (Parameter("version", "This version of it."), _DIALECT), (404,)),
    ApiRoute("PATCH", "/v1/tools/{name}", change_tool, "Switch a tool off or on for the tenant.", "admin", "tools",
             ToolSwitch, {200: ToolDetail}, (), (404,)),
    ApiRoute("GET", "/v1/approvals", list_approvals, "List approvals.", "approvals", None, None, {200: ApprovalPage},
             (Parameter("status", "`pending` unless given.", {"type": "string", "enum": list(APPROVAL_STATUSES)}),
              _LIMIT)),
    ApiRoute("GET", "/v1/approvals/{id}", show_approval, "Show an approval.", "approvals", None, None,
             {200: ApprovalRecord}, (), (404,)),
    ApiRoute("POST", "/v1/approvals/{id}/decision", decide_approval, "Approve or deny a call.", "approvals", None,
             DecisionRequest, {200: ApprovalRecord}, (), (404, 409)),
    ApiRoute("GET", "/v1/me", show_identity, "Show who the key speaks for.", "", None, None, {200: Identity}),
    *INTENT_ENDPOINTS,
    *REPORTS,
    *ADMINISTRATION,
    *PLUGIN_ENDPOINTS,
    ApiRoute("GET", "/metrics", show_metrics, "Metrics for Prometheus.", "admin", "metrics", None,
             {200: "text/plain"}),
    ApiRoute("GET", "/healthz", show_health, "Whether the process runs.", answers={200: "application/json"}),
    ApiRoute("GET", "/readyz", show_readiness, "Whether it takes calls.", answers={200: "application/json"},
             errors=(503,)),
    ApiRoute("GET", RESOURCE_METADATA, show_resource, "Who gives out tokens for this service (RFC 9728).",
             answers={200: "application/json"}, errors=(404,)),
    ApiRoute("GET", "/openapi.json", show_openapi, "This document.", answers={200: "application/json"}),
)  # fmt: skip
MCP_ENDPOINTS = tuple(
    ApiRoute(method, "/mcp", serve_mcp, "The same tools for MCP clients.", "") for method in ("POST", "GET", "DELETE")
)
"""Not in the OpenAPI document: MCP describes itself."""
