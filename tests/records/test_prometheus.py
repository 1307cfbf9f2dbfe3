"""O1: the metrics, as Prometheus reads them."""

from __future__ import annotations

import re

from inline_snapshot import snapshot
from tests.records.record_samples import a_record, a_refusal

from ferrule.records.statistics import Statistics
from ferrule.records.telemetry import prometheus_text

SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"')


def parsed(text: str) -> dict[tuple[str, ...], float]:
    """Read the text as the format's description says, and refuse what it does not allow."""
    samples: dict[tuple[str, ...], float] = {}
    types: dict[str, str] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, "one TYPE line for each metric"
            types[name] = kind
        elif not line.startswith("# HELP "):
            found = SAMPLE.fullmatch(line)
            assert found, line
            labels = found["labels"] or ""
            assert LABEL.sub("", labels).strip(",") == "", line
            family = re.sub(r"_(bucket|sum|count)$", "", found["name"])
            assert found["name"] in types or types.get(family) == "histogram", line
            values = [value for _, value in LABEL.findall(labels)]
            key = (found["name"], *values)
            assert key not in samples, "no sample twice"
            samples[key] = float(found["value"])
    return samples


def test_the_page() -> None:
    """O1."""
    statistics = Statistics()
    statistics.record(a_record(duration=0.003))
    statistics.record(a_record(duration=0.25))
    statistics.record(a_record(duration=1000.0, outcome="timeout_error", stage="execute"))
    statistics.record(a_refusal())
    assert prometheus_text(statistics, registry_size=12) == snapshot("""\
# HELP tool_execution_count_total Calls, however they ended.
# TYPE tool_execution_count_total counter
tool_execution_count_total{tool="Bash"} 1
tool_execution_count_total{tool="Read"} 3
# HELP tool_execution_success_total Calls that succeeded.
# TYPE tool_execution_success_total counter
tool_execution_success_total{tool="Bash"} 0
tool_execution_success_total{tool="Read"} 2
# HELP tool_execution_failure_total Calls that failed, refusals not counted.
# TYPE tool_execution_failure_total counter
tool_execution_failure_total{tool="Bash"} 0
tool_execution_failure_total{tool="Read"} 1
# HELP tool_permission_denied_total Calls that were refused.
# TYPE tool_permission_denied_total counter
tool_permission_denied_total{tool="Bash"} 1
tool_permission_denied_total{tool="Read"} 0
# HELP tool_execution_duration_seconds How long calls took that reached their tool.
# TYPE tool_execution_duration_seconds histogram
tool_execution_duration_seconds_bucket{tool="Bash",le="0.00015625"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="0.0003125"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="0.000625"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="0.00125"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="0.0025"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="0.005"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="0.01"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="0.02"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="0.04"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="0.08"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="0.16"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="0.32"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="0.64"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="1.28"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="2.56"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="5.12"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="10.24"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="20.48"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="40.96"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="81.92"} 0
tool_execution_duration_seconds_bucket{tool="Bash",le="+Inf"} 0
tool_execution_duration_seconds_sum{tool="Bash"} 0.0
tool_execution_duration_seconds_count{tool="Bash"} 0
tool_execution_duration_seconds_bucket{tool="Read",le="0.00015625"} 0
tool_execution_duration_seconds_bucket{tool="Read",le="0.0003125"} 0
tool_execution_duration_seconds_bucket{tool="Read",le="0.000625"} 0
tool_execution_duration_seconds_bucket{tool="Read",le="0.00125"} 0
tool_execution_duration_seconds_bucket{tool="Read",le="0.0025"} 0
tool_execution_duration_seconds_bucket{tool="Read",le="0.005"} 1
tool_execution_duration_seconds_bucket{tool="Read",le="0.01"} 1
tool_execution_duration_seconds_bucket{tool="Read",le="0.02"} 1
tool_execution_duration_seconds_bucket{tool="Read",le="0.04"} 1
tool_execution_duration_seconds_bucket{tool="Read",le="0.08"} 1
tool_execution_duration_seconds_bucket{tool="Read",le="0.16"} 1
tool_execution_duration_seconds_bucket{tool="Read",le="0.32"} 2
tool_execution_duration_seconds_bucket{tool="Read",le="0.64"} 2
tool_execution_duration_seconds_bucket{tool="Read",le="1.28"} 2
tool_execution_duration_seconds_bucket{tool="Read",le="2.56"} 2
tool_execution_duration_seconds_bucket{tool="Read",le="5.12"} 2
tool_execution_duration_seconds_bucket{tool="Read",le="10.24"} 2
tool_execution_duration_seconds_bucket{tool="Read",le="20.48"} 2
tool_execution_duration_seconds_bucket{tool="Read",le="40.96"} 2
tool_execution_duration_seconds_bucket{tool="Read",le="81.92"} 2
tool_execution_duration_seconds_bucket{tool="Read",le="+Inf"} 3
tool_execution_duration_seconds_sum{tool="Read"} 1000.253
tool_execution_duration_seconds_count{tool="Read"} 3
# HELP tool_registry_size Tools that are registered.
# TYPE tool_registry_size gauge
tool_registry_size 12
""")


def test_buckets_add_up() -> None:
    statistics = Statistics()
    durations = [0.0, 0.00015625, 0.005, 0.01, 0.0100001, 3.0, 81.92, 100.0, 1e6]
    for duration in durations:
        statistics.record(a_record(duration=duration))
    samples = parsed(prometheus_text(statistics))
    name = "tool_execution_duration_seconds"
    buckets = [(key[2], value) for key, value in samples.items() if key[0] == f"{name}_bucket"]
    for bound, count in buckets:
        assert count == sum(duration <= float(bound) for duration in durations), bound
    assert [float(bound) for bound, _ in buckets] == sorted(float(bound) for bound, _ in buckets)
    assert buckets[-1] == ("+Inf", 9)
    assert samples[f"{name}_count", "Read"] == 9
    assert samples[f"{name}_sum", "Read"] == sum(durations)


def test_names_are_escaped() -> None:
    statistics = Statistics()
    statistics.record(a_record(tool='a"b\\c\nd'))
    samples = parsed(prometheus_text(statistics))
    assert samples["tool_execution_count_total", r"a\"b\\c\nd"] == 1


def test_nothing_yet_is_a_page_too() -> None:
    assert parsed(prometheus_text(Statistics(), registry_size=0)) == {("tool_registry_size",): 0}


def test_what_users_took_and_turns_are_histograms_of_their_own() -> None:
    """O1."""
    statistics = Statistics()
    statistics.record(a_record(tool="Write", duration=0.01, waited=30.0))
    statistics.record(a_record(tool="Bash", duration=0.01, queued=0.5))
    page = prometheus_text(statistics).splitlines()
    assert 'tool_execution_duration_seconds_sum{tool="Write"} 0.01' in page
    assert "# TYPE tool_approval_duration_seconds histogram" in page
    assert [line for line in page if line.startswith(("tool_approval", "tool_queue")) and "_bucket" not in line] == [
        'tool_approval_duration_seconds_sum{tool="Write"} 30.0',
        'tool_approval_duration_seconds_count{tool="Write"} 1',
        'tool_queue_duration_seconds_sum{tool="Bash"} 0.5',
        'tool_queue_duration_seconds_count{tool="Bash"} 1',
    ]
    assert 'tool_approval_duration_seconds_bucket{tool="Write",le="20.48"} 0' in page
    assert 'tool_approval_duration_seconds_bucket{tool="Write",le="40.96"} 1' in page
