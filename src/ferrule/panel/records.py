"""Figures of calls over time, and the audit log: searched, verified and exported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.panel.api import PageProblem
from ferrule.panel.app import Forward, PanelPage
from ferrule.panel.words import _

if TYPE_CHECKING:
    from starlette.responses import Response

    from ferrule.panel.app import PanelRequest

PERIODS = {"hour": _("last hour"), "day": _("last day"), "week": _("last week"), "month": _("last month")}
_ROWS = 50
_CHARTS = (
    (_("Calls"), "", (("calls", _("all")), ("failed", _("failed")), ("denied", _("denied")))),
    (_("Duration"), "s", (("p50", "p50"), ("p95", "p95"))),
    (_("Waiting before the start"), "s", (("waited", _("average")),)),
    (_("Cost"), "", (("cost", _("cost")),)),
)


async def show_statistics(request: PanelRequest) -> Response:
    period = request.query.get("period", "day")
    by = request.query.get("by", "tool")
    if period not in PERIODS or by not in ("tool", "user", "tenant"):
        raise PageProblem(404, "not_found")
    found = await request.api.ask("GET", "/v1/statistics", {"period": period, "by": by})
    points = found["points"]
    charts: list[dict[str, Any]] = []
    for title, unit, lines in _CHARTS:
        series = [
            {"label": request.translated(label), "values": [point[name] for point in points]} for name, label in lines
        ]
        charts.append({"title": request.translated(title), "unit": unit, "series": series})
    sides = ["tool", "user", *(["tenant"] if request.me.get("operator") and request.may("admin", "tenants") else [])]
    return request.render(
        "statistics.html", found=found, charts=charts, times=[point["at"] for point in points],
        periods={name: request.translated(words) for name, words in PERIODS.items()}, sides=sides,
    )  # fmt: skip


async def show_audit(request: PanelRequest) -> Response:
    """The newest rows, or those that match; with `verify` also whether the chain holds."""
    query = request.query
    asked = {name: query[name] for name in ("q", "tool", "user", "outcome", "before") if query.get(name)}
    found = await request.api.ask("GET", "/v1/audit", {**asked, "order": "newest", "limit": str(_ROWS)})
    verified = await request.api.ask("GET", "/v1/audit/verify") if query.get("verify") else None
    return request.render(
        "audit.html", rows=found["rows"], following=found["next"], query=query, verified=verified,
        filters={name: value for name, value in asked.items() if name != "before"},
    )  # fmt: skip


async def show_row(request: PanelRequest) -> Response:
    seq = request.parts["seq"]
    if not seq.isascii() or not seq.isdigit() or len(seq) > 18 or seq == "0":
        raise PageProblem(404, "not_found")
    found = await request.api.ask("GET", "/v1/audit", {"after": str(int(seq) - 1), "limit": "1"})
    row = next((row for row in found["rows"] if row["seq"] == int(seq)), None)
    if row is None:
        raise PageProblem(404, "not_found")
    return request.render("audit_row.html", row=row)


async def export(request: PanelRequest) -> Forward:
    headers = {"Content-Disposition": 'attachment; filename="audit.ndjson"'}
    return Forward("/v1/audit/export", {}, headers)


PAGES = (
    PanelPage("GET", "/statistics", show_statistics, _("Statistics"), "calls"),
    PanelPage("GET", "/audit", show_audit, _("Audit"), "admin", ("audit",)),
    PanelPage("GET", "/audit/export", export),
    PanelPage("GET", "/audit/row/{seq}", show_row),
)
