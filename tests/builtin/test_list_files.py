"""listFiles, through the real pipeline on a real folder."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

from pathlib import Path

from inline_snapshot import snapshot
from tests.builtin.search_workspace import ask, plant, words

from ferrule.builtin.list_directory import list_files
from ferrule.core.lint import lint_tool


def test_what_a_model_reads_of_it() -> None:
    assert lint_tool(list_files) == []
    assert list_files.description.text == snapshot("""\
List the files and directories in a directory.

Use this to see what is there before reading files. `total` counts every entry; of more than 2,000 entries the
first are listed, and `notes` says so.

Usage notes:
- Hidden files are listed. `.git`, `node_modules` and what `.gitignore`, `.ignore` or `.ferruleignore` names are left out, unless `directoryPath` starts there. Links are listed as files and not followed.

Examples:
- list what is in this folder: {}
- list the files in docs and all folders below it: {"directoryPath": "docs", "recursive": true}\
""")
    assert list_files.input_schema == snapshot(
        {
            "additionalProperties": False,
            "properties": {
                "directoryPath": {
                    "default": ".",
                    "description": "The directory; the working directory unless given.",
                    "type": "string",
                },
                "recursive": {
                    "default": False,
                    "description": "Whether to list the directories below it too.",
                    "type": "boolean",
                },
            },
            "type": "object",
        }
    )


def test_what_it_gives(tmp_path: Path) -> None:
    root = plant(tmp_path)
    result = ask(list_files, root)
    assert result.data == snapshot(
        {"path": ".", "files": ["-rf", ".gitignore"], "directories": [".config", "docs", "src"], "total": 5}
    )
    assert result.display_content == "found 5 entries"
    assert ask(list_files, root, {"directoryPath": "src", "recursive": True}).data == snapshot(
        {
            "path": "src",
            "files": ["src/util/text.py", "src/app.py", "src/view.ts"],
            "directories": ["src/util"],
            "total": 4,
        }
    )
    assert words(list_files, root, {"directoryPath": "src/app.py"}) == snapshot("""\
Error (validation_error): `src/app.py` is a file, not a folder.

Suggestion: Read it, or list the folder it is in.\
""")
    assert words(list_files, root, {"directoryPath": "/etc"}) == snapshot("""\
Error (permission_error): `/etc` is outside the workspace.

Suggestion: Use a path inside the workspace; relative paths start at its top.\
""")


def test_the_total_counts_what_is_not_listed(tmp_path: Path) -> None:
    for number in range(2100):
        (tmp_path / f"{number}").touch()
    data = ask(list_files, tmp_path).data
    assert (len(data["files"]), data["total"]) == (2000, 2100)
