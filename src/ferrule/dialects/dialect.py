"""What a dialect is: one provider's form of definitions, calls and results, both ways; and the dialects by name."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, cast
from weakref import WeakKeyDictionary

from ferrule.dialects.flatten import ROOT, Exported, Ledger, flatten_root
from ferrule.dialects.inline import inline, read_only
from ferrule.dialects.payload import DialectError, an_object
from ferrule.dialects.portable import Abilities, NotStrict, StrictRules, make_strict, reduce

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.core.call import RawCall
    from ferrule.core.result import Attachment, ToolResult
    from ferrule.core.schemas import Schema
    from ferrule.core.tool import Tool
    from ferrule.dialects.flatten import Loss


MAX_LENGTH = 64
_PORTABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")
_HASH_DIGITS = 8
# Names with a hash end like this, and a name that already does is given one of its own. So nobody can choose the name
# that another tool was given, whichever of the two comes first.
_HASHED = re.compile(r".*__[0-9a-f]{8}", re.DOTALL)


def is_portable(name: str, longest: int = MAX_LENGTH) -> bool:
    """Whether a name can go to every provider as it is."""
    return len(name) <= longest and _PORTABLE.fullmatch(name) is not None and _HASHED.fullmatch(name) is None


def readable(name: str) -> str:
    """What can be read of a name in the letters that every provider takes: `查询天气` is `ChaXunTianQi`."""
    return _FOREIGN.sub("_", name if name.isascii() else _in_ascii(name)).strip("_-")


def portable_name(name: str, longest: int = MAX_LENGTH) -> str:
    """The name itself when portable; otherwise what is readable of it, with a hash only where that is nothing."""
    if is_portable(name, longest):
        return name
    short = _started(readable(name))[:longest].rstrip("_-")
    return short if is_portable(short, longest) else _hashed(name, longest)


def _hashed(name: str, longest: int, salt: int = 0) -> str:
    """What is readable of a name and a short hash of the whole."""
    whole = name if not salt else f"{name}\0{salt}"
    digest = sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    short = _started(readable(name) or "tool")[: longest - _HASH_DIGITS - 2]
    return f"{short}__{digest}"


def _started(name: str) -> str:
    """A name begins with a letter or `_`."""
    return f"_{name}" if name[:1].isdigit() else name


def _in_ascii(name: str) -> str:
    try:
        from anyascii import anyascii  # only where a name needs it
    except ImportError:  # accents go; what has no letters here is left to the hash
        from unicodedata import normalize

        return normalize("NFKD", name)
    return anyascii(name)


class NameMap:
    """Names out and back. A name that was shown once stays.

    Two tools that read alike are told apart by a hash of their names. Tools that are learnt together get the same
    names in whatever order they come. `longest` leaves room for what somebody further on writes before every name.
    """

    __slots__ = ("_external", "_internal", "_lock", "_longest")

    def __init__(self, longest: int = MAX_LENGTH) -> None:
        self._longest = longest
        self._external: dict[str, str] = {}
        self._internal: dict[str, str] = {}
        self._lock = Lock()

    def learn(self, names: Iterable[str]) -> None:
        """Give all these tools their names at once: first to those that can keep theirs."""
        new = [name for name in dict.fromkeys(names) if name not in self._external]
        if not new:
            return
        with self._lock:
            wanted = {name: portable_name(name, self._longest) for name in new if name not in self._external}
            alike = Counter(made for name, made in wanted.items() if made != name)
            for name, made in sorted(wanted.items(), key=lambda one: (one[0] != one[1], one[0])):
                salt = 0
                taken = made in self._internal or (made != name and alike[made] > 1)
                # Two with one hash are luck or malice; the later one is hashed again.
                while taken:
                    made = _hashed(name, self._longest, salt)
                    salt, taken = salt + 1, made in self._internal
                self._internal[made] = name
                self._external[name] = made

    def external(self, name: str) -> str:
        """The name to show a provider."""
        known = self._external.get(name)
        if known is None:
            self.learn((name,))
            known = self._external[name]
        return known

    def internal(self, name: str) -> str:
        """The tool's own name for one a provider used; a name never given out comes back as it is."""
        return self._internal.get(name, name)


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
    examples_field: ClassVar[str | None] = None
    """The field for examples of arguments, if it has one. Elsewhere the description ends with them."""
    carries: ClassVar[frozenset[str]]
    """The fields of a `ToolResult` that this form has a place for; the others stay here."""

    # Definitions

    def export(self, tool: Tool[Any], name: str | None = None, *, strict: bool | None = None) -> Exported:
        """A tool's definition and what it could not say. `strict` overrides the tool's own wish."""
        wanted = tool.strict if strict is None else strict
        schema, is_strict, ledger = self._schema(tool, wanted)
        told = tool.description
        text = told.text if self.examples_field is None else told.prose
        description = "\n\n".join(part for part in (text, *ledger.notes) if part)
        shown = portable_name(tool.name) if name is None else name
        definition = self._write_definition(tool, shown, description, schema, is_strict, ledger)
        if self.examples_field is not None and (examples := _fitting_examples(tool, ledger)):
            definition[self.examples_field] = examples
        return Exported(definition, tuple(ledger.losses))

    searches: ClassVar[bool] = False
    """Whether its provider can be given tools that a model sees only once a search has found them."""

    def write_search(self, definition: dict[str, Any]) -> dict[str, Any]:
        """The definition of `search_tools`, where `searches`."""
        return definition

    def write_found(self, call_id: str, definitions: list[dict[str, Any]]) -> dict[str, Any]:
        """The result of a search, by which the model sees these tools."""
        raise NotImplementedError

    def definition(self, tool: Tool[Any], name: str | None = None) -> dict[str, Any]:
        """A tool's definition alone."""
        return self.export(tool, name).definition

    @cached_property
    def kept(self) -> WeakKeyDictionary[Tool[Any], dict[Any, Any]]:
        """What `Exporter` has written in this form before, by tool."""
        return WeakKeyDictionary()

    def _schema(self, tool: Tool[Any], wanted: bool) -> tuple[Schema, bool, Ledger]:
        whole, ledger = _kept_whole(tool) if sharing.get() else _whole_of(tool)
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


