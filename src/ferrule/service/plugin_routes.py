"""The endpoints for plugins and markets: what `ferrule plugin` does on the service's machine, for the operator.

A plugin is of all tenants, so that `Admin(plugins)` counts in the operator's tenant alone. Nothing is used without a
yes to what it is: an answer with a `question` has done nothing, and the same request with the question's `digest` among
`agreed` is that yes. Folders, secrets and files of the machine are granted on the machine.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StringConstraints
from starlette.responses import Response

from ferrule.core.errors import ErrorKind, MissingExtraError, ToolError
from ferrule.plugins import plugin_documents
from ferrule.plugins.lock import read_lock
from ferrule.plugins.plugin_documents import ActionProblem, perform, problem_in
from ferrule.service.http import ApiRoute, Parameter, RequestProblem, json_response
from ferrule.service.messages import Received, Sent

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.service.http import ServiceRequest

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
PluginSource = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Host = Annotated[str, StringConstraints(min_length=1, max_length=300)]
ShortValue = Annotated[str, StringConstraints(max_length=2_000)]


class PluginAgreement(Sent):
    agreed: list[Digest] = Field([], max_length=10, description="Digests of the questions that the user said yes to.")


class PluginInstall(PluginAgreement):
    source: PluginSource = Field(description="`NAME` or `NAME==VERSION` of a market, `pypi:PACKAGE` or `npm:PACKAGE`.")
    market: str = Field("", max_length=30)


class PluginEnable(PluginAgreement):
    hosts: list[Host] | None = Field(
        None, max_length=100, description="Besides those that it asks for; by default those that it had."
    )
    settings: dict[str, ShortValue] = Field({}, max_length=100)


class DeclaredTool(Received):
    name: str
    kind: str
    summary: str


class InstalledPackage(Received):
    name: str
    version: str
    hashes: list[str]


class PluginSettingValue(Received):
    name: str
    summary: str
    value: str


class DangerousFolder(Received):
    folder: str
    why: str


class PluginRecord(Received):
    """An installed plugin, with what it may have."""

    name: str
    version: str
    summary: str
    publisher: str
    proof: str
    published: str
    source: str
    market: str
    address: str = Field(description="Of one that runs elsewhere.")
    withdrawn: str = Field(description="Why its market withdrew it; empty where it did not.")
    enabled: bool
    installed: str
    agreed: str
    tools: list[DeclaredTool]
    tool_names: list[str] = Field(description="What its tools are called here, once it was agreed to.")
    hosts: list[str]
    folders: list[str] = Field(description="The most dangerous first.")
    dangers: list[DangerousFolder] = Field(description="Of the folders those to be warned of, the worst first.")
    secrets: list[str]
    programs: list[str]
    added_hosts: list[str]
    packages: list[InstalledPackage]
    settings: list[PluginSettingValue]
    near: list[str] = Field([], description="Names that its own could be mistaken for.")


class PluginList(Received):
    plugins: list[PluginRecord]


class PluginDifference(Received):
    part: str
    gone: list[str]
    came: list[str]


class ReadLineRecord(Received):
    text: str
    marked: bool = Field(description="Whether it addresses the model, as `always` and `ignore` do.")


class ToolDifference(Received):
    name: str
    how: Literal["new", "changed", "gone"]
    lines: list[ReadLineRecord] = Field(
        description="All that a model reads; of a changed tool what differs, with - and +."
    )


class PluginQuestionRecord(Received):
    """What the user is asked: to use a plugin, an update of it, or what models will read of its tools."""

    about: Literal["plugin", "update", "tools"]
    digest: str = Field(description="The same request with this among `agreed` says yes.")
    plugin: PluginRecord
    before: str
    near: list[str]
    changes: list[PluginDifference]
    widens: bool
    tools: list[ToolDifference]


class PluginAnswer(Received):
    """With a question nothing was done; without one it was."""

    plugin: PluginRecord | None
    question: PluginQuestionRecord | None
    notes: list[str]


class PluginVerification(Received):
    name: str
    intact: bool
    again: str = Field(description="What to install to have it once more.")


class OfferRecord(Received):
    name: str
    version: str
    market: str
    summary: str
    publisher: str
    proof: str
    published: str
    reviewed: str
    kinds: dict[str, str]
    hosts: list[str]
    folders: list[str]
    secrets: list[str]
    programs: list[str]


class OfferList(Received):
    offers: list[OfferRecord]
    notes: list[str]
    markets: list[str]


def language_in(header: str | None) -> str:
    """The language of an error's words: Chinese where that is asked for first, else English."""
    return "zh" if (header or "").lower().startswith("zh") else "en"


