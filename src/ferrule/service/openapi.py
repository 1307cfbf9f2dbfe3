"""The OpenAPI 3.1 document, made from the endpoints as they are declared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from ferrule._version import __version__
from ferrule.service.messages import DefinitionList, Event, FeedEvent, ProblemDetails

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

    from ferrule.service.http import ApiRoute

_WORDS = {
    400: "The request could not be understood.", 401: "No key, or one that is not good.", 403: "Not allowed.",
    404: "There is no such thing, or not for this caller.", 409: "It is not in a state for this.",
    413: "The body is too large.", 415: "The body is not JSON.", 422: "It cannot be done as asked.",
    429: "A limit is reached; `Retry-After` says when to come again.", 503: "Not now; `Retry-After` says when.",
}  # fmt: skip
_ANSWERS = {
    200: "Done.", 201: "Created.", 202: "Not finished yet; `Location` says where to look.", 204: "Removed.",
    304: "As it was.",
}  # fmt: skip
_EVERY = (400, 401, 403, 503)
_PATH = re.compile(r"{(\w+)}")


def openapi_document(endpoints: tuple[ApiRoute, ...]) -> dict[str, Any]:
    """All that a client needs to know; it follows from the declarations alone."""
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ferrule",
            "version": __version__,
            "summary": "Tools for language models, for many tenants.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(endpoints),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "An API key, `fk_…`."}},
        },
    }


def _operation(one: ApiRoute) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in _PATH.findall(one.path)
    ]
    parameters += [
        {"name": given.name, "in": given.where, "description": given.description, "schema": dict(given.schema)}
        for given in one.parameters
    ]
    operation: dict[str, Any] = {
        "operationId": one.handler.__name__,
        "summary": one.summary,
        "responses": {
            str(status): _answer(status, form, FeedEvent if one.path == "/v1/events" else Event)
            for status, form in one.answers.items()
        },
    }
    if one.streams:
        operation["responses"]["200"]["content"]["text/event-stream"] = {"schema": _event(Event)}
    if parameters:
        operation["parameters"] = parameters
    if one.body is not None:
        content = {"application/json": {"schema": _reference(one.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    errors: set[int] = set(one.errors)
    if one.scope is not None:
        operation["security"] = [{"key": []}]
        errors.update(_EVERY)
        if one.body is not None:
            errors.update((413, 415))
    for status in sorted(errors):
        problem = {"application/problem+json": {"schema": _reference(ProblemDetails)}}
        operation["responses"][str(status)] = {"description": _WORDS[status], "content": problem}
    return operation


def _answer(status: int, form: type[BaseModel] | str | None, event: type[BaseModel]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": _ANSWERS[status]}
    if isinstance(form, str):
        schema = _event(event) if form == "text/event-stream" else {}
        answer["content"] = {form: {"schema": schema}}
    elif form is not None:
        schema = _reference(form)
        if form.__name__ == "ToolList":
            schema = {"anyOf": [schema, _reference(DefinitionList)]}
        answer["content"] = {"application/json": {"schema": schema}}
    return answer


def _event(model: type[BaseModel]) -> dict[str, Any]:
    """One server-sent event of a stream, whose data are a document."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": _reference(model)}
    return {
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {"id": {"type": "string"}, "event": {"type": "string"}, "data": data},
    }


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _schemas(endpoints: Iterable[ApiRoute]) -> dict[str, Any]:
    models: dict[str, tuple[type[BaseModel], Any]] = {}
    for one in endpoints:
        for form in (one.body, *one.answers.values()):
            if isinstance(form, type):
                models[form.__name__] = form, "validation"
    for form in (ProblemDetails, DefinitionList, Event, FeedEvent):
        models[form.__name__] = form, "validation"
    _, found = models_json_schema(list(models.values()), ref_template="#/components/schemas/{model}")
    return dict(sorted(found["$defs"].items()))
