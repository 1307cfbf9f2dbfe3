"""OpenAPI documents become tools that call a real server."""
# ruff: noqa: E501 - documents and requests stand on one line

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.needs import slow
from tests.says_yes import SaysYes
from tests.toolbox.web_server import WebServer

from ferrule import RulePolicy, Runtime, Session, ToolResult
from ferrule.core.errors import ToolError
from ferrule.core.schema_params import SchemaParams
from ferrule.toolbox.accounts import Accounts, Api, Credential, WebAccess
from ferrule.toolbox.areas import toolbox_tools
from ferrule.toolbox.openapi import OpenApi, parse_document
from ferrule.toolbox.web import check

TREE = {
    "type": "object", "required": ["name", "id"],
    "properties": {
        "id": {"type": "integer", "readOnly": True}, "name": {"type": "string", "nullable": True, "default": "oak"},
        "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
        "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}, "tag": {"pattern": "(?<=a)b", "type": "string"},
    },
}  # fmt: skip


def parameter(name: str, place: str, kind: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": kind or {"type": "string"}, **more}


LIST = {"type": "array", "items": {"type": "string"}}
FREE = {"type": "object"}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3", "info": {"title": "Trees"}, "servers": [{"url": "{base}/v1", "variables": {"base": {"default": ""}}}],
    "paths": {
        "/trees/{id}": {
            "parameters": [parameter("id", "path", required=True)],
            "get": {
                "operationId": "getTree", "summary": "Get a tree",
                "parameters": [
                    parameter("fields", "query", LIST, explode=False), parameter("tags", "query", LIST),
                    parameter("filter", "query", FREE, style="deepObject"), parameter("X-Trace", "header"),
                    parameter("X-Api-Key", "header"), parameter("seen", "cookie"), parameter("key", "query"),
                    parameter("bars", "query", LIST, style="pipeDelimited", explode=False),
                ],
            },
            "delete": {"operationId": "deleteTree", "summary": "Cut a tree down"},
        },
        "/trees": {"post": {"operationId": "plantTree", "requestBody": {
            "required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}}}},
        "/photos": {"post": {"operationId": "addPhoto", "requestBody": {"content": {"multipart/form-data": {"schema": {
            "type": "object", "properties": {"photo": {"type": "string", "format": "binary"}, "note": {"type": "string"}}}}}}}},
        "/form": {"post": {"operationId": "sendForm", "requestBody": {"content": {"application/x-www-form-urlencoded": {
            "schema": FREE, "encoding": {"deep": {"style": "deepObject"}}}}}}},
        "/far": {"get": {"operationId": "far", "parameters": [{"$ref": "https://evil.example/p.json"}]}},
    },
    "components": {
        "schemas": {"Tree": TREE}, "securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "key"}},
    },
}  # fmt: skip
SECRET = "Bearer s3cr3t-token"


class Orchard:
    """An API on a real server, called as a model would."""

    def __init__(self, web: WebServer, folder: Path, document: Any = DOCUMENT, policy: Any = None, **api: Any) -> None:
        spec = folder / "spec.json"
        spec.write_text(json.dumps(document))
        self.web = web
        given: dict[str, Any] = {"base_url": f"{web.url}/v1", "credential": "it", **api}
        self.accounts = Accounts(
            credentials={"it": Credential(hosts=[web.host], value=SECRET)},
            apis={"trees": Api(spec, **given)},
            web=WebAccess(private=["127.0.0.1"], timeout=10),
        )
        self.tools = {one.name: one for one in toolbox_tools(self.accounts)}
        session = Session(workspace=folder)
        self.runtime = Runtime(list(self.tools.values()), policy=policy or SaysYes(), session=session)

    def call(self, tool: str, **arguments: Any) -> ToolResult:
        return asyncio.run(self.runtime.run(tool, arguments))

    def sent(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self.web.seen.clear()
        result = self.call(tool, **arguments)
        assert result.success, result.llm_content
        assert "s3cr3t" not in result.to_json()
        return self.web.seen[0]


@pytest.fixture
def orchard(web: WebServer, tmp_path: Path) -> Orchard:
    return Orchard(web, tmp_path)


def test_each_operation_is_a_tool_of_its_methods_kind(orchard: Orchard, caplog: pytest.LogCaptureFixture) -> None:
    made = {name: (one.kind, one.asks_anyway) for name, one in orchard.tools.items() if name.startswith("api__")}
    assert made == {
        "api__trees__getTree": ("readonly", True), "api__trees__deleteTree": ("write", False),
        "api__trees__plantTree": ("write", False), "api__trees__addPhoto": ("write", False),
        "api__trees__sendForm": ("write", False),
    }  # fmt: skip
    Orchard(orchard.web, orchard.runtime.session.workspace)
    assert "nothing is ever fetched" in caplog.text


def test_arguments_arrive_where_and_as_the_document_says(orchard: Orchard) -> None:
    seen = orchard.sent(
        "api__trees__getTree", id="a/b é", fields=["x", "y,z"], tags=["1", "2"], filter={"a": {"b": 3}}, bars=["p", "q"],
        **{"X-Trace": "7", "seen": "yes & no"},
    )  # fmt: skip
    assert seen["path"] == ("/v1/trees/a%2Fb%20%C3%A9?fields=x,y%2Cz&tags=1&tags=2&filter%5Ba%5D%5Bb%5D=3&bars=p%7Cq")
    assert (seen["headers"]["X-Trace"], seen["headers"]["Cookie"]) == ("7", "seen=yes%20%26%20no")
    assert seen["headers"]["Authorization"] == SECRET
    assert {"X-Api-Key", "key"}.isdisjoint(orchard.tools["api__trees__getTree"].input_schema["properties"])  # type: ignore[index]


def test_bodies_of_every_kind(orchard: Orchard) -> None:
    planted = orchard.sent("api__trees__plantTree", body={"name": "Ulme", "children": [{"name": None}]})
    assert json.loads(planted["body"]) == {"name": "Ulme", "children": [{"name": None}]}
    (orchard.runtime.session.workspace / "a.jpg").write_bytes(b"\xff\xd8\r\n--x")
    photo = orchard.sent("api__trees__addPhoto", body={"photo": "a.jpg", "note": 'n"\r\n'})
    assert (
        b'name="photo"; filename="a.jpg"\r\nContent-Type: application/octet-stream\r\n\r\n\xff\xd8\r\n--x\r\n'
        in photo["body"]
    )
    form = orchard.sent(
        "api__trees__sendForm", body={"a": "x y", "b": ["1", "2"], "deep": {"k": True}, "json": {"l": 1}}
    )
    assert form["body"] == b"a=x%20y&b=1&b=2&deep%5Bk%5D=true&json=%7B%22l%22%3A%201%7D"


@pytest.mark.parametrize("value", ["..", ".", ""])
def test_a_value_cannot_change_the_path(orchard: Orchard, value: str) -> None:
    assert "stands in the path" in orchard.call("api__trees__deleteTree", id=value).llm_content
    assert orchard.web.seen == []


def test_a_file_outside_the_workspace_is_not_sent(orchard: Orchard, tmp_path: Path) -> None:
    (tmp_path.parent / "outside.txt").write_text("secret")
    assert not orchard.call("api__trees__addPhoto", body={"photo": "../outside.txt"}).success
    assert orchard.web.seen == []


def test_schemas_stand_on_their_own(orchard: Orchard) -> None:
    schema = orchard.tools["api__trees__plantTree"].input_schema
    assert isinstance(schema, dict)
    tree = schema["properties"]["body"]
    assert "$ref" not in json.dumps(schema)
    assert tree["required"] == ["name"], "what the server sets is not asked for"
    assert tree["properties"]["name"] == {"type": ["string", "null"], "description": 'Default: "oak".'}
    assert tree["properties"]["age"] == {"type": "integer", "exclusiveMinimum": 0}
    assert tree["properties"]["tag"] == {"type": "string"}
    assert tree["properties"]["children"] == {"type": "array", "items": {}}, "a circle ends"


def test_rules_see_api_method_and_path(web: WebServer, tmp_path: Path) -> None:
    def runs(tool: str, arguments: dict[str, Any], **rules: Any) -> bool:
        return Orchard(web, tmp_path, policy=RulePolicy(**rules)).call(tool, **arguments).success

    get, delete = "api__trees__getTree", "api__trees__deleteTree"
    assert not runs(get, {"id": "1"}), "a request can carry something out"
    assert runs(get, {"id": "1"}, allow=["WebFetch(domain:127.0.0.1)"])
    assert not runs(delete, {"id": "1"}, allow=["WebFetch(domain:127.0.0.1)"])
    assert runs(delete, {"id": "7"}, allow=[f"{delete}(trees DELETE /trees/7)"])
    assert not runs(delete, {"id": "8"}, allow=[f"{delete}(trees DELETE /trees/7)"])
    assert not runs(delete, {"id": "7"}, allow=["api__*"], deny=["WebFetch(domain:127.0.0.1)"])


# APIs with many operations


def many(count: int = 40) -> dict[str, Any]:
    paths: dict[str, Any] = {
        f"/things{n}/{{id}}": {"get": {"operationId": f"getThing{n}", "summary": f"Get thing {n}"}}
        for n in range(count)
    }
    paths["/invoices"] = {"post": {"operationId": "createInvoice", "summary": "Create an invoice", "requestBody": {"content": {
        "application/json": {"schema": {"type": "object", "required": ["sum"], "properties": {"sum": {"type": "number"}}}}}}}}  # fmt: skip
    return {**DOCUMENT, "paths": {**DOCUMENT["paths"], **paths}}


def test_many_operations_are_found_described_and_called(web: WebServer, tmp_path: Path) -> None:
    orchard = Orchard(web, tmp_path, many())
    assert [name for name in orchard.tools if "Operation" in name] == [
        "FindOperation",
        "DescribeOperation",
        "CallOperation",
    ]
    found = orchard.call("FindOperation", query="create invoices", limit=3)
    assert found.llm_content.startswith("trees createInvoice: POST /invoices - Create an invoice")
    assert (
        '"sum": {"type": "number"}'
        in orchard.call("DescribeOperation", api="trees", operation="createInvoice").llm_content
    )
    seen = orchard.sent("CallOperation", api="trees", operation="POST /invoices", arguments={"body": {"sum": 3}})
    assert (seen["method"], seen["path"], seen["body"]) == ("POST", "/v1/invoices", b'{"sum": 3}')
    assert (
        "Did you mean `createInvoice`"
        in orchard.call("CallOperation", api="trees", operation="createInvoic").llm_content
    )
    wrong = orchard.call("CallOperation", api="trees", operation="createInvoice", arguments={"body": {}})
    assert "`arguments.body.sum`: required, but missing" in wrong.llm_content
    assert "There is no API `tree`. " in orchard.call("DescribeOperation", api="tree", operation="x").llm_content.replace("\n\nSuggestion:", " ")  # fmt: skip


def test_one_rule_form_holds_for_called_operations(web: WebServer, tmp_path: Path) -> None:
    def runs(operation: str, arguments: dict[str, Any], **rules: Any) -> bool:
        orchard = Orchard(web, tmp_path, many(), policy=RulePolicy(**rules))
        return orchard.call("CallOperation", api="trees", operation=operation, arguments=arguments).success

    post = {"body": {"sum": 1}}
    assert not runs("createInvoice", post, allow=["WebFetch(domain:127.0.0.1)"])
    assert runs("createInvoice", post, allow=["CallOperation(trees POST /invoices)"])
    assert runs("getThing1", {"id": "x"}, allow=["WebFetch(domain:127.0.0.1)"])
    assert not runs("getThing1", {"id": "x"}, allow=["CallOperation(trees POST *)"])
    denied = {"allow": ["CallOperation"], "deny": ["CallOperation(trees * /things1/*)"]}
    assert not runs("getThing1", {"id": "x"}, **denied)
    assert not runs("getThing2", {"id": "../things1/x"}, **denied)


def test_names_are_portable_and_each_tools_own(web: WebServer, tmp_path: Path) -> None:
    paths = {f"/{'long' * 30}{n}": {"get": {"summary": "x"}} for n in range(3)}
    paths["/ünïcode"] = {"get": {"operationId": "ünïcode weird/name"}, "post": {"operationId": "ünïcode weird/name"}}
    orchard = Orchard(web, tmp_path, {**DOCUMENT, "paths": paths})
    names = [name for name in orchard.tools if name.startswith("api__")]
    assert len(set(names)) == 5
    assert all(
        name.isascii() and len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in names
    )


# Documents


SWAGGER = {
    "swagger": "2.0", "info": {"title": "Old"}, "host": "old.example.org", "basePath": "/api", "schemes": ["http", "https"],
    "paths": {"/x/{id}": {"post": {"consumes": ["multipart/form-data"], "parameters": [
        {"name": "id", "in": "path", "type": "integer", "required": True},
        {"name": "q", "in": "query", "type": "array", "items": {"type": "string"}, "collectionFormat": "multi"},
        {"name": "upload", "in": "formData", "type": "file", "required": True}]}}},
}  # fmt: skip


def test_version_2_is_understood() -> None:
    operation = OpenApi(SWAGGER).operations[0]
    details = operation.details
    assert (operation.id, details.base_url) == ("post_x_id", "https://old.example.org/api")
    assert details.body is not None
    assert (details.body.media_type, details.body.files) == ("multipart/form-data", frozenset({"upload"}))
    SchemaParams("x", details.schema).load('{"id": 1, "q": ["a"], "body": {"upload": "a.txt"}}')


def test_yaml_is_read_as_the_values_that_json_has() -> None:
    text = b"openapi: 3.1.0\ninfo: {title: Y}\nx: [on, 2020-01-01, 1:30, 012, 1e3, ~, true, 1.5]\npaths: {/a: {get: {responses: {200: {}}}}}"
    document = parse_document(text, "a.yaml")
    assert document["x"] == ["on", "2020-01-01", "1:30", "012", 1000.0, None, True, 1.5]
    assert list(document["paths"]["/a"]["get"]["responses"]) == ["200"]


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "neither `openapi` nor `swagger`"),
        (b"{", "not valid JSON"),
        (b'{"openapi": "4.0"}', "version 4.0"),
        (b'{"a": ' * 100_000, "not valid JSON"),
        slow(b"openapi: 3.0.0\n" + BOMB.encode(), "too much, or is nested too deep"),
        slow(b"a: " + b"[" * 10_000 + b"]" * 10_000, "cannot be read|nested too deep|neither"),
        (b"a: !!python/object/apply:os.system [id]", "neither JSON nor YAML"),
        (b"a: b: c", r"neither JSON nor YAML: .* \(line 1\)"),
        (b"a: &a [*a]", "too deep|cannot be read"),
    ],
    ids=["empty", "cut", "version", "deep json", "aliases", "deep yaml", "python", "no yaml", "itself"],
)
def test_a_document_that_cannot_be_used_says_why(data: bytes, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        parse_document(data, "spec")


def test_references_lead_nowhere_outside_and_never_in_circles() -> None:
    def why(ref: Any) -> str:
        document = {
            **DOCUMENT,
            "a": {"$ref": "#/b"},
            "b": {"$ref": "#/a"},
            "paths": {"/x": {"get": {"parameters": [ref]}}},
        }
        with pytest.raises(ToolError) as caught:
            _ = OpenApi(document).operations[0].details
        return caught.value.message

    assert "nothing is ever fetched" in why({"$ref": "other.yaml#/x"})
    assert "not in the document" in why({"$ref": "#/components/none"})
    assert "in a circle" in why({"$ref": "#/a"})


def test_a_schema_that_would_multiply_stays_small() -> None:
    schemas = {
        f"S{n}": {
            "type": "object",
            "properties": {f"p{m}": {"$ref": f"#/components/schemas/S{n + 1}"} for m in range(8)},
        }
        for n in range(20)
    }
    schemas["S20"] = {"type": "string"}
    body = {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}}
    document = {**DOCUMENT, "components": {"schemas": schemas}, "paths": {"/x": {"post": body}}}
    schema = OpenApi(document).operations[0].details.schema
    assert len(json.dumps(schema)) < 50_000
    assert list(schema["properties"]["body"]["properties"]) == [f"p{n}" for n in range(8)]
    SchemaParams("x", schema).compile()


def test_apis_are_checked(web: WebServer, tmp_path: Path) -> None:
    found = asyncio.run(check(Orchard(web, tmp_path).accounts))
    assert [(one.what, one.works) for one in found] == [("credential `it`", True), ("API `trees`", True)]
    other = Orchard(web, tmp_path, base_url="https://example.org").accounts
    assert [(one.works, one.words) for one in asyncio.run(check(other))][1] == (
        False, "The credential `it` is not for `example.org`.",
    )  # fmt: skip
    missing = Orchard(web, tmp_path, operations=["getTre"])
    assert not any(name.startswith("api__") for name in missing.tools)
    assert asyncio.run(check(missing.accounts))[1].words == "The API `trees` has no operation `getTre`."
