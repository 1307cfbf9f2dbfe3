"""What is on record of each tenant: the audit log, a chain of rows in the store, and the counts for the metrics.

Each row carries the hash of the one before, as in the audit log of a single machine, and whichever instance adds one
locks the tenant's head first. A row is committed no later than the end of its call.
"""

from __future__ import annotations

import json
import re
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, select, update

from ferrule.core.errors import Stage
from ferrule.core.tool import Kind
from ferrule.records import Statistics, prometheus_text
from ferrule.records.row import CONTENT, RETENTION, hash_of, retention_content
from ferrule.records.telemetry import OTHER
from ferrule.service.documents import audit_content
from ferrule.service.entity_catalog import count_write
from ferrule.service.tables import audit, audit_heads
from ferrule.service.writer import AddAudit, StoreChange, append_audit, hash_of_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection, Row

    from ferrule.pipeline.stages import CallRecord
    from ferrule.service.writer import GroupWriter

MOST_REMOVED = 5_000
"""Old rows that one transaction removes."""
_KIND, _ARGUMENTS = CONTENT.index("kind"), CONTENT.index("arguments")
_MOST_TENANTS = 1_000
_MOST_DETAILED = 50
"""Tenants whose durations stand on a page of all tenants, the first that came: each tool has sixty lines of them."""
_TOOLS = ""
"""What all tools change, among the names of entities."""
_BEFORE = frozenset({Stage.LOOKUP, Stage.VALIDATE, Stage.AUTHORISE, Stage.CONFIRM})
_SAMPLE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")


class TenantRecorder:
    """Puts every call on its tenant's record, and counts it."""

    def __init__(self, writer: GroupWriter, *, count_writes: bool = False) -> None:
        """`count_writes`: answers may be used again, and not after a tool may have changed what they are made of."""
        self._writer = writer
        self._count_writes = count_writes
        self.statistics: dict[str, Statistics] = {}
        """Of each tenant, for the metrics; of those above the first thousand under one name."""

    def record(self, record: CallRecord) -> None:
        """Whoever ends the call waits until this is committed: it is written in order."""
        tenant = record.caller.tenant
        if tenant is None:
            return
        self._writer.put(AddAudit(tenant, record))
        if self._count_writes and record.kind != Kind.READONLY and record.stage not in _BEFORE:
            self._writer.put(StoreChange(tenant, partial(count_write, tenant=tenant, what=_TOOLS)))
        counts = self.statistics.get(tenant)
        if counts is None:
            name = tenant if len(self.statistics) < _MOST_TENANTS else OTHER
            counts = self.statistics.setdefault(name, Statistics())
        counts.record(record)


def _is_sealed(row: Row[Any], content: list[Any]) -> bool:
    """Whether its hash is of what it says; that of an older row is of its values, not of their text."""
    said = row.content if isinstance(row.content, str) else ""
    of_text = hash_of_text(row.seq, said, row.prev_hash)
    return row.hash in (of_text, hash_of(row.seq, content, row.prev_hash))


def verify_chain(connection: Connection, tenant: str) -> dict[str, Any]:
    """Follow a tenant's chain from its first row, or the first that retention left, to its head."""
    head = connection.execute(select(audit_heads).where(audit_heads.c.tenant == tenant)).first()
    start = (head.removed_to, head.removed_hash) if head is not None else (0, "")
    (last, hash_before), rows, noted = start, 0, (0, "")

    def broken(seq: int | None, why: str) -> dict[str, Any]:
        found = {"ok": False, "rows": rows, "first_bad_seq": seq, "why": why, "head": hash_before}
        return {**found, "removed_to": start[0]}

    query = select(audit).where(audit.c.tenant == tenant).order_by(audit.c.seq)
    for row in connection.execution_options(yield_per=1_000).execute(query):
        if row.seq != last + 1:
            return broken(last + 1, f"Row {last + 1} is missing.")
        if row.prev_hash != hash_before:
            return broken(row.seq, f"Row {row.seq} does not follow the row before it.")
        content = audit_content(row)
        if content is None or not _is_sealed(row, content):
            return broken(row.seq, f"Row {row.seq} was changed.")
        if content[_KIND : _KIND + 1] == [RETENTION]:
            said = json.loads(content[_ARGUMENTS])
            noted = said["removed_to"], said["hash"]
        last, hash_before, rows = row.seq, row.hash, rows + 1
    if start != noted:
        return broken(start[0] + 1, f"Rows up to {start[0]} are gone, and no retention row of the chain says so.")
    if head is None or (head.seq, head.hash) != (last, hash_before):
        return broken(last + 1, f"The log ends at row {last}, and its head says otherwise: rows were removed.")
    return {
        "ok": True, "rows": rows, "first_bad_seq": None, "why": "", "head": hash_before, "removed_to": start[0],
    }  # fmt: skip


