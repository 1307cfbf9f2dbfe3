"""The work that is measured: the same functions and arguments for the bare run, for Ferrule and for its peers."""

from __future__ import annotations

import json
import time
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

FORECAST_CALL = '{"city": "Lisbon", "days": 5, "unit": "celsius"}'
INVALID_CALL = '{"days": "soon", "unit": "celsius", "town": "Lisbon"}'
"""A wrong type, a missing field and an unknown one."""


class ForecastParams(BaseModel):
    """What Ferrule derives from `forecast`, written out for the bare work."""

    model_config = ConfigDict(extra="forbid")

    city: str
    days: int = 3
    unit: Literal["celsius", "fahrenheit"] = "celsius"


async def forecast(city: str, days: int = 3, unit: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """The weather of the next days."""
    return f"{days} days of sun in {city}, in {unit}"


def forecast_sync(city: str, days: int = 3, unit: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """The weather of the next days."""
    return f"{days} days of sun in {city}, in {unit}"


class Line(BaseModel):
    """One item of an order."""

    model_config = ConfigDict(extra="forbid")

    sku: str
    title: str
    quantity: int
    price: float
    taxed: bool


class OrderParams(BaseModel):
    """What Ferrule derives from `place_order`, written out for the bare work."""

    model_config = ConfigDict(extra="forbid")

    customer: str
    lines: list[Line]


async def place_order(customer: str, lines: list[Line]) -> str:
    """Place an order."""
    return f"{len(lines)} lines for {customer}"


def _line(number: int) -> dict[str, Any]:
    return {
        "sku": f"SKU-{number:05}",
        "title": f"A thing of the sort {number}",
        "quantity": number + 1,
        "price": 9.5 + number,
        "taxed": number % 2 == 0,
    }


ORDER_CALL = json.dumps({"customer": "Ada", "lines": [_line(number) for number in range(20)]})


async def nap(number: int) -> int:
    """Sleep for 50 ms."""
    import asyncio

    await asyncio.sleep(0.05)
    return number


def nap_sync(number: int) -> int:
    """Sleep for 50 ms."""
    time.sleep(0.05)
    return number


async def bare_forecast() -> str:
    """What a program without any tool runtime would do with a call."""
    params = ForecastParams.model_validate(json.loads(FORECAST_CALL))
    return await forecast(params.city, params.days, params.unit)


async def bare_order() -> str:
    params = OrderParams.model_validate(json.loads(ORDER_CALL))
    return await place_order(params.customer, params.lines)
