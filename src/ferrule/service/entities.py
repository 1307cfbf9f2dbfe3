"""Entities: what intents read and change. A pydantic model whose rows the service keeps, or a table found by its URL.

Names of fields come from the model or the reflected table alone, and values are bound parameters. A query runs in a
transaction that the database itself holds to reading.
"""

from __future__ import annotations

import hashlib
import json
import operator
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date, datetime, time
from decimal import Decimal
from sqlite3 import SQLITE_INTERRUPT
from threading import Lock
from time import monotonic
from time import time as now
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python
from sqlalchemy import (
    BigInteger,
    Boolean,
    Float,
    MetaData,
    String,
    Table,
    Text,
    and_,
    delete,
    insert,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NoSuchTableError

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.nearest import nearest
from ferrule.core.schemas import options, resolve
from ferrule.service.database import said_by_driver
from ferrule.service.documents import new_id
from ferrule.service.tables import entity_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import ColumnElement, Connection, Engine

    from ferrule.app.service_settings import EntitySettings
    from ferrule.service.database import Database

T = TypeVar("T")

MOST_ROWS = 1_000
STATEMENT_SECONDS = 60.0
_STEPS = 10_000
"""Of SQLite's machine between two looks at the clock: a fraction of a millisecond."""
_ID_LENGTH = 255

FieldType = Literal["string", "integer", "number", "boolean", "date", "datetime", "time", "json"]


@dataclass(slots=True, frozen=True)
class EntityField:
    """One field, as a model and a form need to know it."""

    name: str
    type: FieldType
    required: bool
    """Whether a new row must have it."""
    nullable: bool
    key: bool
    description: str = ""


class RowFilter(BaseModel):
    """A condition on one field. Several hold together."""

    model_config = ConfigDict(extra="forbid")

    field: str
    op: Literal["eq", "ne", "lt", "le", "gt", "ge", "in", "contains", "starts_with", "is_null"] = "eq"
    value: Any = None


class RowQuery(BaseModel):
    """Which rows, in which order, how many, and what of them."""

    model_config = ConfigDict(extra="forbid")

    filters: list[RowFilter] = []
    order: list[str] = Field(default=[], description="Names of fields; `-name` is descending.")
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 50
    fields: list[str] = []


class Entity(ABC):
    """What both kinds share: fields, who may have it, and what can be done with its rows."""

    source: Literal["model", "database"]

    def __init__(self, name: str, settings: EntitySettings, description: str = "") -> None:
        self.name = name
        self.description = settings.description or description
        self.tenants = frozenset(settings.tenants)
        self.roles = frozenset(settings.roles)
        self.hidden = frozenset(settings.hidden)
        self.writable = settings.writable

    @property
    @abstractmethod
    def fields(self) -> Mapping[str, EntityField]: ...

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields.values() if field.key)

    @property
    def document(self) -> dict[str, Any]:
        """The schema as a caller reads it."""
        return {
            "name": self.name, "description": self.description, "source": self.source, "writable": self.writable,
            "key": list(self.key), "fields": [asdict(field) for field in self.fields.values()],
        }  # fmt: skip

    @property
    def version(self) -> str:
        """Another one whenever a field changes."""
        return hashlib.sha256(json.dumps(self.document).encode()).hexdigest()[:16]

    def is_for(self, tenant: str, roles: Iterable[str]) -> bool:
        """Whether a caller of this tenant with these roles may know of it."""
        return (not self.tenants or tenant in self.tenants) and (not self.roles or not self.roles.isdisjoint(roles))

    def field(self, name: str) -> EntityField:
        """The field of this name; raises `ToolError` with what there is instead."""
        found = self.fields.get(name)
        if found is None:
            close = nearest(name, list(self.fields), most=1)
            hint = f"Did you mean `{close[0]}`?" if close else f"Its fields are {listed_names(self.fields)}."
            raise _invalid(f"The entity `{self.name}` has no field `{name}`.", hint)
        return found

    @abstractmethod
    def transaction(self, tenant: str, *, writes: bool) -> AbstractContextManager[Connection]:
        """A connection in a transaction."""

    @abstractmethod
    def _column(self, name: str) -> ColumnElement[Any]: ...

    @abstractmethod
    def _rows(
        self, connection: Connection, tenant: str, where: ColumnElement[bool], order: Sequence[Any], limit: int
    ) -> list[dict[str, Any]]: ...

    @abstractmethod
    def _value(self, field: EntityField, value: Any) -> Any:
        """A value as the field's type has it; raises `ValidationError`."""

    @abstractmethod
    def create(self, connection: Connection, tenant: str, values: Mapping[str, Any]) -> dict[str, Any]: ...

    @abstractmethod
    def _update(
        self, connection: Connection, tenant: str, rows: list[dict[str, Any]], values: Mapping[str, Any]
    ) -> list[dict[str, Any]]: ...

    @abstractmethod
    def _delete(self, connection: Connection, tenant: str, rows: list[dict[str, Any]]) -> None: ...

    def find(self, connection: Connection, tenant: str, query: RowQuery) -> list[dict[str, Any]]:
        """The rows of a tenant that a query means."""
        order: list[Any] = []
        for name in query.order:
            field = self.field(name.removeprefix("-"))
            column = self._column(field.name)
            order.append(column.desc() if name.startswith("-") else column.asc())
        shown = [self.field(name).name for name in query.fields] or list(self.fields)
        rows = self._rows(connection, tenant, self._condition(query.filters), order, query.limit)
        return [{name: row.get(name) for name in shown} for row in rows]

    def update(
        self, connection: Connection, tenant: str, filters: Sequence[RowFilter], values: Mapping[str, Any], most: int
    ) -> list[dict[str, Any]]:
        """Change the rows that are meant, all or none; more than `most` are none."""
        changed = self._update(connection, tenant, self._meant(connection, tenant, filters, most), values)
        return [self._shown(row) for row in changed]

    def delete(
        self, connection: Connection, tenant: str, filters: Sequence[RowFilter], most: int
    ) -> list[dict[str, Any]]:
        rows = self._meant(connection, tenant, filters, most)
        self._delete(connection, tenant, rows)
        return [self._shown(row) for row in rows]

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row without what is hidden."""
        return {name: row.get(name) for name in self.fields}

    def _meant(
        self, connection: Connection, tenant: str, filters: Sequence[RowFilter], most: int
    ) -> list[dict[str, Any]]:
        if not filters:
            raise _invalid(
                f"This would change every row of `{self.name}`.",
                f"Say which: give {listed_names(self.key) or 'a filter'}.",
            )
        rows = self._rows(connection, tenant, self._condition(filters), (), most + 1)
        if not rows:
            raise ToolError(f"There is no such row in `{self.name}`.", kind=ErrorKind.NOT_FOUND)
        if len(rows) > most:
            raise _invalid(
                f"More than {most} row{'s' if most > 1 else ''} of `{self.name}` would change, so none was changed.",
                f"Say which: give {listed_names(self.key) or 'more filters'}.",
            )
        return rows

    def _condition(self, filters: Sequence[RowFilter]) -> ColumnElement[bool]:
        return and_(true(), *(self._compared(one) for one in filters))

    def _compared(self, one: RowFilter) -> ColumnElement[bool]:
        field, column, given = self.field(one.field), self._column(one.field), one.value
        if one.op == "is_null":
            return column.is_(None) if given is not False else column.is_not(None)
        if one.op == "in":
            values = cast("list[Any]", given if isinstance(given, list) else [given])
            return column.in_([self.value(field, value) for value in values])
        if one.op in ("contains", "starts_with"):
            if field.type != "string" or not isinstance(given, str):
                raise _invalid(f"`{one.op}` is for text, and `{field.name}` is {field.type}.")
            kept = self.value(field, given)
            found: Any = column.contains if one.op == "contains" else column.startswith
            return found(kept, autoescape=True)
        value = self.value(field, given)
        if value is None and one.op not in ("eq", "ne"):
            raise _invalid(f"`{field.name}` cannot be compared with null by `{one.op}`.")
        if value is None:
            return column.is_(None) if one.op == "eq" else column.is_not(None)
        if one.op == "ne":
            return or_(column != value, column.is_(None))
        return _COMPARE[one.op](column, value)

    def value(self, field: EntityField, given: Any) -> Any:
        """A value that came from outside, as the field has it; raises `ToolError`."""
        if given is None:
            return None
        try:
            return self._value(field, given)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]["msg"]
            raise _invalid(f"`{field.name}` of `{self.name}` must be {field.type}: {first}.") from None

    def require_writable(self) -> None:
        if not self.writable:
            raise ToolError(
                f"The entity `{self.name}` is read-only.", kind=ErrorKind.PERMISSION,
                suggestion=f"The operator can set `service.entities.{self.name}.writable`.",
            )  # fmt: skip


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("eq", "lt", "le", "gt", "ge")
}


def _invalid(message: str, suggestion: str | None = None) -> ToolError:
    return ToolError(message, kind=ErrorKind.VALIDATION, suggestion=suggestion)


def listed_names(names: Iterable[str]) -> str:
    """Names as a sentence lists them."""
    return ", ".join(f"`{name}`" for name in names)


_TYPES: dict[type, FieldType] = {
    bool: "boolean", int: "integer", float: "number", Decimal: "number", str: "string", datetime: "datetime",
    date: "date", time: "time", dict: "json", list: "json", UUID: "string",
}  # fmt: skip


class TableEntity(Entity):
    """A table or view, reflected at first use. With a tenant column each tenant has its own rows."""

    source = "database"

    def __init__(self, name: str, settings: EntitySettings, engine: Engine) -> None:
        super().__init__(name, settings)
        self._engine = engine
        self._table_name = settings.table or name
        self._tenant_column = settings.tenant_column
        self._lock = Lock()
        self._reflected: tuple[Table, dict[str, EntityField], dict[str, TypeAdapter[Any]]] | None = None

    def _reflect(self) -> tuple[Table, dict[str, EntityField], dict[str, TypeAdapter[Any]]]:
        with self._lock:
            if self._reflected is None:
                schema, _, table_name = self._table_name.rpartition(".")
                try:
                    table = Table(table_name, MetaData(), schema=schema or None, autoload_with=self._engine)
                except NoSuchTableError:
                    raise ToolError(f"There is no table `{self._table_name}` for the entity `{self.name}`.") from None
                except DBAPIError as error:
                    raise said_of_database(self.name, error) from None
                if self._tenant_column and self._tenant_column not in table.c:
                    raise ToolError(
                        f"The table of `{self.name}` has no column `{self._tenant_column}`, so it does not say "
                        "which tenant a row belongs to."
                    )
                self._reflected = table, *self._read_columns(table)
            return self._reflected

    def _read_columns(self, table: Table) -> tuple[dict[str, EntityField], dict[str, TypeAdapter[Any]]]:
        fields: dict[str, EntityField] = {}
        adapters: dict[str, TypeAdapter[Any]] = {}
        for column in table.columns:
            try:
                kind: type = column.type.python_type
            except NotImplementedError:
                continue  # a type that no JSON value stands for
            if column.name in self.hidden or column.name == self._tenant_column or kind not in _TYPES:
                continue
            made = column.server_default is not None or column.identity is not None
            made = made or (column.primary_key and column.autoincrement is not False and kind is int)
            required = not column.nullable and not made
            fields[column.name] = EntityField(
                column.name, _TYPES[kind], required, bool(column.nullable), column.primary_key, column.comment or ""
            )
            adapters[column.name] = TypeAdapter(kind)
        return fields, adapters

    @property
    def fields(self) -> Mapping[str, EntityField]:
        return self._reflect()[1]

    @contextmanager
    def transaction(self, tenant: str, *, writes: bool) -> Generator[Connection]:
        with self._engine.connect() as connection, connection.begin(), _bounded(connection):
            yield connection

    def _own(self, tenant: str) -> ColumnElement[bool]:
        """Rows of exactly this tenant. The column itself may ignore case or spaces (NOCASE, citext, a collation that is
        not deterministic); comparing it as it is lets an index be used.
        """
        if not self._tenant_column:
            return true()
        column = self._reflect()[0].c[self._tenant_column]
        exact = sql_cast(column, Text).collate("C" if self._engine.dialect.name == "postgresql" else "BINARY")
        return and_(column == tenant, exact == tenant)

    def _column(self, name: str) -> ColumnElement[Any]:
        return self._reflect()[0].c[name]

    def _value(self, field: EntityField, value: Any) -> Any:
        return self._reflect()[2][field.name].validate_python(value)

    def _rows(
        self, connection: Connection, tenant: str, where: ColumnElement[bool], order: Sequence[Any], limit: int
    ) -> list[dict[str, Any]]:
        table, fields, _ = self._reflect()
        chosen = select(*(table.c[name] for name in fields)).where(self._own(tenant), where)
        return [dict(row) for row in connection.execute(chosen.order_by(*order).limit(limit)).mappings()]

    def create(self, connection: Connection, tenant: str, values: Mapping[str, Any]) -> dict[str, Any]:
        table, fields, _ = self._reflect()
        kept = {name: self.value(self.field(name), value) for name, value in values.items()}
        if missing := [field.name for field in fields.values() if field.required and kept.get(field.name) is None]:
            raise _invalid(f"A new `{self.name}` needs {listed_names(missing)}.")
        owner = {self._tenant_column: tenant} if self._tenant_column else {}
        done = connection.execute(insert(table).values({**kept, **owner}))
        made = dict(zip((column.name for column in table.primary_key), done.inserted_primary_key or (), strict=False))
        found = self._rows(connection, tenant, self._keyed(made), (), 1) if made else []
        return found[0] if found else {name: kept.get(name) for name in fields}

    def _keyed(self, row: Mapping[str, Any]) -> ColumnElement[bool]:
        table = self._reflect()[0]
        names = [column.name for column in table.primary_key if column.name in row]
        return and_(true(), *(table.c[name] == row[name] for name in names))

    def _each(self, rows: list[dict[str, Any]]) -> ColumnElement[bool]:
        if not self.key:
            raise ToolError(f"The table of `{self.name}` has no primary key, so its rows cannot be changed.")
        return or_(*(self._keyed(row) for row in rows))

    def _update(
        self, connection: Connection, tenant: str, rows: list[dict[str, Any]], values: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        kept = {name: self.value(self.field(name), value) for name, value in values.items()}
        meant = and_(self._own(tenant), self._each(rows))
        _require_count(connection.execute(update(self._reflect()[0]).where(meant).values(**kept)).rowcount, rows)
        return [{**row, **kept} for row in rows]

    def _delete(self, connection: Connection, tenant: str, rows: list[dict[str, Any]]) -> None:
        meant = and_(self._own(tenant), self._each(rows))
        _require_count(connection.execute(delete(self._reflect()[0]).where(meant)).rowcount, rows)


@contextmanager
def _bounded(connection: Connection) -> Generator[None]:
    """Have the database itself end a statement that takes too long. On SQLite the time is that of all statements."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL statement_timeout = {int(STATEMENT_SECONDS * 1000)}"))
        yield
        return
    driver: Any = connection.connection.driver_connection
    until = monotonic() + STATEMENT_SECONDS
    driver.set_progress_handler(lambda: monotonic() > until, _STEPS)
    try:
        yield
    finally:
        driver.set_progress_handler(None, 0)


