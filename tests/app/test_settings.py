"""The settings' defaults are those of the runtime."""

from __future__ import annotations

from ferrule.app.settings import Settings
from ferrule.core.call import Limits


def test_limits_agree_with_the_runtimes_own() -> None:
    settings, limits = Settings().limits, Limits()
    for name in ("timeout", "result_chars", "argument_bytes", "concurrency"):
        assert getattr(settings, name) == getattr(limits, name)


def test_nothing_is_allowed_by_default_and_calls_are_recorded() -> None:
    settings = Settings()
    assert (settings.permissions.mode, settings.permissions.allow) == ("default", [])
    assert settings.audit.enabled
