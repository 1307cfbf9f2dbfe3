"""Long calls as tasks, for clients that can follow them (P6, P9)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client, types
from mcp.client.extension import advertise
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

from ferrule import ToolError, tool
from ferrule.mcp_server.asking import current_peer
from ferrule.mcp_server.opening import TASKS
from tests.mcp_server.serving import answering, client_of, serving, text_of


class Anything(types.Result):
    model_config = ConfigDict(extra="allow")


class AnyRequest(types.Request[Any, Any]):
    pass


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    request: Any = AnyRequest(method=method, params=params)
    return (await client.session.send_request(request, Anything)).model_dump(by_alias=True)


async def begin(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    return await ask(client, "tools/call", name=name, arguments=arguments)


async def until(client: Client, task: str, *statuses: str) -> dict[str, Any]:
    while (shown := await ask(client, "tasks/get", taskId=task))["status"] not in statuses:
        await asyncio.sleep(0.01)
    return shown


FOLLOWS: dict[str, Any] = {"extensions": [advertise(TASKS)]}


async def test_a_call_that_takes_long_becomes_a_task_and_its_result_comes_later() -> None:
    release = asyncio.Event()

    @tool(kind="readonly")
    async def work_long() -> str:
        """Work."""
        await release.wait()
        return "done at last"

    async with client_of(serving([work_long], task_after=0.01), "stateless", **FOLLOWS) as client:
        begun = await begin(client, "work_long")
        assert (begun["resultType"], begun["status"]) == ("task", "working")
        assert (await ask(client, "tasks/get", taskId=begun["taskId"]))["status"] == "working"
        release.set()
        done = await until(client, begun["taskId"], "completed")
    assert done["result"]["content"] == [{"type": "text", "text": "done at last"}]


async def test_cancelling_a_task_stops_the_work() -> None:
    stopped = asyncio.Event()

    @tool(kind="readonly")
    async def work_long() -> str:
        """Work."""
        try:
            await asyncio.sleep(600)
        finally:
            stopped.set()
        return "never"

    async with client_of(serving([work_long], task_after=0.01), "stateless", **FOLLOWS) as client:
        begun = await begin(client, "work_long")
        await ask(client, "tasks/cancel", taskId=begun["taskId"])
        assert stopped.is_set()
        assert (await ask(client, "tasks/get", taskId=begun["taskId"]))["status"] == "cancelled"
        await ask(client, "tasks/cancel", taskId=begun["taskId"])


async def test_a_task_asks_and_goes_on_when_it_is_answered() -> None:
    @tool(kind="readonly")
    async def ask_late() -> str:
        """Ask late."""
        await asyncio.sleep(0.1)
        peer = current_peer()
        assert peer is not None
        said = await peer.elicit("Your name?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"hello {said.content['name']}"

    server = serving([ask_late], task_after=0.01)
    async with client_of(server, "stateless", elicitation_callback=answering(), **FOLLOWS) as client:
        begun = await begin(client, "ask_late")
        shown = await until(client, begun["taskId"], "input_required")
        (key,) = shown["inputRequests"]
        nonsense = {key: {"action": "perhaps"}, "unasked": {"action": "accept", "content": {}}}
        await ask(client, "tasks/update", taskId=begun["taskId"], inputResponses=nonsense)
        assert (await ask(client, "tasks/get", taskId=begun["taskId"]))["status"] == "input_required"
        answers = {key: {"action": "accept", "content": {"name": "Ann"}}}
        await ask(client, "tasks/update", taskId=begun["taskId"], inputResponses=answers)
        done = await until(client, begun["taskId"], "completed")
    assert done["result"]["content"][0]["text"] == "hello Ann"


async def test_a_tool_that_fails_completes_its_task_with_an_error_result() -> None:
    @tool(kind="readonly")
    async def fail_late() -> str:
        """Fail late."""
        await asyncio.sleep(0.05)
        raise ToolError("It broke.")

    async with client_of(serving([fail_late], task_after=0.01), "stateless", **FOLLOWS) as client:
        begun = await begin(client, "fail_late")
        done = await until(client, begun["taskId"], "completed", "failed")
    assert (done["status"], done["result"]["isError"]) == ("completed", True)


async def test_a_client_that_cannot_follow_waits_for_the_result() -> None:
    @tool(kind="readonly")
    async def work_a_while() -> str:
        """Work."""
        await asyncio.sleep(0.1)
        return "done"

    async with client_of(serving([work_a_while], task_after=0.01), "stateless") as client:
        assert text_of(await client.call_tool("work_a_while", {})) == "done"
        with pytest.raises(MCPError) as refused:
            await ask(client, "tasks/get", taskId="x")
    assert refused.value.error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY


async def test_a_task_that_there_is_not_is_said_to_be_none() -> None:
    async with client_of(serving([]), "stateless", **FOLLOWS) as client:
        for method, more in (("tasks/get", {}), ("tasks/cancel", {}), ("tasks/update", {"inputResponses": {}})):
            with pytest.raises(MCPError, match="There is no task 'nothing'"):
                await ask(client, method, taskId="nothing", **more)


async def test_tasks_stop_when_the_server_ends() -> None:
    stopped = asyncio.Event()

    @tool(kind="readonly")
    async def work_long() -> str:
        """Work."""
        try:
            await asyncio.sleep(600)
        finally:
            stopped.set()
        return "never"

    async with client_of(serving([work_long], task_after=0.01), "stateless", **FOLLOWS) as client:
        await begin(client, "work_long")
    assert stopped.is_set()
