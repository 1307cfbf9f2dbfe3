"""A call's row tells its state by symbol and word, how long it took, and a little of what it wrote or changed (M2)."""

from __future__ import annotations

import io
import os
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.agent.agent_events import CallAsked
from ferrule.cli.chatting.call_view import CallView, diff_rows
from ferrule.cli.chatting.screen import LiveScreen, Paint, PlainScreen, Screen
from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.events import PartialOutput, Progress
from ferrule.core.result import Attachment, ErrorInfo, ToolResult


def live(columns: int = 60) -> Screen:
    screen = LiveScreen(io.StringIO(), size=lambda: os.terminal_size((columns, 20)))
    screen.paint = Paint(False)
    return screen


PLAIN = PlainScreen(io.StringIO())


def view(name: str = "Read", doing: str = "", shows_output: bool = True, **arguments: Any) -> CallView:
    asked = CallAsked(RawCall(name, arguments, id="c"), doing, doing)
    return CallView(asked, 10.0, shows_output=shows_output)


def result(
    tool: str = "Read", data: Any = None, error: ErrorInfo | None = None, display: str = "", **metadata: Any
) -> ToolResult:
    return ToolResult("c", tool, error is None, "", display, data, error, metadata)


def failed(kind: ErrorKind, message: str) -> ErrorInfo:
    return ErrorInfo(kind, message)


def test_while_it_runs_the_row_spins_says_so_and_counts_seconds() -> None:
    call = view(doing="reading `src/a.py`", file_path="src/a.py")
    assert call.live_rows(10.5, 0, live()) == ["⠋ reading `src/a.py`…"]
    assert call.live_rows(13.2, 1, live()) == ["⠙ reading `src/a.py`… (3 s)"]
    assert call.live_rows(13.2, 1, live(24)) == ["⠙ reading `src/a… (3 s)"]


def test_the_last_lines_of_a_command_are_live_and_then_a_few_stay() -> None:
    call = view("Bash", command="make")
    call.partial(PartialOutput("c", "Bash", "".join(f"\x1b[32mline {number}\x1b[0m\n" for number in range(30))))
    assert call.live_rows(10, 0, live())[1:] == ["    line 26", "    line 27", "    line 28", "    line 29"]
    rows = call.final_rows(result("Bash", {"exit_code": 0, "stdout": ""}), 12.34, live())
    assert "\n".join(rows) == snapshot("""\
✓ Bash make — done (2.3 s)
    line 0
    line 1
    line 2
    line 3
    … 20 more lines
    line 24
    line 25
    line 26
    line 27
    line 28
    line 29\
""")


@pytest.mark.parametrize(
    ("ended", "row", "plain"),
    [
        (
            result(display="read 120 lines"),
            "✓ Read a.py — read 120 lines (0.1 s)",
            "[done] Read a.py — read 120 lines (0.1 s)",
        ),
        (
            result(error=failed(ErrorKind.NOT_FOUND, "No file\nat `a.py`.")),
            "✗ Read a.py — failed: No file⏎at `a.py`. (0.1 s)",
            "[failed] Read a.py — failed: No file⏎at `a.py`. (0.1 s)",
        ),
        (
            result(error=failed(ErrorKind.PERMISSION, "`Read` was not run: a rule says no.")),
            "⊘ Read a.py — refused: `Read` was not run: a rule says no.",
            "[refused] Read a.py — refused: `Read` was not run: a rule says no. (0.1 s)",
        ),
        (
            result(error=failed(ErrorKind.CANCELLED, "It was cancelled.")),
            "⊘ Read a.py — stopped (0.1 s)",
            "[stopped] Read a.py — stopped (0.1 s)",
        ),
        (
            result(
                "Bash",
                error=failed(ErrorKind.EXECUTION, "The command ended with exit code 2."),
                display="ended with code 2",
                exit_code=2,
            ),
            "✗ Read a.py — ended with code 2 (0.1 s)",
            "[ended] Read a.py — ended with code 2 (0.1 s)",
        ),
    ],
)
def test_each_ending_has_a_symbol_and_a_word(ended: ToolResult, row: str, plain: str) -> None:
    assert view(file_path="a.py").final_rows(ended, 10.1, live())[0] == row
    assert view(file_path="a.py").final_rows(ended, 10.1, PLAIN) == [plain]


def test_what_the_person_refused_is_said_so() -> None:
    call = view("Bash", command="rm x")
    call.refused_because = "keep it"
    ended = result("Bash", error=failed(ErrorKind.PERMISSION, "`Bash` was not run: the user denied it."))
    assert call.final_rows(ended, 10, PLAIN) == ["[refused] Bash rm x — refused by you: keep it (0.0 s)"]


def test_progress_is_in_the_live_row() -> None:
    call = view("FileSearch", "searching many files for `x`", pattern="x")
    call.progress(Progress("c", "FileSearch", 3, 12, "read"))
    assert call.live_rows(10, 0, live()) == ["⠋ searching many files for `x`… 3/12 read"]
    call.progress(Progress("c", "FileSearch", 5, None, "files"))
    assert call.live_rows(10, 0, live()) == ["⠋ searching many files for `x`… 5 files"]


def test_a_diff_is_shown_unless_the_person_saw_it_already() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    call = view("Edit", file_path="x")
    assert call.final_rows(result("Edit", {}, diff=diff), 10, PLAIN)[1:] == [
        f"    {line}" for line in diff.splitlines()
    ]
    call.shown_diff = True
    assert len(call.final_rows(result("Edit", {}, diff=diff), 10, PLAIN)) == 1


def test_a_diff_is_bounded_safe_and_coloured_to_the_end_of_a_long_line() -> None:
    rows = diff_rows(
        "+" + "-" * 30 + "\n \x1b[2J\n-a\n-b\n", LiveScreen(io.StringIO(), size=lambda: os.terminal_size((25, 20))), 3
    )
    assert rows == [
        "    \x1b[32m+-------------------\x1b[0m",
        "    \x1b[32m-----------\x1b[0m",
        "     \\x1b[2J",
        "    \x1b[31m-a\x1b[0m",
        "    … 1 more line",
    ]


def test_a_search_streams_nothing_of_its_result() -> None:
    call = view("Grep", shows_output=False, pattern="x")
    call.partial(PartialOutput("c", "Grep", "a.py:1\n"))
    assert len(call.live_rows(10, 0, live())) == 1


def test_what_is_attached_is_told_below_the_row_and_cut_to_the_screen() -> None:
    done = result("mcp__peer__draw")
    done.attachments = [Attachment("image/png", b"12", name="dot.png"), Attachment("text/html", uri="x:\x1b[2J" * 9)]
    rows = view("mcp__peer__draw").final_rows(done, 11, live(40))
    assert rows[1:] == ["    Attached: image, image/png, 2 byte…", "    Attached: link, text/html, <x:\\x1b…"]
    assert view().final_rows(done, 11, PLAIN)[1] == "    Attached: image, image/png, 2 bytes, dot.png"
