"""What people look at, for the panel and for programs alike: the record of a call, figures, and what a rule would do.

Each is an endpoint like any other: scopes, roles and tenants hold for it. Nothing here reads a table from end to end.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import or_, select

from ferrule.core.call import RawCall
from ferrule.core.errors import DefinitionError, StoppedError
from ferrule.policy.explain import explain
from ferrule.records.row import CONTENT
from ferrule.service import directory
from ferrule.service.access import check_tool_names
from ferrule.service.call_sums import PERIODS, figures_of, merged, statistics_document, total_of
from ferrule.service.directory import RoleRules, check_role_rules
from ferrule.service.documents import audit_content, audit_document, call_json, new_id
from ferrule.service.http import ApiRoute, Parameter, RequestProblem, json_response
from ferrule.service.live import events_of
from ferrule.service.messages import CallReport, CallStatistics, RuleTest, RuleVerdict, ServerList
from ferrule.service.tables import audit, audit_heads, tenants

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from starlette.responses import Response

    from ferrule.service.call_sums import CallFigures
    from ferrule.service.http import ServiceRequest

_MOST_EVENTS = 500
_MOST_NESTED, _DEEPEST = 200, 8
_MOST_SCANNED = 50_000
"""Audit rows that one request looks through; the next goes on from there."""
_SLACK = 10.0
"""Seconds between the end of a call and its audit row, at most."""
_AT = {name: CONTENT.index(name) for name in ("time", "duration", "waited", "queued")}


async def show_record(request: ServiceRequest) -> Response:
    """All that is on record of a call: what it was given, what was decided and why, and the calls that it made."""
    calls, call = request.service.calls, request.path["id"]
    row = await calls.find(request.principal, call)
    said = await calls.stored.events(row["tenant"], call, 0, _MOST_EVENTS)
    live = calls.live.get(call)
    events = events_of(row, live.events[:_MOST_EVENTS] if live is not None else said, 0)
    until = row["finished"] or time()
    read = partial(rows_of_call, tenant=row["tenant"], call=call, since=row["created"], until=until)
    rows = await request.service.database.read(row["tenant"], read)
    head = {
        "attempts": row["attempts"], "cost": row["cost"], "cancelling": bool(row["cancelling"]),
        "arguments": json.loads(row["arguments"]), "events": events, "rows": rows,
    }  # fmt: skip
    return json_response(f'{{"call": {call_json(row)}, {json.dumps(head)[1:]}')


def rows_of_call(connection: Connection, tenant: str, call: str, since: float, until: float) -> list[dict[str, Any]]:
    """The audit rows of a call and of those that it made, in the order in which they ended."""
    first = _first_ended(connection, tenant, since - _SLACK)
    last = _first_ended(connection, tenant, until + _SLACK)
    within = (audit.c.tenant == tenant) & (audit.c.seq >= max(first, last - _MOST_SCANNED)) & (audit.c.seq <= last)
    found: dict[int, dict[str, Any]] = {}
    looked_for = [call]
    for _ in range(_DEEPEST):
        # A row names its call and the one that made it; whatever else holds the same text is left out below.
        named = or_(*(audit.c.content.contains(json.dumps(one), autoescape=True) for one in looked_for))
        query = select(audit).where(within, named).order_by(audit.c.seq).limit(_MOST_NESTED)
        rows = [audit_document(row) for row in connection.execute(query)]
        new = [one for one in rows if one["seq"] not in found and {one["call_id"], one["parent"]} & set(looked_for)]
        found.update({one["seq"]: one for one in new})
        looked_for = [one["call_id"] for one in new if one["parent"] in looked_for]
        if not looked_for or len(found) >= _MOST_NESTED:
            break
    return [found[seq] for seq in sorted(found)]


def _first_ended(connection: Connection, tenant: str, moment: float) -> int:
    """The first row of a call that ended then or later: rows are added as calls end, so that halving finds it."""
    head = connection.execute(select(audit_heads).where(audit_heads.c.tenant == tenant)).first()
    low, high = (head.removed_to + 1, head.seq) if head is not None else (1, 0)
    while low <= high:
        middle = (low + high) // 2
        row = connection.execute(select(audit.c.content).where(audit.c.tenant == tenant, audit.c.seq == middle)).first()
        content = audit_content(row) if row is not None else None
        if content is None:  # somebody removed or changed it: what is known of the others will do
            low = middle + 1
            continue
        times = (content[at] for at in _AT.values() if at < len(content))
        if sum(one for one in times if isinstance(one, (int, float))) < moment:
            low = middle + 1
        else:
            high = middle - 1
    return low


def search_audit(
    connection: Connection, tenant: str, *, before: int | None, most: int, filters: dict[str, str]
) -> dict[str, Any]:
    """The newest rows that match, newest first, and the row to go on before.

    `q` is any text of a row; others are the fields of that name, and `outcome` may be `failure`.
    """
    head = connection.execute(select(audit_heads.c.seq).where(audit_heads.c.tenant == tenant)).scalar() or 0
    start = min(before - 1 if before is not None else head, head)
    floor = max(0, start - _MOST_SCANNED)
    query = select(audit).where(audit.c.tenant == tenant, audit.c.seq <= start, audit.c.seq > floor)
    for name, value in filters.items():
        if (name, value) != ("outcome", "failure"):
            # Arguments are JSON in the JSON of the row, whoever wrote it: there a quote has its backslash already.
            as_json = {json.dumps(value, ensure_ascii=one)[1:-1] for one in (True, False)}
            forms = {value, *as_json} if name == "q" else {value}
            written = (json.dumps(one)[1:-1] for one in forms)
            query = query.where(or_(*(audit.c.content.icontains(one, autoescape=True) for one in written)))
    found: list[dict[str, Any]] = []
    query = query.order_by(audit.c.seq.desc()).execution_options(yield_per=most)
    with closing(connection.execute(query)) as rows:  # most of what is there may be left unread
        for row in rows:
            document = audit_document(row)
            if all(_matches(document, name, value) for name, value in filters.items()):
                found.append(document)
                if len(found) == most:
                    return {"rows": found, "next": document["seq"] if document["seq"] > 1 else None}
    return {"rows": found, "next": floor + 1 if floor else None}


def _matches(row: dict[str, Any], name: str, value: str) -> bool:
    if name == "q":
        return True  # the database has looked
    if (name, value) == ("outcome", "failure"):
        return row["outcome"] != "success"
    return row[name] == value


async def show_statistics(request: ServiceRequest) -> Response:
    """Of the tenant's calls, or of all tenants'; users without that right see figures of their own calls."""
    query, who, database = request.query, request.principal, request.service.database
    period, by = query.get("period", "day"), query.get("by", "tool")
    if period not in PERIODS or by not in ("tool", "user", "tenant"):
        raise RequestProblem(400, "query", f"`period` is one of {', '.join(PERIODS)}; `by` is tool, user or tenant.")
    now = time()
    if by == "tenant":
        if not who.operator or "admin" not in who.scopes:
            raise RequestProblem(403, "forbidden", "Only administrators of the operator's tenant compare tenants.")
        request.require("tenants")
        steps: list[dict[int, CallFigures]] = []
        names: dict[str, CallFigures] = {}
        listed = select(tenants.c.tenant)
        for tenant in await database.read(None, lambda connection: connection.execute(listed).scalars().all()):
            read = partial(figures_of, tenant=tenant, period=period, by="tool", now=now, user=None)
            by_step, by_tool = await database.read(tenant, read)
            steps.append(by_step)
            names[tenant] = total_of(by_tool.values())
        return json_response(statistics_document(period, by, now, merged(steps), names))
    sees_all = request.allowed.may("usage") and "admin" in who.scopes
    read = partial(
        figures_of, tenant=who.tenant, period=period, by=cast("Any", by), now=now, user=None if sees_all else who.user
    )
    by_step, by_name = await database.read(who.tenant, read)
    return json_response(statistics_document(period, by, now, by_step, by_name))


async def test_rules(request: ServiceRequest) -> Response:
    """What would become of a call of somebody with these roles and rules, without running it."""
    said: RuleTest = request.body
    service, who = request.service, request.principal
    check_role_rules(said.allow, said.ask, said.deny)
    check_tool_names(said, request.allowed.everything)

    def read(connection: Connection) -> list[Any]:
        return [directory.find_role(connection, who.tenant, name) for name in said.roles]

    given = [directory.role_rules(row) for row in await service.database.read(who.tenant, read)]
    given.append(RoleRules("(draft)", said.mode, tuple(said.allow), tuple(said.ask), tuple(said.deny)))
    # The administrator's own folder stands for that of whoever would call; nothing in it is touched.
    principal = replace(who, roles=tuple(given), always=())
    allowed = service.access.trial(principal)
    tool = allowed.tools.get(said.tool)
    if tool is None:
        if allowed.everything.get(said.tool) is None:
            raise RequestProblem(404, "not_found", f"There is no tool `{said.tool}`.")
        reason = "These roles do not show the tool."
        return json_response({"verdict": "deny", "reason": reason, "rule": None, "parts": [], "needed": ""})
    seat = await service.sessions.seat(principal, allowed, None, new_id(), allowed.role_for(tool))
    try:
        prepared = seat.runtime.with_tools(allowed.tools).build(RawCall(tool.name, said.arguments))
        prepared.session = seat.session
        found = explain(allowed.policy, prepared, seat.session)
    except StoppedError as stopped:
        raise RequestProblem(422, "invalid", stopped.message, suggestion=stopped.suggestion) from None
    except DefinitionError as error:
        raise RequestProblem(422, "invalid", str(error)) from None
    finally:
        await seat.leave()
    parts = [{"what": part.what, "verdict": part.verdict.value, "because": part.because} for part in found.parts]
    verdict = {"verdict": found.verdict.value, "reason": found.reason, "rule": found.rule}
    return json_response({**verdict, "parts": parts, "needed": found.needed})


async def list_servers(request: ServiceRequest) -> Response:
    """The MCP servers and plugins whose tools the service has; they are the operator's."""
    request.require_operator("see the MCP servers")
    return json_response(request.service.servers_document())


_PERIOD = Parameter("period", "How far back; `day` unless given.", {"type": "string", "enum": list(PERIODS)})
_BY = Parameter("by", "`tool` unless given.", {"type": "string", "enum": ["tool", "user", "tenant"]})

REPORTS: tuple[ApiRoute, ...] = (
    ApiRoute("GET", "/v1/calls/{id}/record", show_record, "Show all that is on record of a call.", "calls", None, None,
             {200: CallReport}, (), (404,)),
    ApiRoute("GET", "/v1/statistics", show_statistics, "Figures of calls over time, and by tool, user or tenant.",
             "calls", None, None, {200: CallStatistics}, (_PERIOD, _BY)),
    ApiRoute("POST", "/v1/rules/test", test_rules, "Say what rules would decide about a call.", "admin", "roles",
             RuleTest, {200: RuleVerdict}, (), (404, 422)),
    ApiRoute("GET", "/v1/servers", list_servers, "List MCP servers and plugins.", "admin", "tools", None,
             {200: ServerList}),
)  # fmt: skip
