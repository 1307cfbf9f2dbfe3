"""Intents: tools of a tenant, with handlers for forms, data, queries, tools and chains."""

from __future__ import annotations

import asyncio
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.app.settings import PermissionSettings
from ferrule.client import ServiceError
from ferrule.intents import HandlerOptions, IntentCall, IntentHandler
from tests.service.instances import Instance
from tests.service.serving import running, started
from tests.service.shop import ALLOW, INTENTS, Order, open_shop, order, taking

SHOP: dict[str, Any] = {"models": {"order": Order}, "permissions": PermissionSettings(allow=list(ALLOW))}


async def test_an_intent_reads_and_changes_an_entity(store: str, tmp_path: Path) -> None:
    """M3: queries and data operations, each a call on the record."""
    async with running(store, tmp_path, **SHOP) as service:
        client = await service.client()
        await open_shop(client)
        small, large = await order(client, "Ann", 5), await order(client, "Bob", 50)
        found = await client.run_intent("find_orders")
        assert (found.route, found.intent, found.status) == ("intent", "find_orders", "succeeded")
        assert [row["customer"] for row in found.data["rows"]] == ["Bob", "Ann"]
        await client.run_intent("close_order", {"id": small["id"]})
        still = await client.run_intent("find_orders", {"status": "open"})
        assert [row["id"] for row in still.data["rows"]] == [large["id"]]
        await client.run_intent("drop_order", {"id": large["id"]})
        gone = await client.run_intent("drop_order", {"id": large["id"]})
        assert (gone.status, gone.error and gone.error.type) == ("failed", "not_found_error")
        tools = [row["tool"] for row in (await client.audit()).rows]
        assert tools.count("intent__new_order") == 2
        assert (await client.verify_audit()).ok


async def test_a_data_operation_is_approved_with_what_it_would_do(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path, models={"order": Order}) as service:
        client = await service.client()
        await open_shop(client)
        waiting = await client.run_intent("new_order", {"customer": "Ann", "total": 5}, wait=0)
        assert waiting.status == "awaiting_approval"
        (approval,) = await client.approvals()
        assert approval.summary == 'Create `order` (new_order): {"customer": "Ann", "total": 5}'
        assert (await client.run_intent("find_orders")).data["count"] == 0
        await client.put_intent("new_order", **INTENTS["new_order"])  # another version by now
        await client.approve(approval)
        refused = await client.get_request(waiting.id, wait=30)
        assert refused.status == "failed"
        assert (await client.run_intent("find_orders")).data["count"] == 0
        again = await client.run_intent("new_order", {"customer": "Ann", "total": 5}, wait=0)
        await client.approve((await client.approvals())[0])
        assert (await client.get_request(again.id, wait=30)).status == "succeeded"
        assert (await client.run_intent("find_orders")).data["count"] == 1


async def test_a_form_asks_for_what_is_missing_and_then_submits(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path, models={"order": Order}) as service:
        client = await service.client()
        form = {**INTENTS["new_order"], "handler": {"type": "form", "submit": INTENTS["new_order"]["handler"]}}
        await client.put_intent("order_form", **form)
        first = await client.run_intent("order_form", {"customer": "Ann"}, session="desk")
        assert (first.status, [one.name for one in first.missing]) == ("needs_input", ["total"])
        assert first.answer == snapshot("More is needed. Ask the user for:\n- `total`: The price in euros")
        other = await client.run_intent("order_form", {"total": 7}, session="phone")
        assert [one.name for one in other.missing] == ["customer"]
        wrong = await client.run_intent("order_form", {"total": "much"}, session="desk")
        assert (wrong.status, wrong.error and wrong.error.type) == ("failed", "validation_error")
        waiting = await client.run_intent("order_form", {"total": 40}, session="desk", wait=0)
        (approval,) = await client.approvals()
        assert approval.arguments == {"customer": "Ann", "total": 40}
        await client.approve(approval)
        done = await client.get_request(waiting.id, wait=30)
        assert done.data["rows"][0]["total"] == 40
        anew = await client.run_intent("order_form", {}, session="desk")
        assert [one.name for one in anew.missing] == ["customer", "total"]


