"""What a sandboxed program may see, change and reach; how that is enforced is another matter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


@dataclass(slots=True, frozen=True)
class Bounds:
    """Limits on what one command may use; None leaves the system's own."""

    processes: int | None = 512
    memory: int | None = None
    file_size: int | None = 4 << 30
    open_files: int | None = 4096
    temporary: int = 2 << 30
    """Bytes of each folder for temporary files; a box that fills the one that commands share is ended."""
    layer: int = 2 << 30
    """Bytes that the layers of a look box may hold together; a box that writes more is ended."""


@dataclass(slots=True, frozen=True)
class LayerMount:
    """Where the changes to one root of the workspace land instead of in it.

    `upper` and `work` are empty folders of one file system, new for each command. `below` are layers of earlier
    commands, topmost first, that are seen above the root.
    """

    root: Path
    upper: Path
    work: Path
    below: tuple[Path, ...] = ()


@dataclass(slots=True, frozen=True)
class Forbidden:
    """What no command may write, by rules about names: what is there is locked, and what is made is taken away."""

    rules: object
    """Names the rules: while it is equal, so are the answers."""
    concerns: Callable[[Sequence[str]], Sequence[bool]] = field(compare=False)
    """Of each of many real paths whether it may not be written."""


@dataclass(slots=True, frozen=True)
class Profile:
    """The workspace is writable, its guarded places are not, `hidden` cannot even be read, and the rest is read-only.

    `guarded` and `hidden` may name what does not exist yet: it must stay so. `hosts` is None for no network at all,
    and otherwise the allow-list of host patterns (`example.org`, `*.example.org`, `*` for everything).

    With `look`, nothing of the workspace is changed: what is written to a root lands in its layer, and a root without
    one is read-only.
    """

    writable: tuple[Path, ...]
    folder: Path
    guarded: tuple[Path, ...] = ()
    forbidden: Forbidden | None = None
    hidden: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    """Folders that are there and shown, read-only, although a hidden place holds them."""
    hosts: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    bounds: Bounds = Bounds()
    look: bool = False
    layers: tuple[LayerMount, ...] = ()
    temporary: Path | None = None
    """A folder to be seen as `/tmp`, for what commands keep there for one another; without it each has an own."""
