"""Several schemas that all hold (`allOf`) as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ferrule.dialects.keywords import ANNOTATIONS, words
from ferrule.dialects.losses import step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.dialects.losses import Ledger

Schema = dict[str, Any]

# These mean something only together with their neighbours, so two sets of them are never mixed.
_LINKED = (
    frozenset({"contains", "maxContains", "minContains"}),
    frozenset({"else", "if", "then"}),
    frozenset({"items", "prefixItems"}),
)
_APART = frozenset({"additionalProperties", "unevaluatedItems", "unevaluatedProperties"}).union(*_LINKED)
_HIGHEST = frozenset({"exclusiveMinimum", "minItems", "minLength", "minProperties", "minimum"})
_LOWEST = frozenset({"exclusiveMaximum", "maxItems", "maxLength", "maxProperties", "maximum"})
_MAPS = frozenset({"dependentSchemas", "patternProperties", "properties"})
_TYPES = {"integer": {"integer"}, "number": {"integer", "number"}}


def merge_all_of(node: Schema, path: str, ledger: Ledger) -> Schema:
    """A node with its `allOf` folded into it; what does not fit together is widened and reported."""
    parts = node.get("allOf")
    if not isinstance(parts, list):
        return node
    own = {key: value for key, value in node.items() if key != "allOf"}
    inner = [merge_all_of(part, step(path, "allOf", at), ledger) for at, part in enumerate(cast("list[Schema]", parts))]
    return merge([own, *inner], path, ledger)


def merge(schemas: Sequence[Schema], path: str, ledger: Ledger) -> Schema:
    """One schema that accepts at least everything that all of these accept."""
    schemas = [schema for schema in schemas if schema]
    if len(schemas) < 2:
        return dict(schemas[0]) if schemas else {}
    merged: Schema = {}
    for schema in schemas:
        for key, value in schema.items():
            if key in _APART:
                continue
            merged[key] = _both(key, merged[key], value, path, ledger, merged) if key in merged else value
        for linked in _LINKED:
            _add_linked(merged, {key: schema[key] for key in linked if key in schema}, linked, path, ledger)
        for key in ("unevaluatedItems", "unevaluatedProperties"):
            if key in schema:
                ledger.lose(path, key, "has no meaning once several schemas are merged; left out")
    _close(merged, schemas, path, ledger)
    return merged


def _close(merged: Schema, schemas: Sequence[Schema], path: str, ledger: Ledger) -> None:
    """`additionalProperties` counts the fields beside it alone; once merged it counts them all."""
    closing = [schema for schema in schemas if schema.get("additionalProperties", True) not in (True, {})]
    if not closing:
        return
    limits = [schema["additionalProperties"] for schema in closing]
    merged["additionalProperties"] = (
        False if False in limits else merge(limits, step(path, "additionalProperties"), ledger)
    )
    every = _fields(merged)
    if any(_fields(schema) != every for schema in closing):
        ledger.lose(path, "additionalProperties", "widened when several objects were merged into one")


def _fields(schema: Schema) -> set[tuple[str, str]]:
    return {(kind, key) for kind in ("properties", "patternProperties") for key in schema.get(kind, ())}


def _add_linked(merged: Schema, theirs: Schema, linked: frozenset[str], path: str, ledger: Ledger) -> None:
    ours = {key: merged[key] for key in linked if key in merged}
    if not theirs or ours == theirs:
        return
    if not ours:
        merged.update(theirs)
    elif (
        ours.keys() == theirs.keys() == {"items"}
        and isinstance(ours["items"], dict)
        and isinstance(theirs["items"], dict)
    ):
        both = [cast("Schema", ours["items"]), cast("Schema", theirs["items"])]
        merged["items"] = merge(both, step(path, "items"), ledger)
    else:
        for key, value in theirs.items():
            _keep_first(key, value, path, ledger, merged)


def _both(key: str, ours: Any, theirs: Any, path: str, ledger: Ledger, merged: Schema) -> Any:
    """What two values of one keyword come to when both hold."""
    if ours == theirs:
        return ours
    if key in _MAPS:
        inner = step(path, key)
        return {
            **ours,
            **{
                name: merge([ours[name], one], step(inner, name), ledger) if name in ours else one
                for name, one in theirs.items()
            },
        }
    if key == "required":
        return list(dict.fromkeys([*ours, *theirs]))
    if key == "not":
        return {"anyOf": [ours, theirs]}
    if key == "propertyNames":
        return merge([ours, theirs], step(path, key), ledger)
    if key == "uniqueItems":
        return bool(ours or theirs)
    if key in _HIGHEST and _numbers(ours, theirs):
        return max(ours, theirs)
    if key in _LOWEST and _numbers(ours, theirs):
        return min(ours, theirs)
    if key == "type" and (shared := _shared_types(ours, theirs)):
        return shared[0] if len(shared) == 1 else shared
    if key == "enum" and (shared := [one for one in ours if one in theirs]):
        return shared
    if key == "description" and isinstance(ours, str) and isinstance(theirs, str):
        return ours if theirs in ours else f"{ours} {theirs}"
    _keep_first(key, theirs, path, ledger, merged)
    return ours


def _keep_first(key: str, theirs: Any, path: str, ledger: Ledger, merged: Schema) -> None:
    if key == "title":
        return
    if key not in ANNOTATIONS and (said := words(key, theirs)):
        ledger.say(path, merged, said)
    ledger.lose(path, key, "two of them hold at once; the second was moved into the description")


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _shared_types(ours: Any, theirs: Any) -> list[str]:
    mine, other = _types(ours), _types(theirs)
    return [one for one in dict.fromkeys([*mine, *other]) if _covers(mine, one) and _covers(other, one)]


def _types(said: Any) -> list[str]:
    return cast("list[str]", said) if isinstance(said, list) else [said]


def _covers(types: list[str], one: str) -> bool:
    return any(one in _TYPES.get(each, {each}) for each in types)
