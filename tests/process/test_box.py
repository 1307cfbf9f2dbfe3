"""Boxes: nothing of one runs on after its end was told, and its end is told however it came (P2, S4).

Each fact is shown with every sandbox, as root and as an ordinary user.
"""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
import sys
import termios
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.needs import needs
from tests.process.sandbox.box import Box as Place
from tests.process.sandbox.box import as_user, bubblewrap, landlock, python_for_all
from tests.process.sandbox.conftest import USERS, marks, room

from ferrule.process import box as module
from ferrule.process import launcher
from ferrule.process.box import Box, BoxFailed, open_box
from ferrule.process.landlock import kernel_version
from ferrule.process.profile import Bounds, Profile
from ferrule.process.sandbox.sandbox import NoSandbox

__all__ = ["room"]
SANDBOXES: dict[str, Callable[[], Any]] = {"bubblewrap": bubblewrap, "landlock": landlock, "none": NoSandbox}
LEAVES_DAEMONS = (
    "(setsid sh -c 'exec sleep 1007' &); setsid nohup sh -c '(trap \"\" TERM HUP; exec sleep 1007) &' >/dev/null 2>&1;"
    " sh -c 'sleep 1007 & sleep 1007 &'; "
)


@pytest.fixture(
    params=[
        pytest.param((name, user), id=f"{name} as {user}", marks=marks(user)) for name in SANDBOXES for user in USERS
    ]
)
def place(request: pytest.FixtureRequest, room: Path) -> Place:
    name, user = request.param
    if name == "landlock":
        needs(kernel_version(), "a kernel with Landlock")
    sandbox = SANDBOXES[name]()
    needs(sandbox, "bubblewrap (`bwrap` on PATH)")
    return Place(room / "box", USERS[user], sandbox)


class Started:
    """A box with pipes, and what came out of it."""

    def __init__(self, box: Box, out: int) -> None:
        self.box, self._out = box, out

    async def line(self) -> str:
        return await asyncio.to_thread(self._line)

    def _line(self) -> str:
        line = b""
        while not line.endswith(b"\n") and (byte := os.read(self._out, 1)):
            line += byte
        return line.decode().strip()

    async def rest(self) -> str:
        return await asyncio.to_thread(
            lambda: b"".join(iter(lambda: os.read(self._out, 4096), b"")).decode(errors="surrogateescape")
        )


@contextmanager
def pipe() -> Generator[tuple[int, int]]:
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        for end in (reading, writing):
            try:
                os.close(end)
            except OSError:
                continue


async def start(place: Place, script: str, **given: Any) -> Started:
    passed, shell = given.pop("passed", None), given.pop("shell", "sh")
    fields: dict[str, Any] = {"writable": (place.workspace,), "folder": place.workspace} | given
    profile = Profile(**fields)
    out, writing = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        box = await open_box(
            place.sandbox, profile, [shell, "-c", script], stdin=nothing, stdout=writing, stderr=writing, passed=passed
        )
    except BaseException:
        os.close(out)
        raise
    finally:
        os.close(writing)
        os.close(nothing)
    return Started(box, out)


def in_place(place: Place, work: Callable[[], Awaitable[Any]]) -> Any:
    """Do it as the user of the place, in a process and an event loop of its own."""

    async def bounded() -> Any:
        return await asyncio.wait_for(work(), 60)

    return as_user(place.uid, place.environment, lambda: asyncio.run(bounded()))


def running(place: Place) -> int:
    """How many of the programs that the tests start are there, by anyone's count."""
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and launcher.alive(int(entry.name)):
            try:
                if (entry / "cmdline").read_bytes() == b"sleep\x001007\x00":
                    count += (entry / "environ").read_bytes().find(f"PLACE={place.folder}".encode()) >= 0
            except OSError:
                continue
    return count


def mark(place: Place) -> dict[str, Any]:
    return {"environment": {"PLACE": str(place.folder)}}


