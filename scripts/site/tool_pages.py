"""A page for each built-in tool: what its definition says, and calls that are really run while the site is built."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule import RulePolicy, Runtime, Session, Tool, ToolResult
from ferrule.tools import Accounts, DatabaseAccount, builtin_tools, toolbox_tools

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

# The calls to run


@dataclass(frozen=True)
class Run:
    """A call to show, with its answer. Those in `first` come before it, in the same session."""

    arguments: dict[str, Any]
    words: str = ""
    first: tuple[tuple[str, dict[str, Any]], ...] = ()


_READ = (("Read", {"file_path": "src/app.py"}),)
_SERVER = (("Bash", {"command": "echo listening; sleep 60", "run_in_background": True}),)
_LETTER = (("WriteDocument", {"file_path": "letter.docx", "content": "# Offer\n\nDear Ann,\n\nit is ready."}),)
_SALES = (("WriteDocument", {"file_path": "sales.xlsx", "content": [["Region", "Sum"], ["North", 12.5]]}),)
_NOTE = (("ReadNote", {"note": "Alpha"}),)
_QUESTION = (("Bash", {"command": "read -p 'Name? ' name; echo \"Hello, $name\"", "terminal": True}),)

RUNS: dict[str, tuple[Run, tuple[Run, ...]]] = {
    "Read": (
        Run({"file_path": "src/app.py", "limit": 4}),
        (
            Run({"file_path": "src/ap.py"}, "There is no such file"),
            Run({"file_path": "src"}, "It is a folder"),
            Run({"file_path": "../secret.txt"}, "It is outside the workspace"),
        ),
    ),
    "Write": (
        Run({"file_path": "src/new/main.py", "content": "print(1)\n"}),
        (
            Run({"file_path": "notes.txt", "content": "nothing\n"}, "The file was not read first"),
            Run({"file_path": "src", "content": "x"}, "It is a folder"),
        ),
    ),
    "Edit": (
        Run({"file_path": "src/app.py", "old_string": "hello, you", "new_string": "hello, stranger"}, first=_READ),
        (
            Run({"file_path": "notes.txt", "old_string": "milk", "new_string": "tea"}, "The file was not read first"),
            Run(
                {"file_path": "src/app.py", "old_string": "    if name:", "new_string": "    if name is None:"},
                "The text is not in the file",
                first=_READ,
            ),
            Run(
                {"file_path": "src/app.py", "old_string": "name", "new_string": "who"},
                "It is found several times",
                first=_READ,
            ),
        ),
    ),
    "MultiEdit": (
        Run(
            {
                "file_path": "src/app.py",
                "edits": [
                    {"old_string": "hello, you", "new_string": "hello, stranger"},
                    {"old_string": "bye, ", "new_string": "goodbye, "},
                ],
            },
            first=_READ,
        ),
        (
            Run(
                {
                    "file_path": "src/app.py",
                    "edits": [
                        {"old_string": "hello, you", "new_string": "hello, stranger"},
                        {"old_string": "class Server:", "new_string": "class Client:"},
                    ],
                },
                "One edit fails, so none is made",
                first=_READ,
            ),
        ),
    ),
    "Glob": (
        Run({"pattern": "**/*.py"}),
        (
            Run({"pattern": "../*"}, "The pattern leads out of the folder"),
            Run({"pattern": "*", "path": "notes.txt"}, "`path` is a file"),
        ),
    ),
    "Grep": (
        Run({"pattern": "return f", "output_mode": "content", "-B": 1}),
        (
            Run({"pattern": "greet("}, "The pattern is not a regular expression"),
            Run({"pattern": "x", "type": "pyton"}, "There is no such file type"),
        ),
    ),
    "FileSearch": (
        Run({"pattern": "def (\\w+)\\(name", "replace_with": "def ${1}_to(name"}),
        (Run({"pattern": "greet", "replace_with": "$2"}, "The replacement names a group that does not exist"),),
    ),
    "LS": (Run({}), (Run({"path": "notes.txt"}, "It is a file"), Run({"path": "srcs"}, "There is no such folder"))),
    "Bash": (
        Run({"command": "cd src && wc -l *.py"}),
        (
            Run({"command": "rm -rf build"}, "It is dangerous, and approval isn't available"),
            Run({"command": "sleep 60", "timeout": 300}, "Its time is up"),
        ),
    ),
    "BashOutput": (
        Run({"shell_id": "bash_1", "wait_for": "listening"}, first=_SERVER),
        (Run({"shell_id": "bash_7"}, "There is no such command"),),
    ),
    "BashInput": (Run({"text": "Ada\n"}, first=_QUESTION), (Run({"text": "yes\n"}, "No command waits for input"),)),
    "KillShell": (
        Run({"shell_id": "bash_1"}, first=_SERVER),
        (Run({"shell_id": "bash_7"}, "There is no such command"),),
    ),
    "readFile": (
        Run({"filePath": "notes.txt"}),
        (
            Run({"filePath": "note.txt"}, "There is no such file"),
            Run({"filePath": "data/tool.bin"}, "It is not text"),
        ),
    ),
    "listFiles": (Run({"directoryPath": "src"}), (Run({"directoryPath": "srcs"}, "There is no such folder"),)),
    "searchFiles": (Run({"pattern": "*.py"}), (Run({"pattern": "*", "baseDir": "notes.txt"}, "`baseDir` is a file"),)),
    "getGitInfo": (Run({}), (Run({"path": "."}, "It takes no arguments"),)),
    "executeCommand": (
        Run({"command": "wc -l notes.txt"}),
        (Run({"command": "rm -rf build"}, "It is dangerous, and approval isn't available"),),
    ),
    "getCurrentDateTime": (Run({}), (Run({"zone": "UTC"}, "It takes no arguments"),)),
    "getCurrentDirectory": (Run({}), (Run({"depth": 2}, "It takes no arguments"),)),
    "ReadDocument": (
        Run({"file_path": "sales.xlsx"}, first=_SALES),
        (
            Run({"file_path": "sales.xlsx", "part": "Sheet9!A1"}, "There is no such sheet", first=_SALES),
            Run({"file_path": "notes.txt"}, "It is a text file"),
        ),
    ),
    "WriteDocument": (
        Run({"file_path": "report.docx", "content": "# Report\n\nAll **well**.\n\n## Next\n\n- rest"}),
        (Run({"file_path": "report.odt", "content": "# Report"}, "It is not a format that can be written"),),
    ),
    "EditDocument": (
        Run({"file_path": "letter.docx", "edits": [{"find": "Dear Ann", "replace": "Dear Bob"}]}, first=_LETTER),
        (
            Run(
                {"file_path": "letter.docx", "edits": [{"find": "Dear Eve", "replace": "Dear Bob"}]},
                "The text is not in the document",
                first=_LETTER,
            ),
        ),
    ),
    "ConvertDocument": (
        Run({"file_path": "letter.docx", "to_path": "letter.html"}, first=_LETTER),
        (Run({"file_path": "letter.docx", "to_path": "letter.csv"}, "It is not a table", first=_LETTER),),
    ),
    "FindNotes": (
        Run({"tag": "work", "property": "status=open"}),
        (Run({"query": "launch", "folder": "Archive"}, "There is no such folder"),),
    ),
    "ReadNote": (
        Run({"note": "Alpha", "backlinks": True}),
        (
            Run({"note": "Alfa"}, "There is no such note"),
            Run({"note": "Alpha", "section": "Lag"}, "There is no such heading"),
        ),
    ),
    "EditNote": (
        Run({"note": "Alpha", "operation": "append", "section": "Log", "content": "- called Ann"}, first=_NOTE),
        (
            Run({"note": "Alpha", "operation": "append", "content": "x"}, "The note was not read first"),
            Run({"note": "Beta", "operation": "create", "content": "x"}, "There is such a note already"),
        ),
    ),
    "MoveNote": (
        Run({"note": "Alpha", "to": "Archive/Apollo"}),
        (Run({"note": "Alpha", "to": "Beta"}, "There is such a note already"),),
    ),
    "DescribeDatabase": (
        Run({"database": "shop", "object": "orders"}),
        (Run({"database": "store"}, "There is no such database"),),
    ),
    "QueryDatabase": (
        Run({"database": "shop", "sql": "SELECT * FROM orders WHERE total > ?", "parameters": [10]}),
        (
            Run({"database": "shop", "sql": "DELETE FROM orders"}, "It would change something"),
            Run({"database": "shop", "sql": "SELECT * FROM order_"}, "There is no such table"),
        ),
    ),
    "ChangeDatabase": (
        Run({"database": "shop", "sql": "UPDATE orders SET total = 13 WHERE id = 1", "expect_rows": 1}),
        (Run({"database": "shop", "sql": "DELETE FROM orders", "expect_rows": 1}, "Too many rows would change"),),
    ),
}  # fmt: skip

_APP = """\
def greet(name: str) -> str:
    if not name:
        return "hello, you"
    return f"hello, {name}"


