"""FileSearch, through the real pipeline on a real folder (section 4 of the requirements)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.builtin.search_workspace import ask, plant, words
from tests.plugins.files import write
from tests.workspace.desk import Desk, refused

from ferrule import PartialOutput, Progress, RawCall, Registry, RulePolicy, Runtime, Session, ToolResult
from ferrule.builtin.all_tools import builtin_tools
from ferrule.builtin.file_search import file_search
from ferrule.core.context import Cancellation
from ferrule.core.lint import lint_tool
from ferrule.dialects import dialect
from ferrule.workspace.atomic import writing


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def run(desk: Desk, pattern: str, replace_with: str | None = None, **arguments: Any) -> ToolResult:
    call = {"pattern": pattern, "replace_with": replace_with, **arguments}
    return asyncio.run(desk.runtime.run("FileSearch", call))


def test_what_a_model_reads_of_it() -> None:
    assert lint_tool(file_search) == []
    assert list(file_search.input_schema["properties"]) == [
        "pattern", "path", "file_glob", "exclude", "replace_with", "preview_only", "multiline", "literal",
        "ignore_case", "head_limit",
    ]  # fmt: skip
    assert file_search.description.text == snapshot("""\
Search many files, and replace what is found in all of them at once.

Use this to rename or rewrite something everywhere: preview it first, look at the changes, then apply it with
`preview_only` set to false. To look for something only, use Grep; to change one place, use Edit.

Usage notes:
- The syntax is ripgrep's. In `replace_with`, `$1`, `${1}` or `\\1` is a group of the pattern, `${name}` or `\\g<name>` one that is written `(?<name>…)`, `$0` the whole match, and `$$` a dollar sign. Before a digit write `${1}`. A backslash before anything else stands for itself.
- Every byte outside a match stays. A line break in `replace_with` is written as the lines of the file end; to match one, write `\\r?\\n` and set `multiline`.
- `.git`, `node_modules`, binary files, links, and what `.gitignore`, `.ignore` or `.ferruleignore` names are left out, unless `path` starts there. Files that are not UTF-8 are never changed.

IMPORTANT:
- All files change or none does, and all are undone as one. The files need not have been read before.
- A file that changed since the same replacement was previewed stops it: preview again.

Examples:
- replace "http:" with "https:" in many files: {"pattern": "http:", "replace_with": "https:", "literal": true}\
""")
    assert file_search.expected_form == snapshot(
        '{"pattern": string, "path": string (optional, default "."), "file_glob": string | null (optional, default null), "exclude": string | null (optional, default null), "replace_with": string | null (optional, default null), "preview_only": boolean (optional, default true), "multiline": boolean (optional, default false), "literal": boolean (optional, default false), "ignore_case": boolean (optional, default false), "head_limit": integer (optional, default 200)}'
    )


def test_searching_only(tmp_path: Path) -> None:
    root = plant(tmp_path)
    assert words(file_search, root, {"pattern": "(?i)needle", "exclude": "docs, *.ts"}) == snapshot("""\
Found 5 matching lines in 4 files.
-rf:1:needle
.config/settings.toml:1:key = 'needle'
src/app.py:4:    print('needle')
src/util/text.py:1:NEEDLE = 1
src/util/text.py:2:# a needle, and a needle\
""")
    assert words(file_search, root, {"pattern": "needle", "head_limit": 2}) == snapshot("""\
Found 7 matching lines in 7 files.
-rf:1:needle
.config/settings.toml:1:key = 'needle'
[5 of 7 matching lines left out. Narrow with `path`, `file_glob` or `exclude`, or raise `head_limit`.]\
""")
    assert words(file_search, root, {"pattern": "needle.$", "file_glob": "*.md"}) == snapshot("""\
Found 1 matching line in 1 file.
docs/a guide.md:1:The needle.\
""")
    assert words(file_search, root, {"pattern": "main()", "literal": True}) == snapshot("""\
Found 1 matching line in 1 file.
src/app.py:3:def main():\
""")
    assert words(file_search, root, {"pattern": "nothing", "path": "src", "file_glob": "*.py"}) == snapshot("""\
