"""Whole conversations at a real terminal (issue 5, must-show 3; M2, P4, P9)."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.chatting.conftest import calls
from tests.cli.mcp_peer import PATIENT
from tests.cli.terminal import CTRL_C, CTRL_D
from tests.needs import slow
from tests.warm_start import run_warm

if TYPE_CHECKING:
    from tests.cli.chatting.conftest import Desk
    from tests.cli.terminal import Terminal

WORDS: dict[str, dict[str, Any]] = {
    "en": {
        "paragraphs": [
            "First I look at the file that you named, and tell you what I see in it.",
            "Now I change one word of it, which needs your leave before anything is written.",
            "Then I would like to remove something, which you may not want me to do at all.",
            "You said no, so the folder stays where it is, and I go on with the rest.",
        ],
        "refused": "refused by you: keep the folder",
        "undone": "2 changes undone:",
        "read": "read 2 lines",
        "edited": "edited (+1 −1)",
        "always": "Always",
        "stopped": "Stopped.",
        "resumed": "Continuing",
    },
    "zh": {
        "paragraphs": [
            "首先我看一下你提到的文件，然后告诉你我在里面看到了什么内容，这样我们就都清楚了。",
            "现在我修改其中的一个词，在写入任何内容之前都需要得到你的许可，请你看一看下面的差异。",
            "然后我想删除一些东西，也许你根本不希望我这样做，那么请告诉我原因。",
            "你说了不，所以文件夹留在原处，我继续做其余的事情😀。",
        ],
        "refused": "您已拒绝：keep the folder",
        "undone": "已撤销 2 处更改：",
        "read": "读取了 2 行",
        "edited": "已编辑",
        "always": "总是",
        "stopped": "已停止。",
        "resumed": "继续",
    },
}  # fmt: skip


def once(terminal: Terminal, paragraph: str) -> None:
    bare = "".join(paragraph.split())
    assert terminal.flowing.count(bare) == 1, f"{paragraph!r} in:\n{terminal.text}"


@pytest.mark.parametrize(("lang", "columns"), [("en", 80), slow("zh", 80), slow("en", 20), slow("zh", 20)])
def test_a_whole_session(desk: Desk, lang: str, columns: int) -> None:
    """Approval, a diff before an edit, denial with a reason, always, an interrupted command, undo and resume."""
    words = WORDS[lang]
    one, two, three, four = words["paragraphs"]
    file = desk.file("a.txt", "hello\nworld\n")
    edit = {"file_path": "a.txt", "old_string": "world", "new_string": "moon"}
    replies = [
        calls(one, ("Read", {"file_path": "a.txt"})),
        calls(two, ("Edit", edit)),
        calls(three, ("Bash", {"command": "rm -r folder"})),
        four,
        calls("", ("Bash", {"command": "touch made-1"})),
        calls("", ("Bash", {"command": "touch made-2"})),
        "Both are there.",
        calls("", ("Bash", {"command": "exec sleep 1000"})),
    ]
    (desk.workspace / "folder").mkdir()
    chat = desk.chat(replies, "--lang", lang, columns=columns)
    chat.prompt(1)
    chat.type("go")
    chat.question()
    assert file.read_text() == "hello\nworld\n"
    chat.wait("-world")
    chat.wait("+moon")
    chat.type("y")
    chat.wait(words["edited"])
    chat.question()
    chat.wait("rm -r folder")
    chat.type("n keep the folder")
    chat.wait(words["refused"])
    chat.prompt(2)
    assert file.read_text() == "hello\nmoon\n"
    assert (desk.workspace / "folder").is_dir()
    assert any("They said: keep the folder" in str(line) for line in desk.said())
    chat.wait(words["read"])

    chat.type("make two")
    chat.question()
    chat.wait(words["always"])
    chat.type("a")
    chat.wait("Both are there.")  # the second one did not ask
    assert (desk.workspace / "made-2").exists()
    chat.prompt(3)

    chat.type("wait")
    chat.wait(lambda: runs("sleep 1000", desk))
    chat.press(CTRL_C)
    chat.wait(words["stopped"])
    chat.prompt(4)
    assert not runs("sleep 1000", desk)

    chat.type("/undo")  # the last turn that changed something: the stopped one did not
    chat.wait(words["undone"])
    assert not (desk.workspace / "made-1").exists()
    assert file.read_text() == "hello\nmoon\n"
    chat.prompt(5)
    chat.type("/undo 9")
    chat.wait(lambda: file.read_text() == "hello\nworld\n")
    chat.prompt(6)
    chat.press(CTRL_D)
    assert chat.ended() == 0
    for paragraph in words["paragraphs"]:
        once(chat, paragraph)

    again = desk.chat(["I remember."], "--continue", "--lang", lang, columns=columns)
    again.prompt(1)
    again.wait(words["resumed"])
    again.type("do you remember")
    again.wait("I remember.")
    again.prompt(2)
    again.type("/quit")
    assert again.ended() == 0
    assert sum(line.get("type") == "turn" for line in desk.said()) == 4


def runs(command: str, desk: Desk) -> bool:
    """Whether a process with this command line works in the desk's workspace."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                where = (folder / "cwd").readlink()
            except OSError:
                continue
            if line == command and where == desk.workspace:
                return True
    return False


