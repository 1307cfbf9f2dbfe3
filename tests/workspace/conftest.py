"""What the tests of the workspace share."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.workspace.desk import Desk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A session in an empty workspace, its snapshots beside it and never in the person's home."""
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    return Desk(tmp_path / "ws")
