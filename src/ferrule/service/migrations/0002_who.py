"""Users of an identity provider, what calls cost, and how long a tenant's audit log is kept."""

# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002_who"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("users", sa.Column("issuer", sa.Text(), nullable=True))
    op.add_column("users", sa.Column("subject", sa.String(length=255), nullable=True))
    op.add_column("users", sa.Column("signed_in", sa.Double(), nullable=True))
    op.create_index("users_by_identity", "users", ["tenant", "issuer", "subject"], unique=True)
    for table in ("calls", "usage"):
        op.add_column(table, sa.Column("cost", sa.Double(), nullable=False, server_default="0"))
