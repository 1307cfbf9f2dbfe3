"""The quick way for schemas that lose nothing on their way to a provider, as nearly all do.

Writing references out, making the root one object and cutting a schema down to what a provider understands are three
walks that keep account of every loss. A schema of the usual keywords needs none of that account: one walk copies it and
puts definitions in the place of references. Where anything unusual is met, the three walks do the work as ever.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

from ferrule.dialects.keywords import ANNOTATIONS

if TYPE_CHECKING:
    import re

Schema = dict[str, Any]

MOST_NODES = 2_000
MOST_LEVELS = 24

_AS_THEY_ARE = frozenset({
    "const", "default", "deprecated", "description", "examples", "exclusiveMaximum", "exclusiveMinimum", "format",
    "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum",
    "multipleOf", "pattern", "title", "uniqueItems",
})  # fmt: skip
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_DEFINITIONS = "#/$defs/"


class _Unusual(Exception):  # noqa: N818 - a finding, not an error
    """The schema has to go the long way."""


def plain_tree(schema: Any, property_name: re.Pattern[str] | None = None) -> Schema | None:
    """The schema as one object without references, nothing lost; None where that takes more than copying."""
    if not isinstance(schema, dict):
        return None
    root = cast("Schema", schema)
    if root.get("type") != "object" or "$ref" in root or "const" in root:
        return None
    definitions: Any = root.get("$defs", {})
    if not isinstance(definitions, dict):
        return None
    try:
        own = {key: value for key, value in root.items() if key != "$defs"}
        tree = {"type": "object", **_Copier(cast("Schema", definitions), property_name).node(own, (), 0)}
    except _Unusual:
        return None
    tree.setdefault("properties", {})
    return tree


class _Copier:
    __slots__ = ("_definitions", "_nodes", "_property_name")

    def __init__(self, definitions: Schema, property_name: re.Pattern[str] | None) -> None:
        self._definitions = definitions
        self._property_name = property_name
        self._nodes = 0

    def node(self, node: Any, inside: tuple[str, ...], level: int) -> Schema:
        self._nodes += 1
        if type(node) is not dict or self._nodes > MOST_NODES or level > MOST_LEVELS:
            raise _Unusual
        fields = cast("Schema", node)
        if "$ref" in fields:
            return self._reference(fields, inside, level)
        out: Schema = {}
        for keyword, value in fields.items():
            if keyword in _AS_THEY_ARE:
                out[keyword] = deepcopy(cast("Any", value)) if isinstance(value, (dict, list)) else value
            elif keyword == "type":
                if type(value) is not str or value not in _TYPES or (value == "array" and "items" not in fields):
                    raise _Unusual
                out[keyword] = value
            elif keyword == "properties":
                out[keyword] = self._properties(value, inside, level + 1)
            elif keyword == "items":
                out[keyword] = self.node(value, inside, level + 1)
            elif keyword == "anyOf":
                if type(value) is not list or level == 0:
                    raise _Unusual
                out[keyword] = [self.node(one, inside, level + 1) for one in cast("list[Any]", value)]
            elif keyword == "additionalProperties":
                out[keyword] = value if type(value) is bool else self.node(value, inside, level + 1)
            elif keyword == "required":
                if (
                    type(value) is not list
                    or not value
                    or not all(isinstance(n, str) for n in cast("list[Any]", value))
                ):
                    raise _Unusual
                out[keyword] = [*cast("list[str]", value)]
            elif keyword == "enum" and type(value) is list and level:
                out[keyword] = deepcopy(cast("list[Any]", value))
            else:
                raise _Unusual
        return out

    def _properties(self, held: Any, inside: tuple[str, ...], level: int) -> Schema:
        if type(held) is not dict:
            raise _Unusual
        properties = cast("Schema", held)
        if (allowed := self._property_name) is not None and not all(map(allowed.fullmatch, properties)):
            raise _Unusual
        return {name: self.node(one, inside, level) for name, one in properties.items()}

    def _reference(self, node: Schema, inside: tuple[str, ...], level: int) -> Schema:
        ref = node["$ref"]
        if type(ref) is not str or not ref.startswith(_DEFINITIONS):
            raise _Unusual
        name = ref[len(_DEFINITIONS) :]
        if name in inside or not name.isidentifier():
            raise _Unusual
        said: Schema = {}
        for keyword, value in node.items():
            if keyword != "$ref":
                if keyword not in ANNOTATIONS:
                    raise _Unusual
                said[keyword] = deepcopy(value)
        target = self._definitions.get(name)
        return {**self.node(target, (*inside, name), level + 1), **said}
