"""Where layers are made: they need a kernel that lets this user mount an overlay."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

import pytest
from tests.workspace.layers.overlay import new_layer, run_above


@cache
def _why_not() -> str:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        root.mkdir()
        try:
            run_above(new_layer(root), "touch a")
        except AssertionError as error:
            return str(error)
    return "" if hasattr(os, "getxattr") else "no extended attributes"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty workspace; layers lie beside it."""
    if why := _why_not():
        pytest.skip(f"no overlay here: {why}")
    root = tmp_path / "ws"
    root.mkdir()
    return root
