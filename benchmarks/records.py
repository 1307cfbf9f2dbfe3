"""An audit log of a million rows: statistics and exports against a bare `SELECT` and a plain dump of the same file.

`python benchmarks/records.py` builds the log, prints a table and exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from _measure import Row, report
from ferrule.core.context import Caller
from ferrule.pipeline.stages import CallRecord
from ferrule.records.audit import AuditLog
from ferrule.records.reader import AuditReader
from ferrule.records.row import SELECT
from ferrule.records.statistics import statistics_of
from ferrule.records.verification import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS, QUICK_ROWS = 1_000_000, 50_000
TOOLS = ("Read", "Write", "Edit", "Grep", "Glob", "Bash", "FileSearch", "getGitInfo", "web_search", "send_mail")


def records(count: int) -> Iterator[CallRecord]:
    """A month's work of a team: mostly reading, now and then a failure, a refusal or a question."""
    chance = random.Random(0)
    callers = [Caller("acme", f"user{number}", "dev") for number in range(20)]
    for number in range(count):
        tool = chance.choice(TOOLS)
        fate = chance.random()
        more: dict[str, Any] = {"verdict": "allow", "reason": "the tool only reads"}
        if fate < 0.05:
            more = {"outcome": "execution_error", "stage": "execute", "error": "There is no file at `src/app.py`."}
        elif fate < 0.08:
            more = {
                "outcome": "permission_error",
                "stage": "authorise",
                "verdict": "deny",
                "reason": "A rule denies it.",
            }
        elif fate < 0.12:
            more = {"verdict": "ask", "answer": "yes", "waited": chance.expovariate(0.2)}
        arguments = {"file_path": f"src/package_{number % 977}/module_{number % 89}.py", "offset": number % 400}
        yield CallRecord(
            f"call_{number:x}", None, f"session{number // 200}", chance.choice(callers), tool, "1.0.0", "readonly",
            arguments, 1_700_000_000 + number * 2.5, chance.expovariate(50), **more, result_length=number % 5000,
        )  # fmt: skip


def build(path: Path, rows: int) -> float:
    began = perf_counter()
    with AuditLog(path) as log:
        for one in records(rows):
            log.record(one)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return perf_counter() - began


def bare_select(path: Path) -> None:
    """What any figure over every row costs at least: counting and adding up one column."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT tool, count(*), sum(duration) FROM calls GROUP BY tool").fetchall()


def plain_dump(path: Path, target: Path) -> None:
    """Every row as Python gives it, with nothing made of it."""
    with closing(sqlite3.connect(path)) as connection, target.open("w", encoding="utf-8") as file:
        for row in connection.execute(f"{SELECT} ORDER BY seq"):
            file.write(repr(row) + "\n")


def export(path: Path, form: Any, target: Path) -> None:
    with target.open("w", encoding="utf-8") as file:
        file.writelines(AuditReader(path).export(form))


def best(work: Callable[[], object], rounds: int) -> float:
    taken: list[float] = []
    for _ in range(rounds):
        began = perf_counter()
        work()
        taken.append(perf_counter() - began)
    return min(taken)


def measure_records(folder: Path, rows: int, rounds: int) -> list[Row]:
    path, target = folder / "audit.db", folder / "export"
    built = build(path, rows)
    scale = rows / ROWS
    select = best(lambda: bare_select(path), rounds)
    stats = best(lambda: statistics_of(path), rounds)
    dump = best(lambda: plain_dump(path, target), rounds)
    jsonl = best(lambda: export(path, "jsonl", target), rounds)
    csv = best(lambda: export(path, "csv", target), rounds)
    checked = best(lambda: verify(path), 1)
    size = path.stat().st_size / rows
    return [
        Row(f"statistics of {rows:,} rows", stats, "s", 2.0 * scale, f"a bare SELECT takes {select:.2f} s"),
        Row("statistics against a bare SELECT", stats / select, "×", None, "a sum and a count by tool"),
        Row(f"export of {rows:,} rows as JSON lines", jsonl, "s", 15.0 * scale, f"a plain dump takes {dump:.2f} s"),
        Row("export against a plain dump", jsonl / dump, "×", None, "`repr` of each row"),
        Row(f"export of {rows:,} rows as CSV", csv, "s", 15.0 * scale, f"{csv / dump:.2f} times a plain dump"),
        Row("verify", checked, "s", None, "every hash computed again"),
        Row("written", rows / built, "rows/s", None, f"{size:.0f} bytes a row"),
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure_records(Path(folder), QUICK_ROWS if options.quick else ROWS, 1 if options.quick else 3)
    return report(rows, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
