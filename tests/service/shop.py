"""A small business for tests: what it sells, and the intents that its users have."""

from __future__ import annotations

from datetime import date
from typing import Any

from pydantic import BaseModel, Field

from ferrule.client import AsyncClient


class Order(BaseModel):
    """What a customer ordered."""

    customer: str = Field(description="Who ordered")
    total: float = Field(ge=0)
    status: str = "open"
    due: date | None = None
    urgent: bool = False
    pieces: int = 1


FIELDS: dict[str, Any] = {
    "customer": {"type": "string", "description": "Who ordered"},
    "total": {"type": "number", "description": "The price in euros"},
    "status": {"type": "string", "description": "open, paid or sent"},
    "id": {"type": "string", "description": "The number of the order"},
}


def taking(*names: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Parameters of an intent."""
    return {"type": "object", "properties": {name: FIELDS[name] for name in names}, "required": list(required)}


INTENTS: dict[str, dict[str, Any]] = {
    "find_orders": {
        "description": "Find orders by their status and customer, the largest first.",
        "parameters": taking("status", "customer"),
        "handler": {"type": "query", "entity": "order", "order": ["-total"]},
        "cache": True,
    },
    "new_order": {
        "description": "Take a new order of a customer.",
        "parameters": taking("customer", "total", required=("customer", "total")),
        "handler": {"type": "data", "operation": "create", "entity": "order"},
    },
    "close_order": {
        "description": "Mark an order as sent to its customer.",
        "parameters": taking("id", required=("id",)),
        "handler": {"type": "data", "operation": "update", "entity": "order", "values": {"status": "sent"}},
    },
    "drop_order": {
        "description": "Delete an order that was a mistake.",
        "parameters": taking("id", required=("id",)),
        "handler": {"type": "data", "operation": "delete", "entity": "order"},
    },
}
ALLOW = ["intent__new_order", "intent__close_order", "intent__drop_order"]


async def open_shop(client: AsyncClient, *codes: str) -> None:
    for code in codes or INTENTS:
        await client.put_intent(code, **INTENTS[code])


async def order(client: AsyncClient, customer: str, total: float) -> dict[str, Any]:
    """Take an order where no approval is needed."""
    made = await client.run_intent("new_order", {"customer": customer, "total": total})
    assert made.status == "succeeded", made
    return made.data["rows"][0]
