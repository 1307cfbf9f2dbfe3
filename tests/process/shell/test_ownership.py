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
from tests.needs import needs
from tests.process.shell.shell_room import Room, alive, becomes, gone, new_mark

from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox
from ferrule.process.shell.shell_session import ShellSession

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
    "own signal taken": "trap '' 61 TERM; sleep MARK; sleep MARK",
}


@pytest.mark.parametrize("escape", ESCAPES)
def test_after_its_time_nothing_is_left(room: Room, escape: str) -> None:
    mark = new_mark()
    _, ended, after = room.run("x=1", f"x=2; {ESCAPES[escape].replace('MARK', mark)}; echo still", "echo $x", timeout=1)
    assert alive(mark) == []
    assert (ended.timed_out, ended.exit_code, "still" in ended.stdout) == (True, None, False)
    assert after.stdout == ("1\n" if escape == "own signal taken" else "2\n")


@pytest.mark.parametrize("escape", ["setsid", "double fork", "no TERM", "daemon"])
def test_after_a_cancel_nothing_is_left(room: Room, escape: str) -> None:
    mark = new_mark()

    async def body(session: ShellSession) -> str:
        running = asyncio.create_task(session.run(ESCAPES[escape].replace("MARK", mark)))
        assert await asyncio.to_thread(becomes, lambda: alive(mark))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert alive(mark) == []
        return (await session.run("echo on")).stdout

    assert room.use(body) == "on\n"


def test_without_bubblewrap_the_kernel_and_the_keeper_hold_it_too(folder: Path) -> None:
    needs(LandlockSandbox().missing() is None, "a kernel with Landlock")
    room, mark = Room(folder, "landlock"), new_mark()
    escape = ESCAPES["double fork"].replace("MARK", mark)
    _, ended, after, left = room.run("x=1", f"x=2; {escape}", "echo $x; exit 3", f"sleep {mark} &", timeout=2)
    assert ended.timed_out
    assert (after.stdout, after.exit_code) == ("2\n", 3)
    assert len(left.still_running) == 1
    assert alive(mark) == []


def test_cancelling_twice_still_ends_everything(plain: Room) -> None:
    mark = new_mark()

    async def body(session: ShellSession) -> None:
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
def test_after_the_session_nothing_is_left(room: Room, escape: str) -> None:
    mark = new_mark()
    command = ESCAPES[escape].replace("MARK", mark).rpartition("sleep")[0].rstrip("; ")

    async def body(session: ShellSession) -> None:
        ended = await session.run(command)
        assert ended.still_running
        assert alive(mark)

    room.use(body)
    assert alive(mark) == []


def test_what_is_left_in_the_background_is_told_and_holds_nothing_up(room: Room) -> None:
    mark = new_mark()

    async def body(session: ShellSession) -> None:
        ended = await session.run(f"sleep {mark} & echo started", timeout=20)
        assert (ended.stdout, ended.exit_code, ended.timed_out) == ("started\n", 0, False)
        (process,) = ended.still_running
        note = f"1 process is still running in the background ({process.pid}: sleep {mark}); "
        assert ended.notes == (f"{note}further output goes to `main_1`.",)
        timed = await session.run(f"sleep {mark}0", timeout=0.5)
        assert timed.timed_out
        assert len(alive(mark)) == 1, "what an earlier command left is not this one's"
        await session.run("kill %1")

    room.use(body)


def test_a_flood_ends_with_its_time(room: Room) -> None:
    ended, after = room.run("yes flood", "echo on", timeout=1.5)
    assert ended.timed_out
    assert ended.stdout.startswith("flood\nflood\n")
    assert ended.spill is not None
    assert ended.spill.stat().st_size == ended.left_out.bytes + sum(
        len(piece.text) for piece in ended.pieces if piece.stream
    )
    assert after.stdout == "on\n"


PROGRAM = """
import asyncio, sys
from pathlib import Path
from typing import Any
sys.path.insert(0, sys.argv[3])
from tests.process.shell.shell_room import prepare_in
from ferrule.process.shell.shell_session import ShellSession

async def main():
    session = ShellSession(prepare_in(Path(sys.argv[1]), sys.argv[2]))
    await session.run(sys.argv[4])
    print("ready", flush=True)
    await session.run(sys.argv[5])

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


@pytest.mark.parametrize("uid", USERS.values(), ids=USERS.keys())
def test_when_ferrule_is_killed_nothing_is_left(room: Room, uid: int) -> None:
    mark = new_mark()
    before = f"(setsid sh -c 'sleep {mark} & sleep {mark}' &) ; env -i setsid sleep {mark} &"
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
        assert child.stdout.readline() == b"ready\n"
        assert becomes(lambda: len([one for one in alive(mark) if "sleep" in one.split()[1]]) >= 5)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    assert gone(mark), alive(mark)
