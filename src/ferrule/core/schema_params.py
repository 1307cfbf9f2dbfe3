"""Parameters described by a JSON Schema from elsewhere: arguments stay plain JSON values."""

from __future__ import annotations

from copy import deepcopy
from itertools import islice
from math import inf, isinf
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.explain import TOO_HARD
from ferrule.core.phrases import phrase
from ferrule.core.problems import HALF_PAIR, NO_PLACE, InvalidParamsError, Path, Problem, not_json
from ferrule.core.schema_compile import (
    CompiledSchema,
    TooCostly,
    freeze,
    is_linear,
    looks_sound,
    require_validator,
    states,
)
from ferrule.core.schemas import Schema, chain, mapping, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


MAX_PROBLEMS = 20
MAX_DIGITS = 400
"""Digits of one whole number; arithmetic on longer ones is slow."""
EXPLAIN_COST = 50_000.0
"""Evaluations up to which every error is gathered; above it only the first."""
EXPLAIN_BYTES = 100_000_000.0

_HUGE = 10**MAX_DIGITS

TOO_LARGE = phrase("too large or too deeply nested to be checked against this tool's schema. Send less at once")
TOO_MANY_DEFAULTS = phrase("too many defaults would have to be filled in. Send less at once")


def is_quick(pattern: str) -> bool:
    """Whether a short pattern is matched in one pass, so that a stranger's can be used as it is."""
    return len(pattern) <= 200 and states(pattern) <= 500 and is_linear(pattern)


class SchemaParams:
    """Reads arguments by a JSON Schema; compiled at first use, once."""

    __slots__ = ("_compiled", "_has_defaults", "_lock", "_name", "_resources", "_text", "schema")

    def __init__(self, name: str, schema: Schema | bool, resources: Mapping[str, Schema | bool] | None = None) -> None:
        require_validator()
        self._name = name
        self._text = freeze(name, "its schema", schema)
        self.schema: Schema = schema if isinstance(schema, dict) else {} if schema else {"not": {}}
        self._resources = {
            uri: freeze(name, f"the resource {uri!r}", document) for uri, document in (resources or {}).items()
        }
        self._has_defaults = b'"default"' in self._text
        self._lock = Lock()
        self._compiled: CompiledSchema | None = None

    def compile(self) -> CompiledSchema:
        """The compiled schema; raises `DefinitionError` when it cannot work."""
        if self._compiled is None:
            with self._lock:
                if self._compiled is None:
                    from pydantic_core import from_json

                    resources = {uri: from_json(text) for uri, text in self._resources.items()}
                    self._compiled = CompiledSchema(self._name, from_json(self._text), resources)
        return self._compiled

    def require_schema(self) -> None:
        """Raise `DefinitionError` for what is no JSON Schema, at a small part of the cost of compiling it."""
        if self._compiled is None and not looks_sound(self.schema):
            self.compile()  # which says what is wrong, or knows the documents that the schema refers to

    def load(self, text: str | bytes) -> Any:
        """Read and check JSON text, and fill in defaults; raise `InvalidParamsError` with every problem."""
        value = parse(text)
        compiled = self.compile()
        if invalid := _misfit(compiled, value, len(text)):
            raise invalid
        return self._filled(compiled, value, len(text)) if self._has_defaults else value

    def dump(self, params: Any) -> bytes:
        """Canonical JSON: keys sorted, no white space."""
        from pydantic_core import to_json

        return to_json(_sorted(params))

    def flat_size(self, params: Any) -> int | None:
        """The number of keys, where no value can hold more and no default was added."""
        if self._has_defaults or not isinstance(params, dict):
            return None
        fields = cast("dict[str, Any]", params)
        return None if any(isinstance(item, (dict, list)) for item in fields.values()) else len(fields)

    def _filled(self, compiled: CompiledSchema, value: Any, size: int) -> Any:
        """The value with its defaults; without those that the schema itself does not accept."""
        leave: frozenset[Path] = frozenset()
        try:
            for _ in range(2):
                filled, places = Defaults(compiled.root, leave).fill(value)
                if filled is value:
                    return value
                added = size + len(self._text) * len(places)
                invalid = _misfit(compiled, filled, added)
                if invalid is None:
                    return filled
                wrong = [problem.path for problem in invalid.problems]
                leave |= {place for place in places if any(path[: len(place)] == place for path in wrong)}
        except TooManyDefaults:
            raise InvalidParamsError([Problem((), "limit", TOO_MANY_DEFAULTS)]) from None
        return value


def parse(text: str | bytes) -> Any:
    """JSON text as Python values; what JSON cannot say, or no call can use, is a problem."""
    from pydantic_core import from_json

    try:
        value = from_json(text, allow_inf_nan=False)
    except TypeError:
        raise InvalidParamsError([Problem((), "json", HALF_PAIR)]) from None
    except ValueError as error:
        raise InvalidParamsError([not_json(str(error), text)]) from None
    if _has_huge_number(value):
        raise InvalidParamsError(list(islice(_huge_numbers(value), MAX_PROBLEMS)), value)
    return value


def _has_huge_number(value: Any) -> bool:
    """The quick look at every call; `_huge_numbers` says where."""
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, float):
            if isinf(item):
                return True
        elif isinstance(item, dict):
            waiting.extend(cast("dict[str, Any]", item).values())
        elif isinstance(item, list):
            waiting.extend(cast("list[Any]", item))
        elif isinstance(item, int) and not -_HUGE < item < _HUGE:
            return True
    return False


