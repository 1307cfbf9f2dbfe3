"""Shells for the tests: most facts are shown in the best sandbox, and with `./test --all` without one too."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.needs import slow
from tests.process.shell.shell_room import Room


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that every user can reach, which pytest's own is not; what commands made that must not stay is there."""
    made = Path(tempfile.mkdtemp(prefix="ferrule-test-"))
    made.chmod(0o755)
    (made / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made / "temporary"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(params=[slow("plain"), "sandboxed"])
def room(request: pytest.FixtureRequest, folder: Path) -> Room:
    return Room(folder, request.param)


@pytest.fixture
def plain(folder: Path) -> Room:
    """Without a sandbox, where that makes no difference to the fact."""
    return Room(folder, "plain")
