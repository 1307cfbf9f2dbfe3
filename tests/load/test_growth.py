"""What work costs grows with its size and not with its square (P3, P5, R1, O5)."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def growth() -> ModuleType:
    sys.path.append(str(BENCHMARKS))
    try:
        return import_module("growth")
    finally:
        sys.path.remove(str(BENCHMARKS))


CASES: list[Any] = list(growth().CASES)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_no_work_grows_much_faster_than_its_size(case: Any) -> None:
    measured = growth().measure(case, quick=True)
    assert not measured.too_steep, growth().line(measured)


def test_what_is_quadratic_is_found() -> None:
    measured = growth().Measured("sorting badly", "rows", (10, 100, 1000))
    measured.figures = [{"seconds": size**2 / 1e6} for size in measured.sizes]
    assert measured.too_steep
    measured.figures = [{"seconds": size / 1e4} for size in measured.sizes]
    assert not measured.too_steep
