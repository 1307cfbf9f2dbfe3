"""Log lines for calls and tools, through the standard `logging`.

Calls go to the logger `ferrule.calls`, tools that come and go to `ferrule.registry`. What a line says is also
in its fields (`extra`), which `JsonFormatter` writes out. Arguments and results are never logged.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ferrule.records.redact import keep_text, redact_text, redact_value

if TYPE_CHECKING:
    from ferrule.core.call import RawCall
    from ferrule.core.context import Caller, Session
    from ferrule.core.events import RegistryEvent
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.record import CallRecord

_calls = logging.getLogger("ferrule.calls")
_registry = logging.getLogger("ferrule.registry")

_UNSAFE = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {0x2028: " ", 0x2029: " "}


class LogRecorder:
    """A recorder and watcher: a line when a call is looked up, when its tool starts, and when it ends.

    Lookups and starts are `DEBUG`, except that a tool nobody knows is `WARNING`; success is `INFO`, failure
    and refusal `WARNING`.
    """

    def looked_up(self, call: RawCall, session: Session, *, found: bool) -> None:
        level = logging.DEBUG if found else logging.WARNING
        if _calls.isEnabledFor(level):
            fields = _fields(call.name, call.id, session.id, session.caller)
            words = "lookup %s %s" if found else "lookup %s %s: no such tool"
            _calls.log(level, words, fields["tool"], fields["call_id"], extra={**fields, "found": found})

    def started(self, invocation: Invocation, session: Session) -> None:
        if _calls.isEnabledFor(logging.DEBUG):
            fields = _fields(invocation.tool.name, invocation.call_id, session.id, session.caller)
            _calls.debug("start %s %s", fields["tool"], fields["call_id"], extra=fields)

    def record(self, record: CallRecord) -> None:
        succeeded = record.outcome == "success"
        level = logging.INFO if succeeded else logging.WARNING
        if not _calls.isEnabledFor(level):
            return
        fields = _fields(record.tool, record.call_id, record.session_id, record.caller)
        fields |= {"outcome": record.outcome, "stage": record.stage, "duration": round(record.duration, 6)}
        fields |= {name: round(seconds, 6) for name in ("waited", "queued") if (seconds := getattr(record, name))}
        milliseconds = record.duration * 1000
        if succeeded:
            fields["result_length"] = record.result_length
            _calls.log(
                level,
                "success %s %s in %.1f ms, %d characters",
                fields["tool"],
                fields["call_id"],
                milliseconds,
                record.result_length,
                extra=fields,
            )
        else:
            fields["error"] = _word(record.error or record.reason, 1_000)
            _calls.log(
                level,
                "failure %s %s in %.1f ms: %s: %s",
                fields["tool"],
                fields["call_id"],
                milliseconds,
                record.outcome,
                fields["error"],
                extra=fields,
            )


def log_registry(event: RegistryEvent) -> None:
    """A registry listener: one line when a tool comes, goes, or is switched."""
    _registry.info(
        "%s %s %s from %s",
        event.change,
        _word(event.name),
        event.version,
        event.origin,
        extra={
            "change": event.change,
            "tool": _word(event.name),
            "version": event.version,
            "origin": event.origin,
        },
    )


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and whatever fields the line carries."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": redact_text(record.getMessage()),
        }
        extra = {key: value for key, value in record.__dict__.items() if key not in _STANDARD}
        line |= {key: value for key, value in redact_value(extra).items() if key not in line}
        if record.exc_info:
            line["exception"] = redact_text(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def _fields(tool: str, call_id: str, session: str, caller: Caller) -> dict[str, Any]:
    return {
        "tool": _word(tool),
        "call_id": _word(call_id),
        "session": session,
        "tenant": caller.tenant,
        "user": caller.user,
    }


def _word(text: str, limit: int = 200) -> str:
    """What a model wrote, fit for a log: no secrets, and no line breaks or escapes that forge other lines."""
    return keep_text(text, limit).translate(_UNSAFE)
