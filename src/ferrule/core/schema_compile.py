"""Compiles a JSON Schema from elsewhere into something that validates quickly, offline and within bounds."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ferrule.core.errors import DefinitionError, MissingExtra
from ferrule.core.phrases import phrase
from ferrule.core.problems import format_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema_rs import Registry, Resolver, ValidationError, Validator

    from ferrule.core.schema_cost import Cost


# How much work a regular expression of a schema may make, so that none can hold a call up.


BACKTRACKS = 10_000
"""Steps back that a pattern with look-around or back-references may take on one string."""
COMPILED_BYTES = 6 << 20
"""How large one compiled pattern may be; counted repeats of repeats are what reaches it."""

LINEAR_COST = 4.0
"""For each character and each place in the pattern, in the units of `schema_cost`, a second run included."""
BACKTRACKING_COST = BACKTRACKS * 1.2
_CLASS_STATES = 25
_MOST = 10**9
"""Where counting ends; far above anything that compiles."""
# What is not closed reaches to the end, so that no text is looked at twice.
_ATOM = re.compile(
    r"\\[pP]\{[^}]*(?:\}|\Z)|\\.|\[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\\?\Z)"
    r"|\((?:\?(?:[:=!>]|<[=!]|P?<\w+>))?|\)|\{\d+(?:,\d*)?\}|.",
    re.DOTALL,
)


def pattern_options() -> Any:
    """For the validator: linear matching where the pattern allows it, bounded backtracking where not."""
    from jsonschema_rs import FancyRegexOptions

    return FancyRegexOptions(backtrack_limit=BACKTRACKS, size_limit=COMPILED_BYTES, dfa_size_limit=COMPILED_BYTES)


@lru_cache(maxsize=4096)
def is_linear(pattern: str) -> bool:
    """Whether the pattern is matched in one pass; look-around and back-references are not."""
    from jsonschema_rs import RegexOptions, ValidationError, validator_for

    options = RegexOptions(size_limit=COMPILED_BYTES, dfa_size_limit=COMPILED_BYTES)
    try:
        validator_for({"pattern": pattern}, pattern_options=options)
    except ValidationError:
        return False
    return True


def cost_per_character(pattern: str) -> float:
    """An upper bound, in evaluations, of what matching costs for each character of the text."""
    return states(pattern) * LINEAR_COST if is_linear(pattern) else BACKTRACKING_COST


def states(pattern: str) -> int:
    """How many places in the pattern a match can be at once, counted repeats written out."""
    groups = [0]
    last = 0
    for found in _ATOM.finditer(pattern):
        part = found[0]
        if part[0] == "{" and len(part) > 1:
            low, _, high = part[1:-1].partition(",")
            times = int(high or low) if len(part) < 12 else _MOST
            groups[-1] = min(groups[-1] + last * max(times - 1, 0), _MOST)
            last = 0
        elif part[0] == "(":
            groups.append(0)
        elif part == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif part not in "*+?|":
            last = _CLASS_STATES if part[:2] in ("\\p", "\\P") else 1
            groups[-1] += last
    return max(1, sum(groups))


# A schema read as a graph: which parts are applied to the same value, and which to the values inside it.


MAX_NODES = 50_000
LENGTH_COST = 0.02
"""Counting the characters of a string, for each of them."""
UNEVALUATED_FACTOR = 3
"""`unevaluated…` makes the validator look at its neighbours again; 2.6 times was measured."""

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_MAPS = ("dependentSchemas", "dependencies")
_META_SCHEMAS = ("http://json-schema.org/", "https://json-schema.org/")

Schema = dict[str, Any]


class SchemaNode:
    """One subschema. Several references to it lead to the same node."""

    __slots__ = (
        "additional", "again", "any_item", "any_key", "any_property", "chars", "in_place", "items",
        "key_chars", "prefix", "properties", "weight", "whole",
    )  # fmt: skip

    def __init__(self) -> None:
        self.weight = 1.0
        self.chars = 0.0
        self.key_chars = 0.0
        self.in_place: list[SchemaNode] = []
        self.again = 1
        self.properties: dict[str, SchemaNode] = {}
        self.additional: SchemaNode | None = None
        self.any_property: list[SchemaNode] = []
        self.any_key: SchemaNode | None = None
        self.prefix: list[SchemaNode] = []
        self.items: SchemaNode | None = None
        self.any_item: list[tuple[SchemaNode, int]] = []
        self.whole = False

    @property
    def looks_inside(self) -> bool:
        """Whether it says anything of the values inside an object or array."""
        return bool(
            self.properties or self.additional or self.any_property or self.any_key or self.key_chars
            or self.prefix or self.items or self.any_item or self.whole
        )  # fmt: skip

    def inner(self) -> Iterator[tuple[SchemaNode, int]]:
        """Every node applied to a value inside this one's, and how often to each."""
        for node in (*self.properties.values(), *self.any_property, *self.prefix):
            yield node, 1
        for node in (self.additional, self.any_key, self.items):
            if node is not None:
                yield node, 1
        yield from self.any_item


