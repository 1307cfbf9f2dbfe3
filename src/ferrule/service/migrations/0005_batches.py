"""Where migrations start. A new database gets its tables from `ferrule.service.tables` and comes in here."""

from __future__ import annotations

revision = "0005_batches"
down_revision = None


def upgrade() -> None:
    """Nothing leads here."""
