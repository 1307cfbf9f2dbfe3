"""What a test needs: of the machine, without which it is skipped with the reason and fails in CI; and of time."""

from __future__ import annotations

import os

import pytest
from _pytest.mark import ParameterSet


def needs(is_there: object, what: str) -> None:
    """Go on only with it; nothing may go untested in CI."""
    if is_there:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI must have it: {what}")
    pytest.skip(f"needs {what}")


def slow(*values: object) -> ParameterSet:
    """One more set of parameters that `./test --all` tries, and `./test` does not."""
    return pytest.param(*values, marks=pytest.mark.slow)