No match for `nothing` in `src`.
[Possible next steps: set `ignore_case` to true; search a wider `path`; leave out `file_glob`.]\
""")


def test_a_preview(tmp_path: Path) -> None:
    root = plant(tmp_path)
    before = files(root)
    result = ask(file_search, root, {"pattern": r"(\w+) needle", "replace_with": "pin of $1", "path": "src"})
    assert result.llm_content == snapshot("""\
Would replace 3 matches in 2 files.
--- a/src/util/text.py
+++ b/src/util/text.py
@@ -2 +2 @@
-# a needle, and a needle
+# pin of a, and pin of a
--- a/src/view.ts
+++ b/src/view.ts
@@ -1 +1 @@
-const needle = {}
+pin of const = {}
[`$1` in `replace_with` is a group of the pattern; write `$$1` for the text itself.]
[Nothing was changed. To make these changes, call again with `preview_only` set to false.]\
""")
    assert result.display_content == snapshot("would replace 3 places in 2 files")
    assert result.data == snapshot(
        {
            "pattern": "(\\w+) needle",
            "path": "src",
            "files_searched": 3,
            "matches": 3,
            "applied": False,
            "files": [
                {"path": "src/util/text.py", "count": 2, "lines": []},
                {"path": "src/view.ts", "count": 1, "lines": []},
            ],
            "total_files": 2,
            "diff": """\
--- a/src/util/text.py
+++ b/src/util/text.py
@@ -2 +2 @@
-# a needle, and a needle
+# pin of a, and pin of a
--- a/src/view.ts
+++ b/src/view.ts
@@ -1 +1 @@
-const needle = {}
+pin of const = {}\
""",
            "skipped": [],
            "notes": [
                "`$1` in `replace_with` is a group of the pattern; write `$$1` for the text itself.",
                "Nothing was changed. To make these changes, call again with `preview_only` set to false.",
            ],
        }
    )
    assert result.metadata == snapshot(
        {
            "files_searched": 3,
            "matches": 3,
            "diff": """\
--- a/src/util/text.py
+++ b/src/util/text.py
@@ -1,2 +1,2 @@
 NEEDLE = 1
-# a needle, and a needle
+# pin of a, and pin of a
--- a/src/view.ts
+++ b/src/view.ts
@@ -1 +1 @@
-const needle = {}
+pin of const = {}
""",
            "diff_left_out": 0,
            "files": {"src/util/text.py": 2, "src/view.ts": 1},
            "change": None,
        }
    )
    assert words(file_search, root, {"pattern": "needle", "replace_with": "pin", "head_limit": 2}) == snapshot("""\
Would replace 8 matches in 7 files.
--- a/-rf
+++ b/-rf
@@ -1 +1 @@
-needle
+pin
--- a/.config/settings.toml
+++ b/.config/settings.toml
@@ -1 +1 @@
-key = 'needle'
+key = 'pin'
[5 of 7 files left out. Narrow with `path`, `file_glob` or `exclude`, or raise `head_limit`.]
[Nothing was changed. To make these changes, call again with `preview_only` set to false.]\
""")
    assert words(
        file_search, root, {"pattern": "The needle.", "replace_with": "$5", "literal": True, "path": "docs"}
    ) == snapshot("""\
Would replace 1 match in 1 file.
--- a/docs/a guide.md
+++ b/docs/a guide.md
@@ -1 +1 @@
-The needle.
+$5
[Nothing was changed. To make these changes, call again with `preview_only` set to false.]\
""")
    assert words(file_search, root, {"pattern": "none", "replace_with": "x"}) == snapshot("""\
No match for `none` in `.`.
[Possible next steps: set `ignore_case` to true.]\
""")
    assert words(file_search, root, {"pattern": "(n)eedle", "replace_with": r"\1", "path": "-rf"}) == snapshot("""\
Would replace 1 match in 1 file.
--- a/-rf
+++ b/-rf
@@ -1 +1 @@
-needle
+n
[`\\1` in `replace_with` is a group of the pattern; write `\\\\1` for the text itself.]
[Nothing was changed. To make these changes, call again with `preview_only` set to false.]\
""")
    assert words(file_search, root, {"pattern": "(?<=a )needle", "replace_with": "pin"}) == snapshot("""\
