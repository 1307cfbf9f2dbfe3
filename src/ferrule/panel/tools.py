"""The catalogue of tools, each tool as a model sees it, and a form that calls it through the whole pipeline."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from ferrule.core.forms import FormError, read_json
from ferrule.dialects import KNOWN
from ferrule.panel.api import ApiProblem
from ferrule.panel.app import PanelPage, back_to
from ferrule.panel.schema_form import arguments_of, form_of
from ferrule.panel.words import PROBLEMS, _

if TYPE_CHECKING:
    from starlette.responses import Response

    from ferrule.panel.app import PanelRequest
    from ferrule.panel.schema_form import PageField

_WORDS = {
    "number": _("This must be a number."), "whole": _("This must be a whole number."),
    "json": _("This is not valid JSON."), "required": _("This is required."), "flag": _("This must be yes or no."),
}  # fmt: skip
_NOT_AN_OBJECT = _("The arguments must be a JSON object.")


async def show_tools(request: PanelRequest) -> Response:
    """Every tool that the user may use, or those that some words find."""
    asked = {name: request.query[name] for name in ("q", "category") if request.query.get(name)}
    found = await request.api.ask("GET", "/v1/tools", asked)
    tools = found["tools"]
    kind = request.query.get("kind", "")
    if kind:
        tools = [one for one in tools if one["kind"] == kind]
    categories = sorted({one["category"] for one in tools if one["category"]})
    return request.render(
        "tools.html", tools=tools, categories=categories, query=request.query, figures=await _figures(request),
        switched_off=found.get("switched_off", ()) if request.may("admin", "tools") else (),
    )  # fmt: skip


async def _figures(request: PanelRequest) -> dict[str, dict[str, Any]]:
    if not request.may("calls"):
        return {}
    found = await request.api.ask("GET", "/v1/statistics", {"period": "week", "by": "tool"})
    return {one["name"]: one for one in found["names"]}


async def show_tool(request: PanelRequest) -> Response:
    return await _page(request)


async def _page(
    request: PanelRequest, status: int = 200, fields: list[PageField] | None = None, problem: str = "", raw: str = ""
) -> Response:
    place, chosen = f"/v1/tools/{request.parts['name']}", _chosen(request)
    tool = await request.api.ask("GET", place, chosen)
    dialects: list[tuple[str, Any]] = []
    for dialect in KNOWN:
        found = await request.api.ask("GET", place, {**chosen, "dialect": dialect})
        dialects.append((dialect, found["definition"]))
    figures = (await _figures(request)).get(tool["name"])
    return request.render(
        "tool.html", status, tool=tool, dialects=dialects, figures=figures, problem=problem, raw=raw,
        fields=form_of(tool["parameters"]) if fields is None else fields, key=secrets.token_urlsafe(16),
        chosen=chosen.get("version", ""),
    )  # fmt: skip


def _chosen(request: PanelRequest) -> dict[str, str]:
    """The version that the address names, or the form that was on its page."""
    version = request.query.get("version") or request.field("version")
    return {"version": version} if version else {}


async def try_tool(request: PanelRequest) -> Response:
    """Call the tool as an agent would, and show the call; what the form got wrong is said beside the field."""
    chosen = _chosen(request)
    tool = await request.api.ask("GET", f"/v1/tools/{request.parts['name']}", chosen)
    raw, fields = request.field("raw"), None
    if raw:
        try:
            arguments: Any = read_json(raw)
        except FormError:
            return await _page(request, 400, problem=request.translated(_WORDS["json"]), raw=raw)
        if not isinstance(arguments, dict):
            return await _page(request, 400, problem=request.translated(_NOT_AN_OBJECT), raw=raw)
    else:
        words = {name: request.translated(text) for name, text in _WORDS.items()}
        arguments, fields = arguments_of(tool["parameters"], dict(request.fields), words)
        if any(one.problem for one in fields):
            return await _page(request, 400, fields, request.translated(PROBLEMS["invalid"]))
    body: dict[str, Any] = {"tool": tool["name"], "arguments": cast("Any", arguments), **chosen}
    if session := request.field("session"):
        body["session"] = session
    headers = {"prefer": "respond-async"}
    if (key := request.field("key")).isascii() and key.isprintable() and 0 < len(key) <= 64 and " " not in key:
        headers["idempotency-key"] = key  # a form that is sent twice is one call
    try:
        made = await request.api.ask("POST", "/v1/calls", body=body, headers=headers)
    except ApiProblem as refused:
        if refused.status in (401, 403, 503):
            raise
        return await _page(request, refused.status, fields, refused.detail, raw)
    return back_to(f"/calls/{made['id']}")


async def switch_tool(request: PanelRequest) -> Response:
    name = request.parts["name"]
    enabled = request.field("enabled") == "true"
    await request.api.ask("PATCH", f"/v1/tools/{name}", body={"enabled": enabled})
    return back_to(f"/tools/{quote(name)}" if enabled else "/tools")


PAGES = (
    PanelPage("GET", "/tools", show_tools, _("Tools"), "tools"),
    PanelPage("GET", "/tools/{name}", show_tool),
    PanelPage("POST", "/tools/{name}/try", try_tool),
    PanelPage("POST", "/tools/{name}/switch", switch_tool),
)
