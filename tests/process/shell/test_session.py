"""What a session keeps, survives and tells (P6, P11, section 4: Bash)."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.process.shell.shell_room import Room, alive, becomes, new_mark

from ferrule.core.errors import ToolError
from ferrule.process.output import Piece
from ferrule.process.shell.ended import Ended
from ferrule.process.shell.shell_session import ShellSession

AFRESH = (
    "The shell itself was ended and started afresh. "
    "Variables, functions and options are as they were before this command."
)


def test_folder_variables_functions_options_and_aliases_stay(room: Room) -> None:
    made = "mkdir d; cd d; x='a  b'; arr=(1 '2 3'); declare -A m=([k]=v); export E=1; f() { echo f$1; }; "
    made += "shopt -s expand_aliases extglob; alias hi='echo hello'; set -u; set -- p 'q r'; umask 027"
    seen = room.out(
        made, 'echo ${PWD##*/} "$x" "${arr[1]}" ${m[k]} $E; f 2; hi\n[[ $- == *u* ]] && echo u; echo $# "$2"; umask'
    )
    assert seen == "d a  b 2 3 v 1\nf2\nhello\nu\n2 q r\n0027\n"


def test_exit_ends_the_command_and_not_the_session(room: Room) -> None:
    ended, after = room.run("cd /; x=5; f() { echo $x; }; exit 3; echo not", "f; pwd; echo $?")
    assert (ended.exit_code, ended.stdout, ended.notes, ended.cwd) == (3, "", (), "/")
    assert after.stdout == "5\n/\n0\n"


def test_the_exit_code_is_there_for_the_next_command(room: Room) -> None:
    assert room.out("(exit 7)", "echo $?") == "7\n"
    assert room.run("exit 4", "echo $?")[1].stdout == "4\n"


def test_errexit_ends_the_command_at_its_failure(room: Room) -> None:
    ended, after = room.run("set -e; x=1; false; echo not", "echo $x $-; set +e; false; echo on")
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert after.stdout == "1 ehBs\non\n"


def test_a_fresh_shell_knows_the_folder_before_and_nothing_of_ours(room: Room) -> None:
    show = "declare -p OLDPWD; compgen -v __ferrule_ | grep -vc __ferrule_text_"  # its own text is there while it runs
    assert room.out("mkdir -p d/e; cd d; cd e", "kill -9 $$", show) == f'declare -x OLDPWD="{room.workspace}/d"\n0\n'
    assert room.out("true", "kill -9 $$", show) == room.out("kill -9 $$", show) == "declare -x OLDPWD\n0\n"


@pytest.mark.parametrize(("command", "code"), [("exec echo replaced", 0), ("kill -9 $$", 137), ("kill -9 0", None)])
def test_a_command_that_takes_the_shell_away(room: Room, command: str, code: int | None) -> None:
    _, ended, after = room.run("x=1; cd /", f"x=2; {command}", "echo $x; pwd")
    assert ended.exit_code == code
    assert ended.notes == (AFRESH,)
    assert after.stdout == "1\n/\n"


def test_a_command_that_takes_the_guard_or_the_keeper_away(plain: Room) -> None:
    above = "p=$PPID; for i in {1..N}; do p=$(ps -o ppid= -p $p | tr -d ' '); done; kill -9 $p; sleep 60"
    for up in (1, 2):
        _, ended, after = plain.run("x=1", above.replace("N", str(up)), "echo $x")
        assert ended.notes[-1] == snapshot(
            "The shell and all it had started were ended from outside; the next is new. "
            "Variables, functions and options are as they were before this command."
        )
        assert after.stdout == "1\n"


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
    _, ended, after = room.run("x=1", command, "echo $x")
    assert (ended.exit_code, ended.stderr) == (2, complaint)
    assert after.stdout == "1\n"


def test_errors_count_lines_from_the_commands_first(room: Room) -> None:
    ended = room.run("true", "true", "echo a\nnosuch\necho b")[-1]
    assert ended.stderr == "bash: line 2: nosuch: command not found\n"


@pytest.mark.parametrize(
    "command",
    [
        "exec >/dev/null 2>&1 </etc/passwd",
        "exec 0<&- 1>&- 2>&-",
        "trap 'echo dbg' DEBUG; trap 'echo err' ERR; trap 'echo ret' RETURN; set -ET",
        "PS1='$(exit 9)'; PS4='$(exit 9)'; PROMPT_COMMAND='exit 9'; set -x; set +x",
        "set -u; set -f; set -o pipefail; set -o noclobber; shopt -s nullglob failglob",
        "IFS=xyz; readonly IFS",
        "set -o posix",
        "printf() { :; }; read() { :; }; eval() { :; }; trap() { :; }; unset() { :; }; pwd() { :; }; mapfile() { :; }",
        "builtin() { :; }",
        "alias builtin=false . =false eval=false; shopt -s expand_aliases",
        "unset -v __ferrule ${!__ferrule_@}; unset PWD",
        "break; continue; return 5 2>/dev/null; :",
        "trap - EXIT; trap '' 61",
    ],
)
def test_nothing_a_command_does_to_the_shell_breaks_the_next(room: Room, command: str) -> None:
    results = room.run("x=1", command, "\\echo $x", "trap - DEBUG ERR RETURN; command echo last")
    assert [one.exit_code for one in results[2:]] == [0, 0]
    assert "1\n" in results[2].stdout
    assert "last\n" in results[3].stdout


@pytest.mark.parametrize("end", ["", "; exit 4"])
def test_no_command_can_have_its_own_text_run_again_for_the_next(room: Room, end: str) -> None:
    keep = f"echo mine; readonly __ferrule ${{!__ferrule_@}} 2>/dev/null{end}"
    assert [one.stdout for one in room.run(keep, "echo next", "echo last")] == ["mine\n", "next\n", "last\n"]


def test_whoever_is_given_up_on_while_a_command_ends_leaves_the_next_one_whole(room: Room) -> None:
    """The end of a command is seen through, and the next waits for it, also when nobody is there any more."""
    mark = new_mark()

    async def body(session: ShellSession) -> None:
        await session.run("x=1")
        running = session.run(f"trap '' TERM; (trap '' TERM; sleep {mark}; sleep {mark}) & sleep {mark}; sleep {mark}")
        task = asyncio.ensure_future(awaited(running))
        assert await asyncio.to_thread(becomes, lambda: len(alive(mark)) >= 2)
        task.cancel()
        await asyncio.sleep(0.1)
        running.close()  # as the runtime does with what does not stop
        task.cancel()
        await asyncio.wait({task})
        ended = await session.run("sleep 1.5; echo $x")
        assert (ended.stdout, ended.exit_code) == ("1\n", 0)
        assert alive(mark) == []

    async def awaited(running: Awaitable[Ended]) -> Ended:
        return await running

    room.use(body)


def test_noclobber_keeps_no_state_from_being_saved(room: Room) -> None:
    _, ended, after = room.run("set -o noclobber; x=1", "x=2; exit 3", "echo $x $-")
    assert (ended.exit_code, ended.stderr, ended.notes) == (3, "", ())
    assert after.stdout == "2 hBCs\n"


def test_a_shell_that_executes_nothing_any_more_is_renewed(room: Room) -> None:
    _, ended, after = room.run("x=1", "set -n", "echo $x")
    assert ended.notes == snapshot(
        (
            "The command left the shell unable to go on (as `set -n` does); it was started afresh.",
            "Variables, functions and options are as they were before this command.",
        )
    )
    assert after.stdout == "1\n"


def test_a_folder_that_is_gone(room: Room) -> None:
    _, gone_now, there = room.run("mkdir d; cd d; rmdir ../d", "echo still; exit 1", "pwd")
    assert gone_now.stdout == "still\n"
    assert there.stdout == f"{room.workspace}\n"
    assert there.notes == (f"The folder `{room.workspace}/d` is gone; the shell is in `{room.workspace}` now.",)


def test_the_state_is_saved_under_the_strictest_options(room: Room) -> None:
    assert room.out("set -euo pipefail; x=1; false", "echo $x $-") == "1 ehuBs\n"
    assert room.out("set -euE; x=1; echo $nope", "echo $x $-") == "1 ehuBEs\n"


def test_locals_of_a_function_that_exits_do_not_become_everyones(room: Room) -> None:
    command = "x=1; f() { local x=2 y=3; z=4; exit 5; }; f"
    assert room.out(command, "echo $x ${y-none} $z") == "1 none 4\n"


def test_here_documents_lines_and_any_script(room: Room) -> None:
    assert room.out("cat <<'E'\nété 中文 🎉 $x\nE\nfor i in 1 2; do\n echo $i\ndone") == "été 中文 🎉 $x\n1\n2\n"


def test_a_command_of_a_megabyte(room: Room) -> None:
    text = "x" * (1 << 20)
    assert room.out(f"v={text}; echo ${{#v}}") == f"{1 << 20}\n"


def test_a_state_too_large_to_save_each_time_is_saved_when_the_shell_ends(plain: Room) -> None:
    seen = plain.run("v=$(head -c 6000000 /dev/zero | tr '\\0' x)", "true", "w=1", "exit 2", "echo ${#v} $w")
    assert seen[-1].stdout == "6000000 1\n"


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
    async def body(session: ShellSession) -> list[Piece]:
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


def test_an_end_cannot_be_forged(room: Room) -> None:
    forge = (
        "for fd in /proc/$PPID/fd/* /proc/self/fd/*; do "
        "for words in 'ended 0 /' 'died 0' 'saved' '0000000000000000 ended 0 /'; do "
        "(printf '%s\\0' \"$words\" >$fd) 2>/dev/null; done; done; sleep 0.3; echo end"
    )
    ended, after = room.run(forge, "echo next")
    assert ended.stdout.endswith("end\n")
    assert after.stdout == "next\n"


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
            await asyncio.gather(*(one.close() for one in sessions))

    assert asyncio.run(main()) == [f"{number}\n" for number in range(20)]


def test_commands_of_one_session_wait_for_each_other(room: Room) -> None:
    async def body(session: ShellSession) -> list[Ended]:
        return await asyncio.gather(*(session.run(f"echo {n} >>log; sleep 0.05; echo {n} >>log") for n in range(4)))

    room.use(body)
    assert (room.workspace / "log").read_text() == "0\n0\n1\n1\n2\n2\n3\n3\n"


def test_a_closed_session_says_so(plain: Room) -> None:
    async def main() -> None:
        session = plain.session()
        await session.run("true")
        await session.close()
        await session.close()
        await session.run("true")

    with pytest.raises(ToolError, match="closed"):
        asyncio.run(main())


def test_what_the_sandbox_took_back_is_told(folder: Path) -> None:
    room = Room(folder, "sandboxed")
    ended = room.run("mkdir .vscode; echo {} >.vscode/tasks.json; echo done")[0]
    assert ended.stdout == "done\n"
    assert [(denial.kind, denial.subject) for denial in ended.denials] == [("guarded", ".vscode")]
    assert not (room.workspace / ".vscode").exists()


CHANGES = st.sampled_from(
    [
        "x=1", "x=$((${x:-0} + 1))", "y=\"$x two\"", "unset x", "readonly r=1 2>/dev/null", "export x",
        "declare -i n=3",
        "n+=4", "a=(1 2 3)", "a+=(four)", "unset 'a[1]'", "declare -A h=([k]='v w')", "h[j]=2", "f() { echo f $x; }",
        "g() { local x=9; f; }", "unset -f f", "f", "g", "mkdir -p d", "cd d 2>/dev/null", "cd ..", "pwd", "set -u",
        "set +u", "shopt -s extglob", "shopt -u extglob", "set -- a 'b c'", "shift 2>/dev/null", "umask 027", "false",
        "(exit 3)", "echo $?", "IFS=,", "unset IFS", "z=$'a\\nb\\001\\377'", "declare -n ref=x; ref=via",
        "trap 'echo usr' USR1",
        "alias ll='echo ll'", "OLD=$OLDPWD", "cd -", "printf -v p '%03d' 7", "read -r q <<<'one two'",
        "set -o pipefail",
    ]
)  # fmt: skip
SHOW = (
    "declare -p x y r n a h z p q OLD 2>/dev/null; declare -f; shopt extglob; set -o | grep -E 'nounset|pipefail';"
    ' alias; umask; pwd; echo "$# $*"; trap -p USR1; declare -p IFS'
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CHANGES, min_size=1, max_size=12), st.integers(0, 12))
def test_the_session_ends_in_the_state_of_one_script(plain: Room, changes: list[str], broken: int) -> None:
    """Also when the shell is renewed in the middle of it."""
    subprocess.run(["rm", "-rf", plain.workspace / "d"], check=True)
    script = "\n".join([f"cd {plain.workspace}; cd .", *changes, "echo ====", SHOW])
    bare = subprocess.run(["bash", "--noprofile", "--norc"], input=script.encode(), capture_output=True)
    assume(b"====" in bare.stdout)  # it did not end itself on the way, as `set -u` may make it
    subprocess.run(["rm", "-rf", plain.workspace / "d"], check=True)
    parts = ["cd .", *changes]
    parts.insert(min(broken, len(parts)), "kill -9 $$")
    assert plain.out(*parts, SHOW) == bare.stdout.decode(errors="replace").rpartition("====\n")[2]
