"""What a program may import from Ferrule, and what Ferrule's own extensions may: both are decisions."""

from __future__ import annotations

import ast
import difflib
import importlib
import os
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.docs.test_examples import PUBLIC

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
SURFACE = Path(__file__).with_name("public_surface.txt")
UPDATE = "FERRULE_UPDATE_SURFACE=1 ./test tests/structure/test_public_surface.py"
CALLED = {"__init__", "__call__"}


def file_of(module: str) -> Path:
    path = SOURCE / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(file_of(module).read_text(encoding="utf-8"))


def names_of(module: str) -> list[str]:
    """What stands in `__all__`."""
    listed = next(
        node.value
        for node in parsed(module).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return sorted(ast.literal_eval(listed))


def defined(module: str, name: str) -> tuple[str, ast.stmt]:
    """The statement that makes a name, and its module, however often it is imported on the way."""
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom) and node.module and any(one.name == name for one in node.names):
            return defined(node.module, name)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            return module, node
        if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
            return module, node
    raise AssertionError(f"{module}.{name} is public, and is made nowhere")


def described(node: ast.stmt, *, inside: bool = False) -> Iterator[str]:
    """The statement without its body; of a class, all that is public in it too."""
    match node:
        case ast.ClassDef():
            bases = ", ".join(map(ast.unparse, [*node.bases, *node.keywords]))
            yield f"class {node.name}({bases})" if bases else f"class {node.name}"
            for member in node.body:
                yield from (f"    {line}" for line in described(member, inside=True))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            if not inside or node.name in CALLED or not node.name.startswith("_"):
                decorators = [
                    f"@{ast.unparse(one)} " for one in node.decorator_list if not ast.unparse(one).endswith(")")
                ]
                start = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
                returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
                yield f"{''.join(decorators)}{start} {node.name}({ast.unparse(node.args)}){returned}"
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            if not name.startswith("_") or not inside:
                yield ast.unparse(node)
        case _:
            pass


def surface() -> str:
    lines: list[str] = []
    seen: dict[tuple[str, str], str] = {}
    for module in sorted(PUBLIC):
        lines += [f"# {module}"]
        for name in names_of(module):
            home, node = defined(module, name)
            if (first := seen.setdefault((home, name), module)) == module:
                lines += described(node)
            else:
                lines += [f"{name}: as in {first}"]
        lines += [""]
    return "\n".join(lines)


def test_the_public_surface_is_the_one_that_was_agreed_to() -> None:
    """A rename or another parameter breaks somebody's program: it is seen in review, and belongs in the changelog."""
    now = surface()
    if os.environ.get("FERRULE_UPDATE_SURFACE"):
        SURFACE.write_text(now, encoding="utf-8")
    known = SURFACE.read_text(encoding="utf-8")
    difference = "\n".join(
        difflib.unified_diff(known.splitlines(), now.splitlines(), "agreed", "now", lineterm="", n=1)
    )
    if difference:
        pytest.fail(f"The public surface has changed:\n\n{difference}\n\nIf it is meant: {UPDATE}", pytrace=False)


def test_a_module_is_public_or_closed_to_extensions() -> None:
    """A new package must not become one that the toolbox can reach and a plugin may not."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    held = next(one for one in contracts if one["name"] == "A built-in has no privilege that a plugin lacks")
    own = {"ferrule.toolbox", "ferrule.plugins", "ferrule.models.local"}
    assert {*held["source_modules"]} == own
    assert "ignore_imports" not in held
    closed = {one.removesuffix(".*") for one in held["forbidden_modules"]}
    every = {f"ferrule.{one.stem}" for one in (SOURCE / "ferrule").iterdir() if one.suffix == ".py" or one.is_dir()}
    every |= {f"ferrule.models.{one.stem}" for one in (SOURCE / "ferrule/models").iterdir()}
    machinery = {"ferrule.__init__", "ferrule.__main__", "ferrule.__pycache__", "ferrule._lazy"}
    machinery |= {"ferrule.models.__init__", "ferrule.models.__pycache__"}
    assert every - closed - own - PUBLIC - machinery == set()
    packages = {one for one in PUBLIC if file_of(one).name == "__init__.py"} - {
        "ferrule",
        "ferrule.models",
        "ferrule.extension",
    }
    assert packages <= closed, "the modules inside of a public package are internal"


def test_every_public_exception_ends_in_error() -> None:
    raised = {
        found
        for module in PUBLIC
        for name in names_of(module)
        if isinstance(found := getattr(importlib.import_module(module), name), type)
        and issubclass(found, Exception)
        and not issubclass(found, Warning)
    }
    assert [one.__name__ for one in raised if not one.__name__.endswith("Error")] == []
