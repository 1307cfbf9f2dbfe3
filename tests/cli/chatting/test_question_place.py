"""What MCP servers ask in the middle of a conversation, at a real terminal, of servers of both eras (O7, P9)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter
from tests.cli.chatting.conftest import calls
from tests.cli.mcp_peer import PATIENT
from tests.cli.terminal import CTRL_C, ESCAPE
from tests.mcp_client.peers import MODERN, PLAIN
from tests.mcp_client.signing_in_peer import browser, signing_in
from tests.warm_start import run_warm

from ferrule.app import build
from ferrule.app.settings import Settings
from ferrule.testing import call, say

if TYPE_CHECKING:
    from tests.cli.chatting.conftest import Desk, Room
    from tests.cli.terminal import Terminal

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "description": "As in your pass\u202eport.", "minLength": 2},
        "age": {"type": "integer", "minimum": 0, "maximum": 120, "default": 30},
        "colour": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
    },
    "required": ["name", "colour"],
}
WORDS = {
    "en": {"asks": "The MCP server peer asks you something:", "short": "At least 2 characters are required."},
    "zh": {"asks": "MCP 服务器 peer 向您提问：", "short": "至少需要 2 个字符。"},
}


def use(desk: Desk, era: str) -> None:
    args = ["-I", str(PLAIN), "good"] if era == "plain" else [str(MODERN)]
    desk.settings.write_text(
        f"[mcp_servers.peer]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n"
        '[permissions]\nallow = ["mcp__peer__*"]\n'
    )


def answer(chat: Terminal, *answers: str) -> None:
    """Each to a question of its own."""
    for one in answers:
        chat.question()
        rows = chat.text.count("\n")
        chat.type(one)
        chat.wait(lambda rows=rows: chat.text.count("\n") > rows)


def results(desk: Desk) -> list[Any]:
    return [one["llm_content"] for line in desk.said() if line.get("type") == "results" for one in line["results"]]


@pytest.mark.parametrize(("lang", "columns", "era"), [("en", 80, "plain"), ("zh", 20, "modern")])
def test_a_form_is_asked_checked_reviewed_and_sent_and_can_be_refused(
    desk: Desk, lang: str, columns: int, era: str
) -> None:
    use(desk, era)
    opens, visited = browser(desk.folder)
    address = f"data:,{desk.folder}"  # never opened
    replies = [
        calls("", ("mcp__peer__form", {"schema": FORM})),
        calls("", ("mcp__peer__form", {"schema": FORM})),
        calls("", ("mcp__peer__form", {"schema": FORM})),
        calls("", ("mcp__peer__address", {"url": address})),
        "All asked.",
    ]
    chat = desk.chat(replies, "--lang", lang, columns=columns, environment=opens)
    chat.prompt(1)
    chat.type("go")
    answer(chat, "A")
    chat.wait(WORDS[lang]["asks"])
    chat.wait(WORDS[lang]["short"])
    assert "\\u{202e}port" in chat.flowing
    answer(chat, "Ada", "", "2", "2", "31", "y")  # the name, the default, Green; then the age is changed
    answer(chat, "/no")
    chat.question()
    chat.press(ESCAPE)
    chat.wait("All asked.")
    chat.prompt(2)
    said = results(desk)
    assert json.loads(said[0]) == {"action": "accept", "content": {"name": "Ada", "age": 31, "colour": "g"}}
    assert [json.loads(one)["action"] for one in said[1:3]] == ["decline", "cancel"]
    assert '"decline"' in said[3]
    assert "only addresses that begin with https:// or http:// are opened" in said[3]
    assert not visited.exists()


def test_an_address_is_opened_only_when_the_person_agrees(desk: Desk) -> None:
    use(desk, "plain")
    opens, visited = browser(desk.folder)
    with signing_in() as url:
        replies = [
            calls("", ("mcp__peer__address", {"url": url})),
            calls("", ("mcp__peer__address", {"url": url})),
            ".",
        ]
        chat = desk.chat(replies, environment=opens)
        chat.prompt(1)
        chat.type("go")
        chat.question()
        chat.wait("Its host is: 127.0.0.1")
        assert url in chat.text
        answer(chat, "")
        assert not visited.exists()
        answer(chat, "y")
        chat.prompt(2)
    assert [json.loads(one)["action"] for one in results(desk)] == ["decline", "accept"]
    assert visited.read_text() == f"{url}\n"


def test_questions_come_one_after_another_and_go_with_what_asked_them(desk: Desk) -> None:
    use(desk, "plain")
    sign = desk.folder / "now"
    replies = [
        calls("", ("mcp__peer__ask", {}), ("mcp__peer__ask", {}), ("Bash", {"command": "touch made"})),
        calls("", ("mcp__peer__withdraw", {"when": str(sign)})),
        calls("", ("mcp__peer__ask", {})),
        "Never said.",
    ]
    chat = desk.chat(replies)
    chat.prompt(1)
    chat.type("go")
    answer(chat, "Ada", "Bob", "y")
    chat.wait("Enter skips it")
    chat.question()
    assert (desk.workspace / "made").exists()
    sign.touch()
    chat.wait("The call has ended, and the question with it.")
    chat.question()
    chat.press(CTRL_C)  # the question alone; the turn goes on
    chat.wait("Never said.")
    chat.prompt(2)
    said = results(desk)
    assert sorted(json.loads(one)["content"]["name"] for one in said[:2]) == ["Ada", "Bob"]
    assert said[3] == "withdrawn"
    assert json.loads(said[4]) == {"action": "cancel"}


def test_a_server_that_wants_a_sign_in_is_signed_in_to_before_the_turn(desk: Desk) -> None:
    opens, visited = browser(desk.folder)
    with signing_in() as url:
        desk.settings.write_text(f"[mcp_servers.guarded]\nurl = {json.dumps(url)}\n[permissions]\nallow = ['mcp__*']\n")
        chat = desk.chat([calls("", ("mcp__guarded__hello", {})), "Done."], environment=opens)
        chat.prompt(1)
        chat.type("go")
        chat.wait("The MCP server guarded wants you to sign in.")
        assert not visited.exists()
        answer(chat, "y")
        chat.wait("Done.")
    assert results(desk) == ["hello"]


def test_plain_text_keeps_what_was_typed_apart_from_the_end_of_the_question(desk: Desk) -> None:
    use(desk, "plain")
    sign = desk.folder / "now"
    chat = desk.chat([calls("", ("mcp__peer__withdraw", {"when": str(sign)})), "Bye."], "--plain")
    chat.prompt(1)
    chat.type("go")
    chat.question()
    chat.press("half an answ")
    chat.wait("half an answ")
    sign.touch()
    chat.wait("Bye.")
    assert "\n? half an answ\nThe call has ended, and the question with it.\n" in chat.text


def test_a_pipe_is_nobody_to_ask(desk: Desk) -> None:
    use(desk, "plain")
    model = desk.script(calls("", ("mcp__peer__ask", {})), "It was declined.")
    done = run_warm(
        [PATIENT, "chat", "--model", model], desk.workspace, desk.environment, stdin="go\nAda\n", timeout=300
    )
    assert "The MCP server peer asked you something. It was declined: there is no terminal to answer at." in done.out
    assert done.err == ""
    said = results(desk)[0]
    assert said.startswith('{"action": "decline"}\n')
    assert said.endswith("It was declined: there is no terminal to ask the user at.]")


def settings() -> Settings:
    from ferrule.app.service_settings import ServiceSettings as ServiceSettings  # the adapter looks for it here

    server = {"command": sys.executable, "args": ["-I", str(PLAIN), "good"]}
    made: Settings = TypeAdapter(Settings).validate_python(
        {"mcp_servers": {"peer": server}, "permissions": {"allow": ["mcp__peer__*"]}}
    )
    return made


async def test_plain_text_asks_too(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_SERVERS_SECONDS", 60.0)
    room.typed += ["Ada"]
    async with room.open(say("", call("mcp__peer__ask", {})), "Done.", settings=settings()) as chat:
        await chat._turn("go")
    said = room.said()
    assert "The MCP server peer asks you something:\n  │ Who?\n" in said
    assert "  │ name\n(text; Enter means nobody)\n" in said


async def test_no_turn_no_question(room: Room) -> None:
    place = room.chat.place
    assert place.shut_because == "the user was not waiting for anything"
    room.chat._working = True
    assert place.shut_because == ""
    room.by_person = False
    assert place.shut_because == "there is no terminal to ask the user at"


async def test_only_one_has_the_persons_ear(room: Room) -> None:
    place = room.chat.place
    async with place.asking():
        assert place.is_open
        assert place.turn.locked()
    assert not place.is_open
    assert not place.turn.locked()


async def test_a_servers_lines_stand_behind_a_bar_however_they_are_wrapped(tmp_path: Path) -> None:
    import io
    import os

    from ferrule.cli.ask import AnswerLine
    from ferrule.cli.chatting.questions import ChatTalk
    from ferrule.cli.chatting.screen import LiveScreen

    out = io.StringIO()
    screen = LiveScreen(out, size=lambda: os.terminal_size((24, 10)))
    ChatTalk(screen, None).tell([AnswerLine("│ Run it? Once (y) or no (n), says a server", of_the_call=True)])  # type: ignore[arg-type]
    rows = out.getvalue().splitlines()
    assert len(rows) > 2
    assert all(row.startswith("\x1b[1m  │ ") for row in rows)
