"""Reading what a command writes, as it comes."""

from __future__ import annotations

import asyncio
import os

from ferrule.process.output import OutputRecord, Piece
from ferrule.process.shell.running import OutputReader


def test_it_is_read_while_it_comes_and_shown_clean() -> None:
    async def main() -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        reader = OutputReader({reading: "stdout"}, OutputRecord())
        seen: list[Piece] = []
        reader.on_output = seen.append
        reader.start(asyncio.get_running_loop())
        data = "é\x1b[31m中\r\n".encode()
        for place, byte in enumerate(data):
            os.write(writing, bytes([byte]))
            while reader.record.total <= place:
                await asyncio.sleep(0)
        assert "".join(piece.text for piece in seen) == "é中\n"
        assert reader.record.total == len(data)
        os.close(writing)
        await reader.until_closed(20)
        reader.stop()
        os.close(reading)

    asyncio.run(main())


def test_the_rest_is_what_was_written_by_then() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, b"x" * 50_000 + b"\xe4")
    reader = OutputReader({reading: "stdout"}, OutputRecord())
    seen: list[Piece] = []
    reader.on_output = seen.append
    reader.take_rest()
    assert reader.record.total == 50_001
    assert "".join(piece.text for piece in seen).endswith("x\ufffd")
    assert {inode for _, inode in reader.pipe_files()} == {os.fstat(writing).st_ino}
    os.close(writing)
    os.close(reading)
