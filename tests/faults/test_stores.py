"""What lies in the data folder is removed, put back from an older copy, or damaged on the disk."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from tests.faults.bench import COUNTS, Bench, Tree, databases, differences, rounds
from tests.faults.jobs import CHANGES, JOBS, make
from tests.faults.programs import Call, Output, Report, ordered_session

pytestmark = pytest.mark.slow

EARLIER: tuple[Call, ...] = (
    ("Write", {"file_path": "earlier.txt", "content": "earlier\n"}),
    ("Bash", {"command": "cp earlier.txt copied.txt; rm many/7.txt"}),
)
LATER: tuple[Call, ...] = (
    ("Write", {"file_path": "later.txt", "content": "later\n"}),
    ("FileSearch", {"pattern": "two", "path": "many", "replace_with": "2", "preview_only": False}),
    ("Bash", {"command": "rm many/3.txt; mkdir made; mv many/4.txt made/4.txt"}),
    ("Write", {"file_path": "last.txt", "content": "last\n"}),
)
AFTER: tuple[Call, ...] = (
    ("Write", {"file_path": "after.txt", "content": "after\n"}),
    ("Bash", {"command": "echo after > after-too.txt"}),
)
PAGES = 8
"""Of each database, at most so many are damaged in one round."""


# Removed and restored


@rounds(2)
@pytest.mark.parametrize("how", ["removed", "restored"])
@pytest.mark.parametrize("what", ["history", "data"])
def test_a_session_goes_on_where_its_store_was_removed_or_restored(
    bench: Bench, chance: Random, what: str, how: str
) -> None:
    """P11, O3: what is changed from then on is whole, in the history and in the audit; the gap has a name."""
    folder, copy = bench.data, bench.folder / "older copy"
    allow = ["Bash"] if chance.random() < 0.5 else []
    program = bench.start(ordered_session(allow))
    _done(program.call(EARLIER[0]))
    if what == "history":
        folder = bench.history
    shutil.copytree(folder, copy)
    _done(program.call(EARLIER[1]))
    before = bench.tree()
    shutil.rmtree(folder)
    if how == "restored":
        copy.rename(folder)
    COUNTS["folders taken away"] += 1
    reports = [_done(program.call(call)) for call in chance.sample(LATER, len(LATER))]
    assert program.end_orders() == 0, program.text()
    assert (bench.workspace / "last.txt").exists()
    bench.start_again()
    _require_undone_exactly(bench, reports, before)
    missing = {one.id for one in reports} - bench.audited()
    assert not missing, f"not in the audit: {missing}"
    verified = bench.ferrule("audit", "verify")
    assert not verified.says_traceback, verified
    said = program.text() + verified.out + verified.err + "".join(one.text for one in reports)
    if what == "data":
        assert "gap" in said or verified.code, f"nobody says that records are missing: {verified}"
    bench.check_leftovers()


def _done(report: Report) -> Report:
    assert report.success, report.text
    return report


def _require_undone_exactly(bench: Bench, reports: list[Report], before: Tree) -> None:
    now = bench.tree()
    listed = {group["call_id"] for group in bench.groups()}
    assert not (missing := {one.id for one in reports} - listed), f"not in the history: {missing}"
    for one in reversed(reports):
        done = bench.ferrule("undo", "--call", one.id)
        assert done.code == 0, done
    assert not (wrong := differences(bench.tree(), before)), f"after undo: {wrong}"
    for one in reports:
        assert bench.ferrule("redo", "--call", one.id).code == 0
    assert not (wrong := differences(bench.tree(), now)), f"after redo: {wrong}"


# Damaged


@rounds(1)
@pytest.mark.parametrize("name", ["journal.db", "tree.db", "audit.db"])
def test_a_damaged_page_of_a_database_loses_nothing_but_what_was_on_it(bench: Bench, chance: Random, name: str) -> None:
    """P11, O3: what can be rebuilt is, what cannot is said, and nobody sees a traceback or a false success."""
    states = [bench.tree()]
    for call in CHANGES:
        make(bench, call, allow=["Bash"])
        states.append(bench.tree())
    assert name in {one.name for one in databases(bench.data)}, "a database has another name now"
    kept = [bench.folder / "sound work", bench.folder / "sound data"]
    for source, target in zip((bench.workspace, bench.data), kept, strict=True):
        shutil.copytree(source, target, symlinks=True)
    damaged = next(one for one in databases(bench.data) if one.name == name)
    size, count = _flush(damaged)
    _flush(kept[1] / damaged.relative_to(bench.data))
    pages = range(count) if count <= PAGES else sorted({*range(PAGES // 2), *chance.sample(range(count), PAGES // 2)})
    wrong: list[str] = []
    for page in pages:
        for target, source in zip((bench.workspace, bench.data), kept, strict=True):
            shutil.rmtree(target)
            shutil.copytree(source, target, symlinks=True)
        with damaged.open("r+b") as file:
            file.seek(page * size)
            file.write(bytes(size))
        COUNTS["pages zeroed"] += 1
        try:
            _use(bench, states, name)
        except AssertionError as error:
            wrong.append(f"page {page + 1} of {count}: {error}")
    assert not wrong, "\n".join(wrong)


def test_every_database_is_damaged(bench: Bench, chance: Random) -> None:
    """A database that is added to the data folder belongs among the parameters above."""
    for job in ("a new file", "a command"):
        bench.session(*JOBS[job].calls, allow=JOBS[job].allow)
    assert {one.name for one in databases(bench.data)} == {"journal.db", "tree.db", "audit.db"}


def _use(bench: Bench, states: list[Tree], name: str) -> None:
    """Everything that reads or writes a database: it works, or says what is wrong."""
    listed = _quiet(bench.ferrule("history", "--json"))
    _quiet(bench.ferrule("audit", "verify"))
    lost: set[str] = set()
    for tool, arguments in AFTER:
        done = _quiet(bench.ferrule("call", tool, json.dumps(arguments), "--yes", "--json", "--allow", "Bash"))
        assert done.out.strip(), f"{tool} said nothing: {done}"
        if name != "audit.db":  # what cannot be recorded need not run
            assert done.json.get("success"), done
        if "cannot be undone" in done.out:  # the copy was rebuilt while the command ran, and it says so
            lost.add("after-too.txt")
    undone = _quiet(bench.ferrule("undo", "--to", "0", "--json"))
    groups = len(undone.json.get("done") or ())
    if undone.code == 0 and groups >= len(CHANGES):
        wrong = differences(bench.tree(), states[0])
        assert wrong.keys() <= lost, f"undo says it is done: {wrong}"
    else:
        assert _is_known(bench.tree(), states), f"undone to what never was: {undone}"
    if name == "journal.db" and (listed.code or len(listed.json) < len(CHANGES)):
        assert "could not be read" in listed.err, f"the history is gone without a word: {listed}"


def _quiet(done: Output) -> Output:
    assert not done.says_traceback, done.err[-600:]
    return done


def _is_known(tree: Tree, states: list[Tree]) -> bool:
    """Whether every file is as it once was, or was made after."""
    return all(
        path.startswith("after") or entry in [state.get(path) for state in states] for path, entry in tree.items()
    )


def _flush(database: Path) -> tuple[int, int]:
    """Have all of a database in its one file; gives the size of a page and how many there are."""
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return opened.execute("PRAGMA page_size").fetchone()[0], opened.execute("PRAGMA page_count").fetchone()[0]
