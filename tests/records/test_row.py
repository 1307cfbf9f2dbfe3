"""O3: what of a call becomes a row, and the hash that ties it to the row before."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.records.record_samples import a_record

from ferrule.core.context import ANYONE, Caller
from ferrule.records.audit import AuditLog
from ferrule.records.database import _MIGRATIONS as MIGRATIONS
from ferrule.records.reader import AuditReader
from ferrule.records.row import (
    COLUMNS,
    CONTENT,
    INSERT,
    SELECT,
    AuditRow,
    content_of,
    hash_of,
    retention_content,
    seal,
    unreadable_content,
)
from ferrule.records.verification import verify


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


def row_of(**changes: Any) -> AuditRow:
    return AuditRow(*seal(1, content_of(a_record(**changes)), ""))


def test_a_record_becomes_a_row_with_everything_in_it(path: Path) -> None:
    """O3."""
    record = a_record(
        parent_id="call_0",
        caller=Caller("acme", "ann", "dev"),
        arguments='{"file_path": "a.txt", "api_key": "hunter2"}',
        started=1_700_000_000.25,
        duration=0.125,
        waited=12.5,
        queued=0.25,
        box="look",
        effects={"counts": {"create": 1}, "files": [{"action": "create", "path": "a.txt", "node": "file"}]},
        verdict="ask",
        reason="Writes ask.",
        rule="Write:*",
        answer="once",
        result_length=17,
        cached=True,
        abandoned=True,
        repairs=("a trailing comma was removed",),
    )
    with AuditLog(path) as log:
        log.record(record)
    (row,) = AuditReader(path).list()
    kept = row.to_dict()
    assert len(kept.pop("hash")) == 64
    assert kept == snapshot(
        {
            "seq": 1,
            "time": 1700000000.25,
            "session": "session",
            "call_id": "call_1",
            "parent": "call_0",
            "tool": "Read",
            "version": "1.0.0",
            "kind": "readonly",
            "tenant": "acme",
            "user": "ann",
            "role": "dev",
            "arguments": '{"file_path": "a.txt", "api_key": "[redacted]"}',
            "arguments_length": 47,
            "arguments_sha256": "",
            "verdict": "ask",
            "reason": "Writes ask.",
            "rule": "Write:*",
            "answer": "once",
            "stage": "record",
            "outcome": "success",
            "error": None,
            "duration": 0.125,
            "result_length": 17,
            "cached": True,
            "abandoned": True,
            "repairs": '["a trailing comma was removed"]',
            "waited": 12.5,
            "queued": 0.25,
            "box": "look",
            "effects": '{"counts": {"create": 1}, "files": [{"action": "create", "path": "a.txt", "node": "file"}]}',
            "prev_hash": "",
        }
    )


def test_effects_of_any_number_keep_their_counts_within_bounds(path: Path) -> None:
    """O3, issue 13: what a command would have changed stands in its record."""
    files = [{"action": "create", "path": f"{'x' * 150}/{number}", "node": "file"} for number in range(5_000)]
    with AuditLog(path) as log:
        log.record(a_record(effects={"counts": {"create": 5_000}, "files": files}))
    (row,) = AuditReader(path).list()
    assert row.effects is not None
    assert len(row.effects) < 17_000
    kept = json.loads(row.effects)
    assert kept["counts"] == {"create": 5_000}
    assert 10 < len(kept["files"]) <= 100


class _Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle += [circle, circle]
    return circle


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        "",
        '{"a": ',
        b"\xff\xfe",
        {"a": "\ud800"},
        {"a": float("nan"), "b": 10**5000},
        {1: (2, {3})},
        "[" * 100_000,
        _circle(),
        {"a": _Rude()},
        "nul \0 byte",
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_a_model_sends_leaves_a_row_that_verifies(path: Path, arguments: Any) -> None:
    """O3."""
    with AuditLog(path) as log:
        log.record(a_record(arguments=arguments, tool="\ud800" * 1000, version=""))
    (row,) = AuditReader(path).list()
    assert len(row.tool) < 400
    assert verify(path).ok


def test_a_caller_nobody_knows_is_stored_as_nothing(path: Path) -> None:
    with AuditLog(path) as log:
        log.record(a_record(caller=ANYONE))
    (row,) = AuditReader(path).list()
    assert (row.tenant, row.user, row.role) == (None, None, None)


def test_the_hash_of_a_row_is_the_same_for_ever() -> None:
    """O3: a log written years ago must still verify, so the form that is hashed is pinned."""
    record = a_record(started=1_700_000_000.25, duration=0.125, reason="«ja», 好", arguments={"a": [1, 2.5, None]})
    content = content_of(record)
    older = (*content[:-4], None, None, None, None)
    first = seal(1, older, "")
    second = seal(2, older, first[-1])
    third = seal(3, content, second[-1])
    assert [first[-1], second[-1], third[-1]] == snapshot(
        [
            "3680c34f5caf1aa1561bd8e2b596010ecd74686c2fd6f0f73d71418dcd6aa9ae",
            "e586187056e03171f0b6a91274179a80edafd52a9468ac13d9cffafccedade01",
            "d636a1d5e45526f7679bfb0e1d24a3a113f03b95168ca83bcc2475e8722a576a",
        ]
    )


ANY_TEXT = st.text(st.characters(), max_size=20)
NUMBERS = st.floats() | st.integers(-(2**63), 2**63)
RECORDS = st.builds(
    a_record,
    call_id=ANY_TEXT,
    parent_id=st.none() | ANY_TEXT,
    session_id=ANY_TEXT,
    caller=st.builds(Caller, st.none() | ANY_TEXT, st.none() | ANY_TEXT, st.none() | ANY_TEXT),
    tool=ANY_TEXT,
    version=ANY_TEXT,
    arguments=ANY_TEXT | st.dictionaries(ANY_TEXT, ANY_TEXT | NUMBERS, max_size=3),
    started=NUMBERS,
    duration=NUMBERS,
    waited=NUMBERS,
    queued=NUMBERS,
    box=st.none() | st.sampled_from(["look", "work"]),
    effects=st.none()
    | st.fixed_dictionaries({"counts": st.dictionaries(ANY_TEXT, st.integers()), "files": st.lists(ANY_TEXT)}),
    reason=ANY_TEXT,
    rule=st.none() | ANY_TEXT,
    answer=st.none() | ANY_TEXT,
    error=st.none() | ANY_TEXT,
    result_length=st.integers(0, 2**80),
    cached=st.booleans(),
    repairs=st.lists(ANY_TEXT, max_size=2).map(tuple),
)


@settings(deadline=None)
@given(record=RECORDS)
def test_the_database_gives_back_what_was_hashed(record: Any) -> None:
    """O3: one value changed on the way, such as -0.0 or half a surrogate pair, and no row would verify."""
    row = seal(1, content_of(record), "")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(";\n".join(MIGRATIONS))
        connection.execute(INSERT, row)
        kept = connection.execute(SELECT).fetchone()
    assert kept == row
    assert hash_of(kept[0], kept[1:-2], kept[-2]) == row[-1]


@given(st.integers(0, len(CONTENT) - 1), st.text(min_size=1, max_size=3))
def test_whatever_is_changed_the_hash_changes(place: int, added: str) -> None:
    """O3."""
    content = list(content_of(a_record(started=5.0)))
    before = hash_of(7, content, "abc")
    content[place] = f"{content[place]}{added}"
    assert hash_of(7, content, "abc") != before


def test_a_row_is_tied_to_its_number_and_to_the_row_before() -> None:
    content = content_of(a_record(started=5.0))
    assert len({hash_of(1, content, "a"), hash_of(2, content, "a"), hash_of(1, content, "b")}) == 3


def test_text_cannot_move_from_one_column_to_the_next_unseen() -> None:
    assert hash_of(1, ["ab", "c"], "") != hash_of(1, ["a", "bc"], "")
    assert hash_of(1, ['a","b'], "") != hash_of(1, ["a", "b"], "")
    assert hash_of(1, [None], "") != hash_of(1, ["null"], "")


def test_every_sort_of_row_fills_every_column() -> None:
    for content in (content_of(a_record()), retention_content(1.0, 5, "abc", 5), unreadable_content(1.0, "why")):
        assert len(content) == len(CONTENT)
        assert len(AuditRow(*seal(1, content, ""))) == len(COLUMNS)


def test_what_retention_and_a_broken_record_leave_behind() -> None:
    note = AuditRow(*seal(9, retention_content(1.0, 5, "abc", 4), ""))
    assert (note.tool, note.kind, note.arguments) == snapshot(
        ("(retention)", "retention", '{"removed_to": 5, "hash": "abc", "removed": 4}')
    )
    broken = AuditRow(*seal(9, unreadable_content(1.0, "It made no sense."), ""))
    assert (broken.tool, broken.kind, broken.outcome, broken.error) == snapshot(
        ("(unreadable)", "", "unknown_error", "It made no sense.")
    )


def test_a_name_that_a_model_made_up_may_be_a_secret_and_a_tools_own_may_not() -> None:
    """P10."""
    assert row_of(tool="token=abcdef", version="").tool == "token=[redacted]"
    assert row_of(tool="token=abcdef", version="1.0.0").tool == "token=abcdef"


@pytest.mark.parametrize("field", ["reason", "rule", "answer", "error"])
def test_words_are_kept_without_secrets(field: str) -> None:
    """P10."""
    assert getattr(row_of(**{field: "password=hunter2 was refused"}), field) == "password=[redacted] was refused"


def test_names_are_not_endless() -> None:
    row = row_of(call_id="x" * 5000, session_id="é" * 5000, parent_id="y" * 5000, tool="z" * 5000)
    assert {len(row.call_id), len(row.session), len(row.parent or ""), len(row.tool)} == {256}


def test_numbers_that_a_database_cannot_hold_are_bounded() -> None:
    row = row_of(started=float("nan"), duration=float("inf"), waited=float("nan"), result_length=2**100)
    assert (row.time, row.duration, row.waited, row.result_length) == (0.0, 0.0, 0.0, 2**63 - 1)
    assert str(row_of(duration=-0.0).duration) == "0.0"
