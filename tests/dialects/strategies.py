"""Random schemas with values that mostly fit them, names, calls and results."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.result import Attachment, ErrorInfo, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = ["a", "b", "kind", "näme", "with space", "x" * 70, "-A"]
DEFS = ["Node", "Leaf"]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, 2.0, -1.5]) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=5,
)
SCALARS: list[Any] = [None, True, False, -1, 0, 1, 2, "", "a", "bb", "2024-01-01"]


class Maker:
    """Makes schemas, and values that mostly fit them, from one seed; far quicker than drawing each choice."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def schema(self) -> dict[str, Any]:
        """A schema for arguments: mostly an object, sometimes a union or a reference at the root."""
        kind = self.random.randrange(6)
        root = self._ref() if kind == 0 else self._union(3, self._object) if kind == 1 else self._object(3)
        return {**root, "$defs": {name: self._object(2) for name in DEFS}}

    def _some(self, chance: float, choices: dict[str, Callable[[], Any]]) -> dict[str, Any]:
        return {key: make() for key, make in choices.items() if self.random.random() < chance}

    def _node(self, levels: int) -> Any:
        kinds: list[Callable[[], Any]] = [self._string, self._number, self._fixed]
        if levels > 0:
            inner = levels - 1
            kinds += [
                self._ref,
                lambda: self._array(inner),
                lambda: self._object(inner),
                lambda: self._object(inner, typed=False),
                lambda: self._union(inner, self._node),
            ]
        return self.random.choice(kinds)()

    def _nodes(self, levels: int, most: int) -> list[Any]:
        return [self._node(levels) for _ in range(self.random.randint(1, most))]

    def _string(self) -> dict[str, Any]:
        pick = self.random.choice
        return {
            "type": "string",
            **self._some(0.25, {
                "minLength": lambda: pick([0, 1, 2]),
                "maxLength": lambda: pick([1, 2, 4]),
                "pattern": lambda: pick(["^a", "b+$", "(?=a)a", "^.{1,3}$"]),
                "format": lambda: pick(["date", "uuid", "uri", "made-up"]),
                "description": lambda: "Some text.",
                "default": lambda: "a",
                "examples": lambda: ["a"],
            }),
        }  # fmt: skip

    def _number(self) -> dict[str, Any]:
        pick = self.random.choice
        return {
            "type": pick(["integer", "number", ["integer", "null"]]),
            **self._some(0.3, {
                "minimum": lambda: pick([-3, 0, 1]),
                "exclusiveMaximum": lambda: pick([1, 5]),
                "multipleOf": lambda: pick([1, 2]),
                "default": lambda: pick([0, 3]),
                "title": lambda: "Count",
            }),
        }  # fmt: skip

    def _fixed(self) -> Any:
        pick = self.random.choice
        return pick([
            {"const": pick(SCALARS)},
            {"const": {"a": 1}},
            {"enum": self.random.sample(SCALARS, self.random.randint(1, 4))},
            {"type": "boolean"},
            {"type": "null"},
            {},
            True,
            False,
            {"x-own": 1},
            {"description": "Anything."},
        ])  # fmt: skip

    def _ref(self) -> dict[str, Any]:
        extra = self.random.choice([{}, {}, {"description": "Said here."}, {"minProperties": 1}])
        return {"$ref": f"#/$defs/{self.random.choice(DEFS)}", **extra}

    def _array(self, levels: int) -> dict[str, Any]:
        pick = self.random.choice
        return {
            "type": "array",
            **self._some(0.4, {
                "items": lambda: pick([True, False, self._node(levels), self._node(levels)]),
                "prefixItems": lambda: self._nodes(levels, 2),
                "minItems": lambda: pick([0, 1, 2]),
                "maxItems": lambda: pick([1, 2, 3]),
                "uniqueItems": lambda: pick([True, False]),
                "contains": lambda: self._node(levels),
                "unevaluatedItems": lambda: pick([True, False]),
            }),
        }  # fmt: skip

    def _object(self, levels: int, *, typed: bool = True) -> dict[str, Any]:
        pick, sample = self.random.choice, self.random.sample
        return {
            **({"type": "object"} if typed else {}),
            **self._some(0.6, {
                "properties": lambda: {key: self._node(levels) for key in sample(KEYS, pick([1, 2, 3]))},
                "required": lambda: sample(KEYS[:4], pick([1, 2])),
            }),
            **self._some(0.25, {
                "additionalProperties": lambda: pick([True, False, False, self._node(levels)]),
            }),
            **self._some(0.08, {
                "patternProperties": lambda: {pick(["^a", "n"]): self._node(levels)},
                "propertyNames": lambda: {"maxLength": 80},
                "minProperties": lambda: 1,
                "dependentRequired": lambda: {"a": ["b"]},
                "unevaluatedProperties": lambda: pick([True, False]),
                "not": lambda: self._node(levels),
                "if": lambda: self._node(levels),
                "then": lambda: self._node(levels),
                "else": lambda: self._node(levels),
                "anyOf": lambda: self._nodes(levels, 3),
                "oneOf": lambda: self._nodes(levels, 3),
                "allOf": lambda: self._nodes(levels, 2),
            }),
        }  # fmt: skip

    def _union(self, levels: int, member: Callable[[int], Any]) -> dict[str, Any]:
        extra = self.random.choice([{}, {"description": "One of several."}, {"type": "object"}])
        parts = [member(levels) for _ in range(self.random.randint(1, 3))]
        return {self.random.choice(["anyOf", "oneOf", "allOf"]): parts, **extra}

    def anything(self, levels: int = 2) -> Any:
        pick = self.random.choice
        if levels and self.random.random() < 0.3:
            return {pick(KEYS): self.anything(levels - 1) for _ in range(pick([0, 1, 2]))}
        if levels and self.random.random() < 0.2:
            return [self.anything(levels - 1) for _ in range(pick([0, 1, 2]))]
        return pick([*SCALARS, 0.5, 7])

    def value(self, schema: Any, root: dict[str, Any], levels: int = 6) -> Any:
        """A value that tries to fit; what it cannot know it guesses."""
        pick, chance = self.random.choice, self.random.random
        if not isinstance(schema, dict) or levels == 0 or chance() < 0.04:
            return self.anything()
        if "$ref" in schema:
            return self.value(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], root, levels - 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return pick(schema["enum"])
        parts = [part for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key, [])]
        found = self.value(pick(parts), root, levels - 1) if parts and chance() < 0.7 else None
        if parts and not isinstance(found, dict):
            return found
        kind = schema.get("type", "object" if "properties" in schema or parts else None)
        kind = pick(kind) if isinstance(kind, list) else kind
        if kind == "object":
            return {**self._fields(schema, root, levels), **(found or {})}
        if kind == "array":
            prefix, rest = schema.get("prefixItems", []), schema.get("items", True)
            least = schema.get("minItems", 0)
            length = self.random.randint(least, max(schema.get("maxItems", 3), least))
            return [self.value(prefix[at] if at < len(prefix) else rest, root, levels - 1) for at in range(length)]
        if kind == "string":
            return pick(["a", "ab", "b", "aab", "", "2024-01-01"])
        if kind in ("integer", "number"):
            return pick([-2, 0, 1, 2, 4])
        if kind == "boolean":
            return pick([True, False])
        return None if kind == "null" else self.anything()

    def _fields(self, schema: dict[str, Any], root: dict[str, Any], levels: int) -> dict[str, Any]:
        fields, needed = schema.get("properties", {}), schema.get("required", [])
        named = [key for key in fields if key in needed or self.random.random() < 0.5]
        value = {key: self.value(fields[key], root, levels - 1) for key in named}
        for key in needed:
            value.setdefault(key, self.anything())
        if self.random.random() < 0.3:
            value.setdefault(self.random.choice([*KEYS, "other"]), self.anything())
        return value


