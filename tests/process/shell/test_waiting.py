"""Waiting for input is told from quiet work, and can be answered."""

from __future__ import annotations

import asyncio

import pytest
from tests.process.shell.shell_room import Kept, Room, alive, new_mark

from ferrule.core.errors import ToolError
from ferrule.process.shell.session import Ended


@pytest.mark.parametrize(
    ("command", "answer", "prompt", "shown"),
    [
        ("read -p 'Name? ' x; echo got $x", "Bob\n", "Name? ", "Bob\ngot Bob\n"),
        ("python3 -c 'print(len(input(\"Word: \")))'", "four\n", "Word: ", "four\n4\n"),
        ("head -n 1", "line\n", "(no prompt)", "line\nline\n"),
        ("sh -c 'stty -echo; printf Password:; read p; stty echo; echo; echo $p'", "pw\n", "Password:", "\npw\n"),
    ],
)
def test_a_prompt_is_reported_and_answered(room: Room, command: str, answer: str, prompt: str, shown: str) -> None:
    async def body(session: Kept) -> None:
        waiting = await session.run(command, timeout=30, terminal=True)
        assert (waiting.exit_code, waiting.timed_out) == (None, False)
        assert waiting.waiting_for_input == prompt
        assert waiting.duration < 5
        ended = await session.answer(answer, timeout=30)
        assert (ended.exit_code, ended.stdout, ended.waiting_for_input) == (0, shown, None)
        assert (await session.run("echo on")).stdout == "on\n"

    room.use(body)


# What `vim` does without a terminal: it takes standard error for one, and waits to read from it.
TAKES_ERRORS_FOR_INPUT = "python3 -c 'import os, select; os.dup2(2, 0); select.select([0], [], [])'"


@pytest.mark.parametrize("command", [TAKES_ERRORS_FOR_INPUT, f"echo begun; {TAKES_ERRORS_FOR_INPUT} | cat; echo not"])
def test_one_that_waits_for_input_without_a_terminal_is_ended(room: Room, command: str) -> None:
    _, ended, after = room.run("x=1", command, "echo $x")
    assert (ended.exit_code, ended.timed_out, ended.starved) == (None, False, True)
    assert ended.duration < 5
    assert "not" not in ended.stdout
    assert after.stdout == "1\n"


@pytest.mark.parametrize(
    "command",
    [
        "cat",
        "read x </dev/tty",
        "python3 -c 'input()'",
        "python3 -c 'import getpass; getpass.getpass()'",
        "git init -q; git -c user.name=a -c user.email=a@b commit --allow-empty",
        "vim x",
        "less -f /dev/stdin",
        "npm init",
        "passwd",
        "ssh -o BatchMode=no nobody@127.0.0.1 true",
        "sudo -k ls",
        "node -i",
        "bash -i",
    ],
)
def test_nothing_that_asks_hangs_to_its_time_limit(room: Room, command: str) -> None:
    """A program that asks gets end of file, or is ended; one that is not installed here ends too."""
    ended = room.run(command, timeout=60)[0]
    assert not ended.timed_out


@pytest.mark.parametrize(
    "command", ["sleep 3", "sleep 3 | cat", "python3 -c 'import select; select.select([], [], [], 3)'"]
)
def test_quiet_work_without_a_terminal_is_not_ended(room: Room, command: str) -> None:
    assert room.run(command)[0].exit_code == 0


@pytest.mark.slow
def test_quiet_work_is_not_waiting(room: Room) -> None:
    async def body(session: Kept) -> list[Ended]:
        return [
            await session.run("echo working...; sleep 3; echo done", terminal=True),
            await session.run("printf half; sleep 3; echo", terminal=True),
        ]

    first, second = room.use(body)
    assert (first.waiting_for_input, first.stdout) == (None, "working...\ndone\n")
    assert (second.waiting_for_input, second.stdout) == (None, "half\n")


def test_ctrl_c_ends_what_waits(room: Room) -> None:
    mark = new_mark()

    async def body(session: Kept) -> None:
        await session.run("x=1")
        assert (await session.run(f"cat; sleep {mark}", terminal=True)).waiting_for_input == "(no prompt)"
        ended = await session.answer("\x03", timeout=20)
        assert ended.exit_code == 130
        assert alive(mark) == []
        assert (await session.run("echo $x")).stdout == "1\n"

    room.use(body)


def test_it_is_a_terminal_of_the_size_that_was_asked_for(room: Room) -> None:
    async def body(session: Kept) -> None:
        assert (await session.run("[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && stty size", terminal=True)).stdout == "20 90\n"
        session.session.resize(70, 10)
        assert (
            await session.run("stty size; printf '\\033[31mred\\033[0m\\n'", terminal=True)
        ).stdout == "10 70\nred\n"

    room.use(body)


def test_only_one_command_can_wait(plain: Room) -> None:
    async def body(session: Kept) -> None:
        with pytest.raises(ToolError, match="No command is waiting for input"):
            await session.answer("x\n")
        await session.run("cat", terminal=True)
        with pytest.raises(ToolError, match="is still waiting for input"):
            await session.run("echo no", terminal=True)
        assert (await session.answer("\x04", timeout=20)).exit_code == 0

    plain.use(body)


def test_a_session_that_waits_can_be_closed(room: Room) -> None:
    mark = new_mark()

    async def body(session: Kept) -> None:
        await session.run(f"sleep {mark} & cat", terminal=True)

    room.use(body)
    assert alive(mark) == []


def test_the_time_limit_holds_on_a_terminal(room: Room) -> None:
    async def body(session: Kept) -> None:
        ended = await asyncio.wait_for(session.run("sleep 60", timeout=0.5, terminal=True), 30)
        assert ended.timed_out

    room.use(body)


def test_a_program_that_takes_ctrl_c_goes_on(room: Room) -> None:
    program = "import sys\ntry: input('> ')\nexcept KeyboardInterrupt: print('caught', input('again> '))"

    async def body(session: Kept) -> None:
        (room.workspace / "ask.py").write_text(program)
        assert (await session.run("python3 ask.py; echo code $?", terminal=True)).waiting_for_input == "> "
        assert str((await session.answer("\x03", timeout=20)).waiting_for_input).endswith("again> ")
        assert (await session.answer("yes\n", timeout=20)).stdout == "yes\ncaught yes\ncode 0\n"

    room.use(body)


def test_what_was_set_on_a_terminal_stays(room: Room) -> None:
    async def body(session: Kept) -> None:
        await session.run("read -p 'x? ' x; cd /", terminal=True)
        await session.answer("5\n", timeout=20)
        assert (await session.run("echo $x; pwd")).stdout == "5\n/\n"

    room.use(body)


def test_others_run_while_one_waits_and_their_state_counts(room: Room) -> None:
    async def body(session: Kept) -> None:
        await session.run("read x; y=2", terminal=True)
        assert (await session.run("y=1; echo on")).stdout == "on\n"
        ended = await session.answer("5\n", timeout=20)
        assert [note.partition(".")[0] for note in ended.notes] == ["Another command ran in the meantime"]
        assert (await session.run("echo ${x-none} $y")).stdout == "none 1\n"

    room.use(body)


def test_much_output_on_a_terminal_is_whole(room: Room) -> None:
    async def body(session: Kept) -> None:
        ended = await session.run("seq 50000; exit 3", terminal=True)
        assert (ended.exit_code, ended.stdout.endswith("\n49999\n50000\n")) == (3, True)
        assert ended.spill is not None
        assert ended.spill.read_bytes().count(b"\n") == 50_000

    room.use(body)
