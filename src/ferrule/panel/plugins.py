"""Plugins: what is installed and what the markets offer, each plugin's page, and the questions before one is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ferrule.panel.api import PageProblem
from ferrule.panel.app import PanelPage, back_to
from ferrule.panel.words import _

if TYPE_CHECKING:
    from starlette.responses import Response

    from ferrule.panel.app import PanelRequest

_DONE = {
    "enable": _("It is enabled."), "disable": _("It is disabled."), "install": _("It is installed and disabled."),
    "update": _("It is at its newest version."), "intact": _("Its files are as they were installed."),
}  # fmt: skip
_CHANGED = _("Its files were changed since it was installed, and it is not started. Remove it and install it again.")
_SETTING = "setting."
_FULL_STOPS = ("。", "！", "？")


async def _list(request: PanelRequest, status: int = 200, problem: str = "") -> Response:
    """What is installed; and what the markets offer, once somebody searches."""
    listed = (await _ask(request, "GET", "/v1/plugins"))["plugins"]
    query, found = request.query.get("q"), None
    if query is not None:
        try:
            found = await _ask(request, "GET", "/v1/offers", {"q": query})
        except PageProblem as refused:
            status, problem = refused.status, _words(refused)
    return request.render("plugins.html", status, plugins=listed, query=query or "", found=found, problem=problem)


async def show_plugin(request: PanelRequest) -> Response:
    done = _DONE.get(request.query.get("done", ""), "")
    return await _show(request, request.parts["name"], done=request.translated(done) if done else "")


async def _show(request: PanelRequest, name: str, status: int = 200, *, problem: str = "", done: str = "") -> Response:
    plugin = await _ask(request, "GET", f"/v1/plugins/{quote(name, safe='')}")
    used = []
    if request.may("calls"):
        figures = await request.api.ask("GET", "/v1/statistics", {"period": "month", "by": "tool"})
        used = [one for one in figures["names"] if one["name"] in plugin["tool_names"]]
    return request.render("plugin.html", status, plugin=plugin, used=used, problem=problem, done=done)


async def install_plugin(request: PanelRequest) -> Response:
    """From a search's row or by name. What comes of it is the plugin's own page, with all that it asks for."""
    body = {"source": request.field("source"), "market": request.field("market"), "agreed": request.many("agreed")}
    try:
        answer = await _ask(request, "POST", "/v1/plugins", body=body)
    except PageProblem as refused:
        if refused.status in (401, 403, 503):
            raise
        return await _list(request, refused.status, _words(refused))
    return _answered(request, answer, "install", body)


async def change_plugin(request: PanelRequest) -> Response:
    """Do what a form of its page says. A question is a page of its own, whose form says the same with the yes."""
    name, do = request.parts["name"], request.field("do")
    place = f"/v1/plugins/{quote(name, safe='')}"
    agreed = request.many("agreed")
    try:
        match do:
            case "remove":
                await _ask(request, "DELETE", place)
                return back_to("/plugins")
            case "verify":
                intact = (await _ask(request, "POST", f"{place}/verify"))["intact"]
                if intact:
                    return back_to(f"/plugins/{quote(name)}?done=intact")
                return await _show(request, name, 409, problem=request.translated(_CHANGED))
            case "disable":
                await _ask(request, "POST", f"{place}/disable")
                return back_to(f"/plugins/{quote(name)}?done=disable")
            case "update":
                answer = await _ask(request, "POST", f"{place}/update", body={"agreed": agreed})
                return _answered(request, answer, do, {})
            case "enable":
                settings = {key[len(_SETTING) :]: text for key, text in request.fields if key.startswith(_SETTING)}
                body: dict[str, Any] = {"agreed": agreed, "settings": settings, "hosts": request.many("hosts")}
                return _answered(request, await _ask(request, "POST", f"{place}/enable", body=body), do, body)
            case _:
                raise PageProblem(404, "not_found")
    except PageProblem as refused:
        if refused.status in (401, 403, 404, 503):
            raise
        return await _show(request, name, refused.status, problem=_words(refused))


def _answered(request: PanelRequest, answer: dict[str, Any], do: str, said: dict[str, Any]) -> Response:
    question = answer["question"]
    if question is None:
        return back_to(f"/plugins/{quote(answer['plugin']['name'])}?done={do}")
    name = question["plugin"]["name"]
    action = "/plugins" if do == "install" else f"/plugins/{quote(name)}"
    agreed = [*request.many("agreed"), question["digest"]]
    return request.render(
        "plugin_question.html", question=question, plugin=question["plugin"], action=action, do=do, said=said,
        agreed=agreed[-5:], notes=answer["notes"],
    )  # fmt: skip


async def _ask(
    request: PanelRequest, method: str, path: str, query: dict[str, str] | None = None, body: Any = None
) -> Any:
    return await request.api.ask(method, path, query, body, {"accept-language": request.language})


def _words(refused: PageProblem) -> str:
    """An error about plugins is worded for its reader already; after a full-width mark there is no space."""
    between = "" if refused.detail.endswith(_FULL_STOPS) else " "
    return f"{refused.detail}{between}{refused.suggestion}".strip()


PAGES = (
    PanelPage("GET", "/plugins", _list, _("Plugins"), "admin", ("plugins",)),
    PanelPage("POST", "/plugins", install_plugin),
    PanelPage("GET", "/plugins/{name}", show_plugin),
    PanelPage("POST", "/plugins/{name}", change_plugin),
)
