"""A tool as a server defines it: read within bounds, and told apart from every other by a digest."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from ferrule.dialects.dialect import readable
from ferrule.dialects.mcp import MCP
from ferrule.dialects.payload import DialectError
from ferrule.mcp_client.bounds import DESCRIPTION_CHARS, SCHEMA_BYTES, SCHEMA_DEPTH, TOOLS
from ferrule.mcp_client.private_files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ferrule.mcp_client.server_config import ServerConfig


# Names of servers' tools: `mcp__server__tool`, which every provider takes, and from which both parts can be told.


PREFIX = "mcp__"
MOST = 64
_MOST_OF_SERVER = 24
_HASH_DIGITS = 8
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")
_MADE = re.compile(r".*-[0-9a-f]{8}", re.DOTALL)
# What `dialects.names` makes of names that do not fit; ours must never look like one, or it would be made anew.
_MADE_ELSEWHERE = re.compile(r".*__[0-9a-f]{8}", re.DOTALL)


def server_slug(name: str) -> str:
    """A server's part of the name: no `__` in it and no `_` at its ends, so that it can be told from the tool's."""
    fits = re.fullmatch(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*", name) and len(name) <= _MOST_OF_SERVER
    if fits and not _MADE.fullmatch(name):
        return name
    return _with_hash(re.sub("_+", "_", readable(name)), name, _MOST_OF_SERVER)


def tool_name(server: str, tool: str) -> str:
    """The name under which a server's tool is registered."""
    head = f"{PREFIX}{server_slug(server)}__"
    room = MOST - len(head)
    fits = tool and not _FOREIGN.search(tool) and len(tool) <= room
    if fits and not _MADE.fullmatch(tool) and not _MADE_ELSEWHERE.fullmatch(head + tool):
        return head + tool
    return head + _with_hash(readable(tool), tool, room)


def split_name(name: str) -> tuple[str, str] | None:
    """The server's part and the tool's part of a name; None for one that is no server's tool."""
    if not name.startswith(PREFIX):
        return None
    server, between, tool = name.removeprefix(PREFIX).partition("__")
    return (server, tool) if server and between and tool else None


def _with_hash(short: str, whole: str, most: int) -> str:
    digest = sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    kept = short[: most - _HASH_DIGITS - 1].strip("_-") or "x"
    return f"{kept}-{digest}"


_KEPT = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution")
_LOCAL = ("#", "json-schema:")


class RefusedTool(Exception):  # noqa: N818 - reads as what it says
    """A definition that is not used; says why."""


@dataclass(frozen=True)
class Definition:
    """What a server said of one tool, in the protocol's form."""

    payload: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.payload["name"]

    @property
    def title(self) -> str:
        return self.payload.get("title") or self._annotations.get("title") or ""

    @property
    def description(self) -> str:
        return self.payload.get("description") or ""

    @property
    def input_schema(self) -> dict[str, Any]:
        return self.payload["inputSchema"]

    @property
    def output_schema(self) -> dict[str, Any] | None:
        return self.payload.get("outputSchema")

    @property
    def needs_task(self) -> bool:
        """Whether its server only takes its calls as tasks."""
        told: Any = self.payload.get("execution")
        return isinstance(told, dict) and cast("dict[str, Any]", told).get("taskSupport") == "required"

    def hints(self, name: str) -> bool:
        """Whether the server claims this of its tool; a claim, and nothing more."""
        return self._annotations.get(name) is True

    @property
    def _annotations(self) -> dict[str, Any]:
        return self.payload.get("annotations") or {}

    @cached_property
    def digest(self) -> str:
        """Changes with whatever a model or a person reads of the tool, and with what it takes and gives."""
        told = json.dumps(self.payload, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")
        return sha256(told).hexdigest()


def read_definition(payload: Mapping[str, Any]) -> Definition:
    """A definition that can be used; raises `Refused`."""
    kept = {key: payload[key] for key in _KEPT if payload.get(key) is not None}
    try:
        read = MCP().read_definition(kept)
    except DialectError as error:
        raise RefusedTool(str(error)) from None
    for what, schema in (("its schema", read.schema), ("its output schema", read.output_schema)):
        if schema is not None:
            _check(what, schema)
    if len(read.description) > DESCRIPTION_CHARS:
        left_out = len(read.description) - DESCRIPTION_CHARS
        kept["description"] = f"{read.description[:DESCRIPTION_CHARS]}\n[… {left_out:,} characters left out …]"
    return Definition(kept)


def _check(what: str, schema: dict[str, Any]) -> None:
    """Refuse at little cost what would be refused when it is compiled, or could never be used."""
    row: list[Any] = [schema]
    depth = 0
    while row:
        depth += 1
        if depth > SCHEMA_DEPTH:
            raise RefusedTool(f"{what} is nested deeper than {SCHEMA_DEPTH} levels")
        inner: list[Any] = []
        for part in row:
            if isinstance(part, dict):
                _check_references(what, cast("dict[str, Any]", part))
                inner += (value for value in cast("dict[str, Any]", part).values() if isinstance(value, (dict, list)))
            else:
                inner += (value for value in part if isinstance(value, (dict, list)))
        row = inner
    size = len(json.dumps(schema))
    if size > SCHEMA_BYTES:
        raise RefusedTool(f"{what} takes {size:,} bytes; more than {SCHEMA_BYTES:,} are not read")


def _check_references(what: str, part: dict[str, Any]) -> None:
    for key in ("$ref", "$dynamicRef", "$recursiveRef"):
        reference = part.get(key)
        if isinstance(reference, str) and "://" in reference and not reference.startswith(_LOCAL):
            raise RefusedTool(f"{what} refers to {reference[:100]}, and nothing is ever fetched")


@dataclass(frozen=True, slots=True)
class ToolListing:
    """What of a server's tools can be used, and what cannot."""

    definitions: list[Definition]
    problems: list[str]


def read_listing(payloads: Iterable[Mapping[str, Any]]) -> ToolListing:
    """Every definition that can be used, each name once."""
    found: dict[str, Definition] = {}
    problems: list[str] = []
    for payload in payloads:
        try:
            definition = read_definition(payload)
        except RefusedTool as refused:
            problems.append(f"the tool `{str(payload.get('name'))[:100]}` is left out: {refused}")
            continue
        if definition.name in found:
            problems.append(f"the tool `{definition.name[:100]}` is listed twice; the first counts")
            continue
        found[definition.name] = definition
    return ToolListing(list(found.values()), problems)


# What servers offered last time, so that their tools are there before any of them is started.


class DefinitionStore:
    """A file for each server. It counts only for the very command or address that it was made with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, config: ServerConfig) -> ToolListing | None:
        """None where nothing is known."""
        found = read_json(self._file(config))
        tools: Any = found.get("tools")
        if found.get("fingerprint") != config.fingerprint or not isinstance(tools, list):
            return None
        payloads: list[Any] = [one for one in cast("list[Any]", tools)[:TOOLS] if isinstance(one, dict)]
        return read_listing(payloads)

    def save(self, config: ServerConfig, definitions: list[Definition]) -> None:
        tools = [dict(one.payload) for one in definitions]
        write_json(self._file(config), {"fingerprint": config.fingerprint, "tools": tools})

    def forget(self, config: ServerConfig) -> None:
        self._file(config).unlink(missing_ok=True)

    def _file(self, config: ServerConfig) -> Path:
        return self._folder / f"{server_slug(config.name)}-{config.fingerprint[:12]}.json"
