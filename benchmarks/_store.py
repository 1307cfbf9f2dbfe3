"""Thousands of edits: what the history takes of the disk, and whether an edit then costs more than in a new one."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from _files_session import FilesSession, lines_of_code
from _measure import Row
from ferrule.workspace.paths import Paths
from ferrule.workspace.snapshots.changes import Caps, Write
from ferrule.workspace.snapshots.history import History

if TYPE_CHECKING:
    from pathlib import Path

_SIZE = 150_000
_LITTLE_ROOM = Caps(total=16 * 1024 * 1024)
_FEW_CHANGES = Caps(changes=500)
_TURNS = 200
MOST_GROWTH = 1.25


async def measure_store(folder: Path, edits: int) -> list[Row]:
    room, _ = _with_caps(folder / "room", edits, _SIZE, _LITTLE_ROOM)
    _, kept = _with_caps(folder / "few", edits, 100, _FEW_CHANGES)
    return [
        *await _by_the_tool(folder / "many", edits),
        Row("   with a cap of 16 MiB", room / 1e6, "MB", _LITTLE_ROOM.total / 1e6, f"after {edits:,} writes"),
        Row("   with a cap of 500 changes", kept, "", _FEW_CHANGES.changes, f"the most that {edits:,} writes left"),
    ]


async def _by_the_tool(folder: Path, edits: int) -> list[Row]:
    """Through the pipeline, with the caps as they are. What is kept of each edit is large enough to reach them."""
    full, new = await _session(folder / "full"), await _session(folder / "new")
    most = 0
    for number in range(edits):
        await _edit(full, number)
        if number % 500 == 499:
            most = max(most, _on_disk(full.history))
    costs: list[tuple[float, float]] = []
    for turn in range(_TURNS):
        costs.append((await _edit(full, edits + turn), await _edit(new, turn)))
    last, first = median(one for one, _ in costs), median(one for _, one in costs)
    cap = Caps().total / 1e6
    return [
        Row(f"c. store after {edits:,} edits", most / 1e6, "MB", cap, f"a file of {_SIZE:,} bytes; on the disk"),
        Row("   an edit then, against a new store", last / first, "×", MOST_GROWTH, f"CPU {last:.2f} / {first:.2f} ms"),
    ]


async def _session(folder: Path) -> FilesSession:
    session = FilesSession(folder)
    lines = lines_of_code(_SIZE)
    lines[len(lines) // 2] = "counter = 0"
    (session.workspace / "module.py").write_text("\n".join(lines) + "\n")
    await session.call("Read", file_path="module.py")
    return session


async def _edit(session: FilesSession, number: int) -> float:
    """Milliseconds of CPU."""
    old, new = f"counter = {number}\n", f"counter = {number + 1}\n"
    await session.call("Edit", file_path="module.py", old_string=old, new_string=new)
    return session.cpu * 1e3


def _with_caps(folder: Path, edits: int, size: int, caps: Caps) -> tuple[int, int]:
    """The most bytes and changes that were there: once the caps are reached, what is oldest goes with every edit."""
    workspace = folder / "workspace"
    workspace.mkdir(parents=True)
    paths = Paths([workspace])
    history = History(folder / "history", paths, caps)
    place = paths.locate("module.py")
    text = "\n".join(lines_of_code(size))
    most = kept = 0
    for number in range(edits):
        history.apply([Write(place, f"{number}\n{text}".encode())])
        if number % 250 == 249:
            most = max(most, _on_disk(folder / "history"))
            kept = max(kept, len(history.recent(10 * _FEW_CHANGES.changes)))
    history.close()
    return most, kept


def _on_disk(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
