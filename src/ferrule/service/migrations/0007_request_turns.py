"""The steps of requests, so that they wait without memory and outlive their instance."""

from __future__ import annotations

from alembic import op

from ferrule.service.database import guarding_table
from ferrule.service.tables import turn_entries

revision = "0007_request_turns"
down_revision = "0006_call_sums"


def upgrade() -> None:
    connection = op.get_bind()
    turn_entries.create(connection)
    if connection.dialect.name == "postgresql":
        for statement in guarding_table(turn_entries.name):
            connection.exec_driver_sql(statement)
