"""A sandboxed command against bare bubblewrap with the same flags: what finding out the flags and looking after cost.

    python benchmarks/sandbox.py [--rounds 100]

Exits with 1 when a sandboxed `true` takes more than 1.2 times what bare bubblewrap takes, or 10 ms more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from _measure import Row, report
from ferrule.process.profile import Profile
from ferrule.process.sandbox.choose import best_sandbox
from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox
from ferrule.process.sandbox.spawner import spawn

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.process.launch import Launch
    from ferrule.process.sandbox.sandbox import Sandbox

MOST_RATIO, MOST_ADDED = 1.2, 10.0
FOLDERS, FILES_EACH = 1_000, 20


def sandboxed(sandbox: Sandbox, profile: Profile, true: str) -> None:
    """All of it: prepare, start, wait, look at the guarded places, let go."""
    with sandbox.prepare(profile, [true]) as prepared:
        code = spawn(prepared.launch, stdin=subprocess.DEVNULL).wait()
        assert code == 0
        assert prepared.after_command() == ()


def bare(launch: Launch, true: str) -> Callable[[], None]:
    """Bubblewrap itself with the flags of a launch, and nothing of ours around it or inside."""
    arguments = list(launch.arguments)
    start = next(at for at, argument in enumerate(arguments) if argument.endswith("/bwrap"))
    flags = arguments[start : arguments.index("--", start)]
    read = [int(flags[at + 1]) for at, flag in enumerate(flags) if flag in ("--seccomp", "--file")]

    def run() -> None:
        for descriptor in read:
            os.lseek(descriptor, 0, os.SEEK_SET)
        done = subprocess.run(
            [*flags, "--", true], env=dict(launch.environment), pass_fds=launch.descriptors, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0

    return run


def in_turn(contenders: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for round_number in range(rounds + 5):
        for name, work in contenders.items():
            began = perf_counter()
            work()
            if round_number >= 5:
                taken[name].append((perf_counter() - began) * 1e3)
    return taken


def plant(folder: Path) -> None:
    for number in range(FOLDERS):
        inner = folder / f"package_{number % 40}" / f"module_{number}"
        inner.mkdir(parents=True)
        for file in range(FILES_EACH):
            (inner / f"file_{file}").touch()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sandbox = best_sandbox()
    if sandbox.name != "bubblewrap":
        sys.exit("This needs bubblewrap; `ferrule doctor` says what is wrong with it.")
    true = shutil.which("true") or "/bin/true"
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as made:
        small, large = Path(made, "small"), Path(made, "large")
        for folder in (small, large):
            folder.mkdir()
            subprocess.run(["git", "init", "-q", str(folder)], check=True)
        plant(large)
        for name, folder in (("a small workspace", small), (f"one of {FOLDERS * FILES_EACH:,} files", large)):
            profile = Profile((folder,), folder)
            with sandbox.prepare(profile, [true]) as prepared:
                times = in_turn(
                    {
                        "bare": bare(prepared.launch, true),
                        "ferrule": lambda profile=profile: sandboxed(sandbox, profile, true),
                    },
                    options.rounds,
                )
            rows += compared(name, times["ferrule"], times["bare"], is_bar=folder is small)
        landlock = LandlockSandbox()
        if landlock.missing() is None:
            profile = Profile((small,), small)
            times = in_turn({"landlock": lambda: sandboxed(landlock, profile, true)}, max(10, options.rounds // 5))
            rows.append(Row("`true` under Landlock", median(times["landlock"]), "ms", note="the fallback, for itself"))
    return report(rows, as_json=options.json)


def compared(name: str, ours: list[float], bares: list[float], *, is_bar: bool) -> list[Row]:
    note = f"{min(ours):.2f} ms against {min(bares):.2f} ms; median {median(ours):.2f} / {median(bares):.2f}"
    return [
        Row(f"`true` in {name}", min(ours) / min(bares), "×", MOST_RATIO if is_bar else None, note),
        Row("  added to bare bubblewrap", median(ours) - median(bares), "ms", MOST_ADDED if is_bar else None, "median"),
    ]


if __name__ == "__main__":
    sys.exit(main())
