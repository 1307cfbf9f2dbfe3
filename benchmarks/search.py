"""Grep and Glob under the rules of the command line against the bare `rg` on a large tree: the same output, and how
much longer it takes.

    python benchmarks/search.py [--files 20000] [--rounds 25] [--only WORDS] [--json]

Exits with 1 when the output differs, a search takes more than 1.25 times what `rg` takes, or its first results come
after 100 ms. The tree lies as deep as a project does in someone's home: what the kernel checks at each open depends on
it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from _measure import Row, report
from ferrule import RawCall
from ferrule.core.events import PartialOutput
from ferrule.workspace.paths import Paths
from ferrule.workspace.searching.ripgrep import find_ripgrep
from growth import default_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferrule import Runtime

MOST_RATIO, MOST_MILLISECONDS_TO_FIRST = 1.25, 100.0
BARE = ("--no-config", "--color=never", "--hidden", "--glob=!.git", "--glob=!node_modules")
DEPTH = "home/someone/work/company/team"


def in_any_order(theirs: Sequence[str], ours: Sequence[str]) -> bool:
    return sorted(theirs) == sorted(ours)


def in_this_order(theirs: Sequence[str], ours: Sequence[str]) -> bool:
    return theirs == ours


def the_first_by_name(theirs: Sequence[str], ours: Sequence[str]) -> bool:
    return len(ours) > 500 and sorted(theirs, key=os.fsencode)[: len(ours)] == ours


def the_first_of_them(theirs: Sequence[str], ours: Sequence[str]) -> bool:
    return len(ours) > 500 and theirs[: len(ours)] == ours


@dataclass(slots=True, frozen=True)
class Case:
    """A search by either way. `same` tells whether both found the same; rg in `bare` gives what Ferrule shows."""

    name: str
    tool: str
    arguments: dict[str, Any]
    bare: tuple[str, ...]
    same: Callable[[Sequence[str], Sequence[str]], bool] = in_any_order


def in_contents(name: str, pattern: str, mode: str, *flags: str, **more: Any) -> Case:
    arguments = {"pattern": pattern, "output_mode": mode, "head_limit": 0, **more}
    bare = {"content": ("-nH", "--no-heading"), "count": ("-cH",), "files_with_matches": ("-l",)}[mode]
    same = the_first_by_name if "every file" in name else in_any_order
    return Case(f"Grep, {name}", "Grep", arguments, (*bare, *flags, "--", pattern, "./"), same)


CASES = (
    in_contents("literal, no match", "absent_from_all", "content"),
    in_contents("literal, names of 500 files", "needle_here", "files_with_matches"),
    in_contents("literal, 500 lines", "needle_here", "content"),
    in_contents("literal, 100 lines, 2 around each", "pin_here", "content", "-C2", **{"-C": 2}),
    in_contents("literal, counts of 500 files", "needle_here", "count"),
    in_contents("literal, names of 2,000 files", "hay_here", "files_with_matches"),
    in_contents("any case, 500 lines", "NEEDLE_here", "content", "-i", **{"-i": True}),
    in_contents("regex, 500 lines", r"needle_\w+\s=\s\d", "content"),
    in_contents("regex, names of 500 files", r"\bneed[l-m]e_[^ ]+ = [0-9]+$", "files_with_matches"),
    in_contents("regex, counts of 2,000 files", r"\b(hay|straw)_here\b", "count"),
    in_contents("names of every file, the first shown", "e", "files_with_matches"),
    Case(
        "Glob, 1,000 files, newest first",
        "Glob",
        {"pattern": "*.rare"},
        ("--files", "--glob=*.rare", "--sortr=modified", "./"),
        in_this_order,
    ),
    Case(
        "Glob, every file, the newest 1,000 shown",
        "Glob",
        {"pattern": "**/file_*"},
        ("--files", "--glob=**/file_*", "--sortr=modified", "./"),
        the_first_of_them,
    ),
)


def plant(folder: Path, files: int) -> None:
    """Text in a tree like that of a large project; some hold the needle, more the hay, some have a rare name."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9))) for _ in range(2000)]
    for number in range(files):
        inner = folder / f"package_{number % 37}" / f"module_{number // 37 % 25}"
        inner.mkdir(parents=True, exist_ok=True)
        lines = [" ".join(chance.choices(words, k=6)) for _ in range(chance.randint(20, 120))]
        if number % 40 == 0:
            lines[7] += " needle_here = 1"
        if number % 200 == 0:
            lines[11] += " pin_here"
        if number % 10 == 1:
            lines[9] += " hay_here"
        ending = "rare" if number % 20 == 10 else chance.choice(["py", "js", "md"])
        path = inner / f"file_{number}.{ending}"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # no two of one moment
    (folder / ".git").mkdir()  # rg counts `.gitignore` only in a repository
    for package in range(37):
        folder.joinpath(f"package_{package}", ".gitignore").write_text("*.pyc\nbuild/\n")


