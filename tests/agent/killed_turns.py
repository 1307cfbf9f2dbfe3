"""Plays turns and kills the processes that work on them, at any moment: `killed_turns.py FIRST COUNT`.

Each seed is a turn with parallel calls, approvals, deferred calls and sub-agents. A process of its own works on it
until it is killed, pauses or ends; the next one resumes it, now and then two at once. Prints what did not hold, with
its seed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ferrule import RawCall, Runtime, tool
from ferrule.agent import Agent, Ending, TurnStateError, TurnStore
from ferrule.agent.conversation import well_formed
from ferrule.agent.turn_log import WaitingCall
from ferrule.core.model import AssistantMessage, Finished, ModelEvent, ModelRequest, ToolResults, Usage
from ferrule.pipeline.stages import CallRecord

USAGE = Usage(10, 5, cost=0.01)
KEY = b"a key for the tests of turns"
FINISHED, KILLED, PAUSED, REFUSED = 0, 9, 20, 21
_left = [10**9]


def moment() -> None:
    """The process may be killed here."""
    _left[0] -= 1
    if _left[0] <= 0:
        os._exit(KILLED)


class Log:
    """Lines that are there although their process was killed."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, *words: object) -> None:
        os.write(self._file, (json.dumps(words) + "\n").encode())


class PlayedModel:
    """Asks for the calls of a plan, one answer for each step; how far it is follows from the messages."""

    name, context_tokens, is_priced = "played", 100_000, True

    def __init__(self, plan: list[list[tuple[str, dict[str, Any]]]], who: str) -> None:
        self._plan, self._who = plan, who

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        moment()
        await asyncio.sleep(0)
        step = sum(isinstance(one, AssistantMessage) for one in request.messages)
        calls = self._plan[step] if step < len(self._plan) else []
        named = tuple(RawCall(name, given, id=f"{self._who}{step}_{at}") for at, (name, given) in enumerate(calls))
        moment()
        yield Finished(AssistantMessage("" if named else "The end.", named), USAGE, "calls" if named else "end")

    async def close(self) -> None:
        pass


def plan_of(chance: random.Random, depth: int = 0) -> list[list[tuple[str, dict[str, Any]]]]:
    kinds = ["charge", "charge", "note", "look", "locate", "ticket"] + ["helper"] * (depth < 2)
    plan: list[list[tuple[str, dict[str, Any]]]] = []
    for _ in range(chance.randrange(1, 4)):
        calls: list[tuple[str, dict[str, Any]]] = []
        for _ in range(chance.choice((1, 1, 2, 3))):
            name = chance.choice(kinds)
            number = chance.randrange(10**9)
            if name == "helper":
                calls.append((f"helper{depth}", {"prompt": json.dumps(plan_of(chance, depth + 1))}))
            else:
                calls.append((name, {"number": number}))
        plan.append(calls)
    return plan


