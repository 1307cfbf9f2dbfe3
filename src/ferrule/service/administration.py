"""The endpoints for administrators: tenants, users, roles, keys, the audit log and usage."""

from __future__ import annotations

import json
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select
from starlette.responses import Response, StreamingResponse

from ferrule.service import directory
from ferrule.service.access import check_tool_names
from ferrule.service.documents import audit_document
from ferrule.service.http import ApiRoute, Parameter, RequestProblem, json_response
from ferrule.service.messages import (
    ApiKey,
    AuditPage,
    AuditVerification,
    DailyUsage,
    KeyList,
    KeyRequest,
    NewApiKey,
    RoleBody,
    RoleList,
    RotateRequest,
    Tenant,
    TenantChange,
    TenantList,
    TenantRequest,
    TenantRole,
    User,
    UserChange,
    UserList,
    UserRequest,
)
from ferrule.service.reports import search_audit
from ferrule.service.tables import audit, usage
from ferrule.service.tenant_records import verify_chain
from ferrule.service.writer import day_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from pydantic import BaseModel
    from sqlalchemy import Connection

    from ferrule.service.http import ServiceRequest


_MOST_ROWS = 1_000
_MOST_LISTED = 200
_MOST_SEQ = 2**62


async def _changed(request: ServiceRequest, change: Callable[[Connection], Any], tenant: str | None = None) -> Any:
    if request.body is not None:
        check_tool_names(request.body, request.allowed.everything)
    return await request.service.change(tenant or request.principal.tenant, change)


def _answer(document: directory.Document | None, status: int = 200) -> Response:
    if document is None:
        return Response(status_code=204)
    return json_response(document, status, {"Cache-Control": "no-store"} if "secret" in document else None)


def _route(
    method: str, path: str, work: Callable[..., Any], summary: str, body: type[BaseModel] | None,
    answer: Mapping[int, type[BaseModel] | None], *errors: int, paged: bool = False,
) -> ApiRoute:  # fmt: skip
    """An endpoint that does one thing of the directory in the caller's tenant, with what the path names and the body
    says, or a page at a time; it is for those who administer what the path begins with.
    """
    [status] = answer

    async def handle(request: ServiceRequest) -> Response:
        said = () if request.body is None else (request.body,)
        page = _page_asked(request) if paged else ()
        given = (request.principal.tenant, *request.path.values(), *said, *page)
        done = request.read if method == "GET" else partial(_changed, request)
        return _answer(await done(lambda connection: work(connection, *given)), status)

    handle.__name__ = work.__name__
    parameters = _PAGING if paged else ()
    return ApiRoute(method, path, handle, summary, "admin", path.split("/")[2], body, answer, parameters, errors)


def _page_asked(request: ServiceRequest) -> tuple[str, int]:
    """From where on, and how many."""
    return request.query.get("cursor", ""), request.number("limit", directory.MOST_LISTED, _MOST_LISTED) or 1


async def list_tenants(request: ServiceRequest) -> Response:
    request.require_operator("manage tenants")
    cursor, most = _page_asked(request)
    found = partial(directory.list_tenants, cursor=cursor, most=most)
    return _answer(await request.service.database.read(None, found))


async def create_tenant(request: ServiceRequest) -> Response:
    request.require_operator("manage tenants")
    said: TenantRequest = request.body
    return _answer(
        await _changed(request, lambda connection: directory.create_tenant(connection, said), said.name), 201
    )


async def show_tenant(request: ServiceRequest) -> Response:
    name = request.path["name"]
    if name != request.principal.tenant and not request.principal.operator:
        raise RequestProblem(404, "not_found", f"There is no tenant `{name}`.")
    return _answer(
        await request.service.database.read(None, lambda connection: directory.show_tenant(connection, name))
    )


