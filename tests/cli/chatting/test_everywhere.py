"""What the assistant promises, shown in both languages, in two sizes and on a busy machine (issue 21, must-show 1).

`SHOWN` says which test shows what. Each is tried in English and Chinese at 80x24 and 40x15.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.chatting.conftest import calls
from tests.cli.chatting.test_while_it_works import everywhere
from tests.cli.mcp_peer import PATIENT
from tests.cli.terminal import STARVED

if TYPE_CHECKING:
    from tests.cli.chatting.conftest import Desk

SHOWN = {
    "slash commands act at once": "while_it_works: slash_commands_act_at_once_and_are_no_words_for_the_model",
    "a command among queued lines": "while_it_works: a_command_among_queued_lines_stays_a_command",
    "queued lines": "while_it_works: queued_lines_are_shown_recalled_and_come_back_to_the_prompt_after_a_stop",
    "queued lines after a failure": "while_it_works: lines_queued_in_a_turn_that_fails_come_back_to_the_prompt",
    "one editor": "while_it_works: input_during_a_turn_is_the_editor_of_the_prompt",
    "free text is the reason": "while_it_works: free_text_at_a_question_is_the_reason_that_the_model_gets",
    "tall pastes": "editor: a_paste_taller_than_the_window_is_in_the_scrollback_once",
    "wrapped rows": "editor: a_wrapped_row_does_not_look_like_a_line",
    "/undo N": "chat_sessions: undo_says_what_was_undone_and_what_was_not",
    "resuming": "chat_sessions: a_session_that_was_killed_says_what_was_cut_off",
    "plan mode, edits that must fail": "everywhere: plan_mode_says_so_and_an_edit_that_must_fail_does_not_ask",
    "slips on the command line": "everywhere: slips_on_the_command_line_are_said_in_the_users_language",
    "mistyped @file": "editor: a_mistyped_file_is_said_with_the_one_that_was_meant",
    "Ctrl-Z": "editor: ctrl_z_suspends_and_fg_brings_everything_back",
    "code blocks": "editor: a_code_block_begins_with_its_code",
    "help in Chinese": "everywhere: help_is_wholly_in_the_users_language",
    "Esc": "while_it_works: esc_stops_a_command_and_ends_what_it_started",
    "Shift-Tab": "while_it_works: shift_tab_goes_through_the_modes_and_the_prompt_says_which",
    "status line": "while_it_works: a_status_line_has_the_mode_the_model_what_is_left_and_the_cost",
    "context left": "while_it_works: what_is_left_of_the_context_follows_rewind_and_clear",
    "!command": "while_it_works: a_command_of_ones_own_runs_as_the_user_and_the_model_reads_its_output",
    "custom commands and skills": "chat_sessions: custom_commands_and_skills_in_help_by_tab_and_for_the_model",
    "list of steps, /copy, /export": "chat_sessions: steps_copy_and_export",
    "web tools": "chat_sessions: web_tools_are_listed_once_a_host_is_allowed",
    "rewind, fork": "chat_sessions: rewind_with_the_files_and_a_fork",
    "first prompt, picker": "chat_sessions: a_first_prompt_then_a_session_chosen_by_searching",
    "/init": "chat_sessions: init_gives_the_model_its_task_and_the_file_is_written_by_the_rules",
    "reasoning": "editor: reasoning_is_folded_into_a_row_and_can_be_shown",
    "/effort": "editor: effort_is_chosen_and_shown",
    "Ctrl-X Ctrl-E": "editor: ctrl_x_ctrl_e_opens_the_editor_and_brings_its_text_back",
    "clipboard images": "editor: an_image_in_the_clipboard_goes_along",
    "bell, notification": "editor: who_waited_long_is_called_when_it_asks_and_when_it_ends",
}
"""Completion in shells is shown in test_completion.py, and `ferrule acp` in tests/acp_server: neither has a size."""


def _function(shown: str) -> tuple[str, str]:
    module, _colon, name = shown.partition(": ")
    return f"test_{module}", f"test_{name}"


@pytest.mark.parametrize("shown", SHOWN.values(), ids=list(SHOWN))
def test_each_is_shown_in_both_languages_and_sizes(shown: str) -> None:
    module, name = _function(shown)
    marks = getattr(import_module(f"tests.cli.chatting.{module}"), name).pytestmark
    tried = {
        getattr(one, "values", one)
        for mark in marks
        if mark.name == "parametrize" and tuple(mark.args[0]) == ("lang", "columns", "rows")
        for one in mark.args[1]
    }
    assert tried == {(lang, *size) for lang in ("en", "zh") for size in ((80, 24), (40, 15))}


@everywhere
def test_plan_mode_says_so_and_an_edit_that_must_fail_does_not_ask(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    desk.file("a.txt", "one\n")
    edit = ("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "three"})
    replies = [calls("", edit), "Planned.", calls("", ("Read", {"file_path": "a.txt"})), calls("", edit), "Failed."]
    chat = desk.chat(replies, "--lang", lang, "--mode", "plan", columns=columns, rows=rows)
    chat.prompt()
    chat.type("go")
    chat.wait("Planned.")
    chat.wait({"en": "not available in plan mode", "zh": "在计划模式下不可用"}[lang])
    chat.prompt()
    chat.type("/mode default")
    chat.wait(lambda: chat.visible.endswith("\n›"))
    chat.type("go")
    chat.wait("Failed.")  # nobody was asked
    chat.wait({"en": "failed: The old text is not in the file", "zh": "失败：文件中没有"}[lang])


@everywhere
def test_slips_on_the_command_line_are_said_in_the_users_language(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    desk.file("a.txt", "one\n")
    for arguments, words in (
        (["undo", "--to", "99999"], {"en": "There is no change 99999", "zh": "没有更改 99999"}),
        (["mcp", "bogus"], {"en": "There is no command `bogus`.", "zh": "没有命令 `bogus`。"}),
        (["call", "Read", '{"file_path": "a.txt"}'], {"en": "one", "zh": "one"}),
        (["audit", "verify"], {"en": "Records verified: 1.", "zh": "已验证 1 条记录。"}),
    ):
        terminal = desk.start(
            [sys.executable, PATIENT, *arguments, "--lang", lang],
            columns=columns, rows=rows, rewraps=False, environment=None,
        )  # fmt: skip
        assert terminal.ended() == (2 if arguments[0] in ("undo", "mcp") else 0)
        assert re.sub(r"\s", "", words[lang]) in terminal.flowing


@everywhere
def test_help_is_wholly_in_the_users_language(desk: Desk, lang: str, columns: int, rows: int) -> None:
    chat = desk.chat(["unused"], "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)
    chat.type("/help")
    chat.wait({"en": "Ctrl-C stops it too; twice, it quits.", "zh": "按两次则退出"}[lang])
    chat.prompt(2)
    text = re.sub(r"\s+", "", chat.text.partition("› /help")[2].rpartition("  default · ")[0])
    assert text.count("/rewind") == 1
    if lang == "zh":
        words = re.sub(
            r"`[^`]*`|/[a-z]+|\[[^]]*\]|Ctrl-\w|Shift-Tab|Alt-Enter|Esc|Tab|[@!][A-Z]+|AGENTS\.md|Markdown|ID|N",
            "",
            text,
        )
        assert not re.findall(r"[A-Za-z]{2,}", words)
        assert not re.findall(r"(?<=[\u4e00-\u9fff])[,.:;?!]", words)


@pytest.mark.slow
def test_ten_of_them_on_a_busy_machine(tmp_path: Path) -> None:
    """They get only what is left of processors that others keep busy."""
    root = Path(__file__).parents[3]
    chosen = [_function(one) for one in list(SHOWN.values())[:20:2]]
    nodes = [f"tests/cli/chatting/{module}.py::{name}" for module, name in chosen]
    spin = f"import os\nos.nice(10)\nwhile os.getppid() == {os.getpid()}: pass"
    busy = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2 * (os.cpu_count() or 1))]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    arguments = ["-q", "-m", "", "-k", "en-80-24", "-o", f"cache_dir={tmp_path}", *nodes]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments], cwd=root,
            env={**environment, "PYTEST_DEBUG_TEMPROOT": str(tmp_path), STARVED: "yes"},
            capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip
    finally:
        for one in busy:
            one.kill()
            one.wait()
    assert done.returncode == 0, done.stdout[-5_000:]
    passed = re.search(r"\b(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 10
