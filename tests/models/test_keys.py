"""Keys come from the environment, else the keyring, and cannot be printed."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from ferrule.models.providers import find_key


@pytest.fixture
def chest(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """A keyring package with what the test puts in."""
    inside: dict[tuple[str, str], str] = {}
    package: Any = ModuleType("keyring")
    errors: Any = ModuleType("keyring.errors")
    errors.KeyringError = type("KeyringError", (Exception,), {})

    def get_password(service: str, name: str) -> str | None:
        if name == "locked":
            raise errors.KeyringError("locked")
        return inside.get((service, name))

    package.get_password = get_password
    monkeypatch.setitem(sys.modules, "keyring", package)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    return inside


def test_the_first_variable_that_is_set_counts(chest: dict[tuple[str, str], str]) -> None:
    chest["ferrule", "gemini"] = "from the keyring"
    key = find_key("gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), {"GEMINI_API_KEY": " ", "GOOGLE_API_KEY": "abc\n"})
    assert key is not None
    assert (key.secret, key.found_in) == ("abc", "GOOGLE_API_KEY")
    assert "abc" not in repr(key)


def test_else_the_keyring_is_asked(chest: dict[tuple[str, str], str]) -> None:
    chest["ferrule", "openai"] = "hidden"
    key = find_key("openai", ("OPENAI_API_KEY",), {})
    assert key is not None
    assert (key.secret, key.found_in) == ("hidden", "the keyring (ferrule/openai)")
    assert find_key("groq", ("GROQ_API_KEY",), {}) is None
    assert find_key("locked", ("LOCKED_API_KEY",), {}) is None


def test_without_the_package_there_is_no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert find_key("openai", ("OPENAI_API_KEY",), {}) is None
