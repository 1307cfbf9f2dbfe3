"""A market on this machine that the panel of a test can search and install from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

from ferrule.plugins.market import add_market
from ferrule.plugins.publish import FILES, publish
from ferrule.plugins.signed_index import INDEX_FILE, PLUGIN_META, check, load_key, public_key, sign
from tests.plugins.market_site import serving


class LoopbackMarket:
    """A folder of wheels, published as the market `acme` whenever one is added."""

    def __init__(self, folder: Path) -> None:
        self.dist = folder / "dist"
        self.site = folder / "site"
        self._key = folder / "market.key"

    def publish(self) -> str:
        return publish(self.dist, self._key, self.site).key

    def put_unchecked(self, wheel: Path, name: str) -> None:
        """Put a wheel in place of the published one, as a market does that does not look at what it offers."""
        key = load_key(self._key)
        index = json.loads(check((self.site / INDEX_FILE).read_bytes(), public_key(key), "the index"))
        data = wheel.read_bytes()
        (self.site / FILES / wheel.name).write_bytes(data)
        meta = next(one for one in index["servers"] if one["server"]["name"] == name)["_meta"][PLUGIN_META]
        meta["files"][0] |= {"sha256": sha256(data).hexdigest(), "size": len(data)}
        index["metadata"]["serial"] += 1
        (self.site / INDEX_FILE).write_bytes(sign(json.dumps(index).encode(), key))


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
