"""What is typed while the model works: commands act at once, lines wait and can be had back (issue 21; M2, P4, P9)."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.chatting.conftest import calls
from tests.cli.chatting.test_chat import runs
from tests.cli.terminal import CTRL_C, CTRL_D, ESCAPE
from tests.needs import slow

from ferrule.agent.agent_events import Ending
from ferrule.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.cli.chatting.conftest import Desk, Room
    from tests.cli.terminal import Terminal

UP, SHIFT_TAB = "\x1b[A", "\x1b[Z"
NEVER: dict[str, Any] = {"text": "too late", "wait": 3600}
"""An answer that nobody waits for: the turn is stopped."""

everywhere = pytest.mark.parametrize(
    ("lang", "columns", "rows"), [("en", 80, 24), slow("zh", 80, 24), slow("en", 40, 15), slow("zh", 40, 15)]
)

WORDS = {
    "en": {
        "rewind": "Go back to before which message?",
        "plan": "only reading runs; the rest is refused", "queued": "(queued", "stopped": "Stopped.",
        "thinking": "thinking…", "later": "To continue later", "nothing": "Nothing to undo.",
        "refused": "refused by you: use git rm instead", "none": "There is no command `/mod`.",
        "not sent": "Not sent: `/review a.py`.", "failed": "It failed.", "nothing used": "Nothing used yet.",
        "cleared": "Started a new conversation.", "back": "Back to before",
    },
    "zh": {
        "rewind": "回到哪条消息之前？",
        "plan": "只", "queued": "（已排队", "stopped": "已停止。", "thinking": "思考中…", "later": "以后继续",
        "nothing": "没有可撤销的内容", "refused": "您已拒绝：use git rm instead", "none": "没有命令 `/mod`",
        "not sent": "未发送：`/review a.py`。", "failed": "失败", "nothing used": "还没有使用",
        "cleared": "新对话已开始", "back": "已回到此消息之前",
    },
}  # fmt: skip


def working(desk: Desk, replies: list[Any], *arguments: str, lang: str, columns: int, rows: int) -> Terminal:
    chat = desk.chat(replies, "--lang", lang, *arguments, columns=columns, rows=rows)
    chat.prompt(1)
    chat.type("go")
    chat.wait(WORDS[lang]["thinking"])
    return chat


def said_by_user(desk: Desk) -> list[str]:
    return [line["text"] for line in desk.said() if line.get("type") == "user"]


@everywhere
def test_slash_commands_act_at_once_and_are_no_words_for_the_model(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    words = WORDS[lang]
    chat = working(desk, [NEVER], lang=lang, columns=columns, rows=rows)
    chat.type("/mode plan")
    chat.wait(lambda: any(row.startswith("  plan · ") for row in chat.visible.split("\n")))
    chat.wait(words["plan"])
    chat.type("/mod")
    chat.wait(words["none"])
    chat.type("/quit")
    assert chat.ended() == 0
    assert words["later"] in chat.text
    assert said_by_user(desk) == ["go"]


@everywhere
def test_a_command_that_changes_what_the_turn_works_on_stops_it_first(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    chat = working(desk, [NEVER], lang=lang, columns=columns, rows=rows)
    chat.type("/undo")
    chat.wait(WORDS[lang]["stopped"])
    chat.wait(WORDS[lang]["nothing"])
    chat.prompt(2)


@everywhere
def test_rewind_stops_the_turn_and_its_list_takes_the_keys_until_it_is_left(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    chat = working(desk, [NEVER, "Fine."], lang=lang, columns=columns, rows=rows)
    chat.type("/rewind")
    chat.wait(WORDS[lang]["stopped"])
    chat.wait(lambda: WORDS[lang]["rewind"] in chat.visible)
    chat.press("\r")
    chat.wait(lambda: chat.visible.endswith("\n› go"))
    assert WORDS[lang]["rewind"] not in chat.visible
    chat.press(" on\r")
    chat.wait("Fine.")
    assert said_by_user(desk)[-1] == "go on"


@everywhere
def test_a_custom_command_is_queued_and_the_model_gets_its_words(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    desk.file(".claude/commands/review.md", "Review $1 closely.\n")
    chat = gated(desk, "--lang", lang, columns=columns, rows=rows)
    for _time in range(2):  # each of them has its words
        chat.type("/review a.py")
    chat.wait(lambda: chat.visible.count(WORDS[lang]["queued"].strip()) == 2)
    desk.let_through(1)
    chat.wait("A second answer.")
    chat.prompt(2)
    assert chat.text.count("» /review a.py") == 2
    told = [line for line in desk.said() if line.get("type") == "user"][1:]
    assert [line["typed"] for line in told] == ["/review a.py"] * 2
    assert all("Review a.py closely." in line["text"] for line in told)


@everywhere
@pytest.mark.parametrize("key", [ESCAPE, slow(CTRL_C)])
def test_queued_lines_are_shown_recalled_and_come_back_to_the_prompt_after_a_stop(
    desk: Desk, lang: str, columns: int, rows: int, key: str
) -> None:
    chat = working(desk, [NEVER, "Fine."], lang=lang, columns=columns, rows=rows)
    for line in ("first line", "第二行", "third"):
        chat.type(line)
        chat.wait(f"» {line} {WORDS[lang]['queued']}")
    chat.press(UP)
    chat.wait(lambda: chat.visible.endswith("\n» third"))
    chat.press(" one")
    chat.wait(lambda: chat.visible.endswith("\n» third one"))
    assert "» third " + WORDS[lang]["queued"] not in chat.visible
    chat.press(key)
    chat.wait(WORDS[lang]["stopped"])
    chat.wait(lambda: chat.visible.endswith("\n› first line\n… 第二行\n… third one"))
    chat.press("\x05\r" if key == ESCAPE else "\r")
    chat.wait("Fine.")
    assert said_by_user(desk) == ["go", "first line\n第二行\nthird one"]


@everywhere
def test_a_command_among_queued_lines_stays_a_command(desk: Desk, lang: str, columns: int, rows: int) -> None:
    """One that acts at once is not queued; one with words for the model is not mixed with other lines by a stop."""
    desk.file(".claude/commands/review.md", "Review $1 closely.\n")
    chat = working(desk, [NEVER, "Fine.", "Reviewed."], lang=lang, columns=columns, rows=rows)
    for line in ("first line", "/review a.py", "/cost", "/etc/hosts is wrong"):
        chat.type(line)
    chat.wait(WORDS[lang]["nothing used"])
    chat.wait(f"» /etc/hosts is wrong {WORDS[lang]['queued']}")
    chat.press(ESCAPE)
    chat.wait(WORDS[lang]["not sent"])
    chat.wait(lambda: chat.visible.endswith("\n› first line\n… /etc/hosts is wrong"))
    chat.press("\r")
    chat.wait("Fine.")
    chat.prompt()
    chat.press(UP * 5)  # over the two lines that were sent, the last queued one, and /cost
    chat.wait(lambda: chat.visible.endswith("\n› /review a.py"))
    chat.press("\r")
    chat.wait("Reviewed.")
    chat.prompt()
    assert said_by_user(desk)[1] == "first line\n/etc/hosts is wrong"
    assert "Review a.py closely." in said_by_user(desk)[2]


@everywhere
def test_lines_queued_in_a_turn_that_fails_come_back_to_the_prompt(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    error = {"fault": "key", "message": "The key was refused.", "suggestion": "Check the key."}
    chat = working(desk, [{"error": error, "wait": 2.0}, "Fine."], lang=lang, columns=columns, rows=rows)
    chat.type("one")
    chat.press("half")
    chat.wait(WORDS[lang]["failed"])
    chat.wait(lambda: chat.visible.endswith("\n› one\n… half"))
    chat.press("\x1b> done\r")
    chat.wait("Fine.")
    assert said_by_user(desk) == ["go", "one\nhalf done"]


@everywhere
def test_ctrl_c_twice_quits_also_where_queued_lines_came_back(desk: Desk, lang: str, columns: int, rows: int) -> None:
    chat = working(desk, [NEVER], lang=lang, columns=columns, rows=rows)
    chat.type("still to say")
    chat.wait(WORDS[lang]["queued"])
    chat.press(CTRL_C)
    chat.press(CTRL_C)
    assert chat.ended() == 0
    assert WORDS[lang]["later"] in chat.text
    assert said_by_user(desk) == ["go"]
    again = desk.chat(["Fine."], "--lang", lang, columns=columns, rows=rows)
    again.prompt(1)
    again.press(UP)
    again.wait(lambda: again.visible.endswith("\n› still to say"))


def gated(desk: Desk, *arguments: str, columns: int, rows: int) -> Terminal:
    chat = desk.gated(["An answer.", " Its end."], *arguments, columns=columns, rows=rows)
    chat.prompt(1)
    chat.type("go")
    desk.let_through(0)
    chat.wait("An answer.")
    return chat


@everywhere
def test_input_during_a_turn_is_the_editor_of_the_prompt(desk: Desk, lang: str, columns: int, rows: int) -> None:
    """The cursor moves, a paste is one message, history is there, and `@file` is completed and attached."""
    desk.file("notes.txt", "the secret word\n")
    chat = gated(desk, "--lang", lang, columns=columns, rows=rows)
    chat.press(UP)
    chat.wait(lambda: chat.visible.endswith("\n» go"))
    chat.press("\x15")
    chat.wait(lambda: chat.visible.endswith("\n»"))
    chat.press("ad\x1b[Dn")
    chat.wait(lambda: chat.visible.endswith("\n» and"))
    chat.press("\x05 \x1b[200~one\r\ntwo 二\nthree\x1b[201~")
    chat.wait(lambda: chat.visible.endswith("\n» and one\n… two 二\n… three"))
    chat.press(" see @no")
    chat.wait(lambda: chat.visible.count("notes.txt") >= 1)
    chat.press("\t")
    chat.wait(lambda: "… three see @notes.txt" in chat.visible)
    chat.press("\r\r")
    chat.wait(WORDS[lang]["queued"])
    desk.let_through(1)
    chat.wait("A second answer.")
    chat.prompt(2)
    told = [text for text in said_by_user(desk) if text != "go"]
    assert len(told) == 1
    assert told[0].startswith("and one\ntwo 二\nthree see @notes.txt")
    assert "the secret word" in told[0]


@everywhere
def test_a_line_that_is_queued_when_the_turn_ends_well_is_answered_next(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    chat = gated(desk, "--lang", lang, columns=columns, rows=rows)
    chat.type("and then?")
    chat.wait(f"» and then? {WORDS[lang]['queued']}")
    desk.let_through(1)
    chat.wait("A second answer.")
    chat.prompt(2)
    assert said_by_user(desk) == ["go", "and then?"]


@everywhere
def test_esc_stops_a_command_and_ends_what_it_started(desk: Desk, lang: str, columns: int, rows: int) -> None:
    chat = desk.chat(
        [calls("", ("Bash", {"command": "exec sleep 1234"})), "Fine."], "--lang", lang, columns=columns, rows=rows
    )
    chat.prompt(1)
    chat.type("go")
    chat.wait(lambda: runs("sleep 1234", desk))
    chat.press(ESCAPE)
    chat.wait(WORDS[lang]["stopped"])
    chat.prompt(2)
    assert not runs("sleep 1234", desk)
    chat.press(ESCAPE)  # at the prompt it does nothing
    chat.type("still there?")
    chat.wait("Fine.")


@everywhere
def test_alt_keys_and_arrows_stop_nothing(desk: Desk, lang: str, columns: int, rows: int) -> None:
    chat = working(desk, [NEVER], lang=lang, columns=columns, rows=rows)
    chat.press("two words\x1bb\x1b[D\x1bOC\x1b[1;5D")
    chat.press("x")
    chat.wait(lambda: chat.visible.endswith("\n» xtwo words"))
    chat.press("\x1b\r")
    chat.wait(lambda: chat.visible.endswith("\n» x\n… two words"))
    assert WORDS[lang]["stopped"] not in chat.text


@everywhere
def test_shift_tab_goes_through_the_modes_and_the_prompt_says_which(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    replies = [calls("", ("Write", {"file_path": "a.txt", "content": "new"})), "Done."]
    chat = desk.chat(replies, "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)
    for mode in ("accept-edits", "plan", "default", "accept-edits"):
        chat.press(SHIFT_TAB)
        prompt = "›" if mode == "default" else f"{mode} ›"
        chat.wait(lambda mode=mode: f"\n  {mode} · " in chat.visible)
        chat.wait(lambda prompt=prompt: chat.visible.endswith(f"\n{prompt}"))
    chat.type("go")
    chat.wait("Done.")  # nobody was asked
    assert (desk.workspace / "a.txt").read_text() == "new"


@everywhere
def test_a_status_line_has_the_mode_the_model_what_is_left_and_the_cost(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    used = {"input_tokens": 40_000, "output_tokens": 100, "cost": 0.0123}
    chat = desk.chat([{"text": "One.", "usage": used}], "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)
    status = chat.visible.split("\n")[-2]
    assert status.startswith("  default · ")
    assert "script" in status
    assert "100" in status
    chat.type("go")
    chat.prompt(2)
    status = chat.visible.split("\n")[-2]
    assert "$0.0123" in status
    assert "100" not in status
    assert "%" in status


@everywhere
def test_what_is_left_of_the_context_follows_rewind_and_clear(desk: Desk, lang: str, columns: int, rows: int) -> None:
    answers = [
        {"text": f"Answer {number}.", "usage": {"input_tokens": 20_000 * number, "output_tokens": 100}}
        for number in (1, 2)
    ]
    chat = desk.chat([*answers, answers[0]], "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)

    def left() -> int:
        status = next(row for row in reversed(chat.visible.split("\n")) if row.startswith("  default · "))
        return int(re.findall(r"(\d+)\s*%", status)[0])

    for number in (1, 2):
        chat.type("go")
        chat.wait(f"Answer {number}.")
        chat.prompt(number + 1)
        assert left() == 100 - round(100 * (20_000 * number + 100) / 73_600)
    chat.type("/rewind 1 keep")
    chat.wait(WORDS[lang]["back"])
    chat.wait(lambda: chat.visible.endswith("\n› go"))
    assert left() > 95
    chat.press("\r")
    chat.wait(lambda: chat.text.count("Answer 1.") == 2)
    chat.prompt(5)
    assert left() == 73
    chat.type("/clear")
    chat.wait(WORDS[lang]["cleared"])
    chat.prompt(6)
    assert left() > 95


async def test_what_is_left_of_the_context_grows_when_messages_are_summarised(room: Room) -> None:
    async with room.open(*["many words " * 200] * 6, "A summary.") as chat:
        model = chat.assistant.agent.model
        assert isinstance(model, ScriptedModel)
        model.context_tokens = 8_000
        for _turn in range(6):
            await chat._turn("go")
        before = chat._context_left or 0
        await chat._heard(asyncio.ensure_future(asyncio.sleep(0, chat.assistant)), "/compact")
        assert "Earlier messages were summarised" in room.said()
        assert (chat._context_left or 0) > before + 10


@everywhere
def test_a_command_of_ones_own_runs_as_the_user_and_the_model_reads_its_output(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    chat = desk.chat(["I see."], "--lang", lang, "--mode", "plan", columns=columns, rows=rows)
    chat.prompt(1)
    chat.type("!echo made by hand | tee made.txt; echo 看 >&2; exit 3")
    chat.wait(lambda: "3" in chat.text.split("\n")[-4])
    chat.prompt(2)
    assert (desk.workspace / "made.txt").read_text() == "made by hand\n"  # plan mode is for the model
    chat.type("what was that?")
    chat.wait("I see.")
    [told] = said_by_user(desk)
    assert "made by hand\n看" in told
    assert "it ended with code 3" in told
    assert told.endswith("what was that?")


@everywhere
def test_a_command_of_ones_own_can_be_stopped_and_leaves_nothing_running(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    chat = desk.chat(["I see."], "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)
    chat.type("!sleep 1235 & exec sleep 1236")
    chat.wait(lambda: runs("sleep 1235", desk) and runs("sleep 1236", desk))
    chat.press(ESCAPE)
    chat.wait(WORDS[lang]["stopped"])
    chat.prompt(2)
    assert not runs("sleep 1235", desk)
    assert not runs("sleep 1236", desk)


@everywhere
def test_a_command_of_ones_own_runs_beside_the_turn_and_goes_to_the_model_with_the_next_results(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    chat = gated(desk, "--lang", lang, columns=columns, rows=rows)
    chat.type("!echo from beside")
    chat.wait(f"» !echo from beside {WORDS[lang]['queued']}")
    desk.let_through(1)
    chat.wait("A second answer.")
    chat.prompt(2)
    assert any("The user ran `echo from beside` themselves" in text for text in said_by_user(desk))


@pytest.mark.slow
def test_quitting_ends_a_command_of_ones_own(desk: Desk) -> None:
    chat = working(desk, [NEVER], lang="en", columns=80, rows=24)
    chat.type("!exec sleep 1237")
    chat.wait(lambda: runs("sleep 1237", desk))
    chat.type("/quit")
    assert chat.ended() == 0
    assert not runs("sleep 1237", desk)


@everywhere
def test_free_text_at_a_question_is_the_reason_that_the_model_gets(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    (desk.workspace / "a.txt").write_text("one\n")
    replies = [calls("", ("Bash", {"command": "rm a.txt"})), "Fine."]
    chat = desk.chat(replies, "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)
    chat.type("go")
    chat.question()
    chat.type("use git rm instead")
    chat.wait(WORDS[lang]["refused"])
    chat.wait("Fine.")
    assert (desk.workspace / "a.txt").exists()
    assert any("They said: use git rm instead" in str(line) for line in desk.said())


@everywhere
def test_esc_at_a_question_denies_and_stops_the_turn(desk: Desk, lang: str, columns: int, rows: int) -> None:
    chat = desk.chat(
        [calls("", ("Bash", {"command": "touch x"})), "unused"], "--lang", lang, columns=columns, rows=rows
    )
    chat.prompt(1)
    chat.type("go")
    chat.question()
    chat.press(ESCAPE)
    chat.wait(WORDS[lang]["stopped"])
    chat.prompt(2)
    assert "they stopped" not in chat.text  # words for the model
    assert not (desk.workspace / "x").exists()


@everywhere
def test_a_question_taller_than_the_window_ends_with_what_it_is_about(
    desk: Desk, lang: str, columns: int, rows: int
) -> None:
    """P4: nobody should have to scroll back to see which file it is."""
    write = ("Write", {"file_path": "tall.txt", "content": "line\n" * 40})
    chat = desk.chat([calls("", write), "Fine."], "--lang", lang, columns=columns, rows=rows)
    chat.prompt(1)
    chat.type("go")
    chat.question()
    assert "tall.txt" in re.sub(r"\s", "", chat.visible)
    assert chat.text.count("    +line") == 40
    chat.type("y")
    chat.wait("Fine.")


@pytest.mark.slow
def test_who_types_is_not_asked_in_the_middle_of_a_word(desk: Desk) -> None:
    """P4: the end of a word that was begun before the question is no answer to it."""
    chat = working(
        desk, [{**calls("", ("Bash", {"command": "touch x"})), "wait": 0.5}, "Fine."], lang="en", columns=80, rows=24
    )
    while "[y/a/s/N]" not in chat.visible:
        chat.press("l")
        chat._read(0.05)
    chat.press("y\r")
    chat.question()
    chat.press("\r")
    chat.wait("refused by you")
    assert not (desk.workspace / "x").exists()


def test_the_terminal_is_as_it_was_afterwards(desk: Desk) -> None:
    program = json.dumps([sys.executable, "-m", "ferrule", "chat", "--model", desk.script("One.")])
    check = desk.folder / "check.py"
    check.write_text(
        f"import subprocess, termios\nbefore = termios.tcgetattr(0)\nsubprocess.run({program})\n"
        "print('same' if termios.tcgetattr(0) == before else 'changed')\n"
    )
    chat = desk.start([sys.executable, str(check)], columns=80, rows=24, rewraps=False, environment=None)
    chat.prompt(1)
    chat.press(CTRL_D)
    assert chat.ended() == 0
    assert chat.text.endswith("same")
    assert b"\x1b[?2004l" in chat.written


@pytest.mark.slow
def test_another_model_takes_over_in_the_middle_of_a_turn(desk: Desk) -> None:
    """The one that is speaking finishes what it says, and is let go of when the turn is over."""
    chat = gated(desk, columns=80, rows=24)
    chat.type("/model another")
    chat.wait("The model is scripted/test.")
    chat.type("and now?")
    chat.wait("» and now? (queued")
    desk.let_through(1)
    chat.wait(lambda: chat.text.count("An answer. Its end.") == 2)  # a model of the same script, from its beginning
    chat.prompt(2)


@pytest.mark.slow
def test_a_tall_paste_stays_quick_to_edit(desk: Desk) -> None:
    chat = desk.chat(["Thanks."])
    chat.prompt(1)
    chat.press("\x1b[200~")
    for number in range(1_000):
        chat.press(f"line {number} 行 of a paste that is very long\n")
        if not number % 50:
            chat._read(0)
    chat.press("the end\x1b[201~")
    chat.wait(lambda: chat.visible.endswith("\n… the end"))
    chat.press("!" * 100)
    chat.wait(lambda: "!" * 60 in chat.visible, 30)
    chat.press("\r")
    chat.wait("Thanks.")
    assert said_by_user(desk)[0].count("\n") == 1_000


@pytest.mark.slow
def test_a_command_of_ones_own_that_cannot_be_started_is_said(desk: Desk) -> None:
    chat = desk.chat(["Fine."], environment={"SHELL": "/no/such/shell"})
    chat.prompt(1)
    chat.type("!ls")
    chat.wait("The command could not be started: No such file or directory")
    chat.prompt(2)
    chat.type("go")
    chat.wait("Fine.")


async def test_output_that_came_too_late_for_a_turn_is_a_note_and_runs_nothing_again(room: Room) -> None:
    async with room.open("Done.") as chat:
        await chat._turn("go")
        chat.notes_for_model.append("The user ran `touch x` themselves.")
        chat.queue.extend(["!touch x", "and?"])
        chat._settle_queue(Ending.DONE)
        assert list(chat.queue) == ["and?"]
        assert (await chat.hear(chat.queue.popleft())).text == "[The user ran `touch x` themselves.]\n\nand?"


@pytest.mark.slow
def test_what_is_typed_before_everything_is_loaded_is_done_in_its_turn(desk: Desk) -> None:
    chat = desk.chat(["One.", "Two."])
    chat.prompt(1)
    chat.press("first\r/mode plan\r")
    chat.wait("One.")
    chat.wait(lambda: chat.visible.endswith("\nplan ›"))
    assert said_by_user(desk) == ["first"]