def bare(program: str, folder: Path, case: Case) -> tuple[float, list[str]]:
    began = perf_counter()
    done = subprocess.run([program, *BARE, *case.bare], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)
    taken = perf_counter() - began
    lines = done.stdout.decode().splitlines()
    return taken, [line.removeprefix("./") for line in lines if line != "--"]  # which rg also puts between files


async def ours(runtime: Runtime, case: Case) -> tuple[float, list[str]]:
    began = perf_counter()
    result = await runtime.run(case.tool, case.arguments)
    taken = perf_counter() - began
    assert result.success, result.llm_content
    return taken, [line for line in result.llm_content.splitlines()[1:] if not line.startswith("[")]


async def time_to_first(runtime: Runtime, case: Case) -> float:
    """Until somebody who watches sees the first results."""
    began = perf_counter()
    async for event in runtime.stream(RawCall(case.tool, case.arguments)):
        if isinstance(event, PartialOutput):
            return perf_counter() - began
    raise AssertionError("a search that finds something shows it")


async def measure(folder: Path, rounds: int, only: str) -> list[Row]:
    program = find_ripgrep(Paths([folder]))
    rows: list[Row] = []
    async with default_runtime(folder) as runtime:
        await _measure_cases(runtime, program, folder, rounds, [one for one in CASES if only in one.name], rows)
    return rows


async def _measure_cases(
    runtime: Runtime, program: str, folder: Path, rounds: int, cases: Sequence[Case], rows: list[Row]
) -> None:
    for case in cases:
        theirs, mine = bare(program, folder, case)[1], (await ours(runtime, case))[1]
        if not case.same(theirs, mine):
            sys.exit(f"{case.name}: rg gave {len(theirs):,} lines, Ferrule {len(mine):,}, and they differ.")
        pairs: list[tuple[float, float]] = []
        for _ in range(rounds):  # by turns, so that a busy machine slows both
            peer = bare(program, folder, case)[0]
            pairs.append(((await ours(runtime, case))[0], peer))
        best, peer = min(a for a, _ in pairs), min(b for _, b in pairs)
        note = f"{best * 1e3:.0f} ms against {peer * 1e3:.0f} ms; median {median(a / b for a, b in pairs):.2f}×"
        rows.append(Row(case.name, best / peer, "×", MOST_RATIO, note))
        if theirs:
            first = [await time_to_first(runtime, case) for _ in range(5)]
            note = f"slowest of five {max(first) * 1e3:.0f} ms"
            rows.append(Row("   its first results", median(first) * 1e3, "ms", MOST_MILLISECONDS_TO_FIRST, note))


def main() -> int:
    parser = argparse.ArgumentParser(description="Grep and Glob against the bare rg command.")
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--only", default="", help="measure the searches with these words in their names")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ferrule-search-") as top:
        folder = Path(top, DEPTH, "project")
        plant(folder, chosen.files)
        rows = asyncio.run(measure(folder, chosen.rounds, chosen.only))
    return report(rows, as_json=chosen.json)


if __name__ == "__main__":
    raise SystemExit(main())
