"""All entities of the service: where they come from, who may know of them, and how their statements run.

A query runs in a transaction that the database itself holds to reading. A change is one transaction.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from sqlalchemy import create_engine, func, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.service.database import dialect_module
from ferrule.service.entities import ModelEntity, TableEntity, listed_names, said_of_database
from ferrule.service.tables import entity_writes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from sqlalchemy import Connection, Engine

    from ferrule.app.service_settings import EntitySettings
    from ferrule.core.context import ToolContext
    from ferrule.service.database import Database
    from ferrule.service.entities import Entity, RowQuery

T = TypeVar("T")

_CONNECT_SECONDS = 10
_THREADS = 16
_OF_ONE = 4
"""How many of the threads one tenant may have at once: a slow database of one holds up nobody else."""


class EntityProblem(ValueError):  # noqa: N818 - reads as what it says
    """An entity that cannot work as it is set up; says which, and what to do."""


class EntityCatalog:
    """The entities of this service, and the threads that their statements run in."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entities: dict[str, Entity] = {}
        self._engines: dict[str, Engine] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "ferrule-entity")
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """By tenant, for as long as something of it runs or waits."""

    def add(self, name: str, settings: EntitySettings, model: type[BaseModel] | None = None) -> None:
        """Take an entity as it is set up; raises `EntityProblem`, which holds no URL: that may have a password."""
        place = f"`service.entities.{name}`"
        if bool(settings.model) == bool(settings.url or settings.url_variable):
            raise EntityProblem(f"{place} needs either a `model`, or a `url` (or `url_variable`).")
        if not settings.model and not (settings.tenant_column or settings.tenants):
            raise EntityProblem(f"{place} needs a `tenant_column`, or `tenants` that may have all of the table.")
        if model is not None or settings.model:
            chosen = model if model is not None else _import_model(name, settings.model)
            self._entities[name] = ModelEntity(name, settings, chosen, self._database)
            return
        url = settings.url or os.environ.get(settings.url_variable, "")
        if not url:
            raise EntityProblem(f"{place}: the variable {settings.url_variable} is not set.")
        if url not in self._engines:
            self._engines[url] = _engine(name, url)
        self._entities[name] = TableEntity(name, settings, self._engines[url])

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        for engine in self._engines.values():
            engine.dispose()

    def all(self, tenant: str, roles: Iterable[str]) -> list[Entity]:
        """Those that this caller may know of."""
        held = tuple(roles)
        return [one for _, one in sorted(self._entities.items()) if one.is_for(tenant, held)]

    def find(self, name: str, tenant: str, roles: Iterable[str]) -> Entity:
        """The entity of this name; another tenant's, or one for other roles, does not exist."""
        held = tuple(roles)
        found = self._entities.get(name)
        if found is None or not found.is_for(tenant, held):
            known = [one.name for one in self.all(tenant, held)]
            hint = f"There is {listed_names(known)}." if known else "This service has no entities for you."
            raise ToolError(f"There is no entity `{name}`.", kind=ErrorKind.NOT_FOUND, suggestion=hint)
        return found

    async def run(self, tenant: str, work: Callable[[], T]) -> T:
        """Run something that waits for a database off the event loop, in the tenant's turn. What has begun keeps
        its thread to its end, also where nobody waits for it any more.
        """
        turns = self._turns.get(tenant)
        if turns is None:
            turns = self._turns[tenant] = asyncio.Semaphore(_OF_ONE)
        await turns.acquire()
        loop = asyncio.get_running_loop()

        def release(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(turns.release)

        running = self._threads.submit(work)
        running.add_done_callback(release)
        return await asyncio.wrap_future(running)

    async def read(self, entity: Entity, tenant: str, query: RowQuery, context: ToolContext) -> list[dict[str, Any]]:
        """Rows, read in a transaction that cannot write; cancelling the call stops the statement."""

        def work(connection: Connection) -> list[dict[str, Any]]:
            with _reading_only(connection):
                return entity.find(connection, tenant, query)

        return _plain(await self.run(tenant, lambda: self._in_transaction(entity, tenant, work, context, writes=False)))

    async def change(self, entity: Entity, tenant: str, work: Callable[[Connection], T], context: ToolContext) -> T:
        """Make a change in one transaction: all of it, or nothing."""
        entity.require_writable()

        def run() -> T:  # in one piece, so that nothing that ends the call comes between
            changed = self._in_transaction(entity, tenant, work, context, writes=True)
            # Another name may stand for the same rows, or a view of them, also for other tenants.
            for one in {tenant}.union(*(other.tenants for other in self._entities.values())):
                with self._database.transaction(one, writes=True) as connection:
                    count_write(connection, one, entity.name)
            return changed

        return _plain(await self.run(tenant, run))

    def _in_transaction(
        self, entity: Entity, tenant: str, work: Callable[[Connection], T], context: ToolContext, *, writes: bool
    ) -> T:
        try:
            with entity.transaction(tenant, writes=writes) as connection:
                driver: Any = connection.connection.driver_connection
                with context.cancellation.telling(lambda: _stop(driver)):
                    return work(connection)
        except (DBAPIError, PoolTimeout, OverflowError) as error:
            if context.cancelled:
                raise ToolError("The call was cancelled.", kind=ErrorKind.CANCELLED) from None
            raise said_of_database(entity.name, error) from None

    async def versions(self, tenant: str, roles: Iterable[str]) -> tuple[int, list[tuple[str, str]]]:
        """How often anything was changed through the service, and the version of each entity that the caller may know
        of. All changes count for all answers: an entity may be another name for the same rows, or be changed by a tool.
        """
        query = select(func.coalesce(func.sum(entity_writes.c.count), 0)).where(entity_writes.c.tenant == tenant)
        count = int(await self._database.read(tenant, lambda connection: connection.execute(query).scalar_one()))
        entities = self.all(tenant, roles)

        def read() -> list[tuple[str, str]]:
            listed: list[tuple[str, str]] = []
            for one in entities:
                try:
                    listed.append((one.name, one.version))
                except ToolError:
                    listed.append((one.name, ""))  # its database is away
            return listed

        return count, await self.run(tenant, read) if entities else []


def count_write(connection: Connection, tenant: str, what: str) -> None:
    """Answers that were made of what there was before are not used again."""
    kind = dialect_module(connection.dialect.name)
    counted = kind.insert(entity_writes).values(tenant=tenant, entity=what, count=1)
    connection.execute(
        counted.on_conflict_do_update(index_elements=["tenant", "entity"], set_={"count": entity_writes.c.count + 1})
    )


@contextmanager
def _reading_only(connection: Connection) -> Generator[None]:
    """Have the database refuse every change in this transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET TRANSACTION READ ONLY"))
        yield
        return
    connection.execute(text("PRAGMA query_only = ON"))
    try:
        yield
    finally:
        connection.execute(text("PRAGMA query_only = OFF"))


def _stop(driver: Any) -> None:
    with suppress(Exception):  # it may have come to its end by itself
        driver.interrupt() if isinstance(driver, sqlite3.Connection) else driver.cancel()


def _plain(value: Any) -> Any:
    return to_jsonable_python(value, fallback=str, bytes_mode="base64")


def _import_model(name: str, place: str) -> type[BaseModel]:
    module, _, attribute = place.partition(":")
    try:
        found: Any = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise EntityProblem(f"`service.entities.{name}.model`: {place!r} cannot be imported: {error}.") from None
    if not (isinstance(found, type) and issubclass(found, BaseModel)):
        raise EntityProblem(f"`service.entities.{name}.model`: {place!r} is not a pydantic model.")
    return found


def _engine(name: str, url: str) -> Engine:
    """For a database that can hold a transaction to reading: SQLite and PostgreSQL."""
    where = f"`service.entities.{name}.url`"
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "postgresql":
            waits = {} if "connect_timeout" in parsed.query else {"connect_timeout": _CONNECT_SECONDS}
            return create_engine(
                parsed.set(drivername="postgresql+psycopg"), pool_size=4, pool_pre_ping=True, connect_args=waits
            )
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError):
        raise EntityProblem(f"{where} must be `sqlite:////path/to/file.db` or `postgresql://user@host/name`.") from None
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        raise EntityProblem(f"{where} must be `sqlite:////path/to/file.db` or `postgresql://user@host/name`.")
    if not Path(parsed.database).is_file():
        raise EntityProblem(f"{where}: there is no file {parsed.database}.")
    return create_engine(parsed.set(drivername="sqlite+pysqlite"), connect_args={"check_same_thread": False})
