"""BashInput, through the real pipeline."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.builtin.shell_desk import shell_desk

from ferrule import RulePolicy
from ferrule.builtin.bash import bash_input
from ferrule.core.lint import lint_tool
from ferrule.workspace.files import files_of


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))


def test_what_a_model_reads_of_it() -> None:
    assert lint_tool(bash_input) == []
    assert bash_input.description.text == snapshot("""\
Type into a command that waits for input on its terminal.

Use this after Bash with `terminal` said that the command waits for input.

Examples:
- answer the waiting program with yes: {"text": "yes"}\
""")


async def test_good_cases(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        script = "read -p 'name? ' name; read -p 'age? ' age; echo $name is $age; exit 3"
        assert await desk.bash(script, terminal=True) == snapshot("""\
name? \n\
[It waits for input after `name? `. Answer with BashInput.]\
""")
        assert await desk.bash("echo too soon", terminal=True) == snapshot("""\
Error (validation_error): The previous command is still waiting for input.

Suggestion: Answer it, or send it Ctrl-C, before running another.\
""")
        assert await desk.words("BashInput", text="Bob\n") == snapshot("""\
Bob
age? \n\
[It waits for input after `age? `. Answer with BashInput.]\
""")
        assert await desk.words("BashInput", text="7\n") == snapshot("""\
Error (execution_error): The command ended with exit code 3.

7
Bob is 7
[It ended its own shell. The shell's folder and variables are as before this command.]\
""")


async def test_bad_cases(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        assert await desk.words("BashInput", text="x\n") == snapshot("""\
Error (validation_error): No command is waiting for input.

Suggestion: Run the command again.\
""")
        await desk.bash("read x; sleep 600", terminal=True)
        assert await desk.words("BashInput", text="x\n", timeout=300) == snapshot("""\
Error (timeout_error): The command did not finish within 0.3 s and was stopped, with everything it had started.

Suggestion: Run it again with more time.

x\
""")
    async with shell_desk(tmp_path, policy=RulePolicy()) as desk:
        assert await desk.words("BashInput", text="x\n") == snapshot("""\
Error (permission_error): `BashInput` was not run: a tool that executes something asks first, and approval isn't available here.

Suggestion: The program can give its Runtime an `ask` function, or policy=RulePolicy(allow=['BashInput']).\
""")


async def test_what_it_sets_off_can_be_undone(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        (desk.workspace / "a").write_text("1")
        await desk.bash("read -p 'sure? ' x; rm a", terminal=True)
        await desk.words("BashInput", text="ls\n")
        assert not (desk.workspace / "a").exists()
        files_of(desk.session).history.undo()
        assert (desk.workspace / "a").read_text() == "1"
