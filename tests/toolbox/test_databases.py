"""What the database tools do, whatever the engine: shown here on SQLite, which needs no server."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.toolbox.database_desk import DatabaseDesk, digest, make_shop

from ferrule import RawCall
from ferrule.core.lint import lint_tool
from ferrule.toolbox.accounts import Accounts, DatabaseAccount
from ferrule.toolbox.databases.tools import tools


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_shop(tmp_path_factory.mktemp("shop") / "shop.db")


@pytest.fixture
def desk(tmp_path: Path, shop: Path) -> DatabaseDesk:
    shutil.copy(shop, tmp_path / "shop.db")
    return DatabaseDesk(tmp_path, {"shop": DatabaseAccount("sqlite:///shop.db", timeout=5)})


def test_a_database_is_described(desk: DatabaseDesk) -> None:
    def described(**more: str) -> str:
        said = desk.run("DescribeDatabase", database="shop", **more).llm_content
        return said.replace(sqlite3.sqlite_version, "<version>")

    assert described() == snapshot("""\
`shop` is SQLite <version>; parameters are written `?`.
table customers (2 rows)
view large
table orders (3 rows)\
""")
    assert described(object="orders") == snapshot("""\
`shop` is SQLite <version>; parameters are written `?`.
table orders (3 rows)
  id: INTEGER, primary key, not null
  customer: INTEGER, not null
  total: REAL, default 0
  note: TEXT
  key: (customer) references customers (id)
  index: by_customer (customer)\
""")
    assert described(object="order") == snapshot("""\
Error (not_found_error): There is no table or view `order`.

Suggestion: Did you mean `orders`?\
""")


def test_rows_come_as_a_table_and_as_typed_data(desk: DatabaseDesk) -> None:
    result = desk.query(
        "SELECT id, total, note, x'00ff' AS raw FROM orders WHERE customer = ? OR id = 3", parameters=[1]
    )
    assert result.llm_content == snapshot("""\
| id | total | note | raw |
|---|---|---|---|
| 1 | 12.5 | NULL | \\x00ff |
| 2 | 99.0 | gift \\| wrapped | \\x00ff |
| 3 | 7.0 | two\\nlines | \\x00ff |
[3 rows]\
""")
    assert result.data["rows"] == snapshot(
        [
            [1, 12.5, None, "\\x00ff"],
            [2, 99.0, "gift | wrapped", "\\x00ff"],
            [
                3,
                7.0,
                """\
two
lines\
""",
                "\\x00ff",
            ],
        ]
    )
    assert not desk.asked


def test_long_results_and_values_are_cut_and_say_so(desk: DatabaseDesk) -> None:
    many = desk.query(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) SELECT i FROM n", limit=3
    )
    assert many.llm_content == snapshot("""\
| i |
|---|
| 1 |
| 2 |
| 3 |
[3 rows; there are more]\
""")
    wide = desk.query("SELECT printf('%.*c', 200000, 'x') AS long")
    assert len(wide.llm_content) < 2000
    assert "(199,000 more characters)" in wide.llm_content
    assert wide.data["cut_values"] == 1
    both = desk.query(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) SELECT printf('%.*c', 900, 'x') FROM n",
        limit=1000,
    )
    assert both.data["has_more"]
    assert len(both.llm_content) < 100_000


def test_saving_rows_to_a_file_asks_and_saves_all_of_them(desk: DatabaseDesk) -> None:
    result = desk.query("SELECT id, note FROM orders", save_to="out/orders.csv", limit=1)
    assert result.llm_content == "Saved 3 rows to `out/orders.csv`."
    assert [one.invocation.tool.name for one in desk.asked] == ["QueryDatabase"]
    assert (desk.workspace / "out/orders.csv").read_text() == 'id,note\n1,\n2,gift | wrapped\n3,"two\nlines"\n'
    desk.query("SELECT 1 AS a, 2 AS a", save_to="two.jsonl")
    assert json.loads((desk.workspace / "two.jsonl").read_text()) == {"a": 1, "a_1": 2}
    assert "must end with .csv or .jsonl" in desk.refused("SELECT 1", save_to="x.exe")
    assert "outside" in desk.refused("SELECT 1", save_to="../x.csv")


def test_plan_mode_queries_and_neither_saves_nor_changes(tmp_path: Path) -> None:
    desk = DatabaseDesk(tmp_path, {"shop": DatabaseAccount("sqlite:///shop.db")}, mode="plan")
    make_shop(tmp_path / "shop.db")
    before = digest(tmp_path)
    assert desk.rows("SELECT count(*) FROM orders") == [[3]]
    desk.refused("SELECT 1", save_to="a.csv")
    desk.refused("DELETE FROM orders", tool="ChangeDatabase")
    assert digest(tmp_path) == before


def test_a_change_is_asked_about_with_what_it_would_do(desk: DatabaseDesk) -> None:
    result = desk.change("DELETE FROM orders WHERE customer = ?", parameters=[1], expect_rows=2)
    assert result.llm_content == "Changed 2 rows."
    assert desk.asked[0].invocation.summary == snapshot("""\
