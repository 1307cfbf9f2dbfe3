"""Whatever a command starts is gone when it should be (P6): after its time, a cancel, the session, Ferrule itself."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from inline_snapshot import snapshot
from tests.needs import needs
from tests.process.shell.shell_room import Kept, Room, alive, becomes, gone, new_mark

from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox

# Each starts something that sleeps for MARK seconds, in a way that has escaped from others.
ESCAPES = {
    "child": "sleep MARK",
    "background": "sleep MARK & sleep MARK",
    "subshell": "(sleep MARK; echo no); echo no",
    "pipe": "sleep MARK | sleep MARK",
    "setsid": "setsid sleep MARK; sleep MARK",
    "setsid in the background": "setsid sleep MARK & sleep MARK",
    "double fork": "(setsid sh -c 'sleep MARK & sleep MARK' &); sleep MARK",
    "nohup": "nohup sleep MARK >/dev/null 2>&1 & disown; sleep MARK",
    "no TERM": "sh -c 'trap \"\" TERM HUP INT; sleep MARK; sleep MARK'",
    "respawn": "respawn() { trap 'respawn & sleep MARK' TERM; sleep MARK; respawn; }; respawn & respawn",
    "daemon": "python3 -c 'import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
    'os.execvp("sleep", ["sleep", "MARK"])\'; sleep MARK',
    "no environment": "env -i setsid /bin/sleep MARK & sleep MARK",
    "loop in the shell": "sleep MARK & while :; do :; done",
    "stopped": "sleep MARK & kill -STOP $!; sleep MARK",
    "all signals taken": "trap '' {1..64} 2>/dev/null; sleep MARK; sleep MARK",
}


@pytest.mark.parametrize("escape", ESCAPES)
def test_after_its_time_nothing_is_left(room: Room, escape: str) -> None:
    mark = new_mark()
    _, ended, after = room.run("x=1", f"x=2; {ESCAPES[escape].replace('MARK', mark)}; echo still", "echo $x", timeout=1)
    assert alive(mark) == []
    assert (ended.timed_out, ended.exit_code, "still" in ended.stdout) == (True, None, False)
    assert after.stdout == "1\n"


@pytest.mark.parametrize("escape", ["setsid", "double fork", "no TERM", "daemon"])
def test_after_a_cancel_nothing_is_left(room: Room, escape: str) -> None:
    mark = new_mark()

    async def body(session: Kept) -> str:
        running = asyncio.create_task(session.run(ESCAPES[escape].replace("MARK", mark)))
        assert await asyncio.to_thread(becomes, lambda: alive(mark))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert alive(mark) == []
        return (await session.run("echo on")).stdout

    assert room.use(body) == "on\n"


def test_without_bubblewrap_the_kernel_and_the_warden_hold_it_too(folder: Path) -> None:
    needs(LandlockSandbox().missing() is None, "a kernel with Landlock")
    room, mark = Room(folder, "landlock"), new_mark()
    escape = ESCAPES["double fork"].replace("MARK", mark)
    _, ended, after, _ = room.run("x=1", f"x=2; {escape}", "echo $x; exit 3", f"sleep {mark} &", timeout=2)
    assert ended.timed_out
    assert (after.stdout, after.exit_code) == ("1\n", 3)
    assert alive(mark) == []


def test_cancelling_twice_still_ends_everything(plain: Room) -> None:
    mark = new_mark()

    async def body(session: Kept) -> None:
        running = asyncio.create_task(session.run(ESCAPES["no TERM"].replace("MARK", mark)))
        assert await asyncio.to_thread(becomes, lambda: alive(mark))
        for _ in range(5):
            running.cancel()
            await asyncio.sleep(0.05)
        with pytest.raises(asyncio.CancelledError):
            await running
        assert alive(mark) == []

    plain.use(body)


@pytest.mark.parametrize("escape", ["background", "setsid in the background", "double fork", "no environment"])
def test_after_a_command_nothing_of_it_is_left_and_that_is_said(room: Room, escape: str) -> None:
    mark = new_mark()
    command = ESCAPES[escape].replace("MARK", mark).rpartition("sleep")[0].rstrip("; ")
    ended, after = room.run(
        f"{command} echo started" if command.endswith("&") else f"{command}; echo started", "echo on"
    )
    assert alive(mark) == []
    assert (ended.stdout, ended.exit_code, ended.timed_out) == ("started\n", 0, False)
    assert "".join(ended.notes) == snapshot(
        "The command left 1 process running; it was stopped. To keep one running, start it with `run_in_background`."
    )
    assert after.stdout == "on\n"


@pytest.mark.parametrize("end", ["exit 3", "exec true", "kill -9 $$", "kill -9 0"])
def test_nor_when_it_ended_its_shell(room: Room, end: str) -> None:
    mark = new_mark()
    ended, after = room.run(f"sleep {mark} & (setsid sleep {mark} &); {end}", "echo on")
    assert alive(mark) == []
    assert ended.exit_code in (3, 0, 137)
    assert after.stdout == "on\n"


def test_a_flood_ends_with_its_time(room: Room) -> None:
    ended, after = room.run("yes flood", "echo on", timeout=1.5)
    assert ended.timed_out
    assert ended.stdout.startswith("flood\nflood\n")
    assert after.stdout == "on\n"


PROGRAM = """
import asyncio, sys
from pathlib import Path
from typing import Any
sys.path.insert(0, sys.argv[3])
from tests.process.shell.shell_room import opener_in
from ferrule.process.shell.session import ShellSession

