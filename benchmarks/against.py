"""This code against an older commit of it, in one run: `python benchmarks/against.py COMMIT [BENCHMARK …]`.

The commit is checked out into a folder of its own. Each benchmark runs there and here in turn, as each has it, and the
best round of every row that both have is compared. Exits with 1 when a row is worse by more than 5 %; one that is so
in the first rounds is given as many rounds again, since a busy machine can only make a row worse.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROWS = ("overhead", "registry", "records", "search", "files", "shell", "sandbox", "agent", "mcp_echo", "mcp_gateway")
"""Those that print rows; the others count cases, and compare with peers of their own."""
WORST = 1.05
MORE_IS_BETTER = ("/s", "MB/s", "calls/s")

Best = dict[str, tuple[float, str]]


def run(folder: Path, name: str, best: Best, *, quickly: bool) -> None:
    """Run a benchmark of a checkout once, and keep the better of each row."""
    script = folder / "benchmarks" / f"{name}.py"
    if not script.exists():
        return
    quick = ["--quick"] if quickly and '"--quick"' in script.read_text() else []
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    done = subprocess.run(
        [sys.executable, str(script), "--json", *quick],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    start = done.stdout.find("[\n")
    if start < 0:
        sys.exit(f"{script} printed no rows:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    for row in json.loads(done.stdout[start:]):
        label, value, unit = row["name"].strip(), float(row["value"]), row["unit"]
        kept = best.get(label, (value, unit))[0]
        best[label] = (max(kept, value) if unit in MORE_IS_BETTER else min(kept, value), unit)


def ratio(before: tuple[float, str], now: tuple[float, str]) -> float:
    """Above 1 is worse."""
    if before[0] <= 0 or now[0] <= 0:  # a difference that vanished in the noise
        return 1.0 if now[0] <= max(before[0], 0) else float("inf")
    return before[0] / now[0] if now[1] in MORE_IS_BETTER else now[0] / before[0]


def compare(name: str, older: Path, rounds: int, *, quickly: bool) -> list[str]:
    """Print the rows of one benchmark; the labels of those that are worse."""
    before: Best = {}
    now: Best = {}
    worse: list[str] = []
    for attempt in range(2):
        for number in range(rounds):
            for folder, best in ((older, before), (ROOT, now))[:: 1 if number % 2 else -1]:
                run(folder, name, best, quickly=quickly)
        worse = [label for label in now if label in before and ratio(before[label], now[label]) > WORST]
        if not worse or attempt:
            break
    shared = [label for label in now if label in before]
    width = max(map(len, shared), default=0)
    print(f"\n{name}: {len(shared)} rows in both, {len(now) - len(shared)} only here", flush=True)
    for label in shared:
        unit = now[label][1]
        mark = "✗" if label in worse else " "
        figures = f"{before[label][0]:>9.3g} → {now[label][0]:>9.3g} {unit}"
        print(f"{mark} {label:<{width}}  {figures:<30} {ratio(before[label], now[label]):.2f}", flush=True)
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
