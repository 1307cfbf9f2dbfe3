"""Compiles a JSON Schema from elsewhere into something that validates quickly, offline and within bounds."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ferrule.core.errors import DefinitionError, MissingExtraError
from ferrule.core.explain import Explainer
from ferrule.core.phrases import phrase
from ferrule.core.problems import format_path
from ferrule.core.schemas import Schema, array_parts, mapping, parts, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema_rs import Registry, Resolver, ValidationError, Validator


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


@dataclass(slots=True, eq=False)
class SchemaNode:
    """One subschema. Several references to it lead to the same node."""

    weight: float = 1.0
    chars: float = 0.0
    key_chars: float = 0.0
    in_place: list[SchemaNode] = field(default_factory=list["SchemaNode"])
    again: int = 1
    properties: dict[str, SchemaNode] = field(default_factory=dict[str, "SchemaNode"])
    additional: SchemaNode | None = None
    any_property: list[SchemaNode] = field(default_factory=list["SchemaNode"])
    any_key: SchemaNode | None = None
    prefix: list[SchemaNode] = field(default_factory=list["SchemaNode"])
    items: SchemaNode | None = None
    any_item: list[tuple[SchemaNode, int]] = field(default_factory=list[tuple["SchemaNode", int]])
    whole: bool = False

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


class SchemaGraph:
    """Every node that can be reached from a schema that the validator has accepted, the schema's own first.

    Raises `DefinitionError` when there are too many.
    """

    def __init__(self, schema: Schema | bool, documents: Mapping[str, Any], registry: Registry, base: str) -> None:
        self.nodes: list[SchemaNode] = []
        self.has_unions = False
        self.backtracking: set[str] = set()
        """The patterns that cannot be matched in one pass."""
        self._documents = documents
        self._registry = registry
        self._by_id: dict[int, SchemaNode] = {}
        self._by_ref: dict[tuple[str, str], SchemaNode] = {}
        self._kept: list[Any] = []
        self._waiting: list[tuple[SchemaNode, Schema, Resolver]] = []
        self._anchors: dict[str, list[tuple[Schema, Resolver]]] | None = None
        self._node(schema, registry.resolver(base))
        while self._waiting:
            self._fill(*self._waiting.pop())

    def _node(self, schema: Any, resolver: Resolver) -> SchemaNode:
        known = self._by_id.get(id(schema))
        if known is not None:
            return known
        node = SchemaNode()
        self.nodes.append(node)
        if len(self.nodes) > MAX_NODES:
            raise DefinitionError(f"the schema has more than {MAX_NODES} parts.")
        if isinstance(schema, dict):
            part = cast("Schema", schema)
            self._by_id[id(part)] = node
            self._waiting.append((node, part, resolver))
        return node

    def _fill(self, node: SchemaNode, schema: Schema, resolver: Resolver) -> None:
        resolver = _entered(schema, resolver)
        node.weight = _own_weight(schema)
        if isinstance(schema.get("pattern"), str):
            node.chars = self._pattern_cost(schema["pattern"])
        if "minLength" in schema or "maxLength" in schema:
            node.chars += LENGTH_COST
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
        for name, part in mapping(schema.get("properties")).items():
            node.properties[name] = self._node(part, resolver)
        for pattern, part in mapping(schema.get("patternProperties")).items():
            node.any_property.append(self._node(part, resolver))
            node.key_chars += self._pattern_cost(pattern)
        if _is_schema(schema.get("unevaluatedProperties")):
            node.any_property.append(self._node(schema["unevaluatedProperties"], resolver))
        if _is_schema(schema.get("additionalProperties")):
            node.additional = self._node(schema["additionalProperties"], resolver)
        if _is_schema(schema.get("propertyNames")):
            node.any_key = self._node(schema["propertyNames"], resolver)

    def _fill_array(self, node: SchemaNode, schema: Schema, resolver: Resolver) -> None:
        first, rest = array_parts(schema)
        node.prefix = [self._node(part, resolver) for part in first]
        if _is_schema(rest):
            node.items = self._node(rest, resolver)
        if _is_schema(schema.get("contains")):
            node.any_item.append((self._node(schema["contains"], resolver), node.again))
        if _is_schema(schema.get("unevaluatedItems")):
            node.any_item.append((self._node(schema["unevaluatedItems"], resolver), 1))

    def _pattern_cost(self, pattern: str) -> float:
        if not is_linear(pattern):
            self.backtracking.add(pattern)
        return cost_per_character(pattern)

    def _targets(self, keyword: str, ref: str, resolver: Resolver) -> list[SchemaNode]:
        """What a reference leads to; a dynamic one may lead to any anchor of its name."""
        key = (resolver.base_uri, ref)
        if key not in self._by_ref:
            self._by_ref[key] = self._look_up(ref, resolver)
        if keyword == "$ref":
            return [self._by_ref[key]]
        name = ref.rpartition("#")[2] if keyword == "$dynamicRef" else ""
        anchored = self._dynamic_anchors().get(name, [])
        return [self._by_ref[key], *(self._node(part, where) for part, where in anchored)]

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


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


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
        for part in mapping(schema.get(keyword)).values():
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
        raise MissingExtraError(phrase("A tool made from a JSON Schema"), "schema")


class CompiledSchema:
    """A validator with the bounds it needs."""

    __slots__ = ("backtracking", "cost", "explainer", "has_unions", "root", "validator")

    def __init__(self, name: str, root: Any, resources: Mapping[str, Any]) -> None:
        from jsonschema_rs import ReferencingError, Registry, ValidationError, validator_for

        self.root = root
        self.explainer = Explainer(root, complete=True)
        _limit_effort(name, [root, *resources.values()], MAX_PATTERN_STATES)
        own = mapping(root).get("$id")
        base = own.rstrip("#") if isinstance(own, str) and ":" in own else BASE
        documents = {**resources, base: root}
        try:
            others = Registry(list(resources.items()), _draft(root), _refuse) if resources else None
            self.validator = _offline(root, others)
            everything = Registry(list(documents.items()), _draft(root), _refuse)
            graph = SchemaGraph(root, documents, everything, base)
            self.cost: Cost = Cost(graph.nodes)
        except ValidationError as error:
            _explain(name, error, root)
        except (ReferencingError, ValueError, DefinitionError) as error:
            raise DefinitionError(f"`{name}`: {_first_line(error)}") from None
        self.has_unions = graph.has_unions
        self.backtracking: Validator | None = None
        if graph.backtracking:
            every = {"allOf": [{"pattern": pattern} for pattern in sorted(graph.backtracking)]}
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

    said = str(mapping(root).get("$schema"))
    name = next((name for mark, name in _DRAFTS.items() if mark in said), "Draft202012")
    return getattr(jsonschema_rs, name)


def _limit_effort(name: str, documents: list[Any], most_states: int) -> None:
    """Refuse what takes long to compile."""
    patterns: set[str] = set()
    references: set[str] = set()
    for schema in parts(documents):
        if isinstance(schema.get("pattern"), str):
            patterns.add(schema["pattern"])
        patterns.update(mapping(schema.get("patternProperties")))
        if isinstance(schema.get("$ref"), str):
            references.add(schema["$ref"])
    if len(references) > MAX_REFERENCES:
        raise DefinitionError(f"`{name}`: its schema has more than {MAX_REFERENCES:,} references.")
    # A long class has one state, but takes as long to compile as it has characters.
    if sum(10 + max(states(pattern), len(pattern) // 4) for pattern in patterns) > most_states:
        raise DefinitionError(f"`{name}`: the regular expressions of its schema are too many or too large.")


def _explain(name: str, error: ValidationError, root: Any) -> NoReturn:
    """What is wrong with the schema, in the same words that are used for arguments."""
    from ferrule.core.validator_errors import schema_rules

    if type(error.kind).__name__ == "Referencing":
        raise DefinitionError(f"`{name}`: {_reference_words(error.message)}.") from None
    problem = Explainer({}, complete=True).explain(root, schema_rules([error], root))[0]
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


# Bounds the work of one validation before it starts, because nothing can stop it once it runs.


MAX_COST = 100_000_000.0
"""What one validation may cost; a unit is about five nanoseconds."""
MAX_LEVELS = 1_000
"""Subschemas one within the other while a value is validated; the validator uses the stack for each."""
MAX_DEPTH = 201
"""How deep arguments can be nested; the JSON parser stops there."""
MAX_STEPS = 1_000_000
"""Pairs of subschema and value that are counted before giving up."""
META_SCHEMA_COST = 400.0

_Branch = tuple["SchemaNode", float, int]


class TooCostly(Exception):  # noqa: N818 - a finding, turned into a problem by the caller
    """A validation would take too long or too deep a stack."""


class Cost:
    """The bound for one schema; made once, safe to share."""

    def __init__(self, nodes: list[SchemaNode]) -> None:
        self._root = nodes[0]
        order = _sorted_by_use(nodes, inner=False)
        if order is None:
            raise DefinitionError("a part of the schema refers to itself without going deeper into the value.")
        self._position = {id(node): position for position, node in enumerate(order)}
        self._own = _totals(order, inner=False)
        self._branches: dict[int, list[_Branch]] = {}
        whole = _sorted_by_use(nodes, inner=True)
        self._most = _totals(whole, inner=True)[id(self._root)] if whole is not None else None
        """What one place in any value can cost at most; None for a schema that goes as deep as the value."""

    def is_tame(self, size: int) -> bool:
        """Whether no arguments of so many characters can be costly; most schemas and calls end here."""
        if self._most is None:
            return False
        weight, chars, levels = self._most
        return weight * (size / 2 + 1) + chars * size <= MAX_COST and levels <= MAX_LEVELS

    def check(self, value: Any) -> None:
        """Raise `TooCostly` unless this value is validated quickly enough."""
        _Count(self, with_text=True).of(self._root, value)

    def evaluations(self, value: Any) -> float:
        """At most so many parts of the schema are applied, and so many errors found; raises `TooCostly`."""
        return _Count(self, with_text=False).of(self._root, value)[0]

    def own(self, node: SchemaNode) -> tuple[float, float, int]:
        """Weight, cost per character and levels of a node and all that applies to the same value."""
        return self._own[id(node)]

    def branches(self, node: SchemaNode) -> list[_Branch]:
        """The nodes applied to the same value that look inside it: how often each, and how deep it lies."""
        found = self._branches.get(id(node))
        if found is None:
            found = self._branches[id(node)] = self._find_branches(node)
        return found

    def _find_branches(self, node: SchemaNode) -> list[_Branch]:
        reached = {id(node): node}
        waiting = [node]
        while waiting:
            for part in waiting.pop().in_place:
                if id(part) not in reached:
                    reached[id(part)] = part
                    waiting.append(part)
        counts: dict[int, tuple[float, int]] = dict.fromkeys(reached, (0.0, 0))
        counts[id(node)] = (1.0, 1)
        branches: list[_Branch] = []
        for one in sorted(reached.values(), key=lambda part: self._position[id(part)]):
            count, level = counts[id(one)]
            if one.looks_inside:
                branches.append((one, count, level))
            for part in one.in_place:
                before, deepest = counts[id(part)]
                counts[id(part)] = (before + count * one.again, max(deepest, level + 1))
        return branches


def _totals(order: list[SchemaNode], *, inner: bool) -> dict[int, tuple[float, float, int]]:
    """Weight, cost per character and levels of each node with all that it uses, `inner` values included or not."""
    totals: dict[int, tuple[float, float, int]] = {}
    for node in reversed(order):
        weight, chars, levels = node.weight, node.chars, 1
        if inner:
            weight += 1 + (META_SCHEMA_COST if node.whole else 0)
            chars += node.key_chars
        for part, times in _uses(node, inner=inner):
            part_weight, part_chars, part_levels = totals[id(part)]
            weight += times * part_weight
            chars += times * part_chars
            levels = max(levels, part_levels + 1)
        totals[id(node)] = weight, chars, levels
    return totals


class _Count:
    """One value's count, with what was counted already."""

    def __init__(self, cost: Cost, *, with_text: bool) -> None:
        self._cost = cost
        self._with_text = with_text
        self._known: dict[tuple[int, int], tuple[float, int]] = {}
        self._steps = 0

    def of(self, node: SchemaNode, value: Any) -> tuple[float, int]:
        """Evaluations and levels for one value under one node."""
        weight, chars, levels = self._cost.own(node)
        if not isinstance(value, (dict, list)):
            if isinstance(value, str) and self._with_text:
                weight += chars * len(value)
            return self._checked(weight, levels)
        key = (id(node), id(cast("object", value)))
        if key not in self._known:
            self._known[key] = self._container(node, cast("dict[str, Any] | list[Any]", value), weight, levels)
        return self._known[key]

    def _container(self, node: SchemaNode, value: Any, weight: float, levels: int) -> tuple[float, int]:
        for branch, count, level in self._cost.branches(node):
            self._steps += 1 + len(value)
            if self._steps > MAX_STEPS:
                raise TooCostly
            inner = float(len(value))
            if branch.whole:
                inner += META_SCHEMA_COST * size_of(value)
            if branch.key_chars and self._with_text:
                inner += branch.key_chars * sum(map(len, mapping(value)))
            for part, item, times in _parts(branch, value):
                part_cost, part_levels = self.of(part, item)
                inner += times * part_cost
                levels = max(levels, level + part_levels)
            weight += count * inner
        return self._checked(weight, levels)

    @staticmethod
    def _checked(weight: float, levels: int) -> tuple[float, int]:
        if weight > MAX_COST or levels > MAX_LEVELS:
            raise TooCostly
        return weight, levels


