"""SIGKILL at a system call or a moment chosen by chance, in whatever changes files, undoes, redoes or forgets."""

from __future__ import annotations

import os
import signal
from random import Random

import pytest

from tests.faults.bench import COUNTS, Bench, differences, rounds
from tests.faults.jobs import CAPS, JOBS, TORN, begin, course_of, forgetting
from tests.faults.programs import command_line, ready_then
from tests.faults.tracing import Fate

pytestmark = pytest.mark.slow


def kill(bench: Bench, chance: Random, job: str) -> None:
    """Begin a job, and kill it somewhere on its way; every file is old or new."""
    course = course_of(job, bench.folder.parent / "course")
    program = begin(bench, job)
    # By its calls, what it does quickly is met as often as what takes long; by the clock, what its commands do is.
    by_clock = JOBS[job].steps and chance.random() < 0.5
    fate = Fate(after=chance.uniform(0, course.seconds)) if by_clock else Fate(at_call=chance.randint(1, course.calls))
    bench.follow({program.process: fate})
    bench.settle()
    if len(course.states) == 2:
        bench.check(*course.states, torn=TORN)


def require_whole(bench: Bench, job: str) -> None:
    """What is done as one is done or not done, once the history was looked at."""
    now, states = bench.tree(), course_of(job, bench.folder.parent / "course").states
    if not JOBS[job].steps:
        assert now in states, f"half of it is done: {[differences(now, one) for one in states]}"


@rounds(5)
@pytest.mark.parametrize("job", JOBS)
def test_a_killed_program_leaves_the_old_or_the_new_and_a_history_that_fits(
    bench: Bench, chance: Random, job: str
) -> None:
    """P11, O3: whenever it was, what was told is on record, undo and redo are exact, and nothing is left behind."""
    origin = bench.tree()
    kill(bench, chance, job)
    bench.start_again()
    require_whole(bench, job)
    bench.check_record(bench.reports(), origin)


@rounds(2)
@pytest.mark.parametrize("job", ["a replacement", "a command held back", "a command", "undo", "redo"])
def test_what_mends_a_kill_may_be_killed_too(bench: Bench, chance: Random, job: str) -> None:
    """P11: the next start, and the one after it, may end in the middle as well."""
    origin = bench.tree()
    kill(bench, chance, job)
    for _ in range(2):
        program = bench.start(ready_then(command_line("history"))).until_ready()
        bench.follow({program.process: Fate(at_call=chance.randint(1, 120))})
        bench.settle()
    bench.start_again()
    require_whole(bench, job)
    bench.check_record(bench.reports(), origin)


@rounds(4)
def test_a_history_that_is_killed_while_it_forgets_keeps_within_its_caps(bench: Bench, chance: Random) -> None:
    """P11: what is left can be undone exactly, and takes no more room than it may."""
    for _ in range(3):
        program = bench.start(forgetting).until_ready()
        bench.follow({program.process: Fate(at_call=chance.randint(1, 400))})
        bench.settle()
        bench.start_again()
    groups = bench.groups()
    assert len(groups) <= CAPS.changes + 1
    room = sum(one.stat().st_blocks * 512 for one in (bench.history / "contents").rglob("*") if one.is_file())
    assert room <= CAPS.total, f"{room:,} bytes of contents are kept"
    now, oldest = bench.tree(), min(group["number"] for group in groups)
    assert bench.ferrule("undo", "--to", str(oldest)).code == 0
    assert bench.ferrule("redo", "--to", str(max(group["number"] for group in groups))).code == 0
    assert not (wrong := differences(bench.tree(), now)), wrong
    bench.check_leftovers()


@rounds(2)
@pytest.mark.parametrize("job", ["a file", "a command", "a command held back"])
def test_a_killed_program_whose_parent_has_not_noticed_is_dead_all_the_same(
    bench: Bench, chance: Random, job: str
) -> None:
    """P11: a zombie does nothing any more, so what it did is taken up now and not once it is reaped."""
    origin = bench.tree()
    course = course_of(job, bench.folder.parent / "course")
    program = begin(bench, job)
    program.go()
    program.pause(chance.uniform(0, course.seconds))
    os.kill(program.process, signal.SIGKILL)
    COUNTS["kills"] += 1
    os.waitid(os.P_PID, program.process, os.WEXITED | os.WNOWAIT)
    bench.settle(reap=False)
    bench.start_again()
    require_whole(bench, job)
    bench.check_history(bench.reports(), origin)


def test_every_tool_that_changes_files_is_killed(bench: Bench, chance: Random) -> None:
    """But for what changes things elsewhere, and for drafts, which nobody but a person can agree to."""
    tools = bench.ferrule("tools", "--json").json
    changing = {one["name"] for one in tools if one["kind"] != "readonly"} - {"HttpRequest", "draft_tool"}
    assert changing <= {job.tool for job in JOBS.values()}
