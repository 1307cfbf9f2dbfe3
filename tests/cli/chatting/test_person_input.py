"""Whole lines from a terminal or a pipe; a pipe is never a person."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ferrule.cli.chatting.input import PlainInput


@contextmanager
def piped(data: bytes) -> Generator[PlainInput]:
    read, write = os.pipe()
    os.write(write, data)
    os.close(write)
    with os.fdopen(read) as stream:
        yield PlainInput(stream, lambda words: None)


async def test_lines_come_one_by_one_until_the_end() -> None:
    with piped("one\r\n中文 two\\\nand more\nlast".encode()) as person:
        assert person.by_person is False
        assert [await person.message() for _ in range(3)] == ["one", "中文 two\nand more", "last"]
        with pytest.raises(EOFError):
            await person.message()


async def test_what_is_no_utf8_is_no_failure() -> None:
    with piped(b"a\xff\n") as person:
        assert await person.message() == "a\ufffd"


async def test_a_file_can_be_read_too(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\n")
    with (tmp_path / "lines").open() as file:
        person = PlainInput(file, lambda words: None)
        assert await person.message() == "one"
        with pytest.raises(EOFError):
            await person.message()


async def test_an_interrupt_ends_the_wait_and_the_next_line_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as stream:
        person = PlainInput(stream, lambda words: None)
        assert person.by_person is True
        asyncio.get_running_loop().call_soon(person.interrupt)
        with pytest.raises(KeyboardInterrupt):
            await person.message()
        os.write(ours, b"now\n")
        assert await person.message() == "now"
    os.close(ours)


async def test_an_answer_is_not_what_was_typed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as stream:
        monkeypatch.setattr("sys.stdin", stream)

        def answered(words: str) -> None:
            if words == "? ":
                os.write(ours, b"n because\n")

        person = PlainInput(stream, answered)
        os.write(ours, b"one\ny\n")
        assert await person.message() == "one"
        assert await person.answer() == "n because"
    os.close(ours)