ChangeDatabase shop: DELETE FROM orders WHERE customer = ?
parameters: [1]
only if it changes 2 rows\
""")
    assert desk.asked[0].preview == "It would change 2 rows."
    assert desk.asked[0].rule == "ChangeDatabase(shop)"
    assert desk.rows("SELECT count(*) FROM orders") == [[1]]


def test_an_unexpected_number_of_rows_is_rolled_back(desk: DatabaseDesk) -> None:
    before = digest(desk.workspace)
    assert desk.refused("UPDATE orders SET total = 0", tool="ChangeDatabase", expect_rows=1) == snapshot("""\
Error (execution_error): The statement changed 3 rows, not 1 as expected. It was rolled back: nothing is changed.

Suggestion: Look at the rows with QueryDatabase, then correct the statement or `expect_rows`.\
""")
    assert digest(desk.workspace) == before


def test_what_a_change_returns_is_shown(desk: DatabaseDesk) -> None:
    result = desk.change("WITH n(i) AS (VALUES (8), (9)) INSERT INTO customers SELECT i, 'new' FROM n RETURNING id")
    assert result.llm_content == snapshot("""\
Changed 2 rows.
| id |
|---|
| 8 |
| 9 |\
""")


def test_a_rule_names_a_database_and_cannot_be_passed_by_rewording(tmp_path: Path) -> None:
    accounts = {name: DatabaseAccount("sqlite:///shop.db") for name in ("shop", "copy")}
    make_shop(tmp_path / "shop.db")
    desk = DatabaseDesk(tmp_path, accounts, deny=["QueryDatabase(shop)"], allow=["ChangeDatabase(copy)"])
    for sql in ("SELECT 1", "SELECT/**/1"):
        assert "denies" in desk.refused(sql)
    assert "denies" in desk.refused("SELECT 1", save_to="a.csv")
    assert desk.rows("SELECT 1", "copy") == [[1]]
    assert desk.change("UPDATE orders SET total = 1", "copy").success
    assert not desk.asked
    desk.change("UPDATE orders SET total = 1")
    assert len(desk.asked) == 1


def test_rules_about_files_hold_for_databases_in_files(tmp_path: Path) -> None:
    make_shop(tmp_path / "shop.db")
    accounts = {"shop": DatabaseAccount("sqlite:///shop.db")}
    assert "denies" in DatabaseDesk(tmp_path, accounts, deny=["Read(shop.db)"]).refused("SELECT 1")
    desk = DatabaseDesk(tmp_path, accounts, deny=["Edit(shop.db)"])
    assert desk.rows("SELECT 1") == [[1]]
    assert "denies" in desk.refused("DELETE FROM orders", tool="ChangeDatabase")


def test_a_batch_reads_what_it_wrote_before(desk: DatabaseDesk) -> None:
    count = {"database": "shop", "sql": "SELECT count(*) FROM customers"}
    add = {"database": "shop", "sql": "INSERT INTO customers (name) VALUES ('new')"}
    calls = [
        RawCall(tool, arguments)
        for tool, arguments in (("QueryDatabase", count), ("ChangeDatabase", add), ("QueryDatabase", count))
    ]
    results = asyncio.run(desk.runtime.batch(calls))
    assert [one.data["rows"] for one in results] == [[[2]], [], [[3]]]


def test_only_databases_of_the_settings_and_only_inside_the_workspace(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    make_shop(tmp_path / "shop.db")
    (inside / "link.db").symlink_to(tmp_path / "shop.db")
    accounts = {
        "up": DatabaseAccount("sqlite:///../shop.db"),
        "link": DatabaseAccount("sqlite:///link.db"),
        "missing": DatabaseAccount("sqlite:///none.db"),
        "folder": DatabaseAccount("sqlite:///."),
        "odd": DatabaseAccount("oracle://x"),
        "absolute": DatabaseAccount(f"sqlite:///{tmp_path / 'shop.db'}"),
        "kept": DatabaseAccount("sqlite:///link.db", read_only=True),
    }
    desk = DatabaseDesk(inside, accounts)
    assert "outside" in desk.refused("SELECT 1", "up")
    assert "outside" in desk.refused("SELECT 1", "link")
    assert "no file" in desk.refused("SELECT 1", "missing")
    assert "not a database file" in desk.refused("SELECT 1", "folder")
    assert "must begin with sqlite:///" in desk.refused("SELECT 1", "odd")
    assert "Did you mean `absolute`?" in desk.refused("SELECT 1", "absolut")
    assert desk.rows("SELECT count(*) FROM orders", "absolute") == [[3]], "the user wrote that path"
    assert "read-only here" in desk.refused("DELETE FROM orders", "kept", tool="ChangeDatabase")
    assert not (inside / "none.db").exists()


def test_without_a_database_that_may_change_there_is_no_tool_to_change_one() -> None:
    accounts = Accounts(databases={"a": DatabaseAccount("sqlite:///a.db", read_only=True)})
    assert [one.name for one in tools(accounts)] == ["DescribeDatabase", "QueryDatabase"]


def test_a_password_in_a_url_is_refused_and_not_repeated(tmp_path: Path) -> None:
    desk = DatabaseDesk(tmp_path, {"s": DatabaseAccount("postgresql://u:hunter2-secret@127.0.0.1:1/x")})
    said = desk.refused("SELECT 1", "s")
    assert "it holds a password" in said
    assert "hunter2" not in said
    assert "hunter2" not in str(desk.checked())


def test_a_password_that_cannot_be_filled_in_says_which(tmp_path: Path) -> None:
    account = DatabaseAccount("postgresql://u@127.0.0.1:1/x", password="${FERRULE_TEST_NOT_SET}")
    assert "the variable `FERRULE_TEST_NOT_SET` is not set" in DatabaseDesk(tmp_path, {"s": account}).refused(
        "SELECT 1", "s"
    )


def test_the_check_says_what_is_wrong_with_files(tmp_path: Path) -> None:
    make_shop(tmp_path / "shop.db")
    (tmp_path / "text.db").write_text("not a database, but long enough to have a header" * 20)
    names = {
        "shop": "sqlite:///shop.db",
        "text": "sqlite:///text.db",
        "none": "sqlite:///none.db",
        "duck": "duckdb:///text.db",
    }
    found = DatabaseDesk(tmp_path, {name: DatabaseAccount(url) for name, url in names.items()}).checked()
    assert found["shop"] == "works"
    assert "not an SQLite database" in found["text"]
    assert "no file" in found["none"]
    assert "not a DuckDB database" in found["duck"]


def test_models_read_this_of_the_tools(desk: DatabaseDesk) -> None:
    for tool in desk.tools.values():
        assert not lint_tool(tool)
    assert {name: tool.description.short for name, tool in desk.tools.items()} == snapshot(
        {
            "DescribeDatabase": "Describe a database: its tables and views, or one of them.",
            "QueryDatabase": "Query a database.",
            "ChangeDatabase": "Change a database with one statement, in a transaction.",
        }
    )
    schema = desk.tools["ChangeDatabase"].input_schema
    assert isinstance(schema, dict)
    assert schema["properties"]["database"]["description"] == snapshot(
        "One of `shop` (SQLite), `files` (CSV and Parquet files)."
    )


def test_a_foreign_key_is_enforced(desk: DatabaseDesk) -> None:
    assert "FOREIGN KEY" in desk.refused("INSERT INTO orders VALUES (9, 99, 1, '')", tool="ChangeDatabase")
    with closing(sqlite3.connect(desk.workspace / "shop.db")) as shop:
        assert shop.execute("SELECT count(*) FROM orders").fetchone() == (3,)


# A file of the workspace, by its path


@pytest.fixture
def unnamed(tmp_path: Path, shop: Path) -> DatabaseDesk:
    """A workspace whose settings name no database."""
    (tmp_path / "data").mkdir()
    shutil.copy(shop, tmp_path / "data/shop.db")
    return DatabaseDesk(tmp_path, {})


def test_a_file_in_the_workspace_is_queried_by_its_path(unnamed: DatabaseDesk, tmp_path: Path) -> None:
    assert unnamed.rows("SELECT name FROM customers", "data/shop.db") == [["Ada"], ["Bob"]]
    assert unnamed.rows("SELECT 1", str(tmp_path / "data/shop.db")) == [[1]]
    described = unnamed.run("DescribeDatabase", database="./data/shop.db", object="customers")
    assert "name: TEXT, not null" in described.llm_content
    assert unnamed.asked == []
    before = digest(tmp_path / "data")
    assert "read" in unnamed.refused("DELETE FROM orders", "data/shop.db")
    assert digest(tmp_path / "data") == before


def test_what_is_no_database_file_is_said_with_what_to_do(unnamed: DatabaseDesk, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    assert unnamed.refused("SELECT 1", "rows.csv") == snapshot("""\
Error (validation_error): `rows.csv` is neither a SQLite nor a DuckDB file.

