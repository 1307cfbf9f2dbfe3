"""A schema cut down to what one provider understands; what goes is said in words and reported."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.problems import json_type
from ferrule.core.schemas import Schema, step
from ferrule.dialects.flatten import ROOT, brief, flatten_object, merge_all_of, words

if TYPE_CHECKING:
    from ferrule.dialects.flatten import Ledger


# Look-arounds, back references, word boundaries and counted repetition are beyond simple matchers.
_HARD_PATTERN = re.compile(r"\(\?|\\[1-9bBpPk]|\{\d")
_HOLDERS = frozenset({
    "additionalProperties", "allOf", "anyOf", "items", "prefixItems", "properties", "required",
})  # fmt: skip
"""Keywords that make it necessary to look into a schema."""
_COMBINATORS = ("allOf", "anyOf", "oneOf")


@dataclass(slots=True, frozen=True)
class Abilities:
    """What a provider understands of JSON Schema. The defaults are: all of it."""

    keywords: frozenset[str] | None = None
    """The keywords it takes; None for every one, with any value."""
    formats: frozenset[str] | None = None
    enum_types: frozenset[str] | None = None
    """The JSON types whose values may stand in an enum."""
    property_name: re.Pattern[str] | None = None
    simple_patterns: bool = False
    max_min_items: int | None = None
    """The highest `minItems` it takes."""
    array_needs_items: bool = False


def reduce(schema: Schema, path: str, abilities: Abilities, ledger: Ledger) -> Schema:
    """The schema within these abilities: equal or wider, with a loss for everything that went."""
    if abilities.keywords is None and abilities.property_name is None and not ledger.bare_arrays:
        return schema
    return _Reduction(abilities, ledger).node(schema, path)


class _Reduction:
    def __init__(self, abilities: Abilities, ledger: Ledger) -> None:
        self.able = abilities
        self.ledger = ledger

    def node(self, node: Schema, path: str) -> Schema:
        given, before = node, len(self.ledger.losses)
        lost: Schema = {}
        if self.able.keywords is not None:
            node = self._without_combinators(node, path)
            node = self._enum(self._array(node, path), path)
            lost = {keyword: value for keyword, value in node.items() if not self._takes(keyword, value)}
        out = {keyword: value for keyword, value in node.items() if keyword not in lost} if lost else dict(node)
        for keyword, value in lost.items():
            self._lose(out, path, keyword, value)
        if not _HOLDERS.isdisjoint(out):
            self._inside(out, path)
            self._object(out, path, opened="patternProperties" in lost)
        if len(self.ledger.losses) > before:
            # What counts as unevaluated depends on all the rest; once that is wider, this refuses too much.
            for keyword in ("unevaluatedProperties", "unevaluatedItems"):
                if keyword in out:
                    self._lose(out, path, keyword, out.pop(keyword))
        if self.able.array_needs_items and _lacks_items(out):
            out["items"] = {}
            if "unevaluatedItems" in out:
                self._lose(out, path, "unevaluatedItems", out.pop("unevaluatedItems"))
        same = len(out) == len(given) and all(given.get(keyword, out) is value for keyword, value in out.items())
        return given if same else out

    def _takes(self, keyword: str, value: Any) -> bool:
        able = self.able
        if keyword not in cast("frozenset[str]", able.keywords):
            return False
        if keyword == "format" and able.formats is not None:
            return isinstance(value, str) and value in able.formats
        if keyword == "pattern" and able.simple_patterns:
            return isinstance(value, str) and _HARD_PATTERN.search(value) is None
        if keyword == "minItems" and able.max_min_items is not None:
            return isinstance(value, int) and value <= able.max_min_items
        return True

    def _lose(self, out: Schema, path: str, keyword: str, value: Any) -> None:
        said = words(keyword, value)
        if said:
            self.ledger.say(path, out, said)
        self.ledger.lose(path, keyword, "moved into the description" if said else "left out")

    def _without_combinators(self, node: Schema, path: str) -> Schema:
        """Only `anyOf` is understood widely, and only where nothing else stands beside it."""
        takes = cast("frozenset[str]", self.able.keywords)
        if node.get("type") == "object" and any(keyword in node for keyword in _COMBINATORS):
            node = flatten_object(node, path, self.ledger)
        if "allOf" in node and "allOf" not in takes:
            node = merge_all_of(node, path, self.ledger)
        if "oneOf" in node and "oneOf" not in takes:
            node = dict(node)
            alternatives = node.pop("oneOf")
            if "anyOf" in node:
                self._lose(node, path, "oneOf", alternatives)
            else:
                node["anyOf"] = alternatives
                self.ledger.lose(path, "oneOf", "became an anyOf; a value may now fit several")
        return node

    def _array(self, node: Schema, path: str) -> Schema:
        """Fixed positions as one schema for every item, and `items: false` as a length."""
        out = dict(node)
        prefix = cast("list[Schema] | None", out.get("prefixItems"))
        rest = out.get("items")
        if rest is True:
            del out["items"]
        elif rest is False:
            del out["items"]
            length = len(prefix or [])
            if not isinstance(out.get("maxItems"), int) or out["maxItems"] > length:
                out["maxItems"] = length
        if prefix and "prefixItems" not in cast("frozenset[str]", self.able.keywords):
            del out["prefixItems"]
            self._lose(out, path, "prefixItems", prefix)
            longest = out.get("maxItems")
            whole = isinstance(longest, (int, float)) and longest <= len(prefix)
            known = [*prefix] if whole else [*prefix, cast("Schema", rest)]
            if whole or isinstance(rest, dict):
                different = [one for at, one in enumerate(known) if one not in known[:at]]
                out["items"] = different[0] if len(different) == 1 else {"anyOf": different}
            else:
                out.pop("items", None)
        return out

    def _enum(self, node: Schema, path: str) -> Schema:
        """`const` and `enum` as an enum of the types that the provider takes there."""
        out = dict(node)
        if "const" in out and "const" not in cast("frozenset[str]", self.able.keywords):
            fixed = out.pop("const")
            if "enum" in out:
                self._lose(out, path, "enum", out.pop("enum"))
            out["enum"] = [fixed]
        values = out.get("enum")
        if not isinstance(values, list):
            return out
        values = cast("list[Any]", values)
        if not values:
            self._lose(out, path, "enum", out.pop("enum"))
            return out
        kinds = list(dict.fromkeys(_type_of(value) for value in values))
        out.setdefault("type", kinds[0] if len(kinds) == 1 else kinds)
        taken = self.able.enum_types
        if taken is None or all(kind in taken for kind in kinds):
            return out
        if "null" in kinds and "null" not in taken and "anyOf" not in out and _allows(out, "null"):
            del out["enum"]
            types = out.pop("type")
            left = [one for one in (cast("list[str]", types) if isinstance(types, list) else [types]) if one != "null"]
            named = [one for one in values if one is not None]
            if not named or not left:
                return {**out, "type": "null"}
            return {**out, "anyOf": [{"type": left[0] if len(left) == 1 else left, "enum": named}, {"type": "null"}]}
        self._lose(out, path, "enum", out.pop("enum"))
        return out

    def _inside(self, out: Schema, path: str) -> None:
        for keyword in ("items", "additionalProperties"):
            if isinstance(out.get(keyword), dict):
                out[keyword] = self.node(out[keyword], step(path, keyword))
        for keyword in (
            ("anyOf", "prefixItems") if self.able.keywords is not None else ("allOf", "anyOf", "prefixItems")
        ):
            if keyword in out:
                parts = cast("list[Schema]", out[keyword])
                made = [self.node(one, step(path, keyword, at)) for at, one in enumerate(parts)]
                if not all(one is part for one, part in zip(made, parts, strict=True)):
                    out[keyword] = made

    def _object(self, out: Schema, path: str, *, opened: bool) -> None:
        fields = cast("Schema", out.get("properties", {}))
        kept: Schema = {}
        required = out.get("required")
        named: list[str] = cast("list[str]", required) if isinstance(required, list) else []
        for name, field in fields.items():
            if self.able.property_name is None or self.able.property_name.fullmatch(name):
                kept[name] = self.node(field, step(path, "properties", name))
                continue
            opened = True
            must = "a required" if name in named else "an optional"
            self.ledger.say(path, out, f"Also takes {must} field {brief(name)}: {brief(field)}.")
            self.ledger.lose(
                path, f"properties/{name}", "a field name this provider refuses; moved into the description"
            )
        if "properties" in out and not (len(kept) == len(fields) and all(kept[name] is fields[name] for name in kept)):
            out["properties"] = kept
        if opened and out.get("additionalProperties", True) not in (True, {}):
            del out["additionalProperties"]
            self.ledger.lose(path, "additionalProperties", "left out, for there are fields that cannot be listed")
        unlisted = [name for name in named if name not in kept]
        if unlisted and (self.able.keywords is not None or any(name in fields for name in unlisted)):
            out["required"] = [name for name in named if name in kept]
            self.ledger.say(path, out, f"Required: {', '.join(brief(name) for name in unlisted)}.")
            self.ledger.lose(path, "required", "names fields that are not listed; moved into the description")
        if out.get("required") == []:
            del out["required"]


def _lacks_items(node: Schema) -> bool:
    said = node.get("type")
    return (said == "array" or (isinstance(said, list) and "array" in said)) and "items" not in node


def _allows(node: Schema, kind: str) -> bool:
    said = node.get("type", kind)
    return said == kind or (isinstance(said, list) and kind in said)


def _type_of(value: Any) -> str:
    kind = json_type(value)
    return "integer" if kind == "number" and value.is_integer() else kind


# Strict mode: a schema in the narrow form a provider can hold a model to, word by word.


@dataclass(slots=True, frozen=True)
class StrictRules:
    """What a provider demands of a strict schema; objects list all their fields with every provider."""

    optional_is_nullable: bool
    """Every field must be required, so one that may be left out takes null instead."""
    max_depth: int
    max_properties: int
    max_enum_values: int
    max_optional: int


class NotStrict(Exception):  # noqa: N818 - a finding, not an error
    """The schema cannot be expressed strictly."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.path = path
        self.why = why


