"""The reference of the Python interface leaves nothing out, and names nothing that is not there."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

import ferrule
from ferrule import Limits, Registry, Runtime, Session, ToolContext, ToolResult

PAGE = (Path(__file__).parents[2] / "docs/reference/api.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def words(text: str) -> set[str]:
    """Every name that stands in code."""
    return {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", code)}


def public_members(owner: type) -> set[str]:
    return {name for name, _ in inspect.getmembers_static(owner) if not name.startswith("_")}


def parameters(owner: type) -> set[str]:
    return set(inspect.signature(owner).parameters)


def test_every_exported_name_is_in_the_list() -> None:
    firsts = re.findall(r"^\| (`[^|]+`) \|", section("All names"), re.MULTILINE)
    assert sorted(name for first in firsts for name in words(first)) == sorted(ferrule.__all__)


def test_every_limit_is_there_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d.,]+) \|", section("Limits"), re.MULTILINE))
    assert rows == {one.name: f"{one.default:,}" for one in fields(Limits)}


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Runtime", parameters(Runtime) | public_members(Runtime)),
        ("Registry and views", parameters(Registry) | public_members(Registry) - {"entry", "entries"}),
        ("Session and Caller", parameters(Session) | {"directory"}),
        ("ToolContext", public_members(ToolContext)),
        ("ToolResult", public_members(ToolResult)),
    ],
)
def test_every_member_is_in_its_table(title: str, expected: set[str]) -> None:
    assert expected - words(section(title)) == set()


def test_the_other_modules_have_the_names_they_are_said_to_have() -> None:
    for module, names in re.findall(
        r"^\| `(ferrule[\w.]+)` \| (.*) \|$", section("Other public modules"), re.MULTILINE
    ):
        found = import_module(module)
        listed = re.findall(r"`(\w+)`(?=[, ])", names.split("([")[0] + " ")
        assert listed, module
        assert [name for name in listed if not hasattr(found, name)] == [], module
        if module in ("ferrule.dialects", "ferrule.testing", "ferrule.extension", "ferrule.extension.hosting"):
            assert sorted(listed) == sorted(found.__all__)
