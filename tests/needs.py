"""What a test needs of the machine: without it a test is skipped with the reason, and in CI it fails."""

from __future__ import annotations

import os

import pytest


def needs(is_there: object, what: str) -> None:
    """Go on only with it; nothing may go untested in CI."""
    if is_there:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI must have it: {what}")
    pytest.skip(f"needs {what}")
