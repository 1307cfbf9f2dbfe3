"""What reading and changing files costs, through the whole pipeline: `python benchmarks/files.py`.

Prints a table and exits with 1 when a bar is missed. `--quick` takes smaller files and fewer rounds. It needs 2 GB of
room in the folder for temporary files.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from _changes import measure_changes
from _measure import report
from _pages import measure_pages
from _store import measure_store

if TYPE_CHECKING:
    from _measure import Row


async def measure(folder: Path, *, quick: bool) -> list[Row]:
    # Pages first: what other parts take of memory would be counted there.
    return [
        *await measure_pages(folder, size=200_000_000 if quick else 2_000_000_000),
        *await measure_changes(folder, rounds=20 if quick else 100),
        *await measure_store(folder, edits=1_000 if quick else 10_000),
    ]


def main() -> int:
    arguments = argparse.ArgumentParser(description="What reading and changing files costs.")
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments.add_argument("--quick", action="store_true", help="smaller files and fewer rounds")
    chosen = arguments.parse_args()
    with TemporaryDirectory(prefix="ferrule-files-") as folder:
        rows = asyncio.run(measure(Path(folder), quick=chosen.quick))
    return report(rows, as_json=chosen.json)


if __name__ == "__main__":
    raise SystemExit(main())