def _parts(node: SchemaNode, value: Any) -> Iterator[tuple[SchemaNode, Any, int]]:
    """Which nodes are applied to which values inside, and how often."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            named = node.properties.get(key, node.additional)
            if named is not None:
                yield named, item, 1
            for part in node.any_property:
                yield part, item, 1
            if node.any_key is not None:
                yield node.any_key, key, 1
        return
    for position, item in enumerate(value):
        placed = node.prefix[position] if position < len(node.prefix) else node.items
        if placed is not None:
            yield placed, item, 1
        for part, times in node.any_item:
            yield part, item, times


def _uses(node: SchemaNode, *, inner: bool) -> Iterator[tuple[SchemaNode, int]]:
    for part in node.in_place:
        yield part, node.again
    if inner:
        yield from node.inner()


def _sorted_by_use(nodes: list[SchemaNode], *, inner: bool) -> list[SchemaNode] | None:
    """Every node before those it uses, or None when some use one another in a circle."""
    users = {id(node): 0 for node in nodes}
    for node in nodes:
        for part, _ in _uses(node, inner=inner):
            users[id(part)] += 1
    ready = [node for node in nodes if not users[id(node)]]
    order: list[SchemaNode] = []
    while ready:
        node = ready.pop()
        order.append(node)
        for part, _ in _uses(node, inner=inner):
            users[id(part)] -= 1
            if not users[id(part)]:
                ready.append(part)
    return order if len(order) == len(nodes) else None
