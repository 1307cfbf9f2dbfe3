"""Replacing changes matched bytes alone, in all files or in none."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import codecs
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.workspace.desk import Desk
from tests.workspace.searching.replacing_room import find, outcome, replace

from ferrule import ToolError
from ferrule.workspace.problems import PathError
from ferrule.workspace.searching import replacing as module
from ferrule.workspace.searching.replacement import literal_pattern, literal_replacement
from ferrule.workspace.searching.replacing import apply
from ferrule.workspace.snapshots.changes import Origin
from ferrule.workspace.texts.text import newline_of

PIECES = st.sampled_from(["a", "b", "ab", "A", "é", "针", " ", "\t", "$1", "\\", "(", ".", "\n", "\r\n", "\r", "\n"])
TEXTS = st.lists(PIECES, max_size=30).map("".join)
INLINE = st.lists(PIECES.filter(lambda one: one.strip("\r\n") != ""), min_size=1, max_size=3).map("".join)
MARKS = st.sampled_from([b"", b"", codecs.BOM_UTF8])


@settings(max_examples=120, deadline=None)
@given(texts=st.lists(st.tuples(MARKS, TEXTS), min_size=1, max_size=4), old=INLINE, new=TEXTS)
def test_plain_text_is_replaced_as_python_replaces_it(texts: list[tuple[bytes, str]], old: str, new: str) -> None:
    """Issue 3: bytes outside the edited span never change, over random line endings."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number, (mark, text) in enumerate(texts):
            (root / f"{number}.txt").write_bytes(mark + text.encode())
        found = replace(root, literal_pattern(old), literal_replacement(new))
        after = {file.place.name: file.after for file in found.files}
        for number, (mark, text) in enumerate(texts):
            ending = newline_of(text) if newline_of(text) in ("\r\n", "\r") else "\n"
            written = new.replace("\r\n", "\n").replace("\n", ending) if ending == "\r\n" else None
            if ending == "\r":
                written = new.replace("\r\n", "\0").replace("\n", "\r").replace("\0", "\r\n")
            expected = mark + text.replace(old, new if written is None else written).encode()
            assert after.get(f"{number}.txt", mark + text.encode()) == expected


