"""Answers from before: only the same question is served at once, and a similar one after the model said yes."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule import tool
from ferrule.app.service_settings import AnswerSettings, EntitySettings
from ferrule.app.settings import PermissionSettings
from ferrule.client import AsyncClient, ServiceError
from ferrule.models import ModelRequest
from ferrule.service.answer_cache import SAME_QUESTION, normalised, similarity
from ferrule.testing import Said, ScriptedCall, ScriptedModel, call, say
from tests.service.question_pairs import ALL, NEAR_MISSES, PARAPHRASES
from tests.service.serving import TOOLS, running
from tests.service.shop import ALLOW, Order, open_shop, order

LONG = AnswerSettings(cache_seconds=3600)


@tool(kind="readonly", cache=60)
def look_up(question: str) -> str:
    """Look something up."""
    return f"what there is about {question}"


@tool(kind="readonly")
def measure(question: str) -> str:
    """Measure something that changes all the time."""
    return f"a value of {question}"


CACHEABLE = (*TOOLS, look_up, measure)


class Answering:
    """A model that looks everything up, and says of two questions what a test has it say."""

    def __init__(self, same: Callable[[str, str], str] = lambda first, second: "no", looks_in: str = "look_up") -> None:
        self.compared: list[tuple[str, str]] = []
        self.asked: list[str] = []
        self._same = same
        self._looks_in = looks_in

    def __call__(self, request: ModelRequest) -> Said | ScriptedCall:
        if request.system == SAME_QUESTION:
            pair = json.loads(getattr(request.messages[0], "text", ""))
            self.compared.append((pair["first"], pair["second"]))
            return say(self._same(pair["first"], pair["second"]))
        question = getattr(request.messages[0], "text", "")
        if len(request.messages) == 1:
            self.asked.append(question)
            return call(self._looks_in, {"question": question}, id=f"call_{len(self.asked)}")
        return say(f"The answer to {question!r}")

    @property
    def model(self) -> ScriptedModel:
        return ScriptedModel([self] * 1000)


def answer_to(question: str) -> str:
    return f"The answer to {question!r}"


def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'service.db'}"


# Questions


def test_there_are_a_hundred_pairs() -> None:
    assert len(ALL) >= 100
    assert len(set(ALL)) == len(ALL)


@pytest.mark.parametrize(("one", "other", "kind"), ALL)
def test_only_what_is_typed_otherwise_is_the_same(one: str, other: str, kind: str) -> None:
    assert (normalised(one) == normalised(other)) is (kind == "typed")


@given(st.text(max_size=60))
def test_a_normalised_question_stays_as_it_is_but_for_capitals(question: str) -> None:
    """Law: spacing and width do not count, once or twice; nothing is made of nothing."""
    once = normalised(question)
    assert normalised(f"  {question}  ") == once
    assert once or not question.strip() or not any(letter.isalnum() for letter in question)


@given(st.text(max_size=40), st.text(max_size=40))
def test_similarity_is_a_measure(one: str, other: str) -> None:
    assert 0 <= similarity(one, other) <= 1
    assert similarity(one, other) == similarity(other, one)


# The corpus, through the service


async def ask_first_of_each(client: AsyncClient) -> None:
    for one in dict.fromkeys(one for one, _, _ in ALL):
        answer = await client.ask(one)
        assert (answer.route, answer.answer) in (("tool", answer_to(one)), ("cache", answer.answer))


@pytest.mark.slow
async def test_without_a_model_no_other_question_is_answered(tmp_path: Path) -> None:
    """Not one wrong hit: a similar answer is a labelled suggestion beside the failure, and never the answer."""
    async with running(url(tmp_path), tmp_path, tools=CACHEABLE, model=Answering().model, answers=LONG) as service:
        key = service.key
        await ask_first_of_each(await service.client())
    offered = 0
    async with running(url(tmp_path), tmp_path, tools=CACHEABLE, answers=LONG, key=key) as service:
        client = await service.client()
        firsts = {normalised(one) for one, _, _ in ALL}
        for one, other, kind in ALL:
            answer = await client.ask(other)
            if kind == "typed":
                assert (answer.route, answer.cache and answer.cache.match) == ("cache", "exact"), other
                assert normalised(answer.cache.question if answer.cache else "") == normalised(one)
            elif normalised(other) in firsts:
                assert answer.cache is not None  # it is the first question of another pair
                assert normalised(answer.cache.question) == normalised(other)
            else:
                assert (answer.status, answer.route, answer.cache) == ("failed", None, None), other
                assert answer.answer == ""
                if answer.similar is not None:
                    offered += 1
                    assert answer.similar.match == "similar"
    assert offered > len(PARAPHRASES)


@pytest.mark.slow
async def test_with_a_model_only_what_it_confirmed_is_served(tmp_path: Path) -> None:
    """Must show: the model says yes to the paraphrases, and those alone come from before."""
    yes = {(normalised(one), normalised(other)) for one, other in PARAPHRASES}

    def same(first: str, second: str) -> str:
        return "Yes." if (normalised(first), normalised(second)) in yes else "no"

    model = Answering(same)
    async with running(url(tmp_path), tmp_path, tools=CACHEABLE, model=model.model, answers=LONG) as service:
        client = await service.client()
        confirmed = 0
        for one, other, kind in ALL:
            await client.clear_cache()
            first = await client.ask(one)
            assert first.route == "tool"
            answer = await client.ask(other)
            if kind == "typed":
                assert (answer.route, answer.answer) == ("cache", first.answer)
            elif answer.route == "cache":
                confirmed += 1
                assert kind == "paraphrase"
                assert (answer.cache and answer.cache.match, answer.answer) == ("confirmed", first.answer)
                assert (one, other) in model.compared
            else:
                assert (answer.route, answer.answer) == ("tool", answer_to(other))
        assert confirmed >= len(PARAPHRASES) - 4
        assert len(model.compared) <= len(ALL)


@pytest.mark.parametrize("said", ["", "Yes, but only partly", "no", "YES and also no", "是", "maybe"])
async def test_anything_but_a_plain_yes_is_a_no(said: str, tmp_path: Path) -> None:
    one, other = NEAR_MISSES["negation"][0]
    model = Answering(lambda first, second: said or "…")
    async with running(url(tmp_path), tmp_path, tools=CACHEABLE, model=model.model) as service:
        client = await service.client()
        await client.ask(one)
        answer = await client.ask(other)
        assert (answer.route, answer.answer) == ("tool", answer_to(other))
        assert answer.similar is not None
        assert (answer.similar.question, answer.similar.match) == (one, "similar")


def test_what_the_model_is_asked() -> None:
    assert (
        snapshot("""\