def remove_old_audit(connection: Connection, tenant: str, days: float) -> int:
    """Remove a tenant's older rows, some at a time, and leave a row in the chain that says so; how many went."""
    head = connection.execute(select(audit_heads).where(audit_heads.c.tenant == tenant).with_for_update()).first()
    if head is None:
        return 0
    before, last, gone, calls = time() - days * 86_400, None, 0, 0
    query = select(audit).where(audit.c.tenant == tenant).order_by(audit.c.seq).limit(MOST_REMOVED)
    for row in connection.execute(query):
        content = json.loads(row.content)
        if content[0] >= before:  # calls overlap, so that times are not quite in order: the first that stays ends it
            break
        last, gone, calls = row, gone + 1, calls + (content[_KIND] != RETENTION)
    if last is None or not calls:  # a note about nothing but notes would be followed by another, for ever
        return 0
    append_audit(connection, tenant, [retention_content(time(), last.seq, last.hash, gone)])
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.ferrule_remove_audit(last.seq)))
    else:
        connection.execute(delete(audit).where(audit.c.tenant == tenant, audit.c.seq <= last.seq))
    values = {"removed_to": last.seq, "removed_hash": last.hash}
    connection.execute(update(audit_heads).where(audit_heads.c.tenant == tenant).values(**values))
    return gone


def metrics_page(
    by_tenant: Mapping[str, Statistics],
    *,
    registry_size: int,
    requests: Mapping[tuple[str, int], int] | None = None,
    running: Mapping[str, int] | None = None,
    pools: Mapping[str, Mapping[str, int]] | None = None,
) -> str:
    """Each tenant's counters under its own label. A family of metrics stands together, as the format asks.

    How many lines there are is bounded: tenants, tools and paths that nobody has count under one name each.
    """
    families: dict[str, list[str]] = {}
    current = ""
    detailed = set(list(by_tenant)[:_MOST_DETAILED])
    for tenant, statistics in sorted(by_tenant.items()):
        for line in prometheus_text(statistics, durations=tenant in detailed).splitlines():
            if line.startswith("# "):
                _, keyword, name, _ = line.split(" ", 3)
                current = name
                family = families.setdefault(name, [])
                if len(family) < 2 and not any(one.startswith(f"# {keyword} ") for one in family):
                    family.append(line)
            elif found := _SAMPLE.fullmatch(line):
                labels = f'tenant="{tenant}"' + (f",{found['labels']}" if found["labels"] else "")
                families[current].append(f"{found['name']}{{{labels}}} {found['value']}")
    lines = [line for family in families.values() for line in family]
    lines += _family("tool_registry_size", "gauge", "Tools that are registered.", [("", registry_size)])
    if running is not None:
        counts = [(f'{{tenant="{tenant}"}}', count) for tenant, count in sorted(running.items())]
        lines += _family("ferrule_calls_running", "gauge", "Calls that run on this instance.", counts)
    if requests is not None:
        listed = [(f'{{path="{path}",status="{status}"}}', count) for (path, status), count in sorted(requests.items())]
        lines += _family("http_requests_total", "counter", "Requests by path and status.", listed)
    for name, words in _OF_POOLS.items() if pools else ():
        counts = [(f'{{pool="{pool}"}}', each[name]) for pool, each in sorted((pools or {}).items())]
        lines += _family(f"ferrule_pool_{name}", "gauge", words, counts)
    return "\n".join(lines) + "\n"


_OF_POOLS = {
    "workers": "Workers of a pool that are there.",
    "pending": "Calls that wait for a worker; scale a pool by this.",
    "in_flight": "Calls that workers have.",
    "lost": "Calls that were lost in the last hour.",
}


def _family(name: str, kind: str, words: str, samples: list[tuple[str, int]]) -> list[str]:
    head = [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
    return [*head, *(f"{name}{labels} {count}" for labels, count in samples)]
