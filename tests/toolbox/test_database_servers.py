"""PostgreSQL and MariaDB, real ones: what is only read stays as it is, whatever a query tries."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.service.postgres import Cluster
from tests.toolbox.database_desk import DatabaseDesk
from tests.toolbox.database_servers import MariaServer, free_port

from ferrule.toolbox.accounts import DatabaseAccount

pytestmark = pytest.mark.slow

PASSWORD = "tiger/lily %7 'x"  # what has to be quoted in URLs and in SQL
_PG_SHOP = """
CREATE TABLE orders (id serial PRIMARY KEY, customer text NOT NULL, total numeric(10,2));
INSERT INTO orders (customer, total) SELECT 'c' || i % 7, i FROM generate_series(1, 500) i;
CREATE INDEX by_customer ON orders (customer);
CREATE VIEW large AS SELECT * FROM orders WHERE total > 490;
CREATE SEQUENCE numbers;
CREATE FUNCTION sneak() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS
  $$ BEGIN DELETE FROM orders; RETURN 1; END $$;
CREATE PROCEDURE leave() LANGUAGE plpgsql AS
  $$ BEGIN COMMIT; SET TRANSACTION READ WRITE; DELETE FROM orders; END $$;
ANALYZE;
"""


@pytest.fixture(scope="module")
def shop(postgres: Cluster) -> str:
    """A database with everything in it that its user could want to misuse."""
    quoted = PASSWORD.replace("'", "''")
    postgres.sql("CREATE DATABASE shop")
    for role, more in (("clerk", ""), ("almighty", "SUPERUSER"), ("files", ""), ("another", "")):
        postgres.sql(f"CREATE ROLE {role} LOGIN {more} PASSWORD '{quoted}'")
    postgres.sql("GRANT pg_read_server_files TO files")
    postgres.sql(_PG_SHOP, "shop")
    postgres.sql(
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO clerk;"
        "GRANT CREATE ON SCHEMA public TO clerk",
        "shop",
    )
    return f"127.0.0.1:{postgres.port}/shop"


@pytest.fixture
def pg(tmp_path: Path, shop: str) -> DatabaseDesk:
    return DatabaseDesk(tmp_path, {"shop": DatabaseAccount(f"postgresql://clerk@{shop}", PASSWORD, timeout=3)})


def state(postgres: Cluster) -> str:
    return postgres.sql(
        "SELECT md5(string_agg(o::text, '' ORDER BY id)) FROM orders o; SELECT last_value, is_called FROM numbers;"
        "SELECT count(*) FROM pg_largeobject_metadata; SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class;"
        "SELECT string_agg(rolname || rolsuper || coalesce(rolpassword, ''), ' ' ORDER BY rolname) FROM pg_authid",
        "shop",
    )


PG_ATTACKS = [
    "DELETE FROM orders",
    "INSERT INTO orders (customer) VALUES ('x') RETURNING id",
    "WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone",
    "SELECT 1; DELETE FROM orders",
    "COMMIT; DELETE FROM orders",
    "SELECT 1; COMMIT; BEGIN READ WRITE; DELETE FROM orders; COMMIT",
    "SET TRANSACTION READ WRITE",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SELECT set_config('transaction_read_only', 'off', true), sneak()",
    "SELECT sneak()",
    "CALL leave()",
    "DO $$ BEGIN COMMIT; SET TRANSACTION READ WRITE; DELETE FROM orders; END $$",
    "SELECT nextval('numbers')",
    "SELECT setval('numbers', 99)",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '/tmp/x')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT * FROM pg_authid",
    "COPY orders TO PROGRAM 'touch /tmp/x'",
    "COPY orders TO '/tmp/x'",
    "COPY orders TO STDOUT",
    "COPY orders FROM '/etc/passwd'",
    "EXPLAIN ANALYZE DELETE FROM orders",
    "PREPARE p AS DELETE FROM orders",
    "CREATE TEMP TABLE t AS SELECT 1",
    "SELECT * INTO t FROM orders",
    "SELECT * FROM orders FOR UPDATE",
    "LOCK orders",
    "GRANT ALL ON orders TO PUBLIC",
    "ALTER ROLE clerk SUPERUSER",
    "ALTER ROLE clerk PASSWORD 'mine'",
    "SET ROLE postgres",
    "CREATE EXTENSION dblink",
    "SELECT pg_reload_conf()",
    "SELECT pg_switch_wal()",
    "VACUUM",
    "LISTEN a",
    "LOAD '/tmp/x.so'",
]


@pytest.mark.parametrize("sql", PG_ATTACKS)
def test_postgresql_is_only_read(pg: DatabaseDesk, postgres: Cluster, sql: str) -> None:
    before = state(postgres)
    said = pg.refused(sql)
    assert PASSWORD not in said
    assert state(postgres) == before


def test_postgresql_undoes_what_a_read_only_transaction_lets_through(pg: DatabaseDesk, postgres: Cluster) -> None:
    before = state(postgres)
    pg.query("SELECT lo_creat(-1)")
    pg.query("SELECT pg_notify('a', 'b')")
    pg.query("SELECT set_config('default_transaction_read_only', 'off', false)")
    assert state(postgres) == before
    assert "read" in pg.refused("DELETE FROM orders RETURNING id")


def test_sessions_of_other_roles_cannot_be_ended(pg: DatabaseDesk, postgres: Cluster, shop: str) -> None:
    import psycopg

    with psycopg.connect(f"postgresql://{shop}", user="another", password=PASSWORD) as other:
        said = pg.refused("SELECT pg_terminate_backend($1)", parameters=[other.info.backend_pid])
        assert "must be a member of the role" in said or "permission denied" in said
        assert other.execute("SELECT 1").fetchone() == (1,)


def test_postgresql_is_described_queried_and_changed(pg: DatabaseDesk, postgres: Cluster) -> None:
    said = pg.run("DescribeDatabase", database="shop").llm_content
    assert "PostgreSQL" in said
    assert "table orders (500 rows)\n" in said + "\n"
    said = pg.run("DescribeDatabase", database="shop", object="orders").llm_content
    assert "  customer: text, not null\n  total: numeric(10,2)\n" in said
    assert "CREATE INDEX by_customer" in said
    exact = "SELECT 'infinity'::date, '20000-01-01'::date, ARRAY[1, 2], 1.10, '{\"a\": 1}'::jsonb, '\\x01'::bytea, true"
    assert pg.rows(exact) == [["infinity", "20000-01-01", "{1,2}", "1.10", '{"a": 1}', "\\x01", True]]
    assert pg.rows("SELECT customer FROM orders WHERE id = $1 AND customer <> $2", parameters=[5, "'; --"]) == [["c5"]]
    assert pg.rows("SHOW transaction_read_only") == [["on"]]
    before = state(postgres)
    wrong = pg.refused("UPDATE orders SET total = 0 WHERE id <= 3", tool="ChangeDatabase", expect_rows=1)
    assert "changed 3 rows, not 1" in wrong
    pg.refused("DELETE FROM orders WHERE id = 4; DELETE FROM orders", tool="ChangeDatabase")
    pg.refused("COPY orders TO PROGRAM 'id'", tool="ChangeDatabase")
    assert state(postgres) == before
    changed = pg.change("UPDATE orders SET total = 0 WHERE id <= $1 RETURNING id", parameters=[2], expect_rows=2)
    assert changed.data["rows"] == [[1], [2]]
    assert pg.asked[-1].preview == "It would change about 2 rows, the engine estimates."


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "WITH RECURSIVE n(i) AS (SELECT 1::numeric UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
            "took longer",
        ),
        ("SELECT pg_sleep(60), set_config('statement_timeout', '0', false)", "took longer"),
        ("SELECT repeat('x', 1000000000)", ""),
    ],
)
def test_postgresql_gives_up_what_is_endless_or_huge(pg: DatabaseDesk, sql: str, said: str) -> None:
    began = time.monotonic()
    assert said in pg.refused(sql)
    assert time.monotonic() - began < 40
    many = pg.query("SELECT generate_series(1, 100000000)", limit=2)
    assert many.data["rows"] == [[1], [2]]
    assert many.data["has_more"]


def cancelled(desk: DatabaseDesk, sql: str, running: Callable[[], bool]) -> None:
    """Start a statement, cancel it once the server runs it, and see that the server runs it no more."""

    async def cancel() -> None:
        call = asyncio.create_task(desk.runtime.run("QueryDatabase", {"database": "shop", "sql": sql}))
        while not await asyncio.to_thread(running):
            await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.wait([call])

    asyncio.run(asyncio.wait_for(cancel(), 60))
    end = time.monotonic() + 10
    while running():
        assert time.monotonic() < end, "the server still runs the statement"
        time.sleep(0.1)


def test_cancelling_stops_the_statement_in_postgresql(tmp_path: Path, postgres: Cluster, shop: str) -> None:
    desk = DatabaseDesk(tmp_path, {"shop": DatabaseAccount(f"postgresql://clerk@{shop}", PASSWORD, timeout=300)})
    count = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND usename = 'clerk'"
    cancelled(desk, "SELECT pg_sleep(299)", lambda: postgres.sql(count).strip() != "0")


def failing(kind: str, good: str, name: str) -> dict[str, DatabaseAccount]:
    """Every way in which a server cannot be used."""
    host = good.partition("/")[0]
    urls = {
        "unknown": f"{kind}://clerk@no-such-host.invalid/shop",
        "refused": f"{kind}://clerk@127.0.0.1:{free_port()}/shop",
        "wrong": f"{kind}://clerk@{good}",
        "missing": f"{kind}://clerk@{host}/nothing",
        name: f"{kind}://{name}@{good}",
        "options": f"{kind}://clerk@{good}?options=-csearch_path%3Dx",
    }
    return {
        one: DatabaseAccount(url, PASSWORD + "?" if one == "wrong" else PASSWORD, timeout=2)
        for one, url in urls.items()
    }


def held_to(desk: DatabaseDesk, words: dict[str, str]) -> None:
    """The check says what is wrong, and nobody reads the password; a model reads no address either."""
    found = desk.checked()
    for name, said in words.items():
        assert said in found[name], found[name]
    everything = [str(found)]
    for name in found:
        told = desk.refused("SELECT 1", name)
        assert "127.0.0.1" not in told
        assert "no-such-host" not in told
        everything.append(told)
    for form in (PASSWORD, "tiger", "lily"):
        assert form not in "".join(everything)


def test_the_check_says_what_is_wrong_with_postgresql(tmp_path: Path, shop: str) -> None:
    accounts = failing("postgresql", shop, "almighty")
    accounts["files"] = DatabaseAccount(f"postgresql://files@{shop}", PASSWORD)
    held_to(
        DatabaseDesk(tmp_path, accounts),
        {
            "unknown": "its host is unknown",
            "refused": "its host refused the connection",
            "wrong": "the server refused the login",
            "missing": "the server has no such database",
            "almighty": "is a superuser",
            "files": "a member of `pg_read_server_files`",
            "options": "it has no option `options`",
        },
    )


def test_a_server_that_says_nothing_or_nonsense_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        accounts = {
            kind: DatabaseAccount(f"{kind}://u@127.0.0.1:{port}/x", PASSWORD, timeout=1)
            for kind in ("postgresql", "mysql")
        }
        began = time.monotonic()
        found = DatabaseDesk(tmp_path, accounts).checked()
    assert time.monotonic() - began < 45
    assert "works" not in found.values()
    assert "lily" not in str(found)


# MariaDB


@pytest.fixture(scope="module")
def maria(mariadb: MariaServer) -> str:
    quoted = PASSWORD.replace("'", "''")
    mariadb.ask(
        "DROP DATABASE shop",  # another worker's tests may have come between those of this module
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, customer VARCHAR(20) NOT NULL, total DECIMAL(10,2),"
        " INDEX by_customer (customer)) ENGINE=InnoDB",
        "INSERT INTO orders (customer, total) SELECT CONCAT('c', seq % 7), seq FROM seq_1_to_500",
        "CREATE TABLE log (a INT) ENGINE=MyISAM",
        "INSERT INTO log VALUES (1)",
        "CREATE SEQUENCE numbers",
        "CREATE PROCEDURE leave_it() BEGIN COMMIT; SET SESSION TRANSACTION READ WRITE; DELETE FROM log; END",
        "CREATE FUNCTION sneak() RETURNS INT BEGIN DELETE FROM log; RETURN 1; END",
        f"CREATE OR REPLACE USER clerk@'%' IDENTIFIED BY '{quoted}'",
        "GRANT ALL ON shop.* TO clerk@'%'",
        f"CREATE OR REPLACE USER almighty@'%' IDENTIFIED BY '{quoted}'",
        "GRANT FILE ON *.* TO almighty@'%'",
        "GRANT SELECT ON shop.* TO almighty@'%'",
        "ANALYZE TABLE orders",
        database="shop",
    )
    return f"127.0.0.1:{mariadb.port}/shop"


@pytest.fixture
def my(tmp_path: Path, maria: str) -> DatabaseDesk:
    return DatabaseDesk(tmp_path, {"shop": DatabaseAccount(f"mysql://clerk@{maria}", PASSWORD, timeout=3)})


def held(mariadb: MariaServer) -> list[Any]:
    statements = (
        "CHECKSUM TABLE shop.orders, shop.log EXTENDED", "SELECT * FROM shop.numbers", "SHOW FULL TABLES FROM shop",
        "SELECT user, host, authentication_string, plugin FROM mysql.user", "SELECT @@global.max_connections",
    )  # fmt: skip
    return [mariadb.ask(one) for one in statements]


MY_ATTACKS = [
    "DELETE FROM log",
    "INSERT INTO orders (customer) VALUES ('x') RETURNING id",
    "SELECT 1; DELETE FROM log",
    "SELECT 1) ; DELETE FROM log; -- ",
    "SHOW TABLES; DELETE FROM log",
    "BEGIN NOT ATOMIC COMMIT; SET SESSION TRANSACTION READ WRITE; DELETE FROM log; END",
    "/*!50000 BEGIN NOT ATOMIC COMMIT; DELETE FROM log; END */",
    "CALL leave_it()",
    "SELECT sneak()",
    "EXECUTE IMMEDIATE 'DELETE FROM log'",
    "SET SESSION TRANSACTION READ WRITE",
    "SET PASSWORD = PASSWORD('mine')",
    "SET GLOBAL max_connections = 1",
    "SELECT NEXTVAL(numbers)",
    "SELECT NEXT VALUE FOR numbers",
    "SELECT SETVAL(numbers, 99)",
    "SELECT 1 INTO OUTFILE '{folder}/x'",
    "WITH a AS (SELECT 1) SELECT * FROM a INTO OUTFILE '{folder}/x'",
    "SELECT 1) INTO DUMPFILE '{folder}/x' -- ",
    "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE log",
    "LOAD DATA INFILE '/etc/passwd' INTO TABLE log",
    "EXPLAIN DELETE FROM log",
    "ANALYZE DELETE FROM log",
    "CREATE TEMPORARY TABLE t (a INT)",
    "LOCK TABLES log WRITE",
    "FLUSH TABLES",
    "KILL 1",
    "HANDLER log OPEN",
    "TRUNCATE log",
    "OPTIMIZE TABLE log",
    "GRANT ALL ON shop.* TO clerk",
    "INSTALL SONAME 'x'",
    "CREATE FUNCTION f RETURNS INTEGER SONAME 'x.so'",
]


@pytest.mark.parametrize("sql", MY_ATTACKS)
def test_mariadb_is_only_read(my: DatabaseDesk, mariadb: MariaServer, sql: str) -> None:
    before = held(mariadb)
    said = my.refused(sql.replace("{folder}", str(mariadb.folder)))
    assert "lily" not in said
    assert held(mariadb) == before
    assert not (mariadb.folder / "x").exists()


def test_mariadb_is_described_queried_and_changed(my: DatabaseDesk, mariadb: MariaServer) -> None:
    said = my.run("DescribeDatabase", database="shop", object="orders").llm_content
    assert "MariaDB 1" in said
    assert "  customer: varchar(20), not null\n" in said
    assert "index: by_customer (customer)" in said
    assert my.rows("SELECT LOAD_FILE('/etc/passwd')") == [[None]]
    assert my.rows("SELECT a.id, b.id FROM orders a JOIN orders b ON a.id = b.id WHERE a.id = %s", parameters=[5]) == [
        [5, 5]
    ]
    assert my.rows("WITH a AS (SELECT 1 AS x) SELECT x FROM a; -- done") == [[1]]
    assert my.rows("SELECT 100 % 7 -- a comment") == [[2]]
    assert my.rows("SHOW\nTABLES LIKE 'orders'") == [["orders"]]
    before = held(mariadb)
    wrong = my.refused("UPDATE orders SET total = 0 WHERE id <= 3", tool="ChangeDatabase", expect_rows=1)
    assert "changed 3 rows, not 1" in wrong
    my.refused("DELETE FROM orders WHERE id = 4; DELETE FROM orders", tool="ChangeDatabase")
    my.refused("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE log", tool="ChangeDatabase")
    assert held(mariadb) == before
    assert my.change("UPDATE orders SET total = -1 WHERE id <= 2", expect_rows=2).llm_content == "Changed 2 rows."
    assert my.asked[-1].preview == "It would change about 2 rows, the engine estimates."
    assert "cannot be rolled back" in my.refused("INSERT INTO log VALUES (2)", tool="ChangeDatabase", expect_rows=2)
    assert "committed it at once" in my.refused("CREATE TABLE made (a INT)", tool="ChangeDatabase", expect_rows=2)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT SLEEP(60)", "took longer"),
        ("SELECT COUNT(*) FROM seq_1_to_1000000 a, seq_1_to_1000000 b WHERE a.seq * b.seq = 7", "took longer"),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT SLEEP(60) FROM n", "took longer"),
    ],
)
def test_mariadb_gives_up_what_is_endless(my: DatabaseDesk, sql: str, said: str) -> None:
    assert said in my.refused(sql)
    many = my.query("SELECT seq FROM seq_1_to_100000000", limit=2)
    assert many.data["rows"] == [[1], [2]]
    assert many.data["has_more"]


def test_cancelling_stops_the_statement_in_mariadb(tmp_path: Path, mariadb: MariaServer, maria: str) -> None:
    desk = DatabaseDesk(tmp_path, {"shop": DatabaseAccount(f"mariadb://clerk@{maria}", PASSWORD, timeout=300)})
    listed = "SELECT 1 FROM information_schema.processlist WHERE user = 'clerk' AND info LIKE '%SLEEP(299)%'"
    cancelled(desk, "SELECT SLEEP(299)", lambda: bool(mariadb.ask(listed)))


def test_the_check_says_what_is_wrong_with_mariadb(tmp_path: Path, maria: str) -> None:
    held_to(
        DatabaseDesk(tmp_path, failing("mysql", maria, "almighty")),
        {
            "unknown": "its host is unknown",
            "refused": "its host refused the connection",
            "wrong": "the server refused the login",
            "missing": "the server has no such database",
            "almighty": "the privilege FILE",
            "options": "it has no option `options`",
        },
    )