Would replace 2 matches in 1 file.
--- a/src/util/text.py
+++ b/src/util/text.py
@@ -2 +2 @@
-# a needle, and a needle
+# a pin, and a pin
[Searched with PCRE2, because of look-around or backreferences; that is slower.]
[Nothing was changed. To make these changes, call again with `preview_only` set to false.]\
""")
    assert words(file_search, root, {"pattern": "needle", "replace_with": "needle"}) == snapshot(
        "Nothing to replace: every match reads so already."
    )
    assert files(root) == before


def test_a_preview_of_much_says_how_much_is_left_out(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number:03}.txt").write_text(f"old {'x' * 300}\n")
    (tmp_path / "000.txt").write_text("old\n" * 100)
    text = words(file_search, tmp_path, {"pattern": "old", "replace_with": "new"})
    assert len(text) < 25_000
    assert text.splitlines()[0] == snapshot("Would replace 199 matches in 100 files.")
    assert text.splitlines()[64] == snapshot("--- a/001.txt")
    assert text.splitlines()[-2:] == snapshot(
        [
            "[69 of 100 files left out. Narrow with `path`, `file_glob` or `exclude`.]",
            "[Nothing was changed. To make these changes, call again with `preview_only` set to false.]",
        ]
    )


@pytest.mark.usefixtures("small")
def test_files_in_older_encodings_are_found_and_said_not_to_be_changed(desk: Desk) -> None:
    chinese = "# 这个函数返回用户的名字，如果没有就返回空。\n"
    desk.put("a.py", chinese)
    desk.put("gb.py", chinese.encode("gb18030"))
    before = files(desk.workspace)
    assert run(desk, "函数", None).llm_content == snapshot("""\
Found 2 matching lines in 2 files.
a.py:1:# 这个函数返回用户的名字，如果没有就返回空。
gb.py:1:# 这个函数返回用户的名字，如果没有就返回空。\
""")
    result = run(desk, "函数", "方法", preview_only=False)
    assert result.llm_content == snapshot("""\
Replaced 1 match in 1 file.
a.py: 1
[1 file is not in UTF-8, and only ASCII was looked for there. Use Edit for it.]\
""")
    assert files(desk.workspace) == {**before, "a.py": chinese.replace("函数", "方法").encode()}


def test_applying(desk: Desk) -> None:
    """All files change, each as its lines end; undone as one."""
    desk.put("a.py", b"import old\nold.run()\n")
    desk.put("win.py", b"\xef\xbb\xbfold = 1\r\nx = old\r\n")
    desk.put("vendor/v.py", "old\n")
    desk.put("utf16.py", "old\n".encode("utf-16"))
    desk.put("gb.py", "old 针\n".encode("gb18030"))
    desk.put("old.png", b"\x89PNG\0old\n")
    desk.put("run.sh", "old\n").chmod(0o750)
    before = files(desk.workspace)
    result = run(desk, r"\bold\b", "new\n", preview_only=False, exclude="vendor/")
    assert result.llm_content == snapshot("""\
Replaced 5 matches in 3 files.
a.py: 2
run.sh: 1
win.py: 2
[2 files with a match stay as they are: `gb.py` (not UTF-8), `utf16.py` (UTF-16).]\
""")
    assert result.display_content == snapshot("replaced 5 places in 3 files")
    assert result.data["applied"] is True
    assert result.metadata["change"] == 1
    assert result.metadata["diff"] == snapshot("""\
