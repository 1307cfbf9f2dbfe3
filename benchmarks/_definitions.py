"""What it costs to define many tools, and to show them again."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from time import process_time
from typing import Annotated, Any, Literal

from pydantic import Field

from _measure import Row
from ferrule import Registry, Tool, tool

HOW_MANY = 1000
Export = Callable[[list[Tool[Any]]], object]


def typed_function(number: int) -> Callable[..., Any]:
    """One of many functions as a program has them: typed, described, each its own."""

    async def search(
        query: str,
        limit: Annotated[int, Field(ge=1, le=100, description="How many at most")] = 10,
        order: Literal["newest", "oldest"] = "newest",
        tags: list[str] | None = None,
    ) -> list[str]:
        """Search one of the collections.

        Use it before asking the person.

        Args:
            query: The words to look for.
            tags: Only items with one of these tags.
        """
        return [f"{query} {order} {tags} {number}"] * limit

    search.__name__ = f"search_{number}"
    return search


def exporter() -> tuple[Export, str]:
    """How definitions are made: by a dialect where there is one, else from the tool's own parts."""
    if find_spec("ferrule.dialects.exporter") is not None:
        from ferrule.dialects import Exporter

        return Exporter("openai").definitions, "as OpenAI definitions"

    def plain(tools: list[Tool[Any]]) -> object:
        return [(one.name, one.description.text, one.input_schema) for one in tools]

    return plain, "descriptions and schemas"


def define(functions: list[Callable[..., Any]]) -> tuple[Registry, float]:
    began = process_time()
    registry = Registry(tool(function, kind="readonly") for function in functions)
    return registry, (process_time() - began) * 1e3


def measure_definitions(rounds: int) -> list[Row]:
    functions = [typed_function(number) for number in range(HOW_MANY)]
    registry, _ = define(functions)
    defined = min(define(functions)[1] for _ in range(rounds))
    export, form = exporter()
    first = _cpu(lambda: export(registry.tools()))
    again = sorted(_cpu(lambda: export(registry.tools())) for _ in range(10 * rounds))
    return [
        Row(f"f. {HOW_MANY} typed tools defined, registered", defined, "ms", 300.0, "CPU"),
        Row("   shown for the first time", first, "ms", None, f"CPU, {form}; their parameters are compiled here"),
        Row("   shown again, nothing changed", again[0], "ms", 3.0, f"CPU, median {again[len(again) // 2]:.2f} ms"),
    ]


def _cpu(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return (process_time() - began) * 1e3