PIECES = [
    "The first paragraph is long enough to be wrapped in any window that people have, 中文也可以换行。\n\nThe sec",
    "ond one comes in the middle of a change of the window, 😀😀 and goes on after it as before.\n\nThe la",
    "st one ends it all.",
]


@pytest.mark.parametrize("rewraps", [slow(False), True])
@pytest.mark.parametrize(("before", "after"), [(80, 40), slow(30, 100), slow(60, 20)])
def test_a_resize_in_the_middle_of_a_stream_leaves_each_paragraph_once(
    desk: Desk, before: int, after: int, rewraps: bool
) -> None:
    chat = desk.gated(PIECES, columns=before, rewraps=rewraps)
    chat.prompt(1)
    chat.type("go")
    desk.let_through(0)
    chat.wait("The sec")
    chat.resize(after)
    desk.let_through(1)
    chat.wait("The la")
    chat.resize(before)
    desk.let_through(2)
    chat.prompt(2)
    if rewraps:  # one that cuts rows loses what was right of its edge; the beginnings are there
        for paragraph in "".join(PIECES).split("\n\n"):
            once(chat, paragraph)
    for beginning in ("The first", "The secon", "The last"):
        assert chat.text.count(beginning) == 1, chat.text


@pytest.mark.slow
def test_a_long_answer_is_in_the_scrollback_line_by_line(desk: Desk) -> None:
    lines = [f"- item {number} of many, with words enough to be wrapped" for number in range(100)]
    code = "\n".join(f"    line_{number} = {number}" for number in range(60))
    long = "x" * 500
    chat = desk.chat(["\n".join([*lines, "", "```python", code, "```", "", long])], columns=50, rows=10)
    chat.prompt(1)
    chat.type("go")
    chat.prompt(2)
    for number in range(100):
        assert chat.text.count(f"item {number} of") == 1
    for number in range(60):
        assert chat.text.count(f"line_{number} =") == 1
    assert long in chat.flowing


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [(["--plain"], {}), slow([], {"NO_COLOR": "1"}), slow([], {"TERM": "dumb"})],
)
def test_plain_output_has_no_escape_codes(desk: Desk, arguments: list[str], environment: dict[str, str]) -> None:
    desk.file("a.txt", "one\n")
    replies = [
        calls("I **look**.", ("Read", {"file_path": "a.txt"}), ("Bash", {"command": "touch x"})),
        "It says \x1b[31mone\x1b[0m.",
    ]
    chat = desk.chat(replies, *arguments, environment=environment)
    chat.prompt(1)
    chat.type("go")
    chat.question()
    chat.type("n")
    chat.prompt(2)
    chat.press(CTRL_D)
    assert chat.ended() == 0
    assert b"\x1b" not in chat.written
    assert "[done] Read a.txt — read 1 line" in chat.text
    assert "[refused] Bash touch x — refused by you" in chat.text
    assert "I **look**." in chat.text
    assert "\\x1b[31mone" in chat.text