def _require_count(changed: int, rows: list[dict[str, Any]]) -> None:
    if changed != len(rows):
        raise ToolError("Somebody else changed these rows at the same time; nothing was changed. Try again.")


# Rows of a pydantic model, in the service's own store


class ModelEntity(Entity):
    """A pydantic model. Its rows are JSON in the service's database, checked by the model whenever they change."""

    source = "model"

    def __init__(self, name: str, settings: EntitySettings, model: type[BaseModel], database: Database) -> None:
        super().__init__(name, settings, (model.__doc__ or "").strip().partition("\n")[0])
        self._model = model
        self._database = database
        self._key = settings.key
        self._fields = self._read_fields()
        self._adapters: dict[str, TypeAdapter[Any]] = {
            field: TypeAdapter(cast("Any", info.annotation)) for field, info in model.model_fields.items()
        }

    def _read_fields(self) -> dict[str, EntityField]:
        schema = self._model.model_json_schema(mode="serialization")
        given = self._model.model_fields
        made = {} if self._key in given else {
            self._key: EntityField(self._key, "string", False, False, True, "Made by the service.")
        }  # fmt: skip
        properties: dict[str, Any] = schema.get("properties", {})
        for name, info in given.items():
            if name not in self.hidden:
                found: dict[str, Any] = properties.get(name, {})
                nullable = any(one.get("type") == "null" for one in found.get("anyOf", ()))
                made[name] = EntityField(
                    name, _schema_type(found, schema), info.is_required(), nullable, name == self._key,
                    info.description or "",
                )  # fmt: skip
        return made

    @property
    def fields(self) -> Mapping[str, EntityField]:
        return self._fields

    @contextmanager
    def transaction(self, tenant: str, *, writes: bool) -> Generator[Connection]:
        with self._database.transaction(tenant, writes=writes) as connection, _bounded(connection):
            yield connection

    def _own(self, tenant: str) -> ColumnElement[bool]:
        return and_(entity_rows.c.tenant == tenant, entity_rows.c.entity == self.name)

    def _column(self, name: str) -> ColumnElement[Any]:
        if name == self._key:
            return sql_cast(entity_rows.c.id, _SQL_TYPES[self._fields[name].type]())
        found = entity_rows.c.data[name].as_string()
        if self._fields[name].type == "boolean":  # SQLite has 1 and 0, PostgreSQL `true` and `false`
            return entity_rows.c.data[name].as_boolean()
        return sql_cast(found, _SQL_TYPES[self._fields[name].type]())

    def _value(self, field: EntityField, value: Any) -> Any:
        if field.name not in self._adapters:
            return TypeAdapter(str).validate_python(value)
        valid = self._adapters[field.name].validate_python(value)
        plain = to_jsonable_python(valid)
        return float(plain) if field.type == "number" else plain

    def _rows(
        self, connection: Connection, tenant: str, where: ColumnElement[bool], order: Sequence[Any], limit: int
    ) -> list[dict[str, Any]]:
        query = select(entity_rows.c.id, entity_rows.c.data).where(self._own(tenant), where)
        found = connection.execute(query.order_by(*(order or (entity_rows.c.created, entity_rows.c.id))).limit(limit))
        return [{self._key: row.id, **row.data} for row in found]

    def _checked(self, values: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
        for name in values:
            self.field(name)
        whole = {**(before or {}), **values}  # with what is hidden, which stays as it is
        given = {name: value for name, value in whole.items() if name in self._model.model_fields}
        try:
            data = self._model.model_validate(given).model_dump(mode="json")
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise _invalid(
                f"`{place}` of `{self.name}`: {first['msg']}." if place else f"`{self.name}`: {first['msg']}."
            ) from None
        if "\\u0000" in json.dumps(data):
            raise _invalid(f"A value of `{self.name}` holds a NUL character.")
        return data

    def create(self, connection: Connection, tenant: str, values: Mapping[str, Any]) -> dict[str, Any]:
        data = self._checked(values)
        row_id = str(data[self._key] if self._key in data else values.get(self._key) or new_id())
        if len(row_id) > _ID_LENGTH:
            raise _invalid(f"`{self._key}` has more than {_ID_LENGTH} characters.")
        moment = now()
        new = insert(entity_rows).values(
            tenant=tenant, entity=self.name, id=row_id, data=data, created=moment, updated=moment
        )
        try:
            connection.execute(new)
        except IntegrityError:
            raise _invalid(f"There is a row of `{self.name}` with this `{self._key}` already.") from None
        return self._shown({self._key: row_id, **data})

    def _update(
        self, connection: Connection, tenant: str, rows: list[dict[str, Any]], values: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        changed: list[dict[str, Any]] = []
        for row in rows:
            if str(values.get(self._key, row[self._key])) != str(row[self._key]):
                raise _invalid(f"`{self._key}` names a row and cannot be changed.")
            data = self._checked(values, row)
            mine = and_(self._own(tenant), entity_rows.c.id == str(row[self._key]))
            connection.execute(update(entity_rows).where(mine).values(data=data, updated=now()))
            changed.append({self._key: row[self._key], **data})
        return changed

    def _delete(self, connection: Connection, tenant: str, rows: list[dict[str, Any]]) -> None:
        ids = [str(row[self._key]) for row in rows]
        connection.execute(delete(entity_rows).where(self._own(tenant), entity_rows.c.id.in_(ids)))


_SQL_TYPES: dict[FieldType, Any] = {
    "string": String, "integer": BigInteger, "number": Float, "boolean": Boolean, "date": String, "datetime": String,
    "time": String, "json": String,
}  # fmt: skip
_FORMATS: dict[str, FieldType] = {"date": "date", "date-time": "datetime", "time": "time"}


def _schema_type(schema: Mapping[str, Any], root: Mapping[str, Any]) -> FieldType:
    schema = resolve(schema, root)
    if forms := options(schema):
        return _schema_type(forms[0], root)
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    kind = schema.get("type")
    return cast("FieldType", kind) if kind in ("string", "integer", "number", "boolean") else "json"


def said_of_database(entity: str, error: Exception) -> ToolError:
    """What went wrong in an entity's database, in words that hold no statement and no value of it."""
    if isinstance(error, IntegrityError):
        return _invalid(
            f"`{entity}` was not changed: {said_by_driver(error)}.",
            "Look at the row that is there already, or give another key.",
        )
    if isinstance(error, (DataError, OverflowError)):
        return _invalid(f"A value does not fit a field of `{entity}`.")
    original = getattr(error, "orig", None)
    if getattr(original, "sqlstate", "") == "57014" or getattr(original, "sqlite_errorcode", 0) == SQLITE_INTERRUPT:
        return ToolError(f"The database of `{entity}` took too long.", kind=ErrorKind.TIMEOUT)
    return ToolError(f"The database of `{entity}` cannot be used: {said_by_driver(error)}.")
