"""One thing that `ferrule doctor` looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Check:
    """`ok`, `note` (works, but you may want more) or `fail`."""

    name: str
    state: str
    message: str
