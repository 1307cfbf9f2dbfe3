"""Administration, by role: tenants, users, roles with a tester for rules, keys, limits, intents and servers.

Every form says one thing to the API. What that refuses is said above the list that the form is on.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from ferrule.app.service_settings import LIMITS
from ferrule.core.access import Mode
from ferrule.panel.api import PageProblem
from ferrule.panel.app import PanelPage, back_to
from ferrule.panel.words import PROBLEMS, _
from ferrule.service.vocabulary import SCOPES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response

    from ferrule.panel.app import PanelRequest

_SECTIONS = (
    ("tenants", _("Tenants"), "tenants"), ("users", _("Users"), "users"), ("roles", _("Roles"), "roles"),
    ("keys", _("Keys"), "keys"), ("intents", _("Intents and entities"), "intents"),
    ("servers", _("Servers and plugins"), "tools"),
)  # fmt: skip
_NOT_NUMBER = _("`{name}` must be a number.")
_NOT_JSON = _("`{name}` is not valid JSON.")
_DAY = 86_400
_MANY = {"limit": "200"}
"""As many names as a field suggests."""


class FormProblem(Exception):  # noqa: N818 - reads as what it says
    """Something in a form that the API need not be asked about."""


def _sections(request: PanelRequest) -> list[tuple[str, str]]:
    operators = ("tenants", "servers")
    return [
        (name, request.translated(title))
        for name, title, area in _SECTIONS
        if request.may("admin", area) and (name not in operators or request.me["operator"])
    ]


async def show_first(request: PanelRequest) -> Response:
    """The first part that the user may administer."""
    sections = _sections(request)
    if not sections:
        raise PageProblem(403, "forbidden")
    return back_to(f"/admin/{sections[0][0]}")


async def _show(request: PanelRequest, section: str, status: int = 200, problem: str = "", **more: Any) -> Response:
    values: dict[str, Any] = {
        "made": None, "verdict": None, "tested": {}, "chosen": request.query.get("edit", ""), "limits": LIMITS,
        "scopes": SCOPES, "modes": [mode.value for mode in Mode], "following": None, "cursor": "", **more,
    }  # fmt: skip
    values.update(await _READERS[section](request))
    return request.render(
        f"admin_{section}.html", status, sections=_sections(request), section=section, problem=problem, **values
    )


async def _page(request: PanelRequest, section: str) -> dict[str, Any]:
    """Those of the list from the cursor in the address on."""
    asked = {"cursor": request.query["cursor"]} if request.query.get("cursor") else {}
    found = await request.api.ask("GET", f"/v1/{section}", asked)
    return {section: found[section], "following": found["next"], "cursor": request.query.get("cursor", "")}


async def _users(request: PanelRequest) -> dict[str, Any]:
    may = request.may("admin", "roles")
    found: list[Any] = (await request.api.ask("GET", "/v1/roles"))["roles"] if may else []
    return {**await _page(request, "users"), "roles": [one["name"] for one in found]}


async def _roles(request: PanelRequest) -> dict[str, Any]:
    tools: list[Any] = (await request.api.ask("GET", "/v1/tools"))["tools"] if request.may("tools") else []
    return {**await request.api.ask("GET", "/v1/roles"), "tools": [one["name"] for one in tools]}


async def _keys(request: PanelRequest) -> dict[str, Any]:
    users: list[Any] = (
        (await request.api.ask("GET", "/v1/users", _MANY))["users"] if request.may("admin", "users") else []
    )
    return {**await _page(request, "keys"), "users": [one["name"] for one in users]}


async def _intents(request: PanelRequest) -> dict[str, Any]:
    if not request.may("tools"):
        return {"intents": [], "entities": []}
    return {**await request.api.ask("GET", "/v1/intents"), **await request.api.ask("GET", "/v1/entities")}


_READERS: dict[str, Callable[[PanelRequest], Awaitable[dict[str, Any]]]] = {
    "tenants": partial(_page, section="tenants"), "users": _users, "roles": _roles, "keys": _keys, "intents": _intents,
    "servers": lambda request: request.api.ask("GET", "/v1/servers"),
}  # fmt: skip


def limits_in(request: PanelRequest) -> dict[str, Any]:
    """Limits as a form has them; an empty field sets none."""
    found: dict[str, Any] = {}
    for name, number in LIMITS.items():
        if text := request.field(f"limit.{name}"):
            try:
                found[name] = number(text)
            except ValueError:
                raise FormProblem(request.translated(_NOT_NUMBER).format(name=name)) from None
    if tools := _object_in(request, "limit.tools"):
        found["tools"] = tools
    return found


def _object_in(request: PanelRequest, name: str) -> Any:
    text = request.field(name)
    try:
        return json.loads(text) if text else {}
    except (ValueError, RecursionError):
        raise FormProblem(request.translated(_NOT_JSON).format(name=name)) from None


def _number_in(request: PanelRequest, name: str) -> float | None:
    try:
        return float(request.field(name)) if request.field(name) else None
    except ValueError:
        raise FormProblem(request.translated(_NOT_NUMBER).format(name=name)) from None


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


async def _switch_or_delete(request: PanelRequest, section: str) -> bool:
    """Do what is the same for everything that a form can switch off or on, or remove; says whether it is that."""
    name = request.field({"keys": "id", "intents": "code"}.get(section, "name"))
    match request.field("do"):
        case "switch":
            enabled = request.field("enabled") == "true"
            await request.api.ask("PATCH", f"/v1/{section}/{name}", body={"enabled": enabled})
        case "delete" | "revoke":
            await request.api.ask("DELETE", f"/v1/{section}/{name}")
        case _:
            return False
    return True


async def _change_tenants(request: PanelRequest) -> dict[str, Any]:
    name, said = request.field("name"), {"display_name": request.field("display_name"), "limits": limits_in(request)}
    if request.field("do") == "create":
        await request.api.ask("POST", "/v1/tenants", body={"name": name, **said})
    else:
        days = _number_in(request, "audit_days")
        await request.api.ask("PATCH", f"/v1/tenants/{name}", body={**said, **_given(audit_days=days)})
    return {}


async def _change_users(request: PanelRequest) -> dict[str, Any]:
    name, roles, limits = request.field("name"), request.many("roles"), limits_in(request)
    if request.field("do") == "create":
        body: dict[str, Any] = {"name": name, "roles": roles or ["member"], "limits": limits}
        await request.api.ask("POST", "/v1/users", body=body)
    else:
        body = {"roles": roles, "limits": limits, "allow": request.many("allow")}
        await request.api.ask("PATCH", f"/v1/users/{name}", body=body)
    return {}


async def _change_roles(request: PanelRequest) -> dict[str, Any]:
    name = request.field("name")
    rules = {verdict: request.many(verdict) for verdict in ("allow", "ask", "deny")}
    mode = request.field("mode") or None
    match request.field("do"):
        case "test":
            body = {
                "tool": request.field("tool"), "arguments": _object_in(request, "arguments"), "mode": mode,
                "roles": request.many("roles"), **rules,
            }  # fmt: skip
            verdict = await request.api.ask("POST", "/v1/rules/test", body=body)
            return {"verdict": verdict, "tested": dict(request.fields)}
        case _:
            await request.api.ask("PUT", f"/v1/roles/{name}", body={"mode": mode, **rules})
    return {}


async def _change_keys(request: PanelRequest) -> dict[str, Any]:
    key = request.field("id")
    match request.field("do"):
        case "create":
            days = _number_in(request, "expires_days")
            body = _given(
                user=request.field("user"), name=request.field("name"), scopes=request.many("scopes"),
                expires_in=days * _DAY if days else None, limits=limits_in(request),
            )  # fmt: skip
            return {"made": await request.api.ask("POST", "/v1/keys", body=body)}
        case "rotate":
            hours = _number_in(request, "overlap_hours") or 0.0
            made = await request.api.ask("POST", f"/v1/keys/{key}/rotate", body={"overlap": hours * 3600})
            return {"made": made}
        case _:
            raise PageProblem(404, "not_found")


async def _change_intents(request: PanelRequest) -> dict[str, Any]:
    await request.api.ask("PUT", f"/v1/intents/{request.field('code')}", body=_object_in(request, "definition"))
    return {}


_CHANGES: dict[str, Callable[[PanelRequest], Awaitable[dict[str, Any]]]] = {
    "tenants": _change_tenants, "users": _change_users, "roles": _change_roles, "keys": _change_keys,
    "intents": _change_intents,
}  # fmt: skip


async def show_section(request: PanelRequest) -> Response:
    section = request.parts["section"]
    if section not in _READERS:
        raise PageProblem(404, "not_found")
    return await _show(request, section)


async def change_section(request: PanelRequest) -> Response:
    """Do what a form says. A secret or a verdict is on the page that answers; anything else is seen in the list."""
    section = request.parts["section"]
    change = _CHANGES.get(section)
    if change is None:
        raise PageProblem(404, "not_found")
    try:
        shown = {} if await _switch_or_delete(request, section) else await change(request)
    except FormProblem as problem:
        return await _show(request, section, 400, str(problem), tested=dict(request.fields))
    except PageProblem as refused:
        if refused.status in (401, 403, 503):
            raise
        words = request.translated(PROBLEMS.get(refused.code, PROBLEMS["invalid"]))
        return await _show(request, section, refused.status, f"{words} {refused.detail}", tested=dict(request.fields))
    if shown:
        return await _show(request, section, **shown)
    return back_to(f"/admin/{section}")


PAGES = (
    PanelPage("GET", "/admin", show_first, _("Administration"), "admin", tuple(area for *_rest, area in _SECTIONS)),
    PanelPage("GET", "/admin/{section}", show_section),
    PanelPage("POST", "/admin/{section}", change_section),
)
