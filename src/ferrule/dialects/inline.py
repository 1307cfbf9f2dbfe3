"""Local references written out in place, so that a schema says everything where it is read.

Providers differ in what they make of `$ref`; a tree without one means the same to all. The result is plain
JSON Schema 2020-12: older spellings are brought up to date on the way. Nothing is ever fetched.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ferrule.core.schemas import NOWHERE, mapping, pointed, step
from ferrule.dialects.flatten import (
    ANNOTATIONS,
    KEEPS_BOOLEANS,
    ONE_SCHEMA,
    ROOT,
    SCHEMA_LISTS,
    SCHEMA_MAPS,
    Ledger,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.problems import Path

MAX_UNROLL = 2
"""How often one definition may appear inside itself before it is cut."""
MAX_DEPTH = 48
MAX_NODES = 5_000
"""Once a schema has grown to this many nodes no further reference is written out."""

_STRUCTURE = frozenset({
    "$anchor", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef", "$ref", "$schema",
    "$vocabulary", "definitions",
})  # fmt: skip
_REFERENCES = frozenset({"$dynamicRef", "$id", "$recursiveRef", "$ref"})
SIMPLE = frozenset({str, bool, int, float, type(None)})
_OLD_DRAFTS = ("draft-03", "draft-04", "draft-06", "draft-07")


def inline(schema: Any, ledger: Ledger | None = None) -> dict[str, Any]:
    """The same schema as a tree without references, wider only where the ledger says so."""
    return _Inliner(schema, ledger or Ledger("")).node(schema, (), schema, (), 0)


class _Inliner:
    """Walks a schema. On the way, `resource` is what `#` means, and `inside` the definitions around a place."""

    def __init__(self, root: Any, ledger: Ledger) -> None:
        self.ledger = ledger
        ledger.bare_arrays = False
        self.nodes = 0
        draft = mapping(root).get("$schema")
        self.old = isinstance(draft, str) and any(name in draft for name in _OLD_DRAFTS)

    def node(self, schema: Any, path: Path, resource: Any, inside: tuple[int, ...], depth: int) -> dict[str, Any]:
        self.nodes += 1
        if not isinstance(schema, dict):
            if isinstance(schema, bool):
                return {} if schema else {"not": {}}
            return self._cut(path, "schema", "not a schema; anything is accepted here", "")
        node: dict[str, Any] = schema  # pyright: ignore[reportUnknownVariableType]
        if depth > MAX_DEPTH:
            return self._cut(path, "schema", f"nested more than {MAX_DEPTH} deep; cut", "")
        if type(kind := node.get("type")) is str and kind != "array" and _LOOKED_INTO.isdisjoint(node) and not self.old:
            return {key: one if type(one) in SIMPLE else deepcopy(one) for key, one in node.items()}  # most are leaves
        if _REFERENCES.isdisjoint(node):
            return self._keywords(node, path, resource, inside, depth)
        if "$id" in node and isinstance(node["$id"], str) and not node["$id"].startswith("#"):
            resource = node
        for dynamic in ("$dynamicRef", "$recursiveRef"):
            if dynamic in node:
                self._lose(path, dynamic, "dynamic references cannot be followed; left out")
        if "$ref" not in node:
            return self._keywords(node, path, resource, inside, depth)
        said = {key: node[key] for key in node if key in ANNOTATIONS}
        target, cut = self._follow(node["$ref"], path, resource, inside, depth)
        if cut and "description" in said and "description" in target:
            said["description"] = f"{said['description']} {target['description']}"
        # Before 2019 everything beside a reference was ignored, so it must not narrow anything now.
        beside = {} if self.old else {k: v for k, v in node.items() if k not in ANNOTATIONS and k != "$ref"}
        rest = self._keywords(beside, path, resource, inside, depth) if beside else {}
        if not rest or not target:
            return {**target, **rest, **said}
        return {"allOf": [target, rest], **said}

    def _follow(
        self, ref: Any, path: Path, resource: Any, inside: tuple[int, ...], depth: int
    ) -> tuple[dict[str, Any], bool]:
        """What a reference stands for, and whether it had to be cut."""
        target, resource = pointed(ref, resource)
        if target is NOWHERE:
            what = "not a reference into this schema, and nothing is fetched; anything is accepted here"
            return self._cut(path, "$ref", what, ""), True
        name = str(ref).rsplit("/", 1)[-1].lstrip("#") or "the whole"
        known = mapping(target).get("type")
        if inside.count(id(target)) >= MAX_UNROLL:
            return self._cut(path, "$ref", f"`{name}` contains itself; cut here", f"Again: `{name}`.", known), True
        if self.nodes > MAX_NODES:
            what = f"the schema is too large to write `{name}` out again; cut here"
            return self._cut(path, "$ref", what, f"As `{name}`.", known), True
        return self.node(target, path, resource, (*inside, id(target)), depth + 1), False

    def _lose(self, path: Path, keyword: str, what: str) -> None:
        self.ledger.lose(step(ROOT, *path), keyword, what)

    def _cut(self, path: Path, keyword: str, what: str, said: str, known: Any = None) -> dict[str, Any]:
        self._lose(path, keyword, what)
        left: dict[str, Any] = {} if known is None else {"type": known}
        if said:
            self.ledger.say(step(ROOT, *path), left, said)
        return left

    def _keywords(
        self, node: dict[str, Any], path: Path, resource: Any, inside: tuple[int, ...], depth: int
    ) -> dict[str, Any]:
        out: dict[str, Any] = {}
        losses = self.ledger.losses
        before = len(losses)
        depth += 1
        for keyword, value in (_modern(node) if self.old else node).items():
            if keyword not in _LOOKED_INTO and (keyword != "type" or isinstance(value, str)):
                out[keyword] = value if type(value) in SIMPLE else deepcopy(value)
                continue
            known = len(losses)
            if (fits := _CHECKED.get(keyword)) is not None and not fits(value):
                self._lose(path, keyword, "malformed; left out")
            elif keyword in ONE_SCHEMA:
                keeps = isinstance(value, bool) and keyword in KEEPS_BOOLEANS
                out[keyword] = value if keeps else self.node(value, (*path, keyword), resource, inside, depth)
            elif keyword in SCHEMA_MAPS:
                out[keyword] = {
                    key: self.node(one, (*path, keyword, key), resource, inside, depth) for key, one in value.items()
                }
            elif keyword in SCHEMA_LISTS:
                out[keyword] = [
                    self.node(one, (*path, keyword, at), resource, inside, depth) for at, one in enumerate(value)
                ]
            elif keyword == "enum":
                out[keyword] = [one if type(one) in SIMPLE else deepcopy(one) for one in value]
            elif keyword not in _STRUCTURE:  # a list of texts
                out[keyword] = [*value]
            if len(losses) > known and keyword in out:
                # Something inside this keyword got wider; where that would refuse more, the keyword has to go.
                if keyword == "oneOf":
                    if "anyOf" in node:
                        self._drop(out, keyword, node, path)
                    else:
                        out["anyOf"] = out.pop("oneOf")
                        self._lose(path, "oneOf", "its parts became wider, so it was made an anyOf")
                elif keyword in ("not", "if") or (keyword == "contains" and "maxContains" in node):
                    self._drop(out, keyword, node, path)
        if "items" not in out and "array" in out.get("type", ()):
            self.ledger.bare_arrays = True
        if "if" not in out and ("then" in out or "else" in out):
            out.pop("then", None)
            out.pop("else", None)
        if len(losses) > before:
            # What counts as unevaluated depends on all the rest; once that is wider, this refuses too much.
            for keyword in ("unevaluatedProperties", "unevaluatedItems"):
                if keyword in out:
                    self._drop(out, keyword, node, path)
        return out

    def _drop(self, out: dict[str, Any], keyword: str, node: dict[str, Any], path: Path) -> None:
        out.pop(keyword, None)
        if said := words(keyword, node[keyword]):
            self.ledger.say(step(ROOT, *path), out, said)
        self._lose(path, keyword, "rests on something that was cut; moved into the description")


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and not [one for one in cast("list[Any]", value) if not isinstance(one, str)]


_CHECKED: dict[str, Callable[[Any], bool]] = {
    "enum": lambda value: isinstance(value, list),
    "required": _are_texts,
    "type": lambda value: isinstance(value, str) or _are_texts(value),
    **dict.fromkeys(SCHEMA_LISTS, lambda value: isinstance(value, list)),
    **dict.fromkeys(SCHEMA_MAPS, lambda value: isinstance(value, dict)),
}
"""Keywords that the later steps look into, and what they must hold."""
_LOOKED_INTO = (ONE_SCHEMA | _STRUCTURE | _CHECKED.keys()) - {"type"}
"""All others are copied as they are, and so is a single type."""


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


# Parts of definitions that are shared.


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise TypeError("This part of a tool definition is shared. Change a copy: copy.deepcopy(definition).")


class ReadOnlyDict(dict[str, Any]):
    """A part of a definition. To whoever writes JSON it is a dict; changing it raises `TypeError`."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: deepcopy(value, memo) for key, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (deepcopy(self),)


class ReadOnlyList(list[Any]):
    """The same of a list."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse  # type: ignore[assignment]
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse  # type: ignore[assignment]

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [deepcopy(value, memo) for value in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (deepcopy(self),)


def read_only(value: Any) -> Any:
    """The same JSON value, none of which can be changed."""
    if isinstance(value, (ReadOnlyDict, ReadOnlyList)):
        return cast("Any", value)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return ReadOnlyDict({key: one if type(one) in SIMPLE else read_only(one) for key, one in fields.items()})
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return ReadOnlyList([one if type(one) in SIMPLE else read_only(one) for one in items])
    return value
