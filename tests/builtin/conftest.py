"""What the tests of the built-ins share."""

from __future__ import annotations

from tests.workspace.conftest import desk

__all__ = ["desk"]
