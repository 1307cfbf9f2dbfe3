"""The file with the whole output."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ferrule.process.spill import SpillFolder


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


def test_it_stops_at_its_bound_and_says_so(tmp_path: Path) -> None:
    spill = SpillFolder(tmp_path, largest=5).open()
    spill.write(b"1234")
    spill.write(b"5678")
    spill.write(b"9")
    assert spill.path.read_bytes() == b"12345"
    assert spill.full == "it was cut at its bound of 5 bytes"
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
