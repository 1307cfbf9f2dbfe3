"""What a session keeps, survives and tells (P6, P11, section 4: Bash)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.process.shell.shell_room import Kept, Room, alive, becomes, gone, new_mark, opener_in

from ferrule.core.errors import ToolError
from ferrule.process.launcher import children
from ferrule.process.output import LeftOut, Piece
from ferrule.process.shell.running import encoded, finished
from ferrule.process.shell.session import Ended

AS_BEFORE = "The shell's folder and variables are as before this command."
ENDED_ITSELF = f"It ended its own shell. {AS_BEFORE}"


def test_folder_variables_functions_options_and_aliases_stay(room: Room) -> None:
    made = "mkdir d; cd d; x='a  b'; arr=(1 '2 3'); declare -A m=([k]=v); export E=1; f() { echo f$1; }; "
    made += "shopt -s expand_aliases extglob; alias hi='echo hello'; set -u; set -- p 'q r'; umask 027"
    seen = room.out(
        made, 'echo ${PWD##*/} "$x" "${arr[1]}" ${m[k]} $E; f 2; hi\n[[ $- == *u* ]] && echo u; echo $# "$2"; umask'
    )
    assert seen == "d a  b 2 3 v 1\nf2\nhello\nu\n2 q r\n0027\n"


def test_a_virtual_environment_stays_active(room: Room) -> None:
    (room.workspace / "activate").write_text(
        'deactivate () {\n  export PATH="$_OLD"\n  unset -f deactivate\n  unset VIRTUAL_ENV\n}\n'
        'VIRTUAL_ENV="$PWD/venv"; export VIRTUAL_ENV; _OLD="$PATH"; PATH="$VIRTUAL_ENV/bin:$PATH"; export PATH\n'
    )
    seen = room.run(
        "mkdir -p venv/bin; printf '#!/bin/sh\\necho mine' >venv/bin/tool; chmod +x venv/bin/tool; source ./activate",
        "tool; sh -c 'echo ${VIRTUAL_ENV##*/}'",
        "deactivate",
        "tool; echo ${VIRTUAL_ENV-none}; declare -F deactivate",
    )
    assert seen[1].stdout == "mine\nvenv\n"
    assert seen[3].stdout == "none\n"
    assert "tool: command not found" in seen[3].stderr


def test_what_is_exported_reaches_programs_and_what_is_not_does_not(room: Room) -> None:
    seen = room.out(
        "export A=1; B=2; f() { echo f; }; g() { echo g; }; export -f g",
        "bash -c 'echo ${A-none} ${B-none}; f; g' 2>/dev/null; env | grep -c BASH_FUNC",
    )
    assert seen == "1 none\ng\n1\n"


def test_a_variable_of_the_environment_that_was_unset_stays_unset(room: Room) -> None:
    assert room.out("unset PAGER", "true", "echo ${PAGER-none}", "PAGER=less") == ""
    assert room.out("unset PAGER", "true", "echo ${PAGER-none}") == "none\n"


def test_the_folder_before_is_known(room: Room) -> None:
    assert room.out("mkdir -p d/e; cd d; cd e", "true", "cd -; declare -p OLDPWD").splitlines() == [
        f"{room.workspace}/d",
        f'declare -x OLDPWD="{room.workspace}/d/e"',
    ]
    assert room.out("true", "declare -p OLDPWD") == "declare -x OLDPWD\n"


def test_a_folder_with_any_name_can_be_gone_to(room: Room) -> None:
    name = "a 'b' $(c)\n\udcff\n"
    (room.workspace / name).mkdir()
    ended, after = room.run("cd a*", "pwd; touch here")
    assert ended.cwd == f"{room.workspace}/{name}"
    assert [path.name for path in (room.workspace / name).iterdir()] == ["here"]
    assert after.exit_code == 0


def test_the_exit_code_is_there_for_the_next_command(room: Room) -> None:
    assert room.out("(exit 7)", "echo $?") == "7\n"
    assert room.out("(exit 7)", "set -x", "(exit 8)", "echo $? 2>/dev/null") == "8\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 3", 3),
        ("exec true", 0),
        ("set -e; false; echo not", 1),
        ("set -u; echo $nope; echo not", 1),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("f() { local y=3; exit 5; }; f", 5),
        ("set -n", 0),
    ],
)
def test_a_command_that_ends_its_shell_leaves_the_state_as_it_was(room: Room, command: str, code: int) -> None:
    _, ended, after = room.run("x=1; cd /", f"x=2; cd /usr; {command}", "echo $x ${y-none}; pwd")
    assert ended.exit_code in (
        (1, 127) if "nope" in command else (code,)
    )  # bash counts that one differently by version
    assert (ended.stdout, ended.notes, ended.cwd, ended.state) == ("", (ENDED_ITSELF,), "/", None)
    assert after.stdout == "1 none\n/\n"


def test_errexit_stays_and_ends_a_command_at_its_failure(room: Room) -> None:
    _, ended, after = room.run(
        "set -euo pipefail; x=1", "echo a; false; echo not", "echo $x $-; set -o | grep pipefail"
    )
    assert (ended.exit_code, ended.stdout) == (1, "a\n")
    assert after.stdout == "1 ehuBc\npipefail       \ton\n"


def test_a_trap_on_exit_runs_at_the_end_of_its_command(room: Room) -> None:
    ended, exited, after = room.run(
        "trap 'echo bye; echo err >&2' EXIT; echo hi", "trap 'echo out' EXIT; exit 2", "true"
    )
    assert (ended.stdout, ended.stderr, ended.exit_code, ended.notes) == ("hi\nbye\n", "err\n", 0, ())
    assert (exited.stdout, exited.exit_code) == ("out\n", 2)
    assert after.stdout == ""


def test_what_cannot_be_kept_is_said(room: Room) -> None:
    ended = room.run("trap 'echo usr' USR1; a/b() { :; }; builtin() { :; }; c() { :; }; exec() { :; }; pushd / >x")[0]
    assert ended.notes == snapshot(
        (
            "Traps are not kept for the next command: SIGUSR1.",
            "The function `a/b` cannot be kept for the next command.",
            "The directory stack of `pushd` is not kept for the next command.",
        )
    )
    assert ended.state is not None
    assert (list(ended.state.functions), ended.cwd) == (["c"], "/")


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("echo 'abc", "bash: line 1: unexpected EOF while looking for matching `''\n"),
        ("echo $((", "bash: line 1: unexpected EOF while looking for matching `)'\n"),
        ("if true; then echo a", "bash: line 2: syntax error: unexpected end of file\n"),
        ("echo a\n)", "bash: line 2: syntax error near unexpected token `)'\nbash: line 2: `)'\n"),
    ],
)
def test_a_syntax_error_is_the_commands_own(room: Room, command: str, complaint: str) -> None:
    _, ended, after = room.run("x=1", f"x=2\n{command}", "echo $x")
    assert ended.exit_code == 2
    lines = [line.replace("line 2:", "line 1:").replace("line 3:", "line 2:") for line in ended.stderr.splitlines(True)]
    assert "".join(lines) == complaint
    assert after.stdout == "2\n"


def test_errors_count_lines_from_the_commands_first(room: Room) -> None:
    ended = room.run(
        "true", "f() {\n\nnosuch; }", "echo a\nnosuch\necho $LINENO\nbash -c nosuch\nf\ng() {\nnosuch\n}\ng"
    )
    assert ended[-1].stdout == "a\n3\n"
    assert ended[-1].stderr.splitlines() == snapshot(
        [
            "bash: line 2: nosuch: command not found",
            "bash: line 1: nosuch: command not found",
            "bash: line 1: nosuch: command not found",
            "bash: line 7: nosuch: command not found",
        ]
    )


@pytest.mark.parametrize(
    "command",
    [
        "exec >/dev/null 2>&1 </etc/passwd",
        "exec 0<&- 1>&- 2>&-",
        'for ((i = 3; i < 64; i++)); do eval "exec $i>&-" 2>/dev/null; done',
        "trap 'echo dbg' DEBUG; trap 'echo err' ERR; trap 'echo ret' RETURN; set -ET",
        "PS1='$(exit 9)'; PS4='$(exit 9)'; PROMPT_COMMAND='exit 9'; set -x; set +x",
        "set -u; set -f; set -o pipefail; set -o noclobber; shopt -s nullglob failglob",
        "IFS=xyz; readonly IFS",
        "IFS=02345",
        "set -o posix",
        "set -v; set -k; set -o physical",
        "printf() { :; }; read() { :; }; eval() { :; }; pwd() { :; }; mapfile() { :; }; declare() { :; }",
        "trap() { :; }; shopt() { :; }; umask() { :; }; jobs() { :; }; compgen() { :; }; kill() { :; }",
        "builtin() { :; }",
        "exec() { :; }",
        "alias builtin=false . =false eval=false for=false if=false [[=false {=false; shopt -s expand_aliases",
        "unset -v BASH_EXECUTION_STRING; unset PWD",
        "readonly BASH_EXECUTION_STRING __ferrule __ferrule_own",
        "POSIXLY_CORRECT=1; BASH_COMPAT=4.2",
        "LC_ALL=C; export LC_ALL",
        "enable -n printf declare eval mapfile builtin",
        "break; continue; return 5 2>/dev/null; :",
        "exit() { :; }; unset() { :; }; set() { :; }; builtin() { :; }",
    ],
)
def test_nothing_a_command_does_to_the_shell_breaks_the_next(room: Room, command: str) -> None:
    results = room.run("x=1", command, "\\echo $x", "command echo last")
    assert [one.exit_code for one in results[2:]] == [0, 0]
    assert "1\n" in results[2].stdout
    assert "last\n" in results[3].stdout


def test_nothing_of_ours_is_kept_or_seen(room: Room) -> None:
    seen = room.run("x=1", "declare -f; alias; trap -p; compgen -v __ferrule; echo $BASH_EXECUTION_STRING; echo $# $0")[
        1
    ]
    assert seen.stdout == (
        "declare -f; alias; trap -p; compgen -v __ferrule; echo $BASH_EXECUTION_STRING; echo $# $0\n0 bash\n"
    )
    assert seen.state is not None
    assert dict(seen.state.variables).keys() == {"x"}


def test_whoever_is_given_up_on_while_a_command_ends_leaves_nothing_behind(room: Room) -> None:
    """The end of a command is seen through, also when nobody is there any more."""
    mark = new_mark()

    async def body(session: Kept) -> None:
        await session.run("x=1")
        running = session.run(f"trap '' TERM; (trap '' TERM; sleep {mark}; sleep {mark}) & sleep {mark}; sleep {mark}")
        task = asyncio.ensure_future(awaited(running))
        assert await asyncio.to_thread(becomes, lambda: len(alive(f"sleep {mark}")) >= 2)
        task.cancel()
        await asyncio.sleep(0.1)
        running.close()  # as the runtime does with what does not stop
        task.cancel()
        await asyncio.wait({task})
        ended = await session.run("echo $x")
        assert (ended.stdout, ended.exit_code) == ("1\n", 0)

    room.use(body)
    assert alive(mark) == []


def test_one_that_ends_with_the_launcher_says_so_and_the_next_one_runs(room: Room) -> None:
    mark = new_mark()

    async def body(session: Kept) -> tuple[Ended, Ended]:
        running = asyncio.ensure_future(session.run(f"x=1; sleep {mark}"))
        assert await asyncio.to_thread(becomes, lambda: alive(f"sleep {mark}"))
        (launcher,) = [
            pid for pid in children(os.getpid()) if b"launcher.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        os.kill(launcher, signal.SIGKILL)
        return await running, await session.run("echo ${x-unset}")

    killed, after = room.use(body)
    assert killed.exit_code == 137
    assert killed.notes == (
        f"The process of Ferrule that starts commands was killed, and this one with it. {AS_BEFORE}",
    )
    assert (after.stdout, alive(mark)) == ("unset\n", [])


def test_one_that_is_given_up_on_without_a_word_is_ended(room: Room) -> None:
    mark = new_mark()

    async def body(session: Kept) -> None:
        running = session.session.run(f"sleep {mark}", room.opener)
        task = asyncio.ensure_future(awaited(running))
        assert await asyncio.to_thread(becomes, lambda: alive(f"sleep {mark}"))
        running.close()  # without a cancellation, which could be waited for
        task.cancel()
        await asyncio.wait({task})
        assert await asyncio.to_thread(gone, mark)

    room.use(body)


async def awaited(running: Awaitable[Ended]) -> Ended:
    return await running


def test_a_folder_that_is_gone(room: Room) -> None:
    made, gone_now, there = room.run("mkdir d; cd d; rmdir ../d", "echo still", "pwd")
    assert made.cwd == f"{room.workspace}/d"
    assert gone_now.notes == (
        f"The folder `{room.workspace}/d` no longer exists; the shell started in `{room.workspace}`.",
    )
    assert (gone_now.stdout, there.stdout, there.notes) == ("still\n", f"{room.workspace}\n", ())


def test_here_documents_lines_and_any_script(room: Room) -> None:
    assert room.out("cat <<'E'\nété 中文 🎉 $x\nE\nfor i in 1 2; do\n echo $i\ndone") == "été 中文 🎉 $x\n1\n2\n"


def test_a_command_of_a_megabyte(room: Room) -> None:
    text = "x" * (1 << 20)
    assert room.out(f"v={text}; echo ${{#v}}", "echo ${#v}") == f"{1 << 20}\n"


def test_a_state_that_is_too_large_is_not_kept_and_that_is_said(plain: Room) -> None:
    large, ended, after = plain.run(
        "v=$(head -c 6000000 /dev/zero | tr '\\0' x)", "w=$v; u=1", "echo ${#v} ${#w} ${u-none}"
    )
    assert large.notes == ()
    assert ended.notes == (f"The session's variables and functions take more than 8 MiB. {AS_BEFORE}",)
    assert after.stdout == "6000000 0 none\n"


def test_a_nul_is_refused(plain: Room) -> None:
    with pytest.raises(ToolError, match="NUL character"):
        plain.run("echo a\0b")


def test_there_is_nothing_to_read_and_no_terminal(room: Room) -> None:
    ended = room.run("cat; read x; echo $?; : </dev/tty || echo no terminal; tty")[0]
    assert ended.stdout == "1\nno terminal\nnot a tty\n"


def test_streams_are_apart_and_in_order(room: Room) -> None:
    script = "for i in 1 2 3; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done"
    ended = room.run(script)[0]
    assert (ended.stdout, ended.stderr) == ("o1\no2\no3\n", "e1\ne2\ne3\n")
    assert "".join(piece.text for piece in ended.pieces) == "o1\ne1\no2\ne2\no3\ne3\n"


def test_output_is_shown_while_it_comes(room: Room) -> None:
    async def body(session: Kept) -> list[Piece]:
        seen: list[Piece] = []
        first = asyncio.Event()

        def on_output(piece: Piece) -> None:
            seen.append(piece)
            first.set()

        running = asyncio.create_task(session.run("echo first; read x <hold; echo $x", on_output=on_output))
        await first.wait()
        assert seen == [Piece("stdout", "first\n")]
        await asyncio.to_thread((room.workspace / "hold").write_text, "second\n")
        await running
        return seen

    subprocess.run(["mkfifo", room.workspace / "hold"], check=True)
    assert room.use(body)[-1] == Piece("stdout", "second\n")


def test_a_command_inherits_three_descriptors_alone(room: Room) -> None:
    assert room.out("ls /proc/self/fd | wc -l; (ls /proc/self/fd | wc -l)") == "4\n4\n"


def test_what_others_write_into_the_private_file_is_not_taken(room: Room) -> None:
    """Anything in a box may find it: what is there is read as data from a stranger."""
    forge = (
        "for fd in /proc/$$/fd/*; do case $(readlink $fd) in *memfd*) "
        "printf 'x\\0end\\0declare -- pwned=$(touch /tmp/pwned)\\n\\0end' >$fd;; esac; done; echo end"
    )
    _, ended, after = room.run("x=1", forge, "echo $x ${pwned-none}")
    assert ended.stdout == "end\n"
    assert after.stdout == "1 none\n"


def test_no_secret_of_ours_is_within_reach(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    seen = room.out("env; set; tr '\\0' '\\n' </proc/$PPID/environ; ps eww -e -o pid,args 2>/dev/null | grep -v python")
    assert "verysecret" not in seen
    assert "LANG=C.UTF-8" in seen


def test_sessions_run_side_by_side(plain: Room) -> None:
    async def main() -> list[str]:
        sessions = [plain.session() for _ in range(20)]
        try:
            await asyncio.gather(*(one.run(f"x={number}") for number, one in enumerate(sessions)))
            results = await asyncio.gather(*(one.run("sleep 0.1; echo $x") for one in sessions))
            return [one.stdout for one in results]
        finally:
            await asyncio.gather(*(one.session.close() for one in sessions))

    assert asyncio.run(main()) == [f"{number}\n" for number in range(20)]


def test_commands_of_one_session_wait_for_each_other(room: Room) -> None:
    async def body(session: Kept) -> list[Ended]:
        return await asyncio.gather(*(session.run(f"echo {n} >>log; sleep 0.05; echo {n} >>log") for n in range(4)))

    room.use(body)
    assert (room.workspace / "log").read_text() == "0\n0\n1\n1\n2\n2\n3\n3\n"


def test_another_event_loop_goes_on_in_the_same_state(room: Room) -> None:
    session = room.session()
    asyncio.run(session.run("x=1; cd /"))

    async def again() -> str:
        try:
            return (await session.run("echo $x; pwd")).stdout
        finally:
            await session.session.close()

    assert asyncio.run(again()) == "1\n/\n"


def test_a_state_that_is_not_kept_changes_nothing(room: Room) -> None:
    async def body(session: Kept) -> None:
        await session.run("x=1")
        dropped = await session.session.run("x=2; cd /", room.opener)
        assert (dropped.cwd, session.session.folder) == ("/", str(room.workspace))
        assert (await session.run("echo $x")).stdout == "1\n"

    room.use(body)


def test_names_that_an_unapproved_command_changed_are_tainted(room: Room) -> None:
    async def body(session: Kept) -> None:
        first = (await session.run("umask")).stdout.strip()
        tried = await session.session.run(
            "x=1; export Y=2; git() { evil; }; alias ls=evil; cd /; umask 0111", room.opener
        )
        session.session.keep(tried, tainted=True)
        assert session.session.state.tainted == {"Y", "git", "ls", "umask"}
        await session.run("export Z=1; PATH=$PATH:/x; Y=3")
        assert session.session.state.tainted == {"Y", "git", "ls", "umask"}
        await session.run(f"unset -f git; unalias ls; unset Y; umask {first}")
        assert session.session.state.tainted == frozenset()

    room.use(body)


def test_the_umask_of_the_first_command_is_tainted_only_where_it_changed_it(room: Room) -> None:
    async def body(session: Kept) -> None:
        session.session.keep(await session.session.run("true", room.opener), tainted=True)
        assert session.session.state.tainted == frozenset()
        session.session.keep(await session.session.run("umask 000", room.opener), tainted=True)
        assert session.session.state.tainted == {"umask"}

    room.use(body)


def test_a_closed_session_says_so(plain: Room) -> None:
    async def main() -> None:
        session = plain.session()
        await session.run("true")
        await session.session.close()
        await session.session.close()
        await session.run("true")

    with pytest.raises(ToolError, match="closed"):
        asyncio.run(main())


def test_closing_ends_a_command_that_runs(room: Room) -> None:
    mark = new_mark()

    async def main() -> Ended:
        session = room.session()
        running = asyncio.create_task(session.run(f"sleep {mark}"))
        assert await asyncio.to_thread(becomes, lambda: alive(f"sleep {mark}"))
        await session.session.close()
        assert alive(mark) == []
        return await running

    assert asyncio.run(main()).exit_code in (137, 143)


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_box_that_cannot_be_opened_leaves_nothing_open(plain: Room) -> None:
    async def refuse(*_: object) -> None:
        raise ToolError("no box")

    async def body(session: Kept) -> None:
        await session.run("x=1")
        before = _descriptors()
        for _ in range(3):
            with pytest.raises(ToolError, match="no box"):
                await session.session.run("true", refuse)  # pyright: ignore[reportArgumentType]
        assert _descriptors() <= before
        assert (await session.run("echo $x")).stdout == "1\n"

    plain.use(body)


def test_many_commands_leave_nothing_open(room: Room) -> None:
    async def body(session: Kept) -> None:
        await session.run("x=1")
        before = _descriptors()
        for number in range(10):
            await session.run(f"echo {number}", terminal=number % 2 == 1)
        assert _descriptors() <= before

    room.use(body)


def test_what_the_sandbox_took_back_is_told(folder: Path) -> None:
    room = Room(folder, "sandboxed")
    ended = room.run("mkdir .vscode; echo {} >.vscode/tasks.json; echo done")[0]
    assert ended.stdout == "done\n"
    assert [(denial.kind, denial.subject) for denial in ended.denials] == [("guarded", ".vscode")]
    assert not (room.workspace / ".vscode").exists()


def test_one_session_may_use_one_box_and_then_another(folder: Path) -> None:
    """The state goes from a box without network and with the workspace read-only to one that may write."""
    room = Room(folder, "sandboxed")
    look = opener_in(room.workspace, "sandboxed", look=True)

    async def body(session: Kept) -> None:
        tried = await session.session.run("x=$(echo hi >made && echo wrote || echo read-only)", look)
        session.session.keep(tried, tainted=True)
        assert (await session.run("echo $x; touch made")).stdout == "read-only\n"
        assert (room.workspace / "made").exists()

    room.use(body)


def test_what_a_plain_command_gives(room: Room) -> None:
    ended = room.run("echo out; echo err >&2; cd /; false")[0]
    assert (ended.exit_code, ended.stdout, ended.stderr, ended.cwd) == (1, "out\n", "err\n", "/")
    assert sorted(ended.pieces, key=lambda piece: piece.text) == snapshot(
        [Piece(stream="stderr", text="err\n"), Piece(stream="stdout", text="out\n")]
    )
    assert (ended.left_out, ended.spill, ended.timed_out) == (LeftOut(), None, False)
    assert (ended.moved_to_background, ended.waiting_for_input) == (None, None)
    assert (ended.denials, ended.notes) == ((), ())
    assert ended.duration > 0


def test_much_output_of_a_failed_command_is_in_a_file(room: Room) -> None:
    ended = room.run("seq 200000; exit 9")[0]
    assert ended.exit_code == 9
    assert ended.spill is not None
    assert ended.spill.read_text() == "".join(f"{number}\n" for number in range(1, 200001))
    assert ended.stdout.startswith("1\n2\n3\n")
    assert ended.stdout.endswith("\n199999\n200000\n")
    assert ended.left_out.lines + sum(piece.text.count("\n") for piece in ended.pieces if piece.stream) == 200_000


def test_bytes_that_are_no_text(room: Room) -> None:
    ended = room.run("head -c 300000 /dev/urandom; printf '\\377\\n'")[0]
    assert ended.exit_code == 0
    assert ended.spill is not None
    assert ended.spill.stat().st_size == 300_002


def test_what_is_just_ending_has_a_moment_to_write(room: Room) -> None:
    ended = room.run("exec > >(sort); echo b; echo a; (sleep 0.05; echo c) &")[0]
    assert (ended.stdout, ended.notes) == ("a\nb\nc\n", ())


def test_work_is_seen_through_before_a_cancellation_goes_on() -> None:
    async def main() -> list[str]:
        done: list[str] = []

        async def work() -> None:
            await asyncio.sleep(0.05)
            done.append("work")

        task = asyncio.create_task(finished(work()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return done

    assert asyncio.run(main()) == ["work"]


def test_what_fails_fails() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(finished(work()))


def test_any_bytes_can_be_a_command() -> None:
    assert encoded("é\udcff") == "é".encode() + b"\xff"


CHANGES = st.sampled_from(
    [
        "x=$((${x:-0} + 1))", "y=\"$x two\"", "unset x", "readonly r=1 2>/dev/null", "export x",
        "declare -i n=3",
        "n+=4", "a=(1 2 3)", "a+=(four)", "unset 'a[1]'", "declare -A h=([k]='v w')", "h[j]=2", "f() { echo f $x; }",
        "g() { local x=9; f; }", "unset -f f", "f", "g", "mkdir -p d", "cd d 2>/dev/null",
        "[[ ${PWD##*/} != d ]] || cd ..", "pwd", "set -u",
        "set +u", "shopt -s extglob", "shopt -u extglob", "set -- a 'b c'", "shift 2>/dev/null", "umask 027", "false",
        "(exit 3)", "echo $?", "IFS=,", "unset IFS", "z=$'a\\nb\\001\\377'", "declare -n ref=x; ref=via",
        "alias ll='echo ll'", "OLD=$OLDPWD", "cd -", "printf -v p '%03d' 7", "read -r q <<<'one two'",
        "set -o pipefail", "h2() { cat <<E\n$x\nE\n}", "h2", "export -f g", "bash -c g", "unset PAGER",
        "export PAGER=x",
    ]
)  # fmt: skip
SHOW = (
    "declare -p x y r n a h z p q OLD PAGER 2>/dev/null; declare -f; declare -F; shopt extglob;"
    " set -o | grep -E 'nounset|pipefail'; alias; umask; pwd; echo \"$# $*\"; declare -p IFS"
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CHANGES, min_size=1, max_size=12))
def test_the_session_ends_in_the_state_of_one_script(plain: Room, changes: list[str]) -> None:
    subprocess.run(["rm", "-rf", plain.workspace / "d"], check=True)
    script = "\n".join([f"cd {plain.workspace}; unset -v OLDPWD", *changes, "echo ====", SHOW])
    bare = subprocess.run(
        ["bash", "--noprofile", "--norc"], input=script.encode(), capture_output=True, env=os.environ | {"PAGER": "cat"}
    )
    assume(b"====" in bare.stdout)  # it did not end itself on the way, as `set -u` may make it
    subprocess.run(["rm", "-rf", plain.workspace / "d"], check=True)
    assert plain.out(*changes, SHOW) == bare.stdout.decode(errors="replace").rpartition("====\n")[2]
