"""What the agent costs besides its model and its tools: `python benchmarks/agent.py`.

The same model answers and the same calls run, once in a bare loop and once in the agent's. Prints a table and exits
with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

from _agent_peers import measure as measure_peers
from _measure import Row, Work, in_turn, report
from ferrule import RawCall, Runtime, tool
from ferrule.agent.agent import Agent
from ferrule.agent.conversation import Conversation
from ferrule.agent.saved_sessions import SavedConversation
from ferrule.agent.turn_store import TurnStore
from ferrule.core.model import (
    AssistantMessage,
    Finished,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ToolResults,
    Usage,
    UserMessage,
)
from ferrule.core.result import ToolResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SOURCE = Path(__file__).parents[1] / "src"
TURNS = 500
SETTLED = 100
WORDS = "a few words of an answer "


@tool(kind="readonly")
async def look(number: int) -> str:
    """Look something up."""
    return f"found {number}: " + "x" * 200


class Instant:
    """A model that answers at once: three calls, then words."""

    name = "instant/model"

    def __init__(self, context_tokens: int | None = None, words: str = WORDS) -> None:
        self.context_tokens = context_tokens
        self._words = words
        self._count = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for _ in range(10):
            yield TextDelta(self._words)
        self._count += 1
        calls: tuple[RawCall, ...] = ()
        if request.tools and not isinstance(request.messages[-1], ToolResults):
            numbers = range(3 * self._count, 3 * self._count + 3)
            calls = tuple(RawCall("look", f'{{"number": {number}}}', id=f"c{number}") for number in numbers)
        message = AssistantMessage(self._words * 10, calls)
        yield Finished(message, Usage(), "calls" if calls else "end")

    async def close(self) -> None:
        """Nothing is open."""


async def bare_turn(model: Instant, runtime: Runtime) -> None:
    """The least that any loop does."""
    messages: list[UserMessage | AssistantMessage | ToolResults] = [UserMessage("go")]
    while True:
        async for event in model.stream(ModelRequest(messages, tools=runtime.tools.tools())):
            if isinstance(event, Finished):
                messages.append(event.message)
        last = messages[-1]
        if not isinstance(last, AssistantMessage) or not last.calls:
            return
        messages.append(ToolResults(tuple(await runtime.batch(last.calls))))


async def agent_turn(agent: Agent) -> None:
    agent.conversation = Conversation(journal=agent.conversation.journal)
    async for _ in agent.run("go"):
        pass


async def measure_turns(rounds: int, folder: Path) -> list[Row]:
    runtime = Runtime([look])
    plain = Agent(Instant(), [look], system="Be brief.")
    saved = Agent(Instant(), [look], save=SavedConversation(folder, "bench", folder, "instant/model"))
    model = Instant()
    contenders: dict[str, Work] = {
        "bare": lambda: bare_turn(model, runtime),
        "agent": lambda: agent_turn(plain),
        "saved": lambda: agent_turn(saved),
    }
    times = await in_turn(contenders, rounds=rounds, seconds=0.01)
    bare = times["bare"]
    rows: list[Row] = []
    for name, title in (
        ("agent", "a. a turn of two answers and three calls"),
        ("saved", "   the same, saved as it goes"),
    ):
        one = times[name]
        added = (one.best - bare.best) * 1e3
        note = (
            f"{one.best * 1e3:.2f} ms against {bare.best * 1e3:.2f} ms; median {(one.median - bare.median) * 1e3:.2f}"
        )
        rows.append(Row(title, added, "ms", 2.0, note))
    return rows


class Steps(Instant):
    """Twenty answers with three calls each, then words."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self._count += 1
        numbers = range(3 * self._count, 3 * self._count + 3) if self._count % 21 else ()
        calls = tuple(RawCall("look", f'{{"number": {number}}}', id=f"c{number}") for number in numbers)
        yield Finished(AssistantMessage(self._words, calls), Usage(), "calls" if calls else "end")