@dataclass(slots=True)
class Graph:
    """Every node that can be reached from a schema, the schema's own first."""

    nodes: list[SchemaNode]
    has_unions: bool
    backtracking: list[str]
    """The patterns that cannot be matched in one pass."""


def read_graph(schema: Schema | bool, documents: Mapping[str, Any], registry: Registry, base: str) -> Graph:
    """Read a schema that the validator has accepted; raises `DefinitionError` when it is too large."""
    reader = _GraphReader(documents, registry)
    return Graph(reader.read(schema, base), reader.has_unions, sorted(reader.backtracking))


class _GraphReader:
    def __init__(self, documents: Mapping[str, Any], registry: Registry) -> None:
        self.has_unions = False
        self.backtracking: set[str] = set()
        self._documents = documents
        self._registry = registry
        self._nodes: list[SchemaNode] = []
        self._by_id: dict[int, SchemaNode] = {}
        self._by_ref: dict[tuple[str, str], SchemaNode] = {}
        self._kept: list[Any] = []
        self._waiting: list[tuple[SchemaNode, Schema, Resolver]] = []
        self._anchors: dict[str, list[tuple[Schema, Resolver]]] | None = None

    def read(self, schema: Schema | bool, base: str) -> list[SchemaNode]:
        self._node(schema, self._registry.resolver(base))
        while self._waiting:
            self._fill(*self._waiting.pop())
        return self._nodes

    def _node(self, schema: Any, resolver: Resolver) -> SchemaNode:
        known = self._by_id.get(id(schema))
        if known is not None:
            return known
        node = SchemaNode()
        self._nodes.append(node)
        if len(self._nodes) > MAX_NODES:
            raise DefinitionError(f"the schema has more than {MAX_NODES} parts.")
        if isinstance(schema, dict):
            part = cast("Schema", schema)
            self._by_id[id(part)] = node
            self._waiting.append((node, part, resolver))
        return node

    def _fill(self, node: SchemaNode, schema: Schema, resolver: Resolver) -> None:
        resolver = _entered(schema, resolver)
        node.weight = _own_weight(schema)
        node.chars = self._own_chars(schema)
        self.has_unions = self.has_unions or "anyOf" in schema or "oneOf" in schema
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            node.again = UNEVALUATED_FACTOR
        for part in _same_value(schema):
            node.in_place.append(self._node(part, resolver))
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(keyword), str):
                node.in_place += self._targets(keyword, schema[keyword], resolver)
        self._fill_object(node, schema, resolver)
        self._fill_array(node, schema, resolver)

    def _fill_object(self, node: SchemaNode, schema: Schema, resolver: Resolver) -> None:
        for name, part in _mapping(schema.get("properties")).items():
            node.properties[name] = self._node(part, resolver)
        for pattern, part in _mapping(schema.get("patternProperties")).items():
            node.any_property.append(self._node(part, resolver))
            node.key_chars += self._pattern_cost(pattern)
        if _is_schema(schema.get("unevaluatedProperties")):
            node.any_property.append(self._node(schema["unevaluatedProperties"], resolver))
        if _is_schema(schema.get("additionalProperties")):
            node.additional = self._node(schema["additionalProperties"], resolver)
        if _is_schema(schema.get("propertyNames")):
            node.any_key = self._node(schema["propertyNames"], resolver)

    def _fill_array(self, node: SchemaNode, schema: Schema, resolver: Resolver) -> None:
        items: Any = schema.get("items")
        first, rest = schema.get("prefixItems"), items
        if isinstance(items, list):  # as it was before Draft 2020-12
            first, rest = cast("list[Any]", items), schema.get("additionalItems")
        if isinstance(first, list):
            node.prefix = [self._node(part, resolver) for part in cast("list[Any]", first)]
        if _is_schema(rest):
            node.items = self._node(rest, resolver)
        if _is_schema(schema.get("contains")):
            node.any_item.append((self._node(schema["contains"], resolver), node.again))
        if _is_schema(schema.get("unevaluatedItems")):
            node.any_item.append((self._node(schema["unevaluatedItems"], resolver), 1))

    def _own_chars(self, schema: Schema) -> float:
        pattern = schema.get("pattern")
        chars = self._pattern_cost(pattern) if isinstance(pattern, str) else 0.0
        if "minLength" in schema or "maxLength" in schema:
            chars += LENGTH_COST
        return chars

    def _pattern_cost(self, pattern: str) -> float:
        if not is_linear(pattern):
            self.backtracking.add(pattern)
        return cost_per_character(pattern)

    def _targets(self, keyword: str, ref: str, resolver: Resolver) -> list[SchemaNode]:
        """What a reference leads to; a dynamic one may lead to any anchor of its name."""
        targets = [self._target(ref, resolver)]
        if keyword != "$ref":
            name = ref.rpartition("#")[2] if keyword == "$dynamicRef" else ""
            targets += [self._node(part, where) for part, where in self._dynamic_anchors().get(name, [])]
        return targets

    def _target(self, ref: str, resolver: Resolver) -> SchemaNode:
        key = (resolver.base_uri, ref)
        if key not in self._by_ref:
            self._by_ref[key] = self._look_up(ref, resolver)
        return self._by_ref[key]

    def _look_up(self, ref: str, resolver: Resolver) -> SchemaNode:
        from jsonschema_rs import ReferencingError

        try:
            found = resolver.lookup(ref)
        except ReferencingError as error:
            if not ref.startswith(_META_SCHEMAS):
                raise DefinitionError(f"the reference {ref!r} leads nowhere: {error}.") from None
            node = self._node(True, resolver)
            node.whole = True
            return node
        self._kept.append(found.contents)
        return self._node(self._kept[-1], found.resolver)

    def _dynamic_anchors(self) -> dict[str, list[tuple[Schema, Resolver]]]:
        if self._anchors is None:
            self._anchors = {}
            waiting = [(doc, self._registry.resolver(uri)) for uri, doc in self._documents.items()]
            while waiting:
                part, resolver = waiting.pop()
                if isinstance(part, dict):
                    schema = cast("Schema", part)
                    resolver = _entered(schema, resolver)
                    name = "" if schema.get("$recursiveAnchor") is True else schema.get("$dynamicAnchor")
                    if isinstance(name, str):
                        self._anchors.setdefault(name, []).append((schema, resolver))
                    waiting += [(inner, resolver) for inner in schema.values()]
                elif isinstance(part, list):
                    waiting += [(inner, resolver) for inner in cast("list[Any]", part)]
        return self._anchors