async def test_what_a_form_was_told_survives_a_limit(store: str, tmp_path: Path) -> None:
    """A request that is not taken changes nothing, and several at once lose nothing."""
    rules = PermissionSettings(allow=["intent__order_form"])
    async with running(store, tmp_path, models={"order": Order}, permissions=rules) as service:
        client = await service.client()
        form = {**INTENTS["new_order"], "handler": {"type": "form", "submit": INTENTS["new_order"]["handler"]}}
        await client.put_intent("order_form", **form)
        ann = await service.user("ann", limits={"concurrency": 1})
        assert (await ann.run_intent("order_form", {"customer": "Ann"}, session="desk")).status == "needs_input"
        busy = await ann.call("rest", wait=0)
        for _ in range(2):
            with pytest.raises(ServiceError) as full:
                await ann.run_intent("order_form", {"total": 40}, session="desk")
            assert full.value.status == 429
        await ann.cancel(busy.id)
        await ann.get_call(busy.id, wait=30)
        made = await ann.run_intent("order_form", {"total": 40}, session="desk")
        assert made.status == "succeeded"
        assert made.data["rows"][0]["customer"] == "Ann"

        told = await asyncio.gather(
            *(client.run_intent("order_form", one, session="both") for one in ({"customer": "Bob"}, {"total": 7}))
        )
        assert sorted(one.status for one in told) == ["needs_input", "succeeded"]


async def test_a_form_that_is_sent_again_is_the_same_request(store: str, tmp_path: Path) -> None:
    """What the form was told meanwhile is no other body, and being told twice changes nothing."""
    async with running(store, tmp_path, models={"order": Order}) as service:
        client = await service.client()
        form = {**INTENTS["new_order"], "handler": {"type": "form", "submit": INTENTS["new_order"]["handler"]}}
        await client.put_intent("order_form", **form)
        first = await client.run_intent("order_form", {"customer": "Ann"}, session="desk", key="one")
        again = await client.run_intent("order_form", {"customer": "Ann"}, session="desk", key="one")
        assert (again.id, again.status) == (first.id, "needs_input")
        waiting = await client.run_intent("order_form", {"total": 40}, session="desk", key="two", wait=0)
        repeated = await client.run_intent("order_form", {"total": 40}, session="desk", key="two", wait=0)
        assert repeated.id == waiting.id
        assert [one.arguments for one in await client.approvals()] == [{"customer": "Ann", "total": 40}]


async def test_tools_and_chains_are_decided_call_by_call(store: str, tmp_path: Path) -> None:
    """What an intent calls is approved and recorded as if its caller had called it."""
    started.clear()
    numbers = {"type": "object", "properties": {"a": {"type": "integer", "description": "Any number"}}}
    async with running(store, tmp_path) as service:
        client = await service.client()
        await client.put_intent(
            "add_two", description="Add two to a number.", parameters=numbers,
            handler={"type": "tool", "tool": "add", "arguments": {"a": {"$ref": "input.a"}, "b": 2}},
        )  # fmt: skip
        assert (await client.run_intent("add_two", {"a": 40})).data == 42
        steps = [
            {"id": "sum", "tool": "intent__add_two", "arguments": {"a": {"$ref": "input.a"}}},
            {"id": "twice", "tool": "add", "arguments": {"a": {"$ref": "sum"}, "b": {"$ref": "sum"}}},
        ]
        await client.put_intent(
            "double", description="Add two, then double it.", parameters=numbers,
            handler={"type": "chain", "steps": steps},
        )  # fmt: skip
        assert (await client.run_intent("double", {"a": 1})).data == 6
        text = {"type": "object", "properties": {"text": {"type": "string", "description": "What to note"}}}
        await client.put_intent(
            "jot", description="Write a note for later.", parameters=text, handler={"type": "tool", "tool": "note"}
        )
        waiting = await client.run_intent("jot", {"text": "milk"}, wait=0)
        while not (pending := await client.approvals()):
            await asyncio.sleep(0.02)
        assert (pending[0].tool, pending[0].arguments, started) == ("note", {"text": "milk"}, [])
        await client.approve(pending[0])
        assert (await client.get_request(waiting.id, wait=30)).answer == "noted milk"


