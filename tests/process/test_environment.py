"""Which variables a command gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.secrets import is_secret_name
from ferrule.process.profile import _KEPT, clean_environment


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_ACCESS_KEY_ID", "SSH_AUTH_SOCK", "LD_PRELOAD", "LD_LIBRARY_PATH",
        "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "BASH_ENV", "ENV", "PROMPT_COMMAND", "GIT_SSH_COMMAND",
        "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "KUBECONFIG", "DATABASE_URL", "HTTP_PROXY", "BASH_FUNC_ls%%", "XYZ",
    ],
)  # fmt: skip
def test_what_is_not_known_to_be_harmless_stays_outside(name: str) -> None:
    assert name not in clean_environment({name: "x"}, {})


def test_no_kept_name_sounds_secret() -> None:
    assert [name for name in _KEPT if is_secret_name(name)] == []


@given(st.dictionaries(st.text(), st.text()), st.dictionaries(st.text(), st.text()))
def test_what_is_given_on_purpose_is_passed_on(outer: dict[str, str], given_ones: dict[str, str]) -> None:
    assert clean_environment(outer, given_ones).items() >= given_ones.items()


def test_there_is_always_a_path() -> None:
    assert "/usr/bin" in clean_environment({}, {})["PATH"]
