"""What the file tools tell a model about one small project, in good cases and in bad ones (T9, P2)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.workspace.desk import Desk

APP = """\
import os


def greet(name: str) -> str:
    if not name:
        return "hello, you"
    return f"hello, {name}"


def leave(name: str) -> str:
    return f"bye, {name}"
"""
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Sales\n"]},
        {
            "cell_type": "code", "execution_count": 1, "metadata": {}, "source": ["sum(range(4))\n"],
            "outputs": [{"output_type": "execute_result", "data": {"text/plain": ["6"]}, "execution_count": 1,
                         "metadata": {}}],
        },
    ],
    "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
}  # fmt: skip
FILES: dict[str, str | bytes] = {
    "src/app.py": APP,
    "src/util.py": "LIMIT = 10\nRETRIES = 10\n",
    "src/Makefile": "all:\n\techo one\n\techo two\n",
    "docs/guide.md": "The app greets – politely.\n“Hello”, it says.\n",
    "docs/windows.txt": b"first\r\nsecond\r\nthird\r\n",
    "data/app.log": "".join(f"event {number}\n" for number in range(1, 5001)),
    "data/sales.ipynb": json.dumps(NOTEBOOK),
    "data/empty.txt": "",
    "notes.txt": "buy milk\ncall Ada\n",
    ".gitignore": "build/\n*.tmp\n",
    "build/out.txt": "made by a program\n",
    "scratch.tmp": "x\n",
}


class Model:
    """Calls tools as a model would, and has what it was told."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def told(self, tool: str, **arguments: Any) -> str:
        result = asyncio.run(self.desk.runtime.run(tool, arguments))
        return result.llm_content.replace(str(self.desk.workspace), "/ws")


@pytest.fixture
def model(tmp_path: Path, small: None) -> Model:
    desk = Desk(tmp_path / "app")
    for second, (name, content) in enumerate(FILES.items()):
        path = desk.put(name, content)
        os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))
    return Model(desk)


def test_read(model: Model) -> None:
    assert model.told("Read", file_path="data/app.log", offset=2, limit=2) == snapshot("""\
     3	event 3
     4	event 4
[… 4,996 more lines; read on with offset=4]\
""")
    assert model.told("Read", file_path="data/app.log", offset=9000) == snapshot(
        "`data/app.log` has 5,000 lines; offset 9,000 is past its end."
    )
    assert model.told("Read", file_path="data/empty.txt") == snapshot("`data/empty.txt` is empty.")
    assert model.told("Read", file_path="data/sales.ipynb") == snapshot("""\
# Cell 1 (markdown)
# Sales


# Cell 2 (code, run 1)
sum(range(4))

# Output:
6\
""")


def test_read_with_wrong_arguments(model: Model) -> None:
    """Every problem is named at once."""
    assert model.told("Read", path="src/app.py", limit=0) == snapshot("""\
Error (validation_error): The arguments of `Read` have 3 problems:
- `file_path`: required, but missing (expected string: The file, relative to the working directory or absolute.)
- `limit`: must be at least 1; got integer 0
- `path`: unknown field. Did you mean `file_path`?

Suggestion: Call `Read` again with {"file_path": string, "offset": integer (optional, default 0), "limit": integer (optional, default 2000)}.\
""")


def test_read_of_what_is_not_there(model: Model) -> None:
    assert model.told("Read", file_path="src\\app.py") == snapshot("""\
Error (not_found_error): There is no file at `src\\app.py`.

Suggestion: Did you mean `src/app.py`?\
""")
    assert model.told("Read", file_path="source/app.py") == snapshot("""\
Error (not_found_error): There is no file at `source/app.py`, and no folder `source`.

Suggestion: The nearest folder that exists is `.`.\
""")
    assert model.told("Read", file_path="file:///etc/passwd") == snapshot("""\
Error (validation_error): `…/passwd` is a URL, not a path.

Suggestion: Give the path alone, without `file://`.\
""")
    assert model.told("Read", file_path="．．/secret.txt") == snapshot("""\
Error (not_found_error): There is no file at `．．/secret.txt`, and no folder `．．`.

Suggestion: The path contains U+FF0E FULLWIDTH FULL STOP, which only looks like a slash or a dot. The nearest folder that exists is `.`.\
""")


def test_read_of_a_name_in_another_unicode_form(model: Model) -> None:
    model.desk.put("re\u0301sume\u0301.txt", "Ada Lovelace\n")
    assert model.told("Read", file_path="r\u00e9sum\u00e9.txt") == snapshot("""\
     1	Ada Lovelace
[The name on the disk is written in another Unicode form (NFD) than the one given (NFC); it is the only one with these letters.]\
""")


def test_write(model: Model) -> None:
    assert model.told("Write", file_path="src/new/main.py", content="print(1)\n") == snapshot(
        "Created `src/new/main.py` (1 line, 9 bytes)."
    )
    model.told("Read", file_path="docs/windows.txt")
    assert model.told("Write", file_path="docs/windows.txt", content="one\ntwo\n") == snapshot(
        "Overwrote `docs/windows.txt` (2 lines, 10 bytes)."
    )