def _history(messages: int) -> Conversation:
    said: list[UserMessage | AssistantMessage | ToolResults] = []
    for number in range(messages // 4):
        done = ToolResult(f"h{number}", "look", True, "x" * 400, "x")
        asked = AssistantMessage(WORDS, (RawCall("look", {"number": number}, id=f"h{number}"),))
        said += [UserMessage(WORDS * 5, turn=number + 1), asked, ToolResults((done,)), AssistantMessage(WORDS * 5)]
    return Conversation(said, turn=messages // 4)


async def measure_saving(rounds: int, folder: Path) -> list[Row]:
    """What it costs to keep each step, by the length of the conversation before it."""
    took: dict[int, float] = {}
    for messages in (4, 200, 2000):
        least: list[float] = []
        for store in (None, TurnStore(folder / f"{messages}.db")):
            agent = Agent(Steps(), [look], conversation=_history(messages), turns=store)
            await agent.answer("go")  # which keeps what was said before
            times: list[float] = []
            for _ in range(rounds):
                began = process_time()
                ended = await agent.answer("go")
                times.append((process_time() - began) / ended.steps)
            least.append(min(times))
        took[messages] = (least[1] - least[0]) * 1e3
    note = f"CPU; {took[4]:.2f} ms after 4 messages, {took[2000]:.2f} ms after 2,000"
    return [
        Row("d. keeping a step of three calls, after 200 messages", took[200], "ms", 1.0, note),
        Row("   after 2,000 messages against 200", took[2000] / took[200], "×", 1.3),
    ]


async def measure_memory(turns: int) -> list[Row]:
    """What a long session holds on to, with a context that is full after some dozen turns."""
    agent = Agent(Instant(context_tokens=20_000), [look])
    held: dict[int, float] = {}
    tracemalloc.start()
    for number in range(1, turns + 1):
        async for _ in agent.run(f"go on, {number}"):
            pass
        if number in (SETTLED, turns):
            gc.collect()
            held[number] = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    note = f"{held[SETTLED]:.2f} MB after {SETTLED} turns, {held[turns]:.2f} MB after {turns}"
    grown = Row(f"b. memory from turn {SETTLED} to {turns}", held[turns] - held[SETTLED], "MB", 0.5, note)
    return [grown, Row("   messages at the end", len(agent.conversation.messages), "", 400)]


def measure_start(rounds: int, folder: Path) -> list[Row]:
    """CPU time of `ferrule run` with a model that answers at once, and of its parts."""
    script = folder / "script.json"
    script.write_text(json.dumps(["Hello."]))
    work = folder / "work"
    work.mkdir()
    command = ["-m", "ferrule", "run", "hello", "--model", f"scripted:{script}"]
    libraries = "import asyncio, sqlite3, click; from pydantic import BaseModel, Field"
    commands = {
        "run": command,
        "call": ["-m", "ferrule", "call", "getCurrentDirectory"],
        "libraries": ["-c", libraries],
    }
    least = dict.fromkeys(commands, float("inf"))
    for _ in range(rounds):
        for name, arguments in commands.items():
            least[name] = min(least[name], _cpu(arguments, work, folder))
    note = f"CPU; {least['libraries']:.0f} ms for Python and the libraries, {least['call']:.0f} ms for `ferrule call`"
    return [
        Row("c. `ferrule run`, start to end", least["run"], "ms", 500, note),
        Row("   the same against `ferrule call`", least["run"] / least["call"], "×", 1.25),
    ]


def _cpu(arguments: list[str], work: Path, data: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "FERRULE_DATA": str(data / "data")}
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        env=environment,
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def main() -> int:
    arguments = argparse.ArgumentParser(description="What the agent costs besides its model and its tools.")
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments.add_argument("--quick", action="store_true", help="fewer rounds: rougher figures in less time")
    chosen = arguments.parse_args()
    scale = 0.2 if chosen.quick else 1
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            *asyncio.run(measure_turns(round(100 * scale), Path(folder))),
            *asyncio.run(measure_memory(TURNS)),
            *measure_start(round(10 * scale), Path(folder)),
            *asyncio.run(measure_saving(round(40 * scale), Path(folder))),
            *asyncio.run(measure_peers(round(40 * scale))),
        ]
    return report(rows, as_json=chosen.json)


if __name__ == "__main__":
    raise SystemExit(main())
