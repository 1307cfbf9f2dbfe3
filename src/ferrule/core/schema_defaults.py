"""Fills in the defaults that a JSON Schema declares, where it is clear that they are meant."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

if TYPE_CHECKING:
    from ferrule.core.problems import PathPart

MAX_FILLED = 100_000
"""Values that defaults may add to one call; a large default in a long array is what reaches it."""
_REF_STEPS = 16

Schema = dict[str, Any]
Path = tuple["PathPart", ...]


class TooManyDefaults(Exception):  # noqa: N818 - a finding, turned into a problem by the caller
    """Filling in would make the arguments unreasonably large."""


class Defaults:
    """The defaults of one schema.

    Only `properties` (also below `items`, `additionalProperties` and local `$ref`s) are looked at. What
    stands in `anyOf`, `if` and the like applies only sometimes, so its defaults are left alone; so are those
    of two parts that disagree on a field.
    """

    def __init__(self, root: Any) -> None:
        self._root = root

    def fill(self, value: Any, leave: frozenset[Path] = frozenset()) -> tuple[Any, list[Path]]:
        """A copy with the defaults filled in, and the places where; the value itself when there are none."""
        filling = _Filling(self._root, leave)
        return filling.value([self._root], value, ()), filling.places


class _Filling:
    def __init__(self, root: Any, leave: frozenset[Path]) -> None:
        self.places: list[Path] = []
        self._root = root
        self._leave = leave
        self._added = 0
        self._open: set[int] = set()

    def value(self, schemas: list[Any], value: Any, path: Path) -> Any:
        if not isinstance(value, (dict, list)) or not schemas:
            return cast("Any", value)
        # Each part once: by many references to each other they would multiply at every level of the value.
        parts = list({id(part): part for schema in schemas for part in self._chain(schema)}.values())
        if isinstance(value, dict):
            return self._object(parts, cast("dict[str, Any]", value), path)
        return self._array(parts, cast("list[Any]", value), path)

    def _object(self, parts: list[Schema], value: dict[str, Any], path: Path) -> dict[str, Any]:
        described: dict[str, list[Any]] = {}
        for part in parts:
            for name, prop in _mapping(part.get("properties")).items():
                described.setdefault(name, []).append(prop)
        extra = [part["additionalProperties"] for part in parts if isinstance(part.get("additionalProperties"), dict)]
        changed: dict[str, Any] = {}
        for name, item in value.items():
            filled = self.value(described.get(name, extra), item, (*path, name))
            if filled is not item:
                changed[name] = filled
        for name, props in described.items():
            place = (*path, name)
            if name not in value and place not in self._leave:
                self._add(props, place, changed)
        return {**value, **changed} if changed else value

    def _add(self, props: list[Any], place: Path, into: dict[str, Any]) -> None:
        found = [part for prop in props for part in self._chain(prop)[:_REF_STEPS] if "default" in part]
        if not found or any(part["default"] != found[0]["default"] for part in found if part is not found[0]):
            return
        marker = id(found[0])
        if marker in self._open:
            return
        self.places.append(place)
        default = deepcopy(found[0]["default"])
        self._added += _size(default)
        if self._added > MAX_FILLED:
            raise TooManyDefaults
        self._open.add(marker)
        into[str(place[-1])] = self.value(props, default, place)
        self._open.remove(marker)

    def _array(self, parts: list[Schema], value: list[Any], path: Path) -> list[Any]:
        items = [part["items"] for part in parts if isinstance(part.get("items"), dict) and "prefixItems" not in part]
        if not items:
            return value
        filled = [self.value(items, item, (*path, position)) for position, item in enumerate(value)]
        return value if all(new is old for new, old in zip(filled, value, strict=True)) else filled

    def _chain(self, schema: Any) -> list[Schema]:
        """The schema and the local definitions it refers to, one after the other."""
        chain: list[Schema] = []
        while isinstance(schema, dict) and len(chain) < _REF_STEPS:
            here = cast("Schema", schema)
            chain.append(here)
            ref = here.get("$ref")
            schema = self._pointed(ref) if isinstance(ref, str) and (ref == "#" or ref.startswith("#/")) else None
        return chain

    def _pointed(self, ref: str) -> Any:
        here = self._root
        for part in ref.split("/")[1:]:
            here = _mapping(here)
            if "$id" in here and here is not self._root:
                return None
            here = here.get(unquote(part).replace("~1", "/").replace("~0", "~"))
        return here


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_size, cast("dict[str, Any]", value).values()))
    if isinstance(value, list):
        return 1 + sum(map(_size, cast("list[Any]", value)))
    return 1
