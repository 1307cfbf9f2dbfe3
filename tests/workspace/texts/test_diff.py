"""What a diff shows a model and a person."""

from __future__ import annotations

import codecs
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.workspace.texts.diff import FileDiff, diff_file
from ferrule.workspace.texts.text import Text, decode


def text(data: bytes) -> Text:
    found = decode(data)
    assert found is not None
    return found


def diff(before: bytes | None, after: bytes | None, most_lines: int = 400) -> str:
    return diffed(before, after, most_lines).text


def counts(before: bytes | None, after: bytes | None) -> tuple[int, int]:
    found = diffed(before, after)
    return found.added, found.removed


def diffed(before: bytes | None, after: bytes | None, most_lines: int = 400) -> FileDiff:
    return diff_file(
        text(before) if before is not None else None,
        text(after) if after is not None else None,
        "app.py",
        most_lines=most_lines,
    )


def test_a_change():
    before = b"".join(b"%d\n" % number for number in range(1, 31))
    after = before.replace(b"5\n6\n", b"five\n6\n", 1).replace(b"20\n", b"20\n20.5\n")
    assert diff(before, after) == snapshot("""\
--- a/app.py
+++ b/app.py
@@ -2,7 +2,7 @@
 2
 3
 4
-5
+five
 6
 7
 8
@@ -18,6 +18,7 @@
 18
 19
 20
+20.5
 21
 22
 23
""")


def test_a_new_file_and_a_removed_one():
    assert diff(None, b"a\nb\n") == snapshot("""\
--- /dev/null
+++ b/app.py
@@ -0,0 +1,2 @@
+a
+b
""")
    assert diff(b"a", None) == snapshot("""\
--- a/app.py
+++ /dev/null
@@ -1 +0,0 @@
-a
\\ No newline at end of file
""")


def test_a_missing_final_newline_is_shown():
    assert diff(b"a\nb\n", b"a\nb") == snapshot("""\
--- a/app.py
+++ b/app.py
@@ -1,2 +1,2 @@
 a
-b
+b
\\ No newline at end of file
""")


def test_line_endings_are_shown_where_they_differ():
    assert diff(b"a\r\nb\r\n", b"a\nb\r\n") == snapshot("""\
line endings: CRLF -> mixed
--- a/app.py
+++ b/app.py
@@ -1,2 +1,2 @@
-a␍␊
+a
 b␍␊
""")


def test_endings_that_are_the_same_everywhere_are_not_in_the_way():
    assert diff(b"a\r\nb\r\n", b"a\r\nc\r\n") == snapshot("""\
--- a/app.py
+++ b/app.py
@@ -1,2 +1,2 @@
 a
-b
+c
""")


def test_a_changed_encoding_is_shown():
    assert diff("é\n".encode("cp1252"), codecs.BOM_UTF8 + "é\n".encode()) == snapshot("""\
encoding: cp1252 -> utf-8 with byte order mark
--- a/app.py
+++ b/app.py
""")


def test_nothing_changed():
    assert diff(b"a\n", b"a\n") == ""
    assert counts(b"a\n", b"a\n") == (0, 0)


def test_a_long_diff_is_cut_and_says_so():
    shown = diff(None, b"x\n" * 1000 + b"y" * 10_000 + b"\n", most_lines=3)
    assert shown == snapshot("""\
--- /dev/null
+++ b/app.py
@@ -0,0 +1,1001 @@
+x
+x
… 999 more lines of the diff are not shown
""")
    assert len(diff(None, b"y" * 10_000 + b"\n")) < 700


def test_counts():
    assert counts(b"a\nb\nc\n", b"a\nB\nc\nd\n") == (2, 1)
    assert counts(None, b"a\nb") == (2, 0)
    assert counts(b"a\nb", None) == (0, 2)
    assert counts(b"a\r\n", b"a\n") == (1, 1)


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d e\n", "\n"]), max_size=30).map("".join)


@pytest.mark.skipif(shutil.which("git") is None, reason="git says whether the diff is well-formed")
@settings(max_examples=25, deadline=None)
@given(LINES.filter(bool), LINES.filter(bool), st.booleans(), st.integers(0, 4))
def test_git_can_apply_it(before: str, after: str, bare_end: bool, context: int):
    after = after.rstrip("\n") + "x" if bare_end else after
    patch = diff_file(text(before.encode()), text(after.encode()), "app.py", context).text
    with TemporaryDirectory() as folder:
        file = Path(folder) / "app.py"
        file.write_text(before)
        if patch:
            subprocess.run(
                ["git", "apply", "--unidiff-zero", "-"],
                input=patch.encode(),
                cwd=folder,
                check=True,
                capture_output=True,
            )
        assert file.read_text() == after