def leave(name: str) -> str:
    return f"bye, {name}"
"""
_FILES: dict[str, str | bytes] = {
    "src/app.py": _APP,
    "src/util.py": "LIMIT = 10\nRETRIES = 10\n",
    "data/tool.bin": b"\x7fELF\x02\x01\x01" + bytes(range(256)),
    "notes.txt": "buy milk\ncall Ada\n",
}  # fmt: skip
_NOTES: dict[str, str | bytes] = {
    "notes/Alpha.md": "---\ntags: [work]\nstatus: open\n---\n# Alpha\n\nSee [[Beta]].\n\n## Log\n\n- begun\n",
    "notes/Beta.md": "# Beta\n\nFollows [[Alpha#Log]].\n",
}
_SHOP = """\
CREATE TABLE orders (id INTEGER PRIMARY KEY, region TEXT NOT NULL, total REAL);
INSERT INTO orders VALUES (1, 'North', 12.5), (2, 'South', 9), (3, 'West', 20.25);
"""
_MOMENT = 1_700_000_000


@cache
def tool_pages() -> dict[str, str]:
    """The Markdown of each page, by its path below `reference/tools`, with the index first.

    Made once: while `mkdocs serve` follows edits, the tools stay those that were imported at its start.
    """
    tools = _tools(Path("app"))
    if missing := [tool.name for tool in tools if tool.name not in RUNS]:
        raise KeyError(f"scripts/site/tool_pages.py has no call to run for {', '.join(missing)}: add it to RUNS.")
    with _own_data_folder():
        pages = asyncio.run(_pages(tools))
    return {"index.md": _index(tools), **pages}


def _tools(workspace: Path) -> list[Tool[Any]]:
    """The built-ins, and those of the toolbox that need no server."""
    shop = DatabaseAccount("sqlite:///shop.db")
    made = toolbox_tools(Accounts(vaults=[workspace / "notes"], databases={"shop": shop}))
    return [*builtin_tools(family="all"), *(tool for tool in made if tool.name in RUNS)]


_INDEX = """\
# Built-in tools

