"""The database: SQLite in a file, or PostgreSQL by URL; a transaction always says whose rows it is about.

On PostgreSQL the application works as the role `ferrule_app`, which owns nothing and which row-level security holds
for: in a transaction that names no tenant it sees no rows.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import bindparam, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import QueuePool

from ferrule.service.tables import APPEND_ONLY, HEAD, SHARED, SUMS_STAY_TRUE, changes, metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sqlalchemy import Connection, Engine

logger = logging.getLogger("ferrule.service")

T = TypeVar("T")

APP_ROLE = "ferrule_app"
CHANNEL = "ferrule"
_MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x66657272756C65  # any number that nothing else on the server locks with: "ferrule"
_READERS = 4
_LISTEN_AGAIN = 1.0
_FIND_OUT_SECONDS, _FIND_OUT_AGAIN = 20.0, 0.1


class DatabaseProblem(Exception):  # noqa: N818 - reads as what it says
    """The database cannot be used; says why and what to do."""


class Database:
    """Connections, transactions and notifications. Safe from any thread."""

    def __init__(self, url: str, *, owner: bool = False) -> None:
        """`owner` keeps the role of the URL, which migrations need; otherwise the application's role is taken."""
        try:
            self.url = make_url(url)
        except ArgumentError:
            raise DatabaseProblem(_UNREADABLE) from None
        name = self.url.get_backend_name()
        if name not in ("sqlite", "postgresql"):
            raise DatabaseProblem(f"{_UNREADABLE} It cannot be {name}.")
        self.is_sqlite = name == "sqlite"
        self._owner = owner
        self.engine = self._sqlite() if self.is_sqlite else self._postgresql()
        self._readers = ThreadPoolExecutor(_READERS, "ferrule-read")
        self.changes_seen: tuple[int, float] = 0, float("-inf")
        """How many changes of people and rights there were when the writer looked last, and when that was."""
        self._listener: _Listener | None = None

    def _sqlite(self) -> Engine:
        if not self.url.database or self.url.database == ":memory:":
            raise DatabaseProblem("The service keeps its calls in a file: sqlite:////path/to/service.db")
        Path(self.url.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(
            self.url.set(drivername="sqlite+pysqlite"), poolclass=QueuePool, connect_args={"check_same_thread": False}
        )

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: object) -> None:  # pyright: ignore[reportUnusedFunction]
            connection.isolation_level = None  # transactions begin where we say
            # Copying what was written into the file waits for the disk: seldom, and then much at once.
            for pragma in (
                "busy_timeout = 10000", "journal_mode = WAL", "synchronous = NORMAL", "wal_autocheckpoint = 4000",
            ):  # fmt: skip
                connection.execute(f"PRAGMA {pragma}").close()

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
            writes = connection.get_execution_options().get("writes")
            driver: Any = connection.connection.driver_connection
            driver.execute("BEGIN IMMEDIATE" if writes else "BEGIN").close()

        return engine

    def _postgresql(self) -> Engine:
        try:
            engine = create_engine(
                self.url.set(drivername="postgresql+psycopg"), pool_size=_READERS + 2, max_overflow=4
            )
        except (NoSuchModuleError, ModuleNotFoundError):
            raise DatabaseProblem("PostgreSQL needs psycopg. Install it: pip install 'ferrule[service]'") from None
        if not self._owner:

            @event.listens_for(engine, "connect")
            def become_application(connection: Any, _record: object) -> None:  # pyright: ignore[reportUnusedFunction]
                with connection.cursor() as cursor:
                    cursor.execute(f"SET ROLE {APP_ROLE}")
                connection.commit()

        return engine

    # Transactions

    @contextmanager
    def transaction(self, tenant: str | None, *, writes: bool = False) -> Generator[Connection]:
        """Rows of one tenant, or, without one, of the tables that belong to none. One that only reads sees them all as
        of one moment.
        """
        options: dict[str, Any] = {"writes": writes}
        if not (writes or self.is_sqlite):
            options["isolation_level"] = "REPEATABLE READ"
        with self.engine.connect().execution_options(**options) as connection, commits(connection, writes=writes):
            if tenant is not None:
                self.speak_for(connection, tenant)
            yield connection

    def speak_for(self, connection: Connection, tenant: str) -> None:
        """From here to the end of the transaction only this tenant's rows are there."""
        if not self.is_sqlite:
            driver: Any = connection.connection.driver_connection
            driver.execute(_SPEAK_FOR, (tenant,))

    def write_for(self, connection: Connection, tenant: str) -> Any:
        """The same for a transaction that writes; on PostgreSQL the cursor gives its number too."""
        if self.is_sqlite:
            return None
        return cast("Any", connection.connection.driver_connection).execute(_WRITE_FOR, (tenant,))

    @contextmanager
    def driver_transaction(self, connection: Connection) -> Generator[None]:
        """A transaction of which SQLAlchemy does not know, for statements that go to the driver alone: its own takes
        longer than they do.
        """
        driver: Any = connection.connection.driver_connection
        if self.is_sqlite:
            driver.execute("BEGIN IMMEDIATE")
        try:
            # PostgreSQL gets statements without waiting for those before, but for one whose rows are fetched.
            with nullcontext() if self.is_sqlite else driver.pipeline():
                yield
                driver.commit()
        except BaseException:
            with suppress(self.driver_error):
                driver.rollback()
            raise

    # What goes wrong on the driver's own connection, which SQLAlchemy does not hear of

    @property
    def driver_error(self) -> type[Exception]:
        """What the driver raises."""
        return cast("Any", self.engine.dialect).dbapi.Error

    def is_lost(self, connection: Connection, error: Exception) -> bool:
        """Whether that error says that the server is gone; all connections of before are dropped then."""
        if isinstance(error, DBAPIError):
            return error.connection_invalidated
        if not isinstance(error, self.driver_error) or connection.invalidated:
            return False
        driver: Any = connection.connection.driver_connection
        lost = self.engine.dialect.is_disconnect(cast("Any", error), driver, None)
        if lost:
            self.engine.dispose()
        return lost

    async def read(self, tenant: str | None, query: Callable[[Connection], T]) -> T:
        """Run a query in a thread, off the event loop."""

        def run() -> T:
            with self.transaction(tenant) as connection:
                return query(connection)

        loop = asyncio.get_running_loop()
        try:
            try:
                return await loop.run_in_executor(self._readers, run)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                return await loop.run_in_executor(self._readers, run)  # the others of the pool are dropped by now
        except DBAPIError as error:
            raise DatabaseProblem(f"The database cannot be read: {said_by_driver(error)}") from error

    def close(self) -> None:
        if self._listener is not None:
            self._listener.stop()
        self._readers.shutdown(wait=True, cancel_futures=True)
        self.engine.dispose()

    # Notifications between instances

    def notify(self, connection: Connection, news: str) -> None:
        """Tell all instances once this transaction is committed. SQLite has one instance, which needs no telling."""
        if not self.is_sqlite:
            connection.execute(_NOTIFY, {"channel": CHANNEL, "news": news})

    def listen(self, hear: Callable[[str], None]) -> None:
        """Call `hear` with what any instance tells, in a thread of its own, for as long as the database is open."""
        if not self.is_sqlite and self._listener is None:
            self._listener = _Listener(self.url.set(drivername="postgresql").render_as_string(False), hear)

    # The schema

    def revision(self) -> str | None:
        """The schema's revision; None where there is none yet."""
        try:
            with self.transaction(None) as connection:
                return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        except DBAPIError as error:
            if _is_missing(error):
                return None
            raise DatabaseProblem(f"The database cannot be reached: {said_by_driver(error)}") from None

    def check_guarded(self) -> None:
        """Refuse to serve where row-level security would not hold, whatever the reason."""
        if self.is_sqlite:
            return
        with self.transaction(None) as connection:
            bypasses = connection.execute(_BYPASSES).scalar()
            if bypasses or not connection.execute(_ACTIVE).scalar():
                raise DatabaseProblem(
                    f"Row-level security does not hold for {APP_ROLE}, so tenants would not be kept apart. "
                    "Run `ferrule serve migrate`, and give that role neither SUPERUSER nor BYPASSRLS."
                )

    def _create(self) -> bool:
        """Make the tables as they are now, in one transaction and without the time and memory that Alembic takes. False
        where there are tables already.
        """
        with self.transaction(None, writes=True) as connection:
            if not self.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            if inspect(connection).has_table("alembic_version"):
                return False
            metadata.create_all(connection, checkfirst=False)
            connection.execute(changes.insert().values(id=1, count=0))
            connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
            connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})
            for statement in (*(() if self.is_sqlite else _guarding()), *SUMS_STAY_TRUE[connection.dialect.name]):
                connection.exec_driver_sql(statement)
        return True

    def migrate(self) -> tuple[str | None, str]:
        """Bring the schema up to date; gives the revision before and after. Instances wait for each other here."""
        try:
            return (None, HEAD) if self._create() else (self._upgrade(), HEAD)
        except DBAPIError as error:
            raise DatabaseProblem(f"The schema could not be brought up to date: {said_by_driver(error)}") from error

    def _upgrade(self) -> str | None:
        """Run the migrations that the database lacks; gives the revision before."""
        from alembic.config import Config
        from alembic.runtime.environment import EnvironmentContext
        from alembic.script import ScriptDirectory
        from alembic.util import CommandError

        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS))
        config.set_main_option("version_locations", str(_MIGRATIONS))
        config.set_main_option("path_separator", "os")
        script = ScriptDirectory.from_config(config)
        before: list[str | None] = []

        def upgrade(revision: Any, _context: Any) -> Any:
            before.append(revision[0] if revision else None)
            return script._upgrade_revs("head", revision)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]

        with self.engine.connect().execution_options(writes=True) as connection, connection.begin():
            if not self.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            with EnvironmentContext(config, script, fn=upgrade) as context:
                context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
                try:
                    context.run_migrations()
                except CommandError:
                    raise DatabaseProblem(
                        f"The database is at revision {before[0]}, which this version of Ferrule does not know. Use "
                        "the version that made it, a newer one, or a new database."
                    ) from None
        return before[0]


