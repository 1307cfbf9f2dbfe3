"""What there is to run on this machine: names, sizes, whether they are here, and what is missing."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from ferrule.models.local.known_weights import KNOWN
from ferrule.models.local.weights import Weights, find_weights, names

BINDING = "xllamacpp"
INSTALL = 'pip install "ferrule[local]"'


@dataclass(slots=True, frozen=True)
class Listed:
    """One model as `ferrule models` shows it. `size` is what it takes on disk, `download` what is yet to be fetched."""

    name: str
    """As `--model local/NAME` takes it."""
    title: str
    size: int
    download: int
    fetched: bool
    note: str
    missing: str
    """What must be done before it can be used; empty when nothing."""


def available() -> list[Listed]:
    """Every model of this machine, the known ones first."""
    missing = "" if is_installed() else INSTALL
    notes = {known.name: known for known in KNOWN}
    listed: list[Listed] = []
    for name in names():
        weights = find_weights(name)
        if known := notes.get(name):
            left = 0 if weights.is_there else known.download
            listed.append(Listed(name, known.title, known.size, left, weights.is_there, known.note, missing))
        else:
            size = weights.path.stat().st_size
            listed.append(Listed(name, weights.path.stem, size, 0, True, "", missing))
    return listed


def is_installed() -> bool:
    """Whether the binding to llama.cpp is there; it is looked for, not imported."""
    return importlib.util.find_spec(BINDING) is not None


def is_small(weights: Weights) -> bool:
    """Whether it needs every help: under 700 MB a model neither chooses nor phrases well."""
    return weights.path.stat().st_size < 700_000_000
