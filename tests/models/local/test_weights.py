"""Which file a name means, and what there is to run on this machine."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule.core.model import ModelError, ModelFault
from ferrule.models.local.weights import (
    KNOWN,
    SMOLLM2,
    KnownWeights,
    Weights,
    available,
    find_weights,
    is_small,
    models_folder,
    names,
)
from ferrule.models.providers import Availability, embedded


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF")
    return path


@pytest.mark.parametrize("name", ["", "smollm2-135m", "SmolLM2-135M"])
def test_without_a_name_it_is_the_smallest(name: str, data: Path) -> None:
    found = find_weights(name)
    assert (found.name, found.path, found.known) == (SMOLLM2.name, data / "models" / SMOLLM2.file, SMOLLM2)
    assert not found.is_there


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    put(tmp_path / "some where" / "a.gguf")
    found = find_weights("some where/a.gguf")
    assert (found.path, found.known, found.is_there) == (Path("some where/a.gguf"), None, True)


def test_what_lies_in_the_folder_is_found_by_name(data: Path) -> None:
    put(data / "models" / "mine.gguf")
    assert find_weights("mine").path == find_weights("mine.gguf").path == models_folder() / "mine.gguf"
    assert names() == ["smollm2-135m", "qwen2.5-coder-1.5b", "mine"]


def test_half_a_file_is_none(data: Path) -> None:
    put(data / "models" / SMOLLM2.file)
    assert not find_weights("").is_there


def test_what_means_nothing_is_said_with_what_there_is() -> None:
    with pytest.raises(ModelError) as caught:
        find_weights("smollm2-135")
    assert caught.value.fault is ModelFault.NOT_FOUND
    assert caught.value.message == snapshot("There is no model `smollm2-135` on this machine.")
    assert caught.value.suggestion == snapshot(
        "Did you mean `local/smollm2-135m`? There are smollm2-135m, qwen2.5-coder-1.5b, and `local/PATH.gguf`."
    )
    with pytest.raises(ModelError) as caught:
        find_weights("no/such.gguf")
    assert caught.value.message == snapshot("There is no weights file at `no/such.gguf`.")
    assert caught.value.suggestion == snapshot("Give the path of a GGUF, or one of: smollm2-135m, qwen2.5-coder-1.5b.")


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_each_is_pinned(known: KnownWeights) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", known.sha256)
    assert known.file.endswith(".gguf")
    assert known.name == known.name.lower()
    assert len({part.requirement for part in known.parts}) == len(known.parts)
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", part.requirement) for part in known.parts)


def test_known_ones_are_listed_with_what_is_left_to_fetch(data: Path) -> None:
    models = data / "models"
    models.mkdir(parents=True)
    with (models / SMOLLM2.file).open("wb") as file:
        file.truncate(SMOLLM2.size)
    (models / "mine.gguf").write_bytes(b"GGUF")
    listed = {one.name: (one.fetched, one.download, one.missing) for one in available()}
    assert listed == {
        "smollm2-135m": (True, 0, ""),
        "qwen2.5-coder-1.5b": (False, 1_092_800_000, ""),
        "mine": (True, 0, ""),
    }
    assert embedded().models == tuple(listed)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert {one.missing for one in available()} == {'pip install "ferrule[local]"'}
    assert embedded().state is Availability.NOT_INSTALLED


def test_small_ones_are_told_by_their_size(data: Path) -> None:
    models = data / "models"
    models.mkdir(parents=True)
    for name, size in (("small.gguf", 400_000_000), ("large.gguf", 1_100_000_000)):
        with (models / name).open("wb") as file:
            file.truncate(size)
    assert is_small(Weights("small", models / "small.gguf"))
    assert not is_small(Weights("large", models / "large.gguf"))
    assert is_small(find_weights(""))  # told before it is fetched
