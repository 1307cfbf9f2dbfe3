"""Compiles a JSON Schema from elsewhere into something that validates quickly, offline and within bounds."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ferrule.core.errors import DefinitionError, MissingExtra
from ferrule.core.phrases import phrase
from ferrule.core.problems import format_path
from ferrule.core.schema_patterns import pattern_options, states

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jsonschema_rs import Registry, ValidationError, Validator

    from ferrule.core.schema_cost import Cost

MAX_SCHEMA_BYTES = 2_000_000
MAX_PATTERN_STATES = 50_000
"""All regular expressions of a schema together; compiling so many takes about a second."""
_QUICK_STATES = 1_000
MAX_REFERENCES = 5_000
"""Different references in one schema; the time to compile grows with their square."""
BASE = "json-schema:///"
"""The address of a schema that gives itself none."""

_DRAFTS = {"draft-04": "Draft4", "draft-06": "Draft6", "draft-07": "Draft7", "2019-09": "Draft201909"}


def freeze(name: str, what: str, document: Any) -> bytes:
    """Check at once, at little cost, that a document could be a schema; what it says now will count."""
    from pydantic_core import from_json

    if not isinstance(document, (dict, bool)):
        raise DefinitionError(f"`{name}`: {what} must be an object or a boolean, not {type(document).__name__}.")
    try:
        text = json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
        if len(text) <= MAX_SCHEMA_BYTES:
            from_json(text)
            return text
    except RecursionError:
        raise DefinitionError(f"`{name}`: {what} is nested too deeply.") from None
    except (TypeError, ValueError) as error:
        if "recursion" in str(error):
            raise DefinitionError(f"`{name}`: {what} is nested too deeply.") from None
        raise DefinitionError(f"`{name}`: {what} is not JSON: {_first_line(error)}.") from None
    raise DefinitionError(
        f"`{name}`: {what} takes {len(text):,} bytes as JSON; more than {MAX_SCHEMA_BYTES:,} are not read."
    )


@cache
def require_validator() -> None:
    """Say at definition that the validator is missing, without paying for its import."""
    if find_spec("jsonschema_rs") is None:
        raise MissingExtra(phrase("A tool made from a JSON Schema"), "schema")


class CompiledSchema:
    """A validator with the bounds it needs."""

    __slots__ = ("backtracking", "cost", "has_unions", "root", "validator")

    def __init__(self, name: str, root: Any, resources: Mapping[str, Any]) -> None:
        from jsonschema_rs import ReferencingError, Registry, ValidationError, validator_for

        from ferrule.core.schema_cost import Cost
        from ferrule.core.schema_graph import read_graph

        self.root = root
        _limit_effort(name, [root, *resources.values()], MAX_PATTERN_STATES)
        base = _address(root)
        documents = {**resources, base: root}
        try:
            others = Registry(list(resources.items()), _draft(root), _refuse) if resources else None
            self.validator = _offline(root, others)
            everything = Registry(list(documents.items()), _draft(root), _refuse)
            graph = read_graph(root, documents, everything, base)
            self.cost: Cost = Cost(graph.nodes)
        except ValidationError as error:
            _explain(name, error, root)
        except (ReferencingError, ValueError, DefinitionError) as error:
            raise DefinitionError(f"`{name}`: {_first_line(error)}") from None
        self.has_unions = graph.has_unions
        self.backtracking: Validator | None = None
        if graph.backtracking:
            every = {"allOf": [{"pattern": pattern} for pattern in graph.backtracking]}
            self.backtracking = validator_for(every, pattern_options=pattern_options())


def quick_validator(name: str, schema: dict[str, Any], most_states: int) -> Validator | None:
    """A validator alone, for values that are known to cost little. Nothing is fetched for it, and there is none for
    what is no schema or has regular expressions of more states than that.
    """
    from jsonschema_rs import ReferencingError, ValidationError

    try:
        _limit_effort(name, [schema], most_states)
        return _offline(schema)
    except (ReferencingError, ValidationError, ValueError, DefinitionError):
        return None


def looks_sound(schema: Any) -> bool:
    """Whether a document is a schema that can be followed, as far as that is seen at little cost."""
    from jsonschema_rs import meta

    try:
        if not meta.is_valid(schema):
            return False
        _limit_effort("", [schema], _QUICK_STATES)
    except DefinitionError:
        return True  # to look into it takes long: that is done when it is compiled
    except Exception:  # noqa: BLE001 - a draft that is not known, or is handed over with the schema
        return False
    try:
        _offline(schema)
    except Exception:  # noqa: BLE001 - a reference that leads nowhere, or is handed over with the schema
        return False
    return True


def _offline(root: Any, others: Registry | None = None) -> Validator:
    from jsonschema_rs import validator_for

    return validator_for(
        root, registry=others, retriever=_refuse, pattern_options=pattern_options(), validate_formats=False
    )


def _refuse(uri: str) -> NoReturn:
    raise LookupError(f"{uri} is not fetched; hand it over in `resources`")


def _draft(root: Any) -> int:
    """The draft that documents without a `$schema` of their own are read by: the same as the schema's."""
    import jsonschema_rs

    said = str(cast("dict[str, Any]", root).get("$schema")) if isinstance(root, dict) else ""
    name = next((name for mark, name in _DRAFTS.items() if mark in said), "Draft202012")
    return getattr(jsonschema_rs, name)


