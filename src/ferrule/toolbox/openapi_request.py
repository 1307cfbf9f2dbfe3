"""The request that a call of an OpenAPI operation comes to: its arguments in path, query, headers, cookies and body."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from ferrule import ToolError
from ferrule.extension import advice, phrase
from ferrule.toolbox.failures import invalid
from ferrule.toolbox.http_client import WebRequest, checked_headers
from ferrule.toolbox.web_address import parse_address

if TYPE_CHECKING:
    from ferrule.toolbox.openapi import ApiOperation, ApiParameter, Body, Details

_SEPARATORS = {"spaceDelimited": "%20", "pipeDelimited": "%7C", "tabDelimited": "%09"}
_RESERVED = ":/?[]@!$'()*,;="
"""What `allowReserved` lets stand in a query as it is; without what would end the value."""


def request_of(operation: ApiOperation, arguments: Mapping[str, Any], read_file: Callable[[str], bytes]) -> WebRequest:
    """The request, without a credential; a `ToolError` says which argument cannot be sent."""
    details = operation.details
    if not details.base_url:
        raise ToolError(
            phrase("The API's document names no server."),
            suggestion=advice(
                "Ask the user to set `base_url` of this API in their settings.",
                "Set `base_url` of this API in your settings.",
            ),
        )
    url, query = _url(operation, details, arguments)
    headers: dict[str, str] = {"Accept": "application/json, */*;q=0.5"}
    cookies: list[str] = []
    for one in details.parameters:
        if one.argument not in arguments:
            continue
        value = arguments[one.argument]
        if one.place == "header":
            headers[one.name] = _simple(one, value, str)
        elif one.place == "cookie":
            cookies += [f"{_quoted(name)}={inner}" for name, inner in _pairs(one, value, "")]
    body = details.body
    data = b""
    if body is not None and body.argument in arguments:
        kind, data = _body(body, arguments[body.argument], read_file)
        headers["Content-Type"] = kind
    sent = checked_headers(headers)
    if cookies:
        sent.append(("Cookie", "; ".join(cookies)))
    address = parse_address(f"{url}?{query}" if query else url)
    return WebRequest(operation.method, address, sent, data)


def signature_of(api: str, operation: ApiOperation, request: WebRequest) -> str:
    """What rules see: the API, the method, and the path below the API's own address, without the query."""
    base = parse_address(operation.details.base_url + "/")
    path = request.address.signature.removeprefix(request.address.origin).partition("?")[0]
    root = base.path.rstrip("/")
    return f"{api} {operation.method} {path.removeprefix(root) if path.startswith(f'{root}/') else path}"


def files_in(operation: ApiOperation, arguments: Mapping[str, Any]) -> list[str]:
    """The files of the workspace that a call would send."""
    body = operation.details.body
    if body is None or not body.files or body.argument not in arguments:
        return []
    value = arguments[body.argument]
    if "" in body.files:
        return [value]
    found: list[str] = []
    for name in sorted(body.files):
        given = cast("dict[str, Any]", value).get(name)
        found += [
            one for one in (cast("list[Any]", given) if isinstance(given, list) else [given]) if isinstance(one, str)
        ]
    return found


def _url(operation: ApiOperation, details: Details, arguments: Mapping[str, Any]) -> tuple[str, str]:
    path, _, fixed = operation.path.partition("#")[0].partition("?")
    by_name = {one.name: one for one in details.parameters if one.place == "path"}

    def fill(found: re.Match[str]) -> str:
        one = by_name[found[1]]
        text = _simple(one, arguments[one.argument], _quoted)
        if text in ("", ".", ".."):
            raise invalid(phrase("`{name}` stands in the path and cannot be `{value}`.", name=one.argument, value=text))
        return text

    pairs = [fixed] if fixed else []
    for one in details.parameters:
        if one.place == "query" and one.argument in arguments:
            safe = _RESERVED if one.reserved else ""
            pairs += [f"{_quoted(name)}={inner}" for name, inner in _pairs(one, arguments[one.argument], safe)]
    return details.base_url + re.sub(r"\{([^{}]+)\}", fill, path), "&".join(pairs)


def _quoted(text: str, safe: str = "") -> str:
    return quote(text, safe=safe, errors="replace")


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _simple(one: ApiParameter, value: Any, code: Callable[[str], str]) -> str:
    """A value in a path or a header: `simple`, `label` or `matrix`."""
    if one.as_json:
        return code(json.dumps(value, ensure_ascii=False))
    between = "." if one.style == "label" else ","
    start = {"label": ".", "matrix": f";{one.name}="}.get(one.style, "")
    if isinstance(value, list):
        parts = [code(_plain(inner)) for inner in cast("list[Any]", value)]
        return start + (f";{one.name}=" if one.style == "matrix" and one.explode else between).join(parts)
    if isinstance(value, dict):
        items = [(code(key), code(_plain(inner))) for key, inner in cast("dict[str, Any]", value).items()]
        if one.explode:
            start, between = (";", ";") if one.style == "matrix" else (start, between)
            return start + between.join(f"{key}={inner}" for key, inner in items)
        return start + between.join(f"{key}{between}{inner}" for key, inner in items)
    return start + code(_plain(value))


