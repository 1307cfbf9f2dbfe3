"""Spans and metrics for OpenTelemetry, by its conventions for generative AI.

The conventions are still in development (github.com/open-telemetry/semantic-conventions-genai), so their
names are spelled out here and not imported from a package that renames them. OpenTelemetry itself is imported
when one of these classes is made; whoever makes none pays nothing.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from ferrule.core.errors import ErrorKind, MissingExtra, Stopped, ToolError
from ferrule.core.tool import description_of
from ferrule.pipeline.execute import ToolFailed
from ferrule.records.redact import keep_arguments, keep_text, redact_value
from ferrule.records.statistics import UNKNOWN, was_refused, was_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from ferrule.core.context import Session
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.record import CallRecord

_SCOPE = "ferrule"
_DURATION_BOUNDS = [0.01 * 2**step for step in range(14)]
_TOOL_TYPE = "function"
_MAX_RESULT = 16_384


class SpanTracer:
    """A span `execute_tool NAME` around each tool that runs.

    `content=True` adds the arguments and the result, redacted and bounded; they may be private, so it is off.
    """

    def __init__(self, tracer_provider: Any = None, *, content: bool = False) -> None:
        try:
            from opentelemetry import trace
        except ImportError:
            raise MissingExtra("OpenTelemetry", "telemetry") from None
        self._trace = trace
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
        self._content = content

    def span(self, invocation: Invocation, session: Session) -> ToolSpan:
        tool = invocation.tool
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool.name,
            "gen_ai.tool.type": _TOOL_TYPE,
            "gen_ai.tool.call.id": invocation.call_id,
            "gen_ai.conversation.id": session.id,
        }
        if described := description_of(tool).short:
            attributes["gen_ai.tool.description"] = described
        if session.caller.tenant is not None:
            attributes["ferrule.tenant"] = session.caller.tenant
        if session.caller.user is not None:
            attributes["user.id"] = session.caller.user
        if self._content:
            arguments = keep_arguments(tool.params.dump(invocation.params).decode())
            attributes["gen_ai.tool.call.arguments"] = arguments.text
        return ToolSpan(self._trace, self._tracer, f"execute_tool {tool.name}", attributes, self._content)


class ToolSpan:
    """The span of one call, for a `with` block. `result` adds what the tool gave, if content is wanted."""

    __slots__ = ("_attributes", "_content", "_manager", "_name", "_span", "_trace", "_tracer")

    def __init__(self, trace: Any, tracer: Any, name: str, attributes: dict[str, Any], content: bool) -> None:
        self._trace = trace
        self._tracer = tracer
        self._name = name
        self._attributes = attributes
        self._content = content

    def __enter__(self) -> ToolSpan:
        # An exception is reported by its kind alone: its message and stack may hold secrets and paths.
        self._manager = self._tracer.start_as_current_span(
            self._name,
            kind=self._trace.SpanKind.INTERNAL,
            attributes=self._attributes,
            record_exception=False,
            set_status_on_exception=False,
        )
        self._span = self._manager.__enter__()
        return self

    def result(self, value: Any) -> None:
        if self._content:
            text = value if isinstance(value, str) else json.dumps(redact_value(value), ensure_ascii=False)
            self._span.set_attribute("gen_ai.tool.call.result", keep_text(text, _MAX_RESULT))

    def waited(self, user: float, turn: float) -> None:
        if user:
            self._span.set_attribute("ferrule.approval.duration", user)
        if turn:
            self._span.set_attribute("ferrule.queue.duration", turn)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._span.set_attribute("error.type", _error_type(error))
            self._span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
        self._manager.__exit__(kind, error, traceback)


class MetricsRecorder:
    """A recorder that feeds OpenTelemetry's metrics.

    `gen_ai.execute_tool.duration` is the conventions' own; `tool.execution.count`, `.success`, `.failure`,
    `.duration`, `tool.approval.duration`, `tool.queue.duration`, `tool.permission.denied` and `tool.registry.size` are
    Ferrule's, as on the Prometheus page.
    """

    def __init__(self, meter_provider: Any = None, *, registry_size: Callable[[], int] | None = None) -> None:
        try:
            from opentelemetry import metrics
        except ImportError:
            raise MissingExtra("OpenTelemetry", "telemetry") from None
        meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)

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
            by_convention = {**labels, "gen_ai.tool.type": _TOOL_TYPE}
            if record.outcome != "success":
                by_convention["error.type"] = record.outcome
            self._gen_ai_duration.record(record.duration, by_convention)


def _error_type(error: BaseException) -> str:
    if isinstance(error, ToolFailed):
        error = error.cause
    if isinstance(error, (ToolError, Stopped)):
        return error.kind.value
    if isinstance(error, TimeoutError):
        return ErrorKind.TIMEOUT.value
    if isinstance(error, asyncio.CancelledError):
        return ErrorKind.CANCELLED.value
    return type(error).__qualname__
