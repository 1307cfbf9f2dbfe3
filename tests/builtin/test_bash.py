"""Bash, through the real pipeline: what a model reads. What hostile commands try is in test_process_cases."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.builtin.shell_desk import shell_desk
from tests.process.shell.shell_room import alive, becomes, new_mark

from ferrule import RawCall
from ferrule.builtin.bash import bash
from ferrule.core.events import PartialOutput
from ferrule.core.lint import lint_tool


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))


def test_what_a_model_reads_of_it() -> None:
    assert lint_tool(bash) == []
    assert bash.description.text == snapshot("""\
Run a command in bash; its folder, variables and functions are there for the next call.

Use this to build, test and start programs. To read, search or change files use the tools for that.

Usage notes:
- It runs at once in a sandbox that holds its changes back; they become real once the user, a rule or the mode approves them. Caches and build output stay aside for later commands.
- There is no network unless the user allowed a host. What the sandbox kept it from is said in the result.
- Nothing can be typed into it unless `terminal` is set: a program that asks gets end of file at once.
- Long output is cut in the middle; the result names a file with all of it.
- Processes that it leaves running end with it; use `run_in_background` for a server or a watcher.
- What it changed in the workspace can be undone by the user.

Examples:
- run the tests: {"command": "python -m pytest -q tests", "description": "run the tests"}
- start "npm run dev" in the background: {"command": "npm run dev", "run_in_background": true}\
""")
    fields: Any = bash.params.schema
    assert {name: one.get("description") for name, one in fields["properties"].items()} == snapshot(
        {
            "command": "The command, as typed at a prompt.",
            "description": "What it is for, in a few words.",
            "timeout": "Milliseconds it may take.",
            "run_in_background": "Start it and go on; read its output with BashOutput.",
            "working_directory": "Go to this folder first; the shell stays there.",
            "background_on_timeout": "When its time is up, let it go on in the background instead of ending it.",
            "terminal": "Run it on a terminal, for programs that ask questions; answer with BashInput.",
        }
    )


async def test_good_cases(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        assert await desk.bash("echo out; echo err >&2") == snapshot("""\
out
[stderr]
err\
""")
        assert await desk.bash("true") == snapshot("[Done, with no output.]")
        assert await desk.bash("echo some; exit 3") == snapshot("""\
Error (execution_error): The command ended with exit code 3.

