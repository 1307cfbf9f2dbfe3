"""Pages of files of any size (issue "Files": offset and limit on a 5 GB log)."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.workspace.problems import PathError
from ferrule.workspace.texts import pages
from ferrule.workspace.texts import pages as line_index
from ferrule.workspace.texts.pages import LineIndexes, Page, read_lines


@contextmanager
def as_if_huge() -> Generator[None]:
    """Every file is read through an index with tiny blocks."""
    with (
        patch.object(line_index, "BLOCK", 16),
        patch.object(pages, "BLOCK", 16),
        patch.object(pages, "WHOLE", -1),
    ):
        yield


def page(data: bytes, offset: int, limit: int, longest: int = 2000) -> Page | None:
    with TemporaryFile() as file:
        file.write(data)
        file.flush()
        return read_lines(file.fileno(), offset, limit, longest=longest, indexes=LineIndexes())


CONTENT = st.lists(st.sampled_from(["a", "bcd", "é", "中文", "\n", "\r\n", "\r", "x" * 17]), max_size=40).map("".join)


@settings(deadline=None)
@given(CONTENT, st.integers(0, 20), st.integers(1, 20))
def test_a_huge_file_reads_as_a_small_one_does(text: str, offset: int, limit: int):
    small = page(text.encode(), offset, limit, longest=3)
    with as_if_huge():
        huge = page(text.encode(), offset, limit, longest=3)
    assert small == huge
    assert small is not None
    truth = [line.decode() for line in text.encode().splitlines()]
    assert small.lines == tuple(line[:3] for line in truth[offset : offset + limit])
    assert (small.total, small.first, small.has_more) == (len(truth), offset + 1, offset + limit < len(truth))
    assert small.cut == {
        number: len(line.encode())
        for number, line in enumerate(truth, start=1)
        if offset < number <= offset + limit and len(line) > 3
    }


def test_past_the_end_the_page_says_how_many_lines_there_are():
    expected = Page((), 11, 2, has_more=False, encoding="utf-8")
    assert page(b"a\nb\n", 10, 5) == expected
    with as_if_huge():
        assert page(b"a\nb\n", 10, 5) == expected


def test_an_empty_file_has_no_lines():
    assert page(b"", 0, 5) == Page((), 1, 0, has_more=False, encoding="utf-8")


def test_binary_files_have_no_pages():
    assert page(b"\x7fELF\0\0\0\1", 0, 5) is None
    with as_if_huge():
        assert page(b"\x7fELF\0\0\0\1" * 20, 0, 5) is None
        assert page(bytes(range(1, 256)) * 4, 0, 5) is None


@pytest.mark.parametrize("encoding", ["gb18030", "utf-8-sig", "utf-16"])
def test_huge_files_in_other_encodings(encoding: str):
    text = "plain\n" * 20 + "这是注释的内容，读取用户的配置文件\n" * 3
    with as_if_huge():
        found = page(text.encode(encoding), 20, 2)
        first = page(text.encode(encoding), 0, 1)
    assert found is not None
    assert found.lines == ("这是注释的内容，读取用户的配置文件",) * 2
    assert first is not None
    assert first.lines == ("plain",)


def test_a_page_in_another_encoding_than_the_start_of_the_file_is_still_read(tmp_path: Path):
    log = tmp_path / "log"
    log.write_bytes(b"plain ascii\n" * 400_000 + "错误：无法读取文件\n".encode("gb18030"))
    with log.open("rb") as opened:
        found = read_lines(opened.fileno(), 399_999, 5)
    assert found is not None
    assert found.lines == ("plain ascii", "错误：无法读取文件")
    assert found.encoding == "gb18030"


def test_one_line_of_many_megabytes_takes_little_memory(tmp_path: Path):
    path = tmp_path / "one-line"
    with path.open("wb") as opened:
        opened.truncate(0)
        for _ in range(64):
            opened.write(b"x" * 1_000_000)
        opened.write(b"\r\nlast")
    with path.open("rb") as opened:
        tracemalloc.start()
        found = read_lines(opened.fileno(), 0, 10, indexes=LineIndexes())
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert found is not None
    assert found.lines == ("x" * 2000, "last")
    assert found.cut == {1: 64_000_000}
    assert most < 3_000_000


def test_the_first_page_of_a_huge_file_counts_nothing_else(tmp_path: Path):
    path = tmp_path / "sparse"
    with path.open("wb") as opened:
        opened.write(b"text\n" * 100_000)
        opened.truncate(50_000_000_000)
    with path.open("rb") as opened:
        found = read_lines(opened.fileno(), 50_000, 2, indexes=LineIndexes())
    assert found == Page(("text", "text"), 50_001, None, has_more=True, encoding="utf-8")


def test_huge_utf16_is_refused_in_words(tmp_path: Path):
    path = tmp_path / "wide"
    with path.open("wb") as opened:
        opened.write("text\n".encode("utf-16") + "text\n".encode("utf-16-le") * 10_000)
        opened.truncate(pages.WHOLE_IF_WIDE + 2)
    with path.open("rb") as opened, pytest.raises(PathError) as refused:
        read_lines(opened.fileno(), 0, 2)
    assert (refused.value.code, str(refused.value), refused.value.suggestion) == snapshot(
        (
            "too_large",
            "The file is in UTF-16 or UTF-32 and has 67,108,866 bytes; pages of such files are read up to 67,108,864.",
            "Convert it to UTF-8 first, with `iconv` for example.",
        )
    )


def test_a_log_that_changes_between_pages_is_read_as_it_is_now(tmp_path: Path):
    log = tmp_path / "log"
    log.write_bytes(b"0123456\n" * 1_000_000)
    indexes = LineIndexes()
    with log.open("r+b") as opened:
        before = read_lines(opened.fileno(), 999_999, 1, indexes=indexes)
        os.pwrite(opened.fileno(), b"\n\n\n\n\n\n\n\n", 400_000 * 8)
        os.pwrite(opened.fileno(), b"changed", 8_000_000 - 8)
        after = read_lines(opened.fileno(), 1_000_006, 1, indexes=indexes)
    assert before is not None
    assert before.lines == ("0123456",)
    assert after is not None
    assert (after.lines, after.total) == (("changed",), 1_000_007)
