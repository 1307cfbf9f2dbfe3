"""Intents, what a form has been told so far, entities, and cached answers; guarded as every table of a tenant is."""

# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003_intents"
down_revision = "0002_who"

APP_ROLE = "ferrule_app"
GUARDED = ("intents", "intent_forms", "entity_rows", "entity_writes", "cached_answers")


def upgrade() -> None:
    _create_tables()
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in GUARDED:
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {APP_ROLE}")
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY {table}_of_tenant ON {table} "
            "USING (tenant = current_setting('app.tenant', true)) "
            "WITH CHECK (tenant = current_setting('app.tenant', true))"
        )


def _create_tables() -> None:
    op.create_table(
        "intents",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("code", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created_by", sa.String(length=63), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "code", "version"),
    )
    op.create_table(
        "intent_forms",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("user", sa.String(length=63), nullable=False),
        sa.Column("session", sa.String(length=64), nullable=False),
        sa.Column("code", sa.String(length=64), nullable=False),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.Column("updated", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "user", "session", "code"),
    )
    op.create_table(
        "entity_rows",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("entity", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("updated", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "entity", "id"),
    )
    op.create_table(
        "entity_writes",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("entity", sa.String(length=64), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "entity"),
    )
    op.create_table(
        "cached_answers",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("scope", sa.String(length=64), nullable=False),
        sa.Column("user", sa.String(length=63), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "id"),
    )
    op.create_index("cached_answers_by_scope", "cached_answers", ["tenant", "scope", "created"], unique=False)
