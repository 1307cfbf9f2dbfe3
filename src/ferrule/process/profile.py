"""What a sandboxed program may see, change and reach; how that is enforced is another matter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(slots=True, frozen=True)
class Bounds:
    """Limits on what one command may use; None leaves the system's own."""

    processes: int | None = 512
    memory: int | None = None
    file_size: int | None = 4 << 30
    open_files: int | None = 4096


@dataclass(slots=True, frozen=True)
class Profile:
    """The workspace is writable, its guarded places are not, `hidden` cannot even be read, and the rest is read-only.

    `guarded` and `hidden` may name what does not exist yet: it must stay so. `hosts` is None for no network at all,
    and otherwise the allow-list of host patterns (`example.org`, `*.example.org`, `*` for everything).
    """

    writable: tuple[Path, ...]
    folder: Path
    guarded: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    """Folders that are there and shown, read-only, although a hidden place holds them."""
    hosts: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    bounds: Bounds = Bounds()