You compare two questions that one user asked a business system on the same day. Answer with one word.

Answer yes only if the right answer to the first is, word for word, the right answer to the second.
Answer no if they differ in a number, date, unit, name, person, place, negation, tense or order, in what is asked for, \
or if you are unsure.\
""")
        == SAME_QUESTION
    )


# What an answer belongs to


async def test_a_hit_says_so_and_can_be_refused(store: str, tmp_path: Path) -> None:
    model = Answering()
    async with running(store, tmp_path, tools=CACHEABLE, model=model.model) as service:
        client = await service.client()
        await client.ask("What is due?")
        hit = await client.ask("what is due")
        assert hit.cache is not None
        assert (hit.route, hit.cache.question, hit.calls) == ("cache", "What is due?", [])
        anew = await client.ask("what is due", cache=False)
        assert (anew.route, anew.cache) == ("tool", None)
        assert model.asked == ["What is due?", "what is due"]
        assert await client.clear_cache() == 1
        assert (await client.ask("what is due")).route == "tool"


async def test_an_answer_is_of_one_user_language_day_and_place(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path, tools=CACHEABLE, model=Answering().model, answers=LONG) as service:
        admin = await service.client()
        red, _ = await service.tenant("red")
        member = await service.user("mia")
        assert (await admin.ask("What is due?")).route == "tool"
        others: tuple[tuple[AsyncClient, dict[str, Any]], ...] = (
            (member, {}), (red, {}), (admin, {"locale": "zh"}), (admin, {"time_zone": "Pacific/Kiritimati"}),
        )  # fmt: skip
        for client, more in others:
            assert (await client.ask("What is due?", **more)).route == "tool"
            assert (await client.ask("What is due?", **more)).route == "cache"
        assert (await admin.ask("What is due?")).route == "cache"
        assert await red.clear_cache(everyone=True) == 1
        with pytest.raises(ServiceError, match=r"Admin\(cache\)"):
            await member.clear_cache(everyone=True)
        assert await member.clear_cache() == 1
        assert (await admin.ask("What is due?")).route == "cache"


async def test_a_day_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(url(tmp_path), tmp_path, tools=CACHEABLE, model=Answering().model, answers=LONG) as service:
        client = await service.client()
        for day in ("2026-01-01", "2026-01-02"):
            monkeypatch.setattr("ferrule.service.requests.today", lambda zone, day=day: day)
            assert (await client.ask("What is due today?")).route == "tool"
            assert (await client.ask("What is due today?")).route == "cache"


async def test_a_write_by_a_tool_an_intent_or_another_name_drops_what_was_answered(store: str, tmp_path: Path) -> None:
    """Also for another tenant that reads the same table, and where the tool that writes is no entity's."""
    with closing(sqlite3.connect(tmp_path / "bills.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE bills (number INTEGER PRIMARY KEY, company TEXT, said TEXT)")
        connection.execute("CREATE VIEW all_bills AS SELECT number, said FROM bills")
    place = f"sqlite:///{tmp_path / 'bills.db'}"
    entities = {
        "bill": EntitySettings(url=place, table="bills", tenant_column="company", writable=True),
        "paper": EntitySettings(url=place, table="all_bills", tenants=["default", "auditors"]),
    }
    takes = {"type": "object", "properties": {"said": {"type": "string", "description": "What it says"}}}
    intents: dict[str, Any] = {
        "new_bill": {"type": "data", "operation": "create", "entity": "bill"},
        "take_note": {"type": "tool", "tool": "note", "arguments": {"text": {"$ref": "input.said"}}},
    }
    rules = PermissionSettings(allow=["note", "intent__new_bill"])
    async with running(
        store, tmp_path, tools=CACHEABLE, model=Answering().model, answers=LONG, entities=entities,
        permissions=rules,
    ) as service:  # fmt: skip
        client = await service.client()
        auditor, _ = await service.tenant("auditors")
        for code, handler in intents.items():
            await client.put_intent(code, description="Write something down.", parameters=takes, handler=handler)
        changes: tuple[tuple[AsyncClient, Callable[[], Any]], ...] = (
            (client, lambda: client.call("note", {"text": "x"})),
            (client, lambda: client.batch([{"tool": "note", "arguments": {"text": "x"}}])),
            (client, lambda: client.run_intent("take_note", {"said": "x"})),
            (client, lambda: client.run_intent("new_bill", {"said": "x"})),
            (auditor, lambda: client.run_intent("new_bill", {"said": "x"})),
        )
        for reader, change in changes:
            await reader.ask("Which bills are there?")
            assert (await reader.ask("Which bills are there?")).route == "cache"
            await change()
            assert (await reader.ask("Which bills are there?")).route == "tool"
        await client.ask("Which bills are there?")
        await client.call("refuse")  # it only reads
        assert (await client.ask("Which bills are there?")).route == "cache"


async def test_what_changed_since_is_asked_anew(store: str, tmp_path: Path) -> None:
    """Roles, tools, intents and entities: whatever changes, the old answer is no longer an answer."""
    shop: dict[str, Any] = {"models": {"order": Order}, "permissions": PermissionSettings(allow=list(ALLOW))}
    async with running(store, tmp_path, tools=CACHEABLE, model=Answering().model, answers=LONG, **shop) as service:
        client = await service.client()
        await open_shop(client)
        changes: tuple[Callable[[], Any], ...] = (
            lambda: order(client, "Ann", 5),
            lambda: client.switch_tool("measure", enabled=False),
            lambda: client.delete_intent("drop_order"),
            lambda: client.put_role("admin", allow=["Admin", "add"]),
        )
        for change in changes:
            await client.ask("Which orders are open?")
            assert (await client.ask("Which orders are open?")).route == "cache"
            await change()
            assert (await client.ask("Which orders are open?")).route == "tool"


@pytest.mark.parametrize(("looks_in", "kept"), [("look_up", True), ("measure", False), ("trip", False), ("who", False)])
async def test_only_read_only_calls_whose_tools_allow_it(looks_in: str, kept: bool, tmp_path: Path) -> None:
    model = Answering(looks_in=looks_in)
    async with running(url(tmp_path), tmp_path, tools=CACHEABLE, model=model.model) as service:
        client = await service.client()
        await client.ask("What is due?")
        assert (await client.ask("What is due?")).route == ("cache" if kept else "tool")


async def test_words_alone_and_conversations_are_not_kept(tmp_path: Path) -> None:
    """What a session was told before changes what a question means."""
    model = ScriptedModel(["First.", "Second.", call("look_up", {"question": "x"}), "Third.", "Fourth."])
    async with running(url(tmp_path), tmp_path, tools=CACHEABLE, model=model) as service:
        client = await service.client()
        assert [(await client.ask("Hello?")).route for _ in range(2)] == ["words", "words"]
        said = [await client.ask("And yesterday?", session="s") for _ in range(2)]
        assert [(one.route, one.answer) for one in said] == [("tool", "Third."), ("words", "Fourth.")]
        assert len(model.requests[-1].messages) == 5


async def test_an_answer_expires(tmp_path: Path) -> None:
    soon = AnswerSettings(cache_seconds=0.01)
    async with running(url(tmp_path), tmp_path, tools=CACHEABLE, model=Answering().model, answers=soon) as service:
        client = await service.client()
        await client.ask("What is due?")
        await asyncio.sleep(0.05)
        assert (await client.ask("What is due?")).route == "tool"
