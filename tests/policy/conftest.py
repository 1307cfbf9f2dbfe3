"""What the tests of the policy share."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule import Session


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session in an empty workspace, with a home of its own beside it."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    return Session(workspace=tmp_path / "ws")