sharing: ContextVar[bool] = ContextVar("sharing", default=False)
"""Whether definitions are made of read-only parts, the same in every dialect that takes them as they are."""


def _whole_of(tool: Tool[Any]) -> tuple[Schema, Ledger]:
    """A tool's schema as one plain object, where every dialect starts, and what that could not say."""
    ledger = Ledger(tool.name)
    return flatten_root(inline(tool.input_schema, ledger), ROOT, ledger), ledger


def _kept_whole(tool: Tool[Any]) -> tuple[Schema, Ledger]:
    """The same, made once for all dialects and read-only."""
    kept, schema = _wholes.get(tool), tool.input_schema
    if kept is None or kept[0] is not schema or kept[2].tool != tool.name:
        whole, ledger = _whole_of(tool)
        kept = _wholes[tool] = (schema, read_only(whole), ledger)
    return kept[1], kept[2].fork()


_wholes: WeakKeyDictionary[Tool[Any], tuple[Any, Schema, Ledger]] = WeakKeyDictionary()


def _fitting_examples(tool: Tool[Any], ledger: Ledger) -> list[dict[str, Any]]:
    """The arguments of the examples that fit the schema: a provider would refuse every request over another one."""
    fitting: list[dict[str, Any]] = []
    for at, (example, fault) in enumerate(zip(tool.description.examples, tool.example_faults, strict=True), 1):
        if fault:
            ledger.lose(ROOT, "examples", f"example {at} does not fit: {fault}")
        else:
            fitting.append(dict(example.params))
    return fitting


# The dialects by name; each is imported when it is first asked for.


_PLACES = {
    "openai": ("openai", "OpenAIChat"),
    "openai-responses": ("openai", "OpenAIResponses"),
    "anthropic": ("anthropic", "Anthropic"),
    "gemini": ("gemini", "Gemini"),
    "mcp": ("mcp", "MCP"),
}
KNOWN = tuple(_PLACES)
"""The names of all dialects."""


@cache
def dialect(name: str) -> Dialect:
    """The dialect of that name."""
    if name not in _PLACES:
        known = ", ".join(KNOWN)
        raise DialectError(f"There is no dialect {name!r}. Known dialects: {known}.")
    module, cls = _PLACES[name]
    return getattr(import_module(f"ferrule.dialects.{module}"), cls)()


# One call, in whichever form it comes.


def read_call(payload: Any) -> RawCall:
    """One call in the form of any provider, told by its fields; raises `DialectError` if it is not one."""
    item = an_object(dict(cast("Any", payload)) if isinstance(payload, Mapping) else payload, "call")
    kind = item.get("type")
    if kind == "tool_use":
        form = "anthropic"
    elif kind == "function_call":
        form = "openai-responses"
    elif "function" in item:
        form = "openai"
    elif item.keys() & {"functionCall", "function_call", "args"}:
        form = "gemini"
    elif item.keys() & {"arguments", "method"}:
        form = "mcp"
    else:
        raise DialectError(
            'call: not one call of a provider, such as {"type": "tool_use", "id": …, "name": …, "input": {…}}. For a '
            "whole answer, use Exporter(provider).calls(answer)."
        )
    (call,) = dialect(form).calls([item])
    return call