async def test_an_intent_opens_nothing_that_its_caller_may_not_use(store: str, tmp_path: Path) -> None:
    """One permission function: roles, rules and switched-off tools hold inside intents too."""
    async with running(store, tmp_path, models={"order": Order}) as service:
        admin = await service.client()
        text = {"type": "object", "properties": {"text": {"type": "string", "description": "What to note"}}}
        await admin.put_intent(
            "jot", description="Write a note for later.", parameters=text, handler={"type": "tool", "tool": "note"}
        )
        await admin.put_intent(
            "greet", description="Greet a clerk by name.", handler={"type": "tool", "tool": "who"}, roles=["admin"]
        )
        await admin.put_role("reader", deny=["note"])
        await admin.put_role("stranger", deny=["intent__*"])
        reader, stranger = await service.user("rita", "reader"), await service.user("sam", "stranger")
        denied = await reader.run_intent("jot", {"text": "x"})
        assert denied.error is not None
        assert denied.error.message == "There is no tool `note` for this caller."
        for client, code in ((reader, "greet"), (stranger, "jot"), (stranger, "nothing")):
            refused = await client.run_intent(code)
            assert refused.error is not None
            assert (refused.status, refused.error.message) == ("failed", f"There is no intent `{code}`.")
        assert [one.code for one in await reader.intents()] == ["jot"]
        assert await stranger.intents() == []
        with pytest.raises(ServiceError, match="There is no intent `greet`"):
            await reader.intent("greet")
        await admin.switch_tool("note", enabled=False)
        off = await admin.run_intent("jot", {"text": "x"})
        assert off.error is not None
        assert "no tool `note`" in off.error.message


async def test_versions_can_be_gone_back_to_and_switched_off(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path, models={"order": Order}) as service:
        client = await service.client()
        await open_shop(client, "find_orders")
        second = await client.put_intent(
            "find_orders", **{**INTENTS["find_orders"], "description": "Find every order there is."}
        )
        assert second.version == 2
        assert (await client.intent("find_orders", version=1)).description == INTENTS["find_orders"]["description"]
        back = await client.change_intent("find_orders", version=1)
        assert (back.version, (await client.tool("intent__find_orders")).version[:2]) == (1, "1.")
        await client.change_intent("find_orders", enabled=False)
        assert (await client.run_intent("find_orders")).status == "failed"
        assert [one.enabled for one in await client.intents()] == [False]
        await client.change_intent("find_orders", enabled=True)
        assert (await client.run_intent("find_orders")).status == "succeeded"
        assert (await client.put_intent("find_orders", **INTENTS["find_orders"])).version == 3
        await client.delete_intent("find_orders")
        assert await client.intents() == []
        for act in (client.delete_intent("find_orders"), client.change_intent("find_orders", version=9)):
            with pytest.raises(ServiceError) as error:
                await act
            assert error.value.status == 404


WRONG: dict[str, dict[str, Any]] = {
    "no handler of that type": {"handler": {"type": "qurey"}},
    "an unknown option": {"handler": {"type": "query", "entity": "order", "filter": []}},
    "an unknown entity": {"handler": {"type": "query", "entity": "invoice"}},
    "an unknown field": {"handler": {"type": "query", "entity": "order", "order": ["-totl"]}},
    "an unknown parameter": {
        "handler": {"type": "query", "entity": "order", "filters": [{"field": "total", "value": {"$ref": "input.t"}}]}
    },
    "no key to delete by": {"handler": {"type": "data", "operation": "delete", "entity": "order"}},
    "an unknown tool": {"handler": {"type": "tool", "tool": "ad"}},
    "a step that comes later": {
        "handler": {"type": "chain", "steps": [{"id": "x", "tool": "add", "arguments": {"a": {"$ref": "y.z"}}}]}
    },
    "a form in a form": {
        "parameters": taking("id", required=("id",)),
        "handler": {"type": "form", "submit": {"type": "form", "submit": {}}},
    },
    "a schema that is none": {"parameters": {"type": "objekt"}, "handler": {"type": "tool", "tool": "add"}},
    "a form that requires no list": {
        "parameters": {"type": "object", "required": "id"},
        "handler": {"type": "form", "submit": {"type": "tool", "tool": "add"}},
    },
    "required, and not there": {
        "parameters": {"type": "object", "properties": {}, "required": ["id"]},
        "handler": {"type": "form", "submit": {"type": "tool", "tool": "add"}},
    },
    "no object": {"parameters": {"type": "string"}, "handler": {"type": "tool", "tool": "add"}},
    "an unknown role": {"roles": ["chief"], "handler": {"type": "tool", "tool": "add"}},
}


