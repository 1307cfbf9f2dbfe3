"""Where a pydantic error lies: the way through the value, and the parts of the schemas that describe that place.

Pydantic's own path names more than the value holds: the branch of a union, a tag, the validator around a type. A model
would take those for fields. So the path is walked along the schema that pydantic validated by, which tells one from
the other, together with the value and with the JSON Schema that models are shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.schema_walk import resolve

if TYPE_CHECKING:
    from ferrule.core.problems import PathPart

Node = dict[str, Any]

_INNER = {
    "nullable": "schema", "default": "schema", "function-before": "schema", "function-after": "schema",
    "function-wrap": "schema", "model": "schema", "dataclass": "schema", "custom-error": "schema",
    "definitions": "schema", "json": "schema", "lax-or-strict": "strict_schema", "json-or-python": "json_schema",
    "call": "arguments_schema",
}  # fmt: skip
"""Schemas that only pass a value on, and where the next one stands in them."""
_ITEMS = ("list", "set", "frozenset", "generator", "deque")


@dataclass(slots=True)
class Branch:
    """One union on the way: where it stands, which of its forms an error is about, and all forms as JSON Schemas."""

    path: tuple[PathPart, ...]
    form: PathPart
    tagged: bool
    shapes: list[Node]


@dataclass(slots=True)
class Location:
    """One place of a value. `key` is set where the problem is a key of the object there."""

    path: tuple[PathPart, ...]
    branches: tuple[Branch, ...] = ()
    core: Node = field(default_factory=dict[str, Any])
    schema: Node = field(default_factory=dict[str, Any])
    core_around: Node = field(default_factory=dict[str, Any])
    schema_around: Node = field(default_factory=dict[str, Any])
    key: str | None = None

    def choices(self) -> list[Any]:
        """The values of a literal or an enum, as JSON has them."""
        kind = self.core.get("type")
        if kind in ("literal", "enum"):
            listed: list[Any] = self.core["expected" if kind == "literal" else "members"]
            return [one.value if isinstance(one, Enum) else one for one in listed]
        return self.schema.get("enum") or ([self.schema["const"]] if "const" in self.schema else [])

    def tags(self) -> tuple[tuple[PathPart, ...] | None, list[Any]]:
        """The field that tells the forms of a tagged union apart, where it is a field, and what it may hold."""
        choices: dict[Any, Any] = self.core.get("choices", {})
        tags = [tag.value if isinstance(tag, Enum) else tag for tag in choices]
        named: Any = self.core.get("discriminator")
        if isinstance(named, str):
            return (named,), tags
        if isinstance(named, list):  # every way that the field's aliases allow
            return tuple(cast("list[list[PathPart]]", named)[0]), tags
        return None, tags

    def fields(self) -> tuple[list[str], dict[str, str]]:
        """The fields of the object around this place, and other names that they go by."""
        shown = list(cast("Node", self.schema_around.get("properties", {})))
        others: dict[str, str] = {}
        for name, described in _fields(self.core_around).items():
            names = [*_names(name, described), name]
            known = next((one for one in names if one in shown), None)
            if known is not None:
                others |= {one: known for one in names if one != known}
        return shown, others


class Locator:
    """Finds places in one value."""

    __slots__ = ("_definitions", "_forms", "core", "schema", "value")

    def __init__(self, core: Any, schema: Node, value: Any) -> None:
        self.core = cast("Node", core)
        self.schema = schema
        self.value = value
        self._definitions: dict[str, Node] | None = None
        self._forms: dict[Any, list[PathPart]] = {}

    def at(self, loc: tuple[PathPart, ...], kind: str) -> Location:
        """The place that pydantic calls `loc`, for an error of this kind."""
        walk = _Walk(self)
        missing = kind.startswith("missing")
        for position, part in enumerate(loc):
            if not walk.step(part, may_lack=missing and position == len(loc) - 1):
                break
        return walk.location()

    def opened(self, core: Any) -> Node:
        """The schema that has a say of the value's parts, inside those that only pass it on."""
        node = cast("Node", core or {})
        for _ in range(64):
            kind = node.get("type")
            if kind == "definition-ref":
                node = self.defined(node)
            elif kind == "chain":
                node = node["steps"][0]
            elif kind in _INNER and _INNER[kind] in node:
                node = node[_INNER[kind]]
            else:
                break
        return node

    def defined(self, reference: Node) -> Node:
        if self._definitions is None:
            listed: list[Node] = self.core.get("definitions", [])
            self._definitions = {one["ref"]: one for one in listed}
        return self._definitions.get(reference["schema_ref"], {})

    def form_number(self, union: tuple[Any, ...], label: PathPart) -> int:
        """Which of a union's choices a label stands for: errors come in the order of the choices."""
        labels = self._forms.setdefault(union, [])
        if label not in labels:
            labels.append(label)
        return labels.index(label)


