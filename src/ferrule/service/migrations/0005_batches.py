"""The index of batches holds only the calls that are in one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005_batches"
down_revision = "0004_deliveries"


def upgrade() -> None:
    op.drop_index("calls_by_batch", "calls")
    in_batch = sa.text("batch IS NOT NULL")
    op.create_index(
        "calls_by_batch", "calls", ["tenant", "batch", "position"], sqlite_where=in_batch, postgresql_where=in_batch
    )