def _entered(schema: Schema, resolver: Resolver) -> Resolver:
    """The resolver inside this schema: an `$id` moves the base that references start from."""
    from jsonschema_rs import ReferencingError

    own = schema.get("$id", schema.get("id"))
    if not isinstance(own, str) or own.startswith("#"):
        return resolver
    try:
        return resolver.lookup(own).resolver
    except ReferencingError:
        return resolver


def _same_value(schema: Schema) -> Iterator[Any]:
    for keyword in _LISTS:
        listed = schema.get(keyword)
        if isinstance(listed, list):
            yield from cast("list[Any]", listed)
    for keyword in _SINGLE:
        if _is_schema(schema.get(keyword)):
            yield schema[keyword]
    for keyword in _MAPS:
        for part in _mapping(schema.get(keyword)).values():
            if _is_schema(part):
                yield part


def _own_weight(schema: Schema) -> float:
    weight = 1.0 + len(schema)
    for keyword in ("required", "properties", "patternProperties", "dependentRequired"):
        listed = schema.get(keyword)
        if isinstance(listed, (list, dict)):
            weight += len(cast("list[Any]", listed)) / 2
    choices = schema.get("enum")
    if isinstance(choices, list):
        complex_ones = sum(1 for choice in cast("list[Any]", choices) if isinstance(choice, (dict, list)))
        weight += complex_ones * 80
    return weight


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


