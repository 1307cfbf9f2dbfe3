"""Control groups, where they can be had: what they bound, and whose they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.needs import needs
from tests.process.sandbox.box import run

from ferrule.process.profile import Bounds, Profile
from ferrule.process.sandbox import limits as module
from ferrule.process.sandbox.limits import can_group, control_group, default_bounds, machine_memory
from ferrule.process.sandbox.sandbox import NoSandbox

PROJECT = Path(__file__).parents[3]
# A Ferrule of its own that keeps an idle group until it hears from us, or that makes many, and removes what was left.
OWNS = """
import sys
from ferrule.process.profile import Bounds
from ferrule.process.sandbox.limits import control_group
with control_group(Bounds(processes=9)) as group:
    pass
print(group.folders["pids"].path, flush=True)
sys.stdin.readline()
"""
SWEEPS = """
from contextlib import ExitStack
from ferrule.process.profile import Bounds
from ferrule.process.sandbox.limits import control_group
with ExitStack() as made:
    for processes in range(20, 90):
        assert made.enter_context(control_group(Bounds(processes=processes))).folders
"""
NEW_NAMESPACE = ("unshare", "--pid", "--fork", "--mount", "--mount-proc", "--kill-child")


@pytest.fixture
def groups() -> Generator[None]:
    needs("pids" in can_group(), "control groups that this user may make")
    yield
    module._remove_idle()


def joining(files: tuple[str, ...], script: str) -> list[str]:
    return ["bash", "-c", f'for file; do echo 0 >"$file" || exit 9; done; {script}', "bash", *files]


def ferrule(code: str, *before: str) -> list[str]:
    return [*before, sys.executable, "-c", f"import sys; sys.path.insert(0, {str(PROJECT / 'src')!r})\n{code}"]


@pytest.mark.usefixtures("groups")
def test_it_bounds_processes_also_for_root() -> None:
    """S1."""
    bounds = Bounds(processes=5)
    with control_group(bounds) as group:
        script = "for i in 1 2 3 4 5 6 7 8; do sleep 0.2 & done; wait"
        done = subprocess.run(joining(group.joins, script), capture_output=True, text=True)
        assert "Resource temporarily unavailable" in done.stderr
        assert [one.kind for one in group.denials(Profile((), Path("/"), bounds=bounds))] == ["processes"]
    with control_group(bounds) as again, control_group(bounds) as another:
        assert again.joins == group.joins, "an empty one is used again"
        assert not again.met("pids"), "what an earlier box met is not this one's"
        assert not set(another.joins) & set(group.joins)
    module._remove_idle()
    assert not Path(group.joins[0]).parent.exists()


@pytest.mark.usefixtures("groups")
def test_it_bounds_the_memory_of_all_processes_together() -> None:
    """S1."""
    needs("memory" in can_group(), "control groups with memory")
    bounds = Bounds(processes=50, total_memory=150 << 20)
    each = f"{sys.executable} -c 'import time; x = b\"x\" * (60 << 20); time.sleep(1)' || echo killed"
    with control_group(bounds) as group:
        done = subprocess.run(joining(group.joins, f"({each}) & " * 3 + "wait"), capture_output=True, text=True)
        assert "killed" in done.stdout
        assert [one.message for one in group.denials(Profile((), Path("/"), bounds=bounds))] == [
            "The command was ended: it used more than 157 MB of memory."
        ]


def test_without_a_bound_there_is_no_group() -> None:
    with control_group(Bounds(processes=None)) as group:
        assert group.joins == ()


def test_where_none_can_be_made_each_process_has_the_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """S1."""
    monkeypatch.setattr(module, "can_group", dict)
    with control_group(Bounds(total_memory=1 << 30)) as group:
        assert (group.joins, group.denials(Profile((), tmp_path))) == ((), ())
        wanted = module.limits_of(
            Profile((), tmp_path, bounds=Bounds(total_memory=1 << 30)), processes=False, group=group
        )
    assert (module.resource.RLIMIT_DATA, 1 << 30) in wanted


def test_a_folder_that_is_no_control_group_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It takes files as well, and bounds nothing."""
    monkeypatch.setattr(module, "_parents", lambda: {"pids": tmp_path})
    module._tried.cache_clear()
    try:
        assert can_group() == {}
    finally:
        module._tried.cache_clear()