`builtin_tools(".")` and `toolbox_tools()` give these tools to a program; `ferrule tools` lists them. A read-only tool
runs at once. One that writes or executes [asks first](../../concepts/permission.md), unless a rule or the mode allows
the call.

Each page is generated from the tool's own definition, and every call on it was run when this site was built.

| tool | kind | |
|---|---|---|"""
_ERRORS = """\
Like every tool, it can also end with a `validation_error` for arguments that do not fit, a `permission_error` when the
call is not allowed, and a `timeout_error` or `cancelled_error` when it is stopped. See
[how a call runs](../../concepts/the-way-of-a-call.md)."""


async def _pages(tools: list[Tool[Any]]) -> dict[str, str]:
    return {f"{tool.name}.md": await _page(tool) for tool in tools}


def _index(tools: list[Tool[Any]]) -> str:
    rows = [
        f"| [{tool.name}]({tool.name}.md) | {tool.kind.value} | {_cell(tool.description.short)} |" for tool in tools
    ]
    return "\n".join([_INDEX, *rows])


async def _page(tool: Tool[Any]) -> str:
    good, bad = RUNS[tool.name]
    said = tool.description
    parts = [f"# {tool.name}", said.short, *_facts(tool), said.long]
    parts += _list("Usage notes", said.usage_notes) + _list("Important", said.important_notes)
    parts += ["## Parameters", _parameters(tool), "## Result", *_result(tool)]
    parts += ["## Example", await _shown(tool, good, success=True)]
    parts += ["## Errors", _ERRORS]
    for run in bad:
        parts += [f"**{run.words}:**", await _shown(tool, run, success=False)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _facts(tool: Tool[Any]) -> list[str]:
    facts = {"Kind": f"`{tool.kind.value}`", "Category": tool.category, "Tags": ", ".join(sorted(tool.tags))}
    if tool.timeout is not None:
        facts["Time limit"] = f"{tool.timeout:,.0f} s"
    return ["| | |\n|---|---|\n" + "\n".join(f"| {name} | {value} |" for name, value in facts.items())]


def _list(title: str, notes: tuple[str, ...]) -> list[str]:
    return [f"**{title}**", "\n".join(f"- {note}" for note in notes)] if notes else []


# Schemas as tables

Schema = dict[str, Any]


def _parameters(tool: Tool[Any]) -> str:
    schema = tool.input_schema
    if not isinstance(schema, dict) or not schema.get("properties"):  # pyright: ignore[reportUnnecessaryIsInstance]
        return "None."
    rows = ["| parameter | type | default | |", "|---|---|---|---|"]
    for name, field, required in _fields(schema, schema):
        default = "required" if required else _code(field["default"]) if "default" in field else ""
        rows.append(f"| `{name}` | {_type(field, schema)} | {default} | {_cell(field.get('description', ''))} |")
    return "\n".join(rows)


def _result(tool: Tool[Any]) -> list[str]:
    schema = tool.output_schema
    if not schema:
        return ["Text, for the model to read. It has no typed `data`."]
    words = ["`data` of the result has this form:"]
    if not schema.get("properties"):
        return [f"{words[0]} {_type(schema, schema)}."]
    rows = ["| field | type |", "|---|---|"]
    rows += [f"| `{name}` | {_type(field, schema)} |" for name, field, _required in _fields(schema, schema)]
    return [*words, "\n".join(rows), schema.get("description", "")]


def _fields(schema: Schema, root: Schema, before: str = "") -> Iterator[tuple[str, Schema, bool]]:
    """Every field with its place, those of objects and of items in lists after the field that holds them."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        yield f"{before}{name}", field, name in required
        inner, mark = _resolved(field, root), ""
        if inner.get("type") == "array":
            inner, mark = _resolved(inner.get("items", {}), root), "[]"
        if before.count(".") < 3:
            yield from _fields(inner, root, f"{before}{name}{mark}.")


