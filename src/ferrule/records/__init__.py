"""What happened: the audit log, statistics, log lines, Prometheus and OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._lazy import lazy_names

if TYPE_CHECKING:
    from ferrule.pipeline.record import Recorder
    from ferrule.pipeline.stages import CallRecord
    from ferrule.records.audit import AuditError, AuditLog, Retention, WriteProblem
    from ferrule.records.reader import AuditReader
    from ferrule.records.spans import SpanTracer
    from ferrule.records.statistics import Statistics, ToolUsage, statistics_of
    from ferrule.records.telemetry import (
        CONTENT_TYPE,
        JsonFormatter,
        LogRecorder,
        MetricsRecorder,
        log_registry,
        prometheus_text,
    )
    from ferrule.records.verification import Gap, Head, Verification, read_head, verify

__all__ = [
    "CONTENT_TYPE",
    "AuditError",
    "AuditLog",
    "AuditReader",
    "CallRecord",
    "Gap",
    "Head",
    "JsonFormatter",
    "LogRecorder",
    "MetricsRecorder",
    "Recorder",
    "Retention",
    "SpanTracer",
    "Statistics",
    "ToolUsage",
    "Verification",
    "WriteProblem",
    "log_registry",
    "prometheus_text",
    "read_head",
    "statistics_of",
    "verify",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "pipeline.record": ("Recorder",),
        "pipeline.stages": ("CallRecord",),
        "records.audit": ("AuditError", "AuditLog", "Retention", "WriteProblem"),
        "records.reader": ("AuditReader",),
        "records.spans": ("SpanTracer",),
        "records.statistics": ("Statistics", "ToolUsage", "statistics_of"),
        "records.telemetry": (
            "MetricsRecorder",
            "CONTENT_TYPE",
            "prometheus_text",
            "JsonFormatter",
            "LogRecorder",
            "log_registry",
        ),
        "records.verification": ("Gap", "Head", "Verification", "read_head", "verify"),
    },
)