--- a/a.py
+++ b/a.py
@@ -1,2 +1,4 @@
-import old
-old.run()
+import new
+
+new
+.run()
--- a/run.sh
+++ b/run.sh
@@ -1 +1,2 @@
-old
+new
+
--- a/win.py
+++ b/win.py
@@ -1,2 +1,4 @@
-old = 1
-x = old
+new
+ = 1
+x = new
+
""")
    assert desk.bytes_of("win.py") == b"\xef\xbb\xbfnew\r\n = 1\r\nx = new\r\n\r\n"
    assert (desk.workspace / "run.sh").stat().st_mode & 0o777 == 0o750
    assert {name for name, data in files(desk.workspace).items() if data != before[name]} == {
        "a.py",
        "win.py",
        "run.sh",
    }
    (group,) = desk.files.history.recent()
    assert (group.origin.tool, len(group.changes)) == ("FileSearch", 3)
    desk.files.history.undo()
    assert files(desk.workspace) == before
    desk.files.history.redo()
    assert desk.bytes_of("a.py") == b"import new\n\nnew\n.run()\n"


def test_a_line_break_in_a_pattern_takes_the_whole_line_ending_with_it(desk: Desk) -> None:
    desk.put("win.txt", "one\r\ntwo\r\n\r\n\r\nthree\r\n")
    assert run(desk, r"\n{2,}", "\n\n", multiline=True, preview_only=False).success
    assert desk.bytes_of("win.txt") == b"one\r\ntwo\r\n\r\nthree\r\n"
    assert run(desk, r"one\n", "", multiline=True, preview_only=False).success
    assert desk.bytes_of("win.txt") == b"two\r\n\r\nthree\r\n"
    assert "Groups are written" not in run(desk, r"two\nx", r"\1", multiline=True).llm_content


@pytest.mark.parametrize(
    ("pattern", "replace_with", "after"),
    [
        (r"(\w+)\.(\w+)", r"\2.\1", "b.a\n"),
        (r"(\w+)\.(\w+)", "$2.$1", "b.a\n"),
        (r"(\w+)\.(\w+)", "${2}x$1_y$0", "bxa_ya.b\n"),
        (r"(?P<left>\w+)\.(?<right>\w+)", r"\g<right>.\g<left>", "b.a\n"),
        (r"(?P<left>\w+)\.(?<right>\w+)", r"${right}.\g<1>0", "b.a0\n"),
        (r"(\w+)(?=\.)", r"<\1>", "<a>.b\n"),
        (r"(\w+)\.", r"$$1 \\1 \d $", "$1 \\1 \\d $b\n"),
        (r"(a)|(b)", r"[\1]", "[a].[]\n"),
    ],
)
def test_groups_are_put_in_as_regex_tools_write_them(desk: Desk, pattern: str, replace_with: str, after: str) -> None:
    """The preview shows the text as it will be; the whole batch is undone exactly."""
    desk.put("one.txt", "a.b\n")
    desk.put("two.txt", "a.b\r\n")
    before = files(desk.workspace)
    shown = run(desk, pattern, replace_with).llm_content
    assert f"-a.b\n+{after}" in shown
    assert files(desk.workspace) == before
    assert run(desk, pattern, replace_with, preview_only=False).success
    windows = after.replace("\n", "\r\n")
    assert files(desk.workspace) == {"one.txt": after.encode(), "two.txt": windows.encode()}
    desk.files.history.undo()
    assert files(desk.workspace) == before


def test_bad_cases(desk: Desk) -> None:
    desk.put("a.txt", "one two\n")
    desk.put("win.txt", "one\r\ntwo\r\n")
    before = files(desk.workspace)
    assert run(desk, "one(", "x", preview_only=False).llm_content == snapshot("""\
Error (validation_error): The pattern cannot be searched for: unclosed group: a `(` has no `)`.

Suggestion: To search for the text as it stands, escape it: `one\\(`.\
""")
    assert run(desk, "interface{}", "x").llm_content == snapshot("""\
Error (validation_error): The pattern cannot be searched for: repetition quantifier expects a valid decimal, at character 11 (`}`).

Suggestion: To search for the text as it stands, escape it: `interface\\{\\}`.\
""")
    assert run(desk, "(o)ne", "$1 $3", preview_only=False).llm_content == snapshot("""\
Error (validation_error): `$3` in `replace_with` refers to the group `3`, and the pattern has 1 group, `$1`. Nothing was changed.

Suggestion: Put parentheses around the part of the pattern to keep, or use `$0` for the whole match. For the text `$3` itself write `$$3`.\
""")
    assert run(desk, "(o)ne", r"\10", preview_only=False).llm_content == snapshot("""\
Error (validation_error): `\\10` in `replace_with` refers to the group `10`, and the pattern has 1 group, `$1`. Nothing was changed.

Suggestion: For group 1 followed by `0` write `${1}0`.\
""")
    assert run(desk, "(?<first>o)ne", r"\g<frist>", preview_only=False).llm_content == snapshot("""\
Error (validation_error): `\\g<frist>` in `replace_with` refers to the group `frist`, and the pattern has 1 group, `$1`; by name: `${first}`. Nothing was changed.

Suggestion: Put parentheses around the part of the pattern to keep, or use `$0` for the whole match. For the text `\\g<frist>` itself write `\\\\g<frist>`.\
""")
    assert run(desk, "(?<=o)(n)e", "$name", preview_only=False).llm_content == snapshot("""\