some
[It ended its own shell. The shell's folder and variables are as before this command.]\
""")
        assert await desk.bash("mkdir -p a; pwd", working_directory=".") == snapshot("/ws")
        assert await desk.bash("pwd", working_directory="a") == snapshot("/ws/a")
        assert (await desk.bash("seq 20000"))[-120:] == snapshot("""\
993
19994
19995
19996
19997
19998
19999
20000
[The whole output is in `/outputs/x.txt`; look into it with Read or Grep.]\
""")
        begun = "until grep -qz ^sleep /proc/$!/cmdline; do :; done"
        assert await desk.bash(f"sleep 600 & {begun}; echo on", description="leave something") == snapshot("""\
on
[The command left 1 process running; it was stopped. To keep one running, start it with `run_in_background`.]\
""")
        await desk.bash("mkfifo fifo")
        assert await desk.bash("{ read x <fifo; } &\necho on", description="leave a copy of the shell") == snapshot("""\
on
[The command left 1 process running; it was stopped. To keep one running, start it with `run_in_background`.]\
""")
        assert await desk.bash("sleep 600", run_in_background=True) == snapshot(
            "Started in the background as `bash_1`. Read on with BashOutput, end it with KillShell."
        )
        assert await desk.bash("read -p 'ok? ' x", terminal=True) == snapshot("""\
ok? \n\
[It waits for input after `ok? `. Answer with BashInput.]\
""")


async def test_bad_cases(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        assert await desk.bash("echo (") == snapshot("""\
Error (execution_error): The command ended with exit code 2.

[stderr]
bash: line 1: syntax error near unexpected token `newline'
bash: line 1: `echo ('\
""")
        assert await desk.bash("pwd", working_directory="nope") == snapshot("""\
Error (not_found_error): There is no folder `nope`.

Suggestion: The shell is in `.`; relative paths start there. Nothing was run.\
""")
        (desk.workspace / "file").touch()
        assert await desk.bash("pwd", working_directory="file") == snapshot("""\
Error (validation_error): `file` is a file, not a folder.

Suggestion: The shell is in `.`; relative paths start there. Nothing was run.\
""")
        assert await desk.bash("echo until then; sleep 600", timeout=500) == snapshot("""\
Error (timeout_error): The command did not finish within 0.5 s and was stopped, with everything it had started.

Suggestion: Give it more time with `timeout`, or start it with `run_in_background`.

until then\
""")
        assert await desk.bash("sleep 600", timeout=300, background_on_timeout=True) == snapshot("""\
[It goes on in the background as `bash_1`. The shell's folder and variables are as before this command.]
[Read on with BashOutput, end it with KillShell.]\
""")
        assert await desk.bash("touch /etc/x") == snapshot("""\
Error (execution_error): The command ended with exit code 1.

[stderr]
touch: cannot touch '/etc/x': Read-only file system
[The sandbox kept the command from writing `/etc/x`: only the workspace and `/tmp` are writable. Write inside the workspace or below `/tmp`, or ask the user to add the folder to `writable` of `[sandbox]` in their settings.]\
""")
        assert await desk.bash("curl -s https://example.org") == snapshot("""\
Error (execution_error): The command ended with exit code 6, and wrote nothing.

[The sandbox kept the command from reaching `example.org`: it has no network. Do without the network, or ask the user to allow `example.org` in `hosts` of `[sandbox]` in their settings.]\
""")
        assert await desk.bash("a\0b") == snapshot("""\
Error (validation_error): The arguments of `Bash` have 1 problem:
- `command`: it contains a NUL byte, which no command can

Suggestion: Call `Bash` again with {"command": string, "description": string (optional, default ""), "timeout": integer (optional, default 120000), "run_in_background": boolean (optional, default false), "working_directory": string | null (optional, default null), "background_on_timeout": boolean (optional, default false), "terminal": boolean (optional, default false)}.\
""")


@pytest.mark.slow
async def test_one_that_waits_for_input_without_a_terminal_says_what_to_do(tmp_path: Path) -> None:
    editor = "python3 -c 'import os, select; os.dup2(2, 0); print(\"editing\"); select.select([0], [], [])'"
    async with shell_desk(tmp_path) as desk:
        assert await desk.bash(editor) == snapshot("""\
Error (execution_error): The command waited for input and was stopped: it has no terminal, so nothing can be typed.

Suggestion: Pass what it asks for in the command itself (`git commit -m`, `--yes`, a file to read), or run it with `terminal` and answer with BashInput.

editing\
""")
        assert await desk.words("executeCommand", command=editor) == snapshot("""\
Error (execution_error): The command waited for input and was stopped: it has no terminal, so nothing can be typed.

Suggestion: Pass what it asks for in the command itself, as `git commit -m` does.

editing\
""")


async def test_a_cancelled_call_leaves_nothing(tmp_path: Path) -> None:
    """P6: cancelling the task, or the call by its id, really stops the work; the session goes on."""
    async with shell_desk(tmp_path) as desk:
        mark = new_mark()
        for by_id in (False, True):
            call = RawCall("Bash", {"command": f"setsid sleep {mark} & sleep {mark}"})
            task = asyncio.create_task(desk.runtime.run(call))
            assert await asyncio.to_thread(becomes, lambda: len(alive(mark)) >= 2), (task, alive(mark))
            if by_id:
                assert desk.runtime.cancel(call.id)
                assert (await task).error is not None
            else:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert not alive(mark)
        assert await desk.bash("echo on") == "on"


async def test_a_cancelled_command_that_heeds_nothing_is_ended_too_and_the_next_is_left_alone(tmp_path: Path) -> None:
    """P6: what ignores being asked is killed before anyone is told, and never the next command in its place."""
    async with shell_desk(tmp_path) as desk:
        mark = new_mark()
        call = RawCall("Bash", {"command": f"(trap '' TERM; sleep {mark}; sleep {mark}) & trap '' TERM; sleep {mark}"})
        task = asyncio.create_task(desk.runtime.run(call))
        assert await asyncio.to_thread(becomes, lambda: len(alive(mark)) >= 2)
        assert desk.runtime.cancel(call.id)
        assert (await task).llm_content == snapshot("Error (cancelled_error): `Bash` did not finish. It was cancelled.")
        assert not alive(mark)
        assert await desk.bash("sleep 1.5; echo on") == "on"


async def test_its_output_is_shown_while_it_runs(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        seen: list[str] = []
        call = RawCall("Bash", {"command": "echo first; read x <fifo; echo last"})
        await desk.bash("mkfifo fifo")
        async for event in desk.runtime.stream(call):
            if isinstance(event, PartialOutput):
                seen.append(str(event.content))
                if len(seen) == 1:
                    (desk.workspace / "fifo").write_text("go\n")
        assert "".join(seen) == "first\nlast\n"
