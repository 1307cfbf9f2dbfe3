"""Log lines, the Prometheus page, and metrics for OpenTelemetry, which is imported when a recorder for it is made."""

from __future__ import annotations

import json
import logging
import os
import re
from datetime import UTC, datetime
from functools import lru_cache
from itertools import accumulate
from time import time
from typing import TYPE_CHECKING, Any

from ferrule.core.errors import MissingExtraError
from ferrule.core.shown_text import one_line
from ferrule.records.redact import keep_text, redact_text, redact_value
from ferrule.records.spans import SCOPE, TOOL_TYPE
from ferrule.records.statistics import BOUNDS, UNKNOWN, was_refused, was_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ferrule.core.call import RawCall
    from ferrule.core.context import Caller, Session
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.stages import CallRecord
    from ferrule.records.statistics import Durations, Statistics, ToolUsage
    from ferrule.registry.registry import RegistryEvent


_calls = logging.getLogger("ferrule.calls")
_registry = logging.getLogger("ferrule.registry")


_UNSAID: dict[str, Any] = {
    **dict.fromkeys(("pathname", "filename", "module", "funcName", "threadName", "processName"), ""),
    **dict.fromkeys(("exc_info", "exc_text", "stack_info", "thread", "taskName")),
    "lineno": 0,
    "relativeCreated": 0.0,
    "process": os.getpid(),
}


class LineRecord(logging.LogRecord):
    """A log record for lines that come with every call: it says neither which line of code wrote it nor in which
    thread, because finding that out takes longer than all the rest.
    """

    def __init__(self, name: str, level: int, message: str, args: tuple[Any, ...]) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.__dict__.update(_UNSAID)  # where formats look for their fields
        self.name = name
        self.levelno = level
        self.levelname = logging.getLevelName(level)
        self.msg = message
        self.args = args
        self.created = moment = time()
        self.msecs = moment % 1 * 1000


def add_line(logger: logging.Logger, level: int, words: str, args: tuple[Any, ...]) -> bool:
    """Hand a line that comes with every call to a handler that needs no record of it, where that is the only one: a
    record costs more than the line. Says whether it was; the caller makes the record otherwise.
    """
    handlers = logger.handlers
    if len(handlers) != 1 or logger.propagate or logger.filters:
        return False
    add = getattr(handlers[0], "add_line", None)
    if add is None:
        return False
    add(level, words, args)
    return True


class LogRecorder:
    """A recorder and watcher: a line when a call is looked up, when its tool starts, and when it ends.

    Lookups and starts are `DEBUG`, except that a tool nobody knows is `WARNING`; success is `INFO`, failure
    and refusal `WARNING`. A result that came from the cache says so. With `names` starts and ends are written by names,
    for logs of many tenants that are searched as text: `toolName=…, toolCallId=…, tenant=…, userId=…, resultLength=…`
    or `error=…`.
    """

    for_debugging = True
    """Found lookups and starts are only worth a line while `DEBUG` is on."""

    def __init__(self, *, names: bool = False) -> None:
        self._names = names

    def looked_up(self, call: RawCall, session: Session, *, found: bool) -> None:
        level = logging.DEBUG if found else logging.WARNING
        if _calls.isEnabledFor(level):
            fields = _fields(call.name, call.id, session.id, session.caller)
            words = "lookup %s %s" if found else "lookup %s %s: no such tool"
            _calls.log(level, words, fields["tool"], fields["call_id"], extra={**fields, "found": found})

    def started(self, invocation: Invocation, session: Session) -> None:
        if _calls.isEnabledFor(logging.DEBUG):
            fields = _fields(invocation.tool.name, invocation.call_id, session.id, session.caller)
            said = (fields["tool"], fields["call_id"], fields["tenant"], fields["user"])
            words, said = (f"start {_NAMES}", said) if self._names else ("start %s %s", said[:2])
            _calls.debug(words, *said, extra=fields)

    def record(self, record: CallRecord) -> None:
        succeeded = record.outcome == "success"
        level = logging.INFO if succeeded else logging.WARNING
        if not _calls.isEnabledFor(level) or (self._names and add_line(_calls, level, _NAMES_LINE, _names_of(record))):
            return
        fields = _fields(record.tool, record.call_id, record.session_id, record.caller)
        fields["outcome"], fields["stage"], fields["duration"] = record.outcome, record.stage, round(record.duration, 6)
        if record.waited:
            fields["waited"] = round(record.waited, 6)
        if record.queued:
            fields["queued"] = round(record.queued, 6)
        if succeeded:
            fields["result_length"] = record.result_length
            words, ended = "success %s %s in %.1f ms, %d characters", (record.result_length,)
            if record.cached:
                fields["cached"], words = True, f"{words}, from the cache"
        else:
            fields["error"] = _word(record.error or record.reason, 1_000)
            words, ended = "failure %s %s in %.1f ms: %s: %s", (record.outcome, fields["error"])
        if self._names:
            line = LineRecord(_calls.name, level, _NAMES_LINE, _names_of(record))
            line.__dict__.update(fields)
            _calls.handle(line)
        else:
            _calls.log(level, words, fields["tool"], fields["call_id"], record.duration * 1000, *ended, extra=fields)


