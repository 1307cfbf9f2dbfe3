"""searchFiles, through the real pipeline on a real folder."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

from pathlib import Path

from inline_snapshot import snapshot
from tests.builtin.search_workspace import ask, plant, words

from ferrule.builtin.glob import search_files
from ferrule.core.lint import lint_tool


def test_what_a_model_reads_of_it() -> None:
    assert lint_tool(search_files) == []
    assert search_files.description.text == snapshot("""\
Find files whose name or path fits a glob, newest first.

Use this when you know a part of a file's name. `count` counts every match; the newest 1,000 are listed. No match
is a success with a count of 0.

Usage notes:
- A pattern fits at any depth, unless it begins with `./`; `**` spans directories; `{a,b}` chooses.
- Hidden files count. `.git`, `node_modules`, links, and what `.gitignore`, `.ignore` or `.ferruleignore` names are left out, unless `baseDir` starts there.

Examples:
- find all Python files: {"pattern": "*.py"}\
""")
    assert search_files.input_schema == snapshot(
        {
            "additionalProperties": False,
            "properties": {
                "pattern": {
                    "description": "A glob for names or ends of paths, e.g. `*.py` or `src/**/*.ts`.",
                    "maxLength": 4096,
                    "minLength": 1,
                    "type": "string",
                },
                "baseDir": {
                    "default": ".",
                    "description": "The directory to look in; the working directory unless given.",
                    "type": "string",
                },
            },
            "required": ["pattern"],
            "type": "object",
        }
    )


def test_what_it_gives(tmp_path: Path) -> None:
    root = plant(tmp_path)
    result = ask(search_files, root, {"pattern": "*.md"})
    assert result.data == snapshot({"pattern": "*.md", "matches": ["docs/名前.md", "docs/a guide.md"], "count": 2})
    assert result.display_content == "found 2 files"
    assert ask(search_files, root, {"pattern": "util/*", "baseDir": "src"}).data == snapshot(
        {"pattern": "util/*", "matches": ["src/util/text.py"], "count": 1}
    )
    assert ask(search_files, root, {"pattern": "*.none"}).data == snapshot(
        {"pattern": "*.none", "matches": [], "count": 0}
    )
    assert words(search_files, root, {"pattern": "../*"}) == snapshot("""\
Error (validation_error): The glob `../*` leads out with `..`.

Suggestion: Give the folder as `path`, and the glob below it.\
""")
    assert words(search_files, root, {"pattern": "*", "baseDir": "-rf"}) == snapshot("""\
Error (validation_error): `-rf` is a file, not a folder.

Suggestion: Give a folder as `baseDir`.\
""")
