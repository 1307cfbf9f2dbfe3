"""The input line at a real terminal: tall pastes, other programs, images, reasoning, the bell (issue 21; M2, P9)."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest
from tests.cli.chatting.conftest import calls
from tests.cli.chatting.test_while_it_works import everywhere, said_by_user
from tests.cli.mcp_peer import PATIENT
from tests.cli.terminal import CTRL_C, CTRL_D
from tests.needs import slow
from tests.workspace.pictures import PNG

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.chatting.conftest import Desk

CTRL_O, CTRL_V, CTRL_Z, EDIT = "\x0f", "\x16", "\x1a", "\x18\x05"


def pasted(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


@everywhere
def test_a_paste_taller_than_the_window_is_in_the_scrollback_once(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    lines = [f"item {number} 第{number}行" for number in range(100, 160)]
    chat = desk.chat(["Thanks."], "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)
    before = chat.text.split("\n")[:-2]
    chat.press(pasted("\r\n".join(lines)))
    chat.wait(lambda: chat.visible.endswith("\n… item 159 第159行"))
    assert chat.text.split("\n")[: len(before)] == before
    chat.press("\x1b[A" * 70)  # to the first line, and above it there is no history
    chat.wait(lambda: "› item 100" in chat.visible)
    chat.press("\x1b>" + "\x1b[B" * 70)
    chat.wait(lambda: chat.visible.endswith("\n… item 159 第159行"))
    chat.press("\r")
    chat.wait("Thanks.")
    chat.prompt(2)
    assert chat.text.split("\n")[: len(before)] == before
    for line in lines:
        assert chat.text.count(line) == 1
    assert said_by_user(desk) == ["\n".join(lines)]


@everywhere
def test_a_wrapped_row_does_not_look_like_a_line(desk: Desk, lang: str, columns: int, rows: int) -> None:
    chat = desk.chat(["Thanks."], "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)
    chat.press("x" * 100 + "\x1b\rnew")
    chat.wait(lambda: chat.visible.endswith("\n… new"))

    def typed() -> list[str]:
        found = chat.text.split("\n")
        return found[next(at for at, row in enumerate(found) if row.startswith("› x")) :]

    while_typed = typed()
    assert "".join(row[2:] for row in while_typed) == "x" * 100 + "new"
    assert [row[:2] for row in while_typed] == ["› ", *["  "] * (len(while_typed) - 2), "… "]
    chat.press("\r")
    chat.wait("Thanks.")
    assert typed()[: len(while_typed)] == while_typed


@everywhere
def test_ctrl_z_suspends_and_fg_brings_everything_back(desk: Desk, lang: str, columns: int, rows: int) -> None:
    """Also in the middle of a turn. A shell with job control is what starts it."""
    script = desk.script("One.", {"text": "Two.", "wait": 1.0})
    chat = desk.start(
        ["bash", "--norc", "--noprofile", "-i"],
        columns=columns, rows=rows, rewraps=False, environment={"PS1": "shell$ "},
    )  # fmt: skip
    chat.wait("shell$")
    chat.type(f"{sys.executable} {PATIENT} chat --lang {lang} --model {script}")
    chat.wait(lambda: chat.visible.endswith("\n›"))
    chat.press("half a li")
    chat.wait(lambda: chat.visible.endswith("\n› half a li"))
    chat.press(CTRL_Z)
    chat.wait("Stopped")
    chat.wait(lambda: chat.visible.endswith("shell$"))
    chat.type("stty -a | grep -o ' icanon'; fg")
    chat.wait("icanon")
    chat.wait(lambda: chat.visible.endswith("\n› half a li"))
    chat.press("ne\r")
    chat.wait("One.")
    chat.wait(lambda: chat.visible.endswith("\n›"))
    chat.type("again")
    chat.wait(lambda: chat.visible.endswith("\n»"))
    chat.press(CTRL_Z)
    chat.wait(lambda: chat.visible.endswith("shell$"))
    chat.type("fg")
    chat.wait("Two.")
    chat.wait(lambda: chat.visible.endswith("\n›"))
    chat.press(CTRL_D)
    chat.wait(lambda: chat.visible.endswith("shell$"))
    assert said_by_user(desk) == ["half a line", "again"]


@everywhere
def test_ctrl_x_ctrl_e_opens_the_editor_and_brings_its_text_back(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    editor = desk.folder / "my editor"
    editor.write_text('#!/bin/sh\necho "EDITING $(cat "$1")"\nprintf "from the\\neditor 里\\n" > "$1"\n')
    editor.chmod(0o755)
    chat = desk.chat(
        ["Thanks."], "--lang", lang, columns=columns, rows=rows,
        environment={"EDITOR": f"'{editor}'", "VISUAL": ""},
    )  # fmt: skip
    chat.prompt(1)
    chat.press("a beginning")
    chat.wait("› a beginning")
    chat.press(EDIT)
    chat.wait("EDITING a beginning")
    chat.wait(lambda: chat.visible.endswith("\n› from the\n… editor 里"))
    chat.press("\r")
    chat.wait("Thanks.")
    assert said_by_user(desk) == ["from the\neditor 里"]


@pytest.mark.slow
def test_an_editor_that_fails_or_is_not_there_changes_nothing(desk: Desk) -> None:
    chat = desk.chat(["unused"], environment={"EDITOR": "false", "VISUAL": ""})
    chat.prompt(1)
    chat.press("my text" + EDIT)
    chat.wait("false ended with code 1; your text is as it was.")
    chat.wait(lambda: chat.visible.endswith("\n› my text"))
    other = desk.chat(["unused"], environment={"EDITOR": "no-such-editor", "VISUAL": ""})
    other.prompt(1)
    other.press(EDIT)
    other.wait("No editor was found.")


def clipboard(desk: Desk, content: bytes) -> dict[str, str]:
    """A desktop whose clipboard holds this."""
    folder = desk.folder / "bin"
    folder.mkdir()
    (folder / "clip").write_bytes(content)
    for name in ("xclip", "wl-paste"):
        (folder / name).write_text(f"#!/bin/sh\ncat '{folder}/clip'\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{desk.environment['PATH']}"}


@everywhere
def test_an_image_in_the_clipboard_goes_along(desk: Desk, lang: str, columns: int, rows: int) -> None:
    environment = clipboard(desk, PNG)
    chat = desk.chat(["A dot."], "--lang", lang, columns=columns, rows=rows, environment=environment)
    chat.prompt(1)
    chat.press("what is " + CTRL_V)
    chat.wait(lambda: chat.visible.endswith("\n› what is [Image 1]"))
    chat.press(" or " + pasted(""))  # what some terminals make of it
    chat.wait(lambda: chat.visible.endswith("\n› what is [Image 1] or [Image 2]"))
    chat.press("?\r")
    chat.wait("A dot.")
    [line] = [line for line in desk.said() if line.get("type") == "user"]
    assert line["text"] == "what is [Image 1] or [Image 2]?"
    assert str(line).count("image/png") == 2


@everywhere
def test_a_clipboard_without_an_image_is_said(desk: Desk, lang: str, columns: int, rows: int) -> None:
    environment = clipboard(desk, b"only text")
    chat = desk.chat(["unused"], "--lang", lang, columns=columns, rows=rows, environment=environment)
    chat.prompt(1)
    chat.press("see" + CTRL_V)
    chat.wait({"en": "The clipboard holds no image.", "zh": "剪贴板中没有图片。"}[lang])
    chat.wait(lambda: chat.visible.endswith("\n› see"))


@everywhere
def test_reasoning_is_folded_into_a_row_and_can_be_shown(desk: Desk, lang: str, columns: int, rows: int) -> None:
    thoughts = [f"thought {number} 想" for number in range(20)]
    chat = desk.chat(
        [{"text": "The answer.", "thinking": "\n".join(thoughts)}], "--lang", lang, columns=columns, rows=rows
    )
    chat.prompt(1)
    chat.type("go")
    chat.wait("The answer.")
    chat.prompt(2)
    assert {"en": "∴ Thought for 0 s (20 lines).", "zh": "∴ 思考了 0 秒（20 行）。"}[lang].replace(
        " ", ""
    ) in chat.flowing
    assert "thought 0" not in chat.text
    assert "Ctrl-O" in chat.text
    chat.press(CTRL_O)
    chat.wait("thought 19 想")
    for thought in thoughts:
        assert chat.text.count(thought) == 1
    assert b"\x1b[2;3m  thought 3 " in chat.written  # dimmed


@everywhere
def test_effort_is_chosen_and_shown(desk: Desk, lang: str, columns: int, rows: int) -> None:
    chat = desk.chat(["unused"], "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)
    chat.type("/effort high")
    chat.wait({"en": "› high     much thinking", "zh": "› high     多思考"}[lang])
    chat.prompt(2)
    chat.type("/effort wild")
    chat.wait({"en": "There is no effort `wild`.", "zh": "没有思考程度 `wild`。"}[lang])


@everywhere
@pytest.mark.parametrize("notify", ["bell", slow("desktop")])
def test_who_waited_long_is_called_when_it_asks_and_when_it_ends(
    desk: Desk, lang: str, columns: int, rows: int, notify: str
) -> None:
    words = {"en": "Ferrule is waiting for you", "zh": "Ferrule 正在等您"}[lang]
    rung = b"\a" if notify == "bell" else f"\x1b]9;{words}\x1b\\".encode()
    desk.settings.write_text(f'[assistant]\nnotify = "{notify}"\nnotify_seconds = 0.2\n')
    replies = [{**calls("", ("Bash", {"command": "touch x"})), "wait": 0.3}, {"text": "Done.", "wait": 0.3}]
    chat = desk.chat(replies, "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)
    assert rung not in chat.written
    chat.type("go")
    chat.question()
    assert chat.written.count(rung) == 1
    chat.type("y")
    chat.prompt(2)
    assert chat.written.count(rung) == 2


@pytest.mark.slow
def test_a_quick_turn_calls_nobody_and_neither_does_one_that_may_not(desk: Desk) -> None:
    chat = desk.chat(["One."])
    chat.prompt(1)
    chat.type("go")
    chat.prompt(2)
    desk.settings.write_text('[assistant]\nnotify = "off"\nnotify_seconds = 0\n')
    other = desk.chat(["One."])
    other.prompt(1)
    other.type("go")
    other.prompt(2)
    assert b"\a" not in chat.written + other.written


@everywhere
def test_a_mistyped_file_is_said_with_the_one_that_was_meant(desk: Desk, lang: str, columns: int, rows: int) -> None:
    desk.file("src/main.py", "one = 1\n")
    chat = desk.chat(["Fine."], "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)
    chat.type("read @src/mian.py and keep @property")
    chat.wait("Fine.")
    said = {"en": "@src/mian.py: there is no such file", "zh": "@src/mian.py：没有这个文件"}[lang]
    assert re.sub(r"\s", "", said) in chat.flowing
    assert {"en": "Didyoumean@src/main.py?", "zh": "您是不是想写@src/main.py？"}[lang] in chat.flowing
    assert chat.flowing.count("@property") == 1


@everywhere
def test_a_code_block_begins_with_its_code(desk: Desk, lang: str, columns: int, rows: int) -> None:
    chat = desk.chat(["Look:\n\n```python title=a.py\nx = 1\n```\n\nDone."], "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)
    chat.type("go")
    chat.prompt(2)
    assert "\nLook:\n\n    x = 1\n\nDone.\n" in chat.text
    assert "python" not in chat.text


@everywhere
def test_commands_are_completed_however_fast_somebody_types(desk: Desk, lang: str, columns: int, rows: int) -> None:
    """Tab and Enter need not wait for the list; the beginning of one name is enough, that of several is not."""
    desk.file("notes.txt", "one\n")
    chat = desk.chat(["Fine."], "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)
    chat.press("\r\r/eff\t\r")
    chat.wait("› /effort")
    chat.wait(lambda: "\n  › default " in chat.text)
    chat.prompt(2)
    chat.press("/cos\r")
    chat.wait("› /cost")
    chat.prompt(3)
    chat.press("/to\r")
    chat.wait({"en": "Did you mean `/tools`, `/todos`?", "zh": "您是指 `/tools`、`/todos` 吗？"}[lang])
    chat.prompt(4)
    assert "\n›\n" not in chat.text  # an empty line is nothing
    chat.press("see @no\t")
    chat.wait(lambda: "› see @notes.txt" in chat.visible)
    chat.press("\r\r")
    chat.wait("Fine.")
    assert said_by_user(desk)[0].startswith("see @notes.txt")


@pytest.mark.slow
def test_earlier_lines_are_searched(desk: Desk) -> None:
    chat = desk.chat(["One.", "Two."])
    chat.prompt(1)
    chat.type("an unusual request")
    chat.prompt(2)
    chat.press("\x12unus")
    chat.wait("search: unus")
    chat.wait(lambda: "› an unusual request" in chat.visible.split("One.")[1])
    chat.press("\r\r")
    chat.wait("Two.")
    assert said_by_user(desk) == ["an unusual request"] * 2


def test_a_pipe_cannot_run_a_command_as_the_user(desk: Desk, tmp_path: Path) -> None:
    """P4: whoever fills a pipe is not the person."""
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", "ferrule", "chat", "--model", desk.script("unused")],
        cwd=desk.workspace, env=desk.environment, input="!touch made\n", capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert "`!command` works only at a terminal" in done.stdout
    assert not (desk.workspace / "made").exists()


@pytest.mark.slow
def test_an_unsent_line_survives_a_question(desk: Desk) -> None:
    replies = [{**calls("", ("Bash", {"command": "touch x"})), "wait": 1.0}, "Fine."]
    chat = desk.chat(replies)
    chat.prompt(1)
    chat.type("go")
    chat.wait("thinking…")
    chat.press(pasted("a\nb") + "\x1b[D")
    chat.question()
    chat.type("y")
    chat.wait("Fine.")
    chat.wait(lambda: chat.visible.endswith("\n› a\n… b"))
    chat.press(CTRL_C)
    chat.wait(lambda: chat.visible.endswith("\n›"))
    assert (desk.workspace / "x").exists()
