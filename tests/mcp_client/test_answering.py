"""What servers ask of us reaches the person behind the call, and nobody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.core.elicitation import Elicited, set_elicitor
from ferrule.mcp_client.answering import Answering
from ferrule.mcp_client.server_config import Ports
from tests.mcp_client.peers import modern, plain, using


class Says:
    def __init__(self, reply: Elicited) -> None:
        self.reply = reply
        self.asked: list[tuple[str, str, str]] = []

    async def elicit(self, message: str, schema: Mapping[str, Any], *, server: str = "", url: str = "") -> Elicited:
        self.asked.append((server, message, url))
        return self.reply


async def test_a_question_reaches_the_person_in_both_eras(tmp_path: Path) -> None:
    person = Says(Elicited("accept", {"name": "Ada"}))
    async with using(tmp_path, plain(), modern(name="new"), ports=Ports(elicitor=person)) as used:
        old = json.loads((await used.call("ask")).llm_content)
        assert old == {"action": "accept", "content": {"name": "Ada"}}
        assert (await used.call("ask", "new")).llm_content == "accept {'name': 'Ada'} kept"
    assert person.asked == [("peer", "Who?", ""), ("new", "Who?", "")]


async def test_defaults_are_filled_in(tmp_path: Path) -> None:
    async with using(tmp_path, plain(), ports=Ports(elicitor=Says(Elicited("accept")))) as used:
        assert json.loads((await used.call("ask")).llm_content)["content"] == {"name": "nobody"}


async def test_an_answer_that_does_not_fit_is_none(tmp_path: Path) -> None:
    async with using(tmp_path, plain(), ports=Ports(elicitor=Says(Elicited("accept", {"name": 5})))) as used:
        assert json.loads((await used.call("ask")).llm_content)["action"] == "cancel"


async def test_where_nobody_can_answer_it_is_declined_and_the_model_reads_why(tmp_path: Path) -> None:
    async with using(tmp_path, plain(), modern(name="new")) as used:
        assert (await used.call("ask")).llm_content == snapshot("""\
{"action": "decline"}
[The MCP server `peer` asked the user something while this ran: 'Who?'. It was declined: there is no user to ask here.]\
""")
        assert (await used.call("ask", "new")).llm_content == snapshot("""\
