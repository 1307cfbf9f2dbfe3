"""Standard input and output: nothing else reads or writes them, and lines come whole or not at all."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from ferrule.mcp_server import opening as standard_streams
from ferrule.mcp_server.opening import TOO_LONG, Lines, claim_stdio


def test_claiming_leaves_nothing_to_read_and_sends_prints_to_the_errors() -> None:
    program = (
        "import os, sys\n"
        "from ferrule.mcp_server.opening import claim_stdio\n"
        "reading, writing = claim_stdio()\n"
        "print('to the errors'); sys.stdout.flush()\n"
        "assert os.read(0, 10) == b''\n"
        "os.write(writing, os.read(reading, 10))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=b"wire", capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"wire", b"to the errors\n")
    assert claim_stdio is not None
    assert os.get_inheritable(1)


def given(*pieces: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    for piece in pieces:
        reader.feed_data(piece)
    return reader


async def test_lines_come_one_by_one_however_they_were_cut() -> None:
    reader = given(b"on", b"e\ntw", b"o\n\nthree\nhalf")
    reader.feed_eof()
    lines = Lines(reader, -1)
    assert [await lines.read() for _ in range(5)] == [b"one", b"two", b"", b"three", None]
    assert await lines.read() is None


async def test_a_reading_that_is_cancelled_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard_streams, "LINE_BYTES", 10)
    reader = given(b"begun ")
    lines = Lines(reader, -1)
    for more in (b"and", b" far too long", b" to be taken"):
        reading = asyncio.ensure_future(lines.read())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        reader.feed_data(more)
    reader.feed_data(b"\nnext\n")
    assert await lines.read() == TOO_LONG
    assert await lines.read() == b"next"
