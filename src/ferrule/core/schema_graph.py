"""A schema read as a graph: which parts are applied to the same value, and which to the values inside it.

`schema_cost` bounds the work of a validation from it. References are followed with the same registry that the
validator uses, so nothing is fetched here either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import DefinitionError
from ferrule.core.schema_patterns import cost_per_character, is_linear

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema_rs import Registry, Resolver

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


class Node:
    """One subschema. Several references to it lead to the same node."""

    __slots__ = (
        "additional", "again", "any_item", "any_key", "any_property", "chars", "in_place", "items",
        "key_chars", "prefix", "properties", "weight", "whole",
    )  # fmt: skip

    def __init__(self) -> None:
        self.weight = 1.0
        self.chars = 0.0
        self.key_chars = 0.0
        self.in_place: list[Node] = []
        self.again = 1
        self.properties: dict[str, Node] = {}
        self.additional: Node | None = None
        self.any_property: list[Node] = []
        self.any_key: Node | None = None
        self.prefix: list[Node] = []
        self.items: Node | None = None
        self.any_item: list[tuple[Node, int]] = []
        self.whole = False

    @property
    def looks_inside(self) -> bool:
        """Whether it says anything of the values inside an object or array."""
        return bool(
            self.properties or self.additional or self.any_property or self.any_key or self.key_chars
            or self.prefix or self.items or self.any_item or self.whole
        )  # fmt: skip

    def inner(self) -> Iterator[tuple[Node, int]]:
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

    nodes: list[Node]
    has_unions: bool
    backtracking: list[str]
    """The patterns that cannot be matched in one pass."""


def read_graph(schema: Schema | bool, documents: Mapping[str, Any], registry: Registry, base: str) -> Graph:
    """Read a schema that the validator has accepted; raises `DefinitionError` when it is too large."""
    reader = _Reader(documents, registry)
    return Graph(reader.read(schema, base), reader.has_unions, sorted(reader.backtracking))


class _Reader:
    def __init__(self, documents: Mapping[str, Any], registry: Registry) -> None:
        self.has_unions = False
        self.backtracking: set[str] = set()
        self._documents = documents
        self._registry = registry
        self._nodes: list[Node] = []
        self._by_id: dict[int, Node] = {}
        self._by_ref: dict[tuple[str, str], Node] = {}
        self._kept: list[Any] = []
        self._waiting: list[tuple[Node, Schema, Resolver]] = []
        self._anchors: dict[str, list[tuple[Schema, Resolver]]] | None = None

    def read(self, schema: Schema | bool, base: str) -> list[Node]:
        self._node(schema, self._registry.resolver(base))
        while self._waiting:
            self._fill(*self._waiting.pop())
        return self._nodes

    def _node(self, schema: Any, resolver: Resolver) -> Node:
        known = self._by_id.get(id(schema))
        if known is not None:
            return known
        node = Node()
        self._nodes.append(node)
        if len(self._nodes) > MAX_NODES:
            raise DefinitionError(f"the schema has more than {MAX_NODES} parts.")
        if isinstance(schema, dict):
            part = cast("Schema", schema)
            self._by_id[id(part)] = node
            self._waiting.append((node, part, resolver))
        return node

    def _fill(self, node: Node, schema: Schema, resolver: Resolver) -> None:
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

    def _fill_object(self, node: Node, schema: Schema, resolver: Resolver) -> None:
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

    def _fill_array(self, node: Node, schema: Schema, resolver: Resolver) -> None:
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

    def _targets(self, keyword: str, ref: str, resolver: Resolver) -> list[Node]:
        """What a reference leads to; a dynamic one may lead to any anchor of its name."""
        targets = [self._target(ref, resolver)]
        if keyword != "$ref":
            name = ref.rpartition("#")[2] if keyword == "$dynamicRef" else ""
            targets += [self._node(part, where) for part, where in self._dynamic_anchors().get(name, [])]
        return targets

    def _target(self, ref: str, resolver: Resolver) -> Node:
        key = (resolver.base_uri, ref)
        if key not in self._by_ref:
            self._by_ref[key] = self._look_up(ref, resolver)
        return self._by_ref[key]

    def _look_up(self, ref: str, resolver: Resolver) -> Node:
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
