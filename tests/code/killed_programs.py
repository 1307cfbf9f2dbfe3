"""Runs programs in processes that are killed at any moment, and goes on with them: `killed_programs.py FIRST COUNT`.

Prints what did not hold, with its seed.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from ferrule import Runtime, tool
from ferrule.agent import Agent, Ending, TurnStore
from ferrule.code import RunCode
from ferrule.testing import ScriptedModel, call

KEY = b"a key for the tests of programs"
FINISHED, KILLED, PAUSED = 0, 9, 20
_left = [10**9]

CODE = """
import asyncio, random

async def charged(amount: int) -> str:
    try:
        return await charge(amount)
    except RuntimeError as error:
        return str(error)[:13]

done = []
for n in range(4):
    value = await look(n)
    done.append(await charged(n * 10 + value))
    done += await asyncio.gather(look(n), put(n), charged(n * 10 + 9))
    if n % 2:
        try:
            done.append(await approve(n))
        except (PermissionError, RuntimeError) as error:
            done.append(str(error)[:16])
    done.append(random.random())
print(len(done))
"""


def moment() -> None:
    """The process may be killed here."""
    _left[0] -= 1
    if _left[0] <= 0:
        os._exit(KILLED)


def agent(folder: Path, replies: list[Any]) -> Agent[Any, Any]:
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def did(*words: object) -> None:
        os.write(log, (" ".join(map(str, words)) + "\n").encode())

    @tool(kind="readonly")
    def look(n: int) -> int:
        """Look."""
        moment()
        return n

    @tool(kind="write", requires_permission=False)
    def charge(amount: int) -> str:
        """Charge, which must not happen twice."""
        moment()
        did("charge", amount)
        moment()
        return f"charged {amount}"

    @tool(kind="write", idempotent=True)
    def put(n: int) -> int:
        """Put, which may happen again."""
        moment()
        did("put", n)
        moment()
        return n

    @tool(kind="write", requires_permission=True)
    def approve(n: int) -> str:
        """Do what needs approval."""
        moment()
        did("approve", n)
        moment()
        return "approved"

    def ask(question: Any) -> str:
        moment()
        return "later" if question.invocation.tool.name == "approve" else "once"

    runtime = Runtime([RunCode([look, charge, put, approve])], ask=ask)
    return Agent(ScriptedModel(replies), runtime=runtime, turns=TurnStore(folder / "turns.db", key=KEY))


async def work(folder: Path, seed: int) -> int:
    store = TurnStore(folder / "turns.db", key=KEY)
    chance = random.Random(seed)
    found = store.turns()
    if not found:
        if (folder / "begun").exists():
            return FINISHED
        (folder / "begun").touch()
        working = agent(folder, [call("run_code", {"code": CODE}), "The end."])
        ended = await working.answer("Go.")
    else:
        (turn,) = found
        answers = {one.id: chance.choice(["once", "no"]) for one in turn.waiting}
        has_code = '"type":"assistant"' in turn.state
        replies = ["The end."] if has_code else [call("run_code", {"code": CODE}), "The end."]
        working = agent(folder, replies)
        ended = await working.resume(turn.state, answers=answers)
    if ended.ending is Ending.PAUSED:
        return PAUSED
    assert ended.text == "The end.", ended
    (result,) = working.conversation.messages[2].results  # type: ignore[union-attr]
    assert result.llm_content == "22", result.llm_content
    return FINISHED


def play(seed: int, happened: Counter[str]) -> list[str]:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder, code = Path(name), FINISHED
        for attempt in range(60):
            limit = chance.randrange(1, 16) if attempt < 5 else 10**9
            words = f"from tests.code.killed_programs import child; child({name!r}, {seed + attempt}, {limit})"
            code = subprocess.run([sys.executable, "-c", words], check=False).returncode
            happened[{KILLED: "killed", PAUSED: "paused"}.get(code, f"ended {code}")] += 1
            if code not in (KILLED, PAUSED):
                break
        log = (folder / "log").read_text().splitlines() if (folder / "log").exists() else []
        twice = [line for line, count in Counter(log).items() if count > 1 and not line.startswith("put")]
        wrong = [f"seed {seed}: twice: {line}" for line in twice]
        return wrong + ([f"seed {seed}: it ended with {code}"] if code != FINISHED else [])


def child(folder: str, seed: int, limit: int) -> None:
    _left[0] = limit
    code = asyncio.run(work(Path(folder), seed))
    os._exit(code)


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    happened: Counter[str] = Counter()
    wrong = [line for seed in range(first, first + count) for line in play(seed, happened)]
    print(dict(happened))
    print("\n".join(wrong))
    sys.exit(bool(wrong))
