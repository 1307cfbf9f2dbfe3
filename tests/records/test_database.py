"""O3: the file that holds the audit log is made, checked, brought up to date, and refused when it is not one."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.records.record_samples import a_log, a_record, an_older_log, tamper

from ferrule.records import database
from ferrule.records.audit import AuditLog
from ferrule.records.database import AuditError, open_for_reading, open_for_writing
from ferrule.records.reader import AuditReader
from ferrule.records.row import COLUMNS
from ferrule.records.statistics import statistics_of
from ferrule.records.verification import read_head, verify

SCHEMA_VERSION = database.SCHEMA_VERSION


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


def make(path: Path) -> None:
    open_for_writing(path, patience=1).close()


def tables(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def columns(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for _, name, *_ in connection.execute("PRAGMA table_info(calls)")}


def test_the_table_has_the_columns_of_a_row(path: Path) -> None:
    make(path)
    assert columns(path) == set(COLUMNS)


def test_an_older_log_is_read_as_it_is(path: Path) -> None:
    """O3: also where nobody may change it. Its rows say nothing of waiting, and still verify."""
    before = an_older_log(path, 3).read_bytes()
    path.chmod(0o400)
    assert [(row.seq, row.waited, row.queued) for row in AuditReader(path).rows()] == [
        (1, None, None), (2, None, None), (3, None, None),
    ]  # fmt: skip
    assert (verify(path).ok, verify(path).rows) == (True, 3)
    assert [(one.tool, one.count, one.asked) for one in statistics_of(path)] == [("Read", 3, 0)]
    assert path.read_bytes() == before


def test_an_older_log_is_gone_on_with_and_verifies_from_end_to_end(path: Path) -> None:
    an_older_log(path, 3)
    noted = str(read_head(path))
    with AuditLog(path) as log:
        log.record(a_record(4, waited=7.0, queued=2.0))
    assert columns(path) == set(COLUMNS)
    assert verify(path, expected_head=noted).rows == 4
    assert [(row.waited, row.queued) for row in AuditReader(path).rows()] == [(None, None)] * 3 + [(7.0, 2.0)]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE calls SET waited = 5.0, queued = 0.0 WHERE seq = 2",
        "UPDATE calls SET waited = 5.0 WHERE seq = 2",
        "UPDATE calls SET waited = NULL, queued = NULL WHERE seq = 4",
        "UPDATE calls SET queued = NULL WHERE seq = 4",
        "UPDATE calls SET waited = 0.0 WHERE seq = 4",
    ],
)
def test_neither_age_is_a_way_past_the_hash(path: Path, change: str) -> None:
    an_older_log(path, 3)
    with AuditLog(path) as log:
        log.record(a_record(4, waited=7.0, queued=2.0))
    tamper(path, change)
    assert verify(path).first_bad_seq == int(change[-1])


def test_a_row_that_was_acknowledged_survives_a_power_cut(path: Path) -> None:
    """O3: WAL with full syncing."""
    with closing(open_for_writing(path, patience=1)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_the_folders_above_it_are_made_for_the_owner_alone(tmp_path: Path) -> None:
    make(tmp_path / "a" / "b" / "audit.db")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def test_only_the_owner_may_read_the_file(path: Path) -> None:
    a_log(path, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_rows_cannot_be_changed_or_deleted_by_accident(path: Path) -> None:
    a_log(path, 2)
    with closing(sqlite3.connect(path)) as connection:
        for statement in ("UPDATE calls SET tool = 'x'", "DELETE FROM calls WHERE seq = 2"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"These are my notes, not a database at all.\n" * 50, "damaged or not an audit log"),
        (b"SQLite format 3\0" + b"\xff" * 4096, "damaged or not an audit log"),
    ],
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes, says: str) -> None:
    path.write_bytes(content)
    with pytest.raises(AuditError, match=says):
        AuditLog(path)
    with pytest.raises(AuditError, match=says):
        AuditReader(path)
    assert path.read_bytes() == content


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(AuditError, match="database of another program"):
        AuditLog(path)
    assert path.read_bytes() == before


def test_a_log_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    a_log(path, 1)
    tamper(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    for opening in (AuditLog, AuditReader, verify):
        with pytest.raises(AuditError, match=r"newer Ferrule.*Update Ferrule"):
            opening(path)
    assert path.read_bytes() == before


def test_a_place_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file" / "audit.db"):
        with pytest.raises(AuditError, match=r"Cannot open the audit log .*Choose another place"):
            AuditLog(place)


def test_a_generous_umask_opens_neither_the_file_nor_its_journal(path: Path) -> None:
    before = os.umask(0)
    try:
        with closing(open_for_writing(path, patience=1)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE head SET seq = seq")
            connection.execute("COMMIT")
            files = sorted(path.parent.iterdir())
            assert [file.name for file in files] == ["audit.db", "audit.db-shm", "audit.db-wal"]
            assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["with space", "50%25", "what?mode=rwc", "#1", "日志", "a&b=c"])
def test_a_path_is_a_path_whatever_a_url_would_make_of_it(tmp_path: Path, name: str) -> None:
    make(tmp_path / name)
    with closing(open_for_reading(tmp_path / name)) as connection:
        assert connection.execute("SELECT seq FROM head").fetchone() == (0,)
    assert tables(tmp_path / name) == ["calls", "head", "checkpoint", "usage"]


@pytest.mark.parametrize("statement", ["UPDATE head SET seq = 9", "CREATE TABLE mine (a)", "DROP TABLE calls"])
def test_who_reads_cannot_change_anything(path: Path, statement: str) -> None:
    make(path)
    with closing(open_for_reading(path)) as connection, pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute(statement)


def test_looking_for_a_log_does_not_make_one(path: Path) -> None:
    with pytest.raises(AuditError, match="There is no audit log at"):
        open_for_reading(path)
    assert not path.exists()


def test_an_empty_file_is_no_log_to_a_reader_and_becomes_one_for_a_writer(path: Path) -> None:
    path.touch()
    with pytest.raises(AuditError, match="is not an audit log yet: nothing was recorded in it"):
        open_for_reading(path)
    make(path)
    open_for_reading(path).close()


def test_bytes_that_are_no_text_are_shown_and_do_not_stop_who_looks(path: Path) -> None:
    """A tampered row must be read before it can be reported."""
    a_log(path, 1)
    tamper(path, "UPDATE calls SET tool = CAST(x'52ff' AS TEXT)")
    with closing(open_for_reading(path)) as connection:
        assert connection.execute("SELECT tool FROM calls").fetchone() == ("R\udcff",)


def test_many_may_make_the_same_file_at_once(path: Path) -> None:
    """P3: whoever comes second finds it made."""
    gate = threading.Barrier(6)
    failures: list[BaseException] = []

    def work() -> None:
        gate.wait()
        try:
            open_for_writing(path, patience=10).close()
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with closing(open_for_reading(path)) as connection:
        assert connection.execute("SELECT id, seq, hash FROM head").fetchall() == [(1, 0, "")]


class MadeMeanwhile:
    """A connection to an empty file, which another process makes into a log after the first look at it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection

    def execute(self, query: str) -> Any:
        (row,) = self.connection.execute(query).fetchall()
        make(self.path)
        return SimpleNamespace(fetchone=lambda: row)