def _address(root: Any) -> str:
    own = cast("dict[str, Any]", root).get("$id") if isinstance(root, dict) else None
    return own.rstrip("#") if isinstance(own, str) and ":" in own else BASE


def _limit_effort(name: str, documents: list[Any], most_states: int) -> None:
    """Refuse what takes long to compile."""
    patterns: set[str] = set()
    references: set[str] = set()
    waiting: list[Any] = documents
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            schema = cast("dict[str, Any]", part)
            if isinstance(schema.get("pattern"), str):
                patterns.add(schema["pattern"])
            if isinstance(schema.get("patternProperties"), dict):
                patterns.update(schema["patternProperties"])
            if isinstance(schema.get("$ref"), str):
                references.add(schema["$ref"])
            waiting.extend(schema.values())
        elif isinstance(part, list):
            waiting.extend(cast("list[Any]", part))
    if len(references) > MAX_REFERENCES:
        raise DefinitionError(f"`{name}`: its schema has more than {MAX_REFERENCES:,} references.")
    # A long class has one state, but takes as long to compile as it has characters.
    if sum(10 + max(states(pattern), len(pattern) // 4) for pattern in patterns) > most_states:
        raise DefinitionError(f"`{name}`: the regular expressions of its schema are too many or too large.")


def _explain(name: str, error: ValidationError, root: Any) -> NoReturn:
    """What is wrong with the schema, in the same words that are used for arguments."""
    from ferrule.core.schema_problems import problems_of

    if type(error.kind).__name__ == "Referencing":
        raise DefinitionError(f"`{name}`: {_reference_words(error.message)}.") from None
    problem = problems_of([error], root, {})[0]
    where = format_path(problem.path) if problem.path else "schema"
    raise DefinitionError(f"`{name}`: its schema is not a valid JSON Schema. {where}: {problem.message}.") from None


def _reference_words(message: str) -> str:
    kind, _, rest = message.partition(" '")
    what = rest.partition("'")[0]
    if kind == "Resource":
        return f"its schema refers to {what!r}, which is never fetched. Hand that document over in `resources`"
    if kind == "Pointer":
        return f"its schema refers to {'#' + what!r}, which is not there"
    if kind == "Unknown meta-schema:":
        return f"its `$schema` is {what!r}, which is not known. Hand that document over in `resources`"
    return f"a reference in its schema cannot be followed: {message}"


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".")
