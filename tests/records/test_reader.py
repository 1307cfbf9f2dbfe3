"""O3, O4: the audit log can be listed, shown and exported, by all or by one tenant."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.record_samples import a_record, a_refusal

from ferrule.core.context import ANYONE, Caller
from ferrule.records.audit import AuditError, AuditLog
from ferrule.records.reader import AuditReader
from ferrule.records.row import COLUMNS


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reader") / "audit.db"
    with AuditLog(path) as log:
        log.record(a_record(1, started=100.0))
        log.record(a_refusal(2, started=200.0, caller=Caller("umbrella", "eve", "guest")))
        log.record(a_record(3, started=300.0, session_id="other", tool="Write", kind="write", verdict="ask"))
        log.record(a_record(4, started=400.0, outcome="timeout_error", error="Too slow.", caller=ANYONE))
        log.record(a_record(1, started=500.0, arguments='=HYPERLINK("http://evil")\n"quoted", 中文'))
    return path


@pytest.mark.parametrize(
    ("choice", "rows"),
    [
        ({}, [5, 4, 3, 2, 1]),
        ({"limit": 2}, [5, 4]),
        ({"limit": 2, "before": 4}, [3, 2]),
        ({"tool": "Write"}, [3]),
        ({"outcome": "timeout_error"}, [4]),
        ({"outcome": "failure"}, [4, 2]),
        ({"session": "other"}, [3]),
        ({"tenant": "umbrella"}, [2]),
        ({"user": "ann"}, [5, 3, 1]),
        ({"kind": "write"}, [3]),
        ({"verdict": "deny"}, [2]),
        ({"since": 300.0}, [5, 4, 3]),
        ({"since": 200.0, "until": 300.0}, [2]),
        ({"tool": "Read", "outcome": "success"}, [5, 1]),
    ],
)
def test_lists_choose_rows(path: Path, choice: dict[str, object], rows: list[int]) -> None:
    assert [row.seq for row in AuditReader(path).list(**choice)] == rows  # type: ignore[arg-type]


def test_a_row_is_shown_by_number_or_newest_call_id(path: Path) -> None:
    reader = AuditReader(path)
    assert [row.seq if row else None for row in map(reader.show, (2, "call_3", "call_1", 99, "x"))] == [
        2,
        3,
        5,
        None,
        None,
    ]


def test_a_tenant_sees_its_own_rows_alone(path: Path) -> None:
    """O4."""
    reader = AuditReader(path, tenant="umbrella")
    assert [row.seq for row in reader.list()] == [2]
    assert reader.list(tenant="acme") == []
    assert reader.show(1) is None
    assert len(list(reader.export("jsonl"))) == 1
    assert [row.seq for row in AuditReader(path, tenant=None).list()] == [4]


def test_an_export_as_json_lines_is_exact(path: Path) -> None:
    lines = list(AuditReader(path).export("jsonl"))
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    assert [json.loads(line) for line in lines] == [row.to_dict() for row in AuditReader(path).rows()]


def test_an_export_as_csv_cannot_run_in_a_spreadsheet(path: Path) -> None:
    table = list(csv.reader(io.StringIO("".join(AuditReader(path).export("csv")))))
    assert tuple(table[0]) == COLUMNS
    assert len(table) == 6
    cell = table[5][COLUMNS.index("arguments")]
    assert cell.startswith("'=HYPERLINK")
    assert cell.endswith("中文")


_ANYTHING = st.text(st.characters(codec="utf-8"), max_size=12) | st.text('=+-@\t\r\n,"\0a', max_size=6)


@given(st.lists(st.tuples(_ANYTHING, _ANYTHING, _ANYTHING, st.floats(0, 1e9)), min_size=1, max_size=5))
def test_an_export_as_csv_is_what_is_on_record(calls: list[tuple[str, str, str, float]]) -> None:
    """O3: whatever a model sent and a tool said, each cell holds it, and no cell is a formula."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.db"
        with AuditLog(path) as log:
            for arguments, reason, error, time in calls:
                log.record(a_record(1, arguments=arguments, reason=reason, error=error, started=time))
        _, *table = csv.reader(io.StringIO("".join(AuditReader(path).export("csv")), newline=""))
        rows = list(AuditReader(path).rows())
    assert table == [[_cell(value) for value in row] for row in rows]


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if isinstance(value, str) and text[:1] in tuple("=+-@\t\r") else text


def test_an_export_since_a_time(path: Path) -> None:
    exported = "".join(AuditReader(path).export("csv", since=400.0))
    assert len(list(csv.reader(io.StringIO(exported)))) == 3


def test_an_export_streams(path: Path) -> None:
    lines = AuditReader(path).export("jsonl")
    assert json.loads(next(iter(lines)))["seq"] == 1


def test_an_unknown_format_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match='"jsonl" or "csv"'):
        AuditReader(path).export("xml")  # type: ignore[arg-type]


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="There is no audit log"):
        AuditReader(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


def test_an_export_goes_on_after_a_row(path: Path) -> None:
    reader = AuditReader(path)
    whole = "".join(reader.export())
    assert "".join(reader.export(after=2)) == "".join(whole.splitlines(keepends=True)[2:])
    assert "".join(reader.export("csv", after=4)).startswith("5,500.0,")
    assert list(reader.export(after=5)) == []


@pytest.mark.slow
@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize("damage", ["", "DELETE FROM calls WHERE seq = 3", "UPDATE calls SET time = 'x' WHERE seq = 2"])
def test_processes_export_the_same_bytes(path: Path, tmp_path: Path, monkeypatch: Any, form: Any, damage: str) -> None:
    """Also where rows are gone or odd."""
    log = tmp_path / "audit.db"
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(log)) as copy:
        source.backup(copy)
        for trigger in ("calls_are_never_changed", "calls_leave_by_retention_alone"):
            copy.execute(f"DROP TRIGGER {trigger}")
        copy.execute(damage)
        copy.commit()
    monkeypatch.setattr("ferrule.records.reader._WORTH_SHARING", 1)
    monkeypatch.setattr("ferrule.records.reader._ROWS_OF_STRETCH", 2)
    reader = AuditReader(log)
    assert "".join(reader.export(form, processes=2)) == "".join(reader.export(form))
    assert "".join(reader.export(form, after=1, processes=2)) == "".join(reader.export(form, after=1))
