"""The endpoints of requests, intents, entities and the cache of answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.service.calls import CallProblem
from ferrule.service.http import PREFER, WAIT, ApiRoute, Parameter, RequestProblem, event_stream, json_response
from ferrule.service.intents import change_intent, delete_intent, find_intent, intent_document, list_intents, tool_name
from ferrule.service.messages import (
    EntityList,
    EntityRecord,
    IntentBody,
    IntentChange,
    IntentList,
    IntentRecord,
    Removed,
    RequestAnswer,
    RequestBody,
    RequestResults,
)
from ferrule.service.requests import give_results, is_request, request_document, start_request, waiting_of
from ferrule.service.vocabulary import FINISHED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Row

    from ferrule.service.http import ServiceRequest

_MOST_CODE = 48


async def create_request(request: ServiceRequest) -> Response:
    body: RequestBody = request.body
    started = await start_request(
        request.service.calls, request.principal, body, request_id=request.request_id, key=request.idempotency_key
    )
    if started.batch is not None:
        raise RequestProblem(422, "key_reused", "This Idempotency-Key was used for a batch.")
    call = started.ids[0]
    headers = {"Location": f"/v1/requests/{call}"}
    if started.replayed:
        headers["Idempotent-Replayed"] = "true"
    if body.stream or request.wants_events:
        return event_stream(request.call_events(call, 0), headers)
    return await _answer(request, await request.service.calls.find(request.principal, call, request.wait), headers)


async def show_request(request: ServiceRequest) -> Response:
    row = await request.service.calls.find(request.principal, request.path["id"])
    if not is_request(row):
        raise CallProblem("not_found", f"There is no request `{request.path['id']}`.")
    row = await request.service.calls.find(request.principal, request.path["id"], request.query_wait)
    return await _answer(request, row)


async def give_request_results(request: ServiceRequest) -> Response:
    calls, call = request.service.calls, request.path["id"]
    body = request.body
    errors = {name: ToolError(one.message, suggestion=one.suggestion) for name, one in body.errors.items()}
    await give_results(calls, request.principal, call, body.results | errors, request.wait)
    request.service.upkeep.look_now()
    return await _answer(request, await calls.find(request.principal, call, request.wait))


async def _answer(
    request: ServiceRequest, row: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    document = request_document(row, await waiting_of(request.service.calls, row))
    return json_response(document, 200 if row["status"] in FINISHED else 202, headers)


async def list_all_intents(request: ServiceRequest) -> Response:
    """Those that the caller may use; for who may administer them also those that are switched off."""
    tenant, allowed = request.principal.tenant, request.allowed
    rows = await request.read(lambda connection: list_intents(connection, tenant))
    shown = [row for row in rows if allowed.may("intents") or _is_shown(request, row)]
    return json_response({"intents": [intent_document(row) for row in shown]})


async def show_intent(request: ServiceRequest) -> Response:
    tenant, code = request.principal.tenant, _code(request)
    version = request.number("version", 0, 2**31 - 1) or None
    row = await request.read(lambda connection: find_intent(connection, tenant, code, version))
    if not (request.allowed.may("intents") or (row.current and _is_shown(request, row))):
        raise RequestProblem(404, "not_found", f"There is no intent `{code}`.")
    return json_response(intent_document(row))


async def put_intent(request: ServiceRequest) -> Response:
    who, code = request.principal, _code(request)
    world = request.service.intents
    return json_response(await world.make(code, request.body, request.allowed, who.tenant, who.user))


async def patch_intent(request: ServiceRequest) -> Response:
    tenant, code, said = request.principal.tenant, _code(request), request.body
    row = await request.service.change(
        tenant, lambda connection: change_intent(connection, tenant, code, enabled=said.enabled, version=said.version)
    )
    return json_response(intent_document(row))


async def remove_intent(request: ServiceRequest) -> Response:
    tenant, code = request.principal.tenant, _code(request)
    await request.service.change(tenant, lambda connection: delete_intent(connection, tenant, code))
    return Response(status_code=204)


def _code(request: ServiceRequest) -> str:
    """The code of the path; what no intent can be called is not looked for."""
    code = request.path["code"]
    plain = code.isascii() and code[:1].isalpha() and code.replace("_", "").replace("-", "").isalnum()
    if not plain or len(code) > _MOST_CODE:
        if request.scope["method"] == "PUT":
            raise RequestProblem(
                422, "invalid", f"An intent's code has 1 to {_MOST_CODE} letters, digits, `_` and `-`, a letter first."
            )
        raise RequestProblem(404, "not_found", f"There is no intent `{code}`.")
    return code


def _is_shown(request: ServiceRequest, row: Row[Any]) -> bool:
    return request.allowed.tools.get(tool_name(row.code)) is not None


async def list_entities(request: ServiceRequest) -> Response:
    entities = request.service.entities
    found = entities.all(request.principal.tenant, request.allowed.roles)

    def read() -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = []
        for one in found:
            try:
                listed.append(one.document)
            except ToolError:
                continue  # its database is away; asking for it alone says so
        return listed

    return json_response({"entities": await entities.run(request.principal.tenant, read)})


async def show_entity(request: ServiceRequest) -> Response:
    entities = request.service.entities
    try:
        found = entities.find(request.path["name"], request.principal.tenant, request.allowed.roles)
        return json_response(await entities.run(request.principal.tenant, lambda: found.document))
    except ToolError as error:
        status = 404 if error.kind is ErrorKind.NOT_FOUND else 503
        code = "not_found" if status == 404 else "entity"
        raise RequestProblem(status, code, error.message, suggestion=error.suggestion) from None


async def clear_cache(request: ServiceRequest) -> Response:
    """The caller's own answers; with `everyone=true` those of all users of the tenant."""
    everyone = request.query.get("everyone", "false")
    if everyone not in ("true", "false"):
        raise RequestProblem(400, "query", "`everyone` must be true or false.")
    if everyone == "true":
        request.require("cache")
    who = request.principal
    removed = await request.service.answers.clear(who.tenant, None if everyone == "true" else who.user)
    return json_response({"removed": removed})


