"""The OpenAPI document: it is valid, and every answer is what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
from openapi_spec_validator import OpenAPIV31SpecValidator

from ferrule.service.openapi import openapi_document
from ferrule.service.routes import ENDPOINTS
from tests.service.serving import running


def test_the_document_is_valid_openapi() -> None:
    OpenAPIV31SpecValidator(openapi_document(ENDPOINTS)).validate()  # pyright: ignore[reportArgumentType]


def test_every_operation_has_an_id_of_its_own_and_needs_a_key_but_for_four() -> None:
    document = openapi_document(ENDPOINTS)
    operations = [(path, one) for path, methods in document["paths"].items() for one in methods.values()]
    ids = [one["operationId"] for _, one in operations]
    assert len(set(ids)) == len(ids)
    assert {path for path, one in operations if "security" not in one} == {"/healthz", "/readyz", "/openapi.json"}


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
    )
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path) as service:
        http = await service.http()
        document = (await http.get("/openapi.json")).json()
        for method, path, url, body, status in asked:
            answer = await http.request(method, url, json=body)
            assert answer.status_code == status, (url, answer.text)
            validator = jsonschema_rs.Draft202012Validator(schema_for(document, method, path, status))
            problems = [str(error) for error in validator.iter_errors(answer.json())]
            assert problems == [], (url, answer.text)
