"""Thousands of edits: what the history takes of the disk, and whether the last edits cost more than the first."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from _files_session import FilesSession, lines_of_code
from _measure import Row
from ferrule.workspace.paths import Paths
from ferrule.workspace.snapshots.changes import Caps
from ferrule.workspace.snapshots.history import History

if TYPE_CHECKING:
    from pathlib import Path

_SIZE = 150_000
_TIGHT = Caps(total=16 * 1024 * 1024, changes=500)
MOST_GROWTH = 1.5


async def measure_store(folder: Path, edits: int) -> list[Row]:
    return [*await _by_the_tool(folder / "many", edits), *_with_tight_caps(folder / "tight", edits)]


async def _by_the_tool(folder: Path, edits: int) -> list[Row]:
    """Through the pipeline, with the caps as they are. What is kept of each edit is large enough to reach them."""
    session = FilesSession(folder)
    path = session.workspace / "module.py"
    lines = lines_of_code(_SIZE)
    lines[len(lines) // 2] = "counter = 0"
    path.write_text("\n".join(lines) + "\n")
    await session.call("Read", file_path=path.name)
    costs: list[float] = []
    most = 0
    for number in range(edits):
        await session.call(
            "Edit", file_path=path.name, old_string=f"counter = {number}\n", new_string=f"counter = {number + 1}\n"
        )
        costs.append(session.cpu * 1e3)
        if number % 500 == 499:
            most = max(most, _on_disk(session.history))
    cap = Caps().total
    part = max(1, edits // 10)
    first, last = median(costs[:part]), median(costs[-part:])
    return [
        Row(f"c. store after {edits:,} edits", most / 1e6, "MB", cap / 1e6, f"a file of {_SIZE:,} bytes; on the disk"),
        Row(
            "   last edits against first", last / first, "×", MOST_GROWTH, f"CPU of one: {first:.2f} ms, {last:.2f} ms"
        ),
    ]


def _with_tight_caps(folder: Path, edits: int) -> list[Row]:
    """The same store with little room: what is oldest goes with every edit."""
    workspace = folder / "workspace"
    workspace.mkdir(parents=True)
    paths = Paths([workspace])
    history = History(folder / "history", paths, _TIGHT)
    place = paths.locate("module.py")
    text = "\n".join(lines_of_code(_SIZE))
    most = kept = 0
    for number in range(edits):
        history.write(place, f"{number}\n{text}".encode())
        if number % 250 == 249:
            most = max(most, _on_disk(folder / "history"))
            kept = max(kept, len(history.recent(10 * _TIGHT.changes)))
    history.close()
    return [
        Row("   with a cap of 16 MiB", most / 1e6, "MB", _TIGHT.total / 1e6, f"after {edits:,} writes"),
        Row("   with a cap of 500 changes", kept, "", _TIGHT.changes, "the most that were there"),
    ]


def _on_disk(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
