"""The vendors' own SDKs with tools from `GET /v1/tools?dialect=…`, whose calls go to `POST /v1/calls`.

The model at the other end is scripted; the SDKs, their types and the loop around them are real (must-show 5).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ferrule.client import AsyncClient
from ferrule.service.messages import CallResult
from tests.models.endpoints.server import Server
from tests.models.endpoints.wire import Call, Says, reply
from tests.service.serving import Running, running

STEPS = (
    Says(calls=[Call("c1", "add", ['{"a": 2, ', '"b": 3}']), Call("c2", "refuse", ["{}"])], stop="calls"),
    Says(text=["It is ", "5."]),
)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 's.db'}"


async def result_of(client: AsyncClient, name: str, arguments: str | dict[str, Any]) -> CallResult:
    """What a loop does with a tool call: the arguments go on as the model wrote them."""
    call = await client.call(name, arguments)
    assert call.result is not None
    return call.result


async def is_on_record(service: Running) -> None:
    admin = await service.client()
    rows = (await admin.audit()).rows
    assert [(row["tool"], row["outcome"]) for row in rows] == [("add", "success"), ("refuse", "execution_error")]


async def test_the_loop_of_openais_chat_completions(sqlite: str, tmp_path: Path) -> None:
    from openai import AsyncOpenAI  # takes seconds, so not in every worker

    replies = [reply("chat", says, stream=False) for says in STEPS]
    async with running(sqlite, tmp_path) as service, Server(*replies) as model:
        client = await service.client()
        sdk = AsyncOpenAI(api_key="none", base_url=f"{model.url}/v1", max_retries=0)
        tools: Any = await client.definitions("openai")
        messages: list[Any] = [{"role": "user", "content": "What is 2 + 3?"}]
        while True:
            said = (await sdk.chat.completions.create(model="m", messages=messages, tools=tools)).choices[0].message
            messages.append(said)
            if not said.tool_calls:
                break
            for one in said.tool_calls:
                assert one.type == "function"
                result = await result_of(client, one.function.name, one.function.arguments)
                messages.append({"role": "tool", "tool_call_id": one.id, "content": result.llm_content})
        await sdk.close()
        assert said.content == "It is 5."
        first, second = (one.json for one in model.requests)
        assert {one["function"]["name"] for one in first["tools"]} >= {"add", "refuse"}
        assert [one["content"] for one in second["messages"][2:]] == ["5", SHOP_CLOSED]
        await is_on_record(service)


async def test_the_loop_of_openais_responses(sqlite: str, tmp_path: Path) -> None:
    from openai import AsyncOpenAI  # takes seconds, so not in every worker

    replies = [reply("responses", says, stream=False) for says in STEPS]
    async with running(sqlite, tmp_path) as service, Server(*replies) as model:
        client = await service.client()
        sdk = AsyncOpenAI(api_key="none", base_url=f"{model.url}/v1", max_retries=0)
        tools: Any = await client.definitions("openai-responses")
        given: list[Any] = [{"role": "user", "content": "What is 2 + 3?"}]
        while True:
            said = await sdk.responses.create(model="m", input=given, tools=tools)
            given += said.output
            calls = [one for one in said.output if one.type == "function_call"]
            if not calls:
                break
            for one in calls:
                result = await result_of(client, one.name, one.arguments)
                output = {"type": "function_call_output", "call_id": one.call_id, "output": result.llm_content}
                given.append(output)
        await sdk.close()
        assert said.output_text == "It is 5."
        answered = [one for one in model.requests[1].json["input"] if one.get("type") == "function_call_output"]
        assert [one["output"] for one in answered] == ["5", SHOP_CLOSED]
        await is_on_record(service)


async def test_the_loop_of_anthropics_messages(sqlite: str, tmp_path: Path) -> None:
    from anthropic import AsyncAnthropic

    replies = [reply("anthropic", says, stream=False) for says in STEPS]
    async with running(sqlite, tmp_path) as service, Server(*replies) as model:
        client = await service.client()
        sdk = AsyncAnthropic(api_key="none", base_url=model.url, max_retries=0)
        tools: Any = await client.definitions("anthropic")
        messages: list[Any] = [{"role": "user", "content": "What is 2 + 3?"}]
        while True:
            said = await sdk.messages.create(model="m", max_tokens=100, messages=messages, tools=tools)
            messages.append({"role": "assistant", "content": said.content})
            if said.stop_reason != "tool_use":
                break
            answers: list[Any] = []
            for block in said.content:
                if block.type == "tool_use":
                    result = await result_of(client, block.name, dict(block.input))
                    told = {"type": "tool_result", "tool_use_id": block.id, "content": result.llm_content}
                    answers.append({**told, "is_error": not result.success})
            messages.append({"role": "user", "content": answers})
        await sdk.close()
        assert [block.text for block in said.content if block.type == "text"] == ["It is 5."]
        first, second = (one.json for one in model.requests)
        assert {one["name"] for one in first["tools"]} >= {"add", "refuse"}
        told = second["messages"][2]["content"]
        assert [(one["content"], one["is_error"]) for one in told] == [("5", False), (SHOP_CLOSED, True)]
        await is_on_record(service)


SHOP_CLOSED = "Error (execution_error): The shop is closed.\n\nSuggestion: Try on Monday."


async def test_what_a_role_denies_is_in_no_dialect(sqlite: str, tmp_path: Path) -> None:
    async with running(sqlite, tmp_path) as service:
        await (await service.client()).put_role("reader", deny=["note"])
        ann = await service.user("ann", "reader")
        for dialect in ("openai", "openai-responses", "anthropic", "gemini", "mcp"):
            text = json.dumps(await ann.definitions(dialect))
            assert '"add"' in text
            assert '"note"' not in text
