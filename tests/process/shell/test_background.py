"""Commands behind a session: started, read on, waited for, stopped; or moved there (P11, BashOutput, KillShell)."""

from __future__ import annotations

import asyncio
import signal

import pytest
from tests.process.shell.shell_room import Room, alive, becomes, new_mark

from ferrule.core.errors import ToolError
from ferrule.process.shell import background
from ferrule.process.shell.shell_session import ShellSession


def test_it_starts_in_the_sessions_state_and_changes_none_of_it(room: Room) -> None:
    async def body(session: ShellSession) -> None:
        await session.run("x=1; mkdir d; cd d")
        kept = await session.background.start("echo $x ${PWD##*/}; x=2; cd /; exit 4")
        await asyncio.wait_for(kept.over.wait(), 20)
        read = kept.read_on()
        assert (read.text, read.status, read.exit_code, read.id) == ("1 d\n", "ended", 4, "main_1")
        assert (await session.run("echo $x ${PWD##*/}")).stdout == "1 d\n"

    room.use(body)


def test_one_that_is_cancelled_while_it_starts_is_ended(room: Room) -> None:
    """P6: whenever that is, nothing runs that nobody knows of."""

    async def body(session: ShellSession) -> None:
        mark = new_mark()
        await session.run("true")
        for milliseconds in (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20):
            starting = asyncio.ensure_future(session.background.start(f"sleep {mark}"))
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
    async def body(session: ShellSession) -> None:
        kept = await session.background.start("echo one; read x <hold; echo $x >&2; read x <other")
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
    async def body(session: ShellSession) -> None:
        kept = await session.background.start("seq 100000")
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

    async def body(session: ShellSession) -> None:
        kept = await session.background.start(
            f"trap '' TERM; sleep {mark} & (sleep {mark} | sleep {mark}) & sleep {mark}"
        )
        assert await asyncio.to_thread(becomes, lambda: len(alive(f"sleep {mark}")) >= 4)
        assert (await session.background.stop(kept.id)).status == "stopped"
        assert alive(mark) == []
        assert (await session.run("echo on")).stdout == "on\n"

    room.use(body)


def test_its_end_by_a_signal_is_noticed(room: Room) -> None:
    async def body(session: ShellSession) -> None:
        kept = await session.background.start("kill -9 $BASHPID; sleep 60")
        await asyncio.wait_for(kept.over.wait(), 20)
        assert kept.exit_code == 137
        outer = await session.background.start("kill -9 $PPID; kill -9 $(ps -o ppid= -p $BASHPID); sleep 60")
        await asyncio.sleep(0)
        assert outer.id == "main_2"

    room.use(body)


def test_its_exit_code_is_known_as_soon_as_its_end_is(room: Room) -> None:
    async def body(session: ShellSession) -> None:
        kept = await session.background.start("read x <hold; exit 4")
        [root] = kept.roots
        (room.workspace / "hold").write_text("on\n")  # from here on the loop does not turn
        assert becomes(lambda: not root.alive)
        assert [(one.status, one.exit_code) for one in session.background.list()] == [("ended", 4)]

    room.run("mkfifo hold")
    room.use(body)


def test_errexit_holds_in_it_and_its_end_is_still_told(room: Room) -> None:
    async def body(session: ShellSession) -> None:
        await session.run("set -e")
        kept = await session.background.start("echo a; false; echo b")
        await asyncio.wait_for(kept.over.wait(), 20)
        assert (kept.read_on().text, kept.exit_code) == ("a\n", 1)

    room.use(body)


def test_a_command_moves_there_when_its_time_is_up(room: Room) -> None:
    async def body(session: ShellSession) -> None:
        await session.run("x=1; mkfifo hold; echo here >/tmp/file")
        ended = await session.run("x=2; echo one; read y <hold; echo $y; exit 5", timeout=0.5, move_to_background=True)
        assert (ended.timed_out, ended.exit_code, ended.stdout) == (True, None, "one\n")
        kept = session.background.get(str(ended.moved_to_background))
        assert (await session.run("echo $x; cat /tmp/file")).stdout == "1\nhere\n", "the same /tmp, the earlier state"
        await session.run("echo two >hold")
        await asyncio.wait_for(kept.over.wait(), 20)
        assert (kept.read_on().text, kept.exit_code) == ("two\n", 5)

    room.use(body)


def test_as_many_as_there_is_room_for_can_move(plain: Room) -> None:
    mark = new_mark()

    async def body(session: ShellSession) -> None:
        moved = [await session.run(f"sleep {mark}", timeout=0.3, move_to_background=True) for _ in range(3)]
        assert [one.moved_to_background for one in moved] == ["main_1", "main_2", None]
        assert len(alive(f"sleep {mark}")) == 2
        for one in ("main_1", "main_2"):
            await session.background.stop(one)
        assert alive(mark) == []
        again = await session.run(f"sleep {mark}", timeout=0.3, move_to_background=True)
        assert again.moved_to_background == "main_3"

    plain.use(body)


