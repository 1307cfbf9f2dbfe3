"""The tables of the service. Every row of a tenant says whose it is, in the first column of its key.

Five tables belong to no tenant and hold nothing of one but names: `tenants` (which there are), `key_hashes` (whose key
this is, before anyone is known), `work` (which calls somebody must look after, and by when), `deliveries` (which
approvals a webhook is still to be told of) and `changes` (a counter that grows whenever a key, a role or a user
changes). On PostgreSQL all others have row-level security.
"""

from __future__ import annotations

from functools import partial
from typing import Any

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

HEAD = "0007_request_turns"
"""The revision of the schema that this code is written for."""

metadata = MetaData()


def _columns(kind: Any, *names: str, nullable: bool = False) -> list[Column[Any]]:
    return [Column(name, kind, nullable=nullable) for name in names]


_flags = partial(_columns, Boolean)
_texts = partial(_columns, Text)
_times = partial(_columns, Double)
_names = partial(_columns, String(63))
_ids = partial(_columns, String(64))
_tools = partial(_columns, String(256))
_numbers = partial(_columns, Integer)
_counts = partial(_columns, BigInteger)


# Who there is

tenants = Table(
    "tenants",
    metadata,
    *_names("tenant"),
    *_texts("display_name", "limits", "disabled_tools"),
    *_flags("operator", "enabled"),
    *_times("created"),
    *_times("audit_days", nullable=True),
    PrimaryKeyConstraint("tenant"),
)
users = Table(
    "users",
    metadata,
    *_names("tenant", "name"),
    *_flags("enabled"),
    *_texts("limits", "allow"),
    *_times("created"),
    *_texts("issuer", nullable=True),
    Column("subject", String(255)),
    *_times("signed_in", nullable=True),
    PrimaryKeyConstraint("tenant", "name"),
    Index("users_by_identity", "tenant", "issuer", "subject", unique=True),
)
roles = Table(
    "roles",
    metadata,
    *_names("tenant", "name"),
    Column("mode", String(16)),
    *_texts("allow", "ask", "deny"),
    PrimaryKeyConstraint("tenant", "name"),
)
grants = Table(
    "grants",
    metadata,
    *_names("tenant", "user", "role"),
    *_numbers("position"),
    PrimaryKeyConstraint("tenant", "user", "role"),
)
api_keys = Table(
    "api_keys",
    metadata,
    *_names("tenant", "user"),
    *_ids("id"),
    *_texts("name", "scopes", "limits"),
    Column("hint", String(16), nullable=False),
    *_times("created"),
    *_times("expires", nullable=True),
    *_flags("revoked"),
    PrimaryKeyConstraint("tenant", "id"),
    Index("api_keys_by_age", "tenant", "created", "id"),
)
key_hashes = Table(
    "key_hashes",
    metadata,
    *_ids("hash", "key"),
    *_names("tenant"),
    *_times("expires", nullable=True),
    PrimaryKeyConstraint("hash"),
    Index("key_hashes_by_key", "tenant", "key"),
)
changes = Table("changes", metadata, Column("id", Integer), Column("count", Integer), PrimaryKeyConstraint("id"))

# Calls