async def main():
    opener = opener_in(Path(sys.argv[1]), sys.argv[2])
    session = ShellSession(folder=sys.argv[1])
    await session.background.start(sys.argv[4], opener)
    session.keep(await session.run("f() { echo ready; }; x=1", opener), tainted=False)
    print((await session.run("f; echo $x", opener)).stdout, flush=True)
    await session.run(sys.argv[5], opener)

asyncio.run(main())
"""


def python_for(uid: int) -> str | None:
    """A Python that this user can start, of our version, so that our packages fit."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for program in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        try:
            found = subprocess.run([program, "-c", "print(end='ok')"], capture_output=True, cwd="/", **_as(uid))
        except OSError:
            continue
        if found.stdout == b"ok":
            return program
    return None


def _as(uid: int) -> dict[str, Any]:
    return {} if uid == os.geteuid() else {"user": uid, "group": uid, "extra_groups": []}


USERS = {"root": 0, "ordinary user": 65534} if os.geteuid() == 0 else {"ordinary user": os.geteuid()}


def user_cases() -> list[ParameterSet]:
    """Each user who starts programs; `./test` takes the ordinary one, or root if only root can start our Python."""
    quick = "ordinary user" if python_for(USERS["ordinary user"]) else "root"
    return [
        pytest.param(uid, id=user, marks=[] if user == quick else [pytest.mark.slow]) for user, uid in USERS.items()
    ]


@pytest.mark.parametrize("uid", user_cases())
def test_when_ferrule_is_killed_nothing_is_left(room: Room, uid: int) -> None:
    mark = new_mark()
    before = f"(setsid sh -c 'sleep {mark} & sleep {mark}' &) ; env -i setsid sleep {mark}"
    last = f"trap '' TERM; nohup sleep {mark} & while :; do sleep {mark}; done"
    program = python_for(uid)
    needs(program, "a Python that an ordinary user can start")
    os.chown(room.workspace, uid, uid)
    root = str(Path(__file__).parents[3])
    places = [str(Path(root) / "src"), *(path for path in sys.path if "site-packages" in path)]
    child = subprocess.Popen(
        [str(program), "-c", PROGRAM, str(room.workspace), room.kind, root, before, last],
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(places), "HOME": str(room.workspace)},
        cwd="/",
        **_as(uid),
    )
    assert child.stdout is not None
    try:
        assert [child.stdout.readline() for _ in range(2)] == [b"ready\n", b"1\n"]
        assert becomes(lambda: len([one for one in alive(mark) if "sleep" in one.split()[1]]) >= 5)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    assert gone(mark), alive(mark)
