"""BashOutput, through the real pipeline (P11)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.builtin.shell_desk import shell_desk

from ferrule.builtin.background import bash_output
from ferrule.core.lint import lint_tool


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))


def test_what_a_model_reads_of_it() -> None:
    assert lint_tool(bash_output) == []
    assert bash_output.description.text == snapshot("""\
Read what a background command wrote since it was last read.

Use this after Bash with `run_in_background`, and to see whether it still runs.

Usage notes:
- Each reading goes on where the last one ended.
- With `wait_for` it waits, for example for the line that says a server is ready.

Examples:
- read the new output of the background command bash_3: {"shell_id": "bash_3"}\
""")


async def test_each_reading_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        assert await desk.words("BashOutput") == snapshot("No command runs in the background.")
        await desk.bash("mkfifo fifo other")
        await desk.bash("echo one; read x <fifo; echo $x; read x <other; exit 4", run_in_background=True)
        assert await desk.words("BashOutput", shell_id="bash_1", wait_for="one") == snapshot("""\
one
[`bash_1` is still running.]\
""")
        assert await desk.words("BashOutput", bash_id="bash_1") == snapshot("""\
(nothing new)
[`bash_1` is still running.]\
""")
        await desk.bash("echo two >fifo")
        assert await desk.words("BashOutput", shell_id="bash_1", wait_for="two") == snapshot("""\
two
[`bash_1` is still running.]\
""")
        assert await desk.words("BashOutput", shell_id="bash_1", wait_for="three", timeout=50) == snapshot("""\
(nothing new)
[No line contains `three`. It has not come yet.]
[`bash_1` is still running.]\
""")
        await desk.bash("echo end >other")
        assert await desk.words("BashOutput", shell_id="bash_1", wait_for="three") == snapshot("""\
(nothing new)
[No line contains `three`. The command ended without it.]
[`bash_1` has ended with exit code 4.]\
""")
        assert re.sub(r"\d+ s", "N s", await desk.words("BashOutput")) == snapshot(
            "bash_1  ended  N s  echo one; read x <fifo; echo $x; read x <other; exit 4"
        )


async def test_too_much_at_once_is_passed_over_and_said(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        await desk.bash("seq 20000; echo end", run_in_background=True)
        words = await desk.words("BashOutput", shell_id="bash_1", wait_for="end")
        text, _, status = words.rpartition("\n")  # it may have ended by now or not yet
        assert status in ("[`bash_1` has ended with exit code 0.]", "[`bash_1` is still running.]")
        assert text[-121:] == snapshot("""\
9994
19995
19996
19997
19998
19999
20000
end
[76,902 bytes before this were passed over; all of it is in /outputs/x.txt.]\
""")


async def test_bad_cases(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        assert await desk.words("BashOutput", shell_id="nope") == snapshot("""\
Error (not_found_error): There is no background command `nope`.

Suggestion: Background commands: none.\
""")
        await desk.bash("true", run_in_background=True)
        assert await desk.words("BashOutput", shell_id="bash_2") == snapshot("""\
Error (not_found_error): There is no background command `bash_2`.

Suggestion: Background commands: `bash_1`.\
""")