class Place:
    """Where one turn is played: its store, what its tools did, and what was recorded."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.plan = plan_of(random.Random(seed))
        self.store = TurnStore(folder / "turns.db", key=KEY)
        self.effects, self.records = Log(folder / "effects"), Log(folder / "records")
        self.ends = Log(folder / "ends")
        extend = self.store.extend

        def extended(*given: Any) -> None:
            moment()
            extend(*given)
            if given[-1] == "working":  # a process that is killed once the turn is over could not tell us so
                moment()

        self.store.extend = extended  # pyright: ignore[reportAttributeAccessIssue]

    def record(self, record: CallRecord) -> None:
        moment()
        self.records.add(record.call_id, record.outcome)

    def agent(self) -> Agent[None, str]:
        effects = self.effects

        @tool(kind="execute", requires_permission=True)
        async def charge(number: int) -> str:
            """Charge somebody."""
            effects.add("charge", number)
            moment()
            await asyncio.sleep(0)
            effects.add("charged", number)
            moment()
            return f"charged {number}"

        @tool(kind="write", touches=())
        async def note(number: int) -> str:
            """Note a number. Two may be noted at once."""
            moment()
            effects.add("note", number)
            await asyncio.sleep(0)
            moment()
            return f"noted {number}"

        @tool(kind="readonly")
        async def look(number: int) -> str:
            """Look at a number."""
            moment()
            effects.add("look", number)
            return f"looked at {number}"

        @tool(kind="readonly", deferred=True)
        async def locate(number: int) -> str:
            """Find where a number is."""
            raise AssertionError("a deferred tool never runs")

        @tool(kind="write", deferred=True, touches=())
        async def ticket(number: int) -> int:
            """Have somebody look after a number."""
            raise AssertionError("a deferred tool never runs")

        tools: list[Any] = [charge, note, look, locate, ticket]
        names = {one.name for one in tools}

        def ask(question: Any) -> str:
            moment()
            return "once" if question.invocation.tool.name not in ("charge",) else "later"

        def sub_agent(depth: int) -> Any:
            below = [sub_agent(depth + 1)] if depth < 1 else []
            helper = Agent(_ByPrompt(f"d{depth}_"), [*tools, *below])
            return helper.as_tool(f"helper{depth}", "Does a part of it.")

        all_tools = [*tools, sub_agent(0)]
        assert names
        runtime = Runtime(all_tools, ask=ask, recorders=[self])
        return Agent(PlayedModel(self.plan, "r"), runtime=runtime, turns=self.store)


class _ByPrompt(PlayedModel):
    """Plays the plan that the prompt holds."""

    def __init__(self, who: str) -> None:
        super().__init__([], who)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        first: Any = request.messages[0]
        plan = json.loads(first.text)
        async for event in PlayedModel(plan, self._who).stream(request):
            yield event


def answers_to(waiting: tuple[WaitingCall, ...], chance: random.Random) -> dict[str, dict[str, Any]]:
    """What is given for some of the waiting calls; for at least one."""
    given: dict[str, dict[str, Any]] = {"answers": {}, "results": {}}
    for one in chance.sample(waiting, chance.randrange(1, len(waiting) + 1)) if waiting else ():
        if one.kind == "approval":
            given["answers"][one.id] = chance.choice(("once", "once", "no"))
        else:
            given["results"][one.id] = one.arguments["number"] if one.tool == "ticket" else f"at {one.id}"
    return given


async def work(place: Place, seed: int, attempt: int) -> int:
    """Begin the turn, or go on with it as it was left; gives how that ended."""
    agent, chance = place.agent(), random.Random(seed * 1000 + attempt // 2)
    turns = place.store.turns()
    if not turns:
        if (place.folder / "begun").exists():
            return REFUSED  # another process works on it, or has ended it
        (place.folder / "begun").touch()
        ended = await agent.answer("Go.")
    else:
        given = answers_to(turns[0].waiting, chance)
        try:
            ended = await agent.resume(turns[0].state, answers=given["answers"], results=given["results"])
        except TurnStateError:
            return REFUSED
    if ended.ending is Ending.PAUSED:
        return PAUSED
    _left[0] = 10**9
    messages = agent.conversation.messages
    ids = [call.id for one in messages if isinstance(one, AssistantMessage) for call in one.calls]
    results = [one for message in messages if isinstance(message, ToolResults) for one in message.results]
    place.ends.add(
        str(ended.ending), ended.usage.input_tokens, ended.steps,
        sum(isinstance(one, AssistantMessage) for one in messages), ids,
        [[one.call_id, one.tool, one.success, one.llm_content] for one in results], well_formed(messages),
    )  # fmt: skip
    return FINISHED


def forked(folder: Path, seed: int, attempt: int, kill_at: int) -> int:
    child = os.fork()
    if child:
        return child
    code = 30
    try:
        _left[0] = kill_at
        code = asyncio.run(work(Place(folder, seed), seed, attempt))
    except BaseException as error:
        print(f"seed {seed}: {type(error).__name__}: {error}", file=sys.stderr)
        if not isinstance(error, SystemExit):
            import traceback

            traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def play(seed: int, folder: Path) -> tuple[list[str], Counter[str]]:
    """Play one turn to its end; gives what did not hold, and what happened."""
    chance, happened = random.Random(seed), Counter[str]()
    names = {FINISHED: "finished", KILLED: "killed", PAUSED: "paused", REFUSED: "refused"}
    for attempt in range(0, 400, 2):
        kill_at = chance.choice((chance.randrange(1, 40), chance.randrange(1, 40), 10**9))
        children = [forked(folder, seed, attempt, kill_at)]
        if attempt and chance.random() < 0.3:
            children.append(forked(folder, seed, attempt + 1, chance.randrange(1, 40)))
        codes = [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children]
        happened.update(names.get(code, f"code {code}") for code in codes)
        if len(codes) > 1:
            happened["two at once"] += 1
        if not attempt and codes == [KILLED] and not TurnStore(folder / "turns.db", key=KEY).turns():
            (folder / "begun").unlink(missing_ok=True)  # it was killed before the turn was kept at all
        if (folder / "ends").exists() and (folder / "ends").read_bytes():
            return check(folder), happened
        if any(code not in names for code in codes):
            return [f"a process ended with {codes}"], happened
        with suppress(FileNotFoundError):
            if not TurnStore(folder / "turns.db", key=KEY).turns():
                (folder / "begun").unlink()
    return ["the turn never ended"], happened


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def check(folder: Path) -> list[str]:
    """What did not hold."""
    wrong: list[str] = []
    ends = lines_of(folder / "ends")
    if len(ends) != 1:
        wrong.append(f"the turn ended {len(ends)} times")
    ending, tokens, steps, answers, ids, results, problem = ends[0]
    if ending != "done":
        wrong.append(f"it ended as {ending}")
    if problem:
        wrong.append(f"the conversation is not sound: {problem}")
    if [one[0] for one in results] != ids:
        wrong.append("not every call has one result")
    if steps != answers:
        wrong.append(f"{steps} steps are counted and {answers} answers are there")
    if tokens < answers * USAGE.input_tokens or tokens % USAGE.input_tokens:
        wrong.append(f"{tokens} tokens are counted for {answers} answers")
    effects = Counter((name, number) for name, number in lines_of(folder / "effects"))
    for (name, number), count in effects.items():
        if name != "look" and count > 1:
            wrong.append(f"{name} {number} started {count} times")
    records = Counter((call, outcome) for call, outcome in lines_of(folder / "records"))
    for call_id, name, success, text in results:
        if success and name in ("charge", "note"):
            number = int(text.split()[-1])
            if effects[name if name == "note" else "charged", number] != 1:
                wrong.append(f"{name} {number} is said to have run, and has not")
        if success and name == "ticket" and not text.isdigit():
            wrong.append(f"{call_id} has {text!r}")
        if success and name == "locate" and not text.startswith("at "):
            wrong.append(f"{call_id} has {text!r}")
        if records[call_id, "success"] > 1 and name in ("charge", "note"):
            wrong.append(f"{call_id} ({name}) is on record {records[call_id, 'success']} times")
        if not any(one == call_id for one, _ in records):
            wrong.append(f"{call_id} is not on record")
    return wrong


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    happened, failed = Counter[str](), 0
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            wrong, what = play(seed, Path(folder))
        happened += what
        for one in wrong:
            print(f"seed {seed}: {one}")
        failed += bool(wrong)
    print(dict(happened))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
