"""O3: what was written stays as it was written, or `verify` says where it was changed."""

from __future__ import annotations

import errno
import multiprocessing
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.records.record_samples import a_log, a_record, tamper

from ferrule.records import verification
from ferrule.records.audit import AuditError, AuditLog
from ferrule.records.row import COLUMNS, SELECT, seal
from ferrule.records.verification import Head, read_head, verify
from ferrule.records.verified_mark import VerifiedMark


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return a_log(tmp_path / "audit.db", 5)


def test_an_untouched_log_verifies(log: Path) -> None:
    found = verify(log)
    assert (found.ok, found.rows, found.first_bad_seq, found.why) == (True, 5, None, "")
    assert found.head == read_head(log)
    assert verify(log, expected_head=str(found.head)).ok


def test_an_empty_log_verifies(tmp_path: Path) -> None:
    path = a_log(tmp_path / "audit.db", 0)
    assert verify(path) == (True, 0, None, "", Head(0, ""), ())


TAMPERING = {
    "changed": ("UPDATE calls SET user = 'bob' WHERE seq = 3",),
    "changed to a blob": ("UPDATE calls SET user = x'00ff' WHERE seq = 3",),
    "changed to bytes that are no text": ("UPDATE calls SET user = CAST(x'ff' AS TEXT) WHERE seq = 3",),
    "changed hash": (f"UPDATE calls SET hash = '{'0' * 64}' WHERE seq = 3",),
    "deleted in the middle": ("DELETE FROM calls WHERE seq = 3",),
    "deleted two in the middle": ("DELETE FROM calls WHERE seq IN (3, 4)",),
    "deleted and renumbered": (
        "DELETE FROM calls WHERE seq = 3",
        "UPDATE calls SET seq = 3 WHERE seq = 4",
        "UPDATE calls SET seq = 4 WHERE seq = 5",
    ),
    "reordered": (
        "UPDATE calls SET seq = 99 WHERE seq = 3",
        "UPDATE calls SET seq = 3 WHERE seq = 4",
        "UPDATE calls SET seq = 4 WHERE seq = 99",
    ),
    "deleted at the start": ("DELETE FROM calls WHERE seq = 1",),
    "deleted at the start, with the checkpoint moved": (
        "UPDATE checkpoint SET seq = 1, hash = (SELECT hash FROM calls WHERE seq = 1)",
        "DELETE FROM calls WHERE seq = 1",
    ),
    "cut at the end": ("DELETE FROM calls WHERE seq = 5",),
    "added by hand": (
        "CREATE TABLE copy AS SELECT * FROM calls WHERE seq = 5",
        "UPDATE copy SET seq = 6, prev_hash = hash",
        "INSERT INTO calls SELECT * FROM copy",
    ),
    "head removed": ("DELETE FROM head",),
    "head that names no row": ("UPDATE head SET seq = 'five'",),
    "checkpoint of another type": ("UPDATE checkpoint SET seq = 'zero'",),
    "checkpoint of bytes": ("UPDATE checkpoint SET hash = x'00'",),
    "checkpoint before the first row": ("UPDATE checkpoint SET seq = -3",),
    "numbers that are text": (
        "CREATE TABLE copy AS SELECT * FROM calls",
        "DROP TABLE calls",
        "ALTER TABLE copy RENAME TO calls",
        "UPDATE calls SET seq = 'x' WHERE seq = 3",
    ),
    "emptied": ("DELETE FROM calls",),
    "one more without a number": (
        "CREATE TABLE copy AS SELECT * FROM calls",
        "DROP TABLE calls",
        "ALTER TABLE copy RENAME TO calls",
        "INSERT INTO calls (time) VALUES (1.0)",
    ),
}


