"""Spans, metrics and log lines of the service (O1, O2): in the caller's trace, by tenant, bounded, without secrets."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from ferrule.records import Statistics
from ferrule.service.telemetry import ServiceTelemetry
from ferrule.service.tenant_records import metrics_page
from tests.mcp_server.serving import both_eras
from tests.records.record_samples import a_record
from tests.service.serving import running
from tests.service.test_mcp import connected

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 's.db'}"


class Telemetry:
    """What a service reports, kept in memory."""

    def __init__(self) -> None:
        self.exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.service = ServiceTelemetry(provider, MeterProvider([self._reader]), registry_size=lambda: 10)

    def span(self, name: str) -> Any:
        (found,) = [one for one in self.exporter.get_finished_spans() if one.name == name]
        return found

    def points(self, name: str) -> list[dict[str, Any]]:
        data = self._reader.get_metrics_data()
        assert data is not None
        metrics = [one for scope in data.resource_metrics[0].scope_metrics for one in scope.metrics if one.name == name]
        return [dict(point.attributes or {}) for one in metrics for point in one.data.data_points]


async def test_a_request_and_its_call_are_spans_of_the_callers_trace(sqlite: str, tmp_path: Path) -> None:
    seen = Telemetry()
    async with running(sqlite, tmp_path, telemetry=seen.service) as service:
        web = await service.http()
        headers = {"traceparent": TRACEPARENT, "X-Request-ID": "r-1"}
        answer = await web.post("/v1/calls", json={"tool": "add", "arguments": {"a": 1, "b": 2}}, headers=headers)
        assert answer.headers["x-request-id"] == "r-1"
    request, call = seen.span("POST /v1/calls"), seen.span("execute_tool add")
    assert f"{request.context.trace_id:032x}" == f"{call.context.trace_id:032x}" == TRACE
    assert f"{request.parent.span_id:016x}" == PARENT
    assert call.parent.span_id == request.context.span_id
    assert request.kind is SpanKind.SERVER
    assert dict(request.attributes) == snapshot(
        {
            "http.request.method": "POST",
            "url.scheme": "http",
            "ferrule.request_id": "r-1",
            "http.route": "/v1/calls",
            "http.response.status_code": 200,
            "ferrule.tenant": "default",
            "user.id": "admin",
        }
    )
    assert call.attributes["ferrule.tenant"] == "default"


@both_eras
async def test_a_call_over_mcp_is_in_the_trace_of_its_own_request(sqlite: str, tmp_path: Path, era: str) -> None:
    """Also in a session, whose task began with another request."""
    seen = Telemetry()
    async with (
        running(sqlite, tmp_path, telemetry=seen.service) as service,
        connected(service, era, headers={"traceparent": TRACEPARENT}) as client,
    ):
        await client.call_tool("add", {"a": 1, "b": 2})
    call = seen.span("execute_tool add")
    assert f"{call.context.trace_id:032x}" == TRACE
    spans: Any = seen.exporter.get_finished_spans()
    assert call.parent.span_id in {one.context.span_id for one in spans if one.name == "POST /mcp"}


@pytest.mark.parametrize("restart", [False, True])
async def test_a_call_goes_on_in_its_trace_after_an_approval(store: str, tmp_path: Path, restart: bool) -> None:
    """O1: also in another process, when the request is long over."""
    seen = Telemetry()
    async with running(store, tmp_path, telemetry=seen.service) as service:
        web, key = await service.http(), service.key
        headers = {"traceparent": TRACEPARENT, "tracestate": "acme=1", "Prefer": "respond-async"}
        body = {"tool": "note", "arguments": {"text": "traced"}}
        call = (await web.post("/v1/calls", json=body, headers=headers)).json()
        if not restart:
            client = await service.client()
            await client.approve(await client.approval(call["approval"]))
            await client.get_call(call["id"], wait=30)
    request = seen.span("POST /v1/calls")
    if restart:
        seen = Telemetry()
        async with running(store, tmp_path, telemetry=seen.service, key=key) as service:
            client = await service.client()
            await client.approve(await client.approval(call["approval"]))
            await client.get_call(call["id"], wait=30)
    done = seen.span("execute_tool note")
    assert f"{done.context.trace_id:032x}" == TRACE
    assert done.parent.span_id == request.context.span_id
    assert done.context.trace_state.get("acme") == "1"


async def test_a_failure_of_the_service_is_an_error_and_a_refusal_is_none(sqlite: str, tmp_path: Path) -> None:
    seen = Telemetry()
    async with running(sqlite, tmp_path, telemetry=seen.service) as service:
        async with httpx2.AsyncClient() as web:
            assert (await web.get(f"{service.url}/v1/calls/secret-path")).status_code == 401
        service.service.calls.draining = True
        web = await service.http()
        assert (await web.post("/v1/calls", json={"tool": "add"})).status_code == 503
        service.service.calls.draining = False
    assert seen.span("GET /v1/calls/{id}").status.status_code is StatusCode.UNSET
    assert seen.span("POST /v1/calls").status.status_code is StatusCode.ERROR
    routes = {point["http.route"] for point in seen.points("http.server.request.duration")}
    assert routes == {"/v1/calls/{id}", "/v1/calls"}


@pytest.mark.parametrize("sent", ["", "x", "00-0-0-01", f"ff-{TRACE}-{PARENT}-01", "00-" + "0" * 32 + f"-{PARENT}-01"])
async def test_a_traceparent_that_is_none_begins_a_trace(sqlite: str, tmp_path: Path, sent: str) -> None:
    seen = Telemetry()
    async with running(sqlite, tmp_path, telemetry=seen.service) as service:
        answer = await (await service.http()).post("/v1/calls", json={"tool": "add"}, headers={"traceparent": sent})
        assert answer.status_code == 200
    assert seen.span("POST /v1/calls").parent is None


async def test_no_span_label_or_line_holds_a_secret(
    sqlite: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither keys nor arguments, query or path leave the service on their own."""
    caplog.set_level(logging.DEBUG, "ferrule")
    seen = Telemetry()
    async with running(sqlite, tmp_path, telemetry=seen.service) as service:
        web = await service.http()
        body = {"tool": "note", "arguments": {"text": "tops3cret"}, "metadata": {"note": "tops3cret"}}
        headers = {"Prefer": "respond-async", "Idempotency-Key": "tops3cret", "Cookie": "tops3cret"}
        await web.post("/v1/calls", json=body, headers=headers)
        await web.get("/v1/calls?tool=tops3cret")
        await web.get("/v1/calls", headers={"Authorization": "Bearer fk_tops3cret"})
        key = service.key
    spans = "".join(one.to_json() for one in seen.exporter.get_finished_spans())
    lines = "\n".join(record.getMessage() + str(record.__dict__) for record in caplog.records)
    points = str(seen.points("http.server.request.duration"))
    assert "POST /v1/calls 202" in lines
    for text in (spans, lines, points):
        assert key not in text
        assert "tops3cret" not in text


