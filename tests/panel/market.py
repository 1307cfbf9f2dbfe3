"""A market on this machine that the panel of a test can search and install from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ferrule.plugins.market import add_market
from ferrule.plugins.publish import publish
from tests.plugins.market_site import serving


class LoopbackMarket:
    """A folder of wheels, published as the market `acme` whenever one is added."""

    def __init__(self, folder: Path) -> None:
        self.dist = folder / "dist"
        self.site = folder / "site"
        self._key = folder / "market.key"

    def publish(self) -> str:
        return publish(self.dist, self._key, self.site).key


@asynccontextmanager
async def market_with(folder: Path, *make: Callable[[Path], Path]) -> AsyncGenerator[LoopbackMarket]:
    """`make` are functions that put a wheel into the folder that they are given."""
    market = LoopbackMarket(folder)
    for one in make:
        one(market.dist)
    key = market.publish()
    with serving(market.site) as site:
        await asyncio.to_thread(add_market, "acme", site.url, key)
        yield market
