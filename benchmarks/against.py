"""This code against an older commit of it, in one run: `python benchmarks/against.py COMMIT [BENCHMARK …]`.

The commit is checked out into a folder of its own. Each benchmark runs there and here in turn, as each has it, and
every row that both have is compared: the best figures, their ratio, and the lowest and highest ratio of a round. Exits
with 1 when a row is worse by more than 5 %, and memory by more than half a megabyte too, which is what a module takes
that is first imported there; a benchmark with one that is so in the first rounds is given as many rounds again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
ROWS = ("overhead", "registry", "records", "search", "files", "shell", "sandbox", "agent", "mcp_echo", "mcp_gateway")
"""Those that print rows; the others count cases, and compare with peers of their own."""
WORST = 1.05
A_MODULE = 0.5
MORE_IS_BETTER = "/s"
"""How the units end of which more is better."""

Rows = dict[str, tuple[float, str]]
"""By name: the figure and its unit."""


def run(folder: Path, name: str, *, quickly: bool) -> Rows:
    """Run a benchmark of a checkout once."""
    script = folder / "benchmarks" / f"{name}.py"
    if not script.exists():
        return {}
    quick = ["--quick"] if quickly and '"--quick"' in script.read_text() else []
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        [sys.executable, str(script), "--json", *quick],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    start = done.stdout.find("[\n")
    if start < 0:
        sys.exit(f"{script} printed no rows:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return {row["name"].strip(): (float(row["value"]), row["unit"]) for row in json.loads(done.stdout[start:])}


def ratio(before: float, now: float, unit: str) -> float:
    """Above 1 is worse; 1 where one of them is a difference that vanished in the noise."""
    if before <= 0 or now <= 0:
        return 1.0
    return before / now if unit.endswith(MORE_IS_BETTER) else now / before


def judge(rounds: list[tuple[Rows, Rows]], label: str) -> tuple[float, float, str, float]:
    """The best before and now, the unit, and the ratio.

    What a busy machine does to a row, and to the bare work that a row is a ratio of, is in some rounds of one of them.
    So the ratio is the kinder of two: that of both best rounds, and the median of the rounds' own.
    """
    pairs = [(before[label][0], now[label][0]) for before, now in rounds]
    unit = rounds[0][1][label][1]
    best = max if unit.endswith(MORE_IS_BETTER) else min
    before, now = best(pair[0] for pair in pairs), best(pair[1] for pair in pairs)
    return before, now, unit, min(ratio(before, now, unit), median(ratio(*pair, unit) for pair in pairs))


def is_worse(before: float, now: float, unit: str, times: float) -> bool:
    return times > WORST and (unit != "MB" or now - before > A_MODULE)


def compare(name: str, older: Path, rounds: int, *, quickly: bool) -> list[str]:
    """Print the rows of one benchmark; the labels of those that are worse."""
    done: list[tuple[Rows, Rows]] = []
    worse: list[str] = []
    shared: list[str] = []
    for _attempt in range(2):
        for number in range(rounds):
            first, second = (older, ROOT)[:: 1 if number % 2 else -1]
            rows = {folder: run(folder, name, quickly=quickly) for folder in (first, second)}
            done.append((rows[older], rows[ROOT]))
        shared = [label for label in done[0][1] if label in done[0][0]]
        worse = [label for label in shared if is_worse(*judge(done, label))]
        if not worse:
            break
    width = max(map(len, shared), default=0)
    print(f"\n{name}: {len(shared)} rows in both, {len(done[0][1]) - len(shared)} only here", flush=True)
    for label in shared:
        before, now, unit, times = judge(done, label)
        figures = f"{before:>9.3g} → {now:>9.3g} {unit}"
        each = sorted(ratio(before[label][0], now[label][0], unit) for before, now in done)
        spread = f"{each[0]:.2f} to {each[-1]:.2f}"
        print(f"{'✗' if label in worse else ' '} {label:<{width}}  {figures:<30} {times:.2f}  {spread}", flush=True)
    return [f"{name}: {label}" for label in worse]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("benchmarks", nargs="*", default=ROWS, metavar="BENCHMARK")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="fewer rounds inside each, where a benchmark has that")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        older = Path(made, "older")
        subprocess.run(["git", "worktree", "add", "-q", "--detach", str(older), options.commit], cwd=ROOT, check=True)
        try:
            worse: list[str] = []
            for name in options.benchmarks:
                worse += compare(name, older, options.rounds, quickly=options.quick)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(older)], cwd=ROOT, check=True)
    print("\nWorse by more than 5 %:" if worse else "\nNothing is worse by more than 5 %.", *worse, sep="\n  ")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