def test_write_to_a_name_that_misleads(model: Model) -> None:
    assert model.told("Write", file_path="src\\new.py", content="x") == snapshot("""\
Error (validation_error): `src\\new.py` contains a backslash, which other systems take for a slash.

Suggestion: Write `/` between folders.\
""")
    assert model.told("Write", file_path="notes.txt.", content="x") == snapshot("""\
Error (validation_error): `notes.txt.` ends with a dot, which some systems drop.

Suggestion: Use `notes.txt`.\
""")
    assert model.told("Write", file_path="no\u200btes.txt", content="x") == snapshot("""\
Error (validation_error): `no\\u200btes.txt` contains U+200B ZERO WIDTH SPACE, which is misleading.

Suggestion: Write the name with ordinary characters.\
""")
    assert model.told("Write", file_path="new/", content="x") == snapshot("""\
Error (validation_error): `new/` is the name of a folder.

Suggestion: Give the name of a file; missing folders are created.\
""")


def test_edit(model: Model) -> None:
    model.told("Read", file_path="src/app.py")
    model.told("Read", file_path="src/util.py")
    assert model.told(
        "Edit", file_path="src/app.py", old_string="hello, you", new_string="hello, stranger"
    ) == snapshot("Edited `src/app.py` in 1 place (+1 -1 lines).")
    assert model.told("Edit", file_path="src/util.py", old_string="10", new_string="20", replace_all=True) == snapshot(
        "Edited `src/util.py` in 2 places (+2 -2 lines)."
    )


def test_edit_of_a_text_that_was_copied_with_damage(model: Model) -> None:
    """What was mended is said, so that the model can check it."""
    for name in ("src/app.py", "docs/windows.txt", "docs/guide.md"):
        model.told("Read", file_path=name)
    assert model.told(
        "Edit", file_path="docs/windows.txt", old_string="first\nsecond\n", new_string="first\n2nd\n"
    ) == snapshot(
        "Edited `docs/windows.txt` in 1 place (+1 -1 lines). Found with other line endings or trailing space; the file's were kept."
    )
    assert model.told(
        "Edit",
        file_path="src/app.py",
        old_string='if not name:\n    return "hello, you"',
        new_string='if not name:\n    return "who are you?"',
    ) == snapshot(
        "Edited `src/app.py` in 1 place (+1 -1 lines). Found with other indentation; the new text was indented as the file is."
    )
    assert model.told(
        "Edit",
        file_path="docs/guide.md",
        old_string="The app greets - politely.",
        new_string="The app greets - warmly.",
    ) == snapshot(
        "Edited `docs/guide.md` in 1 place (+1 -1 lines). Found with other quotes, dashes or spaces; the file's were kept."
    )
    assert model.told(
        "Edit",
        file_path="src/app.py",
        old_string='def leave(name: str) -> str:\\n    return f\\"bye, {name}\\"',
        new_string='def leave(name: str) -> str:\\n    return f\\"farewell, {name}\\"',
    ) == snapshot("Edited `src/app.py` in 1 place (+1 -1 lines). Found after undoing escapes.")


def test_edit_inside_a_line(model: Model) -> None:
    """It is literal: later lines bring their own indentation, and where it looks left out the result says so."""
    model.told("Read", file_path="src/app.py")
    assert model.told(
        "Edit",
        file_path="src/app.py",
        old_string='return f"hello, {name}"',
        new_string='name = name.title()\n    return f"hello, {name}"',
    ) == snapshot("Edited `src/app.py` in 1 place (+1 -0 lines).")
    assert model.told(
        "Edit",
        file_path="src/app.py",
        old_string="name = name.title()",
        new_string="name = name.strip()\nname = name.title()",
    ) == snapshot(
        "Edited `src/app.py` in 1 place (+2 -1 lines). Replaced literally: later lines of the new text do not start with the indentation of line 7. Check that it was not left out."
    )


def test_multi_edit(model: Model) -> None:
    model.told("Read", file_path="src/util.py")
    edits = [
        {"old_string": "LIMIT = 10", "new_string": "LIMIT = 20"},
        {"old_string": "RETRIES = 10", "new_string": "RETRIES = 3"},
    ]
    assert model.told("MultiEdit", file_path="src/util.py", edits=edits) == snapshot(
        "Edited `src/util.py` in 2 places (+2 -2 lines)."
    )


def test_glob(model: Model) -> None:
    assert model.told("Glob", pattern="**/*.txt") == snapshot("""\
Found 3 files.
notes.txt
data/empty.txt
docs/windows.txt\
""")
    assert model.told("Glob", pattern="scr/*.py") == snapshot("""\
No file fits `scr/*.py` in `.`.
[There is no `scr`. Did you mean `src` or `scratch.tmp`?]\
""")
    assert model.told("Glob", pattern="*.rs") == snapshot("""\
No file fits `*.rs` in `.`.
[Most files there are `*.txt` (3), `*.py` (2), `*.ipynb` (1), `*.log` (1). What is ignored is not found.]\
""")


