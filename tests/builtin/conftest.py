"""What the tests of the built-ins share."""

from __future__ import annotations

import pytest
from tests.workspace.conftest import desk

from ferrule.workspace.searching import ripgrep as older_encodings
from ferrule.workspace.searching import search

__all__ = ["desk"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, a small tree counts as one, and there is time to look at all of it."""
    monkeypatch.setattr(search, "_SOON", float("inf"))
    monkeypatch.setattr(search, "SECONDS", 300.0)
    monkeypatch.setattr(older_encodings, "_SECONDS", 300.0)