seeds = st.integers(0, 2**32)
schemas = seeds.map(lambda seed: Maker(seed).schema())


def _schema_and_values(seed: int) -> tuple[dict[str, Any], list[Any]]:
    maker = Maker(seed)
    schema = maker.schema()
    values = [maker.value(schema, schema) for _ in range(12)]
    return schema, [value for value in values if isinstance(value, dict)]


schema_and_values = seeds.map(_schema_and_values)

names = st.one_of(
    st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=100),
    st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_.:/-]{0,90}\Z"),
    st.sampled_from(
        [
            "files.read",
            "files/read",
            "读取文件",
            "9lives",
            "a b",
            "a__01234567",
            "files_read",
            "DuQuWenJian",
            "-x",
            "_",
            "x" * 64,
            "x" * 65,
        ]
    ),
)

texts = st.text(max_size=30)
arguments = st.dictionaries(st.text(max_size=5), json_values, max_size=3)
calls = st.builds(
    lambda name, args, id: RawCall(name, args, id=id),
    st.text(min_size=1, max_size=20),
    arguments,
    st.from_regex(r"\A[a-z]{4}_[A-Za-z0-9]{1,20}\Z"),
)
attachments = st.one_of(
    st.builds(
        Attachment,
        st.sampled_from(["image/png", "image/tiff", "audio/wav", "application/pdf", "text/csv"]),
        data=st.binary(max_size=12),
        name=st.none() | st.sampled_from(["chart.png", "näme ü.bin"]),
    ),
    st.builds(
        Attachment,
        st.sampled_from(["image/png", "application/pdf", "text/html"]),
        uri=st.sampled_from(["https://example.org/x.png", "file:///tmp/x", "gs://bucket/x"]),
        name=st.none() | st.just("x"),
    ),
)
errors = st.builds(
    ErrorInfo, st.sampled_from(list(ErrorKind)), texts.filter(bool), suggestion=st.none() | texts.filter(bool)
)


@st.composite
def results(draw: st.DrawFn) -> ToolResult:
    error = draw(st.none() | errors)
    return ToolResult(
        call_id=draw(st.from_regex(r"\A[a-z]{4}_[A-Za-z0-9]{1,20}\Z")),
        tool=draw(st.text(min_size=1, max_size=20)),
        success=error is None,
        llm_content=draw(texts | st.just("Error (timeout_error): no")),
        display_content=draw(texts),
        data=draw(json_values),
        error=error,
        attachments=draw(st.lists(attachments, max_size=3)),
    )
