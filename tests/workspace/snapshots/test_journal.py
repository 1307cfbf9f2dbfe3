from __future__ import annotations

import os
from pathlib import Path

import pytest

from ferrule.workspace.snapshots.changes import Change, Operation, Origin, Phase, Side, State
from ferrule.workspace.snapshots.journal import Journal


def write(path: str, before: str | None, after: str) -> Change:
    old = State(before, 0o644) if before else None
    return Change(0, Path(path), Operation.CHANGE, None, old, State(after, 0o644), 0, covered=True)


def test_a_group_comes_back_as_it_was_noted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    odd = Path(os.fsdecode(b"/w/\xff\n"))
    move = Change(0, odd, Operation.MOVE, Path("/w/b"), State("", 0o600), State("", 0o600), 2, covered=True)
    group = journal.begin(1.5, Origin("s", "t", "c", "Edit"), [write("/w/a", None, "one"), move], {"one": 10})
    journal.finish(group, {})
    (found,) = journal.recent(10, None, None)
    assert (found.origin.tool, found.time, found.phase) == ("Edit", 1.5, Phase.DONE)
    assert [change.paths for change in found.changes] == [(Path("/w/a"),), (odd, Path("/w/b"))]
    assert found.changes[1].made == 2
    assert str(found) == "change 1"
    journal.close()


def test_contents_are_given_up_when_nobody_needs_them(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    first = journal.begin(1, Origin(), [write("/a", "one", "two")], {"one": 1, "two": 5000})
    second = journal.begin(2, Origin(), [write("/a", "two", "three")], {"three": 1})
    used = journal.totals()[0]
    assert journal.forget(first, first.changes) == ["one"]
    assert sorted(journal.forget(second, second.changes, keep=["three"])) == ["two"]
    assert (journal.content_size("two"), journal.content_size("three")) == (None, 1)
    assert journal.totals() == (pytest.approx(used - 3 * 4096, abs=100_000), 0)
    journal.close()


def test_replacing_a_content_counts_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    for _ in range(3):
        journal.begin(1, Origin(), [write("/a", "one", "one")], {"one": 5000})
    assert journal._run("SELECT room FROM totals").fetchone() == (8192,)
    journal.close()


def test_what_fails_in_the_middle_is_not_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    with pytest.raises(RuntimeError), journal.writing(durable=True):
        journal._run("DELETE FROM totals")
        raise RuntimeError
    assert journal.totals()[1] == 0
    journal.close()


def test_a_full_disk_is_not_taken_for_damage(tmp_path: Path) -> None:
    """P11: where SQLite has rolled back by itself, as on a full disk, the fault is told and not that there is nothing
    to roll back.
    """
    journal = Journal(tmp_path / "journal.db")
    with pytest.raises(OSError, match="full"), journal.writing():
        journal._run("DELETE FROM totals")
        journal._run("ROLLBACK")
        raise OSError("full")
    assert journal.totals()[1] == 0
    journal.close()


def test_which_is_next(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    groups = [journal.begin(1, Origin(call=str(n)), [write("/a", "x", "y")], {}) for n in range(3)]
    assert [group.number for group in journal.unsettled()] == [3, 2, 1]
    for group in groups:
        journal.finish(group, {})
    newest = journal.next_to(Side.BEFORE)
    assert newest is not None
    assert newest.number == 3
    assert journal.next_to(Side.BEFORE, to=3) is None
    assert [one.number for one in journal.in_the_way(groups[0], Side.BEFORE).values()] == [3]
    assert [one.number for one in journal.in_the_way(groups[0], Side.BEFORE, groups[2:]).values()] == [2]
    for group in reversed(groups):
        journal.mark(group, Phase.UNDONE)
    again = journal.next_to(Side.AFTER)
    assert again is not None
    assert again.number == 1
    assert [one.number for one in journal.in_the_way(groups[2], Side.AFTER).values()] == [1]
    journal.close()


def test_a_change_costs_no_more_after_thousands_of_the_same_file(tmp_path: Path) -> None:
    """Counted in steps of the database, not in time."""
    journal = Journal(tmp_path / "journal.db")
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    def change(number: int) -> int:
        nonlocal steps
        steps = 0
        group = journal.begin(1, Origin(), [write("/a", f"{number}", f"{number + 1}")], {f"{number}": 1}, durable=False)
        journal.finish(group, {})
        journal.totals()
        journal.oldest()
        return steps

    journal._database.set_progress_handler(count, 10)
    few = max(change(number) for number in range(10))
    for number in range(10, 2_000):
        change(number)
    assert change(2_000) < 2 * few
    journal.close()