def test_every_way_of_tampering_shows(tmp_path: Path) -> None:
    """O3."""
    found: dict[str, Any] = {}
    for number, (name, statements) in enumerate(TAMPERING.items()):
        path = a_log(tmp_path / f"{number}.db", 5)
        tamper(path, *statements)
        told = verify(path)
        assert not told, name
        found[name] = (told.first_bad_seq, told.why)
    assert found == snapshot(
        {
            "changed": (3, "This row was changed after it was written."),
            "changed to a blob": (3, "This row was changed after it was written."),
            "changed to bytes that are no text": (3, "This row was changed after it was written."),
            "changed hash": (3, "This row was changed after it was written."),
            "deleted in the middle": (3, "Row 3 is missing."),
            "deleted two in the middle": (3, "Rows 3 to 4 are missing."),
            "deleted and renumbered": (
                3,
                "This row does not follow the one before it: one of them was replaced or moved.",
            ),
            "reordered": (
                3,
                "This row does not follow the one before it: one of them was replaced or moved.",
            ),
            "deleted at the start": (1, "Row 1 is missing."),
            "deleted at the start, with the checkpoint moved": (
                2,
                "Rows up to 1 are gone, and no retention row of the chain says so.",
            ),
            "cut at the end": (
                5,
                "The log ends at row 4, its head at 5: the end was cut or added to.",
            ),
            "added by hand": (6, "This row was changed after it was written."),
            "head removed": (None, "The log's head was removed."),
            "head that names no row": (None, "The log's head was changed: it names no row."),
            "checkpoint of another type": (None, "The log's checkpoint was changed: it names no row."),
            "checkpoint of bytes": (None, "The log's checkpoint was changed: it names no row."),
            "checkpoint before the first row": (None, "The log's checkpoint was changed: it names no row."),
            "numbers that are text": (3, "Row 3 is missing."),
            "emptied": (
                1,
                "The log ends at row 0, its head at 5: the end was cut or added to.",
            ),
            "one more without a number": (None, "There are rows in the log that are not of its chain."),
        }
    )


def test_a_cut_that_also_moves_the_head_shows_to_whoever_noted_the_head(log: Path) -> None:
    """What a chain without a key cannot show by itself, and a noted head can."""
    noted = read_head(log)
    tamper(
        log,
        "DELETE FROM calls WHERE seq > 3",
        "UPDATE head SET seq = 3, hash = (SELECT hash FROM calls WHERE seq = 3)",
    )
    assert verify(log).ok
    found = verify(log, expected_head=noted)
    assert (found.ok, found.first_bad_seq) == (False, 4)
    assert found.why == snapshot("The log was cut: row 5 was noted, and it ends at row 3.")


def test_a_forged_chain_shows_to_whoever_noted_the_head(log: Path) -> None:
    noted = read_head(log)
    forge(log)
    assert verify(log).ok
    found = verify(log, expected_head=str(noted))
    assert (found.ok, found.first_bad_seq) == (False, 5)
    assert found.why == snapshot("The log was rewritten: this row is not the one whose hash was noted.")


def forge(path: Path) -> None:
    """Rewrite the whole chain with another user in it, as only someone who read our source would."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"{SELECT} ORDER BY seq").fetchall()
    last, statements = "", list[str]()
    for row in rows:
        content = [*row[1:-2]]
        content[COLUMNS.index("user") - 1] = "eve"
        sealed = seal(row[0], content, last)
        last = sealed[-1]
        statements.append(
            f"UPDATE calls SET user = 'eve', prev_hash = '{sealed[-2]}', hash = '{last}' WHERE seq = {row[0]}"
        )
    tamper(path, *statements, f"UPDATE head SET hash = '{last}'")


def test_a_log_that_grew_still_matches_an_earlier_head(log: Path) -> None:
    noted = read_head(log)
    a_log(log, 3)
    found = verify(log, expected_head=noted)
    assert (found.ok, found.rows) == (True, 8)


def test_writing_goes_on_after_a_cut_and_the_cut_still_shows(log: Path) -> None:
    tamper(log, "DELETE FROM calls WHERE seq = 5")
    a_log(log, 2)
    found = verify(log)
    assert (found.ok, found.first_bad_seq, found.why) == (False, 5, "Row 5 is missing.")


def test_a_damaged_file_is_reported_not_raised(tmp_path: Path) -> None:
    path = a_log(tmp_path / "audit.db", 500)
    content = bytearray(path.read_bytes())
    content[4096 * 12 : 4096 * 30] = b"\xff" * (4096 * 18)
    path.write_bytes(content)
    assert not verify(path)


@pytest.mark.parametrize("text", ["", "12", "x:" + "0" * 64, "5:abc"])
def test_a_head_that_is_none_is_refused(log: Path, text: str) -> None:
    with pytest.raises(ValueError, match="A head looks like"):
        verify(log, expected_head=text)


def test_no_file_is_a_clear_error(tmp_path: Path) -> None:
    for read in (verify, read_head):
        with pytest.raises(AuditError, match="There is no audit log at"):
            read(tmp_path / "none.db")


words = st.text(max_size=20)
records = st.builds(
    a_record,
    st.integers(1, 9),
    tool=words,
    version=words,
    session_id=words,
    arguments=st.one_of(
        st.none(), st.text(), st.binary(max_size=50), st.dictionaries(words, st.floats() | words, max_size=3)
    ),
    error=st.none() | words,
    started=st.floats(),
    duration=st.floats(),
    result_length=st.integers(0, 2**70),
)


# Each example is a file that is synced to disk, so a failure is shown as found and not made small.
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(batch=st.lists(records, min_size=1, max_size=8), data=st.data())
def test_any_records_verify_and_any_changed_cell_shows(batch: list[Any], data: st.DataObject) -> None:
    """The law of the chain: what is written verifies, and no cell can be changed unseen."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "audit.db"
        with AuditLog(path) as log:
            for record in batch:
                log.record(record)
        assert verify(path).rows == len(batch)
        column = data.draw(st.sampled_from(COLUMNS))
        seq = data.draw(st.integers(1, len(batch)))
        tamper(path, f"UPDATE calls SET {column} = coalesce({column}, '') || '1' WHERE seq = {seq}")
        assert not verify(path)


