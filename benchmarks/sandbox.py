"""A command in a box against bare bubblewrap with the same flags: what the launcher, the layer and the looking cost.

    python benchmarks/sandbox.py [--rounds 100]

Exits with 1 when `true` in a work box takes more than 1.2 times what bare bubblewrap takes, in a look box more than 1.6
times, or either 10 ms more.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
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
from ferrule.process.box import open_box
from ferrule.process.launcher import _mount_layers, _unshare
from ferrule.process.profile import LayerMount, Profile
from ferrule.process.sandbox.choose import best_sandbox
from ferrule.process.sandbox.hiding import hide
from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.process.sandbox.sandbox import Launch, Sandbox

WORK_RATIO, LOOK_RATIO, MOST_ADDED = 1.2, 1.6, 10.0
FOLDERS, FILES_EACH = 1_000, 20


class Boxes:
    """Opens boxes on one event loop, as a session does."""

    def __init__(self, layers: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._nothing = os.open(os.devnull, os.O_RDWR)
        self._layers = layers
        self._numbers = itertools.count()

    def run(self, sandbox: Sandbox, profile: Profile, true: str) -> None:
        """All of it: prepare, start, wait, look at the guarded places, let go."""
        self._loop.run_until_complete(self._run(sandbox, profile, true))

    def look(self, sandbox: Sandbox, folder: Path, true: str) -> None:
        """The same in a look box, with the folders of its layer made for it."""
        self.run(sandbox, self.look_profile(folder), true)

    def look_profile(self, folder: Path) -> Profile:
        made = self._layers / str(next(self._numbers))
        for name in ("upper", "work"):
            (made / name).mkdir(parents=True)
        layers = (LayerMount(folder, made / "upper", made / "work"),)
        return Profile((folder,), folder, look=True, layers=layers)

    async def _run(self, sandbox: Sandbox, profile: Profile, true: str) -> None:
        nothing = self._nothing
        box = await open_box(sandbox, profile, [true], stdin=nothing, stdout=nothing, stderr=nothing)
        assert await box.ended == 0
        assert box.denials() == ()
        assert box.layered == profile.look or sandbox.name != "bubblewrap"
        box.close()


def bare(launch: Launch, true: str) -> Callable[[], None]:
    """Bubblewrap itself with the same mounts as a launch, and nothing of ours around it or inside.

    This bubblewrap mounts no overlays: for a look box that is done before it starts, with the same two system calls.
    """
    overlays = [
        (str(one.root), str(one.upper), str(one.work), [str(below) for below in one.below]) for one in launch.overlays
    ]

    def mount() -> None:
        _unshare(mounts=True)
        _mount_layers(overlays, list(launch.mounts))

    arguments = list(launch.arguments)
    flags = arguments[: arguments.index("--")]
    hidden = [hide(path).stream().split(b"\0")[:-1] for path in launch.covered]
    covered = [os.fsdecode(word) for words in hidden for word in words]  # the launcher's; here bubblewrap has to
    at = flags.index("--dev") + 2
    flags[at:at] = covered
    read = [int(flags[at + 1]) for at, flag in enumerate(flags) if flag in ("--seccomp", "--file", "--info-fd")]

    def run() -> None:
        for descriptor in read:
            os.lseek(descriptor, 0, os.SEEK_SET)
        for layer in launch.overlays:
            shutil.rmtree(layer.work / "work", ignore_errors=True)  # the kernel mounts none that was not synced
        done = subprocess.run(
            [*flags, "--", true],
            env=dict(launch.environment),
            pass_fds=launch.descriptors,
            stdin=subprocess.DEVNULL,
            preexec_fn=mount if overlays else None,
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
    true = shutil.which("true") or "/bin/true"
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as made:
        small, large, layers = Path(made, "small"), Path(made, "large"), Path(made, "layers")
        sandbox = best_sandbox(layers=layers)
        if sandbox.name != "bubblewrap" or not sandbox.has_layers:
            sys.exit("This needs bubblewrap and layers; `ferrule doctor` says what is wrong with them.")
        boxes = Boxes(layers)
        for folder in (small, large):
            folder.mkdir()
            subprocess.run(["git", "init", "-q", str(folder)], check=True)
        plant(large)
        for name, folder in (("a small workspace", small), (f"one of {FOLDERS * FILES_EACH:,} files", large)):
            work, look = Profile((folder,), folder), boxes.look_profile(folder)
            with sandbox.prepare(work, [true]) as as_work, sandbox.prepare(look, [true]) as as_look:
                times = in_turn(
                    {
                        "bare work": bare(as_work.launch, true),
                        "work": lambda work=work: boxes.run(sandbox, work, true),
                        "bare look": bare(as_look.launch, true),
                        "look": lambda folder=folder: boxes.look(sandbox, folder, true),
                    },
                    options.rounds,
                )
            is_bar = folder is small
            rows += compared(f"a work box, {name}", times["work"], times["bare work"], WORK_RATIO if is_bar else None)
            rows += compared(f"a look box, {name}", times["look"], times["bare look"], LOOK_RATIO if is_bar else None)
        landlock = LandlockSandbox()
        if landlock.missing() is None:
            profile = Profile((small,), small)
            times = in_turn({"landlock": lambda: boxes.run(landlock, profile, true)}, max(10, options.rounds // 5))
            rows.append(Row("`true` under Landlock", median(times["landlock"]), "ms", note="the fallback, for itself"))
    return report(rows, as_json=options.json)


def compared(name: str, ours: list[float], bares: list[float], most: float | None) -> list[Row]:
    note = f"{min(ours):.2f} ms against {min(bares):.2f} ms; median {median(ours):.2f} / {median(bares):.2f}"
    return [
        Row(f"`true` in {name}", min(ours) / min(bares), "×", most, note),
        Row("  added to bare bubblewrap", median(ours) - median(bares), "ms", MOST_ADDED if most else None, "median"),
    ]


if __name__ == "__main__":
    sys.exit(main())