Suggestion: CSV and Parquet files are in the database `files`.\
""")
    assert "`data` is a directory, not a file." in unnamed.refused("SELECT 1", "data")
    assert unnamed.refused("SELECT 1", "sales") == snapshot("""\
Error (not_found_error): There is no database `sales`.

Suggestion: Known names: `files`. The path of a SQLite or DuckDB file in the workspace works too; other databases need `[databases.NAME]` with a `url` in the user's settings.\
""")
    assert unnamed.refused("SELECT 1", "/etc/passwd") == snapshot("""\
Error (permission_error): `…/passwd` is outside the workspace.

Suggestion: Use a path inside the workspace; relative paths start at its top.\
""")
    assert unnamed.refused("SELECT 1", "../shop.db").startswith("Error (permission_error)")


def test_the_rules_for_a_file_hold_for_it_as_a_database(tmp_path: Path, shop: Path) -> None:
    shutil.copy(shop, tmp_path / "shop.db")
    closed = DatabaseDesk(tmp_path, {}, deny=["Read(shop.db)"])
    assert "`./shop.db` is not read" in closed.refused("SELECT 1", "./shop.db")
    named = DatabaseDesk(tmp_path, {}, deny=["QueryDatabase(shop.db)"])
    assert "was not run" in named.refused("SELECT 1", "./shop.db")


def test_only_a_database_in_the_settings_is_changed(desk: DatabaseDesk, tmp_path: Path) -> None:
    shutil.copy(tmp_path / "shop.db", tmp_path / "other.db")
    assert desk.refused("DELETE FROM orders", "other.db", "ChangeDatabase") == snapshot("""\
Error (permission_error): `other.db` is read-only here, because it is not in the settings.

Suggestion: Ask the user to add it: `[databases.NAME]` with `url = "sqlite:///other.db"`.\
""")
    assert desk.asked == []
