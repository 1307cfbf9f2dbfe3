"""What the tests beside the indexes share."""

from __future__ import annotations

from tests.cli.conftest import ferrule
from tests.workspace.conftest import desk

__all__ = ["desk", "ferrule"]
