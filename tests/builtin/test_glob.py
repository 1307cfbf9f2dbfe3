"""Glob, through the real pipeline on a real folder."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import os
from pathlib import Path

from inline_snapshot import snapshot
from tests.builtin.search_workspace import ask, plant, words

from ferrule.builtin.glob import glob
from ferrule.core.lint import lint_tool


def test_what_a_model_reads_of_it() -> None:
    assert lint_tool(glob) == []
    assert glob.description.text == snapshot("""\
Find files by their name or path, newest first.

Use this when you know a part of the name, or want every file of a kind. To search in contents use Grep; to see
what a folder holds use LS.

Usage notes:
- `*` and `?` stay within a name, `**` spans folders, `{a,b}` and `[a-z]` choose: `src/**/*.{ts,tsx}`.
- A pattern fits at any depth: `*.py`, `core/*.ts`. One that begins with `./` starts at `path`: `./*.md`.
- Files only, hidden ones too. Left out are folders, links, `.git`, `node_modules`, and what `.gitignore`, `.ignore` or `.ferruleignore` names, unless `path` starts there.

Examples:
- find all Python files: {"pattern": "*.py"}
- find files named setup.cfg in the lib folder: {"pattern": "setup.cfg", "path": "lib"}\
""")


def test_good_cases(tmp_path: Path) -> None:
    root = plant(tmp_path)
    assert words(glob, root, {"pattern": "**/*"}) == snapshot("""\
Found 8 files.
.gitignore
.config/settings.toml
-rf
docs/名前.md
docs/a guide.md
src/view.ts
src/util/text.py
src/app.py\
""")
    assert words(glob, root, {"pattern": "*.py"}) == snapshot("""\
Found 2 files.
src/util/text.py
src/app.py\
""")
    assert words(glob, root, {"pattern": "*.{ts,toml}"}) == snapshot("""\
Found 2 files.
.config/settings.toml
src/view.ts\
""")
    assert words(glob, root, {"pattern": "util/*.py", "path": "src"}) == snapshot("""\
Found 1 file.
src/util/text.py\
""")
    assert words(glob, root, {"pattern": f"{root}/docs/*"}) == snapshot("""\
Found 2 files.
docs/名前.md
docs/a guide.md\
""")
    assert words(glob, root, {"pattern": "*", "path": "build"}) == snapshot("""\
Found 1 file.
build/out.txt\
""")
    assert words(glob, root, {"pattern": "*.log"}) == snapshot("""\
No file fits `*.log` in `.`.
[Most files there are `*.md` (2), `*.py` (2), `*.toml` (1), `*.ts` (1). What is ignored is not found.]\
""")


def test_a_pattern_with_a_slash_fits_at_any_depth(tmp_path: Path) -> None:
    """D puts `**/` before every pattern; `./` and an absolute path say where one starts."""
    for name in ("core/top.ts", "src/core/a.ts", "src/core/deep/b.ts", "src/score/c.ts", "lib/src/core/d.ts"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")

    def found(pattern: str, path: str = ".") -> list[str]:
        said = words(glob, tmp_path, {"pattern": pattern, "path": path}).splitlines()
        return sorted(line for line in said[1:] if line.endswith(".ts"))

    everywhere = ["core/top.ts", "lib/src/core/d.ts", "src/core/a.ts"]
    assert found("core/*.ts") == found("**/core/*.ts") == everywhere
    assert found("core/**") == sorted([*everywhere, "src/core/deep/b.ts"])
    assert found("core/") == found("core/**")
    assert found("src/**/*.ts") == sorted({*everywhere, "src/core/deep/b.ts", "src/score/c.ts"} - {"core/top.ts"})
    assert found("./core/*.ts") == found(f"{tmp_path}/core/*.ts") == ["core/top.ts"]
    assert found("core/*.ts", "src") == ["src/core/a.ts"]
    assert found("./*.ts", "src/core") == ["src/core/a.ts"]
    assert found("{core,score}/*.ts") == sorted([*everywhere, "src/score/c.ts"])
    assert found("./top.ts") == []


def test_no_file_is_a_success_that_says_what_is_near(tmp_path: Path) -> None:
    root = plant(tmp_path)
    assert ask(glob, root, {"pattern": "*.rs"}).success
    assert words(glob, root, {"pattern": "*.rs"}) == snapshot("""\
