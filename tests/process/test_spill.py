"""The file with the whole output."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ferrule.process.output import SpillFolder


def test_it_is_private_and_whole(tmp_path: Path) -> None:
    spill = SpillFolder(tmp_path / "deep" / "spills").open()
    spill.write(b"one\n")
    spill.write(b"two\n")
    assert spill.path.read_bytes() == b"one\ntwo\n"
    assert spill.read(4, 3) == b"two"
    spill.close()
    spill.close()
    assert spill.read(4, 3) == b"two", "also when nothing more comes"
    assert stat.S_IMODE(spill.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(spill.path.parent.stat().st_mode) == 0o700
    spill.path.unlink()
    assert spill.read(4, 3) == b""


def test_beyond_its_bound_the_middle_is_dropped_and_that_is_said(tmp_path: Path) -> None:
    spill = SpillFolder(tmp_path, largest=400).open()
    for number in range(1000):
        spill.write(b"line %04d\n" % number)
    content = spill.path.read_text()
    assert len(content) <= 400
    assert content.startswith("line 0000\nline 0001\n")
    assert content.endswith("line 0998\nline 0999\n")
    assert "bytes left out here …]" in content
    assert spill.size == 10_000
    assert spill.read(9_980, 100) == b"line 0998\nline 0999\n"
    assert spill.read(0, 20) == b"line 0000\nline 0001\n"
    assert spill.full == "its middle was dropped, since a file holds at most 400 bytes"
    spill.close()
    assert spill.read(9_980, 100) == b"line 0998\nline 0999\n"


@given(st.lists(st.binary(max_size=300), max_size=30), st.integers(200, 900), st.integers(0, 4000), st.integers(0, 900))
def test_what_it_holds_is_the_first_and_the_last_of_the_output(
    pieces: list[bytes], largest: int, start: int, length: int
) -> None:
    everything = b"".join(pieces)
    with tempfile.TemporaryDirectory() as folder:
        spill = SpillFolder(Path(folder), largest=largest).open()
        for piece in pieces:
            spill.write(piece)
        content = spill.path.read_bytes()
        assert len(content) <= largest
        assert spill.size == len(everything)
        kept = largest // 4
        assert content[:kept] == everything[:kept]
        assert content.endswith(everything[len(everything) - min(kept, len(everything)) :])
        if not spill.full:
            assert content == everything
            assert spill.read(start, length) == everything[start : start + length]
        recent = max(0, len(everything) - kept)
        assert spill.read(recent, kept) == everything[recent:]
        spill.close()


def test_a_full_disk_is_told_and_not_raised(tmp_path: Path) -> None:
    spill = SpillFolder(tmp_path).open()
    spill.close()
    full = os.open("/dev/full", os.O_WRONLY)
    spill._opened = full
    spill.write(b"x")
    assert spill.full == "it could not be written further: No space left on device"
    spill.close()


def test_old_files_and_too_many_are_cleared_away(tmp_path: Path) -> None:
    other = tmp_path / "mine.txt"
    other.write_text("keep")
    for number in range(205):
        file = tmp_path / f"output-{number:03}.txt"
        file.write_text("x")
        os.utime(file, (2e9 + number, 2e9 + number))
    os.utime(tmp_path / "output-204.txt", (1, 1))
    SpillFolder(tmp_path).open().close()
    left = {path.name for path in tmp_path.iterdir()}
    assert "mine.txt" in left
    assert {"output-204.txt", "output-000.txt", "output-003.txt"} & left == set()
    assert "output-203.txt" in left
    assert len(left) == 202


def test_all_files_together_are_bounded_too(tmp_path: Path) -> None:
    for number in range(20):
        file = tmp_path / f"output-{number:02}.txt"
        with file.open("wb") as opened:
            opened.truncate(100 << 20)
    SpillFolder(tmp_path).prune()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1 << 30
