"""What servers ask of us reaches the person behind the call, and nobody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.elicitation import Elicited, set_elicitor
from ferrule.mcp_client.answering import Answering
from ferrule.mcp_client.ports import Ports
from tests.mcp_client.peers import modern, plain, using


class Says:
    def __init__(self, reply: Elicited) -> None:
        self.reply = reply
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    async def elicit(self, message: str, schema: Mapping[str, Any]) -> Elicited:
        self.asked.append((message, schema))
        return self.reply


async def test_a_question_reaches_the_person_in_both_eras(tmp_path: Path) -> None:
    person = Says(Elicited("accept", {"name": "Ada"}))
    async with using(tmp_path, plain(), modern(name="new"), ports=Ports(elicitor=person)) as used:
        old = json.loads((await used.call("ask")).llm_content)
        assert old == {"action": "accept", "content": {"name": "Ada"}}
        assert (await used.call("ask", "new")).llm_content == "accept {'name': 'Ada'} kept"
    assert [message for message, _ in person.asked] == [
        "The MCP server peer asks: Who?",
        "The MCP server new asks: Who?",
    ]


async def test_defaults_are_filled_in(tmp_path: Path) -> None:
    async with using(tmp_path, plain(), ports=Ports(elicitor=Says(Elicited("accept")))) as used:
        assert json.loads((await used.call("ask")).llm_content)["content"] == {"name": "nobody"}


async def test_an_answer_that_does_not_fit_is_none(tmp_path: Path) -> None:
    async with using(tmp_path, plain(), ports=Ports(elicitor=Says(Elicited("accept", {"name": 5})))) as used:
        assert json.loads((await used.call("ask")).llm_content)["action"] == "cancel"


async def test_where_nobody_can_answer_it_is_declined(tmp_path: Path) -> None:
    async with using(tmp_path, plain(), modern(name="new")) as used:
        assert json.loads((await used.call("ask")).llm_content)["action"] == "decline"
        assert (await used.call("ask", "new")).llm_content == "decline None kept"


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


async def test_an_address_is_shown_with_a_warning(tmp_path: Path) -> None:
    from mcp_types import ElicitRequestURLParams

    person = Says(Elicited("accept"))
    answering = Answering("peer", Ports(elicitor=person), [tmp_path])
    params = ElicitRequestURLParams(message="Pay", url="https://pay.example", elicitation_id="1")
    said: Any = await answering.elicit(None, params)  # type: ignore[arg-type]
    assert said.action == "accept"
    assert person.asked[0][0].endswith("Open this address only if you expect it: https://pay.example")


async def test_the_folders_are_the_workspace_and_those_added(tmp_path: Path) -> None:
    (tmp_path / "with space").mkdir()
    answering = Answering("peer", Ports(), [tmp_path, tmp_path / "with space"])
    roots = (await answering.roots(None)).roots  # type: ignore[arg-type]
    assert [str(one.uri) for one in roots] == [tmp_path.as_uri(), (tmp_path / "with space").as_uri()]