async def test_what_can_never_work_is_not_stored(tmp_path: Path) -> None:
    said: dict[str, str] = {}
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path, models={"order": Order}) as service:
        client = await service.client()
        for what, wrong in WRONG.items():
            with pytest.raises(ServiceError) as error:
                await client.put_intent("try_it", **{"description": "Try something out.", **wrong})
            said[what] = error.value.problem.detail
        assert await client.intents() == []
    assert said == snapshot(
        {
            "no handler of that type": (
                "`handler.type` must be one of `chain`, `data`, `draft`, `form`, `query`, `tool`, not 'qurey'."
            ),
            "an unknown option": (
                "`handler.filter` means nothing to a handler of type `query`. Did you mean `filters`?"
            ),
            "an unknown entity": "There is no entity `invoice`. There is `order`.",
            "an unknown field": "The entity `order` has no field `totl`. Did you mean `total`?",
            "an unknown parameter": "`input.t` refers to the parameter `t`, which the intent does not have.",
            "no key to delete by": (
                "It does not say which rows to delete. Give `where`, or have `id` among the parameters."
            ),
            "an unknown tool": "There is no tool `ad` for this caller.",
            "a step that comes later": "`y.z` refers to nothing that is known there. Write `input.NAME`.",
            "a form in a form": "A form cannot submit another form.",
            "a schema that is none": (
                "`intent__try_it`: its schema is not a valid JSON Schema. type: expected "
                '"array", "boolean", "integer", "null", "number", "object", "string" or array, got string "objekt".'
            ),
            "a form that requires no list": (
                '`intent__try_it`: its schema is not a valid JSON Schema. required: expected array, got string "id".'
            ),
            "required, and not there": "`parameters` requires `id`, which is not among its properties.",
            "no object": '`parameters` must describe an object: {"type": "object", "properties": …}.',
            "an unknown role": "There is no role `chief`.",
        }
    )


async def test_a_model_adds_an_intent_by_a_tool(store: str, tmp_path: Path) -> None:
    """M3: `create_new_intent` is linted, for some roles only, approved, and live at once."""
    async with running(store, tmp_path, models={"order": Order}) as service:
        client = await service.client()
        given = {"intentCode": "find_orders", **{k: v for k, v in INTENTS["find_orders"].items() if k != "cache"}}
        schema = (await client.tool("create_new_intent")).parameters
        assert "intentCode" in schema["required"]
        wrong = await client.call("create_new_intent", {**given, "handler": {"type": "query", "entity": "x"}}, wait=0)
        await client.approve((await client.approvals())[0])
        refused = await client.get_call(wrong.id, wait=30)
        assert refused.result is not None
        assert refused.result.llm_content == snapshot(
            "Error (validation_error): The intent `find_orders` was not added. There is no entity `x`. "
            "There is `order`."
        )
        waiting = await client.call("create_new_intent", given, wait=0)
        (approval,) = await client.approvals()
        assert approval.summary == snapshot(
            "Add the intent `find_orders`: Find orders by their status and customer, the largest first."
        )
        assert await client.intents() == []
        await client.approve(approval)
        made = await client.get_call(waiting.id, wait=30)
        assert made.result is not None
        assert made.result.llm_content == "Version 1 of the intent `find_orders` can be used now."
        assert (await client.run_intent("find_orders")).data["rows"] == []
        member = await service.user("mia")
        assert "create_new_intent" not in [tool.name for tool in await member.tools()]
        denied = await member.call("create_new_intent", given)
        assert denied.result is not None
        assert denied.result.error is not None
        assert denied.result.error.type == "not_found_error"
        with pytest.raises(ServiceError, match=r"Admin\(intents\)"):
            await member.put_intent("mine", **INTENTS["find_orders"])


