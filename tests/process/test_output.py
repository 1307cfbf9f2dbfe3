"""Output within bounds: nothing is lost or cut without being counted."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ferrule.process.output import OutputRecord, SpillFolder, Stream

STREAMS = st.sampled_from(["stdout", "stderr"])


def record_of(folder: Path | None, *pieces: tuple[Stream, bytes], kept: int = 100) -> OutputRecord:
    record = OutputRecord(SpillFolder(folder) if folder else None, kept=kept)
    for stream, data in pieces:
        record.add(stream, data)
    return record


def test_a_little_is_shown_whole_and_makes_no_file(tmp_path: Path) -> None:
    record = record_of(tmp_path, ("stdout", b"a\n"), ("stderr", b"b\n"), ("stdout", b"c\n"))
    assert (record.text("stdout"), record.text("stderr")) == ("a\nc\n", "b\n")
    assert [(piece.stream, piece.text) for piece in record.pieces()] == [
        ("stdout", "a\n"), ("stderr", "b\n"), ("stdout", "c\n"),
    ]  # fmt: skip
    assert record.path is None


def test_much_shows_head_and_tail_and_says_what_lies_between(tmp_path: Path) -> None:
    lines: list[tuple[Stream, bytes]] = [("stdout", f"line {number:03}\n".encode()) for number in range(1000)]
    record = record_of(tmp_path, *lines)
    assert record.text("stdout") == (
        "line 000\nline 001\nline 002\nline 003\n"
        f"[… 990 lines, 8,910 bytes left out; the whole output is in `{record.path}` …]\n"
        "line 994\nline 995\nline 996\nline 997\nline 998\nline 999\n"
    )
    assert record.path is not None
    assert record.path.read_text() == "".join(f"line {number:03}\n" for number in range(1000))


def test_an_error_in_the_middle_of_a_flood_is_not_lost() -> None:
    flood = [("stdout", b"x\n" * 1000)] * 3
    record = record_of(None, *flood, ("stderr", b"the reason\n"), *flood)  # type: ignore[arg-type]
    assert record.text("stderr") == "the reason\n"


def test_characters_are_never_cut() -> None:
    record = record_of(None, ("stdout", "中".encode() * 500))
    assert "\ufffd" not in record.text("stdout")
    bytewise: list[tuple[Stream, bytes]] = [("stdout", bytes([byte])) for byte in "é中🎉".encode()]
    assert record_of(None, *bytewise).text("stdout") == "é中🎉"


def test_what_is_no_text_is_shown_as_such() -> None:
    assert record_of(None, ("stdout", b"\xff\xfe\x00ok\n")).text("stdout") == "\ufffd\ufffdok\n"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    record = record_of(tmp_path / "file" / "below", ("stdout", b"x" * 1000))
    assert record.problem == "no file could be made for the whole output: Not a directory"
    assert record.left_out().bytes == 900


@given(st.lists(st.tuples(STREAMS, st.binary(max_size=60)), max_size=40), st.integers(10, 80))
def test_what_is_shown_and_what_is_left_out_make_the_whole(pieces: list[tuple[Stream, bytes]], kept: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        record = record_of(Path(folder), *pieces, kept=kept)
        everything = b"".join(data for _, data in pieces)
        head, left, tail = record._both.parts()
        first = b"".join(data for _, data in head)
        last = b"".join(data for _, data in tail)
        assert everything.startswith(first)
        assert everything.endswith(last)
        assert len(first) + left.bytes + len(last) == len(everything) == record.total
        between = everything[len(first) : len(everything) - len(last)]
        assert between.count(b"\n") == left.lines
        assert len(first) + len(last) <= kept
        assert (record.path.read_bytes() if record.path else everything) == everything
        record.close()
        for stream in ("stdout", "stderr"):
            own = b"".join(data for name, data in pieces if name == stream)
            shown, missing, rest = record._streams[stream].parts()
            assert sum(len(data) for _, data in (*shown, *rest)) + missing.bytes == len(own)
