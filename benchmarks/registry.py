"""Ten thousand tools: looking one up takes no longer than among ten, and only what changed is written again.

`python benchmarks/registry.py` prints a table and exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import timeit
from time import process_time
from typing import TYPE_CHECKING, Any

from _definitions import typed_function
from _measure import Row, report
from ferrule import Registry, Tool, tool
from ferrule.dialects import Exporter

if TYPE_CHECKING:
    from collections.abc import Callable

FEW, MANY = 10, 10_000


def lookup_times(registries: dict[int, Registry], rounds: int) -> dict[int, float]:
    """Seconds for one lookup in each registry, by turns; every name is looked up equally often."""
    names = {size: [f"search_{number * size // FEW}" for number in range(FEW)] for size in registries}
    best = dict.fromkeys(registries, float("inf"))
    for _ in range(rounds):
        for size, registry in registries.items():
            get, wanted = registry.get, names[size]
            taken = timeit.timeit(lambda get=get, wanted=wanted: [get(name) for name in wanted], number=200)
            best[size] = min(best[size], taken / 200 / FEW)
    return best


def measure_registry(rounds: int) -> list[Row]:
    functions = [typed_function(number) for number in range(MANY)]
    began = process_time()
    large = Registry(tool(function, kind="readonly") for function in functions)
    made = (process_time() - began) * 1e3
    small = Registry(tool(function, kind="readonly") for function in functions[:FEW])
    lookups = lookup_times({FEW: small, MANY: large}, rounds)
    export = Exporter("openai").definitions
    whole = _cpu(export, large)
    same: list[float] = []
    changed: list[float] = []
    for number in range(15):
        same.append(_cpu(export, large))
        large.register(tool(functions[number], kind="readonly", description="Changed."), replace=True)
        changed.append(_cpu(export, large))
    unchanged = min(same)
    share = (min(changed) - unchanged) / whole
    return [
        Row(f"lookup among {MANY:,} tools against {FEW}", lookups[MANY] / lookups[FEW], "×", 1.5,
            f"{lookups[MANY] * 1e9:.0f} ns against {lookups[FEW] * 1e9:.0f} ns"),
        Row(f"{MANY:,} tools defined and registered", made, "ms", None, "CPU"),
        Row("all shown for the first time", whole, "ms", None, "CPU, as OpenAI definitions"),
        Row("shown again, nothing changed", unchanged, "ms", None, "CPU"),
        Row("shown again, one tool changed", min(changed), "ms", None, "CPU"),
        Row("what one change costs, of the whole", 100 * share, "%", 0.5, f"1 of {MANY:,} is 0.01 %"),
    ]  # fmt: skip


def _cpu(export: Callable[[list[Tool[Any]]], list[Any]], registry: Registry) -> float:
    began = process_time()
    shown = export(registry.tools())
    taken = (process_time() - began) * 1e3
    assert len(shown) == len(registry)
    return taken


def main() -> int:
    arguments = argparse.ArgumentParser(description="What a large registry costs.")
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return report(measure_registry(rounds=200), as_json=arguments.parse_args().json)


if __name__ == "__main__":
    raise SystemExit(main())
