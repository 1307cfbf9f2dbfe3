"""Which file of weights a name means: a path, something fetched before, or something that can be fetched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ferrule.core.model import ModelError, ModelFault
from ferrule.core.nearest import nearest
from ferrule.core.phrases import joined, phrase
from ferrule.models.local.known_weights import KNOWN, SMOLLM2, KnownWeights
from ferrule.workspace.data_folder import data_folder

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
