"""A tool that a model drafted: one Python file with one tool and its examples (M4).

Here a draft is read without running any of it: what it says of itself, and what is wrong with it. What its code could
do is not guessed: the box of its kind holds every call. Its name and kind are taken from the text, because what a draft
reports about itself while it runs could be made up.
Which drafts the user agreed to is kept outside the workspace, by the exact bytes of each file: a file that came with a
repository, that a command put there, or that changed since, is not loaded.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import TypeAdapter, ValidationError

from ferrule import Kind
from ferrule.extension import data_folder, hidden_in, write_json
from ferrule.extension.hosting import parse_docstring

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DRAFT_TOOL = "draft_tool"
"""The tool that a model hands a draft in with."""
FOLDER = Path(".ferrule/tools")
"""Where agreed drafts lie in a workspace, and are loaded from."""
WAITING = Path(".ferrule/drafts")
"""Where drafts wait that nobody could be asked about."""
REPORT = 3
"""The descriptor on which a draft's process reports."""
FIRST_VERSION = "1.0.0"
MOST_CHARACTERS = 100_000
_EXAMPLES = "EXAMPLES"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_ENCODING = re.compile(r"[ \t\f]*#.*?coding[:=]")
_GAP = re.compile(r"\S\s{40,}\S")
_OPTIONS = ("name", "kind", "version", "display_name", "timeout")
"""What a draft's `@tool` may say, written out: the tool is made of the text, and not of what the code makes of it."""


class DraftProblem(ValueError):  # noqa: N818 - reads as what it says
    """What is wrong with a draft, one sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = tuple(problems)


@dataclass(slots=True, frozen=True)
class Draft:
    """A draft whose text holds together. `code` is without its examples, `text` the file that it becomes."""

    name: str
    kind: Kind
    version: str
    description: str
    """What a model reads of it, from its docstring."""
    code: str
    examples: tuple[dict[str, Any], ...]
    display_name: str = ""
    timeout: float | None = None

    @property
    def text(self) -> str:
        from pprint import pformat

        listed = pformat(list(self.examples), width=100, sort_dicts=False)
        return f"{self.code.rstrip()}\n\n\n{_EXAMPLES} = {listed}\n"


def read_draft(code: str, examples: Sequence[dict[str, Any]], *, after: str = "") -> Draft:
    """The draft that some code is; raises `DraftProblem` with all that is wrong. `after` is the version before it."""
    tree = _parsed(code)
    problems: list[str] = []
    functions = [one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and _marked(one)]
    if len(functions) != 1:
        found = "none" if not functions else ", ".join(f"`{one.name}`" for one in functions)
        raise DraftProblem([f"A draft is one top-level function with @tool; found {found}."])
    for node in tree.body:
        if _assigns(node, "TOOLS"):
            problems.append(f"Line {node.lineno}: leave out TOOLS; a draft is the one function with @tool.")
        if _assigns(node, _EXAMPLES):
            problems.append(f"Line {node.lineno}: leave {_EXAMPLES} out of the code; examples are given beside it.")
    problems += _other_tools(tree)
    problems += _hidden_text(code)
    function = functions[0]
    options = _options(function)
    kind = _literal(options.get("kind"))
    if kind not in [one.value for one in Kind]:
        problems.append(f'Line {function.lineno}: write the kind out, as @tool(kind="readonly"), "write" or "execute".')
    name = _literal(options["name"]) if "name" in options else function.name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        problems.append(
            f"Line {function.lineno}: {name!r} cannot name a draft: use a letter, then letters, digits, _ and -."
        )
    if "description" in options:
        problems.append(f"Line {function.lineno}: leave out `description`; the docstring says what the tool does.")
    elif other := [one for one in options if one not in _OPTIONS]:
        listed = ", ".join(_OPTIONS)
        problems.append(f"Line {function.lineno}: leave out `{other[0]}`; the @tool of a draft has only {listed}.")
    shown, seconds = _literal(options.get("display_name")), _literal(options.get("timeout"))
    if "display_name" in options and not isinstance(shown, str):
        problems.append(f"Line {function.lineno}: write `display_name` out, as a text.")
    if "timeout" in options and not (type(seconds) in (int, float) and cast("float", seconds) > 0):
        problems.append(f"Line {function.lineno}: write `timeout` out, as a number of seconds above 0.")
    problems += _without_types(function)
    problems += _missing_modules(tree)
    if problems:
        raise DraftProblem(problems)
    numbers = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", after)
    version = f"{numbers[1]}.{int(numbers[2]) + 1}.0" if numbers else FIRST_VERSION
    if after or "version" in options:
        code = _with_version(code, function, version)
    described = parse_docstring(ast.get_docstring(function)).description.text
    return Draft(
        cast("str", name), Kind(cast("str", kind)), version, described, code, tuple(examples),
        cast("str", shown or ""), cast("float | None", seconds),
    )  # fmt: skip


def split_draft(text: str) -> tuple[str, list[dict[str, Any]]]:
    """The code and the examples of a draft's file; raises `DraftProblem`."""
    tree = _parsed(text)
    lines = text.splitlines(keepends=True)
    for node in tree.body:
        if not _assigns(node, _EXAMPLES):
            continue
        try:
            found: Any = ast.literal_eval(cast("Any", node).value)
        except (ValueError, TypeError, SyntaxError):
            found = None
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in cast("list[Any]", found)):
            raise DraftProblem([f"Line {node.lineno}: {_EXAMPLES} must be a plain list of dictionaries."])
        kept = lines[: node.lineno - 1] + lines[node.end_lineno or node.lineno :]
        return "".join(kept).rstrip() + "\n", cast("list[dict[str, Any]]", found)
    raise DraftProblem([f"There is no {_EXAMPLES} list at the top level of the file."])


