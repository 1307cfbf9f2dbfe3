"""What an answer costs: by the prices of `genai-prices`, and by list prices of the few models that it lacks.

The package takes a tenth of a second to import, so it is loaded while the first request is under way, and not before a
price is needed.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ferrule.core.model import ModelPrice, Usage
from ferrule.models.known_models import FREE, known_name

if TYPE_CHECKING:
    from types import ModuleType

PROVIDERS = {
    "anthropic": "anthropic", "openai": "openai", "gemini": "google", "openrouter": "openrouter",
    "deepseek": "deepseek", "mistral": "mistral", "groq": "groq", "xai": "x-ai", "moonshot": "moonshotai",
    "zai": "zai", "together": "together",
}  # fmt: skip
"""The providers that `genai-prices` has, by our names and its own."""
# List prices of 2026-11-15.
_LISTED = {
    ("anthropic", "claude-mythos-5"): ModelPrice(input=10, output=50, cache_read=1, cache_write=12.5),
    ("anthropic", "claude-mythos-5-1"): ModelPrice(input=10, output=50, cache_read=0.25, cache_write=12.5),
    ("dashscope", "qwen-max"): ModelPrice(input=1.6, output=6.4),
    ("dashscope", "qwen-turbo"): ModelPrice(input=0.05, output=0.2),
    ("dashscope", "qwen3.7-max"): ModelPrice(input=2.5, output=7.5, cache_read=0.5),
    ("dashscope", "qwen3.8-max"): ModelPrice(input=2, output=6, cache_read=0.25),
    ("dashscope", "qwen3.8-flash"): ModelPrice(input=0.15, output=0.47, cache_read=0.016),
}


@cache
def load_prices() -> ModuleType | None:
    """`genai-prices`, imported at its first use; None if it isn't installed."""
    try:
        package = import_module("genai_prices")
        import_module("genai_prices.data")
    except ImportError:
        return None
    return package


def cost_of(provider: str, model: str, usage: Usage) -> float | None:
    """What an answer cost in US dollars; None if the price is unknown. A model on this machine costs nothing."""
    if provider in FREE:
        return 0.0
    if (listed := _LISTED.get((provider, known_name(provider, model)))) is not None:
        return listed.cost(usage)
    prices: Any = load_prices() if provider in PROVIDERS else None
    if prices is None:
        return None
    counted = prices.Usage(
        input_tokens=max(usage.input_tokens, usage.cache_read_tokens + usage.cache_write_tokens),
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        return float(prices.calc_price(counted, model, provider_id=PROVIDERS[provider]).total_price)
    except LookupError:
        return None


def listed_price(provider: str, model: str) -> tuple[float, float] | None:
    """US dollars for a million tokens that a hosted model reads and writes; None if the price is unknown."""
    read, written = (cost_of(provider, model, usage) for usage in (Usage(1_000, 0), Usage(0, 1_000)))
    if provider in FREE or read is None or written is None:
        return None
    return round(read * 1_000, 6), round(written * 1_000, 6)