async def test_calls_are_logged_by_name_with_tenant_and_user(
    sqlite: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ferrule.calls")
    async with running(sqlite, tmp_path) as service:
        acme, _ = await service.tenant("acme")
        await acme.call("add", {"a": 40, "b": 2})
        await acme.call("refuse")
    lines = [one.getMessage() for one in caplog.records if one.name == "ferrule.calls" and one.exc_info is None]
    shown = [re.sub(r"(toolCallId=)\w{32}|(duration=)[\d.]+ ms", r"\1\2…", line) for line in lines]
    assert shown == snapshot(
        [
            "toolName=add, toolCallId=…, tenant=acme, userId=boss, duration=…, resultLength=2",
            "toolName=refuse, toolCallId=…, tenant=acme, userId=boss, duration=…, error=execution_error: The shop is closed.",  # noqa: E501
        ]
    )


# Bounds


async def test_tenants_beyond_the_first_share_a_label(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferrule.service.telemetry.MOST_TENANTS", 2)
    seen = Telemetry()
    async with running(sqlite, tmp_path, telemetry=seen.service) as service:
        for name in ("one", "two", "three", "four"):
            client, _ = await service.tenant(name)
            await client.call("add", {"a": 1, "b": 2})
            await client.call(f"no-such-tool-{name}")
    points = seen.points("tool.execution.count")
    assert {point["ferrule.tenant"] for point in points} == {"one", "two", "(other)"}
    assert {point["gen_ai.tool.name"] for point in points} == {"add", "(unknown)"}


@given(calls=st.lists(st.tuples(st.integers(0, 400), st.text(max_size=8), st.booleans()), max_size=400))
@settings(max_examples=25, deadline=None)
def test_the_page_for_prometheus_has_a_bounded_number_of_lines(calls: list[tuple[int, str, bool]]) -> None:
    """Whatever clients ask for: the lines depend on tenants and on tools that exist."""
    by_tenant: dict[str, Statistics] = {}
    for tenant, tool, known in calls:
        record = a_record(tool="add" if known else tool, version="1.0.0" if known else "")
        by_tenant.setdefault(f"t{tenant}", Statistics()).record(record)
    page = metrics_page(by_tenant, registry_size=1, requests={("/v1/calls", 200): 1})
    assert set(re.findall(r'tool="([^"]*)"', page)) <= {"add", "(unknown)"}
    detailed = set(re.findall(r'tool_execution_duration_seconds_count\{tenant="([^"]*)"', page))
    assert len(detailed) <= 50
    assert page.count("\n") <= len(by_tenant) * 2 * 4 + 50 * 2 * 80 + 60
    names = [line.split(" ")[2] for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_without_a_provider_opentelemetry_is_not_even_imported() -> None:
    code = (
        "import sys, ferrule.service.service, ferrule.service.routes;"
        "from ferrule.service.telemetry import provider_is_set;"
        "print(provider_is_set(), any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_global_provider_is_noticed() -> None:
    code = (
        "from opentelemetry import trace; from ferrule.service.telemetry import provider_is_set as is_set;"
        "print(is_set()); from opentelemetry.sdk.trace import TracerProvider;"
        "trace.set_tracer_provider(TracerProvider()); print(is_set())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