# What became of a transaction


class OutcomeUnknown(DatabaseProblem):
    """The connection was lost at the end of a transaction, and the database cannot be asked what became of it."""


@contextmanager
def commits(connection: Connection, *, writes: bool) -> Generator[None]:
    """A transaction that is not taken for undone where only the answer to its COMMIT was lost."""
    number: int | None = None
    try:
        with connection.begin():
            yield
            if writes and connection.dialect.name == "postgresql":
                number = connection.execute(text("SELECT txid_current_if_assigned()")).scalar()
    except DBAPIError as error:
        if number is None or not error.connection_invalidated or not was_committed(connection.engine, number):
            raise


def was_committed(engine: Engine, number: int) -> bool:
    """What PostgreSQL says of a transaction whose connection is lost; raises `OutcomeUnknown`."""
    until = monotonic() + _FIND_OUT_SECONDS
    while True:
        try:
            with engine.connect() as connection:
                status = connection.execute(text("SELECT txid_status(:number)"), {"number": number}).scalar()
            if status != "in progress":  # the server may not have noticed yet that nobody is there any more
                logger.warning("The database was lost at the end of transaction %s, which was %s", number, status)
                return status == "committed"
        except DBAPIError:
            engine.dispose()
        if monotonic() >= until:
            raise OutcomeUnknown("The database was lost, and it is not known whether it has stored the last changes.")
        sleep(_FIND_OUT_AGAIN)


