"""LS, through the real pipeline on a real folder."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

from pathlib import Path

from inline_snapshot import snapshot
from tests.builtin.search_workspace import ask, plant, words

from ferrule.builtin.list_directory import list_directory
from ferrule.core.lint import lint_tool


def test_what_a_model_reads_of_it() -> None:
    assert lint_tool(list_directory) == []
    assert (list_directory.name, list_directory.display_name) == ("LS", "Folder Listing")
    assert list_directory.description.text == snapshot("""\
List what a folder holds: folders first, then files with their sizes.

Use this to get to know a folder. To find files by name use Glob; to search in them use Grep.

Usage notes:
- Hidden files are shown. `.git`, `node_modules`, and what `.gitignore`, `.ignore` or `.ferruleignore` names are left out, unless `path` starts there. Links are named and not followed.

Examples:
- list what is in this folder: {}
- which files are in the docs folder: {"path": "docs"}\
""")


def test_good_cases(tmp_path: Path) -> None:
    root = plant(tmp_path)
    (root / "link").symlink_to("/etc")
    (root / "large").write_bytes(b"x" * 1_234_567)
    (root / "a\nb").write_text("")
    assert words(list_directory, root) == snapshot("""\
`.` holds 3 folders and 5 files:
  .config/
  docs/
  src/
  -rf  7 B
  .gitignore  13 B
  "a\\nb"  0 B
  large  1.2 MB
  link (link)
[4 ignored entries left out.]\
""")
    assert words(list_directory, root, {"path": "src", "depth": 2, "ignore": ["*.ts"]}) == snapshot("""\
`src` holds 1 folder and 2 files:
  util/
    text.py  36 B
  app.py  43 B
[1 ignored entry left out.]\
""")
    (root / "empty").mkdir()
    assert words(list_directory, root, {"path": "empty"}) == snapshot("`empty` has nothing to list")
    assert words(list_directory, root, {"path": "build"}) == snapshot("""\
`build` holds 1 file:
  out.txt  7 B\
""")


def test_bad_cases(tmp_path: Path) -> None:
    root = plant(tmp_path)
    assert words(list_directory, root, {"path": "src/app.py"}) == snapshot("""\
Error (validation_error): `src/app.py` is a file, not a folder.

Suggestion: Read it, or list its folder.\
""")
    assert words(list_directory, root, {"path": "scr"}) == snapshot("""\
Error (not_found_error): There is no file at `scr`.

Suggestion: Did you mean `src`?\
""")
    assert words(list_directory, root, {"path": "src/../.."}) == snapshot("""\
Error (permission_error): `src/../..` is outside the workspace.

Suggestion: Use a path inside the workspace; relative paths start at its top.\
""")
    assert words(list_directory, root, {"ignore": ["../*"]}) == snapshot("""\
Error (validation_error): The glob `../*` leads out with `..`.

Suggestion: Give the folder as `path`, and the glob below it.\
""")


def test_very_many_entries_are_cut_and_said(tmp_path: Path) -> None:
    for number in range(1100):
        (tmp_path / f"{number:04}").touch()
    data = ask(list_directory, tmp_path).data
    assert len(data["entries"]) == 1000
    assert data["notes"] == ["Only the first 1,000 entries. List a folder further down, or use Glob."]