def _resolved(field: Schema, root: Schema) -> Schema:
    """The schema that a reference leads to, or the one alternative that is not null."""
    while True:
        if "$ref" in field:
            field = root["$defs"][field["$ref"].rpartition("/")[2]]
        elif "anyOf" in field and len(some := [one for one in field["anyOf"] if one.get("type") != "null"]) == 1:
            field = some[0]
        else:
            return field


def _type(field: Schema, root: Schema) -> str:
    if "anyOf" in field:
        return " or ".join(_type(one, root) for one in field["anyOf"])
    field = _resolved(field, root)
    if "enum" in field:
        return " or ".join(_code(value) for value in field["enum"])
    name = str(field.get("type", "any"))
    if name == "array":
        return f"array of {_type(field.get('items', {}), root)}"
    low, high = field.get("minimum"), field.get("maximum")
    if low is not None and high is not None:
        return f"{name}, {low:,} to {high:,}"
    return f"{name}, at least {low:,}" if low is not None else name


def _code(value: Any) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# Running them


@contextmanager
def _own_data_folder() -> Generator[None]:
    """Histories and outputs of the calls go where nobody keeps theirs."""
    before = os.environ.get("FERRULE_DATA")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FERRULE_DATA"] = folder
        try:
            yield
        finally:
            os.environ.pop("FERRULE_DATA")
            if before is not None:
                os.environ["FERRULE_DATA"] = before


async def _shown(tool: Tool[Any], run: Run, *, success: bool) -> str:
    with tempfile.TemporaryDirectory() as name:
        workspace = await asyncio.to_thread(_workspace, name, tool.category)
        policy = RulePolicy(mode="bypass")
        async with Runtime(_tools(workspace), policy=policy, session=Session(workspace=workspace)) as runtime:
            for earlier, arguments in run.first:
                _expect(await runtime.run(earlier, arguments), success=True)
            result = await runtime.run(tool.name, run.arguments)
        _expect(result, success=success)
        said = result.llm_content.replace(str(workspace), "/home/you/app")
    before = [f"`{name} {json.dumps(arguments, ensure_ascii=False)}`" for name, arguments in run.first]
    lines = [f"In a session that has run {' and '.join(before)}:", ""] if before else []
    lines += ["```json", json.dumps(run.arguments, ensure_ascii=False), "```", ""]
    return "\n".join([*lines, "```text", said.rstrip("\n"), "```"])


def _expect(result: ToolResult, *, success: bool) -> None:
    if result.success is not success:
        raise RuntimeError(f"A call of scripts/site/tool_pages.py ended otherwise than meant: {result.llm_content}")


def _workspace(folder: str, category: str) -> Path:
    workspace = Path(folder).resolve() / "app"
    files = {**_FILES, **(_NOTES if category == "notes" else {})}
    for second, (name, content) in enumerate(files.items()):
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, (_MOMENT + second, _MOMENT + second))
    if category == "databases":
        with closing(sqlite3.connect(workspace / "shop.db")) as shop:
            shop.executescript(_SHOP)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=workspace, check=True)  # noqa: S607
    return workspace
