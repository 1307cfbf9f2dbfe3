"""Finds the way through a JSON Schema: what a `$ref` leads to, and which part describes a place in a value.

Schemas come from elsewhere too. Nothing here fails on one that is unsound or refers to itself; what cannot be
followed is an empty schema, which says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Schema = dict[str, Any]

NOWHERE = object()
"""Where a reference leads that cannot be followed."""

_HOLDERS = (dict, list, tuple)
_SAME_VALUE = ("then", "else")
_SAME_VALUE_MAPS = ("dependentSchemas", "dependencies")


def mapping(value: Any) -> Schema:
    """The value if it is an object; otherwise an empty one."""
    return cast("Schema", value) if isinstance(value, dict) else {}


def pointed(ref: Any, root: Any) -> tuple[Any, Any]:
    """What a reference within a document (`#/$defs/Item`) leads to, and the resource that it lies in.

    That is `NOWHERE` if it leads nowhere or to another document. A part with an `$id` is a resource of its own, within
    which `#` means that part. Anchors are looked for where they are written in practice: on the definitions.
    """
    if not isinstance(ref, str) or not ref.startswith("#"):
        return NOWHERE, root
    here = resource = root
    if ref != "#" and not ref.startswith("#/"):
        held = [*mapping(mapping(root).get("$defs")).values(), *mapping(mapping(root).get("definitions")).values()]
        anchor = unquote(ref[1:])
        named = (one for one in map(mapping, held) if anchor in (one.get("$anchor"), one.get("$dynamicAnchor")))
        return next(named, NOWHERE), root
    for step in ref.split("/")[1:]:
        name = step if step.isidentifier() else unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict) and name in here:
            here = cast("Any", here)[name]
        elif isinstance(here, list) and name.isdecimal() and int(name) < len(cast("list[Any]", here)):
            here = cast("Any", here)[int(name)]
        else:
            return NOWHERE, root
        if isinstance(mapping(here).get("$id"), str):
            resource = here
    return here, resource


def step(path: str, *parts: str | int) -> str:
    """A longer JSON Pointer, as `pointed` reads it."""
    for part in parts:
        text = str(part)
        if "~" in text or "/" in text:
            text = text.replace("~", "~0").replace("/", "~1")
        path = f"{path}/{text}"
    return path


def referred(ref: Any, root: Any) -> Any:
    """The same without the resource: None if the reference leads nowhere, or into a resource with another root."""
    here, resource = pointed(ref, root)
    return here if here is not NOWHERE and (resource is root or resource is here) else None


def chain(schema: Any, root: Any) -> Iterator[Schema]:
    """A schema, what it refers to, what that refers to, and so on, each once."""
    seen: set[int] = set()
    while isinstance(schema, dict) and id(cast("Any", schema)) not in seen:
        here = cast("Schema", schema)
        seen.add(id(here))
        yield here
        schema = referred(here.get("$ref"), root)


def followed(schema: Any, root: Any) -> Schema:
    """A schema together with what it refers to; what it says itself comes first."""
    if isinstance(schema, dict) and "$ref" not in schema:
        return cast("Schema", schema)
    whole: Schema = {}
    for part in chain(schema, root):
        whole = {**part, **whole}
    whole.pop("$ref", None)
    return whole


def resolve(schema: Any, root: Any) -> Schema:
    """The same, and `X or null` is X."""
    here = followed(schema, root)
    for _ in range(16):
        forms = options(here)
        if len(forms) != 1:
            return here
        said = {key: one for key, one in here.items() if key not in ("anyOf", "oneOf")}
        here = {**followed(forms[0], root), **said}
    return {}


def options(schema: Schema) -> list[Any]:
    """The forms of a union except null; none where there is no union, or only null."""
    listed: Any = schema.get("anyOf", schema.get("oneOf"))
    forms = cast("list[Any]", listed) if isinstance(listed, list) else []
    return [one for one in forms if mapping(one).get("type") != "null"]


def parts(document: Any) -> Iterator[Schema]:
    """Every object in a document, the document itself first, whatever it is there for."""
    waiting: list[Any] = [document] if isinstance(document, _HOLDERS) else []
    while waiting:
        held = part = waiting.pop()
        if isinstance(part, dict):
            yield cast("Schema", part)
            held = cast("Any", part).values()
        waiting += [one for one in held if isinstance(one, _HOLDERS)]


def size_of(value: Any) -> int:
    """How many values a JSON value is made of, itself included."""
    size, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        size += 1
        if isinstance(one, dict):
            waiting += cast("dict[str, Any]", one).values()
        elif isinstance(one, list):
            waiting += cast("list[Any]", one)
    return size


def applied(schema: Any, root: Any) -> list[Schema]:
    """The schema and every part that may say something of the same value, except the forms of a union."""
    found: dict[int, Schema] = {}
    waiting = [schema]
    while waiting:
        for part in chain(waiting.pop(0), root):
            if id(part) in found:
                break
            found[id(part)] = part
            listed: Any = part.get("allOf")
            waiting += cast("list[Any]", listed) if isinstance(listed, list) else []
            waiting += [part[keyword] for keyword in _SAME_VALUE if keyword in part]
            for keyword in _SAME_VALUE_MAPS:
                waiting += mapping(part.get(keyword)).values()
    return list(found.values())


def array_parts(schema: Schema) -> tuple[list[Any], Any]:
    """The schemas of an array's first items, and of all others."""
    items: Any = schema.get("items")
    if isinstance(items, list):  # as it was before Draft 2020-12
        return cast("list[Any]", items), schema.get("additionalItems")
    first: Any = schema.get("prefixItems")
    return cast("list[Any]", first) if isinstance(first, list) else [], items


def below(schema: Schema, part: str | int) -> Any:
    """What a schema says of a field or an item; None where it says nothing."""
    if isinstance(part, str):
        return mapping(schema.get("properties")).get(part, schema.get("additionalProperties"))
    first, rest = array_parts(schema)
    return first[part] if part < len(first) else rest


def schema_at(path: Sequence[str | int], schema: Any) -> Schema:
    """What the schema says of a place, or an empty schema where that is not clear."""
    here = resolve(schema, schema)
    for part in path:
        here = resolve(below(here, part), schema)
    return here
