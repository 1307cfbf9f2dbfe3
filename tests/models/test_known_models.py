"""Sizes and prices of well-known models, and of no others."""

from __future__ import annotations

import pytest

from ferrule.core.model import Usage
from ferrule.models.known_models import _ROWS, context_of, cost_of, known, output_limit_of


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("anthropic", "claude-sonnet-4-5-20250929"),
        ("anthropic", "claude-sonnet-4-20250514"),
        ("openai", "gpt-4o-2024-11-20"),
        ("openai", "gpt-5"),
        ("gemini", "gemini-3-pro-preview"),
        ("gemini", "gemini-2.5-flash-preview-09-2025"),
        ("mistral", "mistral-large-latest"),
    ],
)
def test_dated_names_are_the_same_model(provider: str, name: str) -> None:
    assert known(provider, name)


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("openai", "gpt-5-something"),
        ("openai", "gpt-5.9"),
        ("openai", "gpt-4o-mini-tts"),
        ("nobody", "gpt-5"),
        ("openai", ""),
    ],
)
def test_a_sibling_is_another_model(provider: str, name: str) -> None:
    assert known(provider, name) is None
    assert cost_of(provider, name, Usage(1000, 1000)) is None


def test_the_longest_name_counts() -> None:
    assert known("openai", "gpt-5-mini-2025-08-07") is known("openai", "gpt-5-mini")
    assert known("anthropic", "claude-opus-4-1-20250805") is known("anthropic", "claude-opus-4-1")


def test_what_comes_from_a_cache_costs_less_and_what_goes_into_one_more() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=100_000, cache_read_tokens=600_000, cache_write_tokens=200_000)
    assert cost_of("anthropic", "claude-sonnet-4-5", usage) == pytest.approx(
        0.2 * 3 + 0.6 * 0.3 + 0.2 * 3.75 + 0.1 * 15
    )


def test_long_questions_cost_more_where_they_do() -> None:
    assert cost_of("gemini", "gemini-2.5-pro", Usage(100_000, 1000)) == pytest.approx(0.125 + 0.01)
    assert cost_of("gemini", "gemini-2.5-pro", Usage(300_000, 1000)) == pytest.approx(0.75 + 0.015)


def test_a_model_on_this_machine_is_free_and_has_the_size_its_server_gives_it() -> None:
    assert cost_of("ollama", "qwen3", Usage(1000, 1000)) == 0.0
    assert context_of("ollama", "gpt-5") is None


def test_a_reseller_leaves_the_size_alone_and_has_its_own_price() -> None:
    assert context_of("openrouter", "anthropic/claude-opus-4.5") == 200_000
    assert output_limit_of("openrouter", "anthropic/claude-opus-4.5") == 64_000
    assert cost_of("openrouter", "anthropic/claude-opus-4.5", Usage(1000, 1000)) is None


def test_every_row_is_plausible() -> None:
    for rows in _ROWS.values():
        for name, row in rows.items():
            assert 0 < row.output <= row.context, name
            assert (row.read is None) == (row.write is None), name
            if row.read is not None and row.write is not None:
                assert row.read <= row.write, name
                assert row.cache_read is None or row.cache_read < row.read, name
                assert row.cache_write is None or row.cache_write >= row.read, name
