"""The same calls through other tool runtimes, where they are installed. Nothing here is needed to measure Ferrule.

Each is given what a model sent, JSON text, and asked for its answer in the way its own agent loop asks. Ferrule counts
the calls but keeps no audit log here: none of the others has one, and its writer's work would slow their rounds too.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from time import process_time
from typing import Any

import _work
from _calls import ferrule_call
from _definitions import HOW_MANY, by_pydantic, define, typed_functions
from _measure import Row, in_turn, versus
from ferrule import Runtime, tool
from ferrule.dialects import Exporter
from ferrule.records.statistics import Statistics

Call = Callable[[], Awaitable[object]]
FUNCTIONS = {"forecast": _work.forecast, "forecast_sync": _work.forecast_sync, "place_order": _work.place_order}


async def pydantic_ai() -> Callable[[str, str], Call]:
    from pydantic_ai import RunContext, RunUsage
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.toolsets import FunctionToolset

    toolset: Any = FunctionToolset(list(FUNCTIONS.values()))
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    manager = await ToolManager(toolset).for_run_step(context)

    def call(name: str, text: str) -> Call:
        async def work() -> object:
            return await manager.handle_call(ToolCallPart(name, text))

        return work

    return call


async def langchain_core() -> Callable[[str, str], Call]:
    from langchain_core.tools import StructuredTool

    tools: dict[str, Any] = {
        name: StructuredTool.from_function(
            **({"coroutine": function} if inspect.iscoroutinefunction(function) else {"func": function})  # pyright: ignore[reportArgumentType]
        )
        for name, function in FUNCTIONS.items()
    }

    def call(name: str, text: str) -> Call:
        async def work() -> object:
            return await tools[name].ainvoke({"name": name, "args": json.loads(text), "id": "c", "type": "tool_call"})

        return work

    return call


async def fastmcp() -> Callable[[str, str], Call]:
    from fastmcp import FastMCP

    server: Any = FastMCP("peers")
    for function in FUNCTIONS.values():
        server.tool(function)

    def call(name: str, text: str) -> Call:
        async def work() -> object:
            return await server.call_tool(name, json.loads(text))

        return work

    return call


async def openai_agents() -> Callable[[str, str], Call]:
    from agents import function_tool
    from agents.tool_context import ToolContext

    tools: dict[str, Any] = {name: function_tool(function) for name, function in FUNCTIONS.items()}

    def call(name: str, text: str) -> Call:
        async def work() -> object:
            context: Any = ToolContext(None, tool_name=name, tool_call_id="c", tool_arguments=text)
            return await tools[name].on_invoke_tool(context, text)

        return work

    return call


PEERS = {
    "pydantic-ai-slim": pydantic_ai,
    "langchain-core": langchain_core,
    "fastmcp": fastmcp,
    "openai-agents": openai_agents,
}


def define_pydantic_ai(functions: list[Callable[..., Any]]) -> int:
    from pydantic_ai import Tool

    return len([Tool(function).tool_def.parameters_json_schema for function in functions])


def define_openai_agents(functions: list[Callable[..., Any]]) -> int:
    from agents import function_tool

    return len([
        function_tool(function, strict_mode=False).params_json_schema for function in functions
    ])  # fmt: skip


def define_langchain(functions: list[Callable[..., Any]]) -> int:
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool

    made = [
        StructuredTool.from_function(
            **({"coroutine": function} if inspect.iscoroutinefunction(function) else {"func": function})  # pyright: ignore[reportArgumentType]
        )
        for function in functions
    ]
    return len([convert_to_openai_tool(one) for one in made])


def define_smolagents(functions: list[Callable[..., Any]]) -> int:
    """What its `@tool` calls to write the schema; the decorator itself needs files of source."""
    from smolagents._function_type_hints_utils import get_json_schema

    return len([get_json_schema(function) for function in functions])


DEFINITIONS: dict[str, Callable[[list[Callable[..., Any]]], int]] = {
    "pydantic-ai-slim": define_pydantic_ai,
    "openai-agents": define_openai_agents,
    "langchain-core": define_langchain,
    "smolagents": define_smolagents,
}


def measure_peer_definitions(rounds: int) -> list[Row]:
    """The same thousand functions as in `f.`, by turns; one that cannot take them all says why."""
    functions = typed_functions(HOW_MANY)
    contenders: dict[str, Callable[[], object]] = {
        "ferrule": lambda: Exporter("openai").definitions(define(functions).tools()),
        "pydantic": lambda: by_pydantic(functions),
    }
    rows: list[Row] = []
    for name, work in DEFINITIONS.items():
        try:
            work(functions[:8])
        except Exception as error:  # noqa: BLE001 - whatever it is, there is nothing to measure then
            why = str(error).strip().split("\n", 1)[0][:90]
            rows.append(Row(f"   defined and shown: {name}", 0, "", None, f"not measured: {why}"))
        else:
            contenders[f"{name} {version(name)}"] = lambda work=work: work(functions)
    least = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, contender in contenders.items():
            gc.collect()
            began = process_time()
            contender()
            least[name] = min(least[name], (process_time() - began) * 1e3)
    return [Row(f"   defined and shown: {name}", taken, "ms", None, "CPU") for name, taken in least.items()] + rows


WORKS: dict[str, tuple[str, str, Call]] = {
    "one call": ("forecast", _work.FORECAST_CALL, _work.bare_forecast),
    "20 nested items": ("place_order", _work.ORDER_CALL, _work.bare_order),
    "sync tool": ("forecast_sync", _work.FORECAST_CALL, _work.bare_forecast),
}


def measure_peers(rounds: int) -> list[Row]:
    return asyncio.run(_measure_peers(rounds))


async def _measure_peers(rounds: int) -> list[Row]:
    rows: list[Row] = []
    calls: dict[str, Callable[[str, str], Call]] = {}
    for name, make in PEERS.items():
        try:
            calls[f"{name} {version(name)}"] = await make()
        except ImportError as missing:
            rows.append(Row(f"   {name}", 0, "", None, f"not measured: {missing}"))
    tools = [tool(function, kind="readonly") for function in FUNCTIONS.values()]  # pyright: ignore[reportArgumentType]
    runtime = Runtime(tools, recorders=[Statistics()])
    calls = {"ferrule": lambda name, text: ferrule_call(runtime, name, text), **calls}
    for title, (function, text, bare) in WORKS.items():
        contenders = {peer: call(function, text) for peer, call in calls.items()}
        for peer, work in contenders.items():
            answer = str(await work())
            assert "sun in Lisbon" in answer or "20 lines for Ada" in answer, (peer, answer)
        times = await in_turn({"bare": bare, **contenders}, rounds=rounds)
        rows += [versus(f"   {title}: {peer}", times, None, peer) for peer in contenders]
    return rows
