"""A Ferrule of its own, as any user: takes the calls of one session as a line of JSON, and answers with their results.

`python -m tests.builtin.shell_server`, so that a case of the tests runs in a real process that can be another user's,
and that can be killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, cast

from tests.says_yes import SaysYes

from ferrule import Environment, RawCall, RulePolicy, Runtime, Session, ToolResult
from ferrule.builtin.all_tools import builtin_tools
from ferrule.builtin.session_shells import close_shell
from ferrule.core.context import SandboxChoice
from ferrule.workspace.files import files_of

SECONDS = 60


async def answer(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of all calls, one after the other in one session; a list of calls is a batch."""
    policy: Any = SaysYes()
    if "rules" in asked:
        policy = RulePolicy(**cast("dict[str, Any]", {"mode": "bypass", **asked["rules"]}))
    environment = Environment(sandbox=SandboxChoice(**asked.get("sandbox", {})))
    session = Session(workspace=Path(asked["workspace"]), environment=environment)
    runtime = Runtime(builtin_tools(family="all"), policy=policy, session=session)
    results: list[dict[str, Any]] = []
    try:
        for step in asked["steps"]:
            if step[0] == "undo":
                report = files_of(session).history.undo()
                results.append({"words": str(report), "data": None, "error": None, "details": None})
            elif step[0] == "batch":
                results += map(_told, await runtime.batch([RawCall(*one) for one in step[1]]))
            else:
                results.append(_told(await asyncio.wait_for(runtime.run(*step), SECONDS)))
    finally:
        await close_shell(session)
    return results


def _told(result: ToolResult) -> dict[str, Any]:
    error = result.error
    return {
        "words": result.llm_content,
        "data": result.data,
        "error": error.kind.value if error else None,
        "details": error.details if error else None,
    }


def main() -> None:
    for line in sys.stdin:
        try:
            told: Any = asyncio.run(answer(json.loads(line)))
        except Exception as error:  # the test is told
            told = f"{type(error).__name__}: {error}"
        print(json.dumps(told, default=str), flush=True)


if __name__ == "__main__":
    main()
