"""Nobody changes a file that they have not seen as it is now (P11)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.workspace.desk import Desk, refused

from ferrule import ErrorKind
from ferrule.workspace import tracker
from ferrule.workspace.paths import Paths, Place
from ferrule.workspace.problems import PathError
from ferrule.workspace.tracker import Tracker


def test_a_file_that_was_not_read_is_not_changed(desk: Desk) -> None:
    desk.put("f.txt", "one\n")
    for result in (
        desk.edit("f.txt", "one", "two"),
        desk.write("f.txt", "two"),
        desk.multi_edit("f.txt", ("one", "2")),
    ):
        assert refused(result, "not_read").llm_content == snapshot("""\
Error (validation_error): `f.txt` has not been read yet.

Suggestion: Read it first, then make the change.\
""")
    assert desk.bytes_of("f.txt") == b"one\n"


def test_a_file_that_changed_since_is_not_changed_and_the_lines_are_named(desk: Desk) -> None:
    desk.seen("f.txt", "".join(f"line {number}\n" for number in range(1, 21)))
    changed = [f"line {number}\n" for number in range(1, 21)]
    changed[9:14] = ["other\n"] * 5
    desk.put("f.txt", "".join(changed))
    for result in (desk.edit("f.txt", "line 1\n", "x\n"), desk.write("f.txt", "x")):
        assert refused(result, "changed").llm_content == snapshot("""\
Error (validation_error): `f.txt` has changed since you read it: lines 10-14.