_NAMES = "toolName=%s, toolCallId=%s, tenant=%s, userId=%s"
_NAMES_LINE = f"{_NAMES}, duration=%.1f ms, %s=%s"


def _names_of(record: CallRecord) -> tuple[Any, ...]:
    caller, call_id = record.caller, record.call_id
    if record.outcome == "success":
        what, ended = "resultLength", f"{record.result_length}, cached=true" if record.cached else record.result_length
    else:
        what, ended = "error", f"{record.outcome}: {_word(record.error or record.reason, 1_000)}"
    shown_id = call_id if _HEX.fullmatch(call_id) else _word(call_id)
    return _often(record.tool), shown_id, caller.tenant, caller.user, record.duration * 1000, what, ended


def log_registry(event: RegistryEvent) -> None:
    """A registry listener: one line when a tool comes, goes, or is switched."""
    fields = {"change": event.change, "tool": _word(event.name), "version": event.version, "origin": event.origin}
    _registry.info("%s %s %s from %s", *fields.values(), extra=fields)


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
        "tool": _often(tool),
        "call_id": call_id if _HEX.fullmatch(call_id) else _word(call_id),
        "session": session,
        "tenant": caller.tenant,
        "user": caller.user,
    }


def _word(text: str, limit: int = 200) -> str:
    """What a model wrote, fit for a log: no secrets, and no line breaks or escapes that forge other lines."""
    return one_line(keep_text(text, limit))


