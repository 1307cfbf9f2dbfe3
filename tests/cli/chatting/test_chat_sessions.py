"""What a user does with conversations, at a real terminal, in both languages and two sizes (issue 21; M2, P9)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.chatting.conftest import calls
from tests.cli.terminal import CTRL_D, ESCAPE
from tests.needs import slow

if TYPE_CHECKING:
    from tests.cli.chatting.conftest import Desk
    from tests.cli.terminal import Terminal

WORDS: dict[str, dict[str, str]] = {
    "en": {
        "picker": "Which conversation?", "resumed": "turns so far: 1", "cut": "was cut off",
        "files": "From files of yours",
        "rewind": "Go back to before which message?", "back": "Back to before", "what": "What goes back?",
        "undone": "1 change undone", "not undone": "could not be undone", "since": "was changed since",
        "copy": "a copy", "steps": "1 of 2 steps done",
        "sent": "Sent 5 characters",
        "written": "Written to", "only": "Only 1 turn had changes", "exists": "There is a file at",
    },
    "zh": {
        "picker": "选择哪个对话？", "resumed": "1", "cut": "被中断", "files": "来自您和本项目的文件",
        "rewind": "回到哪条消息之前？", "back": "已回到此消息之前", "what": "要恢复什么？",
        "undone": "已撤销 1 处更改", "not undone": "无法撤销", "since": "此后被更改了",
        "copy": "副本", "steps": "已完成 1/2 步", "sent": "已将 5 个字符发送",
        "written": "已写入", "only": "只有 1 轮有可撤销的更改", "exists": "已存在",
    },
}  # fmt: skip
SIZES = [("en", 80, 24), slow("zh", 80, 24), slow("en", 40, 15), slow("zh", 40, 15)]
everywhere = pytest.mark.parametrize(("lang", "columns", "rows"), SIZES)
WRITE = ("Write", {"file_path": "a.txt", "content": "new\n"})


def start(desk: Desk, replies: list[Any], *more: str, lang: str, columns: int, rows: int) -> Terminal:
    home = {"HOME": str(desk.folder), "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    arguments = ("--lang", lang, "--mode", "accept-edits", *more)
    return desk.chat(replies, *arguments, columns=columns, rows=rows, environment=home)


def choose(terminal: Terminal, line: str) -> None:
    """Press Tab until the line is there: one that comes while the list is still being made is not heard."""
    for _ in range(10):
        terminal.press("\t")
        try:
            terminal.wait(lambda: f"\n{line}" in terminal.visible, seconds=6)
        except AssertionError:
            continue
        return
    raise AssertionError(f"{line!r} was never chosen:\n{terminal.text}")


@everywhere
def test_a_first_prompt_then_a_session_chosen_by_searching(desk: Desk, lang: str, columns: int, rows: int) -> None:
    words = WORDS[lang]
    for said in ("fix the parser", "write the docs"):
        with start(desk, ["Fine."], said, lang=lang, columns=columns, rows=rows) as terminal:
            terminal.wait("Fine.")
            terminal.prompt()
            terminal.press(CTRL_D)
            assert terminal.ended() == 0
    with start(desk, ["More."], "--resume", lang=lang, columns=columns, rows=rows) as terminal:
        terminal.wait(words["picker"])
        terminal.wait(lambda: "write the docs" in terminal.visible and "fix the parser" in terminal.visible)
        terminal.press("parser")
        terminal.wait(lambda: "write the docs" not in terminal.visible)
        terminal.press("\r")
        terminal.wait("› fix the parser")
        terminal.wait(words["resumed"])
        terminal.prompt()
        assert words["picker"] not in terminal.text  # it took itself away
        terminal.type("/resume")
        terminal.wait(lambda: words["picker"] in terminal.visible)
        terminal.press(ESCAPE)
        terminal.wait(lambda: words["picker"] not in terminal.visible)
        terminal.prompt()


@everywhere
def test_custom_commands_and_skills_in_help_by_tab_and_for_the_model(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    desk.file(
        ".claude/commands/review.md", "---\ndescription: Look closely\nallowed-tools: Bash(*)\n---\nReview $1: !`id`\n"
    )
    desk.file(".agents/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidy up\n---\nSort the imports.\n")
    replies = [calls("", ("Skill", {"name": "tidy"}), ("Bash", {"command": "rm -rf build"})), "Seen."]
    with start(desk, replies, lang=lang, columns=columns, rows=rows) as terminal:
        terminal.prompt()
        terminal.type("/help")
        terminal.wait(WORDS[lang]["files"])
        terminal.wait("Look closely")
        terminal.wait("Tidy up")
        terminal.prompt()
        terminal.press("/rev")
        terminal.wait(lambda: "/review" in terminal.visible.rpartition("› /rev")[2])  # offered
        choose(terminal, "accept-edits › /review")
        terminal.press(" a.py\r")
        terminal.question()  # what the file allows counts for nothing
        terminal.type("n")
        terminal.wait("Seen.")
    said = [one for one in desk.said() if one.get("type") == "user"]
    assert said[0]["typed"] == "/review a.py"
    assert "Review a.py: !`id`" in said[0]["text"]
    assert "was not run" in said[0]["text"]
    results = next(one for one in desk.said() if one.get("type") == "results")["results"]
    assert "Sort the imports." in results[0]["llm_content"]


@everywhere
def test_rewind_with_the_files_and_a_fork(desk: Desk, lang: str, columns: int, rows: int) -> None:
    words = WORDS[lang]
    file = desk.workspace / "a.txt"
    with start(desk, ["One.", calls("", WRITE), "Two.", "Three."], lang=lang, columns=columns, rows=rows) as terminal:
        terminal.prompt()
        terminal.type("first")
        terminal.wait("One.")
        terminal.prompt()
        terminal.type("second")
        terminal.wait("Two.")
        terminal.prompt()
        assert file.read_text() == "new\n"
        terminal.type("/rewind")
        terminal.wait(lambda: words["rewind"] in terminal.visible)
        terminal.press("\r")  # the newest
        terminal.wait(lambda: words["what"] in terminal.visible)
        terminal.press("\r")  # with the files
        terminal.wait(words["back"])
        terminal.wait(lambda: terminal.visible.rstrip().endswith("› second"))
        assert not file.exists()
        terminal.type(" try")
        terminal.wait("Three.")
        terminal.prompt()
        terminal.type("/fork")
        terminal.wait(words["copy"])
    users = [one["text"] for one in desk.said() if one.get("type") == "user"]
    assert any("second try" in text for text in users)
    assert len(list((desk.data / "sessions").glob("*.jsonl"))) == 2


@everywhere
def test_undo_says_what_was_undone_and_what_was_not(desk: Desk, lang: str, columns: int, rows: int) -> None:
    words = WORDS[lang]
    subprocess.run(["git", "init", "-q"], cwd=desk.workspace, check=True)
    other = ("Write", {"file_path": "b.txt", "content": "b\n"})
    with start(
        desk, [calls("", WRITE), "One.", calls("", other), "Two."], lang=lang, columns=columns, rows=rows
    ) as terminal:
        terminal.prompt()
        for said, answer in (("first", "One."), ("second", "Two.")):
            terminal.type(said)
            terminal.wait(answer)
            terminal.prompt()
        (desk.workspace / "a.txt").write_text("mine\n")
        terminal.type("/undo 2")
        terminal.wait(words["not undone"])
        terminal.wait(words["since"])
        assert words["undone"].replace(" ", "") in terminal.flowing
        assert "Nothingwasundone" not in terminal.flowing
        assert not (desk.workspace / "b.txt").exists()
        assert (desk.workspace / "a.txt").read_text() == "mine\n"


@everywhere
def test_a_session_that_was_killed_says_what_was_cut_off(desk: Desk, lang: str, columns: int, rows: int) -> None:
    words = WORDS[lang]
    with start(
        desk, [calls("", ("Bash", {"command": "echo run$((40+2)); sleep 600"}))], lang=lang, columns=columns, rows=rows
    ) as terminal:
        terminal.prompt()
        terminal.type("!echo beside")  # a note of ours goes along with the next message
        terminal.wait("\n  beside")
        terminal.prompt()
        terminal.type("wait for it")
        terminal.wait("run42")  # killed before, it would leave the trial of its sandbox behind
        terminal.wait(lambda: any(one.get("type") == "assistant" for one in desk.said()))
        terminal.program.send_signal(signal.SIGKILL)
        terminal.program.wait()
    with start(desk, ["Hm."], "--continue", lang=lang, columns=columns, rows=rows) as terminal:
        terminal.wait("› wait for it")
        terminal.wait(words["cut"])
        terminal.wait(words["resumed"])
        assert "beside" not in terminal.text


@everywhere
def test_steps_copy_and_export(desk: Desk, lang: str, columns: int, rows: int) -> None:
    words = WORDS[lang]
    steps = [{"content": "read it", "status": "completed"}, {"content": "change it", "status": "in_progress"}]
    replies = [calls("", ("TodoWrite", {"todos": steps})), "Done."]
    with start(desk, replies, "go", lang=lang, columns=columns, rows=rows) as terminal:
        terminal.wait(words["steps"])
        terminal.wait("☒ read it")
        terminal.wait("▸ change it")
        terminal.wait("Done.")
        terminal.prompt()
        terminal.type("/copy")
        terminal.wait(words["sent"])
        assert b"\x1b]52;c;RG9uZS4=\x07" in terminal.written
        terminal.prompt()
        terminal.type("/export talk.md")
        terminal.wait(words["written"])
        terminal.prompt()
        terminal.type("/export talk.md")
        terminal.wait(words["exists"])
    text = (desk.workspace / "talk.md").read_text()
    assert "Done." in text
    assert "[x] read it" in text


def test_nothing_heavy_is_imported_before_the_first_prompt(desk: Desk) -> None:
    """Tools, rules, questions and the database of changes come after it."""
    late = (
        "pydantic", "yaml", "acp", "sqlite3", "httpx2", "ferrule.agent.custom_commands", "ferrule.agent.todo_tool",
        "ferrule.app.build", "ferrule.cli.ask", "ferrule.cli.run", "ferrule.pipeline", "ferrule.policy",
        "ferrule.process", "ferrule.registry", "ferrule.workspace.files",
    )  # fmt: skip
    program = desk.folder / "first_prompt.py"
    program.write_text(
        "import os, sys, ferrule.cli.chat\ndef load_parts():\n"
        f"    print('LATE', [one for one in {late} if one in sys.modules], flush=True)\n    os._exit(0)\n"
        "ferrule.cli.chat._load_parts = load_parts\nfrom ferrule.cli.main import main\nmain()\n"
    )
    key = {"ANTHROPIC_API_KEY": "not-a-key", "PYTHONNOUSERSITE": "1"}  # no warm start, which has imported everything
    command = [sys.executable, str(program), "chat", "--model", "anthropic/claude-sonnet-4-5"]
    chat = desk.start(command, columns=80, rows=24, rewraps=False, environment=key)
    assert chat.ended() == 0
    assert "LATE []" in chat.text


@everywhere
def test_init_gives_the_model_its_task_and_the_file_is_written_by_the_rules(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    replies = [calls("", ("Write", {"file_path": "AGENTS.md", "content": "# Shop\n"})), "Written."]
    with start(desk, replies, lang=lang, columns=columns, rows=rows) as terminal:
        terminal.prompt()
        terminal.type("/init in English")
        terminal.wait("Written.")
    first = next(one for one in desk.said() if one.get("type") == "user")
    assert first["typed"] == "/init in English"
    assert "AGENTS.md" in first["text"]
    assert (desk.workspace / "AGENTS.md").read_text() == "# Shop\n"


@everywhere
def test_web_tools_are_listed_once_a_host_is_allowed(desk: Desk, lang: str, columns: int, rows: int) -> None:
    for more, listed in (
        ((), False),
        (("--allow-host", "example.org"), True),
        (("--allow", "WebFetch(domain:a.org)"), True),
    ):
        with start(desk, [], *more, lang=lang, columns=columns, rows=rows) as terminal:
            terminal.prompt()
            terminal.type("/tools")
            terminal.wait("  Write ")
            terminal.prompt()
            assert ("FetchPage" in terminal.text) is listed


def test_a_fork_of_a_session_that_is_open_elsewhere(desk: Desk) -> None:
    with start(desk, ["One."], "hello", lang="en", columns=80, rows=24) as first:
        first.wait("One.")
        first.prompt()
        with start(desk, ["Two."], "--continue", "--fork", lang="en", columns=80, rows=24) as second:
            second.wait("› hello")
            second.prompt()
            second.type("again")
            second.wait("Two.")
    files = list(Path(desk.data / "sessions").glob("*.jsonl"))
    texts = sorted([json.loads(line).get("text") for line in file.read_text().splitlines()][1] for file in files)
    assert texts == ["hello", "hello"]