@pytest.mark.parametrize("number", [-0.0, 5, 1e300, 5e-324, 0.1 + 0.2, float("nan"), float("-inf")])
def test_numbers_that_sqlite_keeps_in_its_own_way_verify(tmp_path: Path, number: float) -> None:
    path = tmp_path / "audit.db"
    with AuditLog(path) as log:
        log.record(a_record(started=number, duration=number))
    assert verify(path).ok


VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(max_size=20),
    st.sampled_from(["retention", "gap", "{}", "[1]", '{"removed_to": "x", "hash": 1}', "[" * 100_000]),
)
FIELDS = [
    *((table, name) for table in ("head", "checkpoint") for name in ("seq", "hash")),
    *(("calls", name) for name in COLUMNS[1:]),
]


@settings(max_examples=150, deadline=None, phases=[Phase.generate, Phase.shrink])
@given(st.sampled_from(FIELDS), VALUES, st.booleans())
def test_whatever_a_field_holds_verify_gives_a_finding(field: tuple[str, str], value: Any, sealed: bool) -> None:
    """A checkpoint of the wrong type ended in a TypeError. Here the hashes may have been computed anew besides."""
    table, column = field
    with TemporaryDirectory() as folder:
        path = a_log(Path(folder) / "audit.db", 3)
        whole = verify(path)
        tamper(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            loose(connection)
            where = "WHERE seq = 3" if table == "calls" else ""
            connection.execute(f"UPDATE {table} SET {column} = ? {where}", (value,))
            if sealed and table == "calls":
                seal_again(connection)
        found = verify(path)
        assert found == whole or not found.ok or sealed
        assert found.ok or found.why


def loose(connection: sqlite3.Connection) -> None:
    """The same tables without the types that would turn a value into another."""
    for table in ("head", "checkpoint", "calls"):
        connection.execute(f"CREATE TABLE loose AS SELECT * FROM {table}")
        connection.execute(f"DROP TABLE {table}")
        names = [row[1] for row in connection.execute("PRAGMA table_info(loose)")]
        connection.execute(f"CREATE TABLE {table} ({', '.join(names)})")
        connection.execute(f"INSERT INTO {table} SELECT * FROM loose")
        connection.execute("DROP TABLE loose")


def seal_again(connection: sqlite3.Connection) -> None:
    row = connection.execute(f"{SELECT} WHERE seq = 3").fetchone()
    digest = seal(3, row[1:-2], row[-2])[-1]
    connection.execute("UPDATE calls SET hash = ? WHERE seq = 3", (digest,))
    connection.execute("UPDATE head SET hash = ?", (digest,))


# Long logs: shared out among processes, and read on from where an earlier check ended

MANY = 20_000


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_log(tmp_path_factory.mktemp("long") / "audit.db", MANY)


@pytest.fixture
def long(long_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(verification, "_WORTH_SHARING", 1)
    return Path(shutil.copy(long_log, tmp_path))


def test_several_processes_find_what_one_finds(long: Path) -> None:
    """O3."""
    heads: list[Head] = []
    noted = f"9000:{hash_at(long, 9000)}"
    found = verify(long, expected_head=noted, processes=2, progress=heads.append)
    assert found == verify(long, expected_head=noted)
    assert (found.ok, found.rows) == (True, MANY)
    assert [head.hash for head in heads] == [hash_at(long, head.seq) for head in heads]
    assert len(heads) > 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE calls SET user = 'bob' WHERE seq = 12345",
        "UPDATE calls SET user = CAST(x'ff' AS TEXT) WHERE seq = 12345",
        "DELETE FROM calls WHERE seq BETWEEN 8000 AND 8200",
        "UPDATE calls SET hash = prev_hash WHERE seq = 8192",
        "DELETE FROM calls WHERE seq > 19990",
        "UPDATE usage SET count = count + 1 WHERE block = 1",
        "UPDATE head SET seq = seq + 1",
    ],
)
def test_several_processes_name_the_same_fault(long: Path, statement: str) -> None:
    """O3."""
    tamper(long, statement)
    found = verify(long, processes=3)
    assert found == verify(long)
    assert not found.ok


