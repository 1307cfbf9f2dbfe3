"""Shows many tools to one provider, again and again, and brings names there and back."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ferrule.core.call import SEARCH_TOOLS, RawCall
from ferrule.core.errors import DefinitionError
from ferrule.core.result import ToolResult
from ferrule.core.tool import Tool
from ferrule.dialects.dialect import NameMap, sharing
from ferrule.dialects.dialect import dialect as find_dialect
from ferrule.dialects.flatten import ROOT, Loss
from ferrule.dialects.inline import read_only
from ferrule.dialects.payload import DialectError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ferrule.dialects.dialect import Dialect
    from ferrule.dialects.flatten import Exported

logger = logging.getLogger("ferrule.dialects")

_MOST_FORMS = 16
"""Names under which one tool is shown in one dialect; more than two are rare."""


class Exporter:
    """Definitions of many tools in one dialect; only tools that changed are written again, whichever exporter asks.

    A tool counts as changed when it is another object or when something that its definition is made of was
    replaced. Each definition is a new dict, but its parts are shared by every exporter and read-only: changing one
    raises `TypeError`. `copy.deepcopy` gives plain dicts and lists that are the caller's own.
    """

    def __init__(self, dialect: Dialect | str, *, strict: bool | None = None, names: NameMap | None = None) -> None:
        self.dialect = find_dialect(dialect) if isinstance(dialect, str) else dialect
        self.strict = strict
        self.names = names or NameMap()
        self._kept: WeakKeyDictionary[Tool[Any], tuple[tuple[Any, ...], Exported]] = WeakKeyDictionary()
        self._shown: list[Exported] = []
        self._left_out: list[Loss] = []

    def definitions(self, tools: Iterable[Tool[Any]]) -> list[dict[str, Any]]:
        """The definitions, in the order given."""
        shown: list[Exported] = []
        self._left_out = []
        if isinstance(tools, Tool):
            raise TypeError(f"Tools come in a list, also where there is one: write [{tools.name}].")
        tools = list(tools)
        if odd := [one for one in tools if not isinstance(one, Tool)]:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Definitions are made of tools, not of {odd[0]!r}. Make one with @tool.")
        self.names.learn(tool.name for tool in tools)
        for tool in tools:
            try:
                shown.append(self.export(tool))
            except Exception as error:  # noqa: BLE001 - one that cannot be shown harms no other, whatever is wrong with it
                self._left_out.append(leave_out(tool, error))
        self._shown = shown
        return [{**exported.definition} for exported in shown]

    def searchable(self, tools: Iterable[Tool[Any]], shown: Collection[str]) -> list[dict[str, Any]]:
        """The definitions where the provider defers those that are not `shown` until a search finds them.

        They stay the same whatever is found. Raises `DialectError` for a provider that has no such search.
        """
        if not self.dialect.searches:
            raise DialectError(f"{self.dialect.name} has no search for tools. Give it the tools that were found.")
        definitions: list[dict[str, Any]] = []
        sound = [tool for tool in tools if tool.fault is None]
        for tool, definition in zip(sound, self.definitions(sound), strict=True):
            if tool.name == SEARCH_TOOLS:
                definitions.append(self.dialect.write_search(definition))
            else:
                definitions.append(definition if tool.name in shown else {**definition, "defer_loading": True})
        return definitions

    def found(self, call_id: str, tools: Iterable[Tool[Any]]) -> dict[str, Any]:
        """The result of a call of `search_tools` that has the provider show these tools."""
        return self.dialect.write_found(call_id, self.definitions(tools))

    def export(self, tool: Tool[Any]) -> Exported:
        """One tool's definition, read-only, and losses; raises `DefinitionError` for a tool that no call could use."""
        mark = (
            tool.name, tool.strict, tool.description, tool.input_schema, tool.display_name, tool.read_only,
            tool.idempotent,
        )  # fmt: skip
        kept = self._kept.get(tool)
        if kept is None or kept[0] != mark:
            kept = self._kept[tool] = self._written(tool, mark)
        return kept[1]

    def _written(self, tool: Tool[Any], mark: tuple[Any, ...]) -> tuple[tuple[Any, ...], Exported]:
        """What any exporter has written of it in this form, else what is written now."""
        form = (self.names.external(tool.name), self.strict)
        forms = self.dialect.kept.setdefault(tool, {})
        kept = forms.get(form)
        if kept is None or kept[0] != mark:
            if (fault := tool.fault) is not None:
                raise DefinitionError(fault)
            before = sharing.set(True)
            try:
                written = self.dialect.export(tool, form[0], strict=self.strict)
            finally:
                sharing.reset(before)
            if len(forms) >= _MOST_FORMS:
                forms.clear()
            kept = forms[form] = (mark, replace(written, definition=read_only(written.definition)))
        return kept

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the definitions shown last could not say."""
        return (*self._left_out, *(loss for exported in self._shown for loss in exported.losses))

    def resolve(self, external_name: str) -> str:
        """The tool's own name; a name that was never shown comes back as it is, to be reported as unknown."""
        return self.names.internal(external_name)

    def calls(self, payload: Any) -> list[RawCall]:
        """The calls in a payload, under the tools' own names."""
        return [
            RawCall(self.resolve(call.name), call.arguments, id=call.id, version=call.version)
            for call in self.dialect.calls(payload)
        ]

    def results(self, results: Iterable[ToolResult], losses: list[Loss] | None = None) -> list[dict[str, Any]]:
        """What to append to the conversation, under the names the provider knows."""
        if isinstance(results, ToolResult):
            raise TypeError("Results come in a list, also where there is one: write [result].")
        shown = [replace(result, tool=self.names.external(result.tool)) for result in results]
        return self.dialect.results(shown, losses)

    def write_call(self, call: RawCall) -> dict[str, Any]:
        """A call as the provider's model would have written it, under the name it knows."""
        shown = RawCall(self.names.external(call.name), call.arguments, id=call.id, version=call.version)
        return self.dialect.write_call(shown)


_warned: WeakKeyDictionary[Tool[Any], str] = WeakKeyDictionary()


def leave_out(tool: Tool[Any], error: Exception) -> Loss:
    """What is lost with a tool that cannot be shown. It is logged once: the same tools are shown again and again."""
    why = str(error) if isinstance(error, DefinitionError) else f"{type(error).__name__}: {error}"
    try:
        is_news = _warned.get(tool) != why
        _warned[tool] = why
    except TypeError:  # a class without a hash, which is what is wrong with it
        is_news = True
    if is_news:
        logger.warning("The tool %s is not shown to models: %s", tool.name, why)
    return Loss(tool.name, ROOT, "definition", f"left out: {why}")