async def test_the_schema_of_an_entity_is_told(tmp_path: Path) -> None:
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path, models={"order": Order}) as service:
        client = await service.client()
        said = {}
        for name in ("order", "ordr", ""):
            call = await client.call("query_entity_schema", {"entity": name} if name else {})
            assert call.result is not None
            said[name] = call.result.llm_content
        assert said == snapshot(
            {
                "order": """\
`order`: What a customer ordered.
- `id` (string, key): Made by the service.
- `customer` (string, required): Who ordered
- `total` (number, required)
- `status` (string)
- `due` (date, may be null)
- `urgent` (boolean)
- `pieces` (integer)
Rows can be created, updated and deleted.\
""",
                "ordr": """\
Error (not_found_error): There is no entity `ordr`.

Suggestion: There is `order`.\
""",
                "": "- `order`: What a customer ordered.",
            }
        )


def test_an_intent_is_live_on_every_instance(postgres_url: str, tmp_path: Path) -> None:
    """One instance stores it, another one runs it."""
    from ferrule.client import Client

    with Instance(tmp_path, postgres_url, "one") as one:
        key = one.key
        with (
            Instance(tmp_path, postgres_url, "two") as two,
            Client(one.url, key) as here,
            Client(two.url, key) as there,
        ):
            assert there.intents() == []
            here.put_intent(
                "see_it", description="Look at something twice.", handler={"type": "tool", "tool": "look"},
                parameters={"type": "object", "properties": {"text": {"type": "string", "description": "What"}}},
            )  # fmt: skip
            while (answer := there.run_intent("see_it", {"text": "x"})).status != "succeeded":
                time.sleep(0.05)  # a notification takes a moment
            assert answer.answer == "saw x"


class GreetOptions(HandlerOptions):
    greeting: str = "Hello"


class Greet(IntentHandler[GreetOptions]):
    type = "greet"
    options = GreetOptions

    def kind(self, options: GreetOptions) -> str:
        return "readonly"

    async def run(self, options: GreetOptions, call: IntentCall) -> str:
        return f"{options.greeting}, {call.inputs['customer']} of {call.tenant}!"


async def test_a_package_adds_a_handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers can be added; one that cannot be loaded takes nothing else along."""
    points = [
        EntryPoint("greet", f"{__name__}:Greet", "ferrule.intent_handlers"),
        EntryPoint("broken", "no.such.module:X", "ferrule.intent_handlers"),
        EntryPoint("other", f"{__name__}:GreetOptions", "ferrule.intent_handlers"),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: points)
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path, models={"order": Order}) as service:
        client = await service.client()
        await client.put_intent(
            "greet_them", description="Greet a customer by name.", parameters=taking("customer"),
            handler={"type": "greet", "greeting": "Hi"},
        )  # fmt: skip
        assert (await client.run_intent("greet_them", {"customer": "Ann"})).answer == "Hi, Ann of default!"
        assert sorted(service.service.intents.handlers) == ["chain", "data", "draft", "form", "greet", "query", "tool"]


async def test_intents_that_call_intents_end_soon(tmp_path: Path) -> None:
    """Each level of chains multiplies the calls, so that a few of them would be all that a service does."""
    async with running(f"sqlite:///{tmp_path / 'service.db'}", tmp_path) as service:
        client = await service.client()
        for steps in (["add"], ["intent__again"] * 2):
            await client.put_intent(
                "again", description="Do the same thing again.",
                handler={"type": "chain", "steps": [
                    {"id": f"s{at}", "tool": name, "arguments": {"a": 1, "b": 1} if name == "add" else {}}
                    for at, name in enumerate(steps)
                ]},
            )  # fmt: skip
        answer = await client.run_intent("again", {})
        assert answer.error is not None
        assert "at most 2 deep" in answer.error.message
        assert len((await client.audit()).rows) < 20


async def test_an_approval_is_not_for_an_intent_that_was_made_anew(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path, models={"order": Order}) as service:
        client = await service.client()
        await open_shop(client, "new_order")
        waiting = await client.run_intent("new_order", {"customer": "Eve", "total": 1}, wait=0)
        await client.delete_intent("new_order")
        everything: dict[str, Any] = {
            "type": "data", "operation": "delete", "entity": "order", "most": 100,
            "where": [{"field": "total", "op": "ge", "value": 0}],
        }  # fmt: skip
        await client.put_intent("new_order", **{**INTENTS["new_order"], "handler": everything})
        await client.approve((await client.approvals())[0])
        answer = await client.get_request(waiting.id, wait=30)
        assert answer.error is not None
        assert "another version" in answer.error.message
