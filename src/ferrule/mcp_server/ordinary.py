"""Which of a client's first messages are so ordinary that the SDK is sure to take them, told without the SDK.

A greeting that was answered and is then refused leaves a client with tools that it cannot call. So whatever is odd is
none of these, even where the SDK would overlook it; it only waits for the SDK.
"""

from __future__ import annotations

from typing import Any, cast

from pydantic_core import from_json

from ferrule.core.json_values import has_too_many_values
from ferrule.mcp_server.introduction import HANDSHAKE_REVISIONS, META, STATELESS_REVISION

_WORDS = ("title", "description", "websiteUrl")


def read_ordinary(line: bytes) -> dict[str, Any]:
    """A request, or the notification that the greeting is over; nothing for whatever else it is."""
    if has_too_many_values(line):
        return {}
    try:
        message: Any = from_json(line)  # as strict as the SDK's reading: no byte order mark, no half a character
    except ValueError:
        return {}
    if not isinstance(message, dict):
        return {}
    found = cast("dict[str, Any]", message)
    if not isinstance(found.get("params", {}), dict):
        return {}
    is_request = found.get("method") != "notifications/initialized"
    has_id = _is_id(found.get("id"))
    return found if found.get("jsonrpc") == "2.0" and has_id == is_request else {}


def is_greeting(message: dict[str, Any]) -> bool:
    """Whether it is an `initialize` for a revision that is served."""
    params = object_in(message, "params")
    revision = params.get("protocolVersion")
    known = isinstance(revision, str) and revision in HANDSHAKE_REVISIONS
    return known and _has_plain_meta(params) and _is_client(params.get("clientInfo"), params.get("capabilities"))


def is_probe(message: dict[str, Any]) -> bool:
    """Whether it is a `server/discover` in the envelope of the stateless era."""
    meta = object_in(object_in(message, "params"), "_meta")
    own = {f"{META}{name}": name for name in ("protocolVersion", "clientInfo", "clientCapabilities")}
    said = {own[key]: value for key, value in meta.items() if key in own}
    rest = {"_meta": {key: value for key, value in meta.items() if key not in own}}
    known = said.get("protocolVersion") == STATELESS_REVISION
    return known and _has_plain_meta(rest) and _is_client(said.get("clientInfo"), said.get("clientCapabilities"))


def is_first_page(message: dict[str, Any]) -> bool:
    """Whether a `tools/list` asks for the beginning."""
    params = object_in(message, "params")
    return params.get("cursor") is None and _has_plain_meta(params)


def object_in(of: dict[str, Any], key: str) -> dict[str, Any]:
    """The object under a key; an empty one where there is none."""
    found = of.get(key)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _has_plain_meta(params: dict[str, Any]) -> bool:
    """Whether `_meta` is left out, or has a sound progress token at most of what the protocol reserves."""
    meta = params.get("_meta", {})
    if not isinstance(meta, dict):
        return False
    said = cast("dict[str, Any]", meta)
    return _is_id(said.get("progressToken", 0)) and not any(key.startswith(META) for key in said)


def _is_client(info: Any, capabilities: Any) -> bool:
    if not isinstance(info, dict) or not isinstance(capabilities, dict):
        return False
    said = cast("dict[str, Any]", info)
    named = isinstance(said.get("name"), str) and isinstance(said.get("version"), str)
    worded = all(isinstance(said.get(key, ""), str) for key in _WORDS)
    able = cast("dict[str, Any]", capabilities)
    return named and worded and "icons" not in said and all(_is_ability(name, one) for name, one in able.items())


def _is_ability(name: str, said: Any) -> bool:
    if not isinstance(said, dict):
        return False
    parts = cast("dict[str, Any]", said)
    if name == "roots":
        return isinstance(parts.get("listChanged", True), bool)
    if name == "tasks":
        return _holds_objects(parts)
    return all(isinstance(one, dict) for one in parts.values())


def _holds_objects(of: Any) -> bool:
    return isinstance(of, dict) and all(_holds_objects(one) for one in cast("dict[str, Any]", of).values())


def _is_id(given: Any) -> bool:
    return isinstance(given, (int, str)) and not isinstance(given, bool)
