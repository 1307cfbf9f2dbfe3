"""What a call from a program costs, and what programs save: `python benchmarks/code_mode.py`.

The same program runs in `run_code`, and in the bare interpreter with `Runtime.run` for each call. Then one task is done
twice, with the tools and with `run_code`. Prints tables and exits with 1 when a call from a program costs more than
50 µs over the two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from time import thread_time
from typing import TYPE_CHECKING, Any, TypedDict

import pydantic_monty

from ferrule import RawCall, Runtime, ToolContext, tool
from ferrule.agent import Agent
from ferrule.agent.compaction import tokens_of
from ferrule.agent.turn_log import to_form
from ferrule.code import CodeLimits, RunCode
from ferrule.core.model import AssistantMessage, Finished, ModelEvent, ModelRequest, Usage
from ferrule.dialects.exporter import Exporter
from ferrule.testing import ScriptedModel, call, say

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

BAR = 50.0
"""Microseconds."""
MANY = 300


@tool(kind="readonly")
async def look(number: int) -> int:
    """Look something up."""
    return number


def program(count: int) -> str:
    return f"total = 0\nfor number in range({count}):\n    total += await look(number=number)\ntotal"


@tool(kind="readonly", may_block=False)
async def in_bare(count: int, context: ToolContext) -> int:
    """Drive the bare interpreter, with the same types to check, and give it what `Runtime.run` gives."""
    stubs = "async def look(number: int) -> int: ..."
    limits: Any = {"max_feed_duration_secs": 10.0, "max_memory": 128_000_000, "max_suspensions": 10**8}
    async with (
        pydantic_monty.AsyncMonty(min_processes=1, max_processes=1) as pool,
        pool.checkout(limits=limits, type_check=True, type_check_stubs=stubs) as session,
    ):
        step: Any = await session.feed_start(program(count))
        arguments: dict[str, Any] = {}
        while not isinstance(step, pydantic_monty.MontyComplete):
            if isinstance(step, pydantic_monty.AsyncFutureSnapshot):
                result = await context.call("look", arguments)
                step = await step.resume({step.pending_call_ids[0]: {"return_value": result.data}})
            else:
                arguments = step.kwargs
                step = await step.resume({"future": ...})
        return step.output


async def overhead(rounds: int) -> dict[str, float]:
    """Microseconds of CPU of this thread for one call, from programs with many calls and with none, in turn."""
    runtime = Runtime([look, in_bare, RunCode([look], limits=CodeLimits(calls=MANY))])
    kinds: dict[str, Callable[[int], RawCall]] = {
        "run_code": lambda count: RawCall("run_code", {"code": program(count)}),
        "Runtime.run + bare interpreter": lambda count: RawCall("in_bare", {"count": count}),
    }
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, call_of in kinds.items():
            spent: list[float] = []
            for count in (0, MANY):
                began = thread_time()
                assert (await runtime.run(call_of(count))).success
                spent.append(thread_time() - began)
            taken[name].append((spent[1] - spent[0]) / MANY * 1e6)
    # Interference only ever adds time, so the best round is the truest.
    sums = {name: min(times) for name, times in taken.items()}
    return sums | {"added": sums["run_code"] - sums["Runtime.run + bare interpreter"]}


# One task, twice: remind the customers whose invoices are overdue.


class Invoice(TypedDict):
    number: int
    customer: str
    amount: float
    days_overdue: int
    address: str
    lines: list[str]


CUSTOMERS = ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Joe", "Kim", "Lou"]


@tool(kind="readonly")
async def list_customers(region: str) -> list[str]:
    """List the names of the customers of a region."""
    return CUSTOMERS


@tool(kind="readonly")
async def find_invoices(customer: str, status: str = "open") -> list[int]:
    """Find the numbers of a customer's invoices."""
    at = CUSTOMERS.index(customer)
    return [at * 10, at * 10 + 1]


