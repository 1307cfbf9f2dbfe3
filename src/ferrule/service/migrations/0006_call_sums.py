"""Sums of calls, so that figures and filters need not read every call; and indexes for what few calls have, and for
pages of keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alembic import op

from ferrule.service.database import guarding_table
from ferrule.service.tables import SUMS_STAY_TRUE, api_keys, call_spans, call_sums, calls, changed_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

revision = "0006_call_sums"
down_revision = "0005_batches"


def upgrade() -> None:
    connection = op.get_bind()
    dialect = connection.dialect.name
    for index in (*calls.indexes, *api_keys.indexes):
        if index.name in ("calls_by_session", "calls_ended_badly", "api_keys_by_age"):
            index.create(connection)

    def statements() -> Iterator[str]:
        for table in (call_spans, changed_spans, call_sums):
            table.create(connection)
            if dialect == "postgresql":
                yield from guarding_table(table.name)
        yield from SUMS_STAY_TRUE[dialect]

    for statement in statements():
        connection.exec_driver_sql(statement)
