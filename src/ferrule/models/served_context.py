"""How much a model on a local server may read: each server has its own place to say it, and none has it in common.

Ollama cuts a conversation that is too long without a word, so this is worth a question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ferrule.models.loose_json import an_item, count, items, words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ferrule.models.endpoint import Endpoint


async def served_context(endpoint: Endpoint, model: str, get: Callable[[str], Awaitable[Any]]) -> int | None:
    """The context in tokens; `get` fetches a path under the endpoint's base address, and may give None."""
    up = "../" * len([part for part in urlsplit(endpoint.base_url).path.split("/") if part])
    if endpoint.provider == "ollama":
        running = items(an_item(await get(f"{up}api/ps")).get("models"))
        return _first(count(one.get("context_length")) for one in running if _is(one, model))
    if endpoint.provider == "llamacpp":
        props = an_item(await get(f"{up}props"))
        return _first([count(an_item(props.get("default_generation_settings")).get("n_ctx"))])
    if endpoint.provider == "lmstudio":
        offered = items(an_item(await get(f"{up}api/v0/models")).get("data"))
        return _first(count(one.get("loaded_context_length")) for one in offered if _is(one, model))
    offered = items(an_item(await get("models")).get("data"))
    return _first(count(one.get("max_model_len")) for one in offered if _is(one, model))


def _is(listed: dict[str, Any], model: str) -> bool:
    names = {words(listed.get("name")), words(listed.get("model")), words(listed.get("id"))}
    return model in names or f"{model}:latest" in names


def _first(sizes: Any) -> int | None:
    return next((size for size in sizes if size), None)
