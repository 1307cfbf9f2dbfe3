"""`search_tools`: what a model is shown in place of very many tools, and the tools that it has found with it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ferrule.core.call import SEARCH_TOOLS
from ferrule.core.description import Description
from ferrule.core.nearest import is_named
from ferrule.core.phrases import phrase
from ferrule.core.result import Output
from ferrule.core.shown_text import one_line
from ferrule.core.tool import Kind, Tool, description_of
from ferrule.registry.registry import RegistryEntry, View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferrule.core.context import ToolContext
    from ferrule.registry.registry import ToolSource

_MOST_NAMESPACES = 60
_NAMED = 5
_SHORT = 160


@dataclass(slots=True, frozen=True, kw_only=True)
class ToolSearch:
    """When a model searches for tools instead of being shown all of them, and what it is shown at once."""

    above: int = 40
    """With more tools than this. Fewer are all shown."""
    pinned: Sequence[str] = ()
    """Tools that are always shown; a name may contain `*`."""
    most: int = 5
    """How many tools are found at most for each query."""

    def __post_init__(self) -> None:
        if isinstance(self.pinned, str):
            raise TypeError(f"ToolSearch: `pinned` is a list of names. Write [{self.pinned!r}].")
        if self.above < 0 or self.most < 1:
            raise ValueError("ToolSearch: `above` must be 0 or more, and `most` 1 or more.")


DEFAULT_SEARCH = ToolSearch()


class SearchedTools(View):
    """Of many tools the pinned ones, `search_tools`, and those that were found, in the order in which they were found.

    So the definitions that a model has been sent stay as they are, and new ones follow. A tool that was not found yet
    can be called all the same. Of few tools, and where a tool has the name `search_tools`, it shows all.
    """

    def __init__(
        self,
        source: ToolSource,
        search: ToolSearch = DEFAULT_SEARCH,
        *,
        found: list[str] | None = None,
        keep: Callable[[list[str]], None] | None = None,
    ) -> None:
        """`found` are the names that were found before, and `keep` adds some to them."""
        super().__init__(source)
        self.search_for = search
        self.found = found if found is not None else []
        self._keep = keep if keep is not None else self.found.extend
        self._tool = RegistryEntry(SearchTools(self), "builtin", True)
        self.heard: Callable[[], None] | None = None
        """Is called when tools were found."""

    @property
    def searches(self) -> bool:
        """Whether there are so many tools that a model has to search; it goes on with that once it has begun."""
        return (bool(self.found) or len(self.source.tools()) > self.search_for.above) and not self.source.has(
            SEARCH_TOOLS
        )

    @property
    def revision(self) -> int:
        return (len(self.found) << 80) + self.source.revision

    def entry(self, name: str, version: str | None = None) -> RegistryEntry | None:
        if name == SEARCH_TOOLS and self.searches:
            return self._tool
        return self.source.entry(name, version)

    def entries(self) -> list[tuple[str, RegistryEntry]]:
        entries = self.source.entries()
        if not self.searches:
            return entries
        by_name = dict(entries)
        shown = [name for name in by_name if is_named(name, self.search_for.pinned)]
        later = [name for name in dict.fromkeys(self.found) if name in by_name and name not in shown]
        return [
            *((name, by_name[name]) for name in shown),
            (SEARCH_TOOLS, self._tool),
            *((name, by_name[name]) for name in later),
        ]

    def find(self, queries: Sequence[str], role: str | None) -> list[Tool[Any]]:
        """The tools that fit best; `role` is that of the session that asks, which need not be the one of the view."""
        found = self.source.for_role(role).search(queries, self.search_for.most * len(queries))
        return [tool for tool in found if tool.fault is None]

    def show(self, tools: Sequence[Tool[Any]]) -> None:
        """Show these from now on."""
        if new := [tool.name for tool in tools if tool.name not in self.found]:
            self._keep(new)
            if self.heard is not None:
                self.heard()

    def description(self) -> Description:
        """What a model is told of `search_tools`."""
        return self._kept("description", self._describe)

    def _describe(self) -> Description:
        """With the MCP servers, plugins and categories that there are tools of, each with some of them in one line."""
        groups: dict[str, list[str]] = {}
        for tool in self.source.tools():
            groups.setdefault(getattr(tool, "server_name", "") or tool.category, []).append(tool.name)
        lines: list[str] = []
        for name, tools in sorted(groups.items())[:_MOST_NAMESPACES]:
            own = [one.removeprefix(f"mcp__{name}__") for one in tools[:_NAMED]]
            lines.append(one_line(f"- {name}: {', '.join(own)}{', …' if len(tools) > _NAMED else ''}"))
        return Description(
            "Find tools by what they do. Most of your tools are not shown until you search for them.",
            "Search before you say that something cannot be done. Found tools stay available; do not search for them "
            "again.\n\nThere are tools of these kinds:\n" + "\n".join(lines),
        )


class Queries(BaseModel):
    """What is needed."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    queries: list[Annotated[str, Field(min_length=1, max_length=500)]] = Field(
        min_length=1,
        max_length=10,
        description="One short phrase for each thing you need to do, in the language of the tools (mostly English): "
        '["create a calendar event", "send an email"].',
    )


class SearchTools(Tool[Queries]):
    """Finds tools for a model."""

    name = SEARCH_TOOLS
    display_name = "Search tools"
    kind = Kind.READONLY
    may_block = False
    doing = "looking for tools"
    category = "agent"

    def __init__(self, view: SearchedTools) -> None:
        self._view = view
        super().__init__()

    @property
    def description(self) -> Description:
        return self._view.description()

    async def run(self, params: Queries, context: ToolContext) -> Output[list[str]]:
        tools = await asyncio.to_thread(self._view.find, params.queries, context.session.caller.role)
        self._view.show(tools)
        lines = [f"- {_signature(tool)}: {one_line(description_of(tool).short, _SHORT)}" for tool in tools]
        said = "You can call these tools now:\n" + "\n".join(lines)
        if not tools:
            said = "No tool was found. Use other words for what it should do, or go on without it."
        return Output(
            [tool.name for tool in tools],
            llm_content=said,
            display_content=phrase("tools found: {n}", n=len(tools)),
        )


def _signature(tool: Tool[Any]) -> str:
    """`send_mail(to, text, subject?)`."""
    schema = tool.input_schema
    required = schema.get("required", ())
    names = (name if name in required else f"{name}?" for name in schema.get("properties", {}))
    return f"{tool.name}({', '.join(names)})"
