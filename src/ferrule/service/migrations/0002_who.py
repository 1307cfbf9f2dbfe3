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
    op.add_column("tenants", sa.Column("audit_days", sa.Double(), nullable=True))
    op.add_column("audit_heads", sa.Column("removed_to", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("audit_heads", sa.Column("removed_hash", sa.String(length=64), nullable=False, server_default=""))
    if op.get_bind().dialect.name == "postgresql":
        _let_old_audit_rows_go()


def _let_old_audit_rows_go() -> None:
    """The application has no right to remove audit rows. This function has, of the tenant that the transaction speaks
    for, where the last row of the chain says what goes, and nothing of it is younger than a day.
    """
    body = """
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
    op.execute(
        "DO $do$ BEGIN EXECUTE format('CREATE FUNCTION ferrule_remove_audit(through bigint) RETURNS bigint "
        f"LANGUAGE plpgsql SECURITY DEFINER SET search_path = %I, pg_temp AS $body${body}$body$', current_schema()); "
        "END $do$"
    )
    op.execute("REVOKE ALL ON FUNCTION ferrule_remove_audit(bigint) FROM PUBLIC")
    op.execute("GRANT EXECUTE ON FUNCTION ferrule_remove_audit(bigint) TO ferrule_app")