def _huge_numbers(value: Any) -> Iterator[Problem]:
    for path, item in _walk(value):
        if isinstance(item, float) and isinf(item):
            yield Problem(path, "limit", phrase("a number too large for JSON; the largest is about 1.8e308"))
        elif isinstance(item, int) and not -_HUGE < item < _HUGE:
            yield Problem(path, "limit", phrase("a number of more than {limit} digits", limit=MAX_DIGITS))


def _walk(value: Any) -> Iterator[tuple[Path, Any]]:
    """Every value with its place."""
    waiting: list[tuple[Path, Any]] = [((), value)]
    while waiting:
        path, item = waiting.pop()
        yield path, item
        if isinstance(item, dict):
            waiting += [((*path, key), inner) for key, inner in reversed(cast("dict[str, Any]", item).items())]
        elif isinstance(item, list):
            inner_items = cast("list[Any]", item)
            waiting += [((*path, at), inner_items[at]) for at in range(len(inner_items) - 1, -1, -1)]


def _misfit(compiled: CompiledSchema, value: Any, size: int) -> InvalidParamsError | None:
    """Why a value does not fit; None when it does. Bounds first: nothing stops the validator once it runs."""
    try:
        if not compiled.cost.is_tame(size):
            compiled.cost.check(value)
        if compiled.backtracking is not None and (
            hard := list(islice(_too_hard(compiled.backtracking, value), MAX_PROBLEMS))
        ):
            return InvalidParamsError(hard, value)
        if compiled.validator.is_valid(value):
            return None
    except TooCostly:
        return InvalidParamsError([Problem((), "limit", TOO_LARGE)], value)
    return _explain(compiled, value, size)


def _too_hard(patterns: Any, value: Any) -> Iterator[Problem]:
    """Strings on which a pattern gives up. The validator calls that «no match», which `not` turns around."""
    for path, item in _walk(value):
        for text in cast("list[Any]", [item, *item] if isinstance(item, dict) else [item]):
            if isinstance(text, str) and not patterns.is_valid(text):
                kinds = {type(error.kind).__name__ for error in patterns.iter_errors(text)}
                if kinds & {"BacktrackLimitExceeded", "RegexEngineFailure"}:
                    yield Problem(path, "limit", TOO_HARD)


def _explain(compiled: CompiledSchema, value: Any, size: int) -> InvalidParamsError | None:
    from jsonschema_rs import ValidationError

    from ferrule.core.validator_errors import schema_rules, unknown_fields

    try:
        evaluations = compiled.cost.evaluations(value)
    except TooCostly:
        evaluations = inf
    explainer = compiled.explainer
    if evaluations <= EXPLAIN_COST and evaluations * size <= EXPLAIN_BYTES:
        refusals = schema_rules(compiled.validator.iter_errors(value), value)
        problems = explainer.explain(value, refusals[: explainer.most])
        more = max(0, len(problems) - MAX_PROBLEMS) + max(0, len(refusals) - explainer.most)
        return InvalidParamsError(problems[:MAX_PROBLEMS], value, more=more)
    if compiled.has_unions:
        return InvalidParamsError([Problem((), "value", NO_PLACE)], value)
    try:
        compiled.validator.validate(value)
    except ValidationError as error:
        refusals = schema_rules([error], value)
        refusals = unknown_fields(refusals[0], compiled.root, value) or refusals
        problems = explainer.explain(value, refusals[:MAX_PROBLEMS])
        problems.append(Problem((), "limit", phrase("and perhaps more; it would take too long to find every problem")))
        return InvalidParamsError(problems, value, more=max(0, len(refusals) - MAX_PROBLEMS))
    return None


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _sorted(fields[key]) for key in sorted(fields)}
    if isinstance(value, list):
        return [_sorted(item) for item in cast("list[Any]", value)]
    return value


# Fills in the defaults that a JSON Schema declares, where it is clear that they are meant.


MAX_FILLED = 100_000
"""Values that defaults may add to one call; a large default in a long array is what reaches it."""


class TooManyDefaults(Exception):  # noqa: N818 - a finding, turned into a problem by the caller
    """Filling in would make the arguments unreasonably large."""


class Defaults:
    """Fills in the defaults of one schema, except at the places to `leave`; used once.

    Only `properties` (also below `items`, `additionalProperties` and local `$ref`s) are looked at. What stands in
    `anyOf`, `if` and the like applies only sometimes, so its defaults are left alone; so are those of two parts that
    disagree on a field.
    """

    def __init__(self, root: Any, leave: frozenset[Path] = frozenset()) -> None:
        self._places: list[Path] = []
        self._root = root
        self._leave = leave
        self._added = 0
        self._open: set[int] = set()

    def fill(self, value: Any) -> tuple[Any, list[Path]]:
        """A copy with the defaults filled in, and the places where; the value itself when there are none."""
        return self.value([self._root], value, ()), self._places

    def value(self, schemas: list[Any], value: Any, path: Path) -> Any:
        if not isinstance(value, (dict, list)) or not schemas:
            return cast("Any", value)
        # Each part once: by many references to each other they would multiply at every level of the value.
        parts = list({id(part): part for schema in schemas for part in chain(schema, self._root)}.values())
        if isinstance(value, dict):
            return self._object(parts, cast("dict[str, Any]", value), path)
        return self._array(parts, cast("list[Any]", value), path)

    def _object(self, parts: list[Schema], value: dict[str, Any], path: Path) -> dict[str, Any]:
        described: dict[str, list[Any]] = {}
        for part in parts:
            for name, prop in mapping(part.get("properties")).items():
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
        found = [part for prop in props for part in chain(prop, self._root) if "default" in part]
        if not found or any(part["default"] != found[0]["default"] for part in found if part is not found[0]):
            return
        marker = id(found[0])
        if marker in self._open:
            return
        self._places.append(place)
        default = deepcopy(found[0]["default"])
        self._added += size_of(default)
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