def _language(request: ServiceRequest) -> str:
    return language_in(request.header(b"accept-language"))


def _refused(problem: ActionProblem) -> RequestProblem:
    status = 404 if problem.kind == ErrorKind.NOT_FOUND else 422
    return RequestProblem(status, "plugin", problem.message, suggestion=problem.suggestion or None)


async def _quickly(request: ServiceRequest, work: Callable[..., Any], *given: Any) -> Any:
    request.require_operator("manage plugins")
    try:
        return await asyncio.to_thread(work, *given)
    except (ToolError, MissingExtraError) as error:
        raise _refused(problem_in(_language(request), error)) from None


async def _performed(request: ServiceRequest, action: str, **given: Any) -> Response:
    """Done in a process of its own; a change is there for everyone before the answer is."""
    if "name" in given:
        await _known(request)
    request.require_operator("manage plugins")
    try:
        done = await perform(action, _language(request), **given)
    except ActionProblem as problem:
        raise _refused(problem) from None
    if action not in ("verify", "search"):
        await request.service.follow_plugins()
    return json_response(done)


async def _known(request: ServiceRequest) -> str:
    name = request.path["name"]
    if name not in await _quickly(request, read_lock):
        raise RequestProblem(404, "not_found", f"There is no plugin `{name}`.")
    return name


async def list_plugins(request: ServiceRequest) -> Response:
    return json_response(await _quickly(request, plugin_documents.list_plugins))


async def show_plugin(request: ServiceRequest) -> Response:
    shown = plugin_documents.show_plugin
    return json_response(await _quickly(request, shown, await _known(request), _language(request)))


async def disable_plugin(request: ServiceRequest) -> Response:
    done = await _quickly(request, plugin_documents.disable, await _known(request))
    await request.service.follow_plugins()
    return json_response(done)


async def search_offers(request: ServiceRequest) -> Response:
    return await _performed(request, "search", words=request.query.get("q", "")[:300])


_LANGUAGE = Parameter("Accept-Language", "`zh` has errors in Chinese.", where="header")
_WORDS = Parameter("q", "Only plugins that have all these words in name, summary, publisher or tools.")
_AREA = "admin", "plugins"


def _action(
    method: str, path: str, action: str, summary: str, body: type[PluginAgreement] | None, answer: type[Received] | None
) -> ApiRoute:
    """What a process of its own does to the plugin that the path names; without an answer nothing is left of it."""

    async def handle(request: ServiceRequest) -> Response:
        given: dict[str, Any] = dict(request.path)
        if request.body is not None:
            given |= {**request.body.model_dump(), "workspace": str(request.service.folder)}
        done = await _performed(request, action, **given)
        return done if answer is not None else Response(status_code=204)

    handle.__name__ = f"{action}_plugin"
    answers = {200: answer} if answer is not None else {204: None}
    return ApiRoute(method, path, handle, summary, *_AREA, body, answers, (_LANGUAGE,), (404, 422))


PLUGIN_ENDPOINTS: tuple[ApiRoute, ...] = (
    ApiRoute("GET", "/v1/plugins", list_plugins, "List the installed plugins.", *_AREA, None, {200: PluginList},
             (_LANGUAGE,), (422,)),
    _action("POST", "/v1/plugins", "install",
            "Install a plugin, disabled; or another version of one, once that was agreed to.", PluginInstall,
            PluginAnswer),
    ApiRoute("GET", "/v1/plugins/{name}", show_plugin, "Show an installed plugin.", *_AREA, None, {200: PluginRecord},
             (_LANGUAGE,), (404, 422)),
    _action("DELETE", "/v1/plugins/{name}", "remove", "Remove a plugin with all that belongs to it.", None, None),
    _action("POST", "/v1/plugins/{name}/enable", "enable", "Use a plugin, once it was agreed to.", PluginEnable,
            PluginAnswer),
    ApiRoute("POST", "/v1/plugins/{name}/disable", disable_plugin, "Use a plugin no more.", *_AREA, None,
             {200: PluginRecord}, (_LANGUAGE,), (404, 422)),
    _action("POST", "/v1/plugins/{name}/update", "update",
            "Bring a plugin to its newest version, once the difference was agreed to.", PluginAgreement, PluginAnswer),
    _action("POST", "/v1/plugins/{name}/verify", "verify", "Compare its files with what was installed.", None,
            PluginVerification),
    ApiRoute("GET", "/v1/offers", search_offers, "Search the markets for plugins.", *_AREA, None, {200: OfferList},
             (_WORDS, _LANGUAGE), (404, 422)),
)  # fmt: skip
