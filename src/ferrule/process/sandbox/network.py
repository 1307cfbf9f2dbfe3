"""The way to allowed hosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferrule.process.sandbox.sandbox import SandboxRefused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager


@dataclass(slots=True, frozen=True)
class Way:
    """A way."""

    folder: str
    inside: str
    environment: Mapping[str, str]
    command: tuple[str, ...]


def network(hosts: Sequence[str], command: Sequence[str]) -> AbstractContextManager[Way]:
    """Refused for now."""
    raise SandboxRefused("The sandbox has no network yet.", "Do without the network.")
