"""The folders a command may write in, as real paths, and which of a profile's places lie below them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.process.sandbox.places import is_within
from ferrule.process.sandbox.sandbox import SandboxRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

_OF_THE_SYSTEM = ("/usr", "/etc", "/proc", "/dev", "/sys", "/boot")


def writable_roots(folders: Sequence[Path], program: str) -> list[str]:
    """Outer ones first. `program` is what confines, and must not be one that a command could have put there."""
    roots = sorted({os.path.realpath(root) for root in folders}, key=lambda root: (root.count("/"), root))
    for root in roots:
        if any(is_within(place, root) for place in _OF_THE_SYSTEM):
            raise SandboxRefused(
                phrase("The workspace holds the system itself, and the sandbox cannot make that writable."),
                phrase("Ask the person to choose a folder of their own as the workspace."),
            )
        if is_within(os.path.realpath(program), root):
            raise SandboxRefused(
                phrase(
                    "The sandbox's own program `{name}` lies inside the workspace, where any command may have put it.",
                    name=Path(program).name,
                ),
                phrase("Ask the person to install it outside, with the system's package manager."),
            )
        if not os.path.isdir(root):  # noqa: PTH112 - on every start
            raise SandboxRefused(
                phrase("There is no folder `{root}` to make writable.", root=root),
                phrase("Ask the person to make it, or to choose another."),
            )
    return roots


def below(root: str, paths: Sequence[Path]) -> frozenset[str]:
    """The paths below a root, by their names there; the folders they are in are real, they themselves may be links."""
    found: set[str] = set()
    for path in paths:
        whole = os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118
        if whole.startswith(root + "/"):
            found.add(whole[len(root) + 1 :])
    return frozenset(found)
