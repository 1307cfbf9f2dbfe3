"""Tools that were declared wrongly, one of each sort that is found only when it is shown, and one that is sound."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from ferrule import Description, Tool, ToolContext, raw_tool, tool


class Params(BaseModel):
    word: str


class OwnSchema:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        raise KeyError("boom")


class OwnJsonSchema:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        raise ZeroDivisionError("boom")


@tool(kind="readonly")
def greet_person(name: str) -> str:
    """Greet a person by name. Use this to be polite."""
    return f"Hello, {name}!"


@tool(kind="readonly")
def call_back(callback: Callable[[int], int]) -> str:
    """Call something back. Use this to test."""
    return "called"


@tool(kind="readonly")
def make_type(kind: type) -> str:
    """Make something of a type. Use this to test."""
    return "made"


@tool(kind="readonly")
def use_socket(connection: socket.socket) -> str:
    """Use a socket. Use this to test."""
    return "used"


@tool(kind="readonly")
def use_unknown(thing: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821 - wrong on purpose
    """Use a type that nobody knows. Use this to test."""
    return "used"


@tool(kind="readonly")
def use_broken(thing: OwnSchema) -> str:
    """Use a type that fails. Use this to test."""
    return "used"


@tool(kind="readonly")
def use_broken_form(thing: OwnJsonSchema) -> str:
    """Use a type whose JSON form fails. Use this to test."""
    return "used"


def use_depth(thing: Any) -> str:
    """Use a type of great depth. Use this to test."""
    return "used"


deep: Any = int
for _ in range(2000):
    deep = list[deep]
use_depth.__annotations__["thing"] = deep


class HoldsCallable(BaseModel):
    callback: Callable[[int], int]


class CallClass(Tool[HoldsCallable]):
    """Call something. Use this to test."""

    kind = "readonly"  # type: ignore[assignment]

    def run(self, params: HoldsCallable, context: ToolContext) -> str:
        return "called"


class LookUpWithoutWords(Tool[Params]):
    kind = "readonly"  # type: ignore[assignment]

    @property
    def description(self) -> Description:
        raise RuntimeError("no words")

    def run(self, params: Params, context: ToolContext) -> str:
        return params.word


def raw(name: str, schema: dict[str, Any]) -> Any:
    return raw_tool(name, schema, lambda arguments: None, kind="readonly", description="Take it. Use this to test.")


BAD: list[Tool[Any]] = [
    call_back,
    make_type,
    use_socket,
    use_unknown,
    use_broken,
    use_broken_form,
    tool(use_depth, kind="readonly"),
    CallClass(),
    LookUpWithoutWords(),
    raw("take_wrong_type", {"type": "object", "properties": {"word": {"type": "strin"}}}),
    raw("take_wrong_reference", {"type": "object", "$ref": "#/$defs/gone"}),
    raw("take_wrong_pattern", {"type": "object", "properties": {"word": {"type": "string", "pattern": "("}}}),
]


@tool(kind="readonly")
def get_callable(name: str) -> Callable[[], int]:
    """Get something whose type has no JSON form. Use this to test."""
    return name  # type: ignore[return-value]


@tool(kind="readonly")
def take_default(name: str, marker: Any = object()) -> str:  # noqa: B008 - odd on purpose
    """Take a default that has no JSON form. Use this to test."""
    return f"{name}, {type(marker).__name__}"


class Node(BaseModel):
    children: list[Node] = []
    value: int = 0


@tool(kind="readonly")
def take_tree(node: Node) -> Node:
    """Take a tree. Use this to test."""
    return node


class LookUpWithoutSchema(Tool[Params]):
    """Look up a word. Use this to test."""

    kind = "readonly"  # type: ignore[assignment]

    @property
    def output_schema(self) -> dict[str, Any] | None:
        raise RuntimeError("no schema")

    def run(self, params: Params, context: ToolContext) -> str:
        return params.word


ODD: list[Tool[Any]] = [get_callable, take_default, take_tree, LookUpWithoutSchema()]
"""Odd, and all the same of use."""
