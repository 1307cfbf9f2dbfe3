"""Tools as clients see them: their definitions in pages, and their results."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ferrule.core.errors import ErrorKind
from ferrule.core.result import ErrorInfo
from ferrule.core.schema_compile import quick_validator
from ferrule.core.shown_text import head_and_tail
from ferrule.core.tool import output_schema_of
from ferrule.dialects.anthropic import Anthropic
from ferrule.dialects.dialect import MAX_LENGTH, Dialect, NameMap
from ferrule.dialects.exporter import Exporter, leave_out
from ferrule.dialects.gemini import Gemini
from ferrule.dialects.mcp import MCP, output_object, own_words
from ferrule.dialects.payload import out_of_order

if TYPE_CHECKING:
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool
    from ferrule.dialects.flatten import Ledger
    from ferrule.registry.registry import ToolSource


RESULT_CHARS = 39_000
"""What no agent cuts once more: Gemini CLI keeps 40,000 characters, opencode 50 kB, and Claude Code shows a model 2 kB
of what is over 50,000. (Codex keeps less of a model that it does not know, and cuts the middle like we do.)"""
STRUCTURED_CHARS = 80_000
"""For JSON: about 20,000 tokens. Agents refuse what is over 25,000."""
LEFT_OUT = "ferrule/leftOut"
"""In `_meta`: of which lists in the structured content how many items are left out."""
_SHORTEST = 64
_PATTERN_STATES = 1_000
_DIALECT = MCP()
_WRAPPED = "ferrule/wrapped"


def shown_output(tool: Tool[Any]) -> dict[str, Any] | None:
    """The output schema that a tool's definition shows; None where its results are text or not known."""
    schema = output_schema_of(tool)
    if schema is None or schema.get("type") == "string":
        return None
    return output_object(schema)


def call_result(result: ToolResult, fits: OutputCheck | None, most: int = RESULT_CHARS) -> dict[str, Any]:
    """The result in the protocol's form. `fits` says what is wrong with structured content, for tools that show any."""
    if result.success and result.attachments:  # of a server behind this one: what is attached goes out as what it is
        result = replace(result, llm_content=own_words(result.llm_content, result.attachments))
    if len(result.llm_content) > most:  # then only the two ends of all the words are left
        result = replace(result, attachments=out_of_order(result.attachments))
    answer: dict[str, Any] = {"resultType": "complete", **_DIALECT.write_result(result)}
    answer.get("_meta", {}).pop(_WRAPPED, None)
    structured: Any = answer.pop("structuredContent", None)
    if fits is None:
        _shorten(answer["content"], most)
        return answer
    room = STRUCTURED_CHARS if most == RESULT_CHARS else most  # unless somebody chose another measure
    was_cut = "characters_left_out" in result.metadata
    long = was_cut or len(result.llm_content) > most or _length(structured) > room
    is_json = long and _is_json_of(result.data, result.llm_content)
    if is_json and was_cut:
        room = min(room, len(result.llm_content))
    too_long, left_out = long and _length(structured) > room, dict[str, int]()
    _shorten(answer["content"], room if is_json else most)
    if too_long and (not is_json or fits.has_notes):
        structured, left_out = _fitted(structured, room, says=fits.has_notes)
        if is_json:
            answer["content"][0]["text"] = _json(structured)
        too_long = _length(structured) > room
    problem = "it is too long to be sent whole" if too_long else fits(structured)
    if problem is None:
        answer["structuredContent"] = structured
        if left_out:
            answer["_meta"] = {**answer.get("_meta", {}), LEFT_OUT: left_out}
        return answer
    if answer["isError"]:  # what went wrong is said in words, and structured content is not due
        return answer
    error = ErrorInfo(
        ErrorKind.EXECUTION,
        f"`{result.tool}` ran, but its result cannot be sent as its output schema promises: {problem}.",
        suggestion="It has already taken effect; calling it again would repeat it. Ask for less if you can.",
    )
    kept: list[dict[str, Any]] = answer["content"] if too_long else []
    return {"resultType": "complete", "content": [{"type": "text", "text": error.words}, *kept], "isError": True}


