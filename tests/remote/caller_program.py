"""A caller for the tests, in a process of its own, which dies where it is told to."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from typing import Any

from ferrule.core.call import RawCall
from ferrule.pipeline.run import Runtime
from ferrule.policy.decide import RulePolicy
from ferrule.remote.caller import RemoteCalls
from ferrule.remote.link import NatsLink
from ferrule.remote.wire import Nkey
from tests.remote.worker_program import TOOLS


def arm(step: str, when: str) -> None:
    def strike(subject: str, now: str) -> None:
        if now == when and subject.partition(".")[0] == step:
            os.kill(os.getpid(), signal.SIGKILL)

    ask, tell = NatsLink.ask, NatsLink.tell

    async def striking_ask(self: NatsLink, subject: str, *more: Any, **named: Any) -> Any:
        strike(subject, "before")
        answer = await ask(self, subject, *more, **named)
        strike(subject, "after")
        return answer

    async def striking_tell(self: NatsLink, subject: str, *more: Any, **named: Any) -> None:
        strike(subject, "before")
        await tell(self, subject, *more, **named)
        if when == "after":
            await self.connection.flush()
        strike(subject, "after")

    NatsLink.ask, NatsLink.tell = striking_ask, striking_tell  # type: ignore[method-assign]


async def main(given: dict[str, Any]) -> None:
    if given.get("step"):
        arm(given["step"], given["when"])
    remote = RemoteCalls(given["url"], Nkey(given["seed"]), pools={given["pool"]: ["*"]}, lease=given["lease"])
    runtime = Runtime(TOOLS, remote=remote, policy=RulePolicy(mode="bypass"))
    print("calling", flush=True)
    result = await runtime.run(RawCall(given["tool"], given["arguments"]))
    print(json.dumps({"said": result.llm_content, "data": result.data, "clock": time.time()}), flush=True)
    await remote.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
