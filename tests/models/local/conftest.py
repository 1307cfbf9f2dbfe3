from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.local.weights_here import smollm2


@pytest.fixture(scope="session")
def gguf() -> Path:
    """The weights of a real model."""
    return smollm2()
