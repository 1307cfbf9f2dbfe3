"""Closes the models that a tool's parameters are made of: a field nobody declared is an error, and so is infinity.

Pydantic passes over what it does not know unless told otherwise, which turns a typing mistake into a silent default.
A model that says `extra` itself is left as it says. Infinity has no place in JSON, so no model has a say in that. And
pydantic reads an `Iterable` only when the tool does, item by item: here it is read at once, as a list, so that what is
wrong with an item is told before the tool runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import SchemaValidator


def closed_validator(model: type[BaseModel]) -> SchemaValidator | None:
    """The validator of a model in which no model refuses less than it should, and nothing is left to be read later; the
    model's own if none needs more.

    None for a schema of a kind that cannot be built again.
    """
    from pydantic_core import SchemaError, SchemaValidator

    if not _any_open(model.__pydantic_core_schema__, finite=False):
        return cast("SchemaValidator", model.__pydantic_validator__)
    try:
        return SchemaValidator(_closed(model.__pydantic_core_schema__, None), _use_prebuilt=False)
    except SchemaError:
        return None


def close_schema(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Say the same in the JSON Schema that models are shown."""
    says: dict[str, bool] = {}
    _note_models(model.__pydantic_core_schema__, says)
    root = says.get(model.__name__, False)
    for name, part in [(None, schema), *schema.get("$defs", {}).items()]:
        is_open = root if name is None else says.get(str(part.get("title", name)), says.get(str(name), False))
        if is_open and "properties" in part:
            part.setdefault("additionalProperties", False)


def _is_open(node: Any) -> bool:
    return node.get("type") == "model" and "extra" not in getattr(node.get("cls"), "model_config", {})


def _is_lazy(node: Any) -> bool:
    return node.get("type") == "generator"


def _any_open(node: Any, *, finite: bool) -> bool:
    if isinstance(node, dict):
        node = cast("dict[str, Any]", node)
        kind = node.get("type")
        if kind == "float":
            return not finite and node.get("allow_inf_nan") is not False
        if kind == "model":
            finite = node.get("config", {}).get("allow_inf_nan") is False
            if _is_open(node):
                return True
        return _is_lazy(node) or any(_any_open(part, finite=finite) for part in node.values())
    return isinstance(node, (list, tuple)) and any(_any_open(part, finite=finite) for part in cast("list[Any]", node))


def _note_models(node: Any, says: dict[str, bool]) -> None:
    if isinstance(node, dict):
        node = cast("dict[str, Any]", node)
        if node.get("type") == "model":
            says[getattr(node["cls"], "__name__", "")] = _is_open(node)
        for part in node.values():
            _note_models(part, says)
    elif isinstance(node, (list, tuple)):
        for part in cast("list[Any]", node):
            _note_models(part, says)


def _closed(node: Any, owner: Any) -> Any:
    """A copy of a core schema with open models closed."""
    if isinstance(node, dict):
        node = cast("dict[str, Any]", node)
        if node.get("type") == "model":
            owner = node
        copied = {key: _closed(part, owner) if key != "cls" else part for key, part in node.items()}
        if node.get("type") == "model-fields" and owner is not None and _is_open(owner):
            copied["extra_behavior"] = "forbid"
        if node.get("type") == "float":
            copied["allow_inf_nan"] = False
        if _is_lazy(node):
            copied["type"] = "list"
        return copied
    if isinstance(node, list):
        return [_closed(part, owner) for part in cast("list[Any]", node)]
    if type(node) is tuple:
        return tuple(_closed(part, owner) for part in cast("tuple[Any, ...]", node))
    return node
