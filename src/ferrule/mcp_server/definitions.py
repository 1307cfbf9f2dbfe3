"""Every tool as the protocol's definition: in one order, in pages, within what every agent's model provider takes."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ferrule.dialects.anthropic import Anthropic
from ferrule.dialects.dialect import MAX_LENGTH, Dialect, NameMap
from ferrule.dialects.exporter import Exporter, leave_out
from ferrule.dialects.gemini import Gemini
from ferrule.dialects.mcp import MCP
from ferrule.mcp_server.results import output_check, shown_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.tool import Tool
    from ferrule.dialects.flatten import Ledger
    from ferrule.registry.registry import ToolSource

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

    def _schema(self, schema: Any, wanted: bool, ledger: Ledger) -> tuple[dict[str, Any], bool, Ledger]:
        return Dialect._schema(self, schema, False, ledger)  # noqa: SLF001 - past MCP's own, which keeps the whole schema


class Shown:
    """A tool under the name that clients know. What concerns its output is made for those who ask for it."""

    def __init__(self, tool: Tool[Any], source: dict[str, Any]) -> None:
        self.tool = tool
        self.name: str = source["name"]
        self.source = source
        """The definition without an output schema."""

    @cached_property
    def _output(self) -> tuple[dict[str, Any], Callable[[Any], str | None]] | None:
        schema = shown_output(self.tool)
        fits = output_check(schema) if schema is not None else None
        return None if schema is None or fits is None else (schema, fits)

    @cached_property
    def definition(self) -> dict[str, Any]:
        return {**self.source, "outputSchema": self._output[0]} if self._output is not None else self.source

    @property
    def fits(self) -> Callable[[Any], str | None] | None:
        """What is wrong with structured content; None where it has no output schema."""
        return self._output[1] if self._output is not None else None


class Definitions:
    """What `tools/list` gives. Made anew only when the tools changed."""

    def __init__(self, tools: ToolSource, *, portable: bool = True, page_size: int = PAGE_SIZE) -> None:
        self._tools = tools
        self._exporter = Exporter(PortableMCP() if portable else WholeMCP(), names=NameMap(NAME_CHARS))
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
        return DefinitionPage(tools, _cursor(names[-1]) if more else None)

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


def _cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _read_cursor(cursor: str) -> str:
    try:
        return base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise BadCursor(f"{cursor[:100]!r} is no cursor that this list gave. Begin again without one.") from None
