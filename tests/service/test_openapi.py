"""The OpenAPI document: it is valid, and every answer is what it says."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
from openapi_spec_validator import OpenAPIV31SpecValidator

from ferrule.service.http import ApiRoute
from ferrule.service.messages import ProblemDetails
from ferrule.service.openapi import openapi_document
from ferrule.service.routes import ENDPOINTS
from tests.service.serving import running
from tests.service.shop import Order


def test_the_document_is_valid_openapi() -> None:
    OpenAPIV31SpecValidator(openapi_document(ENDPOINTS)).validate()  # pyright: ignore[reportArgumentType]


def test_every_operation_has_an_id_of_its_own_and_needs_a_key_but_for_four() -> None:
    document = openapi_document(ENDPOINTS)
    operations = [(path, one) for path, methods in document["paths"].items() for one in methods.values()]
    ids = [one["operationId"] for _, one in operations]
    assert len(set(ids)) == len(ids)
    assert {path for path, one in operations if "security" not in one} == {
        "/healthz", "/readyz", "/openapi.json", "/.well-known/oauth-protected-resource",
    }  # fmt: skip


INTENT: dict[str, Any] = {
    "description": "Add two numbers.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    "handler": {"type": "tool", "tool": "add"},
}


def schema_for(document: dict[str, Any], method: str, path: str, status: int) -> dict[str, Any]:
    content = document["paths"][path][method.lower()]["responses"][str(status)]["content"]
    return {**next(iter(content.values()))["schema"], "components": document["components"]}


async def test_answers_are_as_the_document_says(tmp_path: Path) -> None:
    """Also in what it does not allow: the client reads the same forms."""
    asked: tuple[tuple[str, str, str, Any, int], ...] = (
        ("GET", "/v1/me", "/v1/me", None, 200),
        ("GET", "/v1/tools", "/v1/tools", None, 200),
        ("GET", "/v1/tools", "/v1/tools?dialect=gemini", None, 200),
        ("GET", "/v1/tools/{name}", "/v1/tools/add", None, 200),
        ("GET", "/v1/tools/{name}", "/v1/tools/nope", None, 404),
        ("POST", "/v1/calls", "/v1/calls", {"tool": "add", "arguments": {"a": 1, "b": 2}}, 200),
        ("POST", "/v1/calls", "/v1/calls", {"tool": "trip"}, 200),
        ("POST", "/v1/calls", "/v1/calls", {"tol": "add"}, 400),
        ("POST", "/v1/calls/batch", "/v1/calls/batch", {"calls": [{"tool": "who"}]}, 200),
        ("GET", "/v1/calls", "/v1/calls", None, 200),
        ("GET", "/v1/approvals", "/v1/approvals", None, 200),
        ("POST", "/v1/users", "/v1/users", {"name": "ann", "limits": {"rate": 3}}, 201),
        ("GET", "/v1/users", "/v1/users", None, 200),
        ("PUT", "/v1/roles/{name}", "/v1/roles/new", {"allow": ["add"]}, 200),
        ("GET", "/v1/roles", "/v1/roles", None, 200),
        ("POST", "/v1/keys", "/v1/keys", {"user": "ann", "expires_in": 60}, 201),
        ("GET", "/v1/keys", "/v1/keys", None, 200),
        ("POST", "/v1/tenants", "/v1/tenants", {"name": "other"}, 201),
        ("GET", "/v1/tenants", "/v1/tenants", None, 200),
        ("GET", "/v1/audit", "/v1/audit", None, 200),
        ("GET", "/v1/audit/verify", "/v1/audit/verify", None, 200),
        ("GET", "/v1/usage", "/v1/usage", None, 200),
        ("PUT", "/v1/intents/{code}", "/v1/intents/sum", INTENT, 200),
        ("PUT", "/v1/intents/{code}", "/v1/intents/sum", {**INTENT, "handler": {"type": "x"}}, 422),
        ("GET", "/v1/intents", "/v1/intents", None, 200),
        ("GET", "/v1/intents/{code}", "/v1/intents/sum?version=1", None, 200),
        ("PATCH", "/v1/intents/{code}", "/v1/intents/sum", {"enabled": True}, 200),
        ("POST", "/v1/requests", "/v1/requests", {"intent": "sum", "inputs": {"a": 1, "b": 2}}, 200),
        ("POST", "/v1/requests", "/v1/requests", {"text": "What is due?"}, 200),
        ("GET", "/v1/entities", "/v1/entities", None, 200),
        ("GET", "/v1/entities/{name}", "/v1/entities/order", None, 200),
        ("GET", "/v1/entities/{name}", "/v1/entities/none", None, 404),
        ("DELETE", "/v1/cache", "/v1/cache?everyone=true", None, 200),
    )
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path, models={"order": Order}) as service:
        http = await service.http()
        document = (await http.get("/openapi.json")).json()
        for method, path, url, body, status in asked:
            answer = await http.request(method, url, json=body)
            assert answer.status_code == status, (url, answer.text)
            validator = jsonschema_rs.Draft202012Validator(schema_for(document, method, path, status))
            problems = [str(error) for error in validator.iter_errors(answer.json())]
            assert problems == [], (url, answer.text)


ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 1e300, "", "x", "add", "admin", "default", "a" * 300, "\x00", "é\U0001f600", "../x",
    [], {}, ["add"], [None], {"a": 1}, {"$ref": "x"}, [{"tool": "add", "arguments": {"a": 1, "b": 2}}], [{}] * 101,
    {"rate": 1}, {"rate": -1}, "0" * 64, ["Admin"], ["Grep(x)"], ["member"], "plan", "approve", ["calls"],
)  # fmt: skip
IN_PATHS = ("x", "0" * 32, "%00", "..%2fx", "admin", "add", "default", "member", "%C3%A9", "a" * 300, "%ff")


def odd_body(chance: random.Random, endpoint: ApiRoute) -> bytes | None:
    if endpoint.body is None:
        return None
    if chance.random() < 0.1:
        return chance.choice((b"", b"{", b"[]", b"null", b"\xff", b'{"a": 1, "a": 2}'))
    fields = list(endpoint.body.model_fields)
    required = [name for name, field in endpoint.body.model_fields.items() if field.is_required()]
    chosen = {*required, *chance.sample(fields, chance.randint(0, len(fields)))}
    return json.dumps({name: chance.choice(ODD) for name in chosen}).encode()


async def test_whatever_is_sent_the_answer_is_one_that_the_document_names(store: str, tmp_path: Path) -> None:
    """No failure of the service, and no status that a client was not told of."""
    chance = random.Random(11)
    document = openapi_document(ENDPOINTS)
    async with running(store, tmp_path, wait=1.0) as service:
        admin = await service.client()
        await admin.put_role("keeper", allow=["Admin"])  # whom nothing that is sent takes away
        await admin.create_user("keeper", roles=["keeper"])
        http = await service.http((await admin.create_key("keeper")).secret)
        for _ in range(400):
            endpoint = chance.choice(ENDPOINTS)
            path = re.sub(r"{\w+}", lambda _: chance.choice(IN_PATHS), endpoint.path)
            given = [one for one in endpoint.parameters if chance.random() < 0.3]
            query = {one.name: str(chance.choice(ODD)) for one in given if one.where == "query"}
            async with http.stream(
                endpoint.method, path, params=query, content=odd_body(chance, endpoint),
                headers={"Content-Type": "application/json", "Prefer": "wait=1"},
            ) as answer:  # fmt: skip
                if answer.headers.get("content-type", "").startswith("text/event-stream"):
                    continue  # one of a tenant has no end
                await answer.aread()
            named = document["paths"][endpoint.path][endpoint.method.lower()]["responses"]
            # A path with a slash in its name is another path.
            allowed = {*named, "404", "405"} if "2f" in path else set(named)
            assert str(answer.status_code) in allowed, (endpoint.method, path, query, answer.text)
            assert answer.status_code < 500
            if answer.status_code >= 400:
                ProblemDetails.model_validate_json(answer.content)
        assert (await http.get("/v1/me")).status_code == 200
