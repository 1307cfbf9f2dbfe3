"""The catalogue of tools, each tool as a model sees it, and a form that calls it through the whole pipeline."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from ferrule.core.forms import FormError, FormField, form_fields, read_json
from ferrule.dialects import KNOWN
from ferrule.panel.api import PageProblem
from ferrule.panel.app import PanelPage, back_to
from ferrule.panel.words import PROBLEMS, _

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from ferrule.panel.app import PanelRequest

_LONG = 60
"""A text whose default is longer than this, or has lines, gets a larger field."""
_LONG_NAMES = frozenset({
    "content", "text", "command", "code", "body", "old_string", "new_string", "prompt", "query",
})  # fmt: skip
_WORDS = {
    "number": _("This must be a number."), "whole": _("This must be a whole number."),
    "json": _("This is not valid JSON."), "required": _("This is required."), "flag": _("This must be yes or no."),
}  # fmt: skip
_NOT_AN_OBJECT = _("The arguments must be a JSON object.")


@dataclass(slots=True)
class PageField:
    """A field with what is written in it, and what is wrong with that."""

    field: FormField
    text: str
    problem: str = ""

    @property
    def key(self) -> str:
        """Its name in the form, where others have theirs."""
        return f"argument.{self.field.name}"

    @property
    def choices(self) -> list[str]:
        """What can be selected; none where something is typed."""
        if self.field.kind == "boolean":
            return ["true", "false"]
        return [one.title for one in self.field.choices] if self.field.kind == "one" else []

    @property
    def is_long(self) -> bool:
        """Whether it takes several lines."""
        if self.field.kind != "text":
            return self.field.kind in ("many", "lines", "json")
        longest = self.field.schema.get("maxLength")
        is_long = len(self.text) > _LONG or "\n" in self.text or (isinstance(longest, int) and longest > 500)
        return is_long or self.field.name in _LONG_NAMES


def form_of(schema: Any) -> list[PageField]:
    """The fields for a tool's parameters, with their defaults."""
    return [PageField(one, one.written(one.schema.get("default"))) for one in form_fields(schema)]


def arguments_of(
    schema: Any, given: Mapping[str, str], words: Mapping[str, str]
) -> tuple[dict[str, Any], list[PageField]]:
    """The arguments that a form's fields say, and the fields with what was written and what is wrong with it.

    An empty field that is not required is left out. `words` are those for the codes of `FormError` and `required`.
    """
    arguments: dict[str, Any] = {}
    fields = form_of(schema)
    for one in fields:
        one.text = given.get(one.key, "").replace("\r\n", "\n")
        is_text = one.field.kind == "text"
        if one.text if is_text else one.text.strip():
            try:
                arguments[one.field.name] = one.field.read(one.text)
            except FormError as error:
                one.problem = words[error.code]
        elif one.field.required and is_text:
            arguments[one.field.name] = ""
        elif one.field.required:
            one.problem = words["required"]
    return arguments, fields


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
    except PageProblem as refused:
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
    PanelPage("GET", "/tools/{name}", _page),
    PanelPage("POST", "/tools/{name}/try", try_tool),
    PanelPage("POST", "/tools/{name}/switch", switch_tool),
)