def _is_json_of(data: Any, text: str) -> bool:
    """Whether a result's text is its data as JSON, and no words of the tool's own; its end may have been cut."""
    if data is None or isinstance(data, str):
        return False
    from ferrule.core.params import NO_JSON_FORM, to_words

    try:
        return to_words(data)[:_SHORTEST] == text[:_SHORTEST]
    except NO_JSON_FORM:
        return False


def _fitted(structured: Any, room: int, *, says: bool) -> tuple[Any, dict[str, int]]:
    """The same as JSON of at most so many characters if it can be had, and how many items its lists lost. It `says` so
    where its schema has a place for that.
    """
    limit = min(room // 2, RESULT_CHARS)
    while True:
        left_out: dict[str, int] = {}
        shorter = _cut(structured, limit, "", left_out)
        if says and left_out:
            cuts = [f"`{name}` is cut short here: {count:,} more." for name, count in left_out.items()]
            shorter = {**shorter, "notes": [*shorter.get("notes", ()), *cuts]}
        if _length(shorter) <= room or limit <= _SHORTEST:
            return shorter, left_out
        limit //= 2


def _cut(value: Any, limit: int, name: str, left_out: dict[str, int]) -> Any:
    """Long texts without their middle, long lists without their end."""
    if isinstance(value, str):
        return head_and_tail(value, limit)[0] if len(value) > limit else value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        return {key: _cut(one, limit, f"{name}.{key}" if name else key, left_out) for key, one in fields}
    if not isinstance(value, list):
        return value
    items, kept, used = cast("list[Any]", value), list[Any](), 0
    for at, item in enumerate(items):
        kept.append(_cut(item, limit, f"{name}[{at}]", left_out))
        used += _length(kept[-1])
        if used > limit and at:
            kept.pop()
            left_out[name] = len(items) - at
            break
    return kept


def _json(value: Any) -> str:
    from pydantic_core import to_json

    return to_json(value).decode()


def _length(value: Any) -> int:
    return len(_json(value))


def _shorten(content: list[dict[str, Any]], most: int) -> None:
    """Cut text that is too long in the middle, saying so, also that of resources."""
    for block in content:
        words = block["resource"] if block["type"] == "resource" else block
        if "text" not in words:
            continue
        if len(words["text"]) > most:
            words["text"], _ = head_and_tail(words["text"], most)
        most = max(0, most - len(words["text"]))


class OutputCheck:
    """Says what is wrong with structured content; nothing where it fits the tool's schema. Compiled once for a tool."""

    def __init__(self, validator: Any, schema: dict[str, Any]) -> None:
        self._validator = validator
        self.has_notes = "notes" in schema.get("properties", ())
        """Whether there is a place to say what is left out."""

    def __call__(self, structured: Any) -> str | None:
        if structured is None:
            return "there is no structured content"
        error = next(iter(self._validator.iter_errors(structured)), None)
        if error is None:
            return None
        where = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in error.instance_path)
        return f"`{where.lstrip('.') or 'result'}`: {error.message[:300]}"


def output_check(schema: dict[str, Any]) -> OutputCheck | None:
    """The check for a schema; None for one that is no schema.

    It may be a stranger's: nothing that it refers to is fetched, and thousands of them must not take long.
    """
    validator = quick_validator("result", schema, _PATTERN_STATES)
    return OutputCheck(validator, schema) if validator is not None else None


# Every tool as the protocol's definition: in one order, in pages, within what every agent's model provider takes.


PAGE_SIZE = 1000
"""Large, because some agents read the first page alone."""
NAME_CHARS = MAX_LENGTH - len("mcp__ferrule__")
"""Agents write the server's name before a tool's, and not all of them shorten what is then too long for a provider."""


class BadCursor(ValueError):  # noqa: N818 - reads as what it says
    """A cursor that no page of this list gave."""


class DefinitionPage(NamedTuple):
    tools: list[dict[str, Any]]
    next: str | None


class WholeMCP(MCP):
    """Schemas as they are. Which output schemas are shown, and to whom, is decided here."""

    writes_output = False