def _pairs(one: ApiParameter, value: Any, safe: str) -> Iterator[tuple[str, str]]:
    """A value in a query, a cookie or a form: names, and values that are escaped already."""
    if one.as_json:
        yield one.name, _quoted(json.dumps(value, ensure_ascii=False), safe)
    elif one.style == "deepObject" and isinstance(value, (dict, list)):
        yield from _deep(one.name, value, safe)
    elif isinstance(value, list):
        parts = [_quoted(_plain(inner), safe) for inner in cast("list[Any]", value)]
        if one.explode:
            yield from ((one.name, part) for part in parts)
        else:
            yield one.name, _SEPARATORS.get(one.style, ",").join(parts)
    elif isinstance(value, dict):
        items = [(key, _quoted(_plain(inner), safe)) for key, inner in cast("dict[str, Any]", value).items()]
        if one.explode:
            yield from items
        else:
            yield one.name, ",".join(f"{_quoted(key)},{inner}" for key, inner in items)
    else:
        yield one.name, _quoted(_plain(value), safe)


def _deep(name: str, value: Any, safe: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield from _deep(f"{name}[{key}]", inner, safe)
    elif isinstance(value, list):
        for at, inner in enumerate(cast("list[Any]", value)):
            yield from _deep(f"{name}[{at}]" if isinstance(inner, (dict, list)) else f"{name}[]", inner, safe)
    else:
        yield name, _quoted(_plain(value), safe)


def _body(body: Body, value: Any, read_file: Callable[[str], bytes]) -> tuple[str, bytes]:
    kind = body.media_type
    if "" in body.files:
        return kind, read_file(value)
    if kind == "application/x-www-form-urlencoded" and isinstance(value, dict):
        pairs = [pair for one in _fields(body, value) for pair in _pairs(one, cast("JsonObject", value)[one.name], "")]
        return kind, "&".join(f"{_quoted(name)}={inner}" for name, inner in pairs).encode()
    if kind == "multipart/form-data" and isinstance(value, dict):
        return _multipart(body, cast("JsonObject", value), read_file)
    if kind.startswith("text/") or kind.endswith(("xml", "yaml")):
        return f"{kind}; charset=utf-8", _plain(value).encode("utf-8", "replace")
    return ("application/json" if "*" in kind else kind), json.dumps(value, ensure_ascii=False).encode(
        "utf-8", "replace"
    )


JsonObject = dict[str, Any]


def _fields(body: Body, value: Any) -> Iterator[ApiParameter]:
    from ferrule.toolbox.openapi import ApiParameter

    for name in cast("JsonObject", value):
        encoding = body.encoding.get(name)
        said = cast("JsonObject", encoding) if isinstance(encoding, dict) else {}
        is_object = isinstance(cast("JsonObject", value)[name], dict)
        yield ApiParameter(
            name, "form", name, False, {}, str(said.get("style") or "form"), said.get("explode") is not False,
            as_json=is_object and "style" not in said,
        )  # fmt: skip


def _multipart(body: Body, value: JsonObject, read_file: Callable[[str], bytes]) -> tuple[str, bytes]:
    boundary = f"ferrule-{secrets.token_hex(16)}"
    out = bytearray()

    def part(name: str, content: bytes, kind: str = "", file: str = "") -> None:
        # As browsers do: what would end the name, or the line, is escaped.
        shown, given = (re.sub(r"[\r\n\"]", lambda found: f"%{ord(found[0]):02X}", text) for text in (name, file))
        named = f'; filename="{given}"' if file else ""
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{shown}"{named}\r\n'
        out.extend((head + (f"Content-Type: {kind}\r\n" if kind else "") + "\r\n").encode("utf-8", "replace"))
        out.extend(content + b"\r\n")

    for name, given in value.items():
        for one in cast("list[Any]", given) if isinstance(given, list) else [given]:
            if name in body.files:
                part(name, read_file(one), "application/octet-stream", str(one).rpartition("/")[2])
            elif isinstance(one, (dict, list)):
                part(name, json.dumps(one, ensure_ascii=False).encode("utf-8", "replace"), "application/json")
            else:
                part(name, _plain(one).encode("utf-8", "replace"))
    return f"multipart/form-data; boundary={boundary}", bytes(out) + f"--{boundary}--\r\n".encode()