Error (validation_error): `$name` in `replace_with` refers to the group `name`, and the pattern has 1 group, `$1`. Nothing was changed.

Suggestion: Put parentheses around the part of the pattern to keep, or use `$0` for the whole match. For the text `$name` itself write `$$name`.\
""")
    assert run(desk, "x*", "y", preview_only=False).llm_content == snapshot("""\
Error (validation_error): The pattern matches without taking any text in line 1 of `a.txt`; what would be put there is not certain. Nothing was changed.

Suggestion: Let it match at least one character (`+` for `*`), and keep what should stay with `$0`: to put `# ` before lines, replace `^.` with `# $0`.\
""")
    assert run(desk, r"[\n]", " ", multiline=True, preview_only=False).llm_content == snapshot("""\
Error (validation_error): The pattern matches half of a `\\r\\n` line ending in line 1 of `win.txt`. Nothing was changed.

Suggestion: Match the whole ending: `\\r?\\n` for `\\n`, which fits either kind of file.\
""")
    assert run(desk, "one\ntwo", "x", preview_only=False).llm_content == snapshot("""\
Error (validation_error): The pattern cannot be searched for: it contains a line break, and lines are searched one at a time.

Suggestion: Set `multiline` to true to search across.\
""")
    assert run(desk, "x", "y", path="b.txt").llm_content == snapshot("""\
Error (not_found_error): There is no file at `b.txt`.

Suggestion: Did you mean `a.txt`?\
""")
    assert run(desk, "x", "y", path="../..").llm_content.splitlines()[0] == snapshot(
        "Error (permission_error): `../..` is outside the workspace."
    )
    assert run(desk, "x", "y", exclude="../*").llm_content == snapshot("""\
Error (validation_error): The glob `../*` leads out with `..`.

Suggestion: Give the folder as `path`, and the glob below it.\
""")
    assert run(desk, "a\0", "b\0").llm_content.splitlines()[:3] == snapshot(
        [
            "Error (validation_error): The arguments of `FileSearch` have 2 problems:",
            "- `pattern`: it contains a NUL byte; to search for one, write \\x00",
            "- `replace_with`: it contains a NUL byte, and text files have none",
        ]
    )
    assert files(desk.workspace) == before


def test_plain_text_over_several_lines_fits_either_ending(desk: Desk) -> None:
    desk.put("a.txt", "f(\n  $x)\n")
    desk.put("win.txt", "f(\r\n  $x)\r\n")
    assert run(desk, "f(\n  $x)", "g(\n$1)", literal=True, preview_only=False).success
    assert desk.bytes_of("a.txt") == b"g(\n$1)\n"
    assert desk.bytes_of("win.txt") == b"g(\r\n$1)\r\n"


def test_odd_names_are_changed_and_shown_on_one_line(desk: Desk) -> None:
    for name in (b"caf\xe9", b"new\nline", b"--pre"):
        desk.put(os.fsdecode(name), "old\n")
    assert run(desk, "old", "new", preview_only=False).llm_content == snapshot("""\
Replaced 3 matches in 3 files.
--pre: 1
caf�: 1
"new\\nline": 1
[1 name is not UTF-8: � stands for the bytes that cannot be shown.]\
""")
    assert set(files(desk.workspace).values()) == {b"new\n"}
    desk.files.history.undo()
    assert set(files(desk.workspace).values()) == {b"old\n"}


def test_links_out_and_hard_links_are_left_alone(desk: Desk) -> None:
    """S1."""
    outside = desk.workspace.parent / "outside"
    outside.mkdir()
    (outside / "s.txt").write_text("old\n")
    (desk.workspace / "dir").symlink_to(outside)
    (desk.workspace / "file").symlink_to(outside / "s.txt")
    (desk.workspace / "hard").hardlink_to(outside / "s.txt")
    desk.put("a.txt", "old\n")
    assert run(desk, "old", "new", preview_only=False).llm_content == snapshot("""\