MAX_SCHEMA_BYTES = 2_000_000
MAX_PATTERN_STATES = 50_000
"""All regular expressions of a schema together; compiling so many takes about a second."""
_QUICK_STATES = 1_000
MAX_REFERENCES = 5_000
"""Different references in one schema; the time to compile grows with their square."""
BASE = "json-schema:///"
"""The address of a schema that gives itself none."""

_DRAFTS = {"draft-04": "Draft4", "draft-06": "Draft6", "draft-07": "Draft7", "2019-09": "Draft201909"}


def freeze(name: str, what: str, document: Any) -> bytes:
    """Check at once, at little cost, that a document could be a schema; what it says now will count."""
    from pydantic_core import from_json

    if not isinstance(document, (dict, bool)):
        raise DefinitionError(f"`{name}`: {what} must be an object or a boolean, not {type(document).__name__}.")
    try:
        text = json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
        if len(text) <= MAX_SCHEMA_BYTES:
            from_json(text)
            return text
    except RecursionError:
        raise DefinitionError(f"`{name}`: {what} is nested too deeply.") from None
    except (TypeError, ValueError) as error:
        if "recursion" in str(error):
            raise DefinitionError(f"`{name}`: {what} is nested too deeply.") from None
        raise DefinitionError(f"`{name}`: {what} is not JSON: {_first_line(error)}.") from None
    raise DefinitionError(
        f"`{name}`: {what} takes {len(text):,} bytes as JSON; more than {MAX_SCHEMA_BYTES:,} are not read."
    )


@cache
def require_validator() -> None:
    """Say at definition that the validator is missing, without paying for its import."""
    if find_spec("jsonschema_rs") is None:
        raise MissingExtra(phrase("A tool made from a JSON Schema"), "schema")


class CompiledSchema:
    """A validator with the bounds it needs."""

    __slots__ = ("backtracking", "cost", "has_unions", "root", "validator")

    def __init__(self, name: str, root: Any, resources: Mapping[str, Any]) -> None:
        from jsonschema_rs import ReferencingError, Registry, ValidationError, validator_for

        from ferrule.core.schema_cost import Cost

        self.root = root
        _limit_effort(name, [root, *resources.values()], MAX_PATTERN_STATES)
        base = _address(root)
        documents = {**resources, base: root}
        try:
            others = Registry(list(resources.items()), _draft(root), _refuse) if resources else None
            self.validator = _offline(root, others)
            everything = Registry(list(documents.items()), _draft(root), _refuse)
            graph = read_graph(root, documents, everything, base)
            self.cost: Cost = Cost(graph.nodes)
        except ValidationError as error:
            _explain(name, error, root)
        except (ReferencingError, ValueError, DefinitionError) as error:
            raise DefinitionError(f"`{name}`: {_first_line(error)}") from None
        self.has_unions = graph.has_unions
        self.backtracking: Validator | None = None
        if graph.backtracking:
            every = {"allOf": [{"pattern": pattern} for pattern in graph.backtracking]}
            self.backtracking = validator_for(every, pattern_options=pattern_options())