@tool(kind="readonly")
async def get_invoice(number: int) -> Invoice:
    """Get an invoice with its lines."""
    overdue = number % 7 * 10 - 20
    lines = [f"{n} × article {number}-{n}, delivered as ordered" for n in range(8)]
    return {
        "number": number, "customer": CUSTOMERS[number // 10], "amount": number * 12.5, "days_overdue": overdue,
        "address": f"{number} Long Street, 1234 Town", "lines": lines,
    }  # fmt: skip


@tool(kind="write", requires_permission=True)
async def send_reminder(number: int, days_overdue: int) -> str:
    """Send a reminder for an overdue invoice."""
    return f"reminded of {number}"


CODE = """
import asyncio
numbers = await asyncio.gather(*[find_invoices(one) for one in await list_customers("north")])
invoices = await asyncio.gather(*[get_invoice(n) for listed in numbers for n in listed])
late = [one for one in invoices if one["days_overdue"] > 30]
await asyncio.gather(*[send_reminder(one["number"], one["days_overdue"]) for one in late])
print(f"{len(late)} of {len(invoices)} invoices are late:", sum(one["amount"] for one in late))
"""
TOOLS: list[Any] = [list_customers, find_invoices, get_invoice, send_reminder]


class Counting:
    """A scripted model that counts what it is sent and what it says, as Ferrule estimates tokens."""

    name, context_tokens = "counting", 1_000_000

    def __init__(self, replies: list[Any]) -> None:
        self._inner = ScriptedModel(replies)
        self._exporter = Exporter("anthropic")
        self.requests = self.read = self.written = self.definitions = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests += 1
        self.definitions = tokens_of(json.dumps(self._exporter.definitions(request.tools), default=dict))
        self.read += self.definitions + sum(tokens_of(json.dumps(to_form(one))) for one in request.messages)
        async for event in self._inner.stream(request):
            if isinstance(event, Finished):
                self.written += tokens_of(json.dumps(to_form(event.message)))
                event = Finished(AssistantMessage(event.message.text, event.message.calls), Usage(), event.stop)
            yield event

    async def close(self) -> None:
        """Nothing is open."""


async def task(tools: list[Any], replies: list[Any]) -> Counting:
    model = Counting(replies)
    ended = await Agent(model, runtime=Runtime(tools, ask=lambda question: "once")).answer(
        "Remind the customers of the region north whose invoices are more than 30 days overdue. What do they owe?"
    )
    assert ended.text == "Done."
    return model


async def savings() -> dict[str, Counting]:
    numbers = [n for at in range(len(CUSTOMERS)) for n in (at * 10, at * 10 + 1)]
    late = [n for n in numbers if n % 7 * 10 - 20 > 30]
    one_by_one: list[Any] = [
        call("list_customers", {"region": "north"}),
        say("", *(call("find_invoices", {"customer": one}) for one in CUSTOMERS)),
        say("", *(call("get_invoice", {"number": n}) for n in numbers)),
        say("", *(call("send_reminder", {"number": n, "days_overdue": n % 7 * 10 - 20}) for n in late)),
        "Done.",
    ]
    return {
        "one by one": await task(TOOLS, one_by_one),
        "in a program": await task([RunCode(TOOLS)], [call("run_code", {"code": CODE}), "Done."]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    costs = asyncio.run(overhead(5 if given.quick else 25))
    saved = asyncio.run(savings())
    sums = {
        name: {"requests": one.requests, "definitions": one.definitions, "read": one.read, "written": one.written}
        for name, one in saved.items()
    }
    if given.json:
        print(json.dumps({"cpu_us_per_call": costs, "task": sums}))
    else:
        for name, cost in costs.items():
            print(f"{name:<32}{cost:>8.1f} µs of CPU for a call")
        print(f"\n{'':<18}{'requests':>10}{'definitions':>13}{'tokens read':>13}{'tokens written':>16}")
        for name, one in sums.items():
            requests, definitions, read, written = one.values()
            print(f"{name:<18}{requests:>10,}{definitions:>13,}{read:>13,}{written:>16,}")
    sys.exit(costs["added"] > BAR)


if __name__ == "__main__":
    main()