async def change_tenant(request: ServiceRequest) -> Response:
    request.require_operator("manage tenants")
    name, said = request.path["name"], request.body
    return _answer(await _changed(request, lambda connection: directory.change_tenant(connection, name, said), name))


async def create_key(request: ServiceRequest) -> Response:
    said: KeyRequest = request.body
    tenant = said.tenant or request.principal.tenant
    if tenant != request.principal.tenant:
        request.require_operator("manage tenants")
        request.require("tenants")
    return _answer(
        await _changed(request, lambda connection: directory.create_key(connection, tenant, said), tenant), 201
    )


def _audit_rows(connection: Connection, tenant: str, after: int, most: int) -> list[dict[str, Any]]:
    query = select(audit).where(audit.c.tenant == tenant, audit.c.seq > after).order_by(audit.c.seq).limit(most)
    return [audit_document(row) for row in connection.execute(query)]


async def list_audit(request: ServiceRequest) -> Response:
    tenant, after = request.principal.tenant, request.number("after", 0, _MOST_SEQ)
    most = request.number("limit", 100, _MOST_ROWS) or 1
    filters = {name: request.query[name] for name in ("q", "tool", "user", "outcome") if request.query.get(name)}
    if filters or "before" in request.query or request.query.get("order") == "newest":
        before = request.number("before", 0, _MOST_SEQ) or None
        found = partial(search_audit, tenant=tenant, before=before, most=most, filters=filters)
        return json_response(await request.read(found))
    rows = await request.read(lambda connection: _audit_rows(connection, tenant, after, most))
    return json_response({"rows": rows, "next": rows[-1]["seq"] if len(rows) == most else None})


async def export_audit(request: ServiceRequest) -> Response:
    tenant, database = request.principal.tenant, request.service.database
    start = request.number("after", 0, _MOST_SEQ)

    async def lines() -> AsyncIterator[bytes]:
        after = start
        while True:
            rows = await database.read(tenant, partial(_audit_rows, tenant=tenant, after=after, most=_MOST_ROWS))
            if not rows:
                return
            after = rows[-1]["seq"]
            yield "".join(f"{json.dumps(row)}\n" for row in rows).encode()

    return StreamingResponse(lines(), 200, {"Cache-Control": "no-store"}, "application/x-ndjson")


async def verify_audit(request: ServiceRequest) -> Response:
    tenant = request.principal.tenant
    return json_response(await request.read(lambda connection: verify_chain(connection, tenant)))


async def show_usage(request: ServiceRequest) -> Response:
    tenant, day = request.principal.tenant, request.query.get("day") or day_of(time())

    def read(connection: Connection) -> list[Any]:
        sums = func.sum(usage.c.calls), func.sum(usage.c.cost)
        query = select(usage.c.tool, *sums).where(usage.c.tenant == tenant, usage.c.day == day)
        return list(connection.execute(query.group_by(usage.c.tool).order_by(usage.c.tool)))

    rows: list[Any] = await request.read(read)
    by_tool = {tool: int(calls) for tool, calls, _ in rows}
    costs = {tool: float(cost) for tool, _, cost in rows if cost}
    return json_response(
        {
            "day": day, "calls": sum(by_tool.values()), "by_tool": by_tool, "cost": sum(costs.values()),
            "cost_by_tool": costs,
        }
    )  # fmt: skip


_AFTER = Parameter("after", "Read on after this `seq`.", {"type": "integer", "minimum": 0, "maximum": _MOST_SEQ})
_BEFORE = Parameter(
    "before", "Newest first, before this `seq`.", {"type": "integer", "minimum": 0, "maximum": _MOST_SEQ}
)
_ORDER = Parameter("order", "`newest` gives the newest first, as every filter does.")
_FILTERS = (
    Parameter("q", "Only rows that hold this text."), Parameter("tool", "Only of this tool."),
    Parameter("user", "Only of this user."), Parameter("outcome", "Only this one; `failure` is all but `success`."),
)  # fmt: skip
_LIMIT = Parameter("limit", "How many at most.", {"type": "integer", "minimum": 0, "maximum": _MOST_ROWS})
_DAY = Parameter("day", "The day in UTC, such as 2026-01-31; today unless given.")

