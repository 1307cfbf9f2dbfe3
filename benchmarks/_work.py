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


class Discount(BaseModel):
    """Something off the price."""

    code: str
    percent: float = 10.0


class Line(BaseModel):
    """One item of an order."""

    sku: str
    title: str
    quantity: int = 1
    price: float
    taxed: bool = True
    tags: list[str] = []
    discounts: list[Discount] = []
    note: str | None = None


class OrderParams(BaseModel):
    """What Ferrule derives from `place_order`, written out for the bare work."""

    model_config = ConfigDict(extra="forbid")

    customer: str
    lines: list[Line]
    express: bool = False


async def place_order(customer: str, lines: list[Line], express: bool = False) -> str:
    """Place an order."""
    return f"{len(lines)} lines for {customer}"


def place_order_sync(customer: str, lines: list[Line], express: bool = False) -> str:
    """Place an order."""
    return f"{len(lines)} lines for {customer}"


def _line(number: int) -> dict[str, Any]:
    line: dict[str, Any] = {
        "sku": f"SKU-{number:05}",
        "title": f"A thing of the sort {number}",
        "price": 9.5 + number,
        "tags": ["new", "large", f"shelf {number}"],
    }
    if number % 2:
        line |= {"quantity": number + 1, "discounts": [{"code": "SPRING"}, {"code": "TEAM", "percent": 5.5}]}
    return line


ORDER_CALL = json.dumps({"customer": "Ada", "lines": [_line(number) for number in range(20)]})
"""Twenty lines with a list in each, in half of them a list of models too; what has a default is mostly left out."""


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
    return await place_order(params.customer, params.lines, params.express)


async def straight_forecast() -> str:
    """The same by the quickest way that pydantic has, straight from the text."""
    params = ForecastParams.model_validate_json(FORECAST_CALL)
    return await forecast(params.city, params.days, params.unit)


async def straight_order() -> str:
    params = OrderParams.model_validate_json(ORDER_CALL)
    return await place_order(params.customer, params.lines, params.express)