class PortableMCP(WholeMCP):
    """Schemas that every agent can pass on: no reference, no alternatives at the root, the keywords all providers take.

    What a schema loses stands in its description, and calls are validated against the whole of it all the same.
    """

    # Gemini's keywords are the fewest. OpenAI refuses an array without `items`, and Codex takes it for one of texts;
    # Anthropic refuses names of properties that are not plain.
    abilities = replace(
        Gemini.abilities,
        keywords=(Gemini.abilities.keywords or frozenset()) - {"prefixItems"},
        array_needs_items=True,
        property_name=Anthropic.abilities.property_name,
    )

    def _schema(self, tool: Tool[Any], wanted: bool) -> tuple[dict[str, Any], bool, Ledger]:
        return Dialect._schema(self, tool, False)  # noqa: SLF001 - past MCP's own, which keeps the whole schema


_WHOLE, _PORTABLE = WholeMCP(), PortableMCP()  # what one list has written of a tool, others share


class Shown:
    """A tool under the name that clients know. What concerns its output is made for those who ask for it."""

    def __init__(self, tool: Tool[Any], source: dict[str, Any]) -> None:
        self.tool = tool
        self.name: str = source["name"]
        self.source = source
        """The definition without an output schema."""

    @cached_property
    def _output(self) -> tuple[dict[str, Any], OutputCheck] | None:
        schema = shown_output(self.tool)
        fits = output_check(schema) if schema is not None else None
        return None if schema is None or fits is None else (schema, fits)

    @cached_property
    def definition(self) -> dict[str, Any]:
        return {**self.source, "outputSchema": self._output[0]} if self._output is not None else self.source

    @property
    def fits(self) -> OutputCheck | None:
        """What is wrong with structured content; None where it has no output schema."""
        return self._output[1] if self._output is not None else None


class Definitions:
    """What `tools/list` gives. Made anew only when the tools changed."""

    def __init__(self, tools: ToolSource, *, portable: bool = True, page_size: int = PAGE_SIZE) -> None:
        self._tools = tools
        self._exporter = Exporter(_PORTABLE if portable else _WHOLE, names=NameMap(NAME_CHARS))
        self._page_size = page_size
        self._revision = -1
        self._names: list[str] = []
        self._shown: dict[str, Shown] = {}

    def page(self, cursor: str | None = None, *, structured: bool = True) -> DefinitionPage:
        """The tools after a cursor, by name. A tool that comes or goes meanwhile moves no other to another page.

        Whoever is sent no structured content is shown no output schema, which would promise it.
        """
        self._refresh()
        start = bisect_right(self._names, _read_cursor(cursor)) if cursor is not None else 0
        names = self._names[start : start + self._page_size]
        more = start + self._page_size < len(self._names)
        shown = [self._shown[name] for name in names]
        tools = [one.definition if structured else one.source for one in shown]
        return DefinitionPage(tools, base64.urlsafe_b64encode(names[-1].encode()).decode() if more else None)

    def get(self, name: str) -> Shown | None:
        """The tool that clients know under a name."""
        self._refresh()
        return self._shown.get(name)

    def own_name(self, name: str) -> str:
        """The tool's own name; one that was never shown comes back as it is, to be reported as unknown."""
        return self._exporter.resolve(name)

    def all(self) -> list[dict[str, Any]]:
        self._refresh()
        return [self._shown[name].definition for name in self._names]

    def _refresh(self) -> None:
        revision = self._tools.revision
        if revision == self._revision:
            return
        known = self._shown
        shown: dict[str, Shown] = {}
        tools = self._tools.tools()
        self._exporter.names.learn(tool.name for tool in tools)
        for tool in tools:
            try:
                source = self._exporter.export(tool).definition
                before = known.get(source["name"])
                one = before if before is not None and before.source is source else Shown(tool, source)
            except Exception as error:  # noqa: BLE001 - one that cannot be shown harms no other
                leave_out(tool, error)
                continue
            shown[one.name] = one
        self._names, self._shown, self._revision = sorted(shown), shown, revision


def _read_cursor(cursor: str) -> str:
    try:
        return base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise BadCursor(f"{cursor[:100]!r} is not a cursor of this list. Start again without one.") from None
