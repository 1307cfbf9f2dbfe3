"""Sizes of well-known models, and of no others."""

from __future__ import annotations

import pytest

from ferrule.models.known_models import _ROWS, context_of, known, output_limit_of


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


def test_the_longest_name_counts() -> None:
    assert known("openai", "gpt-5-mini-2025-08-07") is known("openai", "gpt-5-mini")
    assert known("anthropic", "claude-opus-4-1-20250805") is known("anthropic", "claude-opus-4-1")


def test_a_model_on_this_machine_has_the_size_its_server_gives_it() -> None:
    assert context_of("ollama", "gpt-5") is None


def test_a_reseller_leaves_the_size_alone() -> None:
    assert context_of("openrouter", "anthropic/claude-opus-4.5") == 200_000
    assert output_limit_of("openrouter", "anthropic/claude-opus-4.5") == 64_000


def test_every_row_is_plausible() -> None:
    for rows in _ROWS.values():
        for name, row in rows.items():
            assert 0 < row.output <= row.context, name