class _Listener:
    """Hears notifications on a connection of its own, and connects again when it is lost."""

    def __init__(self, url: str, hear: Callable[[str], None]) -> None:
        self._url = url
        self._hear = hear
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ferrule-listen", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        import psycopg

        while not self._stopping.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    self._hear("")  # whatever was told while nobody listened
                    while not self._stopping.is_set():
                        for news in connection.notifies(timeout=0.5):
                            self._hear(news.payload)
            except psycopg.Error as error:
                logger.warning("The database's notifications are not heard: %s", said_by_driver(error))
                self._stopping.wait(_LISTEN_AGAIN)


_SPEAK_FOR = "SELECT set_config('app.tenant', %s, true)"
_WRITE_FOR = "SELECT set_config('app.tenant', %s, true), txid_current()"
_NOTIFY = text("SELECT pg_notify(:channel, :news)")
_BYPASSES = text("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
_GUARDED = [table.name for table in metadata.sorted_tables if table.name not in SHARED]
_ACTIVE = text(
    "SELECT bool_and(row_security_active(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = current_schema() AND c.relname IN :guarded"
).bindparams(bindparam("guarded", _GUARDED, expanding=True))
_UNREADABLE = "The database is a URL: sqlite:////path/to/service.db or postgresql://user:password@host/name."


def guarding_table(table: str) -> Generator[str]:
    """What the application may do with a table on PostgreSQL, and with whose rows."""
    rights = "SELECT, INSERT" if table in APPEND_ONLY else "SELECT, INSERT, UPDATE, DELETE"
    yield f"GRANT {rights} ON {table} TO {APP_ROLE}"
    if table in SHARED:
        return
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
    yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"
    yield (
        f"CREATE POLICY {table}_of_tenant ON {table} "
        "USING (tenant = current_setting('app.tenant', true)) "
        "WITH CHECK (tenant = current_setting('app.tenant', true))"
    )


def _guarding() -> Generator[str]:
    """What a new PostgreSQL database needs: whoever connects works as a role that owns nothing, sees the rows of one
    tenant alone, and cannot change what is on record.
    """
    yield (
        f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{APP_ROLE}') THEN "
        f"CREATE ROLE {APP_ROLE} NOLOGIN; END IF; END $$"
    )
    yield (
        f"DO $$ BEGIN IF NOT pg_has_role(current_user, '{APP_ROLE}', 'MEMBER') THEN "
        f"GRANT {APP_ROLE} TO CURRENT_USER; END IF; END $$"
    )
    yield f"DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %%I TO {APP_ROLE}', current_schema()); END $$"
    yield f"GRANT SELECT ON alembic_version TO {APP_ROLE}"
    for table in metadata.tables:
        yield from guarding_table(table)
    yield (
        "DO $do$ BEGIN EXECUTE format('CREATE FUNCTION ferrule_remove_audit(through bigint) RETURNS bigint LANGUAGE "
        f"plpgsql SECURITY DEFINER SET search_path = %%I, pg_temp AS $body${_REMOVE_AUDIT}$body$', current_schema()); "
        "END $do$"
    )
    yield "REVOKE ALL ON FUNCTION ferrule_remove_audit(bigint) FROM PUBLIC"
    yield f"GRANT EXECUTE ON FUNCTION ferrule_remove_audit(bigint) TO {APP_ROLE}"


_REMOVE_AUDIT = """
    DECLARE
        whose text := current_setting(''app.tenant'', true);
        note json;
        gone bigint;
    BEGIN
        SELECT content::json INTO note FROM audit WHERE tenant = whose ORDER BY seq DESC LIMIT 1;
        IF note->>6 IS DISTINCT FROM ''retention''
            OR ((note->>10)::json->>''removed_to'')::bigint IS DISTINCT FROM through THEN
            RAISE EXCEPTION ''the audit log does not say that these rows go'';
        END IF;
        IF EXISTS (
            SELECT FROM audit WHERE tenant = whose AND seq <= through
            AND (content::json->>0)::float8 > extract(epoch FROM now()) - 86400
        ) THEN
            RAISE EXCEPTION ''audit rows are kept for a day at least'';
        END IF;
        DELETE FROM audit WHERE tenant = whose AND seq <= through;
        GET DIAGNOSTICS gone = ROW_COUNT;
        RETURN gone;
    END
"""
"""The application has no right to remove audit rows. This function has, of the tenant that the transaction speaks for,
where the last row of the chain says what goes, and nothing of it is younger than a day.
"""


def dialect_module(name: str) -> Any:
    """SQLAlchemy's module for a kind of database; the other one would only take memory."""
    return import_module(f"sqlalchemy.dialects.{name}")


def said_by_driver(error: BaseException) -> str:
    """The first line of what the driver says, without the statement and its values."""
    original = getattr(error, "orig", None) or error
    lines = str(original).strip().splitlines()
    return lines[0] if lines else type(original).__name__


def _is_missing(error: DBAPIError) -> bool:
    """Whether a table, or the application's role, is not there yet."""
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return state in ("42P01", "22023", "42704")
    return isinstance(error, OperationalError) and "no such table" in str(error.orig)