@pytest.mark.usefixtures("groups")
def test_a_controller_that_cannot_be_had_does_not_take_the_other_along(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_parents", lambda: {"memory": tmp_path, "pids": can_group()["pids"]})
    assert set(module._tried.__wrapped__(os.geteuid())) == {"pids"}


@pytest.mark.usefixtures("groups")
def test_where_groups_cannot_be_joined_a_command_runs_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder that belongs to this user, below one that it may not move processes out of."""
    monkeypatch.setattr(module, "_joined_by", lambda _parent: "pids.current")
    monkeypatch.setattr(module, "_kept_out", set())
    done = run(NoSandbox(off=True), Profile((tmp_path,), tmp_path, bounds=Bounds(processes=77)), ["echo", "ran"])
    assert (done.out, can_group()) == ("ran\n", {})


@pytest.mark.usefixtures("groups")
def test_groups_of_the_dead_are_removed() -> None:
    """S1: a lock that the kernel releases proves it, and not the number of a process."""
    owner = subprocess.Popen(ferrule(OWNS), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    left = Path(owner.stdout.readline().strip())
    assert left.is_dir()
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    assert left.is_dir()
    subprocess.run(ferrule(SWEEPS), check=True)
    assert not left.exists()


@pytest.mark.usefixtures("groups")
def test_what_lives_in_another_process_namespace_is_left_alone() -> None:
    """S1: a Ferrule in a container sees our groups, but none of our processes."""
    needs(os.geteuid() == 0, "root, for a process namespace of its own")
    with control_group(Bounds(processes=7)) as used, control_group(Bounds(processes=8)) as idle:
        pass
    with control_group(Bounds(processes=7)) as used:
        subprocess.run(ferrule(SWEEPS, *NEW_NAMESPACE), check=True)
        assert all(Path(file).exists() for file in (*used.joins, *idle.joins))
        done = subprocess.run(joining(used.joins, "echo joined"), capture_output=True, text=True)
        assert done.stdout == "joined\n"


@pytest.mark.usefixtures("groups")
def test_what_a_container_owns_is_left_alone_until_it_ends() -> None:
    """S1: its owner has a number there that is none of ours, or that of another process."""
    needs(os.geteuid() == 0, "root, for a process namespace of its own")
    owner = subprocess.Popen(ferrule(OWNS, *NEW_NAMESPACE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    theirs = Path(owner.stdout.readline().strip())
    subprocess.run(ferrule(SWEEPS), check=True)
    assert theirs.is_dir()
    owner.send_signal(signal.SIGKILL)  # and with it all in its namespace
    owner.communicate()
    subprocess.run(ferrule(SWEEPS), check=True)
    assert not theirs.exists()


@pytest.mark.usefixtures("groups")
def test_a_group_that_is_still_in_use_is_removed_later() -> None:
    with control_group(Bounds(processes=11)) as group:
        process = subprocess.Popen(joining(group.joins, "echo ready; exec sleep 60"), stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
    folder = Path(group.joins[0]).parent
    module._remove_idle()
    assert folder.exists()
    process.kill()
    process.communicate()
    with control_group(Bounds(processes=12)):
        assert not folder.exists()


@pytest.mark.usefixtures("groups")
def test_an_idle_group_that_was_removed_is_made_anew() -> None:
    with control_group(Bounds(processes=13)) as group:
        pass
    for file in group.joins:
        Path(file).parent.rmdir()
    with control_group(Bounds(processes=13)) as again:
        assert all(Path(file).exists() for file in again.joins)
        assert not set(again.joins) & set(group.joins)


def test_the_usual_bounds_leave_room_on_the_machine() -> None:
    """S1."""
    bounds = default_bounds()
    assert bounds.total_memory is not None
    assert bounds.processes is not None
    assert min(machine_memory(), 2 << 30) <= bounds.total_memory <= machine_memory()
    assert bounds.processes > 512


@pytest.mark.usefixtures("groups")
def test_without_a_sandbox_the_limits_hold_too(tmp_path: Path) -> None:
    with NoSandbox(off=True).prepare(Profile((tmp_path,), tmp_path, bounds=Bounds(processes=6)), ["true"]) as prepared:
        assert prepared.launch.joins
        subprocess.run(
            joining(prepared.launch.joins, "for i in 1 2 3 4 5 6 7; do sleep 0.1 & done"), capture_output=True
        )
        assert [one.kind for one in prepared.after_command()] == ["processes"]
