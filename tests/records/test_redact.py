"""P10: what of a call's arguments and words may be kept."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.record_samples import a_record

from ferrule.records.audit import AuditLog
from ferrule.records.reader import AuditReader
from ferrule.records.redact import MAX_ARGUMENTS, keep_arguments, keep_text, without_surrogates

ANY_TEXT = st.text(st.characters(), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


def test_long_arguments_are_cut_and_say_what_they_were(path: Path) -> None:
    content = "x" * 100_000
    whole = json.dumps({"password": "[redacted]", "content": content})
    with AuditLog(path) as log:
        log.record(a_record(arguments={"password": "hunter2", "content": content}))
    (row,) = AuditReader(path).list()
    assert row.cut
    assert (len(row.arguments), row.arguments_length) == (MAX_ARGUMENTS, len(whole))
    assert row.arguments_sha256 == hashlib.sha256(whole.encode()).hexdigest()


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (None, ""),
        ({}, "{}"),
        ({"city": "Zürich"}, '{"city": "Zürich"}'),
        ('{"city": "Oslo", "password": "hunter2"}', '{"city": "Oslo", "password": "[redacted]"}'),
        ('{"password": "hunter2", "city": ', '{"password": "[redacted]", "city": '),
        (b'{"password": "hunter2"}', '{"password": "[redacted]"}'),
        ("just words", "just words"),
        ({"half": "\ud800"}, '{"half": "\\ud800"}'),
    ],
)
def test_arguments_are_kept_as_the_json_they_were(arguments: Any, kept: str) -> None:
    assert keep_arguments(arguments) == (kept, len(kept), "")


@given(JSON)
def test_what_is_kept_is_bounded_and_can_be_stored(arguments: Any) -> None:
    kept = keep_arguments(arguments)
    kept.text.encode()
    assert len(kept.text) == min(kept.length, MAX_ARGUMENTS)
    assert bool(kept.sha256) == (kept.length > MAX_ARGUMENTS)


def test_the_digest_of_cut_arguments_does_not_help_to_guess_a_secret() -> None:
    """P10: of the original text it would confirm a guess; of the redacted one it is the same for all."""
    long = "x" * MAX_ARGUMENTS
    first, second = (keep_arguments({"password": secret, "text": long}) for secret in ("1234", "9876"))
    assert first.sha256
    assert first == second


def test_a_secret_across_the_edge_of_what_is_kept_is_gone_before_it_is_cut() -> None:
    """P10: redacted first and cut after, or half a key would no longer look like one."""
    key = "sk-" + "a1B2" * 12
    for before in range(MAX_ARGUMENTS - 60, MAX_ARGUMENTS, 7):
        assert "sk-a1" not in keep_arguments("x" * (before - 1) + " " + key).text
    for before in range(40, 100, 7):
        assert "sk-a1" not in keep_text("x" * (before - 1) + " " + key, 100)


def test_long_words_say_how_long_they_were() -> None:
    assert keep_text("x" * 12, 10) == "xxxxxxxxxx… (2 more characters)"
    assert keep_text("x" * 10, 10) == "x" * 10
    assert keep_text(ValueError("token=abc")) == "token=[redacted]"


@given(st.text())
def test_text_that_can_be_stored_is_left_alone(text: str) -> None:
    assert without_surrogates(text) == text


@given(st.text(st.characters()))
def test_half_a_surrogate_pair_is_shown_as_an_escape(text: str) -> None:
    shown = without_surrogates(text)
    shown.encode()
    assert without_surrogates(shown) == shown
    assert without_surrogates("\udcff" + text).startswith("\\udcff")
