"""O1: spans and metrics for OpenTelemetry."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.records.record_samples import a_record, a_refusal

from ferrule.core.context import Caller, Session, ToolContext
from ferrule.core.errors import ErrorKind, MissingExtraError, ToolError
from ferrule.core.function_tool import tool
from ferrule.pipeline.run import Runtime
from ferrule.records.spans import SpanTracer
from ferrule.records.telemetry import LineRecord, MetricsRecorder

if TYPE_CHECKING:
    from ferrule.core.tool import Invocation


@tool(kind="readonly")
def read_page(url: str, password: str = "") -> str:
    """Read a web page.

    Long words that nobody needs in a span.
    """
    return url


SESSION = Session(workspace=Path("/"), caller=Caller("acme", "ann", "dev"), id="s1")


def invocation() -> Invocation:
    return read_page.build({"url": "https://a", "password": "hunter2"}, call_id="c1")


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(spans: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider


def test_a_call_is_a_span_by_the_conventions(spans: InMemorySpanExporter, provider: TracerProvider) -> None:
    with SpanTracer(provider).span(invocation(), SESSION) as span:
        span.result("private")
    (done,) = spans.get_finished_spans()
    assert (done.name, done.kind, done.status.status_code) == (
        "execute_tool read_page",
        SpanKind.INTERNAL,
        StatusCode.UNSET,
    )
    assert dict(done.attributes or {}) == snapshot(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "read_page",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": "c1",
            "gen_ai.conversation.id": "s1",
            "gen_ai.tool.description": "Read a web page.",
            "ferrule.tenant": "acme",
            "user.id": "ann",
        }
    )


def test_content_is_there_when_asked_for_and_redacted(spans: InMemorySpanExporter, provider: TracerProvider) -> None:
    """P10."""
    with SpanTracer(provider, content=True).span(invocation(), SESSION) as span:
        span.result("the page, with token=abcdef")
    (done,) = spans.get_finished_spans()
    attributes = done.attributes or {}
    assert attributes["gen_ai.tool.call.arguments"] == snapshot('{"url": "https://a", "password": "[redacted]"}')
    assert attributes["gen_ai.tool.call.result"] == "the page, with token=[redacted]"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ToolError("no", kind=ErrorKind.NOT_FOUND), "not_found_error"),
        (TimeoutError(), "timeout_error"),
        (asyncio.CancelledError(), "cancelled_error"),
        (ZeroDivisionError("password=hunter2"), "ZeroDivisionError"),
    ],
)
def test_a_failure_marks_its_span_and_tells_no_secrets(
    spans: InMemorySpanExporter, provider: TracerProvider, error: BaseException, kind: str
) -> None:
    """P10."""
    with pytest.raises(type(error)), SpanTracer(provider).span(invocation(), SESSION):
        raise error
    (done,) = spans.get_finished_spans()
    assert done.status.status_code is StatusCode.ERROR
    assert (done.attributes or {})["error.type"] == kind
    assert done.events == ()
    assert "hunter2" not in done.to_json()


def test_what_a_tool_does_is_inside_its_span(spans: InMemorySpanExporter, provider: TracerProvider) -> None:
    other = provider.get_tracer("other")
    with SpanTracer(provider).span(invocation(), SESSION), other.start_as_current_span("inner"):
        pass
    inner, outer = spans.get_finished_spans()
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id


def test_records_become_metrics() -> None:
    """O1."""
    reader = InMemoryMetricReader()
    recorder = MetricsRecorder(MeterProvider([reader]), registry_size=lambda: 12)
    recorder.record(a_record(duration=0.5))
    recorder.record(a_record(duration=0.5, outcome="timeout_error", stage="execute"))
    recorder.record(a_refusal())
    recorder.record(a_record(tool="invented", version="", outcome="not_found_error", stage="lookup"))
    assert collected(reader) == snapshot(
        {
            "tool.execution.count": [
                ({"gen_ai.tool.name": "Read"}, 2),
                ({"gen_ai.tool.name": "Bash"}, 1),
                ({"gen_ai.tool.name": "(unknown)"}, 1),
            ],
            "tool.execution.success": [({"gen_ai.tool.name": "Read"}, 1)],
            "tool.execution.duration": [({"gen_ai.tool.name": "Read"}, (2, 1.0))],
            "gen_ai.execute_tool.duration": [
                ({"gen_ai.tool.name": "Read", "gen_ai.tool.type": "function"}, (1, 0.5)),
                (
                    {
                        "gen_ai.tool.name": "Read",
                        "gen_ai.tool.type": "function",
                        "error.type": "timeout_error",
                    },
                    (1, 0.5),
                ),
            ],
            "tool.execution.failure": [
                ({"gen_ai.tool.name": "Read"}, 1),
                ({"gen_ai.tool.name": "(unknown)"}, 1),
            ],
            "tool.permission.denied": [({"gen_ai.tool.name": "Bash"}, 1)],
            "tool.registry.size": [({}, 12)],
        }
    )


def test_the_duration_has_the_buckets_of_the_conventions() -> None:
    reader = InMemoryMetricReader()
    MetricsRecorder(MeterProvider([reader])).record(a_record())
    (point,) = [point for name, point in points(reader) if name == "gen_ai.execute_tool.duration"]
    assert point.explicit_bounds == (
        0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
    )  # fmt: skip


def points(reader: InMemoryMetricReader) -> list[tuple[str, Any]]:
    data: Any = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    return [(metric.name, point) for metric in metrics for point in metric.data.data_points]


def collected(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, point in points(reader):
        value = point.value if hasattr(point, "value") else (point.count, point.sum)
        found.setdefault(name, []).append((dict(point.attributes), value))
    return found


def test_without_opentelemetry_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    for make in (SpanTracer, MetricsRecorder):
        with pytest.raises(MissingExtraError, match=r"ferrule\[telemetry\]"):
            make()


def test_importing_it_imports_no_opentelemetry() -> None:
    script = "import sys, ferrule.records.telemetry; print('opentelemetry' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"


async def test_a_span_and_the_metrics_say_what_a_call_waited(
    spans: InMemorySpanExporter, provider: TracerProvider
) -> None:
    """O1: for the user, who is asked before it runs and while it does."""

    @tool(kind="write")
    async def book(context: ToolContext) -> str:
        """Book a table."""
        with context.asking_person():
            await asyncio.sleep(0.05)
        return "booked"

    async def ask(question: object) -> str:
        await asyncio.sleep(0.05)
        return "once"

    reader = InMemoryMetricReader()
    runtime = Runtime(
        [book, read_page], ask=ask, tracer=SpanTracer(provider), recorders=[MetricsRecorder(MeterProvider([reader]))]
    )
    await runtime.run("book")
    await runtime.run("read_page", {"url": "https://a"})
    booked, read = [dict(span.attributes or {}) for span in spans.get_finished_spans()]
    waited = booked["ferrule.approval.duration"]
    assert isinstance(waited, float)
    assert waited >= 0.1
    assert not {name for name in read if name.endswith(".duration")}
    (seen,) = collected(reader)["tool.approval.duration"]
    assert seen[0] == {"gen_ai.tool.name": "book"}
    assert seen[1] == (1, pytest.approx(waited, abs=0.05))


def test_a_line_of_a_call_fits_every_format() -> None:
    usual = vars(logging.makeLogRecord({})).keys() - {"message", "asctime"}
    line = LineRecord("ferrule.calls", logging.INFO, "%s done", ("it",))
    assert usual <= vars(line).keys()
    words = " ".join(f"%({name})s" for name in sorted(usual))
    assert "it" in logging.Formatter(f"%(asctime)s %(message)s {words}").format(line)
