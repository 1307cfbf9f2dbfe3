"""The tests of the panel share a data folder of their own for each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.needs import needs


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FERRULE_CONFIG", "/dev/null")


@pytest.fixture
def no_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """For plugins, which need a box: no package comes from elsewhere."""
    needs(shutil.which("bwrap"), "bubblewrap")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_NO_INDEX", "1")