def make_strict(schema: Schema, rules: StrictRules, ledger: Ledger) -> Schema:
    """The schema in strict form, or `NotStrict`; it must be within the provider's abilities already."""
    return _Strict(rules, ledger).node(schema, ROOT, 0)


class _Strict:
    def __init__(self, rules: StrictRules, ledger: Ledger) -> None:
        self.rules = rules
        self.ledger = ledger
        self.properties = 0
        self.optional = 0
        self.enum_values = 0

    def node(self, node: Schema, path: str, depth: int) -> Schema:
        if depth > self.rules.max_depth:
            raise NotStrict(path, f"objects and arrays are nested more than {self.rules.max_depth} deep")
        types = cast("list[str]", node["type"] if isinstance(node.get("type"), list) else [node.get("type")])
        if "anyOf" not in node and types == [None]:
            raise NotStrict(path, "any value is accepted here")
        out = dict(node)
        if isinstance(out.get("enum"), list):
            self.enum_values += len(out["enum"])
            if self.enum_values > self.rules.max_enum_values:
                raise NotStrict(path, f"there are more than {self.rules.max_enum_values} enum values")
        if "anyOf" in out:
            forms = cast("list[Schema]", out["anyOf"])
            out["anyOf"] = [self.node(one, step(path, "anyOf", at), depth) for at, one in enumerate(forms)]
        if "array" in types:
            if not isinstance(out.get("items"), dict):
                raise NotStrict(path, "the items of this array may be anything")
            out["items"] = self.node(out["items"], step(path, "items"), depth + 1)
        if "object" in types:
            self._object(out, path, depth)
        return out

    def _object(self, out: Schema, path: str, depth: int) -> None:
        if not isinstance(out.get("properties"), dict) or out.get("additionalProperties", False) is not False:
            raise NotStrict(path, "this object may have fields that are not listed")
        if "additionalProperties" not in out:
            self.ledger.lose(path, "additionalProperties", "only the listed fields can be sent in strict mode")
        out["additionalProperties"] = False
        fields = cast("Schema", out["properties"])
        self.properties += len(fields)
        if self.properties > self.rules.max_properties:
            raise NotStrict(path, f"there are more than {self.rules.max_properties} fields")
        needed = set(cast("list[str]", out.get("required", [])))
        done: Schema = {}
        for name, field in fields.items():
            here = step(path, "properties", name)
            one = self.node(field, here, depth + 1)
            if name not in needed:
                one = self._optional(one, here)
            done[name] = one
        out["properties"] = done
        if self.rules.optional_is_nullable:
            out["required"] = list(fields)

    def _optional(self, field: Schema, path: str) -> Schema:
        self.optional += 1
        if self.optional > self.rules.max_optional:
            raise NotStrict(path, f"there are more than {self.rules.max_optional} optional fields")
        if not self.rules.optional_is_nullable:
            return field
        self.ledger.lose(path, "required", "optional; null means left out")
        out = dict(field)
        if "anyOf" in out and not any(form.get("type") == "null" for form in out["anyOf"]):
            out["anyOf"] = [*out["anyOf"], {"type": "null"}]
        types = out.get("type")
        if isinstance(types, str) and types != "null":
            out["type"] = [types, "null"]
        elif isinstance(types, list) and "null" not in types:
            out["type"] = [*cast("list[str]", types), "null"]
        if isinstance(out.get("enum"), list) and None not in out["enum"]:
            out["enum"] = [*out["enum"], None]
        return out
