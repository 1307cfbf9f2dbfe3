"""Webhooks that are still to be told, what a token was for, and the trace that a call belongs to."""

# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004_deliveries"
down_revision = "0003_intents"

APP_ROLE = "ferrule_app"


def upgrade() -> None:
    op.add_column("calls", sa.Column("scopes", sa.Text(), nullable=True))
    op.add_column("calls", sa.Column("trace", sa.Text(), nullable=True))
    op.create_table(
        "deliveries",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("approval", sa.String(length=64), nullable=False),
        sa.Column("message", sa.String(length=64), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "approval"),
    )
    op.create_index("deliveries_by_due", "deliveries", ["due"], unique=False)
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON deliveries TO {APP_ROLE}")
