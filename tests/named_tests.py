"""Tests that a page or an index names must exist."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def names_in(file: str) -> frozenset[str]:
    """The names of the tests of a file such as `tests/core/test_lint.py`; none where there is no such file."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, functions)
        and node.name.startswith("test_")
    )  # fmt: skip


def missing_tests(named: Iterable[str]) -> list[str]:
    """Those of the named tests, such as `tests/core/test_lint.py::test_parameters`, that do not exist."""
    return [one for one in named if (parts := one.partition("::"))[2] not in names_in(parts[0])]
