"""Every match with its bytes, or none at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.workspace.searching.replacing_room import find

from ferrule import ToolError
from ferrule.workspace.searching import replacement as module
from ferrule.workspace.searching.replacement import FileOccurrences, Occurrence, SearchedLines


def spans(found: FileOccurrences) -> list[tuple[int, int, bytes]]:
    return [(one.start, one.end, one.new) for one in found.matches]


def test_matches_come_with_their_bytes_and_in_order_of_name(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("foo é foo\n\nfoo")
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbffoo\r\n")
    (tmp_path / os.fsdecode(b"caf\xe9")).write_text("a foo\n")
    found = find(tmp_path, "f(o+)", "<$1>")
    assert [file.name for file in found.files] == [b"./a.txt", b"./b.txt", b"./caf\xe9"]
    assert [spans(file) for file in found.files] == [
        [(0, 3, b"<oo>")],
        [(0, 3, b"<oo>"), (7, 10, b"<oo>"), (12, 15, b"<oo>")],
        [(2, 5, b"<oo>")],
    ]
    assert found.matches == 5


def test_globs_with_folders_count(tmp_path: Path) -> None:
    for name in ("src/a.py", "lib/a.py", "src/b.ts"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("foo\n")
    assert [file.name for file in find(tmp_path, "foo", "x", globs=("/src/*.py",)).files] == [b"./src/a.py"]


def test_a_binary_file_is_known_as_one(tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"foo\n" * 20_000 + b"\0\n")
    assert [file.binary for file in find(tmp_path, "foo", "x").files] == [True]


def test_lines_that_are_no_longer_the_same_are_noticed() -> None:
    (lines,) = [SearchedLines(2, 3, module._short_digest(b"foo"))]
    assert lines.are_in(b"a foo")
    assert not lines.are_in(b"a fop")
    assert not lines.are_in(b"a fo")
    assert Occurrence(0, 1, b"").new == b""


def test_events_may_be_cut_anywhere() -> None:
    line = (
        b'{"type":"match","data":{"path":{"text":"./a"},"lines":{"text":"foo\\n"},"line_number":1,"absolute_offset":5,'
        b'"submatches":[{"match":{"text":"foo"},"replacement":{"bytes":"/w=="},"start":0,"end":3}]}}\n'
        b'{"type":"end","data":{"path":{"text":"./a"},"binary_offset":null}}\n'
    )
    for size in (1, 7, 1000):
        events = module._Events(None)
        for start in range(0, len(line), size):
            events.feed(line[start : start + size])
        assert [spans(file) for file in events.files] == [[(5, 8, b"\xff")]]


def failure(root: Path, pattern: str, replacement: str, **options: Any) -> str:
    with pytest.raises(ToolError) as raised:
        find(root, pattern, replacement, **options)
    return f"{raised.value.message}\n{raised.value.suggestion}"


def test_what_is_not_whole_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("foo\n" * 20)
    with monkeypatch.context() as patched:
        patched.setattr(module, "MOST_MATCHES", 10)
        assert failure(tmp_path, "foo", "x") == snapshot("""\
There are more than 10 matches, and a replacement is made completely or not at all. Nothing was changed.
Narrow it with `path`, `file_glob` or `exclude`, and work in parts.\
""")
    with monkeypatch.context() as patched:
        patched.setattr(module, "SECONDS", 0.0)
        assert failure(tmp_path, "foo", "x") == snapshot("""\
The search took longer than 0 s, and a replacement is made completely or not at all. Nothing was changed.
Narrow it with `path`, `file_glob` or `exclude`, and work in parts.\
""")


def test_a_pattern_that_was_given_up_on_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ab\n" + "a" * 40 + "c\n")
    assert failure(tmp_path, r"(?<!x)(?:a|aa)+$", "x") == snapshot("""\
The pattern was abandoned in 1 file: too many ways to match. Nothing was changed.
Make it simpler: no repetition inside a repetition, as in `(a+)+`.\
""")


def test_an_old_ripgrep_is_an_error_that_says_what_to_do() -> None:
    events = module._Events(None)
    with pytest.raises(ToolError, match="ripgrep 15 or newer"):
        events.feed(
            b'{"type":"match","data":{"path":{"text":"a"},"lines":{"text":"foo"},"line_number":1,"absolute_offset":0,'
            b'"submatches":[{"match":{"text":"foo"},"start":0,"end":3}]}}\n'
        )


def test_a_match_that_has_no_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\nfoo\r\n")
    assert failure(tmp_path, r"o\x0d", "x", multiline=True) == snapshot("""\
The pattern matches in line 2 of `a.txt`, but only together with a part of the line ending. Nothing was changed.
Match the whole line ending (`\\r?\\n`, with `multiline`), or stop before it (`$`).\
""")


def test_an_empty_match_at_the_end_of_a_file_is_known(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("foo")
    assert spans(find(tmp_path, "$", ";").files[0]) == [(3, 3, b";")]
