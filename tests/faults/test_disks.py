"""Full disks, slow disks, and programs that may have few files open or write small ones alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from tests.faults.bench import COUNTS, Bench, differences, rounds
from tests.faults.jobs import CHANGES, JOBS, TORN, begin, course_of
from tests.faults.programs import Output, command_line, ready_then
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
@pytest.mark.parametrize("full", ["work", "data", "audit", "temporary"])
def test_a_full_disk_changes_nothing_by_halves(bench: Bench, chance: Random, full: str) -> None:
    """P1, P11: with no room for the file, its old content or its record, a call fails as a whole and says so, or is
    done and said to be done.
    """
    origin = bench.tree()
    if full == "audit":
        bench.keep_audit_in(bench.folder / full)
    disk = bench.disk(bench.folder / full)
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
