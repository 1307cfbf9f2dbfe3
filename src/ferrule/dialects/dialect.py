"""What a dialect is: one provider's form of definitions, calls and results, in both directions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from ferrule.dialects.flatten import ROOT, Exported, Ledger, flatten_root
from ferrule.dialects.inline import inline
from ferrule.dialects.names import portable_name
from ferrule.dialects.portable import Abilities, NotStrict, StrictRules, make_strict, plain_tree, reduce

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ferrule.core.call import RawCall
    from ferrule.core.result import Attachment, ToolResult
    from ferrule.core.tool import Tool
    from ferrule.dialects.flatten import Loss

Schema = dict[str, Any]


@dataclass(slots=True, frozen=True)
class ForeignDefinition:
    """A definition as somebody else wrote it."""

    name: str
    description: str
    schema: Schema
    strict: bool | None = None
    title: str | None = None
    output_schema: Schema | None = None
    annotations: Mapping[str, Any] | None = None


@dataclass(slots=True, frozen=True)
class Strictness:
    """A provider's strict mode: what its schemas may contain and what they must."""

    abilities: Abilities
    rules: StrictRules


class Dialect(ABC):
    """One provider's form. Names go in and out as they are, and `Exporter` maps them.

    What a dialect writes follows from the tool, the name and the strictness alone.
    """

    name: ClassVar[str]
    abilities: ClassVar[Abilities] = Abilities()
    strictness: ClassVar[Strictness | None] = None
    carries: ClassVar[frozenset[str]]
    """The fields of a `ToolResult` that this form has a place for; the others stay here."""

    # Definitions

    def export(self, tool: Tool[Any], name: str | None = None, *, strict: bool | None = None) -> Exported:
        """A tool's definition and what it could not say. `strict` overrides the tool's own wish."""
        ledger = Ledger(tool.name)
        wanted = tool.strict if strict is None else strict
        schema, is_strict, ledger = self._schema(tool.input_schema, wanted, ledger)
        description = "\n\n".join(part for part in (tool.description.text, *ledger.notes) if part)
        shown = portable_name(tool.name) if name is None else name
        definition = self._write_definition(tool, shown, description, schema, is_strict, ledger)
        return Exported(definition, tuple(ledger.losses))

    def definition(self, tool: Tool[Any], name: str | None = None) -> dict[str, Any]:
        """A tool's definition alone."""
        return self.export(tool, name).definition

    @cached_property
    def kept(self) -> WeakKeyDictionary[Tool[Any], dict[Any, Any]]:
        """What `Exporter` has written in this form before, by tool."""
        return WeakKeyDictionary()

    def _schema(self, schema: Any, wanted: bool, ledger: Ledger) -> tuple[Schema, bool, Ledger]:
        plain = plain_tree(schema, self.abilities.property_name)
        if plain is not None and not wanted and self.abilities.take_all:
            return plain, False, ledger
        whole = flatten_root(inline(schema, ledger), ROOT, ledger) if plain is None else plain
        if wanted and self.strictness is not None:
            trial = ledger.fork()
            try:
                narrow = reduce(whole, ROOT, self.strictness.abilities, trial)
                return make_strict(narrow, self.strictness.rules, trial), True, trial
            except NotStrict as finding:
                ledger.lose(finding.path, "strict", f"strict mode is off: {finding.why}")
        elif wanted:
            ledger.lose(ROOT, "strict", "this provider has no strict mode")
        return reduce(whole, ROOT, self.abilities, ledger), False, ledger

    @abstractmethod
    def _write_definition(
        self, tool: Tool[Any], name: str, description: str, schema: Schema, strict: bool, ledger: Ledger
    ) -> dict[str, Any]: ...

    @abstractmethod
    def read_definition(self, payload: Any) -> ForeignDefinition:
        """A definition in this form as plain parts."""

    # Calls

    @abstractmethod
    def calls(self, payload: Any) -> list[RawCall]:
        """The calls in a whole response, a message, a list of items or one item; raises `DialectError`."""

    @abstractmethod
    def write_call(self, call: RawCall) -> dict[str, Any]:
        """A call as this provider's model would have written it."""

    # Results

    def results(self, results: Iterable[ToolResult], losses: list[Loss] | None = None) -> list[dict[str, Any]]:
        """What to append to the conversation. Give a list as `losses` to learn what could not be carried."""
        kept: list[Loss] = [] if losses is None else losses
        return [self.write_result(result, kept) for result in results]

    @abstractmethod
    def write_result(self, result: ToolResult, losses: list[Loss] | None = None) -> dict[str, Any]:
        """One result as one item."""

    @abstractmethod
    def read_result(self, payload: Any, call: RawCall | None = None) -> ToolResult:
        """A result in this form; `call` supplies the id and name where the form has none."""

    # What a person adds

    def write_attachment(self, attachment: Attachment) -> dict[str, Any] | None:
        """An attachment as a part of a person's message; None where this form has no place for it."""
        return None
