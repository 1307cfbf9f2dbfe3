"""KillShell, through the real pipeline (P11)."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.builtin.shell_desk import shell_desk
from tests.process.shell.shell_room import alive, becomes, new_mark

from ferrule.builtin.background import kill_shell
from ferrule.core.lint import lint_tool
from ferrule.policy.decide import RulePolicy


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))


def test_what_a_model_reads_of_it() -> None:
    assert lint_tool(kill_shell) == []
    assert kill_shell.description.text == snapshot("""\
End a background command and everything that it started.

Use this when a server or a watcher is no longer needed. It only reaches what Bash started in this session.

Examples:
- stop the background command bash_3: {"shell_id": "bash_3"}\
""")


async def test_it_ends_all_that_the_command_started_and_nothing_else(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        mark, other = new_mark(), new_mark()
        await desk.bash(f"setsid sleep {mark} & trap '' TERM; sleep {mark}; sleep {mark}", run_in_background=True)
        await desk.bash(f"sleep {other}", run_in_background=True)
        assert becomes(lambda: len(alive(mark)) > 1 and alive(other))  # they start while the calls return
        assert await desk.words("KillShell", shell_id="bash_1") == snapshot(
            "Stopped `bash_1` and everything it had started."
        )
        assert not alive(mark)
        assert alive(other)
        assert await desk.words("KillShell", bash_id="bash_1") == snapshot("`bash_1` had already ended.")
        assert await desk.words("KillShell", shell_id="bash_9") == snapshot("""\
Error (not_found_error): There is no background command `bash_9`.

Suggestion: Background commands: `bash_1`, `bash_2`.\
""")
    assert not alive(other)


async def test_it_asks_nobody_but_plan_mode_ends_nothing(tmp_path: Path) -> None:
    """It reaches only what Bash, which was asked about, has started in this session; a plan leaves even that alone."""
    async with shell_desk(tmp_path, policy=RulePolicy(allow=["Bash"])) as desk:
        await desk.bash("sleep 600", run_in_background=True)
        assert await desk.words("KillShell", shell_id="bash_1") == "Stopped `bash_1` and everything it had started."
    async with shell_desk(tmp_path, policy=RulePolicy(mode="plan")) as desk:
        assert await desk.words("KillShell", shell_id="bash_1") == snapshot("""\
Error (permission_error): `KillShell` was not run: mode plan runs only read-only tools.

Suggestion: Do not try the same call again; try another approach, or ask the user.\
""")
