"""Where lines are in files too large to read."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.workspace.texts import pages as line_index
from ferrule.workspace.texts.pages import FileChanged, LineIndex, LineIndexes, endings

CONTENT = st.lists(st.sampled_from([b"a", b"bcd", b"\n", b"\r\n", b"\r", b"12345678"]), max_size=40).map(b"".join)


@contextmanager
def small_blocks() -> Generator[None]:
    with patch.object(line_index, "BLOCK", 8):
        yield


def starts(data: bytes) -> list[int]:
    """The truth, the slow way."""
    places, at = [], 0
    for line in data.splitlines(keepends=True):
        places.append(at)
        at += len(line)
    return places


def found_starts(descriptor: int, index: LineIndex, lines: int) -> list[int | None]:
    return [index.start_of(descriptor, line) for line in range(lines)]


@settings(deadline=None)
@given(CONTENT, st.booleans())
def test_endings_are_those_of_splitlines(data: bytes, long_lines: bool):
    whole = data.splitlines(keepends=True)
    assert endings(data, long_lines=long_lines) == sum(line.endswith((b"\n", b"\r")) for line in whole)


@settings(deadline=None)
@given(CONTENT, st.integers(0, 60))
def test_every_line_is_found_where_it_starts(data: bytes, first: int):
    truth = starts(data)
    with small_blocks(), TemporaryFile() as file:
        file.write(data)
        file.flush()
        index = LineIndex(len(data))
        asked_first = index.start_of(file.fileno(), first)
        assert asked_first == (truth[first] if first < len(truth) else None)
        assert found_starts(file.fileno(), index, len(truth)) == truth
        assert index.start_of(file.fileno(), len(truth)) is None
        index.count_all(file.fileno())
        assert index.total == len(truth)


@settings(deadline=None)
@given(CONTENT, CONTENT, st.integers(0, 60))
def test_a_log_that_grew_is_counted_as_if_it_were_new(before: bytes, more: bytes, asked: int):
    truth = starts(before + more)
    with small_blocks(), TemporaryFile() as file:
        file.write(before)
        file.flush()
        index = LineIndex(len(before))
        index.start_of(file.fileno(), asked)
        file.write(more)
        file.flush()
        index.grow(file.fileno(), len(before + more))
        assert found_starts(file.fileno(), index, len(truth)) == truth
        index.count_all(file.fileno())
        assert index.total == len(truth)


def test_only_as_much_is_counted_as_is_needed(tmp_path: Path):
    file = tmp_path / "log"
    file.write_bytes(b"a line of text\n" * 100_000)
    with file.open("rb") as opened:
        index = LineIndex(file.stat().st_size)
        assert index.start_of(opened.fileno(), 10) == 150
        assert index.counted == line_index.BLOCK
        assert index.total is None


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_bytes(b"0123456\n" * 100_000)
    return path


def counted_before(indexes: LineIndexes, path: Path) -> int:
    """How much of a file is known already when somebody asks; everything is, afterwards."""
    with path.open("rb") as opened, indexes.of(opened.fileno()) as index:
        known = index.counted
        index.count_all(opened.fileno())
        return known


def test_a_file_is_counted_once(log: Path):
    indexes = LineIndexes()
    assert counted_before(indexes, log) == 0
    assert counted_before(indexes, log) == 800_000


def test_a_log_that_grew_is_only_counted_on(log: Path):
    indexes = LineIndexes()
    counted_before(indexes, log)
    with log.open("ab") as opened:
        opened.write(b"more\n")
    assert counted_before(indexes, log) == 800_000 // line_index.BLOCK * line_index.BLOCK


def test_a_file_that_changed_is_counted_anew(log: Path):
    """P11: also one with the same size and the same times, where the change is at a spot that is looked at."""
    indexes = LineIndexes()
    counted_before(indexes, log)
    before = log.stat()
    with log.open("r+b") as opened:
        opened.write(b"\n")
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert counted_before(indexes, log) == 0
    with log.open("r+b") as opened:
        opened.truncate(400_000)
    assert counted_before(indexes, log) == 0


def test_a_log_that_was_rewritten_longer_is_counted_anew(log: Path):
    indexes = LineIndexes()
    counted_before(indexes, log)
    log.write_bytes(b"another\n" * 200_000)
    assert counted_before(indexes, log) == 0


def test_a_block_that_changed_unnoticed_is_noticed_when_it_is_read(log: Path):
    with log.open("r+b") as opened:
        index = LineIndex(800_000)
        index.count_all(opened.fileno())
        os.pwrite(opened.fileno(), b"\n", 300_000)
        with pytest.raises(FileChanged):
            index.start_of(opened.fileno(), 40_000)


def test_only_so_many_files_are_remembered(tmp_path: Path):
    indexes = LineIndexes(most=2)
    files = [tmp_path / name for name in "abc"]
    for file in files:
        file.write_bytes(b"x\n")
        counted_before(indexes, file)
    assert [counted_before(indexes, file) for file in reversed(files)] == [2, 2, 0]
