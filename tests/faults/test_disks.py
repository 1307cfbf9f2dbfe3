"""Full disks, slow disks, and programs that may have few files open or write small ones alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.faults.bench import BALLAST, COUNTS, Bench, differences, rounds
from tests.faults.jobs import CHANGES, JOBS, TORN, begin, course_of
from tests.faults.programs import Call, Output, Report, command_line, ordered_session, ready_then
from tests.faults.tracing import Fate

pytestmark = pytest.mark.slow

DIRECT: Sequence[str] = ("--allow", "Bash")
LEFT = (0, 1, 4_096, 12_288, 36_864, 40_960, 45_056, 57_344, 131_072)
"""Bytes that are free on a disk that is nearly full."""


def call(bench: Bench, tool: str, arguments: dict[str, Any], *options: str, **limits: int) -> Output:
    """`ferrule call`, from which a document comes whatever happens."""
    done = bench.ferrule("call", tool, json.dumps(arguments), "--yes", "--json", *options, **limits)
    assert not done.says_traceback, done
    assert done.out.strip(), f"it said nothing: {done}"
    json.loads(done.out)
    return done


def change_all(bench: Bench, chance: Random, states: list[Any], **limits: int) -> list[str]:
    """Make each change of `CHANGES` that can be made; gives the ids of those that succeeded and are said to be on
    record.
    """
    kept: list[str] = []
    for tool, arguments in chance.sample(CHANGES, len(CHANGES)):
        options = DIRECT if tool == "Bash" and chance.random() < 0.5 else ()
        before = bench.tree()
        done = call(bench, tool, arguments, *options, **limits)
        after = bench.tree()
        states.append(after)
        if done.json.get("success"):
            kept += [done.json["metadata"]["call_id"]] if not done.code else []
        elif not options:  # a command that changes the workspace itself may get half way
            assert not (wrong := differences(after, before)), f"it failed, and changed something: {wrong}: {done.out}"
    return kept


def check_all(bench: Bench, origin: Any, kept: list[str]) -> None:
    """With the fault over: what succeeded is in the audit, and undo and redo are exact."""
    bench.start_again()
    bench.check_history((), origin)
    verified = bench.ferrule("audit", "verify")
    assert not verified.says_traceback, verified
    assert verified.code == 0 or (verified.out + verified.err).strip(), "a gap has no name"
    assert not (missing := set(kept) - bench.audited()), f"not in the audit: {missing}"
    bench.check_leftovers()


@rounds(3)
@pytest.mark.parametrize("full", ["work", "data", "audit", "temporary", "disk"])
def test_a_full_disk_changes_nothing_by_halves(bench: Bench, chance: Random, full: str) -> None:
    """P1, P11: with no room for the file, its old content or its record, a call fails as a whole and says so, or is
    done and said to be done.
    """
    origin = bench.tree()
    if full == "audit":
        bench.keep_audit_in(bench.folder / full)
    disk = bench.one_disk() if full == "disk" else bench.disk(bench.folder / full)
    origin = bench.tree()
    call(bench, "Read", {"file_path": "notes.txt"})
    disk.fill(chance.choice(LEFT))
    kept = change_all(bench, chance, [])
    disk.empty()
    check_all(bench, origin, kept)


@rounds(2)
@pytest.mark.parametrize("full", ["work", "data"])
def test_undo_on_a_full_disk_is_done_or_refused(bench: Bench, chance: Random, full: str) -> None:
    """P11: an undo that finds no room leaves each group of changes as it was, and can be tried again."""
    origin = bench.tree()
    states: list[Any] = [origin]
    change_all(bench, chance, states)
    disk = bench.disk(bench.folder / full)
    disk.fill(chance.choice(LEFT))
    for arguments in (("undo", "--to", "0"), ("redo", "--to", "5")):
        done = bench.ferrule(*arguments, "--json")
        assert not done.says_traceback, done
        assert bench.tree() in states, f"half of a group is undone: {done}"
    disk.empty()
    check_all(bench, origin, [])


@rounds(3)
@pytest.mark.parametrize("limit", ["nofile", "fsize"])
def test_a_program_with_little_allowance_changes_nothing_by_halves(bench: Bench, chance: Random, limit: str) -> None:
    """P1, P11: too few files that may be open (`ulimit -n`), or too small ones (`ulimit -f`)."""
    origin = bench.tree()
    allowed = chance.randint(8, 48) if limit == "nofile" else chance.choice([1_024, 8_192, 40_000, 200_000])
    COUNTS["limits"] += 1
    kept = change_all(bench, chance, [], **{limit: allowed})
    check_all(bench, origin, kept)


@rounds(2)
@pytest.mark.parametrize("job", ["an edit", "a replacement", "a command held back", "a command", "undo"])
def test_a_kill_while_the_disk_is_slow(bench: Bench, chance: Random, job: str) -> None:
    """P11: what waits for the disk for long is met in the middle of it."""
    course = course_of(job, bench.folder.parent / "course")
    origin = bench.tree()
    program = begin(bench, job)
    slow = chance.uniform(0.02, 0.1)
    at = chance.randint(course.calls // 2, course.calls)
    bench.follow({program.process: Fate(at_call=at, slow_disk=slow)})
    COUNTS["slow disks"] += 1
    bench.settle()
    if len(course.states) == 2:
        bench.check(*course.states, torn=TORN)
    bench.start_again()
    if not JOBS[job].steps:
        assert bench.tree() in course.states
    bench.check_record(bench.reports(), origin)


@rounds(2)
def test_programs_on_a_slow_disk_wait_for_each_other(bench: Bench, chance: Random) -> None:
    """P11: while one changes many files slowly, another undoes: the outcome is that of one after the other."""
    course = course_of("a replacement", bench.folder.parent / "course")
    origin = bench.tree()
    slow = begin(bench, "a replacement")
    undoing = bench.start(ready_then(command_line("undo", "--json"))).until_ready()
    fate = Fate(slow_disk=chance.uniform(0.02, 0.1))
    bench.follow({slow.process: fate, undoing.process: fate})
    COUNTS["slow disks"] += 1
    assert bench.tree() in course.states
    bench.check_record(slow.reports(), origin)


def test_a_disk_of_the_bench_can_be_full(bench: Bench, chance: Random) -> None:
    """The fault itself: otherwise all of the above would pass on a disk with room."""
    disk = bench.disk(bench.workspace)
    disk.fill(0)
    assert disk.free == 0
    with pytest.raises(OSError, match="No space left"):
        (bench.workspace / "more").write_bytes(b"x" * 10_000)


# All on one disk

FILLED = "head -c 100M /dev/zero > {ballast} 2> /dev/null; truncate -s -{leave} {ballast}"
"""A command that leaves so many bytes free."""


@rounds(4)
@pytest.mark.parametrize("undone_by", ["the session", "another program"])
def test_a_command_that_fills_the_disk_is_on_record_or_undo_says_that_it_is_not(
    bench: Bench, chance: Random, undone_by: str
) -> None:
    """P11, O3: its result is given and says what is gone, its record is kept, and no older change is undone for it."""
    disk = bench.one_disk()
    origin = bench.tree()
    program = bench.start(ordered_session(["Bash"]))
    reports = [program.call(("Write", {"file_path": "older.txt", "content": "older\n"}))]
    before = bench.tree()
    large = chance.random() < 0.5  # more than the room that is kept for it
    gone = ["windows.txt", "latin.txt", *(["random.bin"] if large else [])]
    if large:
        (bench.workspace / "random.bin").write_bytes(chance.randbytes(2_000_000))
        origin, before = ({**one, "random.bin": bench.tree()["random.bin"]} for one in (origin, before))
        assert program.call(("Bash", {"command": "true"})).success
    fill = FILLED.format(ballast=BALLAST, leave=chance.choice([0, chance.randrange(65_536)]))
    reports.append(program.call(("Bash", {"command": f"rm {gone[0]}; {fill}; rm {' '.join(gone[1:])}"})))
    COUNTS["full disks"] += 1
    told = reports[-1]
    assert told.success, told.text
    assert told.metadata["changed"] == len(gone), (told, program.text())
    listed = told.id in {group["call_id"] for group in bench.groups()}
    assert listed or all(name in told.text for name in gone), told.text
    assert listed != ("not in the history yet" in told.text), told.text
    assert listed or large, "there is room for what is small"
    with_room = chance.random() < 0.5
    if with_room:
        disk.empty()
    if undone_by == "another program":
        done = bench.ferrule("undo", "--json")
        assert not done.says_traceback, done
        undone = done.json.get("done") or []
        assert [one["call_id"] for one in undone] in ([], [told.id]), f"an older change was undone: {done}"
        assert undone or done.code, done
        succeeded = bool(undone)
    else:
        succeeded = program.call(("undo", {})).success
    assert succeeded or not with_room
    if succeeded:
        assert not (wrong := differences(bench.tree(), before)), wrong
    assert "older.txt" in bench.tree()
    assert program.end_orders() == 0, program.text()
    disk.empty()
    bench.start_again()
    bench.check_record(reports, origin)


@rounds(6)
@pytest.mark.parametrize("way", ["direct", "held back"])
def test_whatever_is_done_on_one_disk_that_is_full_now_and_then(bench: Bench, chance: Random, way: str) -> None:
    """P1, P11, O3: each call is done or not, each undo is that of the newest change or refused, nothing is lost."""
    disk = bench.one_disk()
    origin = bench.tree()
    program = bench.start(ordered_session(["Bash"] if way == "direct" else []))
    assert program.call(("Read", {"file_path": "notes.txt"})).success
    states: list[tuple[str, Any]] = [("", origin)]
    reports: list[Report] = []
    for step in range(10):
        disk.empty()
        if chance.random() < 0.7:
            disk.fill(chance.randrange(65_536))
        before = bench.tree()
        if chance.random() < 0.3:
            done = bench.ferrule("undo", "--json")
            assert not done.says_traceback, done
            undone = [one["call_id"] for one in done.json.get("done") or []]
            assert undone in ([], [states[-1][0]]), f"not the newest change: {undone} of {states[-1][0]}"
            if undone:
                states.pop()
            assert not (wrong := differences(bench.tree(), states[-1][1])), f"after undo: {wrong}: {done}"
            continue
        one = program.call(_some_change(chance, step, bench.workspace))
        reports.append(one)
        after = bench.tree()
        if after != before:
            assert one.success or way == "direct", f"it failed, and changed something: {one.text}"
            states.append((one.id, after))
    assert program.end_orders() == 0, program.text()
    disk.empty()
    bench.start_again()
    unrecorded = [one for one in reports if "unrecorded" in one.metadata]
    bench.check_record([one for one in reports if one not in unrecorded], origin)


def _some_change(chance: Random, step: int, workspace: Path) -> Call:
    there = sorted(one.name for one in workspace.glob("*.txt") if one.name != "notes.txt")
    name = chance.choice(there)
    filled = FILLED.format(ballast=BALLAST, leave=chance.randrange(65_536))
    return chance.choice([
        ("Write", {"file_path": f"new-{step}/file.txt", "content": f"{step}\n" * chance.choice([1, 20_000])}),
        ("FileSearch", {"pattern": "two", "path": "many", "replace_with": f"{step}", "preview_only": False}),
        ("Bash", {"command": f"rm {name}; echo {step} > made-{step}.txt"}),
        ("Bash", {"command": f"rm {name}; {filled}; chmod 700 run.sh; mkdir made-{step}"}),
        ("Bash", {"command": f"cat {name} {name} > {step}.tmp; mv {step}.tmp {name}"}),
    ])  # fmt: skip
