"""Local references written out in place, so that a schema says everything where it is read.

Providers differ in what they make of `$ref`; a tree without one means the same to all. The result is plain
JSON Schema 2020-12: older spellings are brought up to date on the way. Nothing is ever fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from ferrule.core.schemas import NOWHERE, pointed
from ferrule.dialects.flatten import (
    ANNOTATIONS,
    KEEPS_BOOLEANS,
    ONE_SCHEMA,
    ROOT,
    SCHEMA_LISTS,
    SCHEMA_MAPS,
    Ledger,
    step,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_UNROLL = 2
"""How often one definition may appear inside itself before it is cut."""
MAX_DEPTH = 48
MAX_NODES = 5_000
"""Once a schema has grown to this many nodes no further reference is written out."""

_STRUCTURE = frozenset({
    "$anchor", "$defs", "$dynamicAnchor", "$id", "$recursiveAnchor", "$schema", "$vocabulary", "definitions",
})  # fmt: skip
_OLD_DRAFTS = ("draft-03", "draft-04", "draft-06", "draft-07")


def inline(schema: Any, ledger: Ledger | None = None) -> dict[str, Any]:
    """The same schema as a tree without references, wider only where the ledger says so."""
    return _Inliner(schema, ledger or Ledger("")).node(schema, ROOT, _Place(schema, (), 0))


class _Place:
    """Where the walk is: the resource that `#` means, and the definitions it is inside of."""

    __slots__ = ("depth", "inside", "resource")

    def __init__(self, resource: Any, inside: tuple[int, ...], depth: int) -> None:
        self.resource = resource
        self.inside = inside
        self.depth = depth

    def deeper(self) -> _Place:
        return _Place(self.resource, self.inside, self.depth + 1)


class _Inliner:
    def __init__(self, root: Any, ledger: Ledger) -> None:
        self.root = root
        self.ledger = ledger
        self.nodes = 0
        draft = cast("dict[str, Any]", root).get("$schema") if isinstance(root, dict) else None
        self.old = isinstance(draft, str) and any(name in draft for name in _OLD_DRAFTS)

    def node(self, schema: Any, path: str, place: _Place) -> dict[str, Any]:
        self.nodes += 1
        if schema is True:
            return {}
        if schema is False:
            return {"not": {}}
        if not isinstance(schema, dict):
            return self._cut(path, "schema", "not a schema; anything is accepted here", "")
        node = cast("dict[str, Any]", schema)
        if place.depth > MAX_DEPTH:
            return self._cut(path, "schema", f"nested more than {MAX_DEPTH} deep; cut", "")
        if node is not place.resource and isinstance(node.get("$id"), str) and not node["$id"].startswith("#"):
            place = _Place(node, place.inside, place.depth)
        for dynamic in ("$dynamicRef", "$recursiveRef"):
            if dynamic in node:
                self.ledger.lose(path, dynamic, "dynamic references cannot be followed; left out")
        if "$ref" in node:
            return self._reference(node, path, place)
        return self._keywords(node, path, place)

    def _reference(self, node: dict[str, Any], path: str, place: _Place) -> dict[str, Any]:
        said = {key: node[key] for key in node if key in ANNOTATIONS}
        target, cut = self._follow(node["$ref"], path, place)
        if cut and "description" in said and "description" in target:
            said["description"] = f"{said['description']} {target['description']}"
        # Before 2019 everything beside a reference was ignored, so it must not narrow anything now.
        beside = {} if self.old else {k: v for k, v in node.items() if k not in ANNOTATIONS and k != "$ref"}
        rest = self._keywords(beside, path, place) if beside else {}
        if not rest:
            return {**target, **said}
        if not target:
            return {**rest, **said}
        return {"allOf": [target, rest], **said}

    def _follow(self, ref: Any, path: str, place: _Place) -> tuple[dict[str, Any], bool]:
        """What a reference stands for, and whether it had to be cut."""
        target, resource = _resolve(ref, place.resource)
        identity = id(target)
        if target is NOWHERE:
            what = "not a reference into this schema, and nothing is fetched; anything is accepted here"
            return self._cut(path, "$ref", what, ""), True
        name = str(ref).rsplit("/", 1)[-1].lstrip("#") or "the whole"
        known = cast("dict[str, Any]", target).get("type") if isinstance(target, dict) else None
        if place.inside.count(identity) >= MAX_UNROLL:
            return self._cut(path, "$ref", f"`{name}` contains itself; cut here", f"Again: `{name}`.", known), True
        if self.nodes > MAX_NODES:
            what = f"the schema is too large to write `{name}` out again; cut here"
            return self._cut(path, "$ref", what, f"As `{name}`.", known), True
        within = _Place(resource, (*place.inside, identity), place.depth + 1)
        return self.node(target, path, within), False

    def _cut(self, path: str, keyword: str, what: str, said: str, known: Any = None) -> dict[str, Any]:
        self.ledger.lose(path, keyword, what)
        left: dict[str, Any] = {} if known is None else {"type": known}
        if said:
            self.ledger.say(path, left, said)
        return left

    def _keywords(self, node: dict[str, Any], path: str, place: _Place) -> dict[str, Any]:
        out: dict[str, Any] = {}
        before = len(self.ledger.losses)
        inner = place.deeper()
        for keyword, value in (_modern(node) if self.old else node).items():
            if keyword in _STRUCTURE or keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
                continue
            known = len(self.ledger.losses)
            if keyword in ONE_SCHEMA:
                keeps = isinstance(value, bool) and keyword in KEEPS_BOOLEANS
                out[keyword] = value if keeps else self.node(value, step(path, keyword), inner)
            elif keyword in SCHEMA_LISTS or keyword in SCHEMA_MAPS:
                held = self._several(keyword, value, step(path, keyword), inner)
                if held is None:
                    self.ledger.lose(path, keyword, "malformed; left out")
                    continue
                out[keyword] = held
            elif _malformed(keyword, value):
                self.ledger.lose(path, keyword, "malformed; left out")
            else:
                out[keyword] = value
            if len(self.ledger.losses) > known:
                self._widen(out, keyword, node, path)
        if "if" not in out:
            out.pop("then", None)
            out.pop("else", None)
        if len(self.ledger.losses) > before:
            # What counts as unevaluated depends on all the rest; once that is wider, this refuses too much.
            for keyword in ("unevaluatedProperties", "unevaluatedItems"):
                if keyword in out:
                    self._drop(out, keyword, node, path)
        return out

    def _several(self, keyword: str, value: Any, here: str, place: _Place) -> Any:
        if keyword in SCHEMA_MAPS:
            if not isinstance(value, dict):
                return None
            held = cast("Mapping[str, Any]", value)
            return {key: self.node(one, step(here, key), place) for key, one in held.items()}
        if not isinstance(value, list):
            return None
        return [self.node(one, step(here, at), place) for at, one in enumerate(cast("list[Any]", value))]

    def _widen(self, out: dict[str, Any], keyword: str, node: dict[str, Any], path: str) -> None:
        """Something inside this keyword got wider; where that would refuse more, the keyword has to go."""
        if keyword == "oneOf":
            if "anyOf" in node:
                self._drop(out, keyword, node, path)
            else:
                out["anyOf"] = out.pop("oneOf")
                self.ledger.lose(path, "oneOf", "its parts became wider, so it was made an anyOf")
        elif keyword in ("not", "if") or (keyword == "contains" and "maxContains" in node):
            self._drop(out, keyword, node, path)

    def _drop(self, out: dict[str, Any], keyword: str, node: dict[str, Any], path: str) -> None:
        out.pop(keyword, None)
        if said := words(keyword, node[keyword]):
            self.ledger.say(path, out, said)
        self.ledger.lose(path, keyword, "rests on something that was cut; moved into the description")


def _malformed(keyword: str, value: Any) -> bool:
    """Whether a keyword that the later steps look into holds something else than it must."""
    if keyword == "enum":
        return not isinstance(value, list)
    if keyword == "type" and isinstance(value, str):
        return False
    if keyword in ("required", "type"):
        return not isinstance(value, list) or not all(isinstance(one, str) for one in cast("list[Any]", value))
    return False


def _resolve(ref: Any, resource: Any) -> tuple[Any, Any]:
    """What a local reference points at and the resource that it belongs to."""
    if isinstance(ref, str) and ref[:1] == "#" and ref[1:2] not in ("", "/"):
        return _anchored(unquote(ref[1:]), resource), resource
    return pointed(ref, resource)


def _anchored(name: str, resource: Any) -> Any:
    """Anchors are looked for where they are written in practice: on the definitions."""
    if isinstance(resource, dict):
        for key in ("$defs", "definitions"):
            held = cast("dict[str, Any]", resource).get(key)
            for one in cast("dict[str, Any]", held).values() if isinstance(held, dict) else ():
                anchored = cast("dict[str, Any]", one if isinstance(one, dict) else {})
                if name in (anchored.get("$anchor"), anchored.get("$dynamicAnchor")):
                    return anchored
    return NOWHERE


def _modern(node: dict[str, Any]) -> dict[str, Any]:
    """Keywords of draft 7 and older in today's spelling."""
    out = dict(node)
    if isinstance(out.get("items"), list):
        out["prefixItems"] = out.pop("items")
        if "additionalItems" in out:
            out["items"] = out.pop("additionalItems")
    out.pop("additionalItems", None)
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        flag = out.get(exclusive)
        if isinstance(flag, bool):
            del out[exclusive]
            if flag and bound in out:
                out[exclusive] = out.pop(bound)
    needs = out.pop("dependencies", None)
    if isinstance(needs, dict):
        for key, need in cast("dict[str, Any]", needs).items():
            kind = "dependentRequired" if isinstance(need, list) else "dependentSchemas"
            out[kind] = {**out.get(kind, {}), key: need}
    return out
