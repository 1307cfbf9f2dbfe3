"""Each local server says in its own place how much a model reads."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.models.faults import Endpoint
from ferrule.models.http_model import served_context

PLACES = [
    (
        "ollama",
        "../api/ps",
        {"models": [{"name": "other:1b", "context_length": 1}, {"name": "m:latest", "context_length": 8192}]},
    ),
    ("llamacpp", "../props", {"default_generation_settings": {"n_ctx": 8192}}),
    ("lmstudio", "../api/v0/models", {"data": [{"id": "m", "loaded_context_length": 8192}]}),
    ("vllm", "models", {"data": [{"id": "m", "max_model_len": 8192}]}),
    ("house", "models", {"data": [{"id": "m", "max_model_len": 8192}]}),
]


@pytest.mark.parametrize(("provider", "place", "said"), PLACES)
async def test_the_size_is_found(provider: str, place: str, said: Any) -> None:
    asked: list[str] = []

    async def get(path: str) -> Any:
        asked.append(path)
        return said

    assert await served_context(Endpoint(provider, "X", "http://127.0.0.1:1/v1"), "m", get) == 8192
    assert asked == [place]


@pytest.mark.parametrize("said", [None, {}, {"models": 5, "data": 5}, {"data": [{"id": "m"}]}])
@pytest.mark.parametrize("provider", [provider for provider, _, _ in PLACES])
async def test_a_server_that_does_not_say_is_no_trouble(provider: str, said: Any) -> None:
    async def get(path: str) -> Any:
        return said

    assert await served_context(Endpoint(provider, "X", "http://127.0.0.1:1/v1"), "m", get) is None