Replaced 1 match in 1 file.
a.txt: 1
[1 file with a match stays as it is: `hard` (other hard links to it).]\
""")
    for path in ("dir", "file", "dir/s.txt", str(outside)):
        assert refused(run(desk, "old", "new", path=path, preview_only=False), "outside")
    assert (outside / "s.txt").read_text() == "old\n"


# Permission


def test_a_preview_runs_free_and_applying_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: what changes files asks, and the person sees all of what will run."""
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    root = plant(tmp_path)
    asked: list[str] = []

    def no(question: Any) -> str:
        asked.append(question.summary)
        return "no"

    runtime = Runtime([file_search], ask=no, session=Session(workspace=root))

    def call(**arguments: Any) -> ToolResult:
        return asyncio.run(runtime.run("FileSearch", {"pattern": "need(le)", **arguments}))

    assert call().success
    assert call(preview_only=False).success  # nothing to put in: a search
    assert call(replace_with="$1").success
    assert asked == []
    assert file_search.build({"pattern": "x"}).summary == snapshot('Search for pattern "x" in "."')
    assert file_search.build({"pattern": "x", "replace_with": ""}).summary == snapshot(
        'Preview replacing pattern "x" with "" in "."'
    )
    before = files(root)
    every = {"file_glob": "*.py", "exclude": "x\u202ey", "ignore_case": True, "multiline": True}
    assert not call(replace_with="$1", preview_only=False).success
    assert not call(replace_with='"\n', preview_only=False, path="src", literal=True, **every).success
    assert files(root) == before
    assert asked == snapshot(
        [
            'Replace pattern "need(le)" with "$1" in "."',
            'Replace text "need(le)" with "\\"\\n" in "src", only files "*.py", but not "x\u202ey", ignoring case, across lines',
        ]
    )


def test_nobody_to_ask_and_plan_mode_mean_no(desk: Desk) -> None:
    desk.put("a.txt", "old\n")
    for mode in ("default", "dont-ask", "plan"):
        careful = Desk(desk.workspace, mode=mode)
        assert run(careful, "old", "new", preview_only=False).error.kind == "permission_error"  # type: ignore[union-attr]
    assert run(Desk(desk.workspace, mode="dont-ask"), "old", "new").success
    assert desk.bytes_of("a.txt") == b"old\n"


def test_it_is_never_shown_as_read_only() -> None:
    """R4."""
    registry = Registry()
    registry.register_many(builtin_tools())
    assert "FileSearch" not in {tool.name for tool in registry.for_mode("plan").tools()}
    assert dialect("mcp").definition(file_search)["annotations"]["readOnlyHint"] is False


def test_a_replacement_waits_for_what_touches_the_same_files_and_a_preview_for_no_reader(desk: Desk) -> None:
    """P5."""
    desk.put("a.txt", "old\n")
    results = desk.batch(
        RawCall("Read", {"file_path": "a.txt"}),
        RawCall("FileSearch", {"pattern": "old", "replace_with": "new", "preview_only": False}),
        RawCall("Edit", {"file_path": "a.txt", "old_string": "new", "new_string": "newest"}),
        RawCall("FileSearch", {"pattern": "new", "replace_with": "x"}),
    )
    assert [result.success for result in results] == [True] * 4
    assert "-newest\n+xest" in results[3].llm_content
    assert desk.bytes_of("a.txt") == b"newest\n"


# Between preview and applying


def test_a_file_that_changed_since_the_preview_stops_it(desk: Desk) -> None:
    for name in ("a.txt", "b.txt"):
        desk.put(name, "old\n")
    assert run(desk, "old", "new").success
    desk.put("b.txt", "older\n")
    assert refused(run(desk, "old", "new", preview_only=False), "changed").llm_content == snapshot("""\
Error (validation_error): 1 file changed since the preview: `b.txt`. Nothing was replaced.

Suggestion: Preview it again, look at the changes, then apply it.\
""")
    assert desk.bytes_of("a.txt") == b"old\n"
    assert run(desk, "old", "new").success
    assert run(desk, "old", "new", preview_only=False).success
    assert desk.bytes_of("b.txt") == b"newer\n"
    assert "No match" in run(desk, "old", "new", preview_only=False).llm_content


# While it runs


def test_progress_is_told(desk: Desk) -> None:
    """P9."""
    for number in range(3):
        desk.put(f"{number}.txt", "old\n")
    call = RawCall("FileSearch", {"pattern": "old", "replace_with": "new", "preview_only": False})

    async def main() -> list[tuple[str, float, float | None]]:
        events = [event async for event in desk.runtime.stream(call)]
        return [(event.message, event.done, event.total) for event in events if isinstance(event, Progress)]

    assert asyncio.run(main()) == [
        ("read", 0, 3), ("read", 1, 3), ("read", 2, 3), ("replaced", 0, 3), ("replaced", 1, 3), ("replaced", 2, 3),
    ]  # fmt: skip