decline None kept
[The MCP server `new` asked the user something while this ran: 'Who?'. It was declined: there is no user to ask here.]\
""")


@pytest.mark.parametrize("server", ["peer", "new"])
async def test_whoever_stands_behind_the_call_is_asked_first(tmp_path: Path, server: str) -> None:
    own, other = Says(Elicited("accept", {"name": "own"})), Says(Elicited("accept", {"name": "other"}))
    async with using(tmp_path, plain(), modern(name="new"), ports=Ports(elicitor=other)) as used:

        async def on_behalf() -> str:
            set_elicitor(own)
            return (await used.call("ask", server)).llm_content

        assert "own" in await asyncio.create_task(on_behalf())
    assert other.asked == []


async def test_a_question_that_may_be_anyones_is_put_to_nobody(tmp_path: Path) -> None:
    people = [Says(Elicited("accept", {"name": "one"})), Says(Elicited("accept", {"name": "two"}))]
    answering = Answering("peer", Ports(), [tmp_path])
    began = [asyncio.Event() for _ in people]
    over = asyncio.Event()

    async def call(at: int) -> None:
        set_elicitor(people[at])
        with answering.on_behalf():
            began[at].set()
            await over.wait()

    calls = [asyncio.create_task(call(at)) for at in range(2)]
    for one in began:
        await one.wait()
    from mcp_types import ElicitRequestFormParams

    params = ElicitRequestFormParams(message="Who?", requested_schema={"type": "object", "properties": {}})
    said: Any = await answering.elicit(None, params)  # type: ignore[arg-type]
    assert said.action == "decline"
    over.set()
    await asyncio.gather(*calls)


async def test_an_address_is_shown_as_one(tmp_path: Path) -> None:
    from mcp_types import ElicitRequestURLParams

    person = Says(Elicited("accept"))
    answering = Answering("peer", Ports(elicitor=person), [tmp_path])
    params = ElicitRequestURLParams(message="Pay", url="https://pay.example", elicitation_id="1")
    with answering.on_behalf():
        said: Any = await answering.elicit(None, params)  # type: ignore[arg-type]
    assert (said.action, said.content) == ("accept", None)
    assert person.asked == [("peer", "Pay", "https://pay.example")]


async def test_the_folders_are_the_workspace_and_those_added(tmp_path: Path) -> None:
    (tmp_path / "with space").mkdir()
    answering = Answering("peer", Ports(), [tmp_path, tmp_path / "with space"])
    roots = (await answering.roots(None)).roots  # type: ignore[arg-type]
    assert [str(one.uri) for one in roots] == [tmp_path.as_uri(), (tmp_path / "with space").as_uri()]


async def test_a_question_that_comes_when_no_call_runs_is_put_to_nobody(tmp_path: Path) -> None:
    from mcp_types import ElicitRequestFormParams

    person = Says(Elicited("accept"))
    params = ElicitRequestFormParams(message="Who?", requested_schema={"type": "object", "properties": {}})
    said: Any = await Answering("peer", Ports(elicitor=person), [tmp_path]).elicit(None, params)  # type: ignore[arg-type]
    assert (said.action, person.asked) == ("decline", [])


class Thinks:
    """A person who never answers; it is noted when the question is taken away from them."""

    def __init__(self) -> None:
        self.asked, self.gone = asyncio.Event(), asyncio.Event()

    async def elicit(self, message: str, schema: Mapping[str, Any], *, server: str = "", url: str = "") -> Elicited:
        self.asked.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.gone.set()
        raise AssertionError


@pytest.mark.parametrize("server", ["peer", "new"])
async def test_a_question_whose_call_was_cancelled_goes_away(tmp_path: Path, server: str) -> None:
    person = Thinks()
    async with using(tmp_path, plain(), modern(name="new"), ports=Ports(elicitor=person)) as used:
        call = asyncio.create_task(used.call("ask", server))
        await person.asked.wait()
        call.cancel()
        await person.gone.wait()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await used.call("echo", server, text="still here")).llm_content == "still here"


class ThinksLong(Says):
    """Longer than a call may take."""

    async def elicit(self, message: str, schema: Mapping[str, Any], *, server: str = "", url: str = "") -> Elicited:
        await asyncio.sleep(1.7)
        return await super().elicit(message, schema, server=server, url=url)


async def test_the_time_that_a_person_takes_is_not_the_calls(tmp_path: Path) -> None:
    person = ThinksLong(Elicited("accept", {"name": "Ada"}))
    async with using(tmp_path, plain(), ports=Ports(elicitor=person)) as used:
        result = await used.runtime.run(used.named("ask"), {}, timeout=1.5)
    assert "Ada" in result.llm_content


async def test_whoever_made_the_first_call_is_not_asked_for_the_next_ones(tmp_path: Path) -> None:
    first, second = Says(Elicited("accept", {"name": "one"})), Says(Elicited("accept", {"name": "two"}))
    async with using(tmp_path, plain()) as used:
        await used.servers.joined["peer"].server.close()

        async def on_behalf(person: Says | None) -> str:
            set_elicitor(person)
            return (await used.call("ask")).llm_content

        assert "one" in await asyncio.create_task(on_behalf(first))  # this one starts the server again
        assert "two" in await asyncio.create_task(on_behalf(second))
        assert "decline" in await asyncio.create_task(on_behalf(None))
    assert (len(first.asked), len(second.asked)) == (1, 1)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("accept", "The user agreed to open the address. Call it again once they say they are done there."),
        ("decline", "It wanted an address opened: the user did not want to open it."),
    ],
)
async def test_a_server_that_wants_an_address_opened_first_has_it_shown(
    tmp_path: Path, action: Any, words: str
) -> None:
    person = Says(Elicited(action))
    async with using(tmp_path, plain(), ports=Ports(elicitor=person)) as used:
        result = await used.call("elsewhere")
    assert person.asked == [("peer", "Link your account.", "https://accounts.example/link")]
    assert result.error is not None
    assert result.error.message == f"The MCP server `peer` refused `elsewhere`: Not linked yet. {words}"


async def test_a_server_asks_so_much_in_one_call_and_no_more(tmp_path: Path) -> None:
    """The time of a call stands still while somebody is asked: it would never end."""
    person = Says(Elicited("decline"))
    async with using(tmp_path, plain("pesters"), ports=Ports(elicitor=person)) as used:
        thirtieth, next_one = json.loads((await used.call("pester")).llm_content)
        assert (thirtieth["action"], next_one["message"]) == ("decline", "It asked more than 30 questions in one call")
        await used.call("pester")
    assert len(person.asked) == 60
