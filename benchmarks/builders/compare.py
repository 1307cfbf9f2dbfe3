"""Count the lines and concepts of the five programs: `python benchmarks/builders/compare.py [PROGRAM…]`.

A line of code has something other than white space, comments and docstrings. Concepts are the distinct names that a
program imports from its framework, and the distinct attributes and options that only the framework has. With the names
of programs, it also prints theirs.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import io
import sys
import tokenize
from pathlib import Path

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

HERE = Path(__file__).parent
PROGRAMS = {
    "support_agent": "support agent",
    "web_app": "web app",
    "mcp_proxy": "MCP proxy",
    "adapters": "adapters",
    "many_prompts": "200 prompts",
}
FRAMEWORKS = ("ferrule", "pydantic_ai")
PACKAGES = (*FRAMEWORKS, "fastmcp", "mcp")
"""Those whose names count, whichever program they are in: with pydantic-ai, it takes the others to serve over MCP."""

_LAYOUT = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
)  # fmt: skip


def path_of(program: str, framework: str) -> Path:
    return HERE / program / f"with_{framework}.py"


def lines_of_code(text: str) -> int:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def concepts(text: str) -> set[str]:
    """What a program names of the frameworks: what it imports, and the attributes and options that only they have."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    from_them = [
        one for one in nodes if isinstance(one, ast.ImportFrom) and (one.module or "").partition(".")[0] in PACKAGES
    ]
    imported = {name.asname or name.name: name.name for one in from_them for name in one.names}
    others = {name.asname or name.name for one in nodes if isinstance(one, ast.Import) for name in one.names}
    known = _attributes({one.module or "" for one in from_them}) - _ordinary() - _own(nodes)

    def is_theirs(node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in imported
        return isinstance(node, ast.Attribute) and node.attr in known and not _is_name_in(node.value, others)

    found = set(imported.values())
    for node in nodes:
        if isinstance(node, ast.Attribute) and is_theirs(node):
            found.add(f".{node.attr}")
        elif isinstance(node, ast.Call) and is_theirs(node.func):
            found.update(f"{one.arg}=" for one in node.keywords if one.arg)
        elif isinstance(node, ast.MatchClass) and is_theirs(node.cls):
            found.update(f".{name}" for name in node.kwd_attrs)
    return found


def _is_name_in(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _attributes(modules: set[str]) -> set[str]:
    """The public attributes of what is public in these modules and in the packages that they are part of."""
    found: set[str] = set()
    for name in {part for one in modules for part in (one, one.partition(".")[0])}:
        module = importlib.import_module(name)
        for public in (one for one in dir(module) if not one.startswith("_")):
            value = getattr(module, public)
            if isinstance(value, type):
                found.update(dir(value))
                found.update(name for base in value.__mro__ for name in getattr(base, "__annotations__", ()))
    return {one for one in found if not one.startswith("_")}


def _ordinary() -> set[str]:
    """Attributes that things outside the frameworks have too: whose they are cannot be seen."""
    types = (
        str,
        dict,
        list,
        io.StringIO,
        Path,
        BaseModel,
        Request,
        Response,
        asyncio.Future,
        asyncio.Queue,
        asyncio.Task,
    )
    return {name for one in types for name in dir(one)}


def _own(nodes: list[ast.AST]) -> set[str]:
    """What the program's own classes have."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            found.update(one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
            found.update(
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            )
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_name_in(node.value, {"self"}):
            found.add(node.attr)
    return found


def table() -> list[str]:
    """The rows of the table in `docs/reference/benchmarks.md`."""
    rows = ["| program | lines: Ferrule | lines: pydantic-ai | concepts: Ferrule | concepts: pydantic-ai |"]
    rows.append("|---|---|---|---|---|")
    sums = [0, 0, 0, 0]
    for program, name in PROGRAMS.items():
        texts = {framework: path_of(program, framework).read_text("utf-8") for framework in FRAMEWORKS}
        counts = [lines_of_code(text) for text in texts.values()]
        counts += [len(concepts(text)) for text in texts.values()]
        sums = [before + more for before, more in zip(sums, counts, strict=True)]
        rows.append(f"| {name} | " + " | ".join(map(str, counts)) + " |")
    return [*rows, "| all | " + " | ".join(map(str, sums)) + " |"]


if __name__ == "__main__":
    for program in sys.argv[1:]:
        for framework in FRAMEWORKS:
            text = path_of(program, framework).read_text("utf-8")
            print(f"{program} with {framework}:", *sorted(concepts(text)))
    print("\n".join(table()))
