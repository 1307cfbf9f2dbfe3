"""Pages of huge files: how long one takes, and how much memory."""

from __future__ import annotations

import os
import random
import resource
from statistics import median
from typing import TYPE_CHECKING

from _files_session import FilesSession
from _measure import Row

if TYPE_CHECKING:
    from pathlib import Path

MOST_MILLISECONDS, MOST_MEGABYTES = 50.0, 32.0
_PAGE = 2000
_HUGE = 5_000_000_000


async def measure_pages(folder: Path, size: int) -> list[Row]:
    session = FilesSession(folder / "pages")
    log, name = session.workspace / "service.log", "service.log"
    lines = _write_log(log, size)
    await session.call("Read", file_path=name, limit=1)  # what is made at the first call, and once
    before = _peak_memory()
    start = await _page(session, name, 0)
    first_end = await _page(session, name, lines - _PAGE)
    end = [await _page(session, name, lines - _PAGE) for _ in range(20)]
    anywhere = [await _page(session, name, lines * at // 50) for at in range(1, 49)]
    grown: list[float] = []
    for count in range(20):
        with log.open("a") as file:
            file.write("one more line\n" * 50)
        grown.append(await _page(session, name, lines + 50 * count, 50))
    memory = _peak_memory() - before
    os.truncate(log, _HUGE)  # longer, without taking more of the disk
    huge = await _page(session, name, 0)
    log.unlink()
    before = _peak_memory()
    one_line = await _one_line(session, size)
    line_memory = _peak_memory() - before
    what = f"{size / 1e9:g} GB, {lines:,} lines"
    return [
        _row("a. Read, last page", end, f"{what}"),
        Row("   for the first time, lines counted", first_end, "ms", None, "once for a file"),
        _row("   first page, nothing counted", [start]),
        _row("   pages all over it", anywhere),
        _row("   last page of a log that grows", grown),
        _row("   first page of 5 GB", [huge]),
        Row("   memory for all of these", memory, "MB", MOST_MEGABYTES, "its peak, above the peak before"),
        Row("   one line without an end", one_line, "ms", None, f"{size / 1e9:g} GB; counted as a whole"),
        Row("   memory for it", line_memory, "MB", MOST_MEGABYTES, "the same"),
    ]


async def _page(session: FilesSession, name: str, offset: int, limit: int = _PAGE) -> float:
    """Milliseconds for one page, which must be the right one."""
    result = await session.call("Read", file_path=name, offset=offset, limit=limit)
    assert result.metadata["lines_read"] == limit, result.metadata
    assert result.llm_content.lstrip().startswith(f"{offset + 1}\t"), result.llm_content[:80]
    return session.wall * 1e3


async def _one_line(session: FilesSession, size: int) -> float:
    path = session.workspace / "line.json"
    piece = b"0123456789abcdef" * (1 << 12)
    with path.open("wb") as file:
        for _ in range(size // len(piece)):
            file.write(piece)
    result = await session.call("Read", file_path="line.json")
    assert result.metadata["lines_read"] == 1, result.metadata
    assert len(result.llm_content) < 5_000
    path.unlink()
    return session.wall * 1e3


def _write_log(path: Path, size: int) -> int:
    """A log of about this size; gives the number of its lines."""
    chance = random.Random(3)
    entries = [
        f"2026-10-{chance.randint(1, 30):02} {chance.randint(0, 23):02}:{chance.randint(0, 59):02} INFO "
        f"worker-{chance.randint(1, 64)} handled {chance.getrandbits(64):x} in {chance.randint(1, 900)} ms\n"
        for _ in range(5_000)  # few, so that making them takes no memory that would hide what reading takes
    ]
    block = "".join(entries).encode()
    blocks = max(1, size // len(block))
    with path.open("wb") as file:
        for _ in range(blocks):
            file.write(block)
    return blocks * len(entries)


def _row(name: str, taken: list[float], note: str = "") -> Row:
    slowest = f"slowest of {len(taken)} {max(taken):.1f} ms" if len(taken) > 1 else ""
    return Row(name, median(taken), "ms", MOST_MILLISECONDS, "; ".join(filter(None, (slowest, note))))


def _peak_memory() -> float:
    """The most memory that the process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
