"""Figures from blocks that were summed up are those of the rows themselves, and `verify` holds them to that."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing, suppress
from itertools import product
from pathlib import Path

import pytest
from tests.records.record_samples import a_log, a_record, a_refusal, tamper

from ferrule.core.context import Caller
from ferrule.pipeline.stages import CallRecord
from ferrule.records.audit import AuditLog, Retention
from ferrule.records.database import AuditError
from ferrule.records.statistics import BLOCK, add_missing_blocks, statistics_of, stored_blocks
from ferrule.records.verification import verify

ROWS = 3 * BLOCK + 500


def records() -> list[CallRecord]:
    chance = random.Random(7)
    made: list[CallRecord] = []
    for number in range(ROWS):
        more = {
            "tool": chance.choice(["Read", "Bash", "Write"]),
            "started": 1000.0 + number,
            "duration": chance.expovariate(10),
            "waited": chance.choice([0.0, 0.0, chance.random()]),
            "caller": Caller(chance.choice(["acme", None])),
        }
        kind = chance.random()
        if kind < 0.1:
            made.append(a_refusal(number, **more))
        elif kind < 0.15:
            made.append(a_record(number, **more | {"version": "", "stage": "lookup", "outcome": "not_found_error"}))
        else:
            made.append(a_record(number, **more))
    return made


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("usage") / "audit.db"
    with AuditLog(path) as log:
        for one in records():
            log.record(one)
    return path


def without_blocks(path: Path, folder: Path) -> Path:
    copy = folder / "copy.db"
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    tamper(copy, "DELETE FROM usage")
    return copy


def test_whole_blocks_are_summed_up_while_the_log_is_written(log: Path) -> None:
    with closing(sqlite3.connect(log)) as connection:
        assert [block.number for block in stored_blocks(connection)] == [0, 1, 2]
    assert verify(log).ok


def test_they_give_the_figures_of_the_rows(log: Path, tmp_path: Path) -> None:
    bare = without_blocks(log, tmp_path)
    every = records()
    ends = product(
        (-1e9, 0.0, 1000.0 + BLOCK, 1003.0, 1000.0 + 2 * BLOCK + 7, 1e9),
        (1e9, 1000.0 + 2 * BLOCK, 1000.0 + BLOCK + 3),
        ("acme", None, ...),
    )
    for since, until, tenant in ends:
        only = {} if tenant is ... else {"tenant": tenant}
        found = statistics_of(log, since=since, until=until, **only)
        assert found == statistics_of(bare, since=since, until=until, **only), (since, until, tenant)
        wanted = [one for one in every if since <= one.started < until and tenant in (..., one.caller.tenant)]
        assert sum(one.count for one in found) == len(wanted), (since, until, tenant)
        for usage in found:
            ran = sorted(
                one.duration for one in wanted if one.tool == usage.tool and one.version and one.stage == "record"
            )
            assert (usage.ran, usage.max) == (len(ran), ran[-1] if ran else None), (since, until, tenant)
            if ran:
                assert usage.p50 == ran[-(-len(ran) // 2) - 1], (since, until, tenant)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE usage SET count = count + 1 WHERE rowid = 2",
        "UPDATE usage SET durations = zeroblob(length(durations)) WHERE rowid = 1",
        "UPDATE usage SET tool = 'Other' WHERE rowid = 1",
        "UPDATE usage SET first_time = 'never' WHERE rowid = 1",
        "DELETE FROM usage WHERE rowid = 1",
        "INSERT INTO usage SELECT * FROM usage WHERE rowid = 1",
        "UPDATE usage SET block = block + 100",
        "UPDATE usage SET block = 'x'",
    ],
)
def test_figures_that_do_not_follow_from_the_rows_are_tampering(log: Path, tmp_path: Path, statement: str) -> None:
    """O3: nobody makes a tool look used, or unused, with the chain whole."""
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(log)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    tamper(copy, statement)
    found = verify(copy)
    assert not found.ok
    assert "tatistics" in found.why
    with suppress(AuditError):  # and no other error
        statistics_of(copy)


def test_a_log_without_them_gets_them_bit_by_bit(log: Path, tmp_path: Path) -> None:
    copy = without_blocks(log, tmp_path)
    assert verify(copy).ok
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        assert add_missing_blocks(connection) == 0
        assert add_missing_blocks(connection) == 0
    assert verify(copy).ok
    assert statistics_of(copy) == statistics_of(log)


def test_retention_takes_those_that_lost_a_row(tmp_path: Path) -> None:
    path = a_log(tmp_path / "audit.db", 2 * BLOCK + 10)
    with AuditLog(path, retention=Retention(rows=BLOCK + 100)) as log:
        log.record(a_record())
    with closing(sqlite3.connect(path)) as connection:
        assert [block.number for block in stored_blocks(connection)] == [1]
        (rows,) = connection.execute("SELECT count(*) FROM calls WHERE kind = 'readonly'").fetchone()
    assert verify(path).ok
    assert sum(one.count for one in statistics_of(path)) == rows
