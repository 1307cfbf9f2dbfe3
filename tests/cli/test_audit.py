"""`ferrule audit` (O3)."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from tests.records.record_samples import a_log, a_record, tamper

from ferrule.records.audit import AuditLog

if TYPE_CHECKING:
    from .conftest import Command


def test_before_the_first_call_it_says_so(ferrule: Command) -> None:
    done = ferrule("audit")
    assert done.code == 2
    assert "There is no audit log at" in done.err


def test_secrets_in_arguments_are_not_kept(ferrule: Command) -> None:
    ferrule("call", "echo_text", '{"text": "hi", "api_key": "sk-abcdefghijklmnopqrstuvwxyz123456"}')
    assert "sk-abcdef" not in ferrule("audit", "export").out
    assert b"sk-abcdef" not in (ferrule.folder / "data" / "audit.db").read_bytes()


def test_list_show_verify_and_export_agree(ferrule: Command) -> None:
    ferrule("call", "echo_text", '{"text": "one"}')
    ferrule("call", "no_such_tool")
    assert [row["seq"] for row in ferrule("audit", "list", "--json").json] == [2, 1]
    assert "echo_text" in ferrule("audit").out
    assert ferrule("audit", "list", "--outcome", "failure", "--json").json[0]["tool"] == "no_such_tool"
    assert ferrule("audit", "show", "1", "--json").json["tool"] == "echo_text"
    assert "no_such_tool" in ferrule("audit", "show", "2").out
    assert ferrule("audit", "show", "99").code == 2
    verified = ferrule("audit", "verify", "--json")
    assert (verified.code, verified.json["ok"], verified.json["rows"]) == (0, True, 2)
    assert len(ferrule("audit", "export").out.splitlines()) == 2
    assert ferrule("audit", "export", "--format", "csv").out.startswith("seq,")
    assert ferrule("audit", "verify", "--head", verified.json["head"]).code == 0


def test_a_check_goes_on_from_the_last_one_when_asked(ferrule: Command) -> None:
    """O3."""
    for text in ("one", "two"):
        ferrule("call", "echo_text", f'{{"text": "{text}"}}')
        assert ferrule("audit", "verify", "--since-last").code == 0
    (mark,) = (ferrule.folder / "data" / "verified").glob("*.json")
    mark.write_text(mark.read_text().replace('"2:', '"1:'))
    refused = ferrule("audit", "verify", "--since-last")
    assert refused.code == 2
    assert f"Remove it ({mark}) to have the whole log read." in " ".join(refused.err.split())
    assert ferrule("audit", "verify").code == 0
    mark.unlink()
    assert ferrule("audit", "verify", "--since-last").code == 0


def test_a_plain_check_keeps_no_mark(ferrule: Command) -> None:
    ferrule("call", "echo_text", '{"text": "one"}')
    assert ferrule("audit", "verify").code == 0
    assert not (ferrule.folder / "data" / "verified").exists()


def test_a_mark_that_cannot_be_kept_is_said_and_the_check_holds(ferrule: Command) -> None:
    ferrule("call", "echo_text", '{"text": "one"}')
    (ferrule.folder / "data" / "verified").touch()
    done = ferrule("audit", "verify", "--since-last")
    assert (done.code, done.out.startswith("Records verified: 1.")) == (0, True)
    assert "could not be kept for --since-last" in done.err


def test_tampering_shows(ferrule: Command) -> None:
    ferrule("call", "echo_text", '{"text": "one"}')
    ferrule("call", "echo_text", '{"text": "two"}')
    with closing(sqlite3.connect(ferrule.folder / "data" / "audit.db", isolation_level=None)) as database:
        database.execute("DROP TRIGGER IF EXISTS no_update")
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute("UPDATE calls SET outcome = 'permission_error' WHERE seq = 1")
    done = ferrule("audit", "verify")
    assert done.code == 1
    assert "Audit log verification failed: row " in done.err


def test_a_file_that_is_no_audit_log_is_said_to_be_none(ferrule: Command) -> None:
    other = ferrule.folder / "other.db"
    other.write_text("hello")
    for command in (["verify"], ["list"], ["export"]):
        done = ferrule("audit", "--file", str(other), *command)
        assert done.code == 2, command
        assert "Traceback" not in done.err
    assert other.read_text() == "hello"


def test_a_damaged_row_is_named_by_verify_and_doctor(ferrule: Command) -> None:
    for text in ("one", "two", "three"):
        ferrule("call", "echo_text", f'{{"text": "{text}"}}')
    with closing(sqlite3.connect(ferrule.folder / "data" / "audit.db", isolation_level=None)) as database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute("UPDATE calls SET outcome = 'permission_error' WHERE seq = 2")
    assert "row 2: " in ferrule("audit", "verify").err
    assert "row 2: " in ferrule("doctor").out


def test_the_list_cuts_long_arguments_and_show_has_everything(ferrule: Command) -> None:
    ferrule("call", "echo_text", f'{{"text": "{"x" * 300}"}}')
    heading, line = ferrule("audit", "list").out.splitlines()
    assert line.endswith("x…")
    assert len(line) - heading.index("ARGUMENTS") == 80
    shown = ferrule("audit", "show", "1").out
    assert "x" * 300 in shown
    fields = dict(line.split(maxsplit=1) for line in shown.splitlines())
    assert datetime.fromisoformat(fields["time"]).tzinfo is not None
    assert fields["duration"].endswith(" ms")


def test_verify_names_a_gap_and_does_not_call_it_tampering(ferrule: Command) -> None:
    """O3: a log that was removed under a running session."""
    path = ferrule.folder / "lost" / "audit.db"
    with AuditLog(path) as log:
        log.record(a_record(1))
        log.flush()
        shutil.rmtree(path.parent)
        log.record(a_record(2))
    done = ferrule("audit", "--file", str(path), "verify")
    assert (done.code, done.err) == (0, "")
    first, second = done.out.splitlines()
    assert first.startswith("Records verified: 2. Head: 2:")
    assert re.sub(r"\(.*?\)", "(…)", second) == (
        "Gap at row 1 (…): the log was removed or replaced while Ferrule was running. It ended at row 1, and the one "
        "in its place at row 0."
    )
    (gap,) = ferrule("audit", "--file", str(path), "verify", "--json").json["gaps"]
    assert (gap["seq"], gap["ended_at"], gap["found"]) == (1, 1, 0)


@pytest.mark.parametrize("column", ["time", "duration", "tool", "arguments", "waited", "cached"])
@pytest.mark.parametrize("value", ["x'ff00'", "CAST(x'ff' AS TEXT)", "'text'", "NULL"])
def test_a_log_with_other_values_than_ferrule_writes_ends_in_no_traceback(
    ferrule: Command, column: str, value: str
) -> None:
    path = a_log(ferrule.folder / "tampered.db", 3)
    try:
        tamper(path, f"UPDATE calls SET {column} = {value} WHERE seq = 2")
    except sqlite3.IntegrityError:
        return  # the file itself refuses it
    for arguments in (("verify",), ("list",), ("list", "--json"), ("export",), ("export", "--format", "csv")):
        done = ferrule("audit", "--file", str(path), *arguments)
        assert "Traceback" not in done.err, (arguments, done.err)
    assert "Traceback" not in ferrule("stats", "--file", str(path)).err