@settings(max_examples=120, deadline=None)
@given(
    text=TEXTS,
    mark=MARKS,
    pattern=st.sampled_from(
        [r"\w+", "a.?b", r"[^b]+", r"\s+$", "^.+$", "(?i)a+", r"\S+\s*", "(?<=a)b", "a(?!b)", r"(a)\1", r"\r?\n", "b|$"]
    ),
    multiline=st.booleans(),
)
def test_replacing_every_match_with_itself_changes_nothing(
    text: str, mark: bytes, pattern: str, *, multiline: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = mark + text.encode()
        try:
            assert outcome(data, pattern, "$0", Path(folder), multiline=multiline) == data
        except ToolError as error:  # refused, and so unchanged too
            assert (error.details or {}).get("code") in ("line_ending", "pattern", "empty_match")  # noqa: PT017


@pytest.mark.parametrize(
    ("data", "pattern", "replacement", "after"),
    [
        (b"a foo b\r\nfoo\r\n", "foo.*", "F", b"a F\r\nF\r\n"),
        (b"foo  \r\nfoo\t\n", r"\s+$", "", b"foo\r\nfoo\n"),
        (b"foo\r\nbar", "(?m)foo$", "F", b"F\r\nbar"),
        (b"foo bar\r\n", "foo (bar)", "$1\nfoo", b"bar\r\nfoo\r\n"),
        (b"foo bar\n", "foo (bar)", "$1\nfoo", b"bar\nfoo\n"),
        (b"foo bar\rx", "foo (bar)", "$1\nfoo", b"bar\rfoo\rx"),
        (b"foo\nbar\r\n", "foo", "a\nb", b"a\nb\nbar\r\n"),
        (b"a\r\nb\r\n", r"\r", "", b"a\nb\n"),
        (codecs.BOM_UTF8 + b"foo\n", "^foo", "F", codecs.BOM_UTF8 + b"F\n"),
        (b"x=1", r"(\w)=(\d)", "${2}=$1 $$1", b"1=x $1"),
        (b"foo \n\nbar", "[ \t]*$", "", b"foo\n\nbar"),
        (b"foo", "foo", "", b""),
    ],
)
def test_line_endings_marks_and_groups(
    data: bytes, pattern: str, replacement: str, after: bytes, tmp_path: Path
) -> None:
    assert outcome(data, pattern, replacement, tmp_path) == after


@pytest.mark.parametrize(
    ("data", "pattern", "replacement", "after"),
    [
        (b"foo(\r\n  a\r\n)\r\n", r"\(\s+(\w)\s+\)", "($1)", b"foo(a)\r\n"),
        (b"a\r\nb\r\n", r"a\r?\nb", "b\na", b"b\r\na\r\n"),
        (b"a\nb\n", r"a\r?\nb", "b\na", b"b\na\n"),
        (b"a\r\nb\r\n", r"\r\n", "\n", b"a\nb\n"),
        (b"a\nb\n", r"\n", "\r\n", b"a\r\nb\r\n"),
        (b"<x>\r\n1\r\n</x>", "<x>.*</x>", "<y/>", b"<y/>"),
    ],
)
def test_matches_that_span_lines(data: bytes, pattern: str, replacement: str, after: bytes, tmp_path: Path) -> None:
    assert outcome(data, pattern, replacement, tmp_path, multiline=True) == after


def refusal(data: bytes, pattern: str, replacement: str, root: Path, **options: bool) -> str:
    with pytest.raises(ToolError) as raised:
        outcome(data, pattern, replacement, root, **options)
    return f"{raised.value.message}\n{raised.value.suggestion}"


def test_what_cannot_be_told_for_sure_is_refused(tmp_path: Path) -> None:
    assert refusal(b"one\nbar\n", "x*", "y", tmp_path) == snapshot("""\
The pattern matches without taking any text in line 1 of `file.txt`; what would be put there is not certain. Nothing was changed.
Let it match at least one character (`+` for `*`), and keep what should stay with `$0`: to put `# ` before lines, replace `^.` with `# $0`.\
""")
    assert refusal(b"one\r\nbar\r\n", r"\n", ", ", tmp_path, multiline=True) == snapshot("""\
The pattern matches half of a `\\r\\n` line ending in line 1 of `file.txt`. Nothing was changed.
Match the whole ending: `\\r?\\n` for `\\n`, which fits either kind of file.\
""")


def test_files_that_are_no_plain_text_stay_and_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11, S1: other encodings are never guessed at, and nothing outside is written."""
    contents = {
        "utf16.txt": "foo\n".encode("utf-16"),
        "utf32.txt": codecs.BOM_UTF32_LE + "foo\n".encode("utf-32-le"),
        "gb.txt": "foo 针\n".encode("gb18030"),
        "bin": b"foo\n" * 50_000 + b"\0",
        "linked.txt": b"foo\n",
        "large.txt": b"foo\n" + b" " * 1_000_000,
        "good.txt": b"foo\n",
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "twin.txt").hardlink_to(tmp_path / "linked.txt")
    (tmp_path / "link.txt").symlink_to("good.txt")
    monkeypatch.setattr(module, "MOST_EDITABLE", 1_000_000)
    found = replace(tmp_path, "foo", "x")
    assert sorted(found.skipped) == [
        ("bin", "binary"),
        ("gb.txt", "not UTF-8"),
        ("large.txt", "over 1,000,000 bytes"),
        ("linked.txt", "other hard links to it"),
        ("twin.txt", "other hard links to it"),
        ("utf16.txt", "UTF-16"),
    ]
    assert [file.place.name for file in found.files] == ["good.txt"]


def test_too_much_at_once_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("foo " * 10)
    monkeypatch.setattr(module, "MOST_BYTES", 50)
    with pytest.raises(ToolError, match=r"more than 50 bytes together\. Nothing was changed"):
        replace(tmp_path, "foo", "x")
    monkeypatch.setattr(module, "MOST_BYTES", 5000)
    monkeypatch.setattr(module, "MOST_EDITABLE", 1000)
    assert replace(tmp_path, "foo", "x" * 200).skipped == [
        ("a", "would be over 1,000 bytes"),
        ("b", "would be over 1,000 bytes"),
    ]


def test_a_file_that_changed_while_it_was_searched_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("foo\nbar\n")
    found = find(tmp_path, "foo", "x").files[0]
    assert module.replace_in(b"foo\nother\n", found, "a.txt", as_written=False) == (b"x\nother\n", 1)
    with pytest.raises(PathError, match="changed while it was searched"):
        module.replace_in(b"\nfoo\nbar\n", found, "a.txt", as_written=False)


# All or none


def prepared(desk: Desk) -> list[module.ReplacedFile]:
    for name in ("a/1.txt", "b/2.txt", "c/3.txt"):
        desk.put(name, "foo\n")
    return replace(desk.workspace, "foo", "bar").files


def contents(desk: Desk) -> list[bytes]:
    return [path.read_bytes() for path in sorted(desk.workspace.rglob("*.txt"))]


def test_a_batch_is_one_change_and_undone_as_one(desk: Desk) -> None:
    group = apply(desk.files, prepared(desk), Origin(), lambda position: None)
    assert group is not None
    assert len(group.changes) == 3
    assert contents(desk) == [b"bar\n"] * 3
    assert desk.files.history.undo().groups[0].number == group.number
    assert contents(desk) == [b"foo\n"] * 3


def test_a_file_that_changed_before_the_write_stops_all(desk: Desk) -> None:
    files = prepared(desk)
    desk.put("b/2.txt", "mine\n")
    with pytest.raises(PathError) as raised:
        apply(desk.files, files, Origin(), lambda position: None)
    assert raised.value.message == snapshot(
        "`b/2.txt` has changed meanwhile, and was left as it is. No other file was changed either: a replacement is made completely or not at all."
    )
    assert contents(desk) == [b"foo\n", b"mine\n", b"foo\n"]
    assert desk.files.history.recent() == []


def test_a_file_that_changes_midway_takes_all_back(desk: Desk) -> None:
    def meanwhile(position: int) -> None:
        if position == 2:
            assert desk.bytes_of("a/1.txt") == b"bar\n"
            desk.put("c/3.txt", "mine\n")

    with pytest.raises(PathError, match=r"3\.txt` has changed meanwhile"):
        apply(desk.files, prepared(desk), Origin(), meanwhile)
    assert contents(desk) == [b"foo\n", b"foo\n", b"mine\n"]
    assert desk.files.history.undo().groups == ()


def test_a_file_that_cannot_be_written_midway_takes_all_back(desk: Desk) -> None:
    outside = desk.workspace.parent / "outside"
    outside.mkdir()

    def meanwhile(position: int) -> None:
        if position == 1:
            (desk.workspace / "b").rename(outside / "b")
            (desk.workspace / "b").symlink_to(outside / "b")

    with pytest.raises(PathError):
        apply(desk.files, prepared(desk), Origin(), meanwhile)
    assert [desk.bytes_of(name) for name in ("a/1.txt", "c/3.txt")] == [b"foo\n"] * 2
    assert (outside / "b/2.txt").read_bytes() == b"foo\n"


def test_cancelling_between_files_takes_all_back(desk: Desk) -> None:
    def cancelled(position: int) -> None:
        if position == 2:
            raise ToolError("The call was cancelled.", kind="cancelled_error")

    with pytest.raises(ToolError, match="cancelled"):
        apply(desk.files, prepared(desk), Origin(), cancelled)
    assert contents(desk) == [b"foo\n"] * 3


def test_what_the_session_knew_it_still_knows_and_nothing_more(desk: Desk) -> None:
    """P11."""
    files = prepared(desk)
    desk.read("a/1.txt")
    desk.seen("b/2.txt", "old\n")
    desk.put("b/2.txt", "foo\n")
    apply(desk.files, files, Origin(), lambda position: None)
    assert desk.edit("a/1.txt", "bar", "x").success
    assert "has changed since you read it" in desk.edit("b/2.txt", "bar", "x").llm_content
    assert "has not been read yet" in desk.edit("c/3.txt", "bar", "x").llm_content