Suggestion: Read it again, then make the change.\
""")
    assert desk.bytes_of("f.txt").decode() == "".join(changed)
    assert desk.read("f.txt").success
    assert desk.edit("f.txt", "line 1\n", "x\n").success


def test_touching_is_no_change(desk: Desk) -> None:
    path = desk.seen("f.txt", "one\n")
    os.utime(path, (1, 1))
    path.write_bytes(b"two\n")
    path.write_bytes(b"one\n")
    assert desk.edit("f.txt", "one", "two").success


def test_other_bytes_of_the_same_size_and_time_are_seen(desk: Desk) -> None:
    path = desk.seen("f.txt", "one\n")
    before = path.stat()
    path.write_bytes(b"two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    refused(desk.edit("f.txt", "two", "three"), "changed")


def test_one_s_own_changes_need_no_reading_again(desk: Desk) -> None:
    assert desk.write("f.txt", "one two\n").success
    assert desk.edit("f.txt", "one", "1").success
    assert desk.multi_edit("f.txt", ("two", "2")).success
    assert desk.write("f.txt", "new").success
    assert desk.edit("f.txt", "new", "newer").success


def test_reading_a_page_or_the_assistant_s_way_counts_as_reading(desk: Desk) -> None:
    desk.put("f.txt", "one\ntwo\n")
    assert desk.read("f.txt", offset=1, limit=1).success
    assert desk.edit("f.txt", "one", "1").success
    desk.put("g.txt", "one\n")
    assert desk.call("readFile", "g.txt").success
    assert desk.edit("g.txt", "one", "1").success


def test_a_link_and_its_file_are_one(desk: Desk) -> None:
    desk.put("f.txt", "one\n")
    (desk.workspace / "link").symlink_to("f.txt")
    assert desk.read("link").success
    assert desk.edit("f.txt", "one", "1").success


def test_each_session_reads_for_itself(desk: Desk) -> None:
    desk.seen("f.txt", "one\n")
    other = Desk(desk.workspace)
    refused(other.edit("f.txt", "one", "two"), "not_read")
    assert other.read("f.txt").success
    assert other.edit("f.txt", "one", "two").success
    refused(desk.edit("f.txt", "two", "three"), "changed")


def test_a_file_made_by_someone_else_meanwhile_is_not_overwritten(desk: Desk) -> None:
    assert not desk.read("f.txt").success
    desk.put("f.txt", "theirs\n")
    refused(desk.write("f.txt", "mine"), "not_read")
    assert desk.bytes_of("f.txt") == b"theirs\n"


def test_what_an_undo_brought_back_has_to_be_read_again(desk: Desk) -> None:
    desk.seen("f.txt", "one\n")
    assert desk.edit("f.txt", "one", "two").success
    desk.files.history.undo()
    refused(desk.edit("f.txt", "one", "three"), "changed")


# By itself


@pytest.fixture
def place(desk: Desk) -> Place:
    return Paths([desk.workspace]).locate("f.txt")


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (b"a\nb\nc\n", b"a\nX\nc\n", "line 2"),
        (b"a\nb\nc\n", b"a\nX\nY\nZ\nc\n", "lines 2-4"),
        (b"a\nb\nc\n", b"X\nb\nY\n", "lines 1, 3"),
        (b"a\nb\nc\n", b"a\nc\n", "line 2"),
        (b"a\nb\n", b"a\nb\nc\n", "line 3"),
        (b"a\n" * 30_000, b"b\n" * 30_000, "many lines"),
    ],
)
def test_the_lines_that_changed_are_named(place: Place, before: bytes, now: bytes, words: str) -> None:
    seen = Tracker()
    seen.saw(place, before)
    with pytest.raises(PathError) as problem:
        seen.require_seen(place, now)
    assert problem.value.message == f"`f.txt` has changed since you read it: {words}."
    assert problem.value.kind is ErrorKind.VALIDATION


@pytest.mark.parametrize(("before", "now"), [(b"a\nb\n", b"a\nb"), (b"a\nb\n", b"a\nb\r\n")])
def test_a_change_of_line_endings_alone_is_one_of_those_lines(place: Place, before: bytes, now: bytes) -> None:
    seen = Tracker()
    seen.saw(place, before)
    with pytest.raises(PathError, match=r"has changed since you read it: line 2[.]"):
        seen.require_seen(place, now)


def test_any_difference_is_seen_and_no_other(place: Place) -> None:
    contents = st.lists(st.sampled_from([b"a", b"b", b"\r", b"\n", b"\0"]), max_size=9).map(b"".join)

    @given(contents, contents)
    def check(before: bytes, now: bytes) -> None:
        seen = Tracker()
        seen.saw(place, before)
        seen.require_seen(place, before)
        if before != now:
            with pytest.raises(PathError, match=r"has changed since you read it: lines? [0-9]"):
                seen.require_seen(place, now)

    check()


def test_only_so_many_files_are_remembered(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "_MOST_FILES", 3)
    for name in "abcd":
        desk.seen(name, "one\n")
    refused(desk.edit("a", "one", "two"), "not_read")
    assert desk.edit("d", "one", "two").success


def test_of_a_large_file_the_name_of_its_content_is_enough(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "_KEPT_CONTENT", 10)
    seen = Tracker()
    seen.saw(place, b"x" * 11)
    seen.require_seen(place, b"x" * 11)
    with pytest.raises(PathError, match=r"has changed since you read it[.]"):
        seen.require_seen(place, b"y" * 11)


def test_what_is_forgotten_was_not_read(place: Place) -> None:
    seen = Tracker()
    seen.saw(place, b"x")
    seen.forget(place)
    with pytest.raises(PathError, match="has not been read"):
        seen.require_seen(place, b"x")


def test_a_session_knows_what_it_has_read_as_it_is_now(desk: Desk) -> None:
    desk.seen("f.txt", "one\n")
    tracker, place = desk.files.tracker, desk.files.paths.find("f.txt")
    assert tracker.knows(place, b"one\n")
    assert not tracker.knows(place, b"two\n")
    desk.put("g.txt", "one\n")
    assert not tracker.knows(desk.files.paths.find("g.txt"), b"one\n")


def test_contents_are_kept_within_a_bound_and_their_names_beyond_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker, "_KEPT_IN_ALL", 25)
    for name in "abc":
        desk.seen(name, "0123456789")
    desk.seen("b", "0123456789")  # read again: counted once
    desk.put("a", "x")
    desk.put("c", "x")
    assert "since you read it." in refused(desk.edit("a", "0", "1"), "changed").llm_content
    assert "since you read it: line 1." in refused(desk.edit("c", "0", "1"), "changed").llm_content
    assert desk.edit("b", "0", "1").success


def test_a_file_that_looks_the_same_from_outside_need_not_be_read_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker, "_SETTLED_NS", 0)
    seen = Tracker()
    place.path.write_bytes(b"one")
    before = place.path.stat()
    assert not seen.has_seen(place, before)
    seen.saw(place, b"one", found=before)
    assert seen.has_seen(place, before)
    place.path.write_bytes(b"1")
    assert not seen.has_seen(place, place.path.stat())


def test_one_that_was_changed_a_moment_ago_is_read_again(place: Place) -> None:
    place.path.write_bytes(b"one")
    seen = Tracker()
    seen.saw(place, b"one", found=place.path.stat())
    assert not seen.has_seen(place, place.path.stat())


def test_one_that_deceives_is_found_out_and_then_read_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "_SETTLED_NS", 0)
    place.path.write_bytes(b"one")
    seen = Tracker()
    seen.saw(place, b"another", found=place.path.stat())
    assert seen.has_seen(place, place.path.stat())
    with pytest.raises(PathError, match="has changed since you read it"):
        seen.require_seen(place, b"one")
    assert not seen.has_seen(place, place.path.stat())


def test_a_long_content_has_the_name_of_a_short_one(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 100_000)
    with (tmp_path / "f").open("rb") as file:
        assert tracker.digest_of(file) == tracker.digest(b"x" * 100_000)
