"""A server's tool as one of ours: its schema from elsewhere, its handler a call to the server.

What the server claims of it is not believed: it is of the kind `execute`, so it asks until a rule allows it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.access import READS_ANYTHING, WRITES_ANYTHING
from ferrule.core.call import RawCall
from ferrule.core.description import Description
from ferrule.core.errors import ErrorKind
from ferrule.core.function_tool import RawTool
from ferrule.core.result import ErrorInfo, ToolResult, words_for_attached
from ferrule.core.shown_text import cut, cut_counted, visible
from ferrule.core.tool import AnyKind, Kind
from ferrule.mcp_client.bounds import ATTACHMENTS, DESCRIPTION_CHARS, SCHEMA_BYTES, SCHEMA_DEPTH, TOOLS
from ferrule.workspace.data_folder import read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.context import ToolContext
    from ferrule.mcp_client.server_config import ServerConfig

Call = Callable[["RemoteTool", Mapping[str, Any], "ToolContext"], Awaitable[dict[str, Any]]]
"""Runs a tool's calls: the tool, the arguments and the context in, the server's result out."""


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
    from ferrule.dialects.dialect import readable

    return _with_hash(re.sub("_+", "_", readable(name)), name, _MOST_OF_SERVER)


def tool_name(server: str, tool: str) -> str:
    head = f"{PREFIX}{server_slug(server)}__"
    room = MOST - len(head)
    fits = tool and not _FOREIGN.search(tool) and len(tool) <= room
    if fits and not _MADE.fullmatch(tool) and not _MADE_ELSEWHERE.fullmatch(head + tool):
        return head + tool
    from ferrule.dialects.dialect import readable

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
        """Changes with whatever a model or a user reads of the tool, and with what it takes and gives."""
        told = json.dumps(self.payload, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")
        return sha256(told).hexdigest()


def read_definition(payload: Mapping[str, Any]) -> Definition:
    """A definition that can be used; raises `Refused`."""
    from ferrule.dialects.mcp import MCP
    from ferrule.dialects.payload import DialectError

    kept = {key: payload[key] for key in _KEPT if payload.get(key) is not None}
    try:
        read = MCP().read_definition(kept)
    except DialectError as error:
        raise RefusedTool(str(error)) from None
    for what, schema in (("its schema", read.schema), ("its output schema", read.output_schema)):
        if schema is not None:
            _check(what, schema)
    if len(read.description) > DESCRIPTION_CHARS:
        kept["description"] = cut_counted(read.description, DESCRIPTION_CHARS)
    return Definition(_visible(kept))


_VALUES = frozenset({"default", "const", "enum", "examples"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions"})


def _visible(told: Any, key: str = "") -> Any:
    """A definition whose titles and descriptions hide nothing; values, which a caller gives exactly, stay."""
    if isinstance(told, dict):
        values = frozenset[str]() if key in _NAMED else _VALUES
        fields = cast("dict[str, Any]", told).items()
        return {name: one if name in values else _visible(one, name) for name, one in fields}
    if isinstance(told, list):
        return [_visible(one) for one in cast("list[Any]", told)]
    return visible(told) if isinstance(told, str) and key in ("title", "description") else told


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
                part = cast("dict[str, Any]", part)
                for key in ("$ref", "$dynamicRef", "$recursiveRef"):
                    reference = part.get(key)
                    if isinstance(reference, str) and "://" in reference and not reference.startswith(_LOCAL):
                        raise RefusedTool(f"{what} refers to {reference[:100]}, and nothing is ever fetched")
                inner += (value for value in part.values() if isinstance(value, (dict, list)))
            else:
                inner += (value for value in part if isinstance(value, (dict, list)))
        row = inner
    size = len(json.dumps(schema))
    if size > SCHEMA_BYTES:
        raise RefusedTool(f"{what} takes {size:,} bytes; more than {SCHEMA_BYTES:,} are not read")


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


_LONGEST_ERROR = 20_000


@dataclass(slots=True, frozen=True)
class AgreedServer:
    """A server that the user agreed to with its tools, as a plugin's: these very definitions are offered, no others."""

    name: str
    digests: Mapping[str, str]
    """Of the definitions that were agreed to, by the names of the tools."""
    known: Sequence[Definition]
    """As many of these as are at hand, so that the server need not be asked."""
    kinds: Mapping[str, AnyKind]
    """Of its tools, as they were agreed to; the others are of the kind `execute`."""
    config: Callable[[], ServerConfig]
    """Found out at each start; raises `ToolError` where it cannot be started."""
    tokens: Path
    """The folder for what signing in to it gives, which goes with the plugin."""
    agreement: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """All that was agreed to: with another one it is another server."""

    @property
    def identity(self) -> str:
        return self.name


