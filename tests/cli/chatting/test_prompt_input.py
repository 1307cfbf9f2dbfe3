"""The input line: kept apart from answers, in a file for the person alone, and light to start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.history import FileHistory, InMemoryHistory

from ferrule.cli.chatting.prompt_input import _history

if TYPE_CHECKING:
    from tests.cli.chatting.conftest import Desk

HEAVY = ["pydantic", "httpx2", "rich", "ferrule.builtin.all_tools", "sqlite3", "tree_sitter", "ferrule.testing"]


def test_history_lies_in_a_file_that_nobody_else_reads(tmp_path: Path) -> None:
    file = tmp_path / "new" / "history"
    assert isinstance(_history(file), FileHistory)
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    _history(file)
    assert file.stat().st_mode & 0o777 == 0o600


def test_where_no_file_can_be_it_is_kept_for_the_session(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert isinstance(_history(tmp_path / "file" / "history"), InMemoryHistory)
    assert isinstance(_history(None), InMemoryHistory)


def test_commands_and_files_are_completed_while_they_are_typed(desk: Desk) -> None:
    desk.file("notes.txt", "one\n")
    chat = desk.chat(["Thanks."])
    chat.prompt(1)
    chat.type("/cost")
    chat.wait("Nothing used yet.")
    chat.prompt(2)
    chat.press("/und")
    chat.wait("Undo what the last turn changed")
    chat.press("\t")
    chat.wait(lambda: "› /undo" in chat.visible)
    chat.press("\x03")
    chat.prompt(None)
    chat.press("see @no")
    chat.wait(lambda: chat.visible.count("notes.txt") >= 1)
    chat.press("\t\r")
    chat.wait(lambda: "› see @notes.txt" in chat.visible)
    chat.press("\r")
    chat.wait("Thanks.")
    assert any("1\\tone" in str(line) or "1\tone" in str(line.get("text")) for line in desk.said())


def test_the_first_prompt_needs_neither_the_tools_nor_a_client_for_http(tmp_path: Path) -> None:
    """Starting stays cheap because these are imported once the prompt is there."""
    program = (
        "import sys\n"
        "import ferrule.cli.main, ferrule.cli.group, ferrule.cli.chat\n"
        "import ferrule.cli.chatting.chat_session, ferrule.cli.chatting.screen\n"
        "import ferrule.cli.chatting.prompt_input, ferrule.cli.chatting.prompt_input\n"
        f"print([name for name in {HEAVY} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "[]\n"