def test_ctrl_c_twice_at_the_prompt_leaves_and_a_typed_line_only_goes_away(desk: Desk) -> None:
    chat = desk.chat(["unused"])
    chat.prompt(1)
    chat.press("some words")
    chat.wait("some words")
    chat.press(CTRL_C)
    chat.prompt(1)
    chat.press(CTRL_C)
    chat.wait("Ctrl-C again quits.")
    chat.prompt(2)
    chat.press(CTRL_C)
    assert chat.ended() == 0


def test_ctrl_c_twice_while_it_works_leaves_and_nothing_runs_on(desk: Desk) -> None:
    chat = desk.chat([calls("", ("Bash", {"command": "sleep 1001"}))])
    chat.prompt(1)
    chat.type("go")
    chat.wait(lambda: runs("sleep 1001", desk))
    chat.press(CTRL_C)
    chat.wait("Stopped.")
    chat.prompt(2)
    chat.press(CTRL_C)
    assert chat.ended() == 0
    assert not runs("sleep 1001", desk)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), slow(signal.SIGHUP, 129)])
@pytest.mark.parametrize("at", [slow("prompt"), slow("question"), "command"])
def test_a_signal_ends_it_cleanly(desk: Desk, number: int, code: int, at: str) -> None:
    command = "touch x" if at == "question" else "sleep 1002"
    chat = desk.chat([calls("", ("Bash", {"command": command}))])
    chat.prompt(1)
    if at != "prompt":
        chat.type("go")
    if at == "question":
        chat.question()
    if at == "command":
        chat.wait(lambda: runs("sleep 1002", desk))
    chat.program.send_signal(number)
    assert chat.ended() == code
    assert not runs("sleep 1002", desk)
    assert "Traceback" not in chat.text


@pytest.mark.slow
def test_a_terminal_that_is_closed_ends_it_and_what_it_ran(desk: Desk) -> None:
    chat = desk.chat([calls("", ("Bash", {"command": "sleep 1003"}))])
    chat.prompt(1)
    chat.type("go")
    chat.wait(lambda: runs("sleep 1003", desk))
    chat.hang_up()
    assert chat.program.wait(30) == 129
    assert not runs("sleep 1003", desk)


@pytest.mark.slow
def test_what_was_typed_before_a_question_does_not_answer_it(desk: Desk) -> None:
    chat = desk.chat([{**calls("", ("Bash", {"command": "touch x"})), "wait": 1.0}, "Done."])
    chat.prompt(1)
    chat.type("go")
    chat.wait("thinking…")
    chat.press("y")
    chat.wait("» y")
    chat.question()
    chat.press("\r")
    chat.wait("refused by you")
    chat.wait(lambda: chat.text.endswith("\n› y"))  # it is not lost either
    assert not (desk.workspace / "x").exists()


def test_a_line_typed_while_it_works_steers_it(desk: Desk) -> None:
    replies = [{**calls("", ("Bash", {"command": "sleep 0.1"})), "wait": 1.0}, "I heard you."]
    chat = desk.chat(replies, "--allow", "Bash(*)")
    chat.prompt(1)
    chat.type("go")
    chat.wait("thinking…")
    chat.type("use the 别的 one")
    chat.wait("I heard you.")
    chat.prompt(2)
    assert chat.text.count("» use the 别的 one") == 1
    assert any(line.get("text") == "use the 别的 one" for line in desk.said())


def test_a_pipe_gives_words_and_never_leave(desk: Desk) -> None:
    """P4: whoever fills a pipe is not the person."""
    model = desk.script(calls("", ("Bash", {"command": "touch x"})), "It was not run.")
    done = subprocess.run(
        [sys.executable, "-m", "ferrule", "chat", "--model", model],
        cwd=desk.workspace, env=desk.environment, input="go\ny\ny\n", capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert not (desk.workspace / "x").exists()
    assert "[refused] Bash touch x" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("lang", "wrong", "missing", "plan"),
    [
        ("en", "`a.txt` has not been read yet.", "and approval isn't available here", "not available in plan mode"),
        slow("zh", "还没有读取 `a.txt`。", "，而这里无法请求批准", "在计划模式下不可用"),
    ],
)
def test_in_a_pipe_an_edit_that_must_fail_says_why_and_others_that_nobody_can_approve(
    desk: Desk, lang: str, wrong: str, missing: str, plan: str
) -> None:
    file = desk.file("a.txt", "one\n")
    edit = ("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "three"})
    read = calls("", ("Read", {"file_path": "a.txt"}))
    again = ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "three"})
    model = desk.script(calls("", edit), read, calls("", edit, again, ("Bash", {"command": "touch x"})), "Done.")
    command = [PATIENT, "chat", "--lang", lang, "--model", model]
    done = run_warm(command, desk.workspace, desk.environment, stdin="go\n", timeout=300)
    assert wrong in done.out
    assert done.out.count(missing) == 2
    assert file.read_text() == "one\n"
    done = run_warm([*command, "--mode", "plan"], desk.workspace, desk.environment, stdin="go\n", timeout=300)
    assert done.out.count(plan) == 4
    assert missing not in done.out


