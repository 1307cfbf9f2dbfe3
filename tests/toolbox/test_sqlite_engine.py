"""SQLite is only read, and ends in time, whatever a statement or a file tries."""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import time
from pathlib import Path

import pytest
from tests.toolbox.database_desk import DatabaseDesk, digest, make_shop

from ferrule.toolbox.accounts import DatabaseAccount


@pytest.fixture
def desk(tmp_path: Path) -> DatabaseDesk:
    make_shop(tmp_path / "shop.db")
    return DatabaseDesk(tmp_path, {"shop": DatabaseAccount("sqlite:///shop.db", timeout=1)})


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM orders",
        "INSERT INTO orders VALUES (9, 1, 1, '') RETURNING id",
        "WITH x AS (SELECT 1) DELETE FROM orders WHERE id IN x",
        "CREATE TEMP TABLE t (a)",
        "DROP TABLE orders",
        "ATTACH 'other.db' AS other",
        "ATTACH ':memory:' AS other",
        "VACUUM",
        "VACUUM INTO 'copy.db'",
        "REINDEX",
        "ANALYZE",
        "BEGIN IMMEDIATE",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA journal_mode = WAL",
        "PRAGMA writable_schema = ON",
        "PRAGMA user_version = 7",
        "PRAGMA query_only = OFF",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA temp_store_directory = '.'",
        "UPDATE sqlite_master SET sql = ''",
        "SELECT load_extension('x.so')",
        "SELECT fts3_tokenizer('simple', x'4141414141414141')",
        "SELECT writefile('a', 'b')",
        "SELECT 1; DELETE FROM orders",
        "EXPLAIN",
        "",
    ],
)
def test_nothing_but_reading_is_done(desk: DatabaseDesk, sql: str) -> None:
    before = digest(desk.workspace)
    desk.refused(sql)
    assert digest(desk.workspace) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    ["ATTACH 'o.db' AS o", "PRAGMA writable_schema = ON", "COMMIT", "SAVEPOINT a", "VACUUM INTO 'copy.db'",
     "SELECT load_extension('x')", "DELETE FROM orders; DELETE FROM customers"],
)  # fmt: skip
def test_a_change_stays_in_its_database_and_its_transaction(desk: DatabaseDesk, sql: str) -> None:
    before = digest(desk.workspace)
    desk.refused(sql, tool="ChangeDatabase")
    assert digest(desk.workspace) == before


@pytest.mark.slow
def test_what_only_asks_is_answered(desk: DatabaseDesk) -> None:
    assert desk.rows("SELECT name FROM pragma_table_info('customers')") == [["id"], ["name"]]
    assert desk.rows("PRAGMA user_version") == [[0]]
    assert desk.rows("SELECT value FROM json_each('[1,2]')") == [[1], [2]]
    assert desk.query("EXPLAIN QUERY PLAN SELECT * FROM orders").success


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n", "took longer"),
        (f"SELECT count(*) FROM orders{''.join(f', orders o{n}' for n in range(20))}", "took longer"),
        ("SELECT zeroblob(900000000)", "too large"),
        ("SELECT replace(hex(zeroblob(4000000)), '0', 'xxxxxxxxxx')", "too large"),
        ("SELECT " + "(" * 900 + "1" + ")" * 900, "said"),
        ("SELECT " + "1+" * 900 + "1", "depth"),
    ],
)  # fmt: skip
def test_what_is_endless_or_huge_is_given_up(desk: DatabaseDesk, sql: str, said: str) -> None:
    began = time.monotonic()
    assert re.search(said, desk.refused(sql))
    assert time.monotonic() - began < 30


@pytest.mark.slow
def test_a_statement_that_needs_too_much_memory_is_given_up(tmp_path: Path) -> None:
    make_shop(tmp_path / "shop.db")
    desk = DatabaseDesk(tmp_path, {"shop": DatabaseAccount("sqlite:///shop.db", timeout=60)})
    sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 60) SELECT zeroblob(40000000) FROM n "
    assert "memory" in desk.refused(sql + "ORDER BY random()")