def test_grep(model: Model) -> None:
    assert model.told("Grep", pattern="name") == snapshot("""\
Found 1 file with a match.
src/app.py\
""")
    assert model.told("Grep", pattern="return f", output_mode="content", **{"-B": 1}) == snapshot("""\
Found 2 matching lines in 1 file.
src/app.py-6-        return "hello, you"
src/app.py:7:    return f"hello, {name}"
--
src/app.py-10-def leave(name: str) -> str:
src/app.py:11:    return f"bye, {name}"\
""")
    assert model.told("Grep", pattern="event", output_mode="count") == snapshot("""\
Found 5,000 matching lines in 1 file.
data/app.log:5000\
""")
    assert model.told("Grep", pattern="event 1", output_mode="content", head_limit=2) == snapshot("""\
Found 1,111 matching lines in 1 file.
data/app.log:1:event 1
data/app.log:10:event 10
[1,109 of 1,111 matching lines left out. Narrow with `path`, `glob` or `type`, or raise `head_limit`.]\
""")
    assert model.told("Grep", pattern="Hello", path="src") == snapshot("""\
No match for `Hello` in `src`.
[Possible next steps: set `-i` to true to ignore case; search a wider `path`.]\
""")


def test_file_search(model: Model) -> None:
    pattern, new = r"def (\w+)\(name", "def ${1}_to(name"
    assert model.told("FileSearch", pattern=pattern, replace_with=new) == snapshot("""\
Would replace 2 matches in 1 file.
--- a/src/app.py
+++ b/src/app.py
@@ -4 +4 @@
-def greet(name: str) -> str:
+def greet_to(name: str) -> str:
@@ -10 +10 @@
-def leave(name: str) -> str:
+def leave_to(name: str) -> str:
[`${1}` in `replace_with` is a group of the pattern; write `$${1}` for the text itself.]
[Nothing was changed. To make these changes, call again with `preview_only` set to false.]\
""")
    assert model.told("FileSearch", pattern=pattern, replace_with=new, preview_only=False) == snapshot("""\
Replaced 2 matches in 1 file.
src/app.py: 2
[`${1}` in `replace_with` is a group of the pattern; write `$${1}` for the text itself.]\
""")
    assert model.told("FileSearch", pattern=r"(?<what>\w+) = 10", replace_with=r"\g<what> = 20") == snapshot("""\
Would replace 2 matches in 1 file.
--- a/src/util.py
+++ b/src/util.py
@@ -1,2 +1,2 @@
-LIMIT = 10
-RETRIES = 10
+LIMIT = 20
+RETRIES = 20
[`\\g<what>` in `replace_with` is a group of the pattern; write `\\\\g<what>` for the text itself.]
[Nothing was changed. To make these changes, call again with `preview_only` set to false.]\
""")
    assert model.told("FileSearch", pattern="nowhere", replace_with="x") == snapshot("""\
No match for `nowhere` in `.`.
[Possible next steps: set `ignore_case` to true.]\
""")


def test_ls(model: Model) -> None:
    assert model.told("LS") == snapshot("""\
`.` holds 3 folders and 2 files:
  data/
  docs/
  src/
  .gitignore  13 B
  notes.txt  18 B
[2 ignored entries left out.]\
""")
    assert model.told("LS", path="src", ignore=["*.py"]) == snapshot("""\
`src` holds 1 file:
  Makefile  25 B
[2 ignored entries left out.]\
""")


def test_the_assistant_set(model: Model) -> None:
    assert model.told("readFile", filePath="notes.txt") == snapshot("""\
buy milk
call Ada
""")
    assert model.told("listFiles", directoryPath="src") == snapshot(
        '{"path":"src","files":["src/Makefile","src/app.py","src/util.py"],"directories":[],"total":3}'
    )
    assert model.told("searchFiles", pattern="*.py") == snapshot(
        '{"pattern":"*.py","matches":["src/util.py","src/app.py"],"count":2}'
    )
    assert model.told("searchFiles", pattern="*.rs") == snapshot('{"pattern":"*.rs","matches":[],"count":0}')
    assert model.told("getCurrentDirectory") == snapshot('{"path":"/ws","basename":"app"}')


def test_git(model: Model) -> None:
    """The password in an address is never told."""
    assert model.told("getGitInfo") == snapshot(
        '{"isRepo":false,"branch":null,"commit":null,"remote":null,"status":{"modified":[],"added":[],"deleted":[]}}'
    )
    who = {f"GIT_{role}_{what}": "x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    clean = {"PATH": os.defpath, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **who}
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["commit", "-qm", "first"],
        ["remote", "add", "origin", "https://me:secret@example.org/app.git"],
    ):
        subprocess.run(["git", *command], cwd=model.desk.workspace, env=clean, check=True, capture_output=True)
    model.desk.put("notes.txt", "changed\n")
    model.desk.put("new.txt", "new\n")
    (model.desk.workspace / "src/util.py").unlink()
    assert re.sub(r"[0-9a-f]{40}", "COMMIT", model.told("getGitInfo")) == snapshot(
        '{"isRepo":true,"branch":"main","commit":"COMMIT","remote":"https://example.org/app.git","status":{"modified":["notes.txt"],"added":["new.txt"],"deleted":["src/util.py"]}}'
    )