def quick_validator(name: str, schema: dict[str, Any], most_states: int) -> Validator | None:
    """A validator alone, for values that are known to cost little. Nothing is fetched for it, and there is none for
    what is no schema or has regular expressions of more states than that.
    """
    from jsonschema_rs import ReferencingError, ValidationError

    try:
        _limit_effort(name, [schema], most_states)
        return _offline(schema)
    except (ReferencingError, ValidationError, ValueError, DefinitionError):
        return None


def looks_sound(schema: Any) -> bool:
    """Whether a document is a schema that can be followed, as far as that is seen at little cost."""
    from jsonschema_rs import meta

    try:
        if not meta.is_valid(schema):
            return False
        _limit_effort("", [schema], _QUICK_STATES)
    except DefinitionError:
        return True  # to look into it takes long: that is done when it is compiled
    except Exception:  # noqa: BLE001 - a draft that is not known, or is handed over with the schema
        return False
    try:
        _offline(schema)
    except Exception:  # noqa: BLE001 - a reference that leads nowhere, or is handed over with the schema
        return False
    return True


def _offline(root: Any, others: Registry | None = None) -> Validator:
    from jsonschema_rs import validator_for

    return validator_for(
        root, registry=others, retriever=_refuse, pattern_options=pattern_options(), validate_formats=False
    )


def _refuse(uri: str) -> NoReturn:
    raise LookupError(f"{uri} is not fetched; hand it over in `resources`")


def _draft(root: Any) -> int:
    """The draft that documents without a `$schema` of their own are read by: the same as the schema's."""
    import jsonschema_rs

    said = str(cast("dict[str, Any]", root).get("$schema")) if isinstance(root, dict) else ""
    name = next((name for mark, name in _DRAFTS.items() if mark in said), "Draft202012")
    return getattr(jsonschema_rs, name)


def _address(root: Any) -> str:
    own = cast("dict[str, Any]", root).get("$id") if isinstance(root, dict) else None
    return own.rstrip("#") if isinstance(own, str) and ":" in own else BASE


def _limit_effort(name: str, documents: list[Any], most_states: int) -> None:
    """Refuse what takes long to compile."""
    patterns: set[str] = set()
    references: set[str] = set()
    waiting: list[Any] = documents
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            schema = cast("dict[str, Any]", part)
            if isinstance(schema.get("pattern"), str):
                patterns.add(schema["pattern"])
            if isinstance(schema.get("patternProperties"), dict):
                patterns.update(schema["patternProperties"])
            if isinstance(schema.get("$ref"), str):
                references.add(schema["$ref"])
            waiting.extend(schema.values())
        elif isinstance(part, list):
            waiting.extend(cast("list[Any]", part))
    if len(references) > MAX_REFERENCES:
        raise DefinitionError(f"`{name}`: its schema has more than {MAX_REFERENCES:,} references.")
    # A long class has one state, but takes as long to compile as it has characters.
    if sum(10 + max(states(pattern), len(pattern) // 4) for pattern in patterns) > most_states:
        raise DefinitionError(f"`{name}`: the regular expressions of its schema are too many or too large.")


def _explain(name: str, error: ValidationError, root: Any) -> NoReturn:
    """What is wrong with the schema, in the same words that are used for arguments."""
    from ferrule.core.schema_problems import problems_of

    if type(error.kind).__name__ == "Referencing":
        raise DefinitionError(f"`{name}`: {_reference_words(error.message)}.") from None
    problem = problems_of([error], root, {})[0]
    where = format_path(problem.path) if problem.path else "schema"
    raise DefinitionError(f"`{name}`: its schema is not a valid JSON Schema. {where}: {problem.message}.") from None


def _reference_words(message: str) -> str:
    kind, _, rest = message.partition(" '")
    what = rest.partition("'")[0]
    if kind == "Resource":
        return f"its schema refers to {what!r}, which is never fetched. Hand that document over in `resources`"
    if kind == "Pointer":
        return f"its schema refers to {'#' + what!r}, which is not there"
    if kind == "Unknown meta-schema:":
        return f"its `$schema` is {what!r}, which is not known. Hand that document over in `resources`"
    return f"a reference in its schema cannot be followed: {message}"


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".")