def test_a_hot_journal_is_not_read_as_truth(tmp_path: Path) -> None:
    """A program was killed in the middle of a change: what the file holds is half of it."""
    live = make_shop(tmp_path / "live.db")
    connection = sqlite3.connect(live, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN")
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n LIMIT 9000) "
        "INSERT INTO orders SELECT i, 1, 1, 'half' FROM n"
    )
    shutil.copy(live, tmp_path / "shop.db")
    shutil.copy(f"{live}-journal", tmp_path / "shop.db-journal")
    connection.close()
    before = digest(tmp_path / "shop.db", tmp_path / "shop.db-journal")
    desk = DatabaseDesk(tmp_path, {"shop": DatabaseAccount("sqlite:///shop.db")})
    assert "interrupted" in desk.refused("SELECT count(*) FROM orders")
    assert digest(tmp_path / "shop.db", tmp_path / "shop.db-journal") == before


@pytest.mark.slow
def test_a_write_ahead_log_is_read_where_it_is_used_and_makes_no_files_where_it_rests(tmp_path: Path) -> None:
    path = make_shop(tmp_path / "shop.db", "PRAGMA journal_mode = WAL;")
    desk = DatabaseDesk(tmp_path, {"shop": DatabaseAccount("sqlite:///shop.db")})
    assert desk.rows("SELECT count(*) FROM orders") == [[3]]
    assert [one.name for one in tmp_path.iterdir()] == ["shop.db"]
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("INSERT INTO orders VALUES (4, 1, 1, 'in the log')")
    assert desk.rows("SELECT count(*) FROM orders") == [[4]]
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", tmp_path / f"copy.db{end}")
    writer.close()
    copied = DatabaseDesk(tmp_path, {"shop": DatabaseAccount("sqlite:///copy.db")})
    assert "write-ahead log" in copied.refused("SELECT count(*) FROM orders")


@pytest.mark.slow
def test_a_database_that_another_program_changes_says_so(desk: DatabaseDesk) -> None:
    other = sqlite3.connect(desk.workspace / "shop.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert "Another program" in desk.refused("DELETE FROM orders", tool="ChangeDatabase")
    other.close()


@pytest.mark.slow
def test_a_change_that_is_cancelled_leaves_the_database_whole(tmp_path: Path) -> None:
    make_shop(tmp_path / "shop.db")
    before = digest(tmp_path)
    desk = DatabaseDesk(tmp_path, {"shop": DatabaseAccount("sqlite:///shop.db", timeout=60)}, mode="bypass")
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n) INSERT INTO orders SELECT i, 1, 1, '' FROM n"
    )

    async def cancel() -> None:
        call = asyncio.create_task(desk.runtime.run("ChangeDatabase", {"database": "shop", "sql": endless}))
        while not (tmp_path / "shop.db-journal").exists():
            await asyncio.sleep(0.05)
        call.cancel()
        await asyncio.wait([call])

    asyncio.run(cancel())
    assert digest(tmp_path) == before


@pytest.mark.slow
def test_a_damaged_or_hostile_file_harms_nobody(tmp_path: Path) -> None:
    path = make_shop(tmp_path / "shop.db", "CREATE VIEW evil AS SELECT load_extension('x.so');")
    desk = DatabaseDesk(tmp_path, {"shop": DatabaseAccount("sqlite:///shop.db")})
    desk.refused("SELECT * FROM evil")
    data = bytearray(path.read_bytes())
    for at in range(4200, len(data), 7):
        data[at] ^= 0x5A
    path.write_bytes(data)
    assert not desk.query("SELECT * FROM orders ORDER BY note").success


def test_text_that_is_not_utf8_is_shown_escaped(tmp_path: Path) -> None:
    make_shop(tmp_path / "shop.db", "INSERT INTO customers VALUES (9, CAST(x'4dfc6c6c6572' AS TEXT));")
    desk = DatabaseDesk(tmp_path, {"shop": DatabaseAccount("sqlite:///shop.db")})
    assert desk.rows("SELECT name FROM customers WHERE id = 9") == [["M\\xfcller"]]
