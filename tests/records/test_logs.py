"""O2: log lines at registration, lookup, start, success and failure."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inline_snapshot import snapshot
from tests.records.record_samples import a_record, a_refusal

from ferrule import RegistryEvent
from ferrule.core.call import RawCall
from ferrule.core.context import Caller, Session
from ferrule.core.function_tool import tool
from ferrule.records.telemetry import JsonFormatter, LogRecorder, log_registry

if TYPE_CHECKING:
    import pytest


@tool
def greet(name: str) -> str:
    """Say hello."""
    return name


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    return [(record.name, record.levelname, record.getMessage()) for record in caplog.records]


def fields(record: logging.LogRecord) -> dict[str, Any]:
    line = json.loads(JsonFormatter().format(record))
    assert line.pop("time").endswith("+00:00")
    return line


def test_a_call_is_followed_from_lookup_to_end(caplog: pytest.LogCaptureFixture) -> None:
    """O2."""
    caplog.set_level(logging.DEBUG, "ferrule")
    log = LogRecorder()
    session = Session(workspace=Path("/"), caller=Caller("acme", "ann"), id="s1")
    call = RawCall("greet", {"name": "secret words"}, id="c1")
    log_registry(RegistryEvent("registered", "greet", "1.0.0", "plugin", greet))
    log.looked_up(call, session, found=True)
    log.looked_up(RawCall("gret", id="c2"), session, found=False)
    log.started(greet.build({"name": "secret words"}, call_id="c1"), session)
    log.record(a_record(1, duration=0.0123, result_length=42, arguments=call.arguments))
    log.record(a_record(2, outcome="timeout_error", stage="execute", error="It took more than 5 s."))
    log.record(a_refusal(3, error=None))
    log.record(a_record(4, result_length=42, cached=True))
    assert lines(caplog) == snapshot(
        [
            ("ferrule.registry", "INFO", "registered greet 1.0.0 from plugin"),
            ("ferrule.calls", "DEBUG", "lookup greet c1"),
            ("ferrule.calls", "WARNING", "lookup gret c2: no such tool"),
            ("ferrule.calls", "DEBUG", "start greet c1"),
            ("ferrule.calls", "INFO", "success Read call_1 in 12.3 ms, 42 characters"),
            (
                "ferrule.calls",
                "WARNING",
                "failure Read call_2 in 10.0 ms: timeout_error: It took more than 5 s.",
            ),
            (
                "ferrule.calls",
                "WARNING",
                "failure Bash call_3 in 10.0 ms: permission_error: Commands are not allowed here.",
            ),
            ("ferrule.calls", "INFO", "success Read call_4 in 10.0 ms, 42 characters, from the cache"),
        ]
    )
    assert [fields(record) for record in caplog.records] == snapshot(
        [
            {
                "level": "INFO",
                "logger": "ferrule.registry",
                "message": "registered greet 1.0.0 from plugin",
                "change": "registered",
                "tool": "greet",
                "version": "1.0.0",
                "origin": "plugin",
            },
            {
                "level": "DEBUG",
                "logger": "ferrule.calls",
                "message": "lookup greet c1",
                "tool": "greet",
                "call_id": "c1",
                "session": "s1",
                "tenant": "acme",
                "user": "ann",
                "found": True,
            },
            {
                "level": "WARNING",
                "logger": "ferrule.calls",
                "message": "lookup gret c2: no such tool",
                "tool": "gret",
                "call_id": "c2",
                "session": "s1",
                "tenant": "acme",
                "user": "ann",
                "found": False,
            },
            {
                "level": "DEBUG",
                "logger": "ferrule.calls",
                "message": "start greet c1",
                "tool": "greet",
                "call_id": "c1",
                "session": "s1",
                "tenant": "acme",
                "user": "ann",
            },
            {
                "level": "INFO",
                "logger": "ferrule.calls",
                "message": "success Read call_1 in 12.3 ms, 42 characters",
                "tool": "Read",
                "call_id": "call_1",
                "session": "session",
                "tenant": "acme",
                "user": "ann",
                "outcome": "success",
                "stage": "record",
                "duration": 0.0123,
                "result_length": 42,
            },
            {
                "level": "WARNING",
                "logger": "ferrule.calls",
                "message": "failure Read call_2 in 10.0 ms: timeout_error: It took more than 5 s.",
                "tool": "Read",
                "call_id": "call_2",
                "session": "session",
                "tenant": "acme",
                "user": "ann",
                "outcome": "timeout_error",
                "stage": "execute",
                "duration": 0.01,
                "error": "It took more than 5 s.",
            },
            {
                "level": "WARNING",
                "logger": "ferrule.calls",
                "message": "failure Bash call_3 in 10.0 ms: permission_error: Commands are not allowed here.",
                "tool": "Bash",
                "call_id": "call_3",
                "session": "session",
                "tenant": "acme",
                "user": "ann",
                "outcome": "permission_error",
                "stage": "authorise",
                "duration": 0.01,
                "error": "Commands are not allowed here.",
            },
            {
                "level": "INFO",
                "logger": "ferrule.calls",
                "message": "success Read call_4 in 10.0 ms, 42 characters, from the cache",
                "tool": "Read",
                "call_id": "call_4",
                "session": "session",
                "tenant": "acme",
                "user": "ann",
                "outcome": "success",
                "stage": "record",
                "duration": 0.01,
                "result_length": 42,
                "cached": True,
            },
        ]
    )
    assert "secret words" not in caplog.text


def test_what_a_model_writes_cannot_forge_lines_or_leak(caplog: pytest.LogCaptureFixture) -> None:
    """O2, P10."""
    caplog.set_level(logging.DEBUG, "ferrule")
    evil = "x\nINFO success rm\x1b[2J\u2028 sk-abcdefghijklmnopqrstuvwx"
    log = LogRecorder()
    log.looked_up(RawCall(evil, id=evil), Session(), found=False)
    log.record(a_record(tool=evil, call_id=evil, outcome="not_found_error", error=evil))
    for record in caplog.records:
        message = record.getMessage()
        assert len(message.splitlines()) == 1
        assert "\x1b" not in message
        assert "sk-abc" not in message + json.dumps(fields(record))


def test_levels_decide_what_is_written(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ferrule.calls")
    log = LogRecorder()
    log.looked_up(RawCall("greet"), Session(), found=True)
    log.record(a_record())
    assert lines(caplog) == []
    log.record(a_refusal())
    assert len(lines(caplog)) == 1


def test_json_lines_hold_exceptions_and_any_field_without_secrets() -> None:
    try:
        raise ValueError("password=hunter2")
    except ValueError:
        record = logging.LogRecord("app", logging.ERROR, "f.py", 1, "token=%s", ("abc",), sys.exc_info())
    record.__dict__.update(api_key="abc", size=3, where=Path("/tmp"), level="mine")
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert "hunter2" not in line
    read = json.loads(line)
    assert (read["message"], read["api_key"], read["size"], read["level"]) == (
        "token=[redacted]",
        "[redacted]",
        3,
        "ERROR",
    )
    assert read["exception"].endswith("ValueError: password=[redacted]")