def test_a_log_that_another_process_is_making_is_not_taken_for_a_strangers(path: Path) -> None:
    """P3: between two looks at the file it may change from empty to made."""
    path.touch()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        meanwhile: Any = MadeMeanwhile(path, connection)
        assert database._check_identity(meanwhile, path) == SCHEMA_VERSION


def migrations(monkeypatch: pytest.MonkeyPatch, *further: str) -> None:
    """As a later version of Ferrule would have them."""
    known: Any = database._MIGRATIONS
    monkeypatch.setattr(database, "_MIGRATIONS", (*known, *further))
    monkeypatch.setattr(database, "SCHEMA_VERSION", len(known) + len(further))


def test_an_older_log_is_brought_up_to_date_and_keeps_its_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_log(path, 3)
    migrations(monkeypatch, "CREATE TABLE notes (text);\nINSERT INTO notes VALUES ('a;\nb')")
    make(path)
    make(path)
    with closing(open_for_reading(path)) as connection:
        assert connection.execute("SELECT text FROM notes").fetchall() == [("a;\nb",)]
        assert connection.execute("SELECT count(*) FROM calls").fetchone() == (3,)


def test_a_change_of_format_that_fails_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_log(path, 1)
    with monkeypatch.context() as later:
        migrations(later, "CREATE TABLE notes (text);\nCREATE TABLE notes (text);")
        with pytest.raises(AuditError, match="notes already exists"):
            make(path)
    assert "notes" not in tables(path)
    assert verify(path).ok


def test_a_file_that_stays_locked_is_given_up_after_the_patience(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(AuditError, match="Another program keeps the audit log"):
            open_for_writing(path, patience=0.05)


def test_the_words_for_a_person(path: Path, tmp_path: Path) -> None:
    """Each says what is wrong and what to do."""

    def said(opening: Any, place: Path) -> str:
        with pytest.raises(AuditError) as caught:
            opening(place)
        return str(caught.value).replace(str(tmp_path), "…")

    (tmp_path / "notes.txt").write_text("These are my notes, and no database at all.\n" * 50)
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    make(path)
    tamper(path, "PRAGMA user_version = 7")
    assert [
        said(make, tmp_path / "notes.txt"),
        said(make, tmp_path / "other.db"),
        said(make, path),
        said(make, tmp_path),
        said(open_for_reading, tmp_path / "none.db"),
    ] == snapshot(
        [
            "…/notes.txt is damaged or not an audit log (file is not a database). It was left as it is: move it away, since it may be evidence, and start again, or choose another file.",
            "…/other.db is the database of another program. Choose another file for the audit log.",
            "…/audit.db was written by a newer Ferrule (format 7; this one knows 4). Update Ferrule, or choose another file.",
            "Cannot open the audit log …: Is a directory. Choose another place for it.",
            "There is no audit log at …/none.db.",
        ]
    )


def test_a_log_in_a_read_only_folder_can_be_read_when_no_writer_left_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    open_for_writing(path, patience=1).close()
    connect = sqlite3.connect
    asked: list[str] = []

    def as_in_a_read_only_folder(database: str, **options: Any) -> sqlite3.Connection:
        asked.append(database)
        if "immutable=1" not in database:
            raise sqlite3.OperationalError("unable to open database file")
        return connect(database, **options)

    monkeypatch.setattr(sqlite3, "connect", as_in_a_read_only_folder)
    open_for_reading(path).close()
    assert len(asked) == 2
    Path(f"{path}-wal").touch()
    with pytest.raises(AuditError, match="unable to open"):
        open_for_reading(path)


def test_what_is_no_regular_file_is_refused() -> None:
    with pytest.raises(AuditError, match="not a regular file"):
        open_for_writing(Path(os.devnull), patience=0.1)
