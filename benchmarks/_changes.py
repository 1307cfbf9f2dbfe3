"""What one change of a file costs, against the bare work: read, replace, write beside, flush, rename, flush."""

from __future__ import annotations

import os
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from _files_session import FilesSession, lines_of_code
from _measure import Row

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

MOST_MILLISECONDS = 20.0
_LARGE, _SMALL = 1_000_000, 2_000


async def measure_changes(folder: Path, rounds: int) -> list[Row]:
    return [
        *await _measure(folder / "large", "b. Edit of a 1 MB file", _edit, _LARGE, rounds, MOST_MILLISECONDS),
        *await _measure(folder / "multi", "   MultiEdit of it, 5 places", _multi_edit, _LARGE, rounds, None),
        *await _measure(folder / "whole", "   Write of it, one line other", _write, _LARGE, rounds, None),
        *await _measure(folder / "small", "   Edit of a 2 kB file", _edit, _SMALL, 3 * rounds, MOST_MILLISECONDS),
    ]


async def _edit(session: FilesSession, name: str, number: int) -> None:
    await session.call(
        "Edit", file_path=name, old_string=f"counter_2 = {number}\n", new_string=f"counter_2 = {number + 1}\n"
    )


async def _multi_edit(session: FilesSession, name: str, number: int) -> None:
    edits = [
        {"old_string": f"counter_{at} = {number}\n", "new_string": f"counter_{at} = {number + 1}\n"} for at in range(5)
    ]
    await session.call("MultiEdit", file_path=name, edits=edits)


async def _write(session: FilesSession, name: str, number: int) -> None:
    text = (session.workspace / name).read_text().replace(f"counter_2 = {number}\n", f"counter_2 = {number + 1}\n")
    await session.call("Write", file_path=name, content=text)


async def _measure(
    folder: Path,
    title: str,
    change: Callable[[FilesSession, str, int], Awaitable[None]],
    size: int,
    rounds: int,
    bar: float | None,
) -> list[Row]:
    session = FilesSession(folder)
    lines = lines_of_code(size)
    for at in range(5):
        lines[len(lines) * (at + 1) // 6] = f"counter_{at} = 0"
    path, beside = session.workspace / "module.py", session.workspace / "bare.py"
    for one in (path, beside):
        one.write_text("\n".join(lines) + "\n")
    await session.call("Read", file_path=path.name)
    walls: list[float] = []
    cpus: list[float] = []
    bare: list[tuple[float, float]] = []
    for number in range(rounds):  # by turns, so that a busy disk slows both
        await change(session, path.name, number)
        walls.append(session.wall * 1e3)
        cpus.append(session.cpu * 1e3)
        bare.append(_bare_edit(beside, number))
    counter = f"counter_2 = {rounds}\n"
    assert counter in path.read_text()
    assert beside.read_text().count(counter) == 1
    note = (
        f"median {median(walls):.1f} ms, {median(cpus):.1f} ms of CPU; "
        f"bare {min(one for one, _ in bare):.1f} ms, median {median(one for one, _ in bare):.1f} ms, "
        f"{median(one for _, one in bare):.1f} ms of CPU"
    )
    return [Row(title, min(walls), "ms", bar, note)]


def _bare_edit(path: Path, number: int) -> tuple[float, float]:
    """What any program must do that changes a file safely; no check, no history, no diff. Milliseconds, and of CPU."""
    began, began_cpu = perf_counter(), process_time()
    data = path.read_bytes()
    changed = data.replace(b"counter_2 = %d\n" % number, b"counter_2 = %d\n" % (number + 1))
    temporary = path.with_name(".bare-new")
    with temporary.open("xb") as file:
        file.write(changed)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    return (perf_counter() - began) * 1e3, (process_time() - began_cpu) * 1e3