_KEY_HEADER = Parameter("Idempotency-Key", "The same key and body give the same request, for 24 hours.", where="header")
_VERSION = Parameter("version", "This version of it.", {"type": "integer", "minimum": 1})
_EVERYONE = Parameter("everyone", "Those of all users of the tenant.", {"type": "boolean"})

INTENT_ENDPOINTS: tuple[ApiRoute, ...] = (
    ApiRoute("POST", "/v1/requests", create_request, "Make a request: in words, or by an intent.", "calls", None,
             RequestBody, {200: RequestAnswer, 202: RequestAnswer}, (_KEY_HEADER, PREFER), (409, 413, 422, 429),
             streams=True),
    ApiRoute("GET", "/v1/requests/{id}", show_request, "Show a request, or wait for its end.", "calls", None, None,
             {200: RequestAnswer, 202: RequestAnswer}, (WAIT,), (404,)),
    ApiRoute("POST", "/v1/requests/{id}/results", give_request_results, "Give a request what calls of it gave.",
             "calls", None, RequestResults, {200: RequestAnswer, 202: RequestAnswer}, (PREFER,), (404, 409, 422)),
    ApiRoute("GET", "/v1/intents", list_all_intents, "List intents.", "tools", None, None, {200: IntentList}),
    ApiRoute("GET", "/v1/intents/{code}", show_intent, "Show an intent.", "tools", None, None, {200: IntentRecord},
             (_VERSION,), (404,)),
    ApiRoute("PUT", "/v1/intents/{code}", put_intent, "Make an intent, or a new version of it.", "admin", "intents",
             IntentBody, {200: IntentRecord}, (), (404, 409, 422)),
    ApiRoute("PATCH", "/v1/intents/{code}", patch_intent, "Switch an intent off or on, or change its version.",
             "admin", "intents", IntentChange, {200: IntentRecord}, (), (404,)),
    ApiRoute("DELETE", "/v1/intents/{code}", remove_intent, "Remove an intent with all its versions.", "admin",
             "intents", None, {204: None}, (), (404,)),
    ApiRoute("GET", "/v1/entities", list_entities, "List entities with their fields.", "tools", None, None,
             {200: EntityList}),
    ApiRoute("GET", "/v1/entities/{name}", show_entity, "Show an entity's fields.", "tools", None, None,
             {200: EntityRecord}, (), (404,)),
    ApiRoute("DELETE", "/v1/cache", clear_cache, "Forget cached answers.", "calls", None, None, {200: Removed},
             (_EVERYONE,)),
)  # fmt: skip
