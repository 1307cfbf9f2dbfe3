"""What is said of a replacement stays readable, however much there is."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

from pathlib import Path
from typing import Any

from inline_snapshot import snapshot
from tests.workspace.searching.replacing_room import replace

from ferrule.workspace.searching import replacing as module
from ferrule.workspace.searching.replacing import FILTERS, Replacing
from ferrule.workspace.searching.search import left_out

ASKED: Any = {"pattern": "foo", "path": ".", "searched": None}


def test_many_files_that_stay_are_counted_and_the_first_named(tmp_path: Path) -> None:
    for number in range(25):
        (tmp_path / f"{number:02}").write_bytes(b"foo \xff\n")
    told = Replacing(replace(tmp_path, "foo", "x"), 25, "Nothing.", applied=True)
    output = told.output(200, None, **ASKED)
    assert output.llm_content is not None
    assert output.llm_content.replace(" (not UTF-8)", "") == snapshot("""\
Nothing to replace: every file with a match stays as it is.
[25 files with a match stay as they are: `00`, `01`, `02`, `03`, `04`, `05`, `06`, `07`, `08`, `09`, `10`, `11`, `12`, `13`, `14`, `15`, `16`, `17`, `18`, `19`, and 5 more.]\
""")
    assert output.data is not None
    assert len(output.data["skipped"]) == 25
    assert output.data["applied"] is False


def test_a_large_file_has_no_diff(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("foo\n" + "x" * module._LARGEST_COMPARED)
    output = Replacing(replace(tmp_path, "foo", "bar"), 1, "Nothing.", applied=False).output(200, None, **ASKED)
    assert output.llm_content == snapshot("""\
Would replace 1 match in 1 file.
--- a/a.txt
+++ b/a.txt
(too large for a diff: 1 to replace)
[Nothing was changed. To make these changes, call again with `preview_only` set to false.]\
""")


def test_the_diff_in_the_metadata_is_bounded(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number:03}").write_text(f"foo {'x' * 400}\n")
    output = Replacing(replace(tmp_path, "foo", "bar"), 300, "Nothing.", applied=True).output(3, 7, **ASKED)
    assert len(output.metadata["diff"]) < 51_000
    assert output.metadata["diff_left_out"] == snapshot(241)
    assert output.llm_content == snapshot("""\
Replaced 300 matches in 300 files.
000: 1
001: 1
002: 1
[297 more were changed.]\
""")


def test_what_is_left_out_says_how_to_see_it() -> None:
    assert left_out(2, 2, "files", FILTERS, can_raise=True) == []
    assert left_out(1, 1200, "files", FILTERS, can_raise=True) == snapshot(
        ["1,199 of 1,200 files left out. Narrow with `path`, `file_glob` or `exclude`, or raise `head_limit`."]
    )
    assert left_out(1, 1200, "files", FILTERS, can_raise=False) == snapshot(
        ["1,199 of 1,200 files left out. Narrow with `path`, `file_glob` or `exclude`."]
    )