async def four_run(place: Place) -> bool:
    """Whether the four that are left behind have begun."""
    return await asyncio.to_thread(soon, lambda: running(place) >= 4)


def soon(true: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


def test_its_output_and_its_exit_code_come_out(place: Place) -> None:
    async def work() -> tuple[str, int]:
        started = await start(place, "echo out; echo err >&2; pwd; exit 3")
        said = await started.rest()
        return said, await started.box.ended

    assert in_place(place, work) == (f"out\nerr\n{place.workspace.resolve()}\n", 3)


def test_one_that_a_signal_ended_says_so(place: Place) -> None:
    async def work() -> int:
        return await (await start(place, "kill -9 $$")).box.ended

    assert in_place(place, work) in (-9, 137)  # bubblewrap tells it as shells do


def test_what_it_left_behind_is_dead_when_its_end_is_told(place: Place) -> None:
    """A daemon that forked twice, one with a session of its own, one that ignores being asked."""

    async def work() -> tuple[bool, int]:
        wait = "while [ ! -e go ]; do sleep 0.02; done; exit 4"
        started = await start(place, LEAVES_DAEMONS + wait, **mark(place))
        there = await four_run(place)
        (place.workspace / "go").touch()
        await asyncio.wait({started.box.ended})
        return there, running(place)

    assert in_place(place, work) == (True, 0)


@pytest.mark.parametrize("ready", ["echo ready; wait; sleep 1007", "trap '' TERM HUP INT; echo ready; sleep 1007"])
def test_ending_it_ends_everything(place: Place, ready: str) -> None:
    async def work() -> tuple[bool, int]:
        started = await start(place, LEAVES_DAEMONS + ready, **mark(place))
        await started.line()
        there = await four_run(place)
        await started.box.end(patience=0.1)
        assert started.box.ended.done()
        return there, running(place)

    assert in_place(place, work) == (True, 0)


def test_one_that_heeds_being_asked_ends_by_itself(place: Place) -> None:
    async def work() -> tuple[int, str]:
        started = await start(place, "trap 'echo bye; exit 6' TERM; echo ready; while :; do sleep 0.05; done")
        await started.line()
        await started.box.end(patience=30)
        return await started.box.ended, await started.rest()

    code, said = in_place(place, work)
    assert code == 6
    assert "bye" in said


def test_what_is_stopped_is_ended_too(place: Place) -> None:
    async def work() -> int:
        started = await start(place, "sleep 1007 & kill -STOP $!; echo ready; kill -STOP $$", **mark(place))
        await started.line()
        await started.box.end(patience=0.05)
        return running(place)

    assert in_place(place, work) == 0


def test_thousands_of_processes_are_ended(room: Path) -> None:
    """Without a sandbox and without a bound, in a time that does not grow with their square."""
    place = Place(room / "box", os.geteuid(), NoSandbox())
    script = "i=0; while [ $i -lt 1500 ]; do sleep 1007 & i=$((i+1)); done; echo ready; wait"

    async def work() -> tuple[int, int]:
        started = await start(place, script, bounds=Bounds(processes=None), **mark(place))
        await started.line()
        there = running(place)
        await started.box.end(patience=0)
        return there, running(place)

    there, left = in_place(place, work)
    assert there > 1400
    assert left == 0


def test_one_that_forks_without_end_is_ended(place: Place) -> None:
    script = "echo ready; f() { sleep 1007 & (f) & }; while :; do f; done 2>/dev/null"

    async def work() -> int:
        started = await start(place, script, bounds=Bounds(processes=60), **mark(place))
        await started.line()
        await asyncio.sleep(0.3)
        await started.box.end(patience=0)
        return running(place)

    assert in_place(place, work) == 0


def test_closing_it_ends_it(place: Place) -> None:
    async def work() -> None:
        started = await start(place, LEAVES_DAEMONS + "echo ready; sleep 1007", **mark(place))
        await started.line()
        started.box.close()
        started.box.close()
        assert await asyncio.to_thread(soon, lambda: running(place) == 0)

    in_place(place, work)


def test_without_an_event_loop_it_can_be_ended_too(place: Place) -> None:
    async def begin() -> Started:
        started = await start(place, LEAVES_DAEMONS + "echo ready; sleep 1007", **mark(place))
        await started.line()
        return started

    def work() -> int:
        started = asyncio.run(begin())
        started.box.end_now()
        return running(place)

    assert as_user(place.uid, place.environment, work) == 0


def test_everything_ends_with_ferrule_however_that_ends(place: Place) -> None:
    """The process that opened the box is killed, and has no word with anybody before."""
    told = place.workspace / "told"

    async def hang() -> None:
        started = await start(place, LEAVES_DAEMONS + "echo ready; sleep 1007", **mark(place))
        await started.line()
        told.write_text(str(os.getpid()))
        signal.pause()

    child = os.fork()
    if child == 0:
        try:
            in_place(place, hang)
        finally:
            os._exit(0)
    assert soon(lambda: told.exists() and told.read_text() != "")
    assert soon(lambda: running(place) == 5)
    os.kill(int(told.read_text()), signal.SIGKILL)
    os.waitpid(child, 0)
    assert soon(lambda: running(place) == 0)


def test_a_killed_launcher_takes_all_boxes_with_it_and_another_is_started(place: Place) -> None:
    async def work() -> tuple[int, int]:
        started = await start(place, LEAVES_DAEMONS + "echo ready; sleep 1007", **mark(place))
        await started.line()
        os.kill(module._connection().pid, signal.SIGKILL)
        await asyncio.wait({started.box.ended}, timeout=30)
        left = running(place)
        again = await start(place, "exit 5")
        return left, await again.box.ended

    assert in_place(place, work) == (0, 5)


def test_a_launcher_that_was_stopped_does_not_keep_a_box_alive(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS_TO_KILL", 0.1)

    async def work() -> tuple[bool, int]:
        started = await start(place, LEAVES_DAEMONS + "echo ready; sleep 1007", **mark(place))
        await started.line()
        stopped = module._connection().pid
        os.kill(stopped, signal.SIGSTOP)
        await started.box.end(patience=0)
        left = running(place)
        os.kill(stopped, signal.SIGCONT)
        return started.box.ended.done(), left

    assert in_place(place, work) == (True, 0)


@pytest.mark.parametrize("stopped", ["launcher", "waiting child"])
def test_a_launcher_that_does_not_answer_holds_nobody_up(
    place: Place, stopped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> tuple[str, int]:
        first = await start(place, "exit 4")
        await first.box.ended
        old = module._connection().pid
        said = "it was started"
        while said == "it was started":  # by a child that was made since, or by the one that waited
            launcher.signal_all(launcher.children(old) if stopped == "waiting child" else [old], signal.SIGSTOP)
            with monkeypatch.context() as soon:  # a new launcher may take its time on a busy machine
                soon.setattr(module, "_SECONDS_TO_START", 3.0)
                soon.setattr(module, "_SECONDS_TO_KILL", 0.1)
                try:
                    last = await start(place, "exit 5")
                except module.BoxFailed as failure:
                    said = failure.why
                else:
                    await last.box.end(patience=0)
        while launcher.alive(old):
            await asyncio.sleep(0.01)
        again = await start(place, "exit 6")
        return said, await again.box.ended

    assert in_place(place, work) == ("the launcher does not answer", 6)


def test_a_launcher_killed_before_it_could_start_anything_is_replaced(place: Place) -> None:
    async def work() -> list[int]:
        codes: list[int] = []
        for _ in range(8):
            old = module._connection().pid
            os.kill(old, signal.SIGKILL)
            while launcher.alive(old):
                await asyncio.sleep(0)
            started = await start(place, "exit 5")
            codes.append(await started.box.ended)
        return codes

    assert in_place(place, work) == [5] * 8


def test_one_box_is_none_of_anothers_business(place: Place) -> None:
    """What a box left behind lives on as long as the box does, whatever ends beside it."""

    async def work() -> tuple[int, int]:
        long = await start(place, LEAVES_DAEMONS + "echo ready; sleep 1007", **mark(place))
        await long.line()
        assert await asyncio.to_thread(soon, lambda: running(place) == 5)
        others = await asyncio.gather(*(start(place, "(setsid sleep 5 &); exit 1") for _ in range(5)))
        await asyncio.gather(*(one.box.ended for one in others))
        after = running(place)
        await long.box.end(patience=0)
        return after, running(place)

    assert in_place(place, work) == (5, 0)


def test_a_start_that_is_cancelled_leaves_nothing(place: Place) -> None:
    async def work() -> int:
        for turns in range(40):
            starting = asyncio.ensure_future(start(place, LEAVES_DAEMONS + "sleep 1007", **mark(place)))
            await asyncio.sleep(turns / 2000)
            if starting.done():
                await starting.result().box.end(patience=0)
                continue
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
        soon(lambda: running(place) == 0)
        return running(place)

    assert in_place(place, work) == 0


def test_it_inherits_what_is_passed_and_nothing_else(place: Place) -> None:
    needs(python := python_for_all(), "a Python that every user can run")
    show = f"{python} -c \"import os; print([n for n in range(3, 4096) if os.path.exists(f'/dev/fd/{{n}}')])\""

    async def work() -> tuple[str, str, int]:
        with pipe() as (reading, writing), pipe() as (_, other):
            high = os.dup2(other, 1700)  # as in a server with many connections
            script = f"echo through >&12; echo >&13; read -t 0.01 -u 11; {show}"
            passed = {12: writing, 13: other, 11: high}
            started = await start(place, script, passed=passed, shell="bash")
            os.close(high)
            said = await started.rest()
            return os.read(reading, 100).decode(), said, await started.box.ended

    through, said, code = in_place(place, work)
    assert (through, code) == ("through\n", 0)
    if place.sandbox.name != "landlock":  # which shows nothing of `/proc`
        assert said == "[11, 12, 13]\n"


def test_its_environment_is_what_it_was_given(place: Place) -> None:
    large = {f"LARGE_{number}": "x" * 100_000 for number in range(12)}

    async def work() -> str:
        return await (await start(place, "echo ${#LARGE_7} $ODD", environment=large | {"ODD": "a\udcffb é"})).rest()

    assert in_place(place, work).split() == ["100000", "a\udcffb", "é"]


def test_it_has_its_limits(place: Place) -> None:
    bounds = Bounds(processes=77, open_files=99, file_size=1 << 20, memory=300 << 20)

    async def work() -> list[str]:
        return (await (await start(place, "ulimit -n; ulimit -f; ulimit -d; ulimit -c", bounds=bounds)).rest()).split()

    if place.sandbox.name != "none":  # what was approved without a sandbox runs as the user's own commands do
        assert in_place(place, work) == ["99", "2048", str(300 << 10), "0"]


@pytest.mark.parametrize("others", [0, 50])
def test_what_is_covered_stays_so_when_it_is_replaced_outside(room: Path, others: int) -> None:
    """As the file of passwords is by every new one: boxes start from a view in which it was covered before. However
    many are covered with it, the launcher lives on.
    """
    sandbox = bubblewrap()
    needs(sandbox and os.geteuid() == 0, "bubblewrap (`bwrap` on PATH), as root")
    assert sandbox is not None
    place = Place(room / "box", 0, sandbox)
    file, folder = place.outside / "file", place.outside / "folder"
    covered = (str(file), str(folder), "/nowhere", *(f"{place.outside}/{number}" for number in range(others)))
    for path in covered[3:]:
        Path(path).touch()

    class Covering:
        def prepare(self, *given: Any, **named: Any) -> Any:
            prepared = place.sandbox.prepare(*given, **named)
            prepared.launch = replace(prepared.launch, covered=covered)
            return prepared

    async def work() -> list[str]:
        said: list[str] = []
        covering: Any = Covering()
        looking = replace(place, sandbox=covering)
        for number in range(4):
            if number != 1:  # the second is as it was for the first
                (place.outside / "new").write_text("secret")
                (place.outside / "new").replace(file)
                shutil.rmtree(folder, ignore_errors=True)
                (folder / "in").mkdir(parents=True)
            script = f"cat {file} || ls {folder} || chmod 755 {folder} || cat {place.outside}/shown"
            started = await start(looking, script, readable=(place.outside,))
            said.append(await started.rest())
            assert await started.box.ended == 0
            started.box.close()
        return said

    (place.outside / "shown").write_text("shown")
    for said in in_place(place, work):
        assert (said.count("Permission denied"), said.count("Read-only"), said.count("secret")) == (2, 1, 0)
        assert said.endswith("shown")


def test_a_program_that_is_not_there_is_said(place: Place) -> None:
    async def work() -> str:
        profile = Profile((place.workspace,), place.workspace)
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            box = await open_box(
                place.sandbox, profile, ["no-such-program"], stdin=nothing, stdout=nothing, stderr=nothing
            )
        except BoxFailed as failed:
            return failed.why
        return str(await box.ended)

    assert in_place(place, work) in ("no-such-program: No such file or directory", "1")


def test_the_living_processes_of_a_box_are_known(place: Place) -> None:
    async def work() -> tuple[int, list[str], list[int]]:
        started = await start(place, "sleep 1007 & sleep 1007 & echo ready; wait", **mark(place))
        await started.line()
        assert await asyncio.to_thread(soon, lambda: running(place) == 2)
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in started.box.processes()]
        await started.box.end(patience=0)
        return started.box.pid, names, started.box.processes()

    pid, names, after = in_place(place, work)
    assert pid > 0
    assert sorted(names) == ["sh", "sleep", "sleep"]
    assert after == []


def test_on_a_terminal_keys_reach_the_program_in_front(place: Place) -> None:
    """Ctrl-C interrupts the program that runs, the shell goes on, and `/dev/tty` is the terminal."""
    script = "trap : INT; tty >/dev/null && echo on a terminal; sleep 1007; echo code $?; read x </dev/tty; echo got $x"

    async def work() -> tuple[str, int]:
        master, slave = os.openpty()
        modes = termios.tcgetattr(slave)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        profile = Profile((place.workspace,), place.workspace, **mark(place))
        box = await open_box(
            place.sandbox, profile, ["bash", "-c", script], stdin=slave, stdout=slave, stderr=slave, terminal=slave
        )
        os.close(slave)
        seen = await asyncio.to_thread(until, master, "terminal")
        assert await asyncio.to_thread(soon, lambda: running(place) == 1)
        os.write(master, b"\x03")
        seen += await asyncio.to_thread(until, master, "code")
        os.write(master, b"typed\n")
        seen += await asyncio.to_thread(until, master, "typed")
        await asyncio.wait({box.ended})
        os.close(master)
        return seen, box.ended.result()

    seen, code = in_place(place, work)
    assert seen.split() == ["on", "a", "terminal", "code", "130", "got", "typed"]
    assert code == 0


def until(master: int, word: str) -> str:
    seen, end = "", time.monotonic() + 20
    while (word not in seen or not seen.endswith("\n")) and time.monotonic() < end:
        if not select.select([master], [], [], 0.1)[0]:
            continue
        try:
            seen += os.read(master, 1024).decode()
        except OSError:
            return seen
    return seen


def test_the_launcher_needs_only_the_standard_library() -> None:
    assert "ferrule." not in Path(launcher.__file__).read_text()
    assert sys.platform != "linux" or launcher.children(os.getppid())
