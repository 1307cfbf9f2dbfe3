"""executeCommand, through the real pipeline."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.builtin.shell_desk import shell_desk

from ferrule.builtin import bash as module
from ferrule.builtin.bash import execute_command
from ferrule.core.lint import lint_tool
from ferrule.policy.decide import RulePolicy


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))


def test_what_a_model_reads_of_it() -> None:
    assert lint_tool(execute_command) == []
    assert execute_command.description.text == snapshot("""\
Run a shell command and give its output and exit code.

Use this to build, test and start programs. It runs in a sandbox, within two minutes, with nothing to read from.

Examples:
- run the command whoami: {"command": "whoami"}\
""")


async def test_good_cases(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        (desk.workspace / "sub").mkdir()
        assert await desk.words("executeCommand", command="pwd; ls /nope", cwd="sub") == snapshot(
            """\
Error (execution_error): The command ended with exit code 2.

/ws/sub
[stderr]
ls: cannot access '/nope': No such file or directory
[Commands do not see `/nope`, whether it exists or not: it is outside the workspace. If you need it, ask the user to add its folder with `--add-dir` or `shell.see`.]\
"""
        )
        assert await desk.words("executeCommand", command="pwd") == snapshot("/ws/sub")
        assert await desk.bash("pwd") == snapshot("/ws/sub")


async def test_what_a_program_gets_and_what_is_displayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user sees how it ended, and its data has the names of the catalogue."""
    async with shell_desk(tmp_path) as desk:
        result = await desk.runtime.run("executeCommand", {"command": "echo out; echo err >&2; exit 3"})
        assert result.display_content == snapshot("ended with code 3")
        assert result.data == snapshot(
            {
                "command": "echo out; echo err >&2; exit 3",
                "stdout": "out\n",
                "stderr": "err\n",
                "exitCode": 3,
                "success": False,
                "notes": ["It ended its own shell. The shell's folder and variables are as before this command."],
            }
        )
        assert result.metadata["exit_code"] == 3
        assert (await desk.runtime.run("executeCommand", {"command": "echo hi"})).display_content == "done"
        monkeypatch.setattr(module, "_SECONDS", 0.5)
        failed = await desk.runtime.run("executeCommand", {"command": "sleep 600"})
        assert (failed.success, failed.data["exitCode"], failed.data["success"]) == (False, None, False)
        assert failed.metadata["timed_out"] is True


async def test_bad_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shell_desk(tmp_path) as desk:
        assert await desk.words("executeCommand", command="pwd", cwd="nope") == snapshot("""\
Error (not_found_error): There is no folder `nope`.

Suggestion: The shell is in `.`; relative paths start there. Nothing was run.\
""")
        assert await desk.words("executeCommand", command=" ") == snapshot("""\
Error (validation_error): The arguments of `executeCommand` have 1 problem:
- `command`: it is empty

Suggestion: Call `executeCommand` again with {"command": string, "cwd": string | null (optional, default null)}.\
""")
        assert await desk.words("executeCommand", command="touch /usr/x") == snapshot(
            """\
Error (execution_error): The command ended with exit code 1.

[stderr]
touch: cannot touch '/usr/x': Read-only file system
[The sandbox kept the command from writing `/usr/x`: only the workspace and `/tmp` are writable. Write inside the workspace or below `/tmp`, or ask the user to add the folder to `writable` of `[sandbox]` in their settings.]\
"""
        )
        monkeypatch.setattr(module, "_SECONDS", 0.3)
        assert await desk.words("executeCommand", command="echo a; sleep 600") == snapshot("""\
Error (timeout_error): The command did not finish within 0.3 s and was stopped, with everything it had started.

Suggestion: Do it in smaller steps.

a\
""")


async def test_rules_for_bash_hold_for_it(tmp_path: Path) -> None:
    async with shell_desk(tmp_path, policy=RulePolicy(mode="bypass", deny=["Bash(git push *)"])) as desk:
        assert await desk.words("executeCommand", command="git push origin") == snapshot("""\
Error (permission_error): `executeCommand` was not run: `Bash(git push *)` from the program denies `git push origin`.

Suggestion: Do not try the same call again; try another approach, or ask the user.\
""")
