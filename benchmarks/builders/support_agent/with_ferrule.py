"""A support agent: it looks orders up, refunds them once a person approves, and answers in a fixed form."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pydantic import BaseModel, Field

from ferrule import Question, Runtime, ToolContext, ToolError, tool
from ferrule.agent import Agent
from ferrule.models import Model, open_model


@dataclass
class Shop:
    customer: str
    orders: dict[str, int]
    refunds: dict[str, int] = field(default_factory=dict[str, int])


class Reply(BaseModel):
    """The answer to the customer."""

    text: str
    refunded_cents: int = Field(ge=0, description="What was refunded, in cents.")


@tool(kind="readonly")
def find_order(order: str, context: ToolContext[Shop]) -> int:
    """Find out how many cents were paid for an order. Use this before any refund."""
    if order not in context.deps.orders:
        raise ToolError(f"{context.deps.customer} has no order {order}.")
    return context.deps.orders[order]


@tool(kind="write", summary="Refund {cents} cents of order {order}")
def refund_order(order: str, cents: int, context: ToolContext[Shop]) -> str:
    """Pay money back. Use this when goods arrived broken."""
    if cents > context.deps.orders[order]:
        raise ToolError(f"Only {context.deps.orders[order]} cents were paid.")
    context.deps.refunds[order] = cents
    return "refunded"


def check_amount(context: ToolContext[Shop], reply: Reply) -> None:
    refunded = sum(context.deps.refunds.values())
    if reply.refunded_cents != refunded:
        raise ToolError(f"{refunded} cents were refunded.")


async def help_customer(model: Model, shop: Shop, text: str, approve: Callable[[str], Awaitable[bool]]) -> Reply:
    async def ask(question: Question) -> str:
        return "once" if await approve(question.summary) else "no"

    runtime = Runtime([find_order, refund_order], ask=ask)
    agent = Agent(model, runtime=runtime, system="You help customers of a shop.", deps_type=Shop, output=Reply)
    agent.output_validator(check_amount)
    return (await agent.answer(text, deps=shop)).output


async def approve_here(summary: str) -> bool:
    return await asyncio.to_thread(input, f"{summary}? [y/N] ") == "y"


if __name__ == "__main__":
    ann = Shop("Ann", {"A1": 1999, "B2": 450})
    claude = open_model("anthropic/claude-sonnet-4-5")
    print(asyncio.run(help_customer(claude, ann, sys.argv[1], approve_here)))
