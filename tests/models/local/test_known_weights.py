"""The weights that can be fetched."""

from __future__ import annotations

import re

import pytest

from ferrule.models.local.weights import KNOWN, KnownWeights


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_each_is_pinned(known: KnownWeights) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", known.sha256)
    assert known.file.endswith(".gguf")
    assert known.name == known.name.lower()
    assert len({part.requirement for part in known.parts}) == len(known.parts)
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", part.requirement) for part in known.parts)
