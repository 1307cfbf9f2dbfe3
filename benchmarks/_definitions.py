"""What it costs to define many tools, and to show them again."""

from __future__ import annotations

from time import process_time
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from _measure import Row
from ferrule import Registry, tool
from ferrule.dialects import Exporter

if TYPE_CHECKING:
    from collections.abc import Callable

HOW_MANY = 1000


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


def define(functions: list[Callable[..., Any]]) -> tuple[Registry, float]:
    began = process_time()
    registry = Registry(tool(function, kind="readonly") for function in functions)
    return registry, (process_time() - began) * 1e3


def measure_definitions(rounds: int) -> list[Row]:
    functions = [typed_function(number) for number in range(HOW_MANY)]
    registry, _ = define(functions)
    defined = min(define(functions)[1] for _ in range(rounds))
    export = Exporter("openai").definitions
    first = _cpu(lambda: export(registry.tools()))
    again = sorted(_cpu(lambda: export(registry.tools())) for _ in range(10 * rounds))
    return [
        Row(f"f. {HOW_MANY} typed tools defined, registered", defined, "ms", 300.0, "CPU"),
        Row("   shown for the first time", first, "ms", None, "CPU, as OpenAI definitions; compiles parameters"),
        Row("   shown again, nothing changed", again[0], "ms", 3.0, f"CPU, median {again[len(again) // 2]:.2f} ms"),
    ]


def _cpu(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return (process_time() - began) * 1e3
