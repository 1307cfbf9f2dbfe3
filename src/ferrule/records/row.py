"""One row of the audit log, and the hash that ties it to the row before."""

from __future__ import annotations

import hashlib
import json
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ferrule.records.redact import KeptArguments, keep_arguments, keep_reason, keep_text, without_surrogates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.pipeline.stages import CallRecord

RETENTION = "retention"
"""The `kind` of the row that says which rows retention removed."""
GAP = "gap"
"""The `kind` of the row that says that the file was removed or replaced under a running session."""
OWN_KINDS = (RETENTION, GAP)
"""Rows that are about the log itself, and no calls."""

_MAX_NAME = 256
_MAX_INTEGER = 2**63 - 1
_MAX_EFFECTS, _MAX_EFFECTS_TEXT = 100, 16_000


class AuditRow(NamedTuple):
    """A row of the table. Columns that are newer than a row are None in it.

    `box` and `effects` are of calls that run commands or were tried first: `look` or `work`, and what the call would
    have changed or did, as JSON.
    """

    seq: int
    time: float
    session: str
    call_id: str
    parent: str | None
    tool: str
    version: str
    kind: str
    tenant: str | None
    user: str | None
    role: str | None
    arguments: str
    arguments_length: int
    arguments_sha256: str
    verdict: str
    reason: str
    rule: str | None
    answer: str | None
    stage: str
    outcome: str
    error: str | None
    duration: float
    result_length: int
    cached: int
    abandoned: int
    repairs: str
    waited: float | None
    queued: float | None
    box: str | None
    effects: str | None
    prev_hash: str
    hash: str

    @property
    def cut(self) -> bool:
        """Whether `arguments` is only the beginning of what was sent."""
        return self.arguments_length > len(self.arguments)

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "cached": bool(self.cached), "abandoned": bool(self.abandoned)}


COLUMNS = AuditRow._fields
CONTENT = COLUMNS[1:-2]
"""The columns that say what happened; `seq` and the hashes are added inside the transaction."""

_FIRST_COLUMNS = CONTENT.index("waited")
"""How many of them the first version of the format had."""

# By name: in the file the newer columns stand at the end.
INSERT = f"INSERT INTO calls ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - our own
SELECT = f"SELECT {', '.join(COLUMNS)} FROM calls"  # noqa: S608 - our own constants


def content_of(record: CallRecord) -> tuple[Any, ...]:
    """What a record says, redacted and bounded, in the order of `CONTENT`."""
    caller = record.caller
    return (
        _finite(record.started),
        _name(record.session_id),
        _name(record.call_id),
        _name_or_none(record.parent_id),
        # The name of a tool that does not exist is whatever a model made up.
        *_what_and_who(
            record.tool if record.version else keep_text(record.tool, _MAX_NAME),
            record.version,
            record.kind,
            caller.tenant,
            caller.user,
            caller.role,
        ),
        *_arguments(record),
        _often(record.verdict),
        keep_reason(record.reason) if record.reason else "",
        None if record.rule is None else keep_text(record.rule),
        None if record.answer is None else keep_text(record.answer),
        _often(record.stage),
        _often(record.outcome),
        None if record.error is None else keep_text(record.error),
        _finite(record.duration),
        min(int(record.result_length), _MAX_INTEGER),
        int(record.cached),
        int(record.abandoned),
        json.dumps([keep_text(repair) for repair in record.repairs], ensure_ascii=False) if record.repairs else "[]",
        _finite(record.waited),
        _finite(record.queued),
        _name_or_none(record.box),
        _effects(record),
    )


def retention_content(time: float, removed_to: int, hash_before: str, removed: int) -> tuple[Any, ...]:
    """The row that retention leaves in the chain, so that nothing goes from its start without a trace."""
    said = json.dumps({"removed_to": removed_to, "hash": hash_before, "removed": removed})
    return _own_content(time, RETENTION, said, "success", None)


def gap_content(time: float, ended_at: int, ended_hash: str, found: int) -> tuple[Any, ...]:
    """The row that says that the log ended at another row once than the `found` one, at which it went on."""
    said = json.dumps({"ended_at": ended_at, "hash": ended_hash, "found": found})
    return _own_content(time, GAP, said, "success", None)


def unreadable_content(time: float, error: str) -> tuple[Any, ...]:
    """The row in place of a record that made no sense."""
    return _own_content(time, "", "", "unknown_error", error)


def _own_content(time: float, kind: str, said: str, outcome: str, error: str | None) -> tuple[Any, ...]:
    return (
        time, "", "", None, f"({kind or 'unreadable'})", "", kind, None, None, None, said, len(said), "",
        "", "", None, None, "record", outcome, error, 0.0, 0, 0, 0, "[]", 0.0, 0.0, None, None,
    )  # fmt: skip


def seal(seq: int, content: Sequence[Any], prev_hash: str) -> tuple[Any, ...]:
    """The complete row: SHA-256 over the sequence number, the content and the hash before."""
    return (seq, *content, prev_hash, hash_of(seq, content, prev_hash))


def hash_of(seq: int, content: Sequence[Any], prev_hash: str) -> str:
    # Python's literal of a tuple cannot be read two ways and is the same in every version (`repr` is not: it goes by
    # the Unicode tables). Both ends get the very values that SQLite gives back.
    end = len(content)
    while end > _FIRST_COLUMNS and content[end - 1] is None:  # as before there were these columns
        end -= 1
    if end < len(content):
        content = content[:end]
    return hashlib.sha256(ascii((seq, *content, prev_hash)).encode("ascii")).hexdigest()


def _arguments(record: CallRecord) -> KeptArguments:
    try:
        return keep_arguments(record.arguments)
    except Exception as problem:  # noqa: BLE001 - a value of any type, maybe changing under us: keep the row
        said = without_surrogates(f"[arguments could not be written: {type(problem).__name__}]")
        return KeptArguments(said, len(said), "")


def _effects(record: CallRecord) -> str | None:
    """Counts, and the paths as far as there is room for them."""
    if record.effects is None:
        return None
    kept = {**record.effects, "files": record.effects.get("files", [])[:_MAX_EFFECTS]}
    while len(said := keep_text(json.dumps(kept, ensure_ascii=False), _MAX_EFFECTS_TEXT * 2)) > _MAX_EFFECTS_TEXT:
        kept["files"] = kept["files"][: len(kept["files"]) // 2]
        if not kept["files"]:
            return keep_text(json.dumps({"counts": kept.get("counts")}), _MAX_EFFECTS_TEXT)
    return said


def _name(text: object) -> str:
    if not text:
        return ""
    name = str(text)
    return name if len(name) <= _MAX_NAME and name.isascii() else without_surrogates(name)[:_MAX_NAME]


def _name_or_none(text: object) -> str | None:
    return None if text is None else _name(text)


_often = lru_cache(maxsize=1024)(_name)
"""`_name` for what comes again with nearly every record."""


@lru_cache(maxsize=4096)
def _what_and_who(
    tool: str, version: str, kind: str, tenant: str | None, user: str | None, role: str | None
) -> tuple[Any, ...]:
    who = (_name_or_none(tenant), _name_or_none(user), _name_or_none(role))
    return (_name(tool), _name(version), _name(kind), *who)


def _finite(number: float) -> float:
    # SQLite keeps neither NaN nor the sign of -0.0, and the hash must be of what it gives back.
    return float(number) + 0.0 if math.isfinite(number) else 0.0