class RemoteTool(RawTool):
    def __init__(self, server: ServerConfig | AgreedServer, definition: Definition, call: Call) -> None:
        self.definition = definition
        self.server_name = name = server.name
        self.identity = server.identity
        agreed = server if isinstance(server, AgreedServer) else None
        self._call = call
        super().__init__(
            tool_name(name, definition.name),
            definition.input_schema,
            self._run,
            output_schema=definition.output_schema,
            description=_described(definition, name),
            display_name=definition.title or definition.name,
            kind=agreed.kinds.get(definition.name, Kind.EXECUTE) if agreed else Kind.EXECUTE,
            category="plugin" if agreed else "mcp",
            tags=(name,),
            idempotent=definition.hints("idempotentHint") or definition.hints("readOnlyHint"),
            timeout=None if isinstance(server, AgreedServer) else server.timeout,
            may_block=False,
            # Only for the order of calls: a server that lies can confuse its own results, and gets no leave by it.
            touches=READS_ANYTHING if definition.hints("readOnlyHint") else WRITES_ANYTHING,
            # What a user agrees to: the names that the server is really called by, not the title it chose.
            summary=lambda arguments: f"{name}: {definition.name} {self.params.dump(arguments).decode()}",
        )

    @property
    def may_run_twice(self) -> bool:
        """Whether a call is made again whose server went away in it. That it reads is believed where that is held."""
        hints = self.definition.hints
        return self.read_only or (hints("idempotentHint") and not hints("readOnlyHint"))

    async def _run(self, arguments: Any, context: ToolContext) -> ToolResult:
        from ferrule.dialects.mcp import MCP, embedded_text
        from ferrule.dialects.payload import DialectError
        from ferrule.mcp_client.failures import malformed_result

        payload = await self._call(self, arguments, context)
        try:
            result = MCP().read_result(_with_fewer_blocks(payload), RawCall(self.name, id=context.call_id))
        except DialectError as error:
            raise malformed_result(self.server_name, self.definition.name, str(error).rstrip(".")) from None
        if not result.success:
            return _failed(result)
        if embedded := embedded_text(result.attachments):
            result.llm_content = f"{result.llm_content}\n\n{embedded}" if result.llm_content else embedded
        if not result.llm_content:
            result.llm_content = _words(result)
        result.display_content = result.llm_content
        return result


def _with_fewer_blocks(payload: dict[str, Any]) -> dict[str, Any]:
    """The result without attachments that no model would ever look at; what is left out is said in its place."""
    content: Any = payload.get("content")
    if not isinstance(content, list) or len(cast("list[Any]", content)) <= ATTACHMENTS:
        return payload
    kept: list[Any] = []
    attached = 0
    for block in cast("list[Any]", content):
        is_text = isinstance(block, dict) and cast("dict[str, Any]", block).get("type") == "text"
        attached += not is_text
        if is_text or attached <= ATTACHMENTS:
            kept.append(block)
    if attached > ATTACHMENTS:
        kept.append({"type": "text", "text": f"[… {attached - ATTACHMENTS:,} of {attached:,} attachments left out …]"})
    return {**payload, "content": kept}


def _failed(result: ToolResult) -> ToolResult:
    """A failure that the server reports, with a kind where it tells one as we do."""
    found = result.error or ErrorInfo(ErrorKind.EXECUTION, "")
    kind = ErrorKind.EXECUTION if found.kind is ErrorKind.UNKNOWN else found.kind
    message = found.message.strip() or "The tool failed and did not say why."
    message = cut(message, _LONGEST_ERROR)
    result.error = ErrorInfo(kind, message, found.details, found.suggestion)
    result.llm_content = result.error.words
    result.display_content = cut(message.partition("\n")[0], 200)
    return result


def _words(result: ToolResult) -> str:
    """Words for a result that has none: its data as JSON, or what is attached."""
    if result.data is not None:
        from pydantic_core import to_json

        from ferrule.dialects.payload import to_base64

        words = to_json(result.data).decode()
        attached = [one.data for one in result.attachments if one.data]
        if not any(to_base64(data) in words for data in attached):  # a picture once more, which nobody can read
            return words
    if not result.attachments:
        return "Done. There is no output."
    return words_for_attached(result.attachments)


def _described(definition: Definition, server: str) -> Description:
    text = definition.description.strip()
    if not text:
        return Description(f"{definition.title or definition.name}, a tool of the MCP server {server}.")
    short, _, rest = text.partition("\n\n")
    return Description(short, rest.strip()) if "\n" not in short else Description(text)
