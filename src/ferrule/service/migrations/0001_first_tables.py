"""The first tables; on PostgreSQL with row-level security and the role that the application works as."""

# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

APP_ROLE = "ferrule_app"
SHARED = ("tenants", "key_hashes", "work", "changes")
GUARDED = (
    "users", "roles", "grants", "api_keys", "calls", "idempotency_keys", "events", "approvals", "audit",
    "audit_heads", "usage",
)  # fmt: skip


def upgrade() -> None:
    _create_tables()
    op.execute("INSERT INTO changes (id, count) VALUES (1, 0)")
    if op.get_bind().dialect.name == "postgresql":
        _guard()


def _guard() -> None:
    """Whoever connects works as a role that owns nothing, and sees the rows of one tenant alone."""
    op.execute(
        f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{APP_ROLE}') THEN "
        f"CREATE ROLE {APP_ROLE} NOLOGIN; END IF; END $$"
    )
    op.execute(
        f"DO $$ BEGIN IF NOT pg_has_role(current_user, '{APP_ROLE}', 'MEMBER') THEN "
        f"GRANT {APP_ROLE} TO CURRENT_USER; END IF; END $$"
    )
    op.execute(f"DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO {APP_ROLE}', current_schema()); END $$")
    op.execute(f"GRANT SELECT ON alembic_version TO {APP_ROLE}")
    for table in (*SHARED, *GUARDED):
        rights = "SELECT, INSERT" if table == "audit" else "SELECT, INSERT, UPDATE, DELETE"
        op.execute(f"GRANT {rights} ON {table} TO {APP_ROLE}")
    for table in GUARDED:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY {table}_of_tenant ON {table} "
            "USING (tenant = current_setting('app.tenant', true)) "
            "WITH CHECK (tenant = current_setting('app.tenant', true))"
        )


def _create_tables() -> None:
    op.create_table(
        "api_keys",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("user", sa.String(length=63), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("hint", sa.String(length=16), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=True),
        sa.Column("revoked", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "id"),
    )
    op.create_table(
        "approvals",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("call", sa.String(length=64), nullable=False),
        sa.Column("user", sa.String(length=63), nullable=False),
        sa.Column("tool", sa.String(length=256), nullable=False),
        sa.Column("tool_version", sa.String(length=64), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("args_hash", sa.String(length=64), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("scope", sa.String(length=8), nullable=True),
        sa.Column("decided_by", sa.String(length=63), nullable=True),
        sa.Column("decision_reason", sa.Text(), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("decided", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "id"),
    )
    op.create_index("approvals_by_status", "approvals", ["tenant", "status", "created"], unique=False)
    op.create_table(
        "audit",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("prev_hash", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "seq"),
    )
    op.create_table(
        "audit_heads",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("tenant"),
    )
    op.create_table(
        "calls",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("user", sa.String(length=63), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("tool", sa.String(length=256), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=True),
        sa.Column("pinned", sa.String(length=64), nullable=True),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("repeatable", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("session", sa.String(length=64), nullable=True),
        sa.Column("timeout", sa.Double(), nullable=True),
        sa.Column("batch", sa.String(length=64), nullable=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("approval", sa.String(length=64), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("request", sa.String(length=64), nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("started_seq", sa.Integer(), nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("cancelling", sa.Boolean(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("finished", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "id"),
    )
    op.create_index("calls_by_batch", "calls", ["tenant", "batch", "position"], unique=False)
    op.create_table(
        "changes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "events",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("call", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "call", "seq"),
    )
    op.create_table(
        "grants",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("user", sa.String(length=63), nullable=False),
        sa.Column("role", sa.String(length=63), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "user", "role"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("user", sa.String(length=63), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("call", sa.String(length=64), nullable=False),
        sa.Column("batch", sa.Boolean(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "user", "key"),
    )
    op.create_index("idempotency_by_age", "idempotency_keys", ["tenant", "created"], unique=False)
    op.create_table(
        "key_hashes",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("expires", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_index("key_hashes_by_key", "key_hashes", ["tenant", "key"], unique=False)
    op.create_table(
        "roles",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=True),
        sa.Column("allow", sa.Text(), nullable=False),
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("deny", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name"),
    )
    op.create_table(
        "tenants",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("operator", sa.Boolean(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("disabled_tools", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant"),
    )
    op.create_table(
        "usage",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("user", sa.String(length=63), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("tool", sa.String(length=256), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "day", "user", "key", "tool"),
    )
    op.create_table(
        "users",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("allow", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name"),
    )
    op.create_table(
        "work",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("call", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "call"),
    )
    op.create_index("work_by_due", "work", ["due"], unique=False)
    op.create_index("work_by_owner", "work", ["owner"], unique=False)