_often = lru_cache(maxsize=1024)(_word)
_HEX = re.compile("[0-9a-f]{1,64}")
"""An id that is made here."""


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The HTTP header `Content-Type` for `prometheus_text`."""

# Every second bound from 156 µs to 82 s: the doubling that OpenTelemetry asks for, and no series that nobody
# reads.
_SHOWN = tuple(range(8, len(BOUNDS) - 1, 2))


def prometheus_text(statistics: Statistics, *, registry_size: int | None = None, durations: bool = True) -> str:
    """The metrics page: text exposition format 0.0.4. Without `durations` it has the counters alone."""
    lines = [*_counters(statistics.snapshot())]
    for name, words, seen in (
        ("tool_execution_duration_seconds", "How long calls took that reached their tool.", statistics.durations()),
        ("tool_approval_duration_seconds", "How long calls waited for a user's answer.", statistics.waits()),
        ("tool_queue_duration_seconds", "How long calls waited for their turn.", statistics.queues()),
    ):
        if seen and durations:
            lines += _histogram(name, words, seen)
    if registry_size is not None:
        lines += _header("tool_registry_size", "gauge", "Tools that are registered.")
        lines.append(f"tool_registry_size {registry_size}")
    return "\n".join(lines) + "\n"


def _counters(usages: list[ToolUsage]) -> Iterator[str]:
    for name, words, field in (
        ("tool_execution_count_total", "Calls, however they ended.", "count"),
        ("tool_execution_success_total", "Calls that succeeded.", "success"),
        ("tool_execution_failure_total", "Calls that failed, refusals not counted.", "failure"),
        ("tool_permission_denied_total", "Calls that were refused.", "denied"),
    ):
        yield from _header(name, "counter", words)
        for usage in usages:
            yield f"{name}{{{_label('tool', usage.tool)}}} {getattr(usage, field)}"


def _histogram(name: str, words: str, durations: dict[str, Durations]) -> Iterator[str]:
    yield from _header(name, "histogram", words)
    for tool, seen in durations.items():
        label = _label("tool", tool)
        running = list(accumulate(seen.buckets))
        for index in _SHOWN:
            yield f'{name}_bucket{{{label},le="{round(BOUNDS[index], 9)}"}} {running[index]}'
        yield f'{name}_bucket{{{label},le="+Inf"}} {running[-1]}'
        yield f"{name}_sum{{{label}}} {seen.sum!r}"
        yield f"{name}_count{{{label}}} {running[-1]}"


def _header(name: str, kind: str, words: str) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{escaped}"'


OTHER = "(other)"
"""The label of all tenants that have none of their own."""
_DURATION_BOUNDS = [0.01 * 2**step for step in range(14)]


class MetricsRecorder:
    """A recorder that feeds OpenTelemetry's metrics.

    `gen_ai.execute_tool.duration` is the conventions' own; `tool.execution.count`, `.success`, `.failure`,
    `.duration`, `tool.approval.duration`, `tool.queue.duration`, `tool.permission.denied` and `tool.registry.size` are
    Ferrule's, as on the Prometheus page. The first `tenants` that are seen have a label `ferrule.tenant` of their own,
    and all others share one: a label must not have a value for everybody who ever comes.
    """

    def __init__(
        self, meter_provider: Any = None, *, registry_size: Callable[[], int] | None = None, tenants: int = 0
    ) -> None:
        self._most_tenants = tenants
        self._tenants: set[str] = set()
        try:
            from opentelemetry import metrics
        except ImportError:
            raise MissingExtraError("OpenTelemetry", "telemetry") from None
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)

        def histogram(name: str, words: str) -> Any:
            return meter.create_histogram(
                name, unit="s", description=words, explicit_bucket_boundaries_advisory=_DURATION_BOUNDS
            )

        def counter(name: str, words: str) -> Any:
            return meter.create_counter(name, unit="{call}", description=words)

        self._gen_ai_duration = histogram("gen_ai.execute_tool.duration", "The duration of a single tool execution.")
        self._duration = histogram("tool.execution.duration", "How long calls took that reached their tool.")
        self._waited = histogram("tool.approval.duration", "How long calls waited for a user's answer.")
        self._queued = histogram("tool.queue.duration", "How long calls waited for their turn.")
        self._count = counter("tool.execution.count", "Calls, however they ended.")
        self._success = counter("tool.execution.success", "Calls that succeeded.")
        self._failure = counter("tool.execution.failure", "Calls that failed, refusals not counted.")
        self._denied = counter("tool.permission.denied", "Calls that were refused.")
        if registry_size is not None:

            def observe(_options: Any) -> Iterable[Any]:
                return [metrics.Observation(registry_size())]

            meter.create_observable_gauge(
                "tool.registry.size", [observe], unit="{tool}", description="Tools that are registered."
            )

    def record(self, record: CallRecord) -> None:
        labels = {"gen_ai.tool.name": record.tool if record.version else UNKNOWN}
        if self._most_tenants and (tenant := record.caller.tenant) is not None:
            if len(self._tenants) < self._most_tenants:
                self._tenants.add(tenant)
            labels["ferrule.tenant"] = tenant if tenant in self._tenants else OTHER
        self._count.add(1, labels)
        if record.outcome == "success":
            self._success.add(1, labels)
        elif was_refused(record):
            self._denied.add(1, labels)
        else:
            self._failure.add(1, labels)
        if record.waited:
            self._waited.record(record.waited, labels)
        if record.queued:
            self._queued.record(record.queued, labels)
        if was_run(record):
            self._duration.record(record.duration, labels)
            by_convention = {**labels, "gen_ai.tool.type": TOOL_TYPE}
            if record.outcome != "success":
                by_convention["error.type"] = record.outcome
            self._gen_ai_duration.record(record.duration, by_convention)
