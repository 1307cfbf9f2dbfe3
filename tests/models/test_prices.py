"""What answers cost (O3): prices of `genai-prices`, list prices of what it lacks, and a caller's own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ferrule.core.model import ModelPrice, Usage
from ferrule.models import prices
from ferrule.models.prices import PROVIDERS, cost_of, listed_price, load_prices
from ferrule.models.providers import all_providers, open_model

KEY = {"OPENAI_API_KEY": "k", "DASHSCOPE_API_KEY": "k", "OPENROUTER_API_KEY": "k"}


def test_what_comes_from_a_cache_costs_less_and_what_goes_into_one_more() -> None:
    usage = Usage(input_tokens=100_000, output_tokens=10_000, cache_read_tokens=60_000, cache_write_tokens=20_000)
    cost = 0.02 * 3 + 0.06 * 0.3 + 0.02 * 3.75 + 0.01 * 15
    assert cost_of("anthropic", "claude-sonnet-4-5", usage) == pytest.approx(cost)
    assert ModelPrice(input=3, output=15, cache_read=0.3, cache_write=3.75).cost(usage) == pytest.approx(cost)
    assert ModelPrice(input=3, output=15).cost(usage) == pytest.approx(0.45)


def test_long_questions_cost_more_where_they_do() -> None:
    assert cost_of("gemini", "gemini-2.5-pro", Usage(100_000, 1000)) == pytest.approx(0.125 + 0.01)
    assert cost_of("gemini", "gemini-2.5-pro", Usage(300_000, 1000)) == pytest.approx(0.75 + 0.015)


def test_a_model_on_this_machine_is_free_and_an_unknown_one_has_no_price() -> None:
    assert cost_of("ollama", "qwen3", Usage(1000, 1000)) == 0.0
    assert listed_price("ollama", "qwen3") is None
    for provider, model in (("openai", "no-such-model"), ("my-proxy", "gpt-5"), ("dashscope", "qwen-other")):
        assert cost_of(provider, model, Usage(1000, 1000)) is None


def test_a_price_is_the_one_of_its_provider() -> None:
    assert listed_price("openai", "gpt-5") == (1.25, 10)
    assert listed_price("dashscope", "qwen-max-latest") == (1.6, 6.4)
    assert cost_of("openrouter", "anthropic/claude-opus-4.5", Usage(1000, 1000)) == pytest.approx(0.03)


def test_our_own_list_has_only_what_the_package_lacks() -> None:
    """Two tables that must agree are one too many."""
    package = load_prices()
    assert package is not None
    for provider, model in prices._LISTED:
        if provider in PROVIDERS:
            with pytest.raises(LookupError):
                package.calc_price(package.Usage(input_tokens=1), model, provider_id=PROVIDERS[provider])


def test_every_provider_of_the_package_is_one_of_ours() -> None:
    assert PROVIDERS.keys() <= all_providers().keys()


def test_usage_that_contradicts_itself_still_has_a_cost() -> None:
    assert cost_of("openai", "gpt-5", Usage(10, 5, cache_read_tokens=100)) is not None


def test_a_caller_can_say_what_a_model_costs() -> None:
    assert not open_model("openai/of-our-own", environment=KEY).is_priced  # type: ignore[attr-defined]
    own = open_model("openai/of-our-own", environment=KEY, price=ModelPrice(input=1, output=2))
    assert own.is_priced  # type: ignore[attr-defined]
    assert open_model("openai/gpt-5", environment=KEY).is_priced  # type: ignore[attr-defined]
    assert open_model("openrouter/whatever", environment=KEY).is_priced  # type: ignore[attr-defined] - its answers say so


def test_prices_are_not_loaded_before_one_is_needed() -> None:
    script = (
        "import sys, ferrule, ferrule.agent, ferrule.models\n"
        "ferrule.agent.Agent, ferrule.Runtime\n"
        "from ferrule.models import open_model\n"
        "open_model('openai/gpt-5', environment={'OPENAI_API_KEY': 'k'})\n"
        "assert 'genai_prices' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