@pytest.mark.slow
def test_who_cannot_see_the_question_is_not_asked(desk: Desk) -> None:
    """What is written goes into a file; an answer typed blindly is no leave."""
    model = desk.script(calls("", ("Bash", {"command": "touch x"})), "It was not run.")
    out = desk.folder / "out"
    program = f"exec {sys.executable} -m ferrule chat --model {model} > {out}"
    chat = desk.start(["/bin/sh", "-c", program], columns=80, rows=24, rewraps=False, environment=None)
    chat.type("go")
    chat.type("y")
    chat.press(CTRL_D)
    assert chat.ended() == 0
    assert "[refused] Bash touch x" in out.read_text()
    assert not (desk.workspace / "x").exists()


def test_several_lines_can_be_typed_and_pasted(desk: Desk) -> None:
    chat = desk.chat(["Thanks."])
    chat.prompt(1)
    chat.press("one\\\r")
    chat.press("two\x1b\r")
    chat.press("\x1b[200~three\nfour\x1b[201~")
    chat.wait("four")
    chat.press("\r")
    chat.wait("Thanks.")
    assert any(line.get("text") == "one\ntwo\nthree\nfour" for line in desk.said())


@pytest.mark.slow
def test_history_is_kept_for_the_person_alone(desk: Desk) -> None:
    chat = desk.chat(["One."])
    chat.prompt(1)
    chat.type("a memorable line")
    chat.prompt(2)
    chat.press(CTRL_D)
    chat.ended()
    assert (desk.data / "chat_history").stat().st_mode & 0o777 == 0o600
    again = desk.chat(["Two."])
    again.prompt(1)
    again.press("\x1b[A")
    again.wait("a memorable line")


def test_settings_that_cannot_work_end_it_with_words(desk: Desk) -> None:
    chat = desk.chat(["unused"], "--allow", "Bash(")
    assert chat.ended() == 2
    assert "Bash(" in chat.text
    assert "Traceback" not in chat.text


@pytest.mark.slow
def test_a_tools_folder_is_followed_between_turns(desk: Desk) -> None:
    """R8: the next turn has the tools as the files are then, and says what could not be loaded."""
    tools = desk.folder / "tools"
    tools.mkdir()
    desk.settings.write_text(f'[tools]\nfolders = ["{tools}"]\n')
    chat = desk.chat([calls("", ("greet_person", {})), "That was all."] * 200)
    turns = itertools.count(1)
    greeting = (
        "from ferrule import tool\n@tool(kind='readonly')\ndef greet_person() -> str:\n"
        '    """Greet. Use this to test."""\n    return "GREETING"\n'
    )

    def answered(words: str) -> bool:
        turn = next(turns)
        chat.prompt(turn)
        chat.type("greet me")
        chat.prompt(turn + 1)
        return any(words in str(line) for line in desk.said())

    assert not answered("hello-1")
    for text in ("hello-1", "hello-2"):
        (tools / "greet.py").write_text(greeting.replace("GREETING", text))
        chat.wait(lambda text=text: answered(text))
    (tools / "broken.py").write_text("\n1 / 0")
    chat.wait(lambda: answered("hello-2") and "broken.pywasskipped:line2:ZeroDivisionError" in chat.flowing)
    assert chat.flowing.count("ZeroDivisionError") == 1
    chat.press(CTRL_D)
    assert chat.ended() == 0
