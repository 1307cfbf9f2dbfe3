"""Patterns that are compiled when they are first used (R1)."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest

from ferrule.core.lazy_pattern import lazy_pattern
from tests.structure.test_structure import MODULES, name

USERS = [name(path) for path in MODULES if "import lazy_pattern" in path.read_text(encoding="utf-8")]


def test_a_lazy_pattern_does_what_a_compiled_one_does() -> None:
    given: Any = (r"(\w+)-(?P<number>\d+)", re.IGNORECASE)
    lazy, compiled, text = lazy_pattern(*given), re.compile(*given), "a-1, B-22"
    assert lazy.pattern == compiled.pattern
    assert lazy.findall(text) == compiled.findall(text)
    assert lazy.sub(r"\2", text) == compiled.sub(r"\2", text)
    assert [one.groupdict() for one in lazy.finditer(text)] == [one.groupdict() for one in compiled.finditer(text)]
    assert lazy_pattern(rb"\d").search(b"a1") is not None
    assert lazy_pattern("a").fullmatch("A") is None


def test_a_lazy_pattern_is_compiled_by_its_first_use() -> None:
    wrong = lazy_pattern("(")
    assert wrong.pattern == "("
    with pytest.raises(re.error):
        wrong.search("(")


def patterns_in(value: object) -> list[Any]:
    if isinstance(value, dict):
        return patterns_in([*value.values()])  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [one for inner in value for one in patterns_in(inner)]  # pyright: ignore[reportUnknownVariableType]
    return [value] if type(value) is type(lazy_pattern("")) else []


@pytest.mark.parametrize("module", USERS)
def test_what_modules_compile_later_can_be_compiled(module: str) -> None:
    loaded = import_module("ferrule." + module.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    for pattern in patterns_in([*vars(loaded).values()]):
        pattern.search("" if isinstance(pattern.pattern, str) else b"")
