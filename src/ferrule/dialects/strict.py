"""Strict mode: a schema in the narrow form a provider can hold a model to, word by word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ferrule.dialects.losses import ROOT, step

if TYPE_CHECKING:
    from ferrule.dialects.losses import Ledger

Schema = dict[str, Any]


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
        return _nullable(field)


def _nullable(field: Schema) -> Schema:
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