No file fits `*.rs` in `.`.
[Most files there are `*.md` (2), `*.py` (2), `*.toml` (1), `*.ts` (1). What is ignored is not found.]\
""")
    assert words(glob, root, {"pattern": "scr/*.py"}) == snapshot("""\
No file fits `scr/*.py` in `.`.
[There is no `scr`. Did you mean `src`?]\
""")
    assert words(glob, root, {"pattern": "src/util"}) == snapshot("""\
No file fits `src/util` in `.`.
[`src/util` is a folder. For the files in it use `src/util/**`.]\
""")
    assert words(glob, root, {"pattern": "trace.log"}) == snapshot("""\
No file fits `trace.log` in `.`.
[It may be ignored: `.gitignore`, `.ignore` and `.ferruleignore` count.]\
""")


def test_bad_cases(tmp_path: Path) -> None:
    root = plant(tmp_path)
    assert words(glob, root, {"pattern": "../**"}) == snapshot("""\
Error (validation_error): The glob `../**` leads out with `..`.

Suggestion: Give the folder as `path`, and the glob below it.\
""")
    assert words(glob, root, {"pattern": "/etc/*"}) == snapshot("""\
Error (validation_error): The glob `/etc/*` is not in `.`.

Suggestion: Write it from the folder given as `path`.\
""")
    assert words(glob, root, {"pattern": "*", "path": "src/app.py"}) == snapshot("""\
Error (validation_error): `src/app.py` is a file, not a folder.

Suggestion: Give a folder as `path`.\
""")
    assert words(glob, root, {"pattern": "*", "path": "/etc"}) == snapshot("""\
Error (permission_error): `/etc` is outside the workspace.

Suggestion: Use a path inside the workspace; relative paths start at its top.\
""")


def test_odd_names_stay_on_one_line(tmp_path: Path) -> None:
    for second, name in enumerate((b"a b", b"new\nline", b"caf\xe9", b"--pre", "é".encode())):
        path = tmp_path / os.fsdecode(name)
        path.write_text("")
        os.utime(path, (second, second))
    assert words(glob, tmp_path, {"pattern": "*"}) == snapshot("""\
Found 5 files.
é
--pre
caf�
"new\\nline"
a b
[1 name is not UTF-8: � stands for the bytes that cannot be shown.]\
""")


def test_many_files_are_cut_and_said(tmp_path: Path) -> None:
    for number in range(1200):
        (tmp_path / f"{number}.txt").touch()
    data = ask(glob, tmp_path, {"pattern": "*.txt"}).data
    assert (len(data["files"]), data["count"]) == (1000, 1200)
    assert data["notes"] == ["The 200 oldest of 1,200 left out. Narrow the pattern, or give a `path`."]


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "ws"
    outside.mkdir()
    root.mkdir()
    (outside / "secret.txt").write_text("")
    (root / "link").symlink_to(outside)
    assert ask(glob, root, {"pattern": "**/*.txt"}).data["count"] == 0
    assert ask(glob, root, {"pattern": "link/*.txt"}).data["count"] == 0
    result = ask(glob, root, {"pattern": "*.txt", "path": "link"})
    assert result.error is not None
    assert result.error.kind == "permission_error"


def test_its_metadata_has_the_folder_it_looked_in(tmp_path: Path) -> None:
    """T9."""
    root = plant(tmp_path)
    result = ask(glob, root, {"pattern": "*.py", "path": "src"})
    assert result.metadata == {"pattern": "*.py", "path": "src", "cwd": str(root / "src"), "count": 2}
