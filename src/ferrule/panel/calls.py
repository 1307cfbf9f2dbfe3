"""Calls as they happen, one call with all that is on record of it, and the inbox of approvals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from ferrule.panel.api import PageProblem
from ferrule.panel.app import Forward, PanelPage, back_to
from ferrule.panel.words import EVENTS, MARKS, PROBLEMS, STATES, _, tree_of
from ferrule.service.vocabulary import APPROVAL_STATUSES, FINISHED, STATUSES

if TYPE_CHECKING:
    from starlette.responses import Response

    from ferrule.panel.app import PanelRequest

FILTERS = ("status", "tool", "user", "session", "batch")
ROWS = 25
"""As many as a screen shows, and most of what the first paint waits for."""
_STREAMED = {"call.progress", "call.output"}
_MOST_OUTPUT = 200_000
_MOST_APPROVALS = 200
"""As many as the API lists."""


async def show_live(request: PanelRequest) -> Response:
    """The newest calls; a script keeps the list current, and every filter is in the address."""
    filters = {name: request.query[name] for name in FILTERS if request.query.get(name)}
    if filters.get("status") not in (None, *STATUSES):
        del filters["status"]
    cursor = request.query.get("cursor")
    asked = {**filters, "limit": str(ROWS), **({"cursor": cursor} if cursor else {})}
    found = await request.api.ask("GET", "/v1/calls", asked)
    kinds = await kinds_of(request)
    states = {name: request.translated(words) for name, words in STATES.items()}
    return request.render(
        "live.html", calls=found["calls"], following=found["next"], filters=filters, kinds=kinds, states=states,
        statuses=STATUSES, marks=MARKS, is_first=cursor is None, most=ROWS,
    )  # fmt: skip


async def kinds_of(request: PanelRequest) -> dict[str, str]:
    """How much a tool may do, by its name, of the tools that the user may see."""
    if not request.may("tools"):
        return {}
    return {one["name"]: one["kind"] for one in (await request.api.ask("GET", "/v1/tools"))["tools"]}


async def follow_tenant(request: PanelRequest) -> Forward:
    return Forward("/v1/events", {"after": request.query["after"]} if "after" in request.query else {})


async def show_call(request: PanelRequest) -> Response:
    call = request.parts["id"]
    record = await request.api.ask("GET", f"/v1/calls/{call}/record")
    return await render_call(request, record)


async def render_call(request: PanelRequest, record: dict[str, Any], status: int = 200, problem: str = "") -> Response:
    call, rows = record["call"], record["rows"]
    own = next((row for row in rows if row["call_id"] == call["id"]), None)
    approval = None
    if call["approval"] and request.may("approvals"):
        try:
            approval = await request.api.ask("GET", f"/v1/approvals/{call['approval']}")
        except PageProblem as refused:
            if refused.status not in (403, 404):
                raise
    events = record["events"]
    output = "".join(_text(one["data"].get("content")) for one in events if one["type"] == "call.output")
    return request.render(
        "call.html", status, call=call, record=record, own=own, approval=approval, nested=tree_of(rows, call["id"]),
        events=[one for one in events if one["type"] not in _STREAMED], output=output[:_MOST_OUTPUT],
        progress=next((one["data"] for one in reversed(events) if one["type"] == "call.progress"), None),
        last=events[-1]["id"] if events else 0, problem=problem, effects=_effects(own, approval),
        kind=own["kind"] if own else (await kinds_of(request)).get(call["tool"], ""),
        words={name: request.translated(text) for name, text in EVENTS.items()},
        ended=call["status"] in FINISHED,
    )  # fmt: skip


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _effects(own: dict[str, Any] | None, approval: dict[str, Any] | None) -> Any:
    """What a command changed or would have changed, as its record or its approval has it."""
    if own is not None and own.get("effects"):
        try:
            said = json.loads(own["effects"])
        except ValueError:
            return None
        return cast("dict[str, Any]", said) if isinstance(said, dict) else None
    return approval["effects"] if approval is not None else None


async def cancel_call(request: PanelRequest) -> Response:
    call = request.parts["id"]
    try:
        await request.api.ask("POST", f"/v1/calls/{call}/cancel")
    except PageProblem as refused:
        if refused.code != "finished":
            raise
        record = await request.api.ask("GET", f"/v1/calls/{call}/record")
        return await render_call(request, record, 409, request.translated(PROBLEMS["finished"]))
    return back_to(f"/calls/{call}")


async def follow_call(request: PanelRequest) -> Forward:
    after = request.query.get("after", "0")
    return Forward(f"/v1/calls/{request.parts['id']}/events", {"after": after})


async def show_approvals(request: PanelRequest) -> Response:
    status = request.query.get("status", "pending")
    if status not in APPROVAL_STATUSES:
        status = "pending"
    found = await request.api.ask("GET", "/v1/approvals", {"status": status, "limit": str(_MOST_APPROVALS)})
    listed = sorted(found["approvals"], key=lambda one: one["created_at"], reverse=status != "pending")
    return request.render(
        "approvals.html", approvals=listed, shown=status, statuses=APPROVAL_STATUSES, problem="", decided="",
        most=_MOST_APPROVALS,
    )  # fmt: skip


async def _one(request: PanelRequest, status: int = 200, problem: str = "") -> Response:
    approval = request.parts["id"]
    found = await request.api.ask("GET", f"/v1/approvals/{approval}")
    return request.render(
        "approvals.html", status, approvals=[found], shown="", problem=problem, decided=approval if problem else "",
        most=_MOST_APPROVALS,
    )  # fmt: skip


async def decide(request: PanelRequest) -> Response:
    """Approve or deny what was shown; where somebody else was first, say so and show what they decided."""
    approval, said = request.parts["id"], request.field("decision")
    body = {
        "decision": "deny" if said == "deny" else "approve", "args_hash": request.field("args_hash"),
        "scope": "always" if said == "always" else "once", "reason": request.field("reason")[:2000],
    }  # fmt: skip
    if said not in ("approve", "always", "deny"):
        return await _one(request, 400, request.translated(PROBLEMS["invalid"]))
    try:
        await request.api.ask("POST", f"/v1/approvals/{approval}/decision", body=body)
    except PageProblem as refused:
        if refused.status not in (403, 409):
            raise
        words = request.translated(PROBLEMS.get(refused.code, PROBLEMS["conflict"]))
        # The card itself says what was decided, and by whom.
        detail = "" if refused.code in ("decided", "expired") else f" {refused.detail}"
        return await _one(request, refused.status, words + detail)
    return await _one(request)


PAGES = (
    PanelPage("GET", "/", show_live, _("Calls"), "calls"),
    PanelPage("GET", "/events", follow_tenant),
    PanelPage("GET", "/calls/{id}", show_call),
    PanelPage("POST", "/calls/{id}/cancel", cancel_call),
    PanelPage("GET", "/calls/{id}/events", follow_call),
    PanelPage("GET", "/approvals", show_approvals, _("Approvals"), "approvals"),
    PanelPage("GET", "/approvals/{id}", _one),
    PanelPage("POST", "/approvals/{id}", decide),
)
