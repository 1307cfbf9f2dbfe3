"""Compiles a JSON Schema from elsewhere into something that validates quickly, offline and within bounds."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ferrule.core.errors import DefinitionError, MissingExtra
from ferrule.core.problems import format_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jsonschema_rs import Validator

    from ferrule.core.schema_cost import Cost

MAX_SCHEMA_BYTES = 2_000_000
MAX_PATTERNS = 500
"""Different regular expressions in one schema; each costs some milliseconds to compile."""
BASE = "json-schema:///"
"""The address of a schema that gives itself none."""

_DRAFTS = {"Draft4Validator": 4, "Draft6Validator": 6, "Draft7Validator": 7, "Draft201909Validator": 19}


def freeze(name: str, what: str, document: Any) -> bytes:
    """Check at once, at little cost, that a document could be a schema; what it says now is what will count."""
    from pydantic_core import PydanticSerializationError, from_json, to_json

    if not isinstance(document, (dict, bool)):
        raise DefinitionError(
            f"`{name}`: {what} must be an object or a boolean, not {type(document).__name__}."
        )
    try:
        text = to_json(document, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise DefinitionError(f"`{name}`: {what} is not JSON: {_first_line(error)}.") from None
    if len(text) > MAX_SCHEMA_BYTES:
        raise DefinitionError(
            f"`{name}`: {what} takes {len(text):,} bytes as JSON; more than {MAX_SCHEMA_BYTES:,} are not read."
        )
    try:
        from_json(text, allow_inf_nan=False)
    except ValueError as error:
        reason = "it is nested too deeply" if "recursion" in str(error) else f"it is not JSON: {error}"
        raise DefinitionError(f"`{name}`: {what} cannot be read: {reason}.") from None
    return text


@cache
def require_validator() -> None:
    """Say at definition that the validator is missing, without paying for its import."""
    if find_spec("jsonschema_rs") is None:
        raise MissingExtra("A tool made from a JSON Schema", "schema")


class CompiledSchema:
    """A validator with the bounds it needs."""

    __slots__ = ("backtracking", "cost", "has_unions", "root", "validator")

    def __init__(self, name: str, root: Any, resources: Mapping[str, Any]) -> None:
        from jsonschema_rs import (
            ReferencingError,
            Registry,
            ValidationError,
            validator_cls_for,
            validator_for,
        )

        from ferrule.core.schema_cost import Cost
        from ferrule.core.schema_graph import read_graph
        from ferrule.core.schema_patterns import pattern_options

        self.root = root
        _limit_patterns(name, [root, *resources.values()])
        base = _address(root)
        documents = {**resources, base: root}
        try:
            others = Registry(list(resources.items()), retriever=_refuse) if resources else None
            self.validator: Validator = validator_for(
                root, registry=others, retriever=_refuse, pattern_options=pattern_options(), validate_formats=False,
            )  # fmt: skip
            draft = _DRAFTS.get(type(self.validator).__name__, 20)
            graph = read_graph(root, documents, Registry(list(documents.items()), draft, _refuse), base)
            self.cost: Cost = Cost(graph.nodes)
        except ValidationError as error:
            _explain(name, error)
        except (ReferencingError, ValueError, DefinitionError) as error:
            raise DefinitionError(f"`{name}`: {_first_line(error)}") from None
        self.has_unions = graph.has_unions
        self.backtracking: Validator | None = None
        if graph.backtracking:
            every = {"allOf": [{"pattern": pattern} for pattern in graph.backtracking]}
            self.backtracking = validator_for(every, pattern_options=pattern_options())
        _ = validator_cls_for


def _refuse(uri: str) -> NoReturn:
    raise LookupError(f"{uri} is not fetched; hand it over in `resources`")


def _address(root: Any) -> str:
    own = cast("dict[str, Any]", root).get("$id") if isinstance(root, dict) else None
    return own.rstrip("#") if isinstance(own, str) and ":" in own else BASE


def _limit_patterns(name: str, documents: list[Any]) -> None:
    patterns: set[str] = set()
    waiting: list[Any] = documents
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            schema = cast("dict[str, Any]", part)
            if isinstance(schema.get("pattern"), str):
                patterns.add(schema["pattern"])
            if isinstance(schema.get("patternProperties"), dict):
                patterns.update(schema["patternProperties"])
            waiting.extend(schema.values())
        elif isinstance(part, list):
            waiting.extend(cast("list[Any]", part))
    if len(patterns) > MAX_PATTERNS:
        raise DefinitionError(
            f"`{name}`: its schema has {len(patterns)} regular expressions; more than {MAX_PATTERNS} are not read."
        )


def _explain(name: str, error: Any) -> NoReturn:
    """What is wrong with the schema, in the same words that are used for arguments."""
    from ferrule.core.schema_problems import problems_of

    if (
        type(error.kind).__name__ == "Referencing"
        or not error.instance_path
        and "resource" in error.message.lower()
    ):
        raise DefinitionError(
            f"`{name}`: a reference in its schema cannot be followed: {error.message}. Nothing is fetched; hand "
            f"other documents over in `resources`."
        ) from None
    where = format_path(error.instance_path) if error.instance_path else "schema"
    problem = problems_of([error], error.instance, {})[0]
    raise DefinitionError(
        f"`{name}`: its schema is not a valid JSON Schema. {where}: {problem.message}."
    ) from None


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".")
