"""A few tools that note what they did, and programs over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypedDict

from ferrule import Runtime, ToolContext, ToolError, ToolResult, tool
from ferrule.agent import Agent, TurnStore
from ferrule.code import RunCode
from ferrule.testing import ScriptedModel


class Order(TypedDict):
    id: int
    customer: str
    amount: float


class Shop:
    """`did` is everything that was done, in order; with a `folder`, also as lines of a file there."""

    def __init__(self, folder: Path | None = None) -> None:
        self.did: list[str] = []
        self._file = folder / "did" if folder is not None else None
        self.folder = folder

        @tool(kind="readonly")
        def find_orders(customer: str = "", status: Literal["open", "paid"] = "open") -> list[Order]:
            """Find orders.

            Args:
                customer: Only those of this customer.
            """
            self.note(f"find {customer} {status}")
            return [{"id": n, "customer": customer or f"c{n % 3}", "amount": n * 10.0} for n in range(6)]

        @tool(kind="readonly")
        def look(number: int) -> int:
            """Look at a number."""
            self.note(f"look {number}")
            return number * 2

        @tool(kind="write", requires_permission=True)
        def refund(order: int) -> str:
            """Refund an order."""
            self.note(f"refund {order}")
            return f"refunded {order}"

        @tool(kind="write")
        def note(text: str) -> str:
            """Write a note."""
            self.note(f"note {text}")
            return text

        @tool(kind="readonly")
        def missing(name: str) -> str:
            """Look for what is not there."""
            raise ToolError(f"There is no `{name}`.", kind="not_found_error", suggestion="Look elsewhere.")

        @tool(kind="readonly")
        async def stall(context: ToolContext) -> str:
            """Wait for something that never comes."""
            import asyncio

            self.note("stall")
            try:
                await asyncio.sleep(600)
            finally:
                self.note("stopped")
            return ""

        @tool(kind="readonly")
        def big(megabytes: int) -> str:
            """Give much."""
            return "x" * (megabytes * 1_000_000)

        self.find_orders, self.look, self.refund, self.write_note = find_orders, look, refund, note
        self.tools: list[Any] = [find_orders, look, refund, note, missing, stall, big]

    def note(self, text: str) -> None:
        self.did.append(text)
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(f"{text}\n")

    def runtime(self, **options: Any) -> Runtime:
        code = {key: options.pop(key) for key in ("limits",) if key in options}
        return Runtime([RunCode(self.tools, **code)], **options)

    def agent(self, replies: list[Any], *more: Any, **options: Any) -> Agent[Any, Any]:
        """One that is shown `run_code` alone, over a store that a test may open again."""
        assert self.folder is not None
        store = options.pop("turns", None) or TurnStore(self.folder / "turns.db")
        given = {key: options.pop(key) for key in ("recorders", "session", "policy") if key in options}
        ask = options.pop("ask", lambda question: "later")
        return Agent(
            ScriptedModel(replies), runtime=Runtime([RunCode([*self.tools, *more])], ask=ask, **given), turns=store,
            **options,
        )  # fmt: skip


async def run(code: str, *, shop: Shop | None = None, **options: Any) -> ToolResult[Any]:
    """The result of a program."""
    return await (shop or Shop()).runtime(**options).run("run_code", {"code": code})
