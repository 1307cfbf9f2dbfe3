"""A support agent: it looks orders up, refunds them once a person approves, and answers in a fixed form."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pydantic import BaseModel, Field
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, RunContext
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.models import Model, infer_model


@dataclass
class Shop:
    customer: str
    orders: dict[str, int]
    refunds: dict[str, int] = field(default_factory=dict[str, int])


class Reply(BaseModel):
    """The answer to the customer."""

    text: str
    refunded_cents: int = Field(ge=0, description="What was refunded, in cents.")


agent = Agent(deps_type=Shop, output_type=Reply, instructions="You help customers of a shop.")


@agent.tool
def find_order(ctx: RunContext[Shop], order: str) -> int:
    """Find out how many cents were paid for an order. Use this before any refund."""
    if order not in ctx.deps.orders:
        raise ModelRetry(f"{ctx.deps.customer} has no order {order}.")
    return ctx.deps.orders[order]


@agent.tool(requires_approval=True)
def refund_order(ctx: RunContext[Shop], order: str, cents: int) -> str:
    """Pay money back. Use this when goods arrived broken."""
    if cents > ctx.deps.orders[order]:
        raise ModelRetry(f"Only {ctx.deps.orders[order]} cents were paid.")
    ctx.deps.refunds[order] = cents
    return "refunded"


@agent.output_validator
def check_amount(ctx: RunContext[Shop], reply: Reply) -> Reply:
    refunded = sum(ctx.deps.refunds.values())
    if reply.refunded_cents != refunded:
        raise ModelRetry(f"{refunded} cents were refunded.")
    return reply


async def help_customer(model: Model, shop: Shop, text: str, approve: Callable[[str], Awaitable[bool]]) -> Reply:
    async def ask(ctx: RunContext[Shop], requests: DeferredToolRequests) -> DeferredToolResults:
        results = DeferredToolResults()
        for call in requests.approvals:
            refund = call.args_as_dict()
            results.approvals[call.tool_call_id] = await approve(
                f"Refund {refund.get('cents')} cents of order {refund.get('order')}"
            )
        return results

    asking = HandleDeferredToolCalls(handler=ask)
    return (await agent.run(text, model=model, deps=shop, capabilities=[asking])).output


async def approve_here(summary: str) -> bool:
    return await asyncio.to_thread(input, f"{summary}? [y/N] ") == "y"


if __name__ == "__main__":
    ann = Shop("Ann", {"A1": 1999, "B2": 450})
    claude = infer_model("anthropic:claude-sonnet-4-5")
    print(asyncio.run(help_customer(claude, ann, sys.argv[1], approve_here)))
