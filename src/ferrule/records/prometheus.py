"""Statistics as Prometheus reads them.

Prometheus has no dots in names, ends counters in `_total` and writes the unit into the name:

    tool.execution.count      tool_execution_count_total
    tool.execution.success    tool_execution_success_total
    tool.execution.failure    tool_execution_failure_total
    tool.permission.denied    tool_permission_denied_total
    tool.execution.duration   tool_execution_duration_seconds
    tool.approval.duration    tool_approval_duration_seconds
    tool.queue.duration       tool_queue_duration_seconds
    tool.registry.size        tool_registry_size
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from ferrule.records.statistics import BOUNDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.records.statistics import Durations, Statistics, ToolUsage

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The HTTP header `Content-Type` for `prometheus_text`."""

# Every second bound from 156 µs to 82 s: the doubling that OpenTelemetry asks for, and no series that nobody
# reads.
_SHOWN = tuple(range(8, len(BOUNDS) - 1, 2))


def prometheus_text(statistics: Statistics, *, registry_size: int | None = None) -> str:
    """The metrics page: text exposition format 0.0.4."""
    lines = [*_counters(statistics.snapshot())]
    for name, words, seen in (
        ("tool_execution_duration_seconds", "How long calls took that reached their tool.", statistics.durations()),
        ("tool_approval_duration_seconds", "How long calls waited for a user's answer.", statistics.waits()),
        ("tool_queue_duration_seconds", "How long calls waited for their turn.", statistics.queues()),
    ):
        if seen:
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
