"""Where a provider is reached, with a key that cannot be printed."""

from __future__ import annotations

import pytest

from ferrule.models.faults import Endpoint, host_of


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://localhost:1", True),
        ("http://[::1]:8080", True),
        ("https://api.openai.com/v1", False),
        ("http://10.0.0.5", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://[::1", False),
        ("nonsense", False),
    ],
)
def test_this_machine_is_known(url: str, local: bool) -> None:
    assert Endpoint("x", "X", url).is_local is local


def test_paths_are_joined_with_one_slash() -> None:
    assert Endpoint("x", "X", "https://a.example/v1/").url("/models") == "https://a.example/v1/models"


def test_the_host_alone_is_shown() -> None:
    assert host_of("https://user:secret@a.example:8443/v1?key=secret") == "a.example"
    assert host_of("http://[::1") == "?"


def test_secrets_are_not_in_the_repr_and_taken_out_of_words() -> None:
    endpoint = Endpoint("x", "X", "https://a.example", "plain-key", "X_KEY", {"x-team": "hush-hush"})
    assert "plain-key" not in repr(endpoint)
    assert "hush" not in repr(endpoint)
    said = endpoint.clean("bad key plain-key for hush-hush and sk-abcdefghijklmnop123")
    assert said == "bad key [redacted] for [redacted] and [redacted]"


def test_a_key_that_is_hardly_one_does_not_eat_words() -> None:
    assert Endpoint("x", "X", "https://a.example", "a").clean("a cat") == "a cat"
