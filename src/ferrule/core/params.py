"""Parameters declared as types: one pydantic model gives the schema, the validation and the typed value.

Imports pydantic, so it is itself imported only when a tool is first shown or called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic_core import ValidationError

from ferrule.core.key_count import key_counter
from ferrule.core.pydantic_problems import read_problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

P = TypeVar("P")


class Params(Protocol[P]):
    """How a tool's arguments are read. Implementations compile once and are safe to share between threads."""

    @property
    def schema(self) -> dict[str, Any] | bool:
        """The JSON Schema of the arguments, defaults included."""
        ...

    def load(self, text: str | bytes) -> P:
        """Read and check JSON text; raise `InvalidParams` with every problem."""
        ...

    def dump(self, params: P) -> bytes:
        """The same arguments as canonical JSON: equal arguments give equal bytes."""
        ...

    def flat_size(self, params: P) -> int | None:
        """How many keys the JSON text must have held, objects inside objects included; None when that is unknown."""
        ...


class ModelParams:
    """Parameters held by a pydantic model.

    Validation is strict first: what only fits after conversion (`"5"` for 5) is left to the repair step, which
    notes what it did.
    """

    __slots__ = ("_count_keys", "_hints", "_schema", "_validate", "model")

    def __init__(self, model: type[BaseModel]) -> None:
        self.model = model
        self._validate = model.__pydantic_validator__.validate_json
        self._schema: dict[str, Any] | None = None
        self._hints: dict[str, str] = {}
        self._count_keys: Callable[[Any], int | None] | None = None

    @property
    def schema(self) -> dict[str, Any]:
        if self._schema is None:
            schema = self.model.model_json_schema(by_alias=True)
            if "$ref" in schema:  # a model that holds itself stands among its own definitions
                schema = {**schema["$defs"][schema["$ref"].rpartition("/")[2]], "$defs": schema["$defs"]}
                schema["properties"] = {name: dict(prop) for name, prop in schema["properties"].items()}
            schema.pop("title", None)
            schema.pop("description", None)
            for prop in schema.get("properties", {}).values():
                prop.pop("title", None)
            schema.setdefault("properties", {})
            self._schema = schema
        return self._schema

    def load(self, text: str | bytes) -> Any:
        try:
            return self._validate(text, strict=True)
        except ValidationError as error:
            raise read_problems(error, text, self.schema, self._hints) from None

    def dump(self, params: Any) -> bytes:
        return params.__pydantic_serializer__.to_json(params, by_alias=True)

    def flat_size(self, params: Any) -> int | None:
        if self._count_keys is None:
            self._count_keys = key_counter(self.model) or _unknown
        return self._count_keys(params)


def _unknown(_: Any) -> None:
    return None