def test_output_of_what_was_left_behind_stays_apart(room: Room) -> None:
    async def body(session: ShellSession) -> None:
        await session.run("mkfifo hold; (read x <hold; echo late $x) & echo now")
        await session.run("echo word >hold; sleep 0.2")
        assert (await session.run("echo next")).stdout == "next\n"
        assert session.background.get("main_1").read_on().text == "late word\n"
        assert [one.status for one in session.background.list()] == ["ended"]

    room.use(body)


def test_there_can_be_many_one_after_the_other(plain: Room) -> None:
    async def body(session: ShellSession) -> None:
        for number in range(30):
            kept = await session.background.start(f"echo {number}")
            await asyncio.wait_for(kept.over.wait(), 20)
            assert kept.read_on().text == f"{number}\n"

    plain.use(body)


def test_too_many_at_once_are_refused(plain: Room) -> None:
    async def body(session: ShellSession) -> None:
        for _ in range(20):
            await session.background.start("sleep 60")

    with pytest.raises(ToolError, match="Too many commands run in the background"):
        plain.use(body)


def test_an_unknown_one_names_those_there_are(plain: Room) -> None:
    async def body(session: ShellSession) -> None:
        await session.background.start("true")
        session.background.get("other")

    with pytest.raises(ToolError) as caught:
        plain.use(body)
    assert caught.value.suggestion == "Those there are: `main_1`."


def test_waiting_ends_with_the_command_or_the_time(plain: Room) -> None:
    async def body(session: ShellSession) -> None:
        kept = await session.background.start("echo one; sleep 0.2; printf last")
        assert await kept.wait_for("never", timeout=20) is None
        assert await kept.wait_for("last", timeout=20) == "last"
        assert await kept.wait_for(r"^o.e$", regex=True, timeout=20) == "one"
        slow = await session.background.start("sleep 60")
        assert await slow.wait_for("never", timeout=0.2) is None

    plain.use(body)


def test_stopping_one_ends_also_what_has_no_parent_any_more(room: Room) -> None:
    """P11: a process whose parent ended is below nothing that is known of the command."""
    mark = new_mark()

    async def body(session: ShellSession) -> None:
        other = await session.background.start("sleep 600")
        kept = await session.background.start(f"(sleep {mark} &); (setsid sleep {mark} &); sleep {mark}")
        assert await asyncio.to_thread(becomes, lambda: len(alive(mark)) >= 3)
        await session.background.stop(kept.id)
        assert alive(mark) == []
        assert other.status == "running"
        assert all(root.alive for root in other.roots)

    room.use(body)


def test_one_that_nobody_heard_begin_is_not_left_running(plain: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = new_mark()

    async def body(session: ShellSession) -> None:
        await session.run("x=1")
        guard = session._shell.guard
        assert guard is not None
        free = [*guard.free_pairs]
        monkeypatch.setattr(background, "_SECONDS_TO_START", 0.3)
        guard.loop.add_reader(guard.descriptors.reports, lambda: None)  # as when there is no time to listen
        with pytest.raises(ToolError, match="could not be started in the background"):
            await session.background.start(f"echo begun; sleep {mark}")
        guard.loop.add_reader(guard.descriptors.reports, guard.hear_reports)
        assert alive(mark) == []
        assert sorted(guard.free_pairs) == free
        assert session.background.list() == []
        monkeypatch.undo()
        assert (await session.run("echo $x")).stdout == "1\n"

    plain.use(body)


def test_one_that_the_shell_did_not_begin_in_time_is_not_begun_later(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: it was told that it could not be started, and would run behind everybody's back."""
    mark = new_mark()

    async def body(session: ShellSession) -> None:
        other = await session.background.start("sleep 600")
        await session.run("x=1")
        shell, saving = session._shell._shell, session._shell.saving
        assert shell is not None
        assert saving is not None
        await saving  # stopped before that, it could not save what there is
        monkeypatch.setattr(background, "_SECONDS_TO_START", 0.1)
        shell.signal(signal.SIGSTOP)
        with pytest.raises(ToolError, match="could not be started in the background"):
            await session.background.start(f"touch begun; sleep {mark}")
        monkeypatch.undo()
        shell.signal(signal.SIGCONT)
        assert (await session.run("echo $x; ls begun")).stdout == "1\n"
        assert alive(mark) == []
        assert other.status == "running"

    room.use(body)
