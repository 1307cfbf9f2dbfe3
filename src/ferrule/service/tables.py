"""The tables of the service. Every row of a tenant says whose it is, in the first column of its key.

Five tables belong to no tenant and hold nothing of one but names: `tenants` (which there are), `key_hashes` (whose key
this is, before anyone is known), `work` (which calls somebody must look after, and by when), `deliveries` (which
approvals a webhook is still to be told of) and `changes` (a counter that grows whenever a key, a role or a user
changes). On PostgreSQL all others have row-level security.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)

HEAD = "0005_batches"
"""The revision of the schema that this code is written for."""

metadata = MetaData()


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False)


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, Text, nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> Column[float]:
    return Column(name, Double, nullable=nullable)


def _name(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, String(63), nullable=nullable)


def _id(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, String(64), nullable=nullable)


# Who there is

tenants = Table(
    "tenants",
    metadata,
    _name("tenant"),
    _text("display_name"),
    _flag("operator"),
    _flag("enabled"),
    _text("limits"),
    _text("disabled_tools"),
    _time("created"),
    _time("audit_days", nullable=True),
    PrimaryKeyConstraint("tenant"),
)
users = Table(
    "users",
    metadata,
    _name("tenant"),
    _name("name"),
    _flag("enabled"),
    _text("limits"),
    _text("allow"),
    _time("created"),
    _text("issuer", nullable=True),
    Column("subject", String(255)),
    _time("signed_in", nullable=True),
    PrimaryKeyConstraint("tenant", "name"),
    Index("users_by_identity", "tenant", "issuer", "subject", unique=True),
)
roles = Table(
    "roles",
    metadata,
    _name("tenant"),
    _name("name"),
    Column("mode", String(16)),
    _text("allow"),
    _text("ask"),
    _text("deny"),
    PrimaryKeyConstraint("tenant", "name"),
)
grants = Table(
    "grants",
    metadata,
    _name("tenant"),
    _name("user"),
    _name("role"),
    Column("position", Integer, nullable=False),
    PrimaryKeyConstraint("tenant", "user", "role"),
)
api_keys = Table(
    "api_keys",
    metadata,
    _name("tenant"),
    _id("id"),
    _name("user"),
    _text("name"),
    _text("scopes"),
    _text("limits"),
    Column("hint", String(16), nullable=False),
    _time("created"),
    _time("expires", nullable=True),
    _flag("revoked"),
    PrimaryKeyConstraint("tenant", "id"),
)
key_hashes = Table(
    "key_hashes",
    metadata,
    _id("hash"),
    _name("tenant"),
    _id("key"),
    _time("expires", nullable=True),
    PrimaryKeyConstraint("hash"),
    Index("key_hashes_by_key", "tenant", "key"),
)
changes = Table("changes", metadata, Column("id", Integer), Column("count", Integer), PrimaryKeyConstraint("id"))

# Calls

_IN_BATCH = text("batch IS NOT NULL")
"""Of calls that are in none an index would only cost something."""
calls = Table(
    "calls",
    metadata,
    _name("tenant"),
    _id("id"),
    _name("user"),
    _id("key"),
    Column("tool", String(256), nullable=False),
    Column("version", String(64)),
    Column("pinned", String(64)),
    _text("arguments"),
    Column("status", String(20), nullable=False),
    _flag("repeatable"),
    Column("attempts", Integer, nullable=False),
    Column("session", String(64)),
    Column("timeout", Double),
    _id("batch", nullable=True),
    Column("position", Integer, nullable=False),
    _id("approval", nullable=True),
    _text("metadata"),
    Column("request", String(64), nullable=False),
    _text("result", nullable=True),
    Column("cost", Double, nullable=False, server_default="0"),
    Column("started_seq", Integer, nullable=False),
    Column("last_seq", Integer, nullable=False),
    _flag("cancelling"),
    _time("created"),
    _time("started", nullable=True),
    _time("finished", nullable=True),
    _text("scopes", nullable=True),
    _text("trace", nullable=True),
    PrimaryKeyConstraint("tenant", "id"),
    Index("calls_by_batch", "tenant", "batch", "position", sqlite_where=_IN_BATCH, postgresql_where=_IN_BATCH),
)
work = Table(
    "work",
    metadata,
    _name("tenant"),
    _id("call"),
    _id("owner"),
    _time("due"),
    PrimaryKeyConstraint("tenant", "call"),
    Index("work_by_due", "due"),
    Index("work_by_owner", "owner"),
)
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    _name("tenant"),
    _name("user"),
    Column("key", String(255), nullable=False),
    _id("fingerprint"),
    _id("call"),
    _flag("batch"),
    _time("created"),
    PrimaryKeyConstraint("tenant", "user", "key"),
    Index("idempotency_by_age", "tenant", "created"),
)
events = Table(
    "events",
    metadata,
    _name("tenant"),
    _id("call"),
    Column("seq", Integer, nullable=False),
    Column("type", String(32), nullable=False),
    _text("data"),
    _time("at"),
    PrimaryKeyConstraint("tenant", "call", "seq"),
)
approvals = Table(
    "approvals",
    metadata,
    _name("tenant"),
    _id("id"),
    _id("call"),
    _name("user"),
    Column("tool", String(256), nullable=False),
    Column("tool_version", String(64), nullable=False),
    _text("arguments"),
    _id("args_hash"),
    _text("question"),
    Column("status", String(12), nullable=False),
    _flag("held"),
    Column("scope", String(8)),
    _name("decided_by", nullable=True),
    _text("decision_reason", nullable=True),
    _time("created"),
    _time("expires"),
    _time("decided", nullable=True),
    PrimaryKeyConstraint("tenant", "id"),
    Index("approvals_by_status", "tenant", "status", "created"),
)
deliveries = Table(
    "deliveries",
    metadata,
    _name("tenant"),
    _id("approval"),
    _id("message"),
    Column("tries", Integer, nullable=False),
    _time("due"),
    PrimaryKeyConstraint("tenant", "approval"),
    Index("deliveries_by_due", "due"),
)

# Records

audit = Table(
    "audit",
    metadata,
    _name("tenant"),
    Column("seq", BigInteger, nullable=False),
    _text("content"),
    _id("prev_hash"),
    _id("hash"),
    PrimaryKeyConstraint("tenant", "seq"),
)
audit_heads = Table(
    "audit_heads",
    metadata,
    _name("tenant"),
    Column("seq", BigInteger, nullable=False),
    _id("hash"),
    Column("removed_to", BigInteger, nullable=False, server_default="0"),
    Column("removed_hash", String(64), nullable=False, server_default=""),
    PrimaryKeyConstraint("tenant"),
)
usage = Table(
    "usage",
    metadata,
    _name("tenant"),
    Column("day", String(10), nullable=False),
    _name("user"),
    _id("key"),
    Column("tool", String(256), nullable=False),
    Column("calls", Integer, nullable=False),
    Column("cost", Double, nullable=False, server_default="0"),
    PrimaryKeyConstraint("tenant", "day", "user", "key", "tool"),
)

# Intents and entities

intents = Table(
    "intents",
    metadata,
    _name("tenant"),
    _id("code"),
    Column("version", Integer, nullable=False),
    _text("definition"),
    _flag("current"),
    _flag("enabled"),
    _name("created_by"),
    _time("created"),
    PrimaryKeyConstraint("tenant", "code", "version"),
)
intent_forms = Table(
    "intent_forms",
    metadata,
    _name("tenant"),
    _name("user"),
    _id("session"),
    _id("code"),
    _text("inputs"),
    _time("updated"),
    PrimaryKeyConstraint("tenant", "user", "session", "code"),
)
entity_rows = Table(
    "entity_rows",
    metadata,
    _name("tenant"),
    _id("entity"),
    Column("id", String(255), nullable=False),
    Column("data", JSON, nullable=False),
    _time("created"),
    _time("updated"),
    PrimaryKeyConstraint("tenant", "entity", "id"),
)
entity_writes = Table(
    "entity_writes",
    metadata,
    _name("tenant"),
    _id("entity"),
    Column("count", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "entity"),
)
cached_answers = Table(
    "cached_answers",
    metadata,
    _name("tenant"),
    _id("id"),
    _id("scope"),
    _name("user"),
    _text("question"),
    _text("answer"),
    _time("created"),
    _time("expires"),
    PrimaryKeyConstraint("tenant", "id"),
    Index("cached_answers_by_scope", "tenant", "scope", "created"),
)

SHARED = ("tenants", "key_hashes", "work", "deliveries", "changes")
"""What belongs to no tenant; all other tables are guarded by row-level security."""
APPEND_ONLY = ("audit",)
"""What the application may add to and read, and not change; old rows go through a function that leaves a trace."""