_IN_BATCH = text("batch IS NOT NULL")
"""Of calls that are in none an index would only cost something."""
_IN_SESSION = text("session IS NOT NULL")
ENDED_BADLY = text("(status = 'failed' OR status = 'cancelled' OR status = 'expired' OR status = 'lost')")
"""An index of the statuses that most calls never have costs next to nothing. With `IN`, SQLite would fill a table with
them for each row that is written.
"""
calls = Table(
    "calls",
    metadata,
    *_names("tenant", "user"),
    *_ids("id", "key", "request"),
    *_tools("tool"),
    *_ids("version", "pinned", "session", "batch", "approval", nullable=True),
    *_texts("arguments", "metadata"),
    *_texts("result", "scopes", "trace", nullable=True),
    Column("status", String(20), nullable=False),
    *_flags("repeatable", "cancelling"),
    *_numbers("attempts", "position", "started_seq", "last_seq"),
    *_times("created"),
    *_times("timeout", "started", "finished", nullable=True),
    Column("cost", Double, nullable=False, server_default="0"),
    PrimaryKeyConstraint("tenant", "id"),
    Index("calls_by_batch", "tenant", "batch", "position", sqlite_where=_IN_BATCH, postgresql_where=_IN_BATCH),
    Index("calls_by_session", "tenant", "session", "id", sqlite_where=_IN_SESSION, postgresql_where=_IN_SESSION),
    Index("calls_ended_badly", "tenant", "status", "id", sqlite_where=ENDED_BADLY, postgresql_where=ENDED_BADLY),
)
call_spans = Table(
    "call_spans",
    metadata,
    *_names("tenant"),
    *_numbers("step"),
    *_ids("begins", "ends", "id"),
    *_flags("complete"),
    PrimaryKeyConstraint("tenant", "step", "begins"),
)
"""Stretches of time whose calls are summed up, by the ids that calls of that time have."""
changed_spans = Table(
    "changed_spans", metadata, *_names("tenant"), *_ids("span", "call"), PrimaryKeyConstraint("tenant", "span", "call")
)
"""Spans of which a call was changed after all, whoever did it: the database adds these rows (`SUMS_STAY_TRUE`). A row
is of one call, so that transactions which change calls of the same span never wait for each other.
"""
call_sums = Table(
    "call_sums",
    metadata,
    *_names("tenant"),
    Column("side", String(8), nullable=False),
    *_names("scope"),
    *_ids("span"),
    *_tools("name"),
    *_counts("calls", "succeeded", "failed", "denied"),
    Column("cost", Double, nullable=False),
    Column("waited", Double, nullable=False),
    *_texts("durations"),
    PrimaryKeyConstraint("tenant", "side", "scope", "span", "name"),
    Index("call_sums_by_span", "tenant", "span"),
)
"""Sums of the calls of a span: by tool, by user, and each user's `own` by tool, whose scope is the user."""
work = Table(
    "work",
    metadata,
    *_names("tenant"),
    *_ids("call", "owner"),
    *_times("due"),
    PrimaryKeyConstraint("tenant", "call"),
    Index("work_by_due", "due"),
    Index("work_by_owner", "owner"),
)
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    *_names("tenant", "user"),
    Column("key", String(255), nullable=False),
    *_ids("fingerprint", "call"),
    *_flags("batch"),
    *_times("created"),
    PrimaryKeyConstraint("tenant", "user", "key"),
    Index("idempotency_by_age", "tenant", "created"),
)
events = Table(
    "events",
    metadata,
    *_names("tenant"),
    *_ids("call"),
    *_numbers("seq"),
    Column("type", String(32), nullable=False),
    *_texts("data"),
    *_times("at"),
    PrimaryKeyConstraint("tenant", "call", "seq"),
)
turn_entries = Table(
    "turn_entries",
    metadata,
    *_names("tenant"),
    *_ids("call"),
    *_numbers("number"),
    *_texts("text"),
    PrimaryKeyConstraint("tenant", "call", "number"),
)
"""The steps of a request, from which it goes on."""
approvals = Table(
    "approvals",
    metadata,
    *_names("tenant", "user"),
    *_ids("id", "call", "args_hash", "tool_version"),
    *_tools("tool"),
    *_texts("arguments", "question"),
    Column("status", String(12), nullable=False),
    *_flags("held"),
    Column("scope", String(8)),
    *_names("decided_by", nullable=True),
    *_texts("decision_reason", nullable=True),
    *_times("created", "expires"),
    *_times("decided", nullable=True),
    PrimaryKeyConstraint("tenant", "id"),
    Index("approvals_by_status", "tenant", "status", "created"),
)
deliveries = Table(
    "deliveries",
    metadata,
    *_names("tenant"),
    *_ids("approval", "message"),
    *_numbers("tries"),
    *_times("due"),
    PrimaryKeyConstraint("tenant", "approval"),
    Index("deliveries_by_due", "due"),
)

# Records

audit = Table(
    "audit",
    metadata,
    *_names("tenant"),
    *_counts("seq"),
    *_texts("content"),
    *_ids("prev_hash", "hash"),
    PrimaryKeyConstraint("tenant", "seq"),
)
audit_heads = Table(
    "audit_heads",
    metadata,
    *_names("tenant"),
    *_counts("seq"),
    *_ids("hash"),
    Column("removed_to", BigInteger, nullable=False, server_default="0"),
    Column("removed_hash", String(64), nullable=False, server_default=""),
    PrimaryKeyConstraint("tenant"),
)
usage = Table(
    "usage",
    metadata,
    *_names("tenant", "user"),
    Column("day", String(10), nullable=False),
    *_ids("key"),
    *_tools("tool"),
    *_numbers("calls"),
    Column("cost", Double, nullable=False, server_default="0"),
    PrimaryKeyConstraint("tenant", "day", "user", "key", "tool"),
)

