"""One way to the person for all that servers want of them; where there is none, they are told so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.cli.server_talk.person import Person

from ferrule.cli.server_talk.questions import ServerQuestions
from ferrule.core.elicitation import Elicited
from ferrule.mcp_client.server_config import NotSigningIn


class Desk:
    def __init__(self, person: Person, shut: str = "") -> None:
        self.person, self.shut_because = person, shut
        self.notes: list[str] = []

    @asynccontextmanager
    async def asking(self) -> AsyncGenerator[Person]:
        yield self.person

    def note(self, words: str) -> None:
        self.notes.append(words)


FORM = {"properties": {"name": {"type": "string"}}}


async def test_forms_and_addresses_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BROWSER", raising=False)
    person = Person("Ada", "n")
    questions = ServerQuestions(Desk(person))
    assert await questions.elicit("Who?", FORM, server="peer") == Elicited("accept", {"name": "Ada"})
    assert await questions.elicit("Pay.", {}, server="peer", url="https://pay.example/") == Elicited("decline")


async def test_where_nobody_can_be_asked_it_is_declined_and_said() -> None:
    desk = Desk(Person("Ada"), shut="there is no terminal")
    questions = ServerQuestions(desk)
    assert await questions.elicit("Who?", FORM, server="pe\ner") == Elicited("decline", why="there is no terminal")
    assert desk.notes == [
        "The MCP server pe er asked you something. It was declined: there is no terminal to answer at."
    ]
    with pytest.raises(NotSigningIn, match="it wants you to sign in; at a terminal: ferrule mcp test peer"):
        await questions.show_url("peer", "https://sign.in/")
    assert list(questions.waiting_to_sign_in) == ["peer"]


async def test_signing_in_is_agreed_to_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    person = Person("y", "n")
    questions = ServerQuestions(Desk(person))
    await questions.show_url("peer", "https://sign.in/")
    assert person.lines[-1].words == "Waiting for you to sign in there; Ctrl-C stops it."
    with pytest.raises(NotSigningIn, match="you did not sign in; later: ferrule mcp test peer"):
        await questions.show_url("peer", "https://sign.in/")


async def test_a_question_that_is_taken_away_says_so() -> None:
    class Thinks(Person):
        async def answer(self) -> str:
            asked.set()
            return await asyncio.get_running_loop().create_future()

    asked, person = asyncio.Event(), Thinks()
    question = asyncio.create_task(ServerQuestions(Desk(person)).elicit("Who?", FORM, server="peer"))
    await asked.wait()
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question
    assert person.lines[-1].words == "The call has ended, and the question with it."


def test_only_who_can_sign_in_is_shown_where() -> None:
    questions = ServerQuestions(Desk(Person()))
    assert questions.ports(signs_in=True).show_url is not None
    assert questions.ports(signs_in=False).show_url is None
