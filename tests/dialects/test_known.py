"""Dialects by name (T10)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ferrule.dialects import KNOWN, Dialect, DialectError, dialect


@pytest.mark.parametrize("name", KNOWN)
def test_every_known_dialect_is_there(name: str) -> None:
    assert isinstance(dialect(name), Dialect)
    assert dialect(name).name == name
    assert dialect(name) is dialect(name)


def test_an_unknown_one_lists_the_known() -> None:
    with pytest.raises(DialectError) as raised:
        dialect("cohere")
    expected = "There is no dialect 'cohere'. Known dialects: openai, openai-responses, anthropic, gemini, mcp."
    assert str(raised.value) == expected


def test_a_dialect_is_imported_when_asked_for_and_brings_no_sdk() -> None:
    code = (
        "import sys, ferrule.dialects as d; assert 'ferrule.dialects.gemini' not in sys.modules;"
        "[d.dialect(n) for n in d.KNOWN];"
        "assert not {'openai', 'anthropic', 'google', 'mcp'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
