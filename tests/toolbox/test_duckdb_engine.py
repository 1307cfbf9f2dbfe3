"""DuckDB opens the one file it was given, or the files of the workspace that may be read, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.toolbox.database_desk import DatabaseDesk, digest

from ferrule.toolbox.accounts import DatabaseAccount

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import duckdb

    folder = tmp_path_factory.mktemp("duck")
    connection: Any = duckdb.connect(str(folder / "facts.duckdb"))
    connection.execute("CREATE TABLE facts (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, day DATE)")
    connection.execute("INSERT INTO facts VALUES (1, 'one', '2026-01-02'), (2, 'two', NULL)")
    connection.execute("CREATE VIEW late AS SELECT * FROM facts WHERE day > '2026-01-01'")
    connection.execute(f"COPY facts TO '{folder / 'facts.parquet'}'")
    connection.close()
    return folder


@pytest.fixture
def desk(tmp_path: Path, made: Path) -> DatabaseDesk:
    (tmp_path / "data").mkdir()
    for name, to in (("facts.duckdb", "facts.duckdb"), ("facts.parquet", "data/facts.parquet")):
        (tmp_path / to).write_bytes((made / name).read_bytes())
    (tmp_path / "data/sales.csv").write_text("who,total\nAda,3\nBob,4\n")
    (tmp_path / "secret.csv").write_text("key\nhunter2\n")
    (tmp_path / "link.csv").symlink_to("/etc/passwd")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden/x.csv").write_text("a\n1\n")
    account = DatabaseAccount("duckdb:///facts.duckdb", timeout=3)
    return DatabaseDesk(tmp_path, {"facts": account}, deny=["Read(secret.csv)"])


def test_a_database_is_described_queried_and_changed(desk: DatabaseDesk) -> None:
    said = desk.run("DescribeDatabase", database="facts", detail="columns").llm_content
    assert "  id: INTEGER, primary key, not null\n  name: VARCHAR, not null\n  day: DATE" in said
    assert "view late" in said
    assert desk.rows("SELECT * FROM facts WHERE id = ?", "facts", parameters=[1]) == [[1, "one", "2026-01-02"]]
    assert "not 1 as expected" in desk.refused("DELETE FROM facts", "facts", tool="ChangeDatabase", expect_rows=1)
    assert desk.change("DELETE FROM facts WHERE id = 2", "facts", expect_rows=1).llm_content == "Changed 1 row."
    assert desk.rows("SELECT count(*) FROM facts", "facts") == [[1]]


def test_files_of_the_workspace_are_queried_where_they_may_be_read(desk: DatabaseDesk) -> None:
    said = desk.run("DescribeDatabase", database="files").llm_content
    assert said.splitlines()[1:] == ["file data/facts.parquet", "file data/sales.csv"]
    assert "  total: BIGINT" in desk.run("DescribeDatabase", database="files", object="data/sales.csv").llm_content
    sql = "SELECT s.who, f.name FROM 'data/sales.csv' s JOIN 'data/facts.parquet' f ON f.id + 2 = s.total ORDER BY 1"
    assert desk.rows(sql, "files") == [["Ada", "one"], ["Bob", "two"]]
    assert "read-only here" in desk.refused("CREATE TABLE a (b INT)", "files", tool="ChangeDatabase")


OPENS = ["SELECT * FROM read_text('secret.csv')", "COPY facts TO 'out.csv'", "ATTACH 'other.duckdb' AS o",
         "SET enable_external_access = true", "SELECT 1; SELECT 2"]  # fmt: skip


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM 'secret.csv'",
        "SELECT * FROM read_text('secret.csv')",
        "SELECT * FROM read_blob('data/../secret.csv')",
        "SELECT * FROM 'link.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM 'data/*.csv'",
        "SELECT * FROM glob('*')",
        "SELECT * FROM 'http://127.0.0.1:1/a.csv'",
        "SELECT * FROM sqlite_scan('a.db', 't')",
        "COPY (SELECT 1) TO 'out.csv'",
        "COPY (SELECT 1) TO 'data/sales.csv'",
        "EXPORT DATABASE 'out'",
        "ATTACH 'facts.duckdb' AS f",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET allowed_paths = ['/etc/passwd']",
        "PRAGMA enable_profiling",
        "CREATE TABLE t (a INT)",
        "SELECT 1; SELECT 2",
        "CALL pragma_version()",
        "CREATE SECRET s (TYPE s3)",
        "",
    ],
)
def test_nothing_else_is_opened_or_changed(desk: DatabaseDesk, sql: str) -> None:
    before = digest(desk.workspace)
    said = desk.refused(sql, "files")
    assert "hunter2" not in said
    assert "root:" not in said
    assert digest(desk.workspace) == before


@pytest.mark.parametrize("sql", ["DELETE FROM facts", "UPDATE facts SET id = 1", "DROP TABLE facts", "CHECKPOINT",
                                 "INSERT INTO facts VALUES (3, '', NULL) RETURNING id", *OPENS])  # fmt: skip
def test_a_database_is_only_read_by_a_query(desk: DatabaseDesk, sql: str) -> None:
    before = digest(desk.workspace)
    desk.refused(sql, "facts")
    assert digest(desk.workspace) == before


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("WITH RECURSIVE n(i) AS (SELECT 1::HUGEINT UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n", "s, and was"),
        ("SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range = 7", "s, and was"),
        ("SELECT list(range) FROM range(10000000000)", "memory"),
    ],
)
def test_what_is_endless_or_huge_is_given_up(desk: DatabaseDesk, sql: str, said: str) -> None:
    assert said in desk.refused(sql, "files")
