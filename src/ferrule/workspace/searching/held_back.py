"""Counts what a search holds back, without a look inside: a note that only came with a match would tell of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.errors import ToolError
from ferrule.core.phrases import phrase
from ferrule.workspace.paths import Place
from ferrule.workspace.searching.ripgrep import ripgrep

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ferrule.workspace.paths import Paths
    from ferrule.workspace.searching.globs import Fit

_TYPE = "kept"


def exclusions(paths: Paths, start: Place) -> list[str]:
    """What ripgrep is told, so that it does not even open the files with these names."""
    return [f"--glob=!{name}" for name in paths.kept.left_out(start.path)]


def not_held_back(paths: Paths, start: Place) -> Fit | None:
    """For each of some names whether no rule keeps it back; None when there are no rules."""
    if not paths.kept:
        return None
    root = f"{start.root.path}/".replace("//", "/")

    def fit(names: Sequence[bytes]) -> list[bool]:
        found = [root + os.fsdecode(name.removeprefix(b"./")) for name in names]  # text: there may be very many
        return [not held for held in paths.kept.all_held_back(found, start.path)]

    return fit


async def count_held_back(program: str, paths: Paths, start: Place) -> int:
    """How many files below `start` the search leaves out because of a rule."""
    held: set[bytes] = set()
    if names := paths.kept.names(start.path):
        flags = [*(f"--type-add={_TYPE}:{name}" for name in names), f"--type={_TYPE}"]  # one look for all names
        async for path in _files(program, start, flags):
            _keep(held, paths, start, path)
    for place in paths.kept.places(start.path):
        folder = Path(place)
        if not folder.is_relative_to(start.path):
            folder = start.path  # a rule that begins above may be about all of it
        if folder.is_symlink() or not folder.exists():
            continue
        async for path in _files(program, Place(start.root, folder, str(folder)), []):
            _keep(held, paths, start, path)
    return len(held)


def _keep(held: set[bytes], paths: Paths, start: Place, name: bytes) -> None:
    path = start.root.path / os.fsdecode(name.removeprefix(b"./"))
    if paths.kept.held_back(path, start.path):
        held.add(os.fsencode(path))


async def _files(program: str, place: Place, flags: list[str]) -> AsyncIterator[bytes]:
    rest = b""
    async with ripgrep(program, place, ("--files", *flags), None) as running:
        async for piece in running.output():
            *names, rest = (rest + piece).split(b"\0")
            for name in names:
                yield name
        if await running.ended() not in (0, 1, 2):
            raise ToolError(phrase("The search was cut short while it looked for what it may not show."))