_PAGING = (
    Parameter("cursor", "Read on from `next`."),
    Parameter("limit", "How many at most.", {"type": "integer", "minimum": 0, "maximum": _MOST_LISTED}),
)

ADMINISTRATION: tuple[ApiRoute, ...] = (
    ApiRoute("GET", "/v1/tenants", list_tenants, "List tenants.", "admin", "tenants", None, {200: TenantList},
             _PAGING),
    ApiRoute("POST", "/v1/tenants", create_tenant, "Create a tenant.", "admin", "tenants", TenantRequest,
             {201: Tenant}, (), (409, 422)),
    ApiRoute("GET", "/v1/tenants/{name}", show_tenant, "Show a tenant.", "admin", None, None, {200: Tenant}, (),
             (404,)),
    ApiRoute("PATCH", "/v1/tenants/{name}", change_tenant, "Change a tenant.", "admin", "tenants", TenantChange,
             {200: Tenant}, (), (404, 409, 422)),
    _route("GET", "/v1/users", directory.list_users, "List users.", None, {200: UserList}, 422, paged=True),
    _route("POST", "/v1/users", directory.create_user, "Create a user.", UserRequest, {201: User}, 404, 409, 422),
    _route("GET", "/v1/users/{name}", directory.show_user, "Show a user.", None, {200: User}, 404),
    _route("PATCH", "/v1/users/{name}", directory.change_user, "Change a user.", UserChange, {200: User}, 404, 422),
    _route("DELETE", "/v1/users/{name}", directory.delete_user, "Remove a user and their keys.", None, {204: None},
           404),
    _route("GET", "/v1/roles", directory.list_roles, "List roles.", None, {200: RoleList}),
    _route("GET", "/v1/roles/{name}", directory.show_role, "Show a role.", None, {200: TenantRole}, 404),
    _route("PUT", "/v1/roles/{name}", directory.put_role, "Make a role, or replace its rules.", RoleBody,
           {200: TenantRole}, 422),
    _route("DELETE", "/v1/roles/{name}", directory.delete_role, "Remove a role that nobody has.", None, {204: None},
           404, 409),
    _route("GET", "/v1/keys", directory.list_keys, "List API keys.", None, {200: KeyList}, 422, paged=True),
    ApiRoute("POST", "/v1/keys", create_key, "Create an API key. Its secret is shown once.", "admin", "keys",
             KeyRequest, {201: NewApiKey}, (), (404, 422)),
    _route("GET", "/v1/keys/{id}", directory.show_key, "Show an API key.", None, {200: ApiKey}, 404),
    _route("POST", "/v1/keys/{id}/rotate", directory.rotate_key, "Give an API key a new secret.", RotateRequest,
           {200: NewApiKey}, 404, 409),
    _route("DELETE", "/v1/keys/{id}", directory.revoke_key, "Revoke an API key.", None, {200: ApiKey}, 404),
    ApiRoute("GET", "/v1/audit", list_audit, "Read the audit log.", "admin", "audit", None, {200: AuditPage},
             (_AFTER, _LIMIT, _BEFORE, _ORDER, *_FILTERS)),
    ApiRoute("GET", "/v1/audit/export", export_audit, "The audit log as lines of JSON.", "admin", "audit", None,
             {200: "application/x-ndjson"}, (_AFTER,)),
    ApiRoute("GET", "/v1/audit/verify", verify_audit, "Check the chain of the audit log.", "admin", "audit", None,
             {200: AuditVerification}),
    ApiRoute("GET", "/v1/usage", show_usage, "Calls of a day by tool.", "admin", "usage", None, {200: DailyUsage},
             (_DAY,)),
)  # fmt: skip
