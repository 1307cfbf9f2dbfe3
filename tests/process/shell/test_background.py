"""Commands behind a session: started, read on, waited for, stopped; or moved there (P11, BashOutput, KillShell)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.process.shell.shell_room import Kept, Room, alive, becomes, gone, new_mark

from ferrule.core.errors import ToolError


def test_it_starts_in_the_sessions_state_and_changes_none_of_it(room: Room) -> None:
    async def body(session: Kept) -> None:
        await session.run("x=1; mkdir d; cd d")
        kept = await session.start("echo $x ${PWD##*/}; x=2; cd /; exit 4")
        await asyncio.wait_for(kept.over.wait(), 20)
        read = kept.read_on()
        assert (read.text, kept.status, kept.exit_code, kept.id) == ("1 d\n", "ended", 4, "bash_1")
        assert (await session.run("echo $x ${PWD##*/}")).stdout == "1 d\n"

    room.use(body)


def test_one_that_is_cancelled_while_it_starts_is_ended(room: Room) -> None:
    """P6: whenever that is, nothing runs that nobody knows of."""

    async def body(session: Kept) -> None:
        mark = new_mark()
        await session.run("true")
        for milliseconds in (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20):
            starting = asyncio.ensure_future(session.start(f"sleep {mark}"))
            await asyncio.sleep(milliseconds / 1000)
            if starting.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await starting
                assert [one.id for one in session.background.list() if one.status == "running"] == []
                assert alive(mark) == []
            else:
                await session.background.stop((await starting).id)
        assert (await session.run("echo on")).stdout == "on\n"

    room.use(body)


def test_it_is_read_on_from_where_it_was_read(room: Room) -> None:
    async def body(session: Kept) -> None:
        kept = await session.start("echo one; read x <hold; echo $x >&2; read x <other")
        assert await kept.wait_for("one", timeout=20) == "one"
        assert kept.read_on().text == "one\n"
        assert kept.read_on().text == ""
        await session.run("echo two >hold")
        assert await kept.wait_for("two", timeout=20) == "two"
        assert kept.read_on().text == "two\n"
        assert kept.read_on(since=0).text == "one\ntwo\n"
        assert kept.status == "running"

    room.run("mkfifo hold other")
    room.use(body)


def test_too_much_for_one_reading_is_counted(plain: Room) -> None:
    async def body(session: Kept) -> None:
        kept = await session.start("seq 100000")
        await asyncio.wait_for(kept.over.wait(), 30)
        read = kept.read_on(most=1000)
        assert read.text.endswith("\n99999\n100000\n")
        assert read.left_out.lines + read.text.count("\n") == 100_000
        assert read.left_out.bytes + len(read.text) == 588_895
        assert read.spill is not None
        assert read.spill.read_bytes().startswith(b"1\n2\n")

    plain.use(body)


def test_stopping_it_ends_all_that_it_started(room: Room) -> None:
    mark = new_mark()

    async def body(session: Kept) -> None:
        kept = await session.start(f"trap '' TERM; sleep {mark} & (sleep {mark} | sleep {mark}) & sleep {mark}")
        assert await asyncio.to_thread(becomes, lambda: len(alive(f"sleep {mark}")) >= 4)
        assert (await session.background.stop(kept.id)).status == "stopped"
        assert alive(mark) == []
        assert (await session.run("echo on")).stdout == "on\n"

    room.use(body)


def test_its_end_by_a_signal_is_noticed(room: Room) -> None:
    async def body(session: Kept) -> None:
        kept = await session.start("kill -9 $BASHPID; sleep 60")
        await asyncio.wait_for(kept.over.wait(), 20)
        assert kept.exit_code == 137

    room.use(body)


def test_errexit_holds_in_it_and_its_end_is_still_told(room: Room) -> None:
    async def body(session: Kept) -> None:
        await session.run("set -e")
        kept = await session.start("echo a; false; echo b")
        await asyncio.wait_for(kept.over.wait(), 20)
        assert (kept.read_on().text, kept.exit_code) == ("a\n", 1)

    room.use(body)


def test_a_command_moves_there_when_its_time_is_up(room: Room) -> None:
    async def body(session: Kept) -> None:
        await session.run("x=1; mkfifo hold")
        ended = await session.run("x=2; echo one; read y <hold; echo $y; exit 5", timeout=1, may_move=True)
        assert (ended.timed_out, ended.exit_code, ended.stdout) == (True, None, "one\n")
        kept = session.background.get(str(ended.moved_to_background))
        assert "".join(ended.notes) == snapshot(
            "It goes on in the background as `bash_1`. The shell's folder and variables are as before this command."
        )
        assert (await session.run("echo $x")).stdout == "1\n"
        await session.run("echo two >hold")
        await asyncio.wait_for(kept.over.wait(), 20)
        assert (kept.read_on().text, kept.exit_code) == ("two\n", 5)

    room.use(body)


def test_one_that_may_not_move_is_ended(room: Room) -> None:
    mark = new_mark()

    async def body(session: Kept) -> None:
        ended = await session.run(f"sleep {mark}", timeout=0.3)
        assert (ended.timed_out, ended.moved_to_background) == (True, None)
        assert alive(mark) == []
        assert session.background.list() == []

    room.use(body)


def test_there_can_be_many_one_after_the_other(plain: Room) -> None:
    async def body(session: Kept) -> None:
        for number in range(30):
            kept = await session.start(f"echo {number}")
            await asyncio.wait_for(kept.over.wait(), 20)
            assert kept.read_on().text == f"{number}\n"

    plain.use(body)


def test_too_many_at_once_are_refused_and_do_not_move(plain: Room) -> None:
    mark = new_mark()

    async def body(session: Kept) -> None:
        for _ in range(20):
            await session.start("sleep 600")
        with pytest.raises(ToolError, match="Too many commands run in the background"):
            await session.start(f"sleep {mark}")
        assert (await session.run(f"sleep {mark}", timeout=0.3, may_move=True)).moved_to_background is None
        assert alive(mark) == []
        await session.background.stop("bash_3")
        assert (await session.start("true")).id == "bash_21"

    plain.use(body)


def test_an_unknown_one_names_those_there_are(plain: Room) -> None:
    async def body(session: Kept) -> None:
        await session.start("true")
        session.background.get("other")

    with pytest.raises(ToolError) as caught:
        plain.use(body)
    assert caught.value.suggestion == "Background commands: `bash_1`."


def test_waiting_ends_with_the_command_or_the_time(plain: Room) -> None:
    async def body(session: Kept) -> None:
        kept = await session.start("echo one; sleep 0.2; printf last")
        assert await kept.wait_for("never", timeout=20) is None
        assert await kept.wait_for("last", timeout=20) == "last"
        assert await kept.wait_for("n", timeout=20) == "one"
        assert await kept.wait_for("one", timeout=20, since=4) is None
        slow = await session.start("sleep 60")
        assert await slow.wait_for("never", timeout=0.2) is None

    plain.use(body)


def test_stopping_one_ends_also_what_has_no_parent_any_more(room: Room) -> None:
    """P11: a process whose parent ended is below nothing that is known of the command."""
    mark = new_mark()

    async def body(session: Kept) -> None:
        other = await session.start("sleep 600")
        kept = await session.start(f"(sleep {mark} &); (setsid sleep {mark} &); sleep {mark}")
        assert await asyncio.to_thread(becomes, lambda: len(alive(mark)) >= 3)
        await session.background.stop(kept.id)
        assert alive(mark) == []
        assert other.status == "running"
        assert other.running.box.processes() != []

    room.use(body)


def test_what_it_did_to_guarded_places_is_taken_back_before_its_end_is_told(folder: Path) -> None:
    room = Room(folder, "sandboxed")

    async def body(session: Kept) -> None:
        kept = await session.start("mkdir .vscode; echo {} >.vscode/tasks.json")
        await asyncio.wait_for(kept.over.wait(), 20)
        assert [(denial.kind, denial.subject) for denial in kept.denials] == [("guarded", ".vscode")]
        assert not (room.workspace / ".vscode").exists()

    room.use(body)


def test_what_it_leaves_behind_ends_with_it(room: Room) -> None:
    mark = new_mark()

    async def body(session: Kept) -> None:
        kept = await session.start(f"(setsid sleep {mark} &); echo on")
        await asyncio.wait_for(kept.over.wait(), 20)
        assert (kept.status, kept.exit_code, kept.read_on().text) == ("ended", 0, "on\n")
        assert alive(mark) == []

    room.use(body)


def test_one_whose_event_loop_is_gone_is_ended_and_said(room: Room) -> None:
    mark = new_mark()
    session = room.session()

    async def start() -> None:
        await session.run("x=1")
        await session.start(f"echo on; sleep {mark}")

    async def look() -> None:
        assert [(one.status, one.exit_code) for one in session.background.list()] == [("stopped", None)]
        assert alive(mark) == []
        assert (await session.run("echo $x")).stdout == "1\n"
        await session.session.close()

    asyncio.run(start())
    asyncio.run(look())


def test_it_can_be_stopped_from_another_event_loop(room: Room) -> None:
    mark = new_mark()

    async def body(session: Kept) -> None:
        kept = await session.start(f"sleep {mark}")
        stopped = await asyncio.to_thread(lambda: asyncio.run(session.background.stop(kept.id)))
        assert (stopped is kept, kept.status, alive(mark)) == (True, "stopped", [])

    room.use(body)


PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.process.shell.shell_room import opener_in
from ferrule.process.shell.session import ShellSession

shell, opener = ShellSession(folder=sys.argv[1]), opener_in(Path(sys.argv[1]), sys.argv[2])
command = f"setsid sleep {sys.argv[3]} & (setsid sleep {sys.argv[3]} &); sleep {sys.argv[3]}"
asyncio.run(shell.background.start(command, opener))
"""


def test_the_end_of_the_program_ends_them_all(room: Room) -> None:
    mark = new_mark()
    root = Path(__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root), *sys.path])}
    command = [sys.executable, "-c", PROGRAM, str(room.workspace), room.kind, mark]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert gone(mark, 0.5)
