"""A form is answered, declined or left; nothing is sent before the person has seen it whole."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.cli.server_talk.person import Person

from ferrule.cli.server_talk.form import fill
from ferrule.core.elicitation import Elicited

ONE: dict[str, Any] = {"properties": {"name": {"type": "string", "title": "Name"}}, "required": ["name"]}
TWO: dict[str, Any] = {
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "First and last."},
        "size": {"type": "string", "enum": ["S", "M"], "default": "M"},
    },
    "required": ["name"],
}


async def test_a_form_of_one_field_is_sent_with_its_answer() -> None:
    person = Person("", "Ada")
    assert await fill(person, "peer", "Who?", ONE) == Elicited("accept", {"name": "Ada"})
    assert person.shown == snapshot("""\
The MCP server peer asks you something:
│ Who?
What you type goes to peer. Never type a password, a key or a card number.
`/no` declines, Esc or Ctrl-C cancels.
│ Name
(text; required)
? \n\
  Warning: An answer is required: text.
? Ada\
""")


async def test_a_longer_form_is_shown_whole_and_can_be_changed_before_it_is_sent() -> None:
    person = Person("Ada", "", "what", "2", "1", "y")
    assert await fill(person, "peer", "Please.", TWO) == Elicited("accept", {"name": "Ada", "size": "S"})
    assert person.shown == snapshot("""\
The MCP server peer asks you something:
│ Please.
What you type goes to peer. Never type a password, a key or a card number.
`/no` declines, Esc or Ctrl-C cancels.
│ 1/2 Name
│ First and last.
(text; required)
? Ada
│ 2/2 size
│   1  S
│   2  M
(a number from the list; Enter means M)
? \n\
peer would get:
│ 1  Name: Ada
│ 2  size: M
Send it? Yes (y), a number to change that answer, or no (n)
? what
peer would get:
│ 1  Name: Ada
│ 2  size: M
Send it? Yes (y), a number to change that answer, or no (n)
? 2
│ size
│   1  S
│   2  M
(a number from the list; Enter means M)
? 1
peer would get:
│ 1  Name: Ada
│ 2  size: S
Send it? Yes (y), a number to change that answer, or no (n)
? y\
""")


@pytest.mark.parametrize("answers", [("/no",), ("Ada", "/no"), ("Ada", "", "n"), ("Ada", "", "否")])
async def test_it_can_be_declined_at_any_time(answers: tuple[str, ...]) -> None:
    assert await fill(Person(*answers), "peer", "Please.", TWO) == Elicited("decline")


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("way", [KeyboardInterrupt, EOFError])
async def test_it_can_be_left_at_any_time(at: int, way: type[BaseException]) -> None:
    answers = ["Ada", "", "y"][:at]
    assert await fill(Person(*answers, way()), "peer", "Please.", TWO) == Elicited("cancel")


async def test_the_word_that_declines_can_be_sent_with_another_slash() -> None:
    assert await fill(Person("//no"), "peer", "", ONE) == Elicited("accept", {"name": "/no"})


async def test_what_is_optional_can_be_skipped() -> None:
    form = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    assert await fill(Person("", "", "y"), "peer", "", form) == Elicited("accept", {})


async def test_a_form_without_fields_is_agreed_to_or_not() -> None:
    assert await fill(Person("hm", "y"), "peer", "Go on?", {}) == Elicited("accept", {})
    assert await fill(Person("n"), "peer", "Go on?", {}) == Elicited("decline")
    assert await fill(Person(KeyboardInterrupt()), "peer", "Go on?", {}) == Elicited("cancel")


async def test_a_secret_is_warned_of() -> None:
    person = Person("/no")
    await fill(person, "peer", "", {"properties": {"password": {"type": "string"}}})
    warning = '"password" looks like a secret. No server may ask for one this way: better decline.'
    assert [one.words for one in person.lines if one.warning] == [warning]


async def test_what_cannot_be_asked_is_declined_with_the_reason() -> None:
    person = Person()
    said = await fill(person, "peer", "Nested.", {"properties": {"a": {"type": "object"}}})
    assert (said.action, said.why[:39]) == ("decline", "the field `a` of its form is not a text")
    assert "It was declined, because its form cannot be shown here: the field `a`" in person.shown
