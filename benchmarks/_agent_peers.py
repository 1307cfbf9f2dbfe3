"""The same run of an agent in other frameworks, where they are installed: a model that answers at once, and one tool.

The model asks for all calls in its first answer, and ends with words. What is counted is CPU, of all threads: of a run
with one call, and of each call more.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from time import process_time
from typing import Any

from _measure import Row
from ferrule import RawCall, tool
from ferrule.agent import Agent, Conversation
from ferrule.models import AssistantMessage, Finished, ModelEvent, ModelRequest, Usage

Run = Callable[[int], Awaitable[object]]
MORE = 10
CALL_BAR, RUN_BAR = 100.0, 800.0


async def look(number: int) -> str:
    """Look something up."""
    return f"found {number}"


class Asking:
    """Asks for so many calls, and then answers."""

    name = "instant/model"
    context_tokens = None

    def __init__(self) -> None:
        self.calls = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        calls = tuple(RawCall("look", f'{{"number": {n}}}', id=f"c{n}") for n in range(self.calls))
        self.calls = 0
        yield Finished(AssistantMessage("" if calls else "done", calls), Usage(10, 10), "calls" if calls else "end")

    async def close(self) -> None:
        """Nothing is open."""


def ferrule() -> Run:
    model = Asking()
    agent = Agent(model, [tool(look, kind="readonly")])

    async def run(calls: int) -> object:
        model.calls = calls
        agent.conversation = Conversation()
        return (await agent.answer("go")).output

    return run


def ferrule_typed() -> Run:
    """The same with typed output, by a final tool."""

    class Final(Asking):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            async for event in super().stream(request):
                if isinstance(event, Finished) and not event.message.calls:
                    final = RawCall("final_answer", '{"output": 7}', id="final")
                    event = Finished(AssistantMessage("", (final,)), event.usage, "calls")
                yield event

    model = Final()
    agent = Agent(model, [tool(look, kind="readonly")], output=int)

    async def run(calls: int) -> object:
        model.calls = calls
        agent.conversation = Conversation()
        assert (await agent.answer("go")).output == 7
        return 7

    return run


def pydantic_ai() -> Run:
    from pydantic_ai import Agent as Peer
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    left = [0]

    def answer(messages: Any, info: Any) -> ModelResponse:
        calls = [ToolCallPart("look", f'{{"number": {n}}}', tool_call_id=f"c{n}") for n in range(left[0])]
        left[0] = 0
        return ModelResponse(parts=calls or [TextPart("done")])

    agent = Peer(FunctionModel(answer), tools=[look])

    async def run(calls: int) -> object:
        left[0] = calls
        return (await agent.run("go")).output

    return run


def openai_agents() -> Run:
    from agents import Agent as Peer
    from agents import Model, ModelResponse, Runner, function_tool, set_tracing_disabled
    from agents import Usage as PeerUsage
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)
    left = [0]

    class Instant(Model):
        async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
            said: list[Any] = [
                ResponseFunctionToolCall(
                    arguments=f'{{"number": {n}}}', call_id=f"c{n}", name="look", type="function_call"
                )
                for n in range(left[0])
            ]
            left[0] = 0
            if not said:
                text = ResponseOutputText(annotations=[], text="done", type="output_text")
                said = [
                    ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
                ]
            return ModelResponse(output=said, usage=PeerUsage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    agent = Peer(name="peer", model=Instant(), tools=[function_tool(look)])

    async def run(calls: int) -> object:
        left[0] = calls
        return (await Runner.run(agent, "go", max_turns=100)).final_output

    return run


async def measure(rounds: int) -> list[Row]:
    runs: dict[str, Run] = {"Ferrule": ferrule(), "Ferrule, typed output": ferrule_typed()}
    for package, make in (("pydantic-ai-slim", pydantic_ai), ("openai-agents", openai_agents)):
        try:
            runs[f"{package} {version(package)}"] = make()
        except ImportError:
            continue
    least: dict[tuple[str, int], float] = {}
    for run in runs.values():
        for _ in range(10):
            await run(1)
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):  # in turn, so that a busy moment slows all of them
            for name, run in runs.items():
                for calls in (1, 1 + MORE):
                    began = process_time()
                    for _ in range(5):
                        await run(calls)
                    spent = (process_time() - began) / 5 * 1e6
                    least[name, calls] = min(least.get((name, calls), spent), spent)
                gc.collect(0)
    finally:
        gc.enable()
    rows: list[Row] = []
    for name in runs:
        own = name.startswith("Ferrule")
        each = (least[name, 1 + MORE] - least[name, 1]) / MORE
        rows.append(Row(f"d. a call more, {name}", each, "µs", CALL_BAR if own else None, "CPU"))
        rows.append(Row(f"   a run of one call, {name}", least[name, 1], "µs", RUN_BAR if own else None, "CPU"))
    return rows