def version_of(text: str) -> str:
    """The version that a draft's file declares; the first one where it declares none or is not a draft."""
    try:
        tree = _parsed(text)
    except DraftProblem:
        return FIRST_VERSION
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _marked(node):
            said = _literal(_options(node).get("version"))
            return said if isinstance(said, str) else FIRST_VERSION
    return FIRST_VERSION


# What the text says


def _parsed(code: str) -> ast.Module:
    if len(code) > MOST_CHARACTERS:
        raise DraftProblem([f"It has {len(code):,} characters; a draft may have {MOST_CHARACTERS:,}."])
    try:
        return ast.parse(code)
    except SyntaxError as error:
        shown = f": `{error.text.strip()}`" if error.text and error.text.strip() else ""
        raise DraftProblem([f"Line {error.lineno}: {error.msg}{shown}."]) from None
    except (ValueError, RecursionError, MemoryError) as error:  # a NUL byte, or brackets without end
        raise DraftProblem([f"It is not Python: {error or type(error).__name__}."]) from None


def _marked(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.expr | None:
    for one in function.decorator_list:
        called = one.func if isinstance(one, ast.Call) else one
        if isinstance(called, ast.Name) and called.id == "tool":
            return one
    return None


def _options(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr]:
    mark = _marked(function)
    return {one.arg: one.value for one in mark.keywords if one.arg} if isinstance(mark, ast.Call) else {}


def _literal(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _assigns(node: ast.stmt, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(one, ast.Name) and one.id == name for one in targets)


def _other_tools(tree: ast.Module) -> Iterator[str]:
    """Whatever else than Ferrule's own could be meant by `tool`: it would not do what its kind says."""
    imported = False
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="ferrule", level=0) if any(
                (one.name, one.asname) == ("tool", None) for one in node.names
            ):
                imported = True
            case ast.Import() | ast.ImportFrom() if all(
                (one.asname or one.name) not in ("tool", "*") for one in node.names
            ):
                pass
            case (
                ast.Import()
                | ast.ImportFrom()
                | ast.FunctionDef(name="tool")
                | ast.AsyncFunctionDef(name="tool")
                | ast.ClassDef(name="tool")
                | ast.Name(id="tool", ctx=ast.Store() | ast.Del())
            ):
                yield f"Line {node.lineno}: `tool` must be the one of `from ferrule import tool`."
            case _:
                pass
    if not imported:
        yield "Write `from ferrule import tool`."


def _hidden_text(code: str) -> Iterator[str]:
    """What a user who reads the code would not see."""
    for number, line in enumerate(code.split("\n"), 1):
        if number <= 2 and _ENCODING.match(line):  # read in another one it is another text
            yield f"Line {number}: leave out the encoding; a draft is UTF-8."
        if hidden_in(line.removesuffix("\r")):
            yield f"Line {number}: it has characters that cannot be seen; write them as escapes, such as `\\u200b`."
        if _GAP.search(line):
            yield f"Line {number}: it has a gap that hides what follows; break the line there."


def _without_types(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    given = function.args
    for one in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        if one.annotation is None:
            yield f"Line {one.lineno}: the parameter `{one.arg}` has no type."
    for many in (given.vararg, given.kwarg):
        if many is not None:
            yield f"Line {many.lineno}: name each parameter instead of `*{many.arg}`."
    if function.returns is None:
        yield f"Line {function.lineno}: `{function.name}` does not say what type it returns."


def _missing_modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = ["" if node.level else node.module or ""]
        for top in (name.partition(".")[0] for name in names):
            line = cast("ast.stmt", node).lineno
            if not top:
                yield f"Line {line}: a draft is one file and cannot import from its folder."
            elif top not in sys.stdlib_module_names:
                try:
                    found = find_spec(top)
                except (ImportError, ValueError):
                    found = None
                if found is None:
                    yield f"Line {line}: the module `{top}` is not installed; use the standard library."


def _with_version(code: str, function: ast.FunctionDef | ast.AsyncFunctionDef, version: str) -> str:
    """The code with this version in its `@tool`, and nothing else changed."""
    options = _options(function)
    lines = code.encode().splitlines(keepends=True)  # positions count bytes of UTF-8
    starts = [sum(map(len, lines[:at])) for at in range(len(lines))]

    def end(node: ast.expr) -> int:
        return starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    whole = b"".join(lines)
    if (said := options.get("version")) is not None:
        start = starts[said.lineno - 1] + said.col_offset
        return (whole[:start] + f'"{version}"'.encode() + whole[end(said) :]).decode()
    at = end(options["kind"])
    return (whole[:at] + f', version="{version}"'.encode() + whole[at:]).decode()


# Which drafts the user agreed to


@dataclass(slots=True, frozen=True)
class AgreedDraft:
    """A draft as the user agreed to it: what a model reads of it, and what holds its calls."""

    name: str
    kind: Kind
    version: str
    definition: dict[str, Any]
    """In the form of MCP."""
    display_name: str = ""
    timeout: float | None = None
    agreed: str = ""


class AgreedDrafts:
    """The files of one workspace that the user agreed to, by the digests of their bytes."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = os.path.realpath(workspace)
        name = sha256(os.fsencode(self._workspace)).hexdigest()[:16]
        self._file = data_folder() / "drafts" / f"{name}.json"
        self._known: tuple[object, dict[str, Any]] = (None, {})

    def find(self, content: bytes) -> AgreedDraft | None:
        """What the user agreed to with these bytes; None where that was nothing, or is not known as a whole."""
        try:
            return _agreed_form().validate_python(self._read().get(sha256(content).hexdigest()))
        except ValidationError:
            return None

    def add(self, content: bytes, draft: AgreedDraft) -> None:
        """Remember a yes."""
        record = {**asdict(draft), "agreed": datetime.now(UTC).isoformat(timespec="seconds")}
        agreed = {**self._read(), sha256(content).hexdigest(): record}
        write_json(self._file, {"workspace": self._workspace, "agreed": agreed})

    def _read(self) -> dict[str, Any]:
        try:
            found = self._file.stat()
            mark = (found.st_ino, found.st_mtime_ns, found.st_size)
            if self._known[0] != mark:
                content: Any = json.loads(self._file.read_bytes())
                self._known = (mark, dict(content["agreed"]))
        except (OSError, ValueError, KeyError, TypeError):  # what cannot be read allows nothing
            return {}
        return self._known[1]


@cache
def _agreed_form() -> TypeAdapter[AgreedDraft]:
    return TypeAdapter(AgreedDraft)