def test_lines_are_shown_as_they_are_found(tmp_path: Path) -> None:
    root = plant(tmp_path)

    async def main() -> list[str]:
        runtime = Runtime([file_search], session=Session(workspace=root))
        call = RawCall("FileSearch", {"pattern": "needle", "file_glob": "*.ts"})
        return [str(event.content) async for event in runtime.stream(call) if isinstance(event, PartialOutput)]

    assert asyncio.run(main()) == ["src/view.ts:1:const needle = {}"]


def test_a_cancelled_call_has_changed_nothing_when_it_ends(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """P6."""
    for number in range(3):
        desk.put(f"{number}.txt", "old\n")
    call = RawCall("FileSearch", {"pattern": "old", "replace_with": "new", "preview_only": False}, id="c")

    async def main() -> ToolResult:
        reading, stopping = asyncio.Event(), asyncio.Event()
        request = Cancellation.request
        monkeypatch.setattr(Cancellation, "request", lambda self: (request(self), stopping.set()))
        desk.runtime.subscribe(lambda event: reading.set() if isinstance(event, Progress) else None)
        with writing(desk.workspace / "1.txt"):  # so that it has to wait before it writes
            task = asyncio.create_task(desk.runtime.run(call))
            await reading.wait()
            assert desk.runtime.cancel("c")
            await stopping.wait()
        return await task

    result = asyncio.run(main())
    assert result.error is not None
    assert result.error.kind == "cancelled_error"
    assert "abandoned" not in result.error.message
    assert set(files(desk.workspace).values()) == {b"old\n"}
    assert desk.files.history.recent() == []


FOLDER_RULES = {
    "Edit(src/**)": {"src": True, "src/sub": True, "src/a.txt": True, "lib": False, ".": False},
    "Edit(src/sub/**)": {"src": False, "src/sub": True, "src/sub/b.txt": True},
    "Edit(src/*)": {"src": False, "src/a.txt": True},
    "Edit(*.txt)": {"src": False, "src/a.txt": True},
    "Edit([!l]**)": {"src": False},
    "Edit(src)": {"src": False},
    "Edit(src/)": {"src": True, "lib": False},
    "Edit(**)": {"src": True, ".": True},
    "Edit(**/sub/**)": {"src/sub": True, "src": False},
}


@pytest.mark.parametrize("rule", FOLDER_RULES)
def test_a_rule_for_all_in_a_folder_lets_it_replace_there(tmp_path: Path, rule: str) -> None:
    """P4: a rule that covers only some of what is in the folder is not enough."""
    write(tmp_path, {"src/a.txt": "old", "src/sub/b.txt": "old", "lib/c.txt": "old"})
    session = Session(workspace=tmp_path)
    for path, allowed in FOLDER_RULES[rule].items():
        call = {"pattern": "old", "replace_with": "old", "preview_only": False, "path": path}
        result = asyncio.run(
            Runtime(builtin_tools(), policy=RulePolicy(allow=[rule]), session=session).run("FileSearch", call)
        )
        assert result.success is allowed, (path, result.llm_content)


def test_a_rule_for_a_folder_changes_nothing_that_is_denied_in_it(tmp_path: Path) -> None:
    write(tmp_path, {"src/a.txt": "old", "src/secret.txt": "old"})
    rules = RulePolicy(allow=["Edit(src/**)"], deny=["Edit(secret.txt)"])
    call = {"pattern": "old", "replace_with": "new", "preview_only": False, "path": "src"}
    runtime = Runtime(builtin_tools(), policy=rules, session=Session(workspace=tmp_path))
    result = asyncio.run(runtime.run("FileSearch", call))
    assert files(tmp_path) == {"src/a.txt": b"new", "src/secret.txt": b"old"}
    assert result.llm_content == snapshot("""\
Replaced 1 match in 1 file.
src/a.txt: 1
[1 file with a match stays as it is: `src/secret.txt` (denied by `Edit(secret.txt)` from the program).]\
""")
