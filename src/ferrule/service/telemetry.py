"""OpenTelemetry for the service: a span for each request in the trace of its caller, with the spans of its calls below.

It is on where somebody has set up a provider: as `opentelemetry-instrument ferrule serve` does, or in a program of
one's own. Otherwise OpenTelemetry is not even imported.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ferrule.records import MetricsRecorder, SpanTracer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from contextlib import AbstractContextManager

    from starlette.types import Scope

    from ferrule.service.directory import Principal

MOST_TENANTS = 100
"""Tenants that have a label of their own in OpenTelemetry's metrics; further ones share `(other)`."""
_SCOPE = "ferrule.service"
_TRACE = "ferrule.trace"
_CARRIED = ("traceparent", "tracestate")
_MOST_CARRIED = 1_000
_DURATION_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


def provider_is_set() -> bool:
    """Whether this process sends its spans or metrics anywhere."""
    trace, metrics = sys.modules.get("opentelemetry.trace"), sys.modules.get("opentelemetry.metrics")
    return any(
        module is not None and not type(given()).__name__.startswith(("Proxy", "_Proxy", "NoOp", "Default"))
        for module, given in (
            (trace, getattr(trace, "get_tracer_provider", None)),
            (metrics, getattr(metrics, "get_meter_provider", None)),
        )
        if given is not None
    )


class ServiceTelemetry:
    """Spans and metrics of requests and calls. The providers are the global ones unless given."""

    def __init__(
        self, tracer_provider: Any = None, meter_provider: Any = None, *, registry_size: Callable[[], int] | None = None
    ) -> None:
        self.tracer = SpanTracer(tracer_provider)
        self.recorder = MetricsRecorder(meter_provider, registry_size=registry_size, tenants=MOST_TENANTS)
        from opentelemetry import context, metrics, propagate, trace

        self._context, self._propagate, self._trace = context, propagate, trace
        self._requests = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)
        self._duration = meter.create_histogram(
            "http.server.request.duration",
            unit="s",
            description="Duration of HTTP server requests.",
            explicit_bucket_boundaries_advisory=_DURATION_BOUNDS,
        )

    @contextmanager
    def request(self, scope: Scope, request_id: str) -> Generator[RequestSpan]:
        """The span around a request; below the caller's own where they sent a `traceparent`."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        parent = self._propagate.extract(headers)
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        attributes = {
            "http.request.method": method, "url.scheme": scope.get("scheme", "http"), "ferrule.request_id": request_id
        }  # fmt: skip
        with self._requests.start_as_current_span(
            method, context=parent, kind=self._trace.SpanKind.SERVER, attributes=attributes, record_exception=False
        ) as span:
            scope[_TRACE] = self._context.get_current()
            yield RequestSpan(self._trace, self._duration, span, method)

    def within(self, scope: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Go on in the trace of a request, for work that another task does for it."""
        return self._attached(scope.get(_TRACE))

    def carried(self) -> str | None:
        """The current trace, as text that is stored with a call."""
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier)
        text = json.dumps({name: carrier[name] for name in _CARRIED if name in carrier})
        return text if carrier and len(text) <= _MOST_CARRIED else None

    def resumed(self, carried: str | None) -> AbstractContextManager[None]:
        """Go on in the trace of a stored call: its request is over, or was another instance's."""
        return self._attached(self._propagate.extract(json.loads(carried)) if carried else None)

    @contextmanager
    def _attached(self, found: Any) -> Generator[None]:
        token = self._context.attach(found) if found is not None else None
        try:
            yield
        finally:
            if token is not None:
                self._context.detach(token)


class RequestSpan:
    """The span of one request, until it is answered."""

    def __init__(self, trace: Any, duration: Any, span: Any, method: str) -> None:
        self._trace, self._duration, self._span, self._method = trace, duration, span, method
        self._began = perf_counter()

    def answered(self, route: str, status: int, who: Principal | None) -> None:
        """Say how it ended. The route is a pattern, never the path: that is another one for each call."""
        labels: dict[str, Any] = {
            "http.request.method": self._method, "http.route": route, "http.response.status_code": status
        }  # fmt: skip
        self._duration.record(perf_counter() - self._began, labels)
        self._span.update_name(f"{self._method} {route}")
        self._span.set_attributes(labels)
        if who is not None:
            self._span.set_attributes({"ferrule.tenant": who.tenant, "user.id": who.user})
        if status >= 500:
            self._span.set_attribute("error.type", str(status))
            self._span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
