"""The tests of the panel share a data folder of their own for each."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FERRULE_CONFIG", "/dev/null")
