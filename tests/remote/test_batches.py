"""A batch over random pools and faults gives what running it here, one by one, gives, or says `lost` (P5, O6)."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import AsyncExitStack
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule import Runtime, tool
from ferrule.core.access import reads, writes
from ferrule.core.call import RawCall
from ferrule.core.result import ToolResult
from ferrule.policy.decide import RulePolicy
from ferrule.remote.job import RemoteJob
from tests.remote.places import Server, calling, working

pytestmark = pytest.mark.slow

LEASE = 1.0
STORE: dict[str, str] = {}
FREE = RulePolicy(mode="bypass")


@tool(kind="write", touches=writes("store", "{key}"))
async def append(key: str, text: str) -> str:
    """Append to a value. Use this to add."""
    await asyncio.sleep(0)
    STORE[key] = STORE.get(key, "") + text
    return STORE[key]


@tool(kind="write", idempotent=True, touches=writes("store", "{key}"))
async def put(key: str, text: str) -> str:
    """Set a value. Use this to set."""
    STORE[key] = text
    return text


@tool(kind="readonly", idempotent=True, touches=reads("store", "{key}"))
def look(key: str) -> str:
    """Look at a value. Use this to read."""
    return STORE.get(key, "nothing")


TOOLS = [append, put, look]
KEYS = st.sampled_from("ab")
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), KEYS, st.sampled_from("xyz")),
        st.tuples(st.just("put"), KEYS, st.sampled_from("01")),
        st.tuples(st.just("look"), KEYS),
    ),
    min_size=1,
    max_size=6,
)
POOLS = st.fixed_dictionaries({name: st.sampled_from(["here", "one", "two"]) for name in ("append", "put", "look")})
FAULTS = st.dictionaries(st.integers(0, 5), st.sampled_from(["before", "after"]), max_size=2)


def raw(calls: list[tuple[str, ...]]) -> list[RawCall]:
    names = ("key", "text")
    return [
        RawCall(tool, dict(zip(names, given, strict=False)), id=f"c{number}")
        for number, (tool, *given) in enumerate(calls)
    ]


def is_lost(result: ToolResult) -> bool:
    return result.error is not None and bool((result.error.details or {}).get("lost"))


async def one_by_one(calls: list[RawCall]) -> list[str]:
    """What these calls give here, one after the other."""
    STORE.clear()
    runtime = Runtime(TOOLS, policy=FREE)
    return [(await runtime.run(call)).llm_content for call in calls]


async def check(server: Server, calls: list[tuple[str, ...]], pools: dict[str, str], faults: dict[int, str]) -> None:
    suffix = uuid.uuid4().hex[:8]
    routes = {f"{name}-{suffix}": [one for one, at in pools.items() if at == name] for name in ("one", "two")}
    struck: set[str] = set()
    run = RemoteJob.run

    async def faulty(job: RemoteJob) -> None:
        """Vanish, as a worker that dies does: before the tool runs, or after it and before the result is reported."""
        call_id = job.call.call_id
        how = faults.get(int(call_id[1:]))
        if how is None or call_id in struck:
            return await run(job)
        struck.add(call_id)
        if how == "after":

            async def unreported(_: Any) -> None: ...

            job._finish = unreported  # type: ignore[method-assign]
            await run(job)
        return None

    STORE.clear()
    RemoteJob.run = faulty  # type: ignore[method-assign]
    try:
        async with AsyncExitStack() as around:
            for pool in routes:
                for _ in range(2):
                    await around.enter_async_context(working(server, pool, TOOLS, lease=LEASE))
            entered = calling(server, "x", TOOLS, pools=routes, lease=LEASE, policy=FREE)
            runtime = await around.enter_async_context(entered)
            results = await runtime.batch(raw(calls))
    finally:
        RemoteJob.run = run  # type: ignore[method-assign]
    lost = [number for number, one in enumerate(results) if is_lost(one)]
    assert all(one.success for number, one in enumerate(results) if number not in lost), results
    assert set(lost) <= set(faults), "only what was struck is lost"
    kept = [number for number in range(len(calls)) if number not in lost]
    told = [results[number].llm_content for number in kept]
    for happened in product((True, False), repeat=len(lost)):
        done = {number for number, one in zip(lost, happened, strict=True) if one} | set(kept)
        chosen = [number for number in range(len(calls)) if number in done]
        given_here = await one_by_one(raw([calls[number] for number in chosen]))
        if [text for number, text in zip(chosen, given_here, strict=True) if number in kept] == told:
            return
    pytest.fail(f"{told} comes of no order: {calls}, lost {lost}")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(calls=CALLS, pools=POOLS, faults=FAULTS)
def test_a_batch_is_what_running_it_one_by_one_is(
    server: Server, calls: list[tuple[str, ...]], pools: dict[str, str], faults: dict[int, str]
) -> None:
    asyncio.run(check(server, calls, pools, faults))