def test_a_check_goes_on_where_an_earlier_one_ended(long: Path) -> None:
    """O3: rows that were verified are not read again, and those after them are."""
    sure = Head(10_000, hash_at(long, 10_000))
    found = verify(long, since=sure)
    assert (found.ok, found.head) == (True, read_head(long))
    assert found.rows < MANY / 2 + 4096
    tamper(long, "UPDATE calls SET user = 'bob' WHERE seq = 15000")
    assert verify(long, since=sure).first_bad_seq == 15_000


@pytest.mark.parametrize(
    ("sure", "why"),
    [
        (Head(10_000, "0" * 64), "The log was rewritten: this row is not the one whose hash was noted."),
        (Head(MANY + 1, "0" * 64), f"The log was cut: row {MANY + 1} was noted, and it ends at row {MANY}."),
    ],
)
def test_a_check_goes_on_from_no_row_that_is_not_there(long: Path, sure: Head, why: str) -> None:
    found = verify(long, since=sure)
    assert (found.ok, found.why) == (False, why)


def test_where_no_process_can_be_started_the_log_is_read_in_this_one(
    long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(multiprocessing.get_context("spawn").Process, "start", refused)
    assert verify(long, processes=2).ok


def hash_at(log: Path, seq: int) -> str:
    with closing(sqlite3.connect(log)) as connection:
        return connection.execute("SELECT hash FROM calls WHERE seq = ?", (seq,)).fetchone()[0]


# The mark of how far a log was verified


def test_a_mark_is_read_as_it_was_written(tmp_path: Path) -> None:
    mark = VerifiedMark(tmp_path / "audit.db", tmp_path / "marks")
    assert mark.read() is None
    head = Head(42, "a" * 64)
    mark.write(head)
    assert mark.read() == head
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "marks").iterdir()} == {0o600}


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("42:", "43:"),
        lambda text: text.replace('"seal": "', '"seal": "0'),
        lambda text: "[]",
        lambda text: "{",
        lambda text: '{"head": 5}',
    ],
)
def test_a_changed_mark_is_refused(tmp_path: Path, damage: Any) -> None:
    """O3: whoever can change the log cannot say that it was verified."""
    mark = VerifiedMark(tmp_path / "audit.db", tmp_path / "marks")
    mark.write(Head(42, "a" * 64))
    mark.file.write_text(damage(mark.file.read_text()))
    with pytest.raises(AuditError, match=r"Remove it \(.*\.json\) to have the whole log read"):
        mark.read()


def test_the_mark_of_another_log_is_refused(tmp_path: Path) -> None:
    one, other = (VerifiedMark(tmp_path / name, tmp_path / "marks") for name in ("one.db", "other.db"))
    one.write(Head(42, "a" * 64))
    shutil.copy(one.file, other.file)
    with pytest.raises(AuditError, match="it was changed, or is of another log"):
        other.read()
