"""Sandboxes for the tests: each fact is shown as root and as an ordinary user where the tests run as root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.needs import needs
from tests.process.sandbox.box import NOBODY, Box, bubblewrap, python_for_all

USERS = {"root": 0, "ordinary user": NOBODY} if os.geteuid() == 0 else {"ordinary user": os.geteuid()}


def marks(user: str) -> list[pytest.MarkDecorator]:
    """Where both users are tried, `./test` tries the ordinary one, as most people are, and `./test --all` root too."""
    return [pytest.mark.slow] if user == "root" and python_for_all() else []


@pytest.fixture
def room() -> Iterator[Path]:
    """A folder that every user can reach, which pytest's own is not."""
    made = Path(tempfile.mkdtemp(prefix="ferrule-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(params=[pytest.param(uid, id=user, marks=marks(user)) for user, uid in USERS.items()])
def box(request: pytest.FixtureRequest, room: Path) -> Box:
    sandbox = bubblewrap()
    needs(sandbox, "bubblewrap (`bwrap` on PATH)")
    assert sandbox is not None
    return Box(room / "box", request.param, sandbox)