# Intents and entities

intents = Table(
    "intents",
    metadata,
    *_names("tenant", "created_by"),
    *_ids("code"),
    *_numbers("version"),
    *_texts("definition"),
    *_flags("current", "enabled"),
    *_times("created"),
    PrimaryKeyConstraint("tenant", "code", "version"),
)
intent_forms = Table(
    "intent_forms",
    metadata,
    *_names("tenant", "user"),
    *_ids("session", "code"),
    *_texts("inputs"),
    *_times("updated"),
    PrimaryKeyConstraint("tenant", "user", "session", "code"),
)
entity_rows = Table(
    "entity_rows",
    metadata,
    *_names("tenant"),
    *_ids("entity"),
    Column("id", String(255), nullable=False),
    Column("data", JSON, nullable=False),
    *_times("created", "updated"),
    PrimaryKeyConstraint("tenant", "entity", "id"),
)
entity_writes = Table(
    "entity_writes",
    metadata,
    *_names("tenant"),
    *_ids("entity"),
    *_counts("count"),
    PrimaryKeyConstraint("tenant", "entity"),
)
cached_answers = Table(
    "cached_answers",
    metadata,
    *_names("tenant", "user"),
    *_ids("id", "scope"),
    *_texts("question", "answer"),
    *_times("created", "expires"),
    PrimaryKeyConstraint("tenant", "id"),
    Index("cached_answers_by_scope", "tenant", "scope", "created"),
)

SUM_STEPS = (86_400, 14_400, 1_800, 60)
"""How many seconds a span has, the largest first."""
LATE = 120
"""A call that changes when it is as many seconds old may be summed up already. Sums are made much later than that."""
_UNCOUNT = (
    "INSERT INTO changed_spans SELECT it.tenant, it.id, {row}.id "  # noqa: S608 - our own constants
    f"FROM ({' UNION ALL '.join(f'SELECT {step} AS step' for step in SUM_STEPS)}) AS size CROSS JOIN call_spans AS it "
    "WHERE it.tenant = {row}.tenant AND it.step = size.step AND it.ends > {row}.id AND it.begins = "
    "(SELECT max(begins) FROM call_spans WHERE tenant = {row}.tenant AND step = size.step AND begins <= {row}.id) "
    "AND NOT EXISTS (SELECT 1 FROM changed_spans WHERE tenant = it.tenant AND span = it.id){unless};"
)
_POSTGRESQL_UNCOUNT = (
    "CREATE FUNCTION ferrule_uncount() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ "
    "DECLARE changed record; BEGIN IF TG_OP = 'DELETE' THEN changed := OLD; ELSE changed := NEW; END IF; "
    f"{_UNCOUNT.format(row='changed', unless=' ON CONFLICT DO NOTHING')} RETURN NULL; END $$"
)
SUMS_STAY_TRUE = {
    "sqlite": tuple(
        f"CREATE TRIGGER calls_uncount_{change.lower()} AFTER {change} ON calls "
        f"WHEN {row}.created < (julianday('now') - 2440587.5) * 86400 - {LATE} "
        f"BEGIN {_UNCOUNT.format(row=row, unless='')} END"
        for change, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD"))
    ),
    "postgresql": (
        _POSTGRESQL_UNCOUNT,
        *(
            f"CREATE TRIGGER calls_uncount_{name} AFTER {changes} ON calls FOR EACH ROW "
            f"WHEN ({row}.created < extract(epoch FROM clock_timestamp()) - {LATE}) "
            "EXECUTE FUNCTION ferrule_uncount()"
            for name, changes, row in (("change", "INSERT OR UPDATE", "NEW"), ("delete", "DELETE", "OLD"))
        ),
    ),
}
"""By dialect: what notes that a call of a span was added, changed or deleted after all."""
SHARED = ("tenants", "key_hashes", "work", "deliveries", "changes")
"""What belongs to no tenant; all other tables are guarded by row-level security."""
APPEND_ONLY = ("audit",)
"""What the application may add to and read, and not change; old rows go through a function that leaves a trace."""