class _Walk:
    """One way through both schemas and the value at once."""

    __slots__ = ("_around", "_branches", "_core", "_here", "_key", "_locator", "_path", "_schema", "_unresolved")

    def __init__(self, locator: Locator) -> None:
        self._locator = locator
        self._core = locator.opened(locator.core)
        self._unresolved: Node = locator.schema
        self._schema = resolve(locator.schema, locator.schema)
        self._here: Any = locator.value
        self._path: list[PathPart] = []
        self._branches: list[Branch] = []
        self._around: tuple[Node, Node] = ({}, {})
        self._key: str | None = None

    def location(self) -> Location:
        said = {key: self._unresolved[key] for key in ("description", "default") if key in self._unresolved}
        schema = {**self._schema, **said} if said else self._schema
        return Location(tuple(self._path), tuple(self._branches), self._core, schema, *self._around, self._key)

    def step(self, part: PathPart, *, may_lack: bool) -> bool:
        """Go on by one part; False where the value does not lead further."""
        kind = self._core.get("type")
        if kind == "union":
            self._choose(part)
            return True
        if kind == "tagged-union":
            self._choose_tagged(part)
            return True
        if part == "[key]" and self._path:
            self._key = str(self._path.pop())
            self._core = self._locator.opened(self._around[0].get("keys_schema"))
            return False
        below = self._below(part)
        part = self._given_as(part)
        if _leads_on(part, self._here):
            self._here = self._here[part]
        elif may_lack:
            self._here = None
        else:
            return below is None  # a name of something that is not in the value is passed over
        self._path.append(part)
        self._around = self._core, self._schema
        self._core = self._locator.opened(below)
        self._go_to(_part_of(part, self._schema))
        return True

    def _go_to(self, schema: Any) -> None:
        self._unresolved = cast("Node", schema) if isinstance(schema, dict) else {}
        self._schema = resolve(self._unresolved, self._locator.schema)

    def _below(self, part: PathPart) -> Node | None:
        """The schema of one part of the value; None where there is none."""
        core, kind = self._core, self._core.get("type")
        if kind in _ITEMS:
            return core.get("items_schema", {})
        if kind == "dict":
            return core.get("values_schema", {})
        if isinstance(part, int):
            listed: list[Node] = core.get("items_schema", []) if kind == "tuple" else []
            if kind == "named-tuple":
                listed = [one["schema"] for one in core["fields"]]
            return listed[min(part, len(listed) - 1)] if listed else None
        return next((one["schema"] for name, one in _fields(core).items() if part in _names(name, one)), None)

    def _given_as(self, part: PathPart) -> PathPart:
        """The name that a field was given by: pydantic tells the first of several."""
        if isinstance(part, int) or _leads_on(part, self._here):
            return part
        for name, described in _fields(self._core).items():
            names = [*_names(name, described), name]
            if part in names:
                return next((one for one in names if _leads_on(one, self._here)), part)
        return part

    def _choose(self, label: PathPart) -> None:
        listed: list[Any] = self._core["choices"]
        choices: list[Node] = [one[0] if isinstance(one, tuple) else one for one in listed]
        named = [at for at, one in enumerate(choices) if self._class_name(one) == label]
        where = tuple(self._path), tuple((one.path, one.form) for one in self._branches)
        at = self._locator.form_number(where, label)
        self._enter(label, named[0] if len(named) == 1 else at, choices, tagged=False)

    def _choose_tagged(self, tag: PathPart) -> None:
        choices: dict[Any, Node] = self._core["choices"]
        tags = list(choices)
        at = next((at for at, one in enumerate(tags) if tag in (one, getattr(one, "value", one), str(one))), len(tags))
        described: Node = self._schema.get("discriminator", {})
        ref = described.get("mapping", {}).get(str(tag))
        self._enter(tag, at, list(choices.values()), tagged=True)
        if ref is not None:
            self._go_to({"$ref": ref})

    def _enter(self, form: PathPart, at: int, choices: list[Node], *, tagged: bool) -> None:
        """Go on inside one form of a union."""
        listed: list[Node] = self._schema.get("anyOf") or self._schema.get("oneOf") or []
        shapes = [one for one in listed if one.get("type") != "null"]
        self._branches.append(Branch(tuple(self._path), form, tagged, shapes))
        self._core = self._locator.opened(choices[at]) if at < len(choices) else {}
        self._go_to(shapes[at] if at < len(shapes) == len(choices) else {})

    def _class_name(self, choice: Node) -> str | None:
        """The name that pydantic gives a model's branch."""
        if choice.get("type") == "definition-ref":
            choice = self._locator.defined(choice)
        return getattr(choice["cls"], "__name__", None) if choice.get("type") in ("model", "dataclass") else None


def _part_of(part: PathPart, schema: Node) -> Any:
    if isinstance(part, int):
        first: list[Any] = schema.get("prefixItems", [])
        return first[part] if part < len(first) else schema.get("items")
    return schema.get("properties", {}).get(part, schema.get("additionalProperties"))


def _fields(core: Node) -> dict[str, Node]:
    """The fields of an object's schema by their own names."""
    kind = core.get("type")
    if kind in ("model-fields", "typed-dict"):
        return core["fields"]
    if kind in ("dataclass-args", "named-tuple", "arguments"):
        listed: list[Node] = core["arguments_schema" if kind == "arguments" else "fields"]
        return {one["name"]: one for one in listed}
    return {}


def _names(name: str, described: Node) -> list[str]:
    """The names that a field can be given by."""
    alias: Any = described.get("validation_alias", described.get("alias"))
    if alias is None:
        return [name]
    if isinstance(alias, str):
        return [alias]
    ways = cast("list[Any]", alias)
    if ways and not isinstance(ways[0], list):
        ways = [ways]
    return [str(way[0]) for way in cast("list[list[Any]]", ways) if len(way) == 1]


def _leads_on(part: PathPart, here: Any) -> bool:
    if isinstance(here, dict):
        return part in here
    return isinstance(here, list) and isinstance(part, int) and part < len(cast("list[Any]", here))
